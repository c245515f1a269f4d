"""Options of an audit."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from tagtrace._checks import OptionError, check_seed
from tagtrace.findings.ranking.token_scores import SCORERS

Judges = Literal["auto", "head", "encoder"]

TRUSTED_SCORES = {
    "influence": "identity",
    "influence-curvature": "curvature",
    "influence-cosine": "cosine",
    "influence-relative": "relative",
}
"""Scores by the effect of a label on trusted labels, and the method of each (``trusted``)."""
SCORES = ("combined", *SCORERS, *TRUSTED_SCORES, "neighbour")


@dataclass(frozen=True)
class AuditOptions:
    """How labels are judged and ranked, and how much is reported."""

    score: str = "combined"
    """The score by which labels are ranked, one of ``SCORES``."""
    query: str | None = None
    """Rank one kind of error, GOLD:PREDICTED: ``ORG:LOC`` is ORG that is predicted LOC."""
    most: int = 1000
    """Maximum number of findings."""
    num_patterns: int = 20
    """Maximum number of patterns."""
    num_effects: int = 3
    """Number of patterns whose effect on trusted data is computed, and verified by retraining."""
    judges: Judges = "auto"
    """Who judges the labels. ``head``: heads refitted on the index's features; ``encoder``: taggers trained again
    without each fold, and asked after every epoch if there is no trusted data; ``auto``: ``encoder``, unless that needs
    a GPU and there is none."""
    num_folds: int = 5
    """Number of folds of the cross-validation over documents."""
    encoder: str | None = None
    """The untrained encoder of the judges, as for ``train``; by default the tagger's own."""
    seed: int = 0
    """Seed of the folds, of the halves of the trusted data and of new encoders."""

    def __post_init__(self) -> None:
        if self.score not in SCORES:
            raise OptionError(f"score {self.score!r}: expected one of {', '.join(SCORES)}")
        if self.judges not in get_args(Judges):
            raise OptionError(f"judges {self.judges!r}: expected one of {', '.join(get_args(Judges))}")
        if self.judges == "head" and self.encoder is not None:
            raise OptionError("an encoder is only used by taggers that are trained again; choose judges='encoder'")
        for name, least in (("most", 1), ("num_patterns", 1), ("num_effects", 0), ("num_folds", 2)):
            if getattr(self, name) < least:
                raise OptionError(f"{name} {getattr(self, name)}: must be at least {least}")
        check_seed(self.seed)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
