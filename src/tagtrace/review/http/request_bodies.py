"""The JSON bodies of requests, validated by pydantic. Unknown keys are ignored."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from tagtrace.review.decisions.decide import DecisionRequest

Text = Annotated[str, Field(max_length=10_000)]
Name = Annotated[str, Field(max_length=200)]
Labels = Annotated[list[Name], Field(max_length=20_000)]
Number = Annotated[int, Field(ge=-(2**53), le=2**53)]
MAX_TOGETHER = 20_000


class Body(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(extra="ignore", strict=True)


class DecisionBody(Body):
    """A decision on tokens ``start:stop`` of a training sentence."""

    action: Literal["accept", "reject", "skip", "relabel", "note", "reopen"]
    sentence_number: Number
    start: Number
    stop: Number
    rank: Number | None = None
    labels: Labels | None = None
    """One label per token, for accept and relabel. Null: the proposed labels of the finding or, for relabel of a whole
    sentence, the labels that it has now."""
    note: Text | None = ""
    base: Number | None = None
    """The id of the last decision on these tokens that the reviewer has seen."""
    key: Name | None = None
    """A unique string. A decision that is sent twice with the same key is made once."""

    def request(self, key: str | None = None) -> DecisionRequest:
        values: dict[str, Any] = {**dict(self), "note": self.note or "", "key": self.key or key}
        return DecisionRequest(**values)


class BulkBody(Body):
    """Decisions that are made together and undone together."""

    decisions: Annotated[list[DecisionBody], Field(min_length=1, max_length=MAX_TOGETHER)]
    key: Name | None = None

    def requests(self) -> list[DecisionRequest]:
        keys = [None if self.key is None else f"{self.key}#{number}" for number in range(len(self.decisions))]
        return [one.request(key) for one, key in zip(self.decisions, keys, strict=True)]


class TurnBody(Body):
    """An undo or a redo."""

    key: Name | None = None


class EditBody(Body):
    """New labels for tokens of a training sentence; null removes the labels."""

    sentence_number: Number
    start: Number
    stop: Number
    labels: Labels | None = None


class SupposeBody(Body):
    """A what-if: a prediction, and hypothetical changes of training labels."""

    sentence: Text
    start: Number
    stop: Number
    target: Text = "predicted"
    data: Literal["dev", "train"] | None = None
    edits: Annotated[list[EditBody], Field(max_length=MAX_TOGETHER)] = []
    pattern: Number | None = None
    """The number of a pattern whose findings are all fixed."""


class JobBody(Body):
    """A job. ``verify`` and ``retrain`` are for a what-if and have its fields: they retrain the head, or the whole
    tagger several times. ``prepare`` computes a curvature or, with the score ``whole`` and a prediction's fields, its
    explanation; ``expect`` says how long ``retrain`` takes."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow", strict=True)

    kind: Literal["verify", "retrain", "prepare", "expect"]
    curvature: Name = "auto"
    score: Name = "influence"
    training: Name = "token"
    """The training units that are ranked: token, entity, segment, sentence or document."""
    what_if: bool = False
    top: Number = 20
    """How many segments an explanation shows."""
