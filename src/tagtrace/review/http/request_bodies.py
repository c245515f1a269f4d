"""The bodies of requests, checked as they arrive. Keys that are not known are ignored."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from tagtrace.review.decisions.decide import Wish

Text = Annotated[str, Field(max_length=10_000)]
Name = Annotated[str, Field(max_length=200)]
Labels = Annotated[list[Name], Field(max_length=20_000)]
Number = Annotated[int, Field(ge=-(2**53), le=2**53)]
MAX_TOGETHER = 20_000


class Body(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)


class DecisionBody(Body):
    """A decision on tokens ``start:stop`` of a training sentence."""

    action: Literal["accept", "reject", "skip", "relabel", "note", "reopen"]
    sentence_number: Number
    start: Number
    stop: Number
    rank: Number | None = None
    labels: Labels | None = None
    """One a token, for accept and relabel; null takes the proposed ones of the finding."""
    note: Text | None = ""
    base: Number | None = None
    """The decision the reviewer saw for that place."""
    key: Name | None = None
    """A unique string: sent again, the decision is not made twice."""

    def wish(self, key: str | None = None) -> Wish:
        values: dict[str, Any] = {**dict(self), "note": self.note or "", "key": self.key or key}
        return Wish(**values)


class BulkBody(Body):
    """Decisions that are made, and undone, together."""

    decisions: Annotated[list[DecisionBody], Field(min_length=1, max_length=MAX_TOGETHER)]
    key: Name | None = None

    def wishes(self) -> list[Wish]:
        keys = [None if self.key is None else f"{self.key}#{number}" for number in range(len(self.decisions))]
        return [one.wish(key) for one, key in zip(self.decisions, keys, strict=True)]


class TurnBody(Body):
    """An undo or redo."""

    key: Name | None = None


class EditBody(Body):
    """Tokens of a training sentence that get other labels, or none (null)."""

    sentence_number: Number
    start: Number
    stop: Number
    labels: Labels | None = None


class SupposeBody(Body):
    """A prediction, and what is supposed about the training labels."""

    sentence: Text
    start: Number
    stop: Number
    target: Text = "predicted"
    data: Literal["dev", "train"] | None = None
    edits: Annotated[list[EditBody], Field(max_length=MAX_TOGETHER)] = []
    pattern: Number | None = None
    """All findings of it as edits."""


class JobBody(Body):
    """``verify`` with the fields of a what-if, or ``prepare`` for questions with a curvature, or for what-ifs."""

    model_config = ConfigDict(extra="allow", strict=True)

    kind: Literal["verify", "prepare"]
    curvature: Name = "auto"
    score: Name = "influence"
    training: Name = "token"
    """The kind of training segments."""
    what_if: bool = False
