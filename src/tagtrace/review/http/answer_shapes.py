"""The shape of every response, for the OpenAPI schema. Tests compare real responses with it."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict


class Shape(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid")


class Error(Shape):
    error: str
    """One line that says what was wrong and what to try."""


class Progress(Shape):
    open: int
    accepted: int
    rejected: int
    skipped: int


class Counts(Shape):
    sentences: int
    tokens: int
    findings: int
    patterns: int
    errors: int


class Has(Shape):
    errors: bool
    findings: bool


class Preparing(Shape):
    errors: tuple[int, int] | None


class Asking(Shape):
    """The default score and curvature of explanations."""

    score: str
    curvature: str


class ProjectAnswer(Shape):
    name: str
    reviewer: str
    tagtrace: str
    labels: list[str]
    types: list[str]
    scheme: str
    counts: Counts
    has: Has
    preparing: Preparing
    note: str | None
    scores: list[str]
    curvatures: list[str]
    kinds: list[str]
    asking: Asking
    progress: Progress
    others: int
    """The number of decided segments that are not findings."""
    version: int
    conflicts: int
    undo: int
    redo: int


class InContext(Shape):
    """Tokens ``start:stop`` of a sentence, and a few tokens before and after them."""

    sentence: str
    document: str
    start: int
    stop: int
    before: list[str]
    tokens: list[str]
    after: list[str]


class ErrorItem(InContext):
    sentence_number: None
    gold: list[str]
    predicted: list[str]
    loss: float | None
    pair: str


class ErrorsAnswer(Shape):
    total: int
    items: list[ErrorItem]
    pairs: list[tuple[str, int]]
    preparing: tuple[int, int] | None


class DecisionItem(Shape):
    id: int
    action: str
    status: str
    labels: list[str] | None
    start: int
    stop: int
    reviewer: str
    time: str
    note: str


class FindingItem(InContext):
    rank: int
    sentence_number: int
    line: int
    given: list[str]
    proposed: list[str]
    score: float | None
    confidence: float
    scores: dict[str, float]
    pattern: int | None
    change: str
    sentence_length: int
    """The number of tokens of its sentence."""
    status: str
    decided: DecisionItem | None
    note: str
    base: int | None
    conflict: bool


class FindingsAnswer(Shape):
    total: int
    offset: int
    """The index of the first item among all findings that match."""
    place: int | None
    """The index of the requested rank among all findings that match, or where it would be."""
    taught: int
    """The version of the decisions that the order was learned from; 0 if it is the order of the ranks."""
    items: list[FindingItem]


class FindingAnswer(FindingItem):
    sentence_tokens: list[str]
    sentence_labels: list[str]


class PatternItem(Shape):
    number: int
    description: str
    change: str
    segments: int
    documents: int
    confidence: float
    effect: dict[str, Any] | None
    progress: Progress


class PatternsAnswer(Shape):
    items: list[PatternItem]


class PlaceItem(InContext):
    sentence_number: int
    labels: list[str]
    rank: int | None
    base: int | None
    decision: DecisionItem | None


class OccurrenceItem(PlaceItem):
    is_alike: bool
    """Whether this is a finding that proposes the same change."""


class OccurrencesAnswer(Shape):
    total: int
    alike: int
    """The number of open findings that propose the same change. They come first."""
    items: list[OccurrenceItem]


class PastItem(Shape):
    id: int
    time: str
    reviewer: str
    action: str
    rank: int | None
    sentence_number: int
    sentence: str
    start: int
    stop: int
    given: list[str]
    labels: list[str] | None
    note: str
    tokens: list[str]
    undone: bool


class UnreadableItem(Shape):
    """A row of the database that cannot be used, and why."""

    id: int
    problem: str


class HistoryAnswer(Shape):
    total: int
    items: list[PastItem]
    unreadable: list[UnreadableItem]


class ChangesAnswer(Shape):
    version: int
    ranks: list[int]
    conflicts: int
    taught: int
    """The version of the decisions that was last learned from, or 0."""


class TeachingAnswer(Shape):
    state: str
    """``none``, ``running`` or ``ready``."""
    version: int
    """The version of the decisions that was last learned from, or 0."""
    decisions: int
    """The number of decisions that were learned from."""
    line: str
    left: float | None
    """The estimated number of wrong labels that nobody has corrected yet."""
    margin: float | None
    """Half the width of its 95 % interval; null as long as too few sentences of the sample are checked."""
    next: float | None
    """How many of the next 50 questions should find a wrong label."""


class SentenceItem(Shape):
    sentence_number: int
    sentence: str
    document: str
    tokens: list[str]
    given: list[str]
    labels: list[str]
    """The given labels with what was decided, as an export would write them."""
    is_checked: bool
    """Whether all of its tokens are decided."""
    base: int | None


class QuestionItem(Shape):
    reason: str
    """``likely``, ``teaches`` or ``sample``."""
    p: float
    """The probability that a wrong label is found."""
    finding: FindingItem | None
    """None if the whole sentence is to be checked."""
    sentence: SentenceItem


class QuestionsAnswer(Shape):
    version: int
    items: list[QuestionItem]


class Probability(Shape):
    token: int
    label: str
    p: float


class QueryItem(Shape):
    sentence: str
    document: str
    origin: str
    start: int
    stop: int
    tokens: list[str]
    gold: list[str] | None
    predicted: list[str]
    explained: list[str]
    probabilities: list[Probability]


class SegmentItem(PlaceItem):
    score: float
    sentence_numbers: list[int] | None = None
    """The numbers of the sentences of a document."""


class WhyAnswer(Shape):
    query: QueryItem
    supporters: list[SegmentItem]
    opposers: list[SegmentItem]
    score: str
    """The score that was used."""
    curvature: str
    """The curvature that was used."""
    is_ready: bool
    """Whether these are the score and the curvature asked for. If not, a job can compute them."""
    is_what_if_ready: bool
    """Whether a what-if can be answered at once, without a job that prepares it."""
    seconds: float


class LabelProbabilities(Shape):
    p: list[Probability]


class WhatIfAnswer(Shape):
    edits: int
    before: LabelProbabilities
    after: LabelProbabilities
    loss_before: float
    loss_after: float
    rung: str
    """How it was computed: ``refine``, ``step`` (one Newton step, for many sentences), ``verify`` (the head was
    retrained) or ``retrain`` (the whole tagger was trained again: means over seeds, before and after)."""
    num_seeds: int | None = None
    num_flips: int | None = None
    """In how many seeds the prediction changes."""
    interval: tuple[float, float] | None = None
    """Of the mean change of the loss over the seeds, 95 %."""


class JobStarted(Shape):
    job: int


class JobAnswer(Shape):
    state: str
    progress: tuple[int, int] | None
    result: dict[str, Any] | None = None
    error: str | None = None


class DecidedAnswer(Shape):
    id: int
    version: int
    conflict: bool
    status: str
    rank: int | None
    base: int | None


class BulkAnswer(Shape):
    ids: list[int]
    version: int
    conflicts: int
    ranks: list[int]


class Turned(Shape):
    ranks: list[int]
    version: int
    undo: int
    redo: int


class UndoAnswer(Turned):
    undone: int


class RedoAnswer(Turned):
    redone: int


class ExportAnswer(Shape):
    files: list[str]
    changed: int
    conflicts: int
    unreadable: int
    """The number of decisions that could not be read and are not in the data."""


class ImportAnswer(Shape):
    imported: int
    skipped: int
    reasons: list[str]


def documented(shape: type[Shape], status: int = 200) -> dict[int | str, dict[str, Any]]:
    """The responses of a route, for the OpenAPI schema."""
    return {status: {"model": shape}, "4XX": {"model": Error}}
