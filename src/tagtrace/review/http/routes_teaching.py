"""Routes of teaching: what the decisions have taught, learning from them now, and what to ask next."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from tagtrace.review.http import answer_shapes as answers
from tagtrace.review.http.answer import Answer
from tagtrace.review.http.bounds import Id
from tagtrace.review.model import listings
from tagtrace.review.model.teaching import AHEAD, SPARE
from tagtrace.review.review import Review


def teaching_routes(review: Review) -> APIRouter:
    router = APIRouter(prefix="/api", default_response_class=Answer)

    @router.get(
        "/teaching",
        responses=answers.documented(answers.TeachingAnswer),
        summary="What the decisions have taught, and the estimated number of wrong labels left",
    )
    def teaching() -> Answer:
        return Answer(review.teaching.to_json())

    @router.post(
        "/teach",
        responses=answers.documented(answers.JobStarted, 201),
        status_code=201,
        summary="Start a job that learns from all decisions; if one is running, its number",
    )
    def teach() -> Answer:
        return Answer({"job": review.teaching.start()}, 201)

    @router.get(
        "/questions",
        responses=answers.documented(answers.QuestionsAnswer),
        summary="What to ask next: findings to decide on and sentences to check",
    )
    def questions(count: Annotated[int, Query(ge=1, le=AHEAD + SPARE)] = 10) -> Answer:
        with review.decisions.reading() as ledger:
            found = listings.list_questions(ledger, review.teaching.lesson, count)
        return Answer(found)

    @router.get(
        "/sentences/{number}",
        responses=answers.documented(answers.SentenceItem),
        summary="A training sentence with its given labels and those that it has now",
    )
    def sentence(number: Id) -> Answer:
        with review.decisions.reading() as ledger:
            found = listings.sentence_json(ledger, number)
        return Answer(found)

    return router
