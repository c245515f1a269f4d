"""How well scores find wrong labels, if the true labels are known.

N tokens are ranked by score, the highest first. Tokens with equal scores are in random order, and measures are means
over these orders: of the first k tokens, ``hits(k)`` are wrong on average, where each token of a tie of m tokens with w
wrong ones adds w / m. With W wrong tokens in all,

    recall(k) = hits(k) / W
    precision(k) = hits(k) / k
    AP = sum_j (recall(k_j) - recall(k_{j-1})) precision(k_j)

with k_1 < k_2 < ... the positions where ties end: equal scores are one threshold, as in scikit-learn.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tagtrace._checks import DataError, OptionError, at
from tagtrace.data.corpus import Corpus
from tagtrace.data.sentence import Sentence, join_documents
from tagtrace.findings.finding import Finding
from tagtrace.index import Index

COUNTS = (100, 500, 1000)
"""Recall is reported among this many first tokens."""


@dataclass(frozen=True)
class Truth:
    """The true labels of an index's tokens."""

    labels: Tensor
    """(N,) long"""
    wrong: Tensor
    """(N,) bool: True where the index has a different label."""


@dataclass(frozen=True)
class Judged:
    """F findings compared with the truth."""

    is_wrong: Tensor
    """(F,) bool: at least one of the given labels is wrong."""
    is_true: Tensor
    """(F,) bool: the proposed labels are the true ones."""


@dataclass(frozen=True)
class Measured:
    """How well one scorer finds the wrong labels."""

    name: str
    num_tokens: int
    num_wrong: int
    average_precision: float
    """NaN if no label is wrong, like ``recall``."""
    recall: Mapping[int, float]
    """Among the first 100, 500 and 1,000 tokens."""
    curve: tuple[tuple[int, float], ...] = ()
    """(k, recall among the first k), for a plot; not saved."""

    def to_record(self) -> MeasuredRecord:
        """A record for JSON."""
        recall = {k: None if math.isnan(value) else value for k, value in self.recall.items()}
        precision = None if math.isnan(self.average_precision) else self.average_precision
        return MeasuredRecord(self.name, self.num_wrong, precision, recall, self.num_tokens)

    @classmethod
    def from_record(cls, saved: MeasuredRecord) -> Measured:
        """Read what ``to_json`` wrote."""
        nan = float("nan")
        recall = {k: nan if value is None else value for k, value in saved.recall_at.items()}
        precision = nan if saved.average_precision is None else saved.average_precision
        return cls(saved.score, saved.num_tokens, saved.num_wrong, precision, recall)


@dataclass(frozen=True)
class MeasuredRecord:
    """A ``Measured`` in ``audit.json``, with None for NaN."""

    score: str
    num_wrong: int
    average_precision: float | None
    recall_at: dict[int, float | None]
    num_tokens: int = 0


def read_truth(index: Index, corpus: Corpus) -> Truth:
    """The true labels, from a corpus that has the index's sentences.

    Sentences are matched by id, or by order if the ids differ (those of a CoNLL file begin with its name). Their tokens
    must be the same. If all ids match, the corpus may have more sentences.
    """
    if corpus.normalised_scheme != index.labels.scheme:
        raise DataError(
            f"{corpus.path}: the true labels are {corpus.scheme}, those of the index {index.labels.scheme}; "
            "check which column has the labels, or name the scheme"
        )
    sentences = _same_order(index, corpus)
    index.labels.check(sentences)
    true = torch.tensor(
        [label for sentence in sentences for label in index.labels.encode(sentence.labels)], dtype=torch.long
    )
    given = index.label_ids  # (N,)
    return Truth(true, true != given)


def wrong_tokens(index: Index, corpus: Corpus) -> Tensor:
    """(N,) bool: the tokens whose label in the index differs from the corpus of true labels."""
    return read_truth(index, corpus).wrong


def finding_is_wrong(findings: Sequence[Finding], index: Index, truth: Truth) -> Judged:
    """Whether the given labels of each finding are wrong, and whether the proposed ones are true."""
    wrong, true = list[bool](), list[bool]()
    for one in findings:
        in_index = (
            0 <= one.sentence_number < index.num_sentences
            and index.sentence(one.sentence_number).tokens[one.start : one.stop]
        )
        if in_index != one.tokens:
            raise DataError(
                f"finding {one.rank} ({one.sentence}) is not about {index.folder}; give the index that was audited"
            )
        start = int(index.starts[one.sentence_number])
        rows = slice(start + one.start, start + one.stop)
        wrong.append(bool(truth.wrong[rows].any()))
        true.append(truth.labels[rows].tolist() == index.labels.encode(one.proposed))
    return Judged(torch.tensor(wrong, dtype=torch.bool), torch.tensor(true, dtype=torch.bool))


def average_precision(scores: Tensor, wrong: Tensor) -> float:
    """AP of scores (N,), with ``wrong`` (N,) bool; NaN if no token is wrong."""
    hits, sizes = _expected_hits(scores, wrong)
    ends = sizes.cumsum(0)
    at_ends = hits[ends - 1]
    gained = at_ends.diff(prepend=at_ends.new_zeros(1)) / wrong.sum()
    return float((gained * at_ends / ends).sum()) if len(hits) else float("nan")


def recall_at(scores: Tensor, wrong: Tensor, k: int) -> float:
    """The share of all wrong tokens that are among the first ``k``, on average over the order of ties."""
    return float(_hits_at(scores, wrong, k) / wrong.sum())


def precision_at(scores: Tensor, wrong: Tensor, k: int) -> float:
    """The share of the first ``k`` tokens (of all, if fewer) that are wrong, on average over the order of ties."""
    return float(_hits_at(scores, wrong, k) / min(k, len(scores))) if len(scores) else float("nan")


def recall_curve(scores: Tensor, wrong: Tensor, num_points: int = 200) -> list[tuple[int, float]]:
    """(k, recall among the first k), for at most ``num_points`` k from 1 to N, evenly spaced on a log scale."""
    if num_points < 2:
        raise OptionError(f"num_points {num_points}: must be at least 2")
    hits, _ = _expected_hits(scores, wrong)
    if len(hits) == 0:
        return []
    last = torch.tensor(float(len(hits)), dtype=torch.float64).log10().item()
    counts = torch.logspace(0, last, num_points, dtype=torch.float64).round().long().unique()
    return list(zip(counts.tolist(), (hits[counts - 1] / wrong.sum()).tolist(), strict=True))


def measure(name: str, scores: Tensor, wrong: Tensor) -> Measured:
    """All measures of one scorer."""
    recall = {k: recall_at(scores, wrong, k) for k in COUNTS}
    curve = tuple(recall_curve(scores, wrong))
    return Measured(name, len(scores), int(wrong.sum()), average_precision(scores, wrong), recall, curve)


def _hits_at(scores: Tensor, wrong: Tensor, k: int) -> Tensor:
    if k < 1:
        raise OptionError(f"k {k}: must be at least 1")
    hits, _ = _expected_hits(scores, wrong)
    return hits[min(k, len(hits)) - 1] if len(hits) else torch.zeros((), dtype=torch.float64)


def _expected_hits(scores: Tensor, wrong: Tensor) -> tuple[Tensor, Tensor]:
    """hits(k) for k = 1..N, (N,) float64, and the number of tokens with each of the G different scores, (G,)."""
    if scores.ndim != 1 or scores.shape != wrong.shape or wrong.dtype != torch.bool:
        raise DataError(
            f"scores {tuple(scores.shape)} and wrong {tuple(wrong.shape)}: expected a boolean for each score"
        )
    if bool(scores.isnan().any()):
        raise DataError(f"{int(scores.isnan().sum())} of the scores are NaN; compute them again")
    order = scores.argsort(descending=True)
    _, group, sizes = scores[order].unique_consecutive(return_inverse=True, return_counts=True)  # (N,), (G,)
    wrong_of = torch.zeros(len(sizes), dtype=torch.float64).index_add(0, group, wrong[order].double())  # (G,)
    before = wrong_of.cumsum(0) - wrong_of  # exact: integers
    place = torch.arange(len(order)) - (sizes.cumsum(0) - sizes)[group] + 1  # in its group, from 1
    return before[group] + wrong_of[group] * place / sizes[group], sizes


def _same_order(index: Index, corpus: Corpus) -> list[Sentence]:
    """The index's sentences as they are in the corpus, in the order of the index."""
    sentences = join_documents(corpus.sentences) if index.manifest.unit == "document" else list(corpus.sentences)
    ids, by_id = index.ids, defaultdict[str, deque[Sentence]](deque)
    for sentence in sentences:
        by_id[sentence.id].append(sentence)
    missing = _missing(ids, by_id)
    if missing is None:
        sentences = [by_id[name].popleft() for name in ids]
    elif len(sentences) != len(ids):
        raise DataError(
            f"{corpus.path}: has {len(sentences)} {index.manifest.unit}s but not {missing!r}, one of the {len(ids)} of "
            "the index; give the training data with its labels corrected and nothing else changed"
        )
    for number, sentence in enumerate(sentences):
        _check_same(index, number, sentence, corpus)
    return sentences


def _missing(ids: Sequence[str], by_id: Mapping[str, Sequence[Sentence]]) -> str | None:
    """An id that occurs more often in the index than in the corpus."""
    num_left = {name: len(found) for name, found in by_id.items()}
    for name in ids:
        num_left[name] = num_left.get(name, 0) - 1
        if num_left[name] < 0:
            return name
    return None


def _check_same(index: Index, number: int, sentence: Sentence, corpus: Corpus) -> None:
    """Raise unless a sentence of the corpus has labels, and the tokens of the index's sentence."""
    tokens = index.sentence(number).tokens
    if sentence.tokens == tokens and sentence.is_labelled:
        return
    pairs = enumerate(zip(sentence.tokens, tokens, strict=False))
    place = next((t for t, (ours, theirs) in pairs if ours != theirs), min(len(sentence), len(tokens)))
    what = (
        f"token {place} of {sentence.id} differs from the index" if sentence.tokens != tokens else "has no labels here"
    )
    line = sentence.lines[min(place, len(sentence.lines) - 1)] if sentence.lines else None
    raise DataError(f"{at(corpus.path, line)}: {what}; give the training data with only its labels corrected")
