"""Routes that make decisions, undo them, and export or import them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import FileResponse, Response

from tagtrace._checks import DataError
from tagtrace.review.decisions.database import Decision
from tagtrace.review.decisions.decide import NotFoundError
from tagtrace.review.decisions.export import LOG, export, import_log
from tagtrace.review.http import answer_shapes as answers
from tagtrace.review.http.answer import Answer
from tagtrace.review.http.request_bodies import BulkBody, DecisionBody, TurnBody
from tagtrace.review.http.routes_reading import ReviewerHeader, reviewer_of
from tagtrace.review.model.listings import touched
from tagtrace.review.review import Review


def deciding_routes(review: Review) -> APIRouter:
    router = APIRouter(prefix="/api", default_response_class=Answer)
    decisions = review.decisions

    @router.post(
        "/decisions",
        responses=answers.documented(answers.DecidedAnswer, 201),
        status_code=201,
        summary="Make a decision; the response is sent when it is on disk",
    )
    def decide(body: DecisionBody, reviewer: ReviewerHeader = None) -> Answer:
        (row,) = decisions.decide(reviewer_of(review, reviewer), [body.request()])
        with decisions.reading() as ledger:
            place = ledger.place_of(row)
            found = {
                "id": row.id,
                "version": ledger.last,
                "conflict": ledger.has_conflict(place, row.sentence_number),
                "status": ledger.status(place),
                "rank": row.rank,
                "base": ledger.base((row.sentence_number, row.start, row.stop)),
            }
        review.teaching.notice(found["version"])
        return Answer(found, 201)

    @router.post(
        "/decisions/bulk",
        responses=answers.documented(answers.BulkAnswer, 201),
        status_code=201,
        summary="Make many decisions together, all or none",
    )
    def bulk(body: BulkBody, reviewer: ReviewerHeader = None) -> Answer:
        rows = decisions.decide(reviewer_of(review, reviewer), body.requests())
        with decisions.reading() as ledger:
            conflicts = sum(ledger.has_conflict(ledger.place_of(row), row.sentence_number) for row in rows)
            found = {"ids": [row.id for row in rows], "version": ledger.last, "conflicts": conflicts}
        review.teaching.notice(ledger.last)
        return Answer({**found, "ranks": touched(review.data, rows)}, 201)

    @router.post(
        "/undo",
        responses=answers.documented(answers.UndoAnswer),
        summary="Undo the reviewer's last decision, or the decisions made together with it",
    )
    def undo(body: TurnBody, reviewer: ReviewerHeader = None) -> Answer:
        name = reviewer_of(review, reviewer)
        return Answer(_turned(review, name, "undone", decisions.undo(name, body.key)))

    @router.post("/redo", responses=answers.documented(answers.RedoAnswer), summary="Redo what the reviewer undid last")
    def redo(body: TurnBody, reviewer: ReviewerHeader = None) -> Answer:
        name = reviewer_of(review, reviewer)
        return Answer(_turned(review, name, "redone", decisions.redo(name, body.key)))

    @router.post(
        "/export",
        responses=answers.documented(answers.ExportAnswer),
        summary="Write the corrected data and the log of changes into the project's folder",
    )
    def export_all() -> Answer:
        with review.exporting:
            made = export(decisions, review.export)
        files = [f"{review.export.name}/{path.name}" for path in (made.data, made.log)]
        return Answer({"files": files, "changed": made.num_changed, "conflicts": made.num_conflicts})

    @router.get("/export/data", summary="The corrected data of the last export")
    def exported_data() -> Response:
        return _download(review.export / review.data.corpus.path.name)

    @router.get("/export/log", summary="The log of changes of the last export")
    def exported_log() -> Response:
        return _download(review.export / LOG)

    @router.post(
        "/import",
        responses=answers.documented(answers.ImportAnswer),
        summary='Import an exported log as decisions: its text, or {"log": its text}',
    )
    async def import_changes(request: Request, reviewer: ReviewerHeader = None) -> Answer:
        name, text = reviewer_of(review, reviewer), _log_text(await request.body())
        found = await run_in_threadpool(import_log, decisions, name, text)
        return Answer({"imported": found.num_imported, "skipped": found.num_skipped, "reasons": found.reasons})

    return router


def _turned(review: Review, reviewer: str, what: str, rows: Sequence[Decision]) -> dict[str, Any]:
    with review.decisions.reading() as ledger:
        stacks = ledger.stacks(reviewer)
        return {
            what: len(rows),
            "ranks": touched(review.data, rows),
            "version": ledger.last,
            "undo": len(stacks.done),
            "redo": len(stacks.undone),
        }


def _download(path: Path) -> Response:
    if not path.is_file():
        raise NotFoundError("there is no export yet; export the data first")
    return FileResponse(path, media_type="application/octet-stream", filename=path.name)


def _log_text(body: bytes) -> str:
    """The text of the log in a request, which is the whole body or the value of the key ``log``."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        raise DataError("the log is not UTF-8; choose a log that was exported by this page") from None
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return whole["log"] if isinstance(whole, dict) and isinstance(whole.get("log"), str) else text
