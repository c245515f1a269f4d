"""Routes that make decisions, undo them, and export or import them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from tagtrace._checks import DataError
from tagtrace.data.source_folder import SourceFolder
from tagtrace.review.decisions.database import Decision
from tagtrace.review.decisions.export import export, export_paths, import_log
from tagtrace.review.http import answer_shapes as answers
from tagtrace.review.http.answer import Answer
from tagtrace.review.http.downloads import download, download_folder
from tagtrace.review.http.lane import Lane
from tagtrace.review.http.request_bodies import BulkBody, DecisionBody, TurnBody
from tagtrace.review.http.routes_reading import ReviewerHeader, reviewer_of
from tagtrace.review.model.listings import touched
from tagtrace.review.review import Review

MAX_LINE = 1_000_000
"""Characters of one change in a log; a longer one would keep all other threads waiting while it is parsed."""
_WRAPPED = re.compile(r'\s*\{\s*"log"\s*:\s*(?=")')


async def _whole(request: Request) -> bytes:
    """The body of a request as it was sent."""
    return await request.body()


def deciding_routes(review: Review, lane: Lane, transfers: Lane) -> APIRouter:
    """``lane`` carries out decisions, ``transfers`` exports, imports and downloads, one after the other."""
    router = APIRouter(prefix="/api", default_response_class=Answer)
    decisions = review.decisions

    @router.post(
        "/decisions",
        responses=answers.documented(answers.DecidedAnswer, 201),
        status_code=201,
        summary="Make a decision; the response is sent when it is on disk",
    )
    @lane
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
    @lane
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
    @lane
    def undo(body: TurnBody, reviewer: ReviewerHeader = None) -> Answer:
        name = reviewer_of(review, reviewer)
        return Answer(_turned(review, name, "undone", decisions.undo(name, body.key)))

    @router.post("/redo", responses=answers.documented(answers.RedoAnswer), summary="Redo what the reviewer undid last")
    @lane
    def redo(body: TurnBody, reviewer: ReviewerHeader = None) -> Answer:
        name = reviewer_of(review, reviewer)
        return Answer(_turned(review, name, "redone", decisions.redo(name, body.key)))

    @router.post(
        "/export",
        responses=answers.documented(answers.ExportAnswer),
        summary="Write the corrected data and the log of changes into the project's folder",
    )
    @transfers
    def export_all() -> Answer:
        made = export(decisions, review.export)
        files = [f"{review.export.name}/{path.name}" for path in (made.data, made.log)]
        counts = {"conflicts": made.num_conflicts, "unreadable": len(decisions.unreadable)}
        return Answer({"files": files, "changed": made.num_changed, **counts})

    @router.get("/export/data", summary="The corrected data of the last export")
    @transfers
    def exported_data() -> Response:
        source, (data, _) = review.data.corpus.path, export_paths(review.data.corpus, review.export)
        if source.is_dir():
            return download_folder(review.export.parent, data, SourceFolder(source).names)
        return download(review.export.parent, data)

    @router.get("/export/log", summary="The log of changes of the last export")
    @transfers
    def exported_log() -> Response:
        return download(review.export.parent, export_paths(review.data.corpus, review.export)[1])

    @router.post(
        "/import",
        responses=answers.documented(answers.ImportAnswer),
        summary='Import an exported log as decisions: its text, or {"log": its text}',
    )
    @transfers
    def import_changes(body: Annotated[bytes, Depends(_whole)], reviewer: ReviewerHeader = None) -> Answer:
        found = import_log(decisions, reviewer_of(review, reviewer), _log_text(body))
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


def _log_text(body: bytes) -> str:
    """The text of the log in a request, which is the whole body, or X in a body ``{"log": X}``.

    Only X is parsed, which is a text: other JSON of this size can be millions of objects.
    """
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        raise DataError("the log is not UTF-8; choose a log that was exported by this page") from None
    if found := _WRAPPED.match(text):
        with suppress(ValueError):
            log, end = json.JSONDecoder().raw_decode(text, found.end())
            text = log if text[end:].strip() == "}" else text
    for number, line in enumerate(text.split("\n"), start=1):
        if len(line) > MAX_LINE:
            raise DataError(f"line {number} of the log is longer than {MAX_LINE:,} characters; choose another log")
    return text
