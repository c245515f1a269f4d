"""Routes that use the model: explanations, what-ifs, and long computations in the background."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import ValidationError

from tagtrace._checks import OptionError
from tagtrace._progress import Progress
from tagtrace.influence import Edit
from tagtrace.influence import Query as Question
from tagtrace.review.http import answer_shapes as answers
from tagtrace.review.http.answer import Answer
from tagtrace.review.http.request_bodies import JobBody, SupposeBody
from tagtrace.review.model.model import Model
from tagtrace.review.review import Review

Text = Annotated[str, Query(max_length=10_000)]


def asking_routes(review: Review) -> APIRouter:
    router = APIRouter(prefix="/api", default_response_class=Answer)

    @router.get(
        "/why",
        responses=answers.documented(answers.WhyAnswer),
        summary="The training segments that support and oppose a prediction",
    )
    def why(
        sentence: Text, start: int, stop: int, target: Text = "predicted", score: Text = "cosine",
        curvature: Text = "identity", kind: Text = "token", top: int = 20,
        data: Annotated[Literal["dev", "train"] | None, Query()] = None,
        wait: Annotated[
            bool, Query(description="False: use the identity, or the cosine, if the answer is not prepared yet")
        ] = True,
    ) -> Answer:  # fmt: skip
        model = review.the_model()
        query, origin = model.ask(sentence, start, stop, target, data)
        return Answer(model.why(query, origin, score, curvature, kind, top, wait=wait))

    @router.post(
        "/what-if",
        responses=answers.documented(answers.WhatIfAnswer),
        summary="The effect of changed training labels on a prediction",
    )
    def what_if(body: SupposeBody) -> Answer:
        model = review.the_model()
        return Answer(model.what_if(*_supposed(model, body)))

    @router.post(
        "/jobs",
        responses=answers.documented(answers.JobStarted, 201),
        status_code=201,
        summary="Start a job that retrains the head (verify) or the whole tagger (retrain), says how long that takes "
        "(expect), or computes a curvature (prepare)",
    )
    def start_job(body: JobBody) -> Answer:
        model = review.the_model()
        if body.kind == "expect":

            def work(progress: Progress) -> dict[str, Any]:  # noqa: ARG001
                return {"seconds": model.retrain_seconds}

        elif body.kind == "prepare":
            number = model.questions = model.questions + 1

            def work(progress: Progress) -> dict[str, Any]:
                if body.what_if:
                    return model.prepare_edits(progress)
                if body.score == "whole" and number != model.questions:
                    return {"curvature": body.curvature}  # another prediction is looked at by now
                if body.score == "whole":
                    asked = _suppose_body(body)
                    question = model.ask(asked.sentence, asked.start, asked.stop, asked.target, asked.data)
                    model.why(*question, body.score, body.curvature, body.training, body.top)
                    return {"curvature": body.curvature}
                return model.prepare(body.curvature, body.score, body.training, progress)

        else:
            query, edits = _supposed(model, _suppose_body(body))

            def work(progress: Progress) -> dict[str, Any]:
                if body.kind == "retrain":
                    return model.retrain(query, edits, progress)
                return model.what_if(query, edits, verify=True, progress=progress)

        lane = "long" if body.kind in ("retrain", "expect") else "short"
        return Answer({"job": review.jobs.start(work, lane)}, 201)

    @router.get(
        "/jobs/{number}",
        responses=answers.documented(answers.JobAnswer),
        summary="The progress and the result of a job",
    )
    def job(number: int) -> Answer:
        return Answer(review.jobs.get(number).to_json())

    return router


def _suppose_body(body: JobBody) -> SupposeBody:
    try:
        return SupposeBody.model_validate(body.model_extra or {})
    except ValidationError as error:
        first = error.errors()[0]
        raise OptionError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def _supposed(model: Model, body: SupposeBody) -> tuple[Question, list[Edit]]:
    """The prediction and the hypothetical edits of a what-if."""
    query, _ = model.ask(body.sentence, body.start, body.stop, body.target, body.data)
    return query, model.edits(
        [(one.sentence_number, one.start, one.stop, one.labels) for one in body.edits], body.pattern
    )
