"""The JSON bodies of requests, validated by pydantic. Unknown keys are ignored."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from tagtrace.review.decisions.decide import DecisionRequest
from tagtrace.review.http.bounds import MAX_TOGETHER, Id, Labels, Name, Text, Token, Top


class Body(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(extra="ignore", strict=True)


class DecisionBody(Body):
    """A decision on tokens ``start:stop`` of a training sentence."""

    action: Literal["accept", "reject", "skip", "relabel", "note", "reopen"]
    sentence_number: Id
    start: Token
    stop: Token
    rank: Id | None = None
    labels: Labels | None = None
    """One label per token, for accept and relabel. Null: the proposed labels of the finding or, for relabel of a whole
    sentence, the labels that it has now."""
    note: Text | None = ""
    base: Id | None = None
    """The id of the last decision on these tokens that the reviewer has seen."""
    key: Name | None = None
    """A unique string. A decision that is sent twice with the same key is made once."""

    def request(self, key: str | None = None) -> DecisionRequest:
        values: dict[str, Any] = {**dict(self), "note": self.note or "", "key": self.key or key}
        return DecisionRequest(**values)


class BulkBody(Body):
    """Decisions that are made together and undone together."""

    decisions: Annotated[list[DecisionBody], Field(min_length=1, max_length=MAX_TOGETHER, fail_fast=True)]
    key: Name | None = None

    def requests(self) -> list[DecisionRequest]:
        keys = [None if self.key is None else f"{self.key}#{number}" for number in range(len(self.decisions))]
        return [one.request(key) for one, key in zip(self.decisions, keys, strict=True)]


class TurnBody(Body):
    """An undo or a redo."""

    key: Name | None = None


class EditBody(Body):
    """New labels for tokens of a training sentence; null removes the labels."""

    sentence_number: Id
    start: Token
    stop: Token
    labels: Labels | None = None


class PredictionBody(Body):
    """A prediction: tokens ``start:stop`` of a sentence, with the labels that ``target`` names."""

    sentence: Text
    start: Token
    stop: Token
    target: Text = "predicted"
    data: Literal["dev", "train"] | None = None


class SupposeBody(PredictionBody):
    """A what-if: a prediction, and hypothetical changes of training labels."""

    edits: Annotated[list[EditBody], Field(max_length=MAX_TOGETHER, fail_fast=True)] = []
    pattern: Id | None = None
    """The number of a pattern whose findings are all fixed."""


class RetrainBody(SupposeBody):
    """A job that answers a what-if by retraining: of the head (``verify``), or of the whole tagger, several times."""

    kind: Literal["verify", "retrain"]


class ExpectBody(Body):
    """A job that says how long ``retrain`` takes."""

    kind: Literal["expect"]


class PrepareBody(PredictionBody):
    """A job that computes a curvature or, with the score ``whole``, the explanation of a prediction by it."""

    kind: Literal["prepare"]
    curvature: Name = "auto"
    score: Name = "influence"
    training: Name = "token"
    """The training units that are ranked: token, entity, segment, sentence or document."""
    what_if: bool = False
    """Whether to compute what what-ifs need, instead."""
    top: Top = 20
    """How many segments an explanation shows."""
    sentence: Text = ""
    start: Token = 0
    stop: Token = 1


JobBody = Annotated[RetrainBody | ExpectBody | PrepareBody, Field(discriminator="kind")]
