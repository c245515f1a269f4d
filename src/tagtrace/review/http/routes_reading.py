"""Routes that read: the project, its findings, errors, patterns and history.

Decisions wait while the ledger is read, but not while an answer is written as JSON.
"""

from __future__ import annotations

from math import inf, isnan, nan
from typing import Annotated, Any, Literal
from urllib.parse import unquote

from fastapi import APIRouter, Header, Query

from tagtrace._checks import OptionError
from tagtrace._version import __version__
from tagtrace.review.decisions.decide import NotFoundError
from tagtrace.review.http import answer_shapes as answers
from tagtrace.review.http.answer import Answer
from tagtrace.review.http.bounds import MAX_REVIEWER, Digits, Filter, Id, Limit, Offset, Token
from tagtrace.review.model import listings as findings
from tagtrace.review.model.mispredictions import list_mispredictions
from tagtrace.review.model.model import CURVATURES, KINDS, SCORES
from tagtrace.review.review import Review

MAX_NAME = 100

ReviewerHeader = Annotated[
    str | None,
    Header(
        alias="X-Reviewer",
        max_length=MAX_REVIEWER,
        description="The reviewer's name, percent-encoded. Default: the reviewer of the server.",
    ),
]


def reviewer_of(review: Review, header: str | None) -> str:
    """The name of the reviewer who sent a request."""
    name = review.reviewer if header is None else unquote(header).strip()
    if not name or len(name) > MAX_NAME or not name.isprintable():
        raise OptionError(f"the reviewer's name is not valid; expected 1 to {MAX_NAME} printable characters")
    return name


def _number(text: str) -> float:
    """The number in a text field; minus infinity if the field is empty."""
    try:
        found = float(text) if text.strip() else -inf
    except ValueError:
        found = nan
    if isnan(found):
        raise OptionError(f"the minimum loss is {text[:20]!r}; expected a number")
    return found


def reading_routes(review: Review) -> APIRouter:
    router = APIRouter(prefix="/api", default_response_class=Answer)

    @router.get(
        "/project",
        responses=answers.documented(answers.ProjectAnswer),
        summary="The project, its size and the progress of the review",
    )
    def project(reviewer: ReviewerHeader = None) -> Answer:
        return Answer(describe(review, reviewer_of(review, reviewer)))

    @router.get(
        "/errors", responses=answers.documented(answers.ErrorsAnswer), summary="Mispredictions on the held-out data"
    )
    def errors(
        pair: Filter = "",
        text: Filter = "",
        document: Filter = "",
        min_loss: Filter = "",
        sort: Filter = "loss",
        offset: Offset = 0,
        limit: Limit = 50,
    ) -> Answer:
        least = _number(min_loss)
        if review.held is None:
            return Answer({"total": 0, "items": [], "pairs": [], "preparing": None})
        return Answer(list_mispredictions(review.held, pair, text, document, least, sort, offset, limit))

    @router.get(
        "/patterns",
        responses=answers.documented(answers.PatternsAnswer),
        summary="Patterns of findings, with the progress of each",
    )
    def patterns() -> Answer:
        with review.decisions.reading() as ledger:
            found = findings.list_patterns(ledger)
        return Answer(found)

    @router.get(
        "/findings",
        responses=answers.documented(answers.FindingsAnswer),
        summary="Findings that match the filters, by rank or in the order that decisions have taught",
    )
    def all_findings(
        pattern: Digits = "", change: Filter = "", status: Filter = "all", text: Filter = "", document: Filter = "",
        offset: Offset = 0, limit: Limit = 50, rank: Id | None = None,
        sort: Annotated[Literal["rank", "taught"], Query(description="taught: by rank until something was taught")]
        = "rank",
    ) -> Answer:  # fmt: skip
        with review.decisions.reading() as ledger:
            number, lesson = int(pattern) if pattern else None, review.teaching.taught
            found = findings.list_findings(
                ledger, number, change, status or "all", text, document, offset, limit, rank, lesson, sort
            )
        return Answer(found)

    @router.get(
        "/findings/{rank}", responses=answers.documented(answers.FindingAnswer), summary="One finding with its sentence"
    )
    def one_finding(rank: Id) -> Answer:
        with review.decisions.reading() as ledger:
            found = findings.one_finding(ledger, rank, review.teaching.taught)
        return Answer(found)

    @router.get(
        "/occurrences",
        responses=answers.documented(answers.OccurrencesAnswer),
        summary="Other training segments with the same tokens and labels",
    )
    def occurrences(
        rank: Id | None = None, sentence_number: Id | None = None, start: Token | None = None,
        stop: Token | None = None, offset: Offset = 0, limit: Limit = findings.MAX_ITEMS,
    ) -> Answer:  # fmt: skip
        one = review.data.by_rank.get(-1 if rank is None else rank)
        if rank is not None and one is None:
            raise NotFoundError(f"finding {rank} does not exist; reload the page")
        if one is not None:
            sentence_number, start, stop = (
                one.sentence_number,
                one.start if start is None else start,
                one.stop if stop is None else stop,
            )
        if sentence_number is None or start is None or stop is None:
            raise OptionError("the segment is missing; give a rank, or sentence_number, start and stop")
        with review.decisions.reading() as ledger:
            found = findings.occurrences(ledger, (sentence_number, start, stop), one, offset, limit)
        return Answer(found)

    @router.get("/history", responses=answers.documented(answers.HistoryAnswer), summary="Decisions, the newest first")
    def history(offset: Offset = 0, limit: Limit = 50) -> Answer:
        with review.decisions.reading() as ledger:
            found = findings.history(ledger, review.decisions.unreadable, offset, limit)
        return Answer(found)

    @router.get(
        "/changes",
        responses=answers.documented(answers.ChangesAnswer),
        summary="Findings that changed after a version",
    )
    def changes(since: Id = 0) -> Answer:
        with review.decisions.reading() as ledger:
            lesson = review.teaching.taught
            found = findings.changes(ledger, since, 0 if lesson is None else lesson.version)
        review.teaching.notice(found["version"])  # decisions of other processes count too
        return Answer(found)

    return router


def _unreadable(review: Review) -> str | None:
    """A note about decisions that cannot be read, if there are any."""
    found = review.decisions.unreadable
    if not found:
        return None
    first = next(iter(found))
    return f"decisions that cannot be read and do not count: {len(found):,}, the first is {first} ({found[first]})"


def describe(review: Review, reviewer: str) -> dict[str, Any]:
    """The project as the page shows it."""
    data, held = review.data, review.held
    with review.decisions.reading() as ledger:
        stacks = ledger.stacks(reviewer)
        state = {
            "progress": ledger.progress(data.by_rank),
            "others": ledger.num_others(),
            "version": ledger.last,
            "conflicts": ledger.num_conflicts(),
            "undo": len(stacks.done),
            "redo": len(stacks.undone),
        }
    return {
        "name": review.name,
        "reviewer": reviewer,
        "tagtrace": __version__,
        "labels": list(data.labels.labels),
        "types": list(data.labels.types),
        "scheme": data.labels.scheme,
        "counts": {
            "sentences": len(data.sentences),
            "tokens": data.num_tokens,
            "findings": len(data.findings),
            "patterns": len(data.patterns),
            "errors": len(held.found) if held is not None and held.is_ready else 0,
        },
        "has": {"errors": held is not None and held.is_ready, "findings": bool(data.findings)},
        "preparing": {"errors": None if held is None else held.progress},
        "note": _unreadable(review) or review.note or (None if held is None else held.problem),
        "scores": list(SCORES),
        "curvatures": list(CURVATURES),
        "kinds": list(KINDS),
        "asking": {"score": "cosine", "curvature": "identity"} if review.model is None else review.model.defaults,
        **state,
    }
