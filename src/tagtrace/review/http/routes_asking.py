"""Routes that use the model: explanations, what-ifs, and long computations in the background."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query

from tagtrace._progress import Progress
from tagtrace.influence import Edit
from tagtrace.influence import Query as Question
from tagtrace.review.http import answer_shapes as answers
from tagtrace.review.http.answer import Answer
from tagtrace.review.http.bounds import Id, Name, Text, Token, Top
from tagtrace.review.http.lane import Lane
from tagtrace.review.http.request_bodies import ExpectBody, JobBody, PrepareBody, SupposeBody
from tagtrace.review.model.model import Model
from tagtrace.review.review import Review


def asking_routes(review: Review, lane: Lane) -> APIRouter:
    router = APIRouter(prefix="/api", default_response_class=Answer)

    @router.get(
        "/why",
        responses=answers.documented(answers.WhyAnswer),
        summary="The training segments that support and oppose a prediction",
    )
    @lane
    def why(
        sentence: Text, start: Token, stop: Token, target: Text = "predicted", score: Name = "cosine",
        curvature: Name = "identity", kind: Name = "token", top: Top = 20,
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
    @lane
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
    @lane
    def start_job(body: JobBody) -> Answer:
        model = review.the_model()
        if isinstance(body, ExpectBody):

            def work(progress: Progress) -> dict[str, Any]:  # noqa: ARG001
                return {"seconds": model.retrain_seconds}

        elif isinstance(body, PrepareBody):
            number = model.questions = model.questions + 1

            def work(progress: Progress) -> dict[str, Any]:
                if body.what_if:
                    return model.prepare_edits(progress)
                if body.score == "whole" and number != model.questions:
                    return {"curvature": body.curvature}  # another prediction is looked at by now
                if body.score == "whole":
                    question = model.ask(body.sentence, body.start, body.stop, body.target, body.data)
                    model.why(*question, body.score, body.curvature, body.training, body.top)
                    return {"curvature": body.curvature}
                return model.prepare(body.curvature, body.score, body.training, progress)

        else:
            query, edits = _supposed(model, body)

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
    def job(number: Id) -> Answer:
        return Answer(review.jobs.get(number).to_json())

    return router


def _supposed(model: Model, body: SupposeBody) -> tuple[Question, list[Edit]]:
    """The prediction and the hypothetical edits of a what-if."""
    query, _ = model.ask(body.sentence, body.start, body.stop, body.target, body.data)
    return query, model.edits(
        [(one.sentence_number, one.start, one.stop, one.labels) for one in body.edits], body.pattern
    )
