"""Realistic label noise for any data with segments in IOB2, in six kinds.

``missed``      annotators overlook entities, rare and late ones more often
``boundaries``  annotators disagree on where segments start and end
``types``       guidelines differ: in some kinds of documents one type is labelled as another, or left out
``gazetteer``   distant supervision: a dictionary of some forms (by default about half), looked up everywhere
``rules``       labelling by a few surface rules that are often but not always right, and what they leave
``eager``       a language model that labels too much

Tokens and everything else stay as they are, and the labels are well-formed. The share of wrong tokens is as asked for,
or as near as the data permits: no more entities can be lost than there are, and a dictionary with all forms still errs
where a form has several types. As the default share is at most 10 %, dense data gets a larger dictionary than half.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from tagtrace._checks import DataError, OptionError
from tagtrace.data import Sentence, violations
from tagtrace.reproduce.loop.noise_annotators import boundaries, missed, types
from tagtrace.reproduce.loop.noise_machines import eager, gazetteer, rules
from tagtrace.reproduce.loop.slips import share_wrong

__all__ = ["NOISES", "NoiseKind", "default_share", "make_noise", "share_wrong"]

NoiseKind = Callable[[Sequence[Sentence], float, Random], list[Sentence]]
"""Sentences with true labels, the share of tokens that should be wrong, and a source of randomness."""

NOISES: dict[str, NoiseKind] = {
    "missed": missed,
    "boundaries": boundaries,
    "types": types,
    "gazetteer": gazetteer,
    "rules": rules,
    "eager": eager,
}

FACTORS = {"missed": 0.3, "boundaries": 0.2, "types": 0.25, "gazetteer": 0.5, "rules": 0.4, "eager": 0.4}
"""Wrong tokens by default, for each token of a true segment."""
LEAST, MOST = 0.02, 0.1
"""Limits of the default share of wrong tokens, as in real corpora with noise."""


def make_noise(name: str, sentences: Sequence[Sentence], seed: int, share: float | None = None) -> list[Sentence]:
    """The sentences with noisy labels of one kind; ``share`` of all tokens are wrong (default: ``default_share``)."""
    if name not in NOISES:
        raise OptionError(f"there is no noise {name!r}; expected one of {', '.join(NOISES)}")
    if share is not None and not 0 < share < 1:
        raise OptionError(f"share {share}: must be between 0 and 1")
    for one in sentences:
        if len(one.labels) != len(one) or violations(one.labels, "iob2"):
            raise DataError(f"{one.path or one.id or 'sentence'}: the labels are not well-formed iob2; give others")
    if not any(label != "O" for one in sentences for label in one.labels):
        raise DataError("the sentences have no segments, so that noise cannot be made; give other data")
    return NOISES[name](sentences, default_share(name, sentences) if share is None else share, Random(f"{name} {seed}"))


def default_share(name: str, sentences: Sequence[Sentence]) -> float:
    """Wrong tokens as a share of all tokens: a part of those in segments, but from 2 % to 10 % of all."""
    labels = [label for one in sentences for label in one.labels]
    in_segments = sum(label != "O" for label in labels) / len(labels)
    return min(max(FACTORS[name] * in_segments, LEAST), MOST)
