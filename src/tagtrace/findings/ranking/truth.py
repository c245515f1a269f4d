"""How well scores find wrong labels, where the true ones are known.

Scores of N tokens rank them, the highest first. Tokens with equal scores stand in a random order, and what is measured
is the mean over those orders: of the first k tokens, ``hits(k)`` are wrong on average, a tie of m tokens with w wrong
ones among them adding w / m for each. Of W wrong tokens

    recall(k) = hits(k) / W
    precision(k) = hits(k) / k
    AP = sum_j (recall(k_j) - recall(k_{j-1})) precision(k_j)

with k_1 < k_2 < ... the places where a tie ends: equal scores are one threshold, as in scikit-learn.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tagtrace._checks import DataError, OptionError, at
from tagtrace.data.corpus import Corpus
from tagtrace.data.sentence import Sentence, join_documents
from tagtrace.findings.finding import Finding
from tagtrace.index import Index

COUNTS = (100, 500, 1000)
"""Where recall is told."""


@dataclass(frozen=True)
class Truth:
    """The true labels of an index's tokens."""

    labels: Tensor
    """(N,) long"""
    wrong: Tensor
    """(N,) bool: True where the index has another label."""


@dataclass(frozen=True)
class Judged:
    """F findings beside the truth."""

    is_wrong: Tensor
    """(F,) bool: one of the labels given is wrong."""
    is_mended: Tensor
    """(F,) bool: the labels proposed are the true ones."""


@dataclass(frozen=True)
class Measured:
    """How well one scorer finds the wrong labels."""

    name: str
    num_tokens: int
    num_wrong: int
    average_precision: float
    """NaN, as is recall, where no label is wrong."""
    recall: Mapping[int, float]
    """Among the first 100, 500 and 1,000 tokens."""
    curve: tuple[tuple[int, float], ...] = ()
    """(k, recall among the first k), for a plot; not saved."""

    def to_json(self) -> dict[str, Any]:
        """For JSON, which has no NaN."""
        recall = {str(k): None if math.isnan(value) else value for k, value in self.recall.items()}
        precision = None if math.isnan(self.average_precision) else self.average_precision
        return {
            "score": self.name,
            "num_tokens": self.num_tokens,
            "num_wrong": self.num_wrong,
            "average_precision": precision,
            "recall_at": recall,
        }

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> Measured:
        """What ``to_json`` wrote."""
        nan = float("nan")
        recall = {int(k): nan if value is None else value for k, value in saved["recall_at"].items()}
        precision = nan if saved["average_precision"] is None else saved["average_precision"]
        return cls(saved["score"], saved.get("num_tokens", 0), saved["num_wrong"], precision, recall)


def read_truth(index: Index, corpus: Corpus) -> Truth:
    """The true labels, from a corpus that holds the index's sentences.

    Sentences are found by id, or by their order where the ids are others (those of a CoNLL file begin with its name).
    Their tokens must be the same. The corpus may hold more sentences, if it has the ids of all.
    """
    if corpus.normalised_scheme != index.labels.scheme:
        raise DataError(
            f"{corpus.path}: the true labels are {corpus.scheme}, those of the index {index.labels.scheme}; "
            "check which column holds the labels, or name the scheme"
        )
    sentences = _same_order(index, corpus)
    index.labels.check(sentences)
    true = torch.tensor(
        [label for sentence in sentences for label in index.labels.encode(sentence.labels)], dtype=torch.long
    )
    given = index.label_ids  # (N,)
    return Truth(true, true != given)


def wrong_tokens(index: Index, corpus: Corpus) -> Tensor:
    """(N,) bool: the tokens whose label in the index is another than in the corpus of true labels."""
    return read_truth(index, corpus).wrong


def finding_is_wrong(findings: Sequence[Finding], index: Index, truth: Truth) -> Judged:
    """Whether each finding has a wrong label, and whether its proposal is the truth."""
    wrong, mended = list[bool](), list[bool]()
    for one in findings:
        in_index = (
            0 <= one.sentence_number < index.num_sentences
            and index.sentence(one.sentence_number).tokens[one.start : one.stop]
        )
        if in_index != one.tokens:
            raise DataError(f"finding {one.rank} ({one.sentence}) is not of {index.folder}; give its own index")
        start = int(index.starts[one.sentence_number])
        rows = slice(start + one.start, start + one.stop)
        wrong.append(bool(truth.wrong[rows].any()))
        mended.append(truth.labels[rows].tolist() == index.labels.encode(one.proposed))
    return Judged(torch.tensor(wrong, dtype=torch.bool), torch.tensor(mended, dtype=torch.bool))


def average_precision(scores: Tensor, wrong: Tensor) -> float:
    """AP as above, from scores (N,) and whether each is wrong (N,) bool; NaN where none is."""
    hits, sizes = _expected_hits(scores, wrong)
    ends = sizes.cumsum(0)
    at_ends = hits[ends - 1]
    gained = at_ends.diff(prepend=at_ends.new_zeros(1)) / wrong.sum()
    return float((gained * at_ends / ends).sum()) if len(hits) else float("nan")


def recall_at(scores: Tensor, wrong: Tensor, k: int) -> float:
    """The share of all wrong tokens among the first ``k`` (or all, where fewer), on average over the order of ties."""
    return float(_hits_at(scores, wrong, k) / wrong.sum())


def precision_at(scores: Tensor, wrong: Tensor, k: int) -> float:
    """The share of wrong ones among the first ``k`` tokens (or all, where fewer), on average over the order of ties."""
    return float(_hits_at(scores, wrong, k) / min(k, len(scores))) if len(scores) else float("nan")


def recall_curve(scores: Tensor, wrong: Tensor, num_points: int = 200) -> list[tuple[int, float]]:
    """(k, recall among the first k) from the first token to all, at most ``num_points`` evenly on a log scale."""
    if num_points < 2:
        raise OptionError(f"num_points {num_points}: must be at least 2")
    hits, _ = _expected_hits(scores, wrong)
    if len(hits) == 0:
        return []
    last = torch.tensor(float(len(hits)), dtype=torch.float64).log10().item()
    counts = torch.logspace(0, last, num_points, dtype=torch.float64).round().long().unique()
    return list(zip(counts.tolist(), (hits[counts - 1] / wrong.sum()).tolist(), strict=True))


def measure(name: str, scores: Tensor, wrong: Tensor) -> Measured:
    """Everything about one scorer."""
    recall = {k: recall_at(scores, wrong, k) for k in COUNTS}
    curve = tuple(recall_curve(scores, wrong))
    return Measured(name, len(scores), int(wrong.sum()), average_precision(scores, wrong), recall, curve)


def _hits_at(scores: Tensor, wrong: Tensor, k: int) -> Tensor:
    if k < 1:
        raise OptionError(f"k {k}: must be at least 1")
    hits, _ = _expected_hits(scores, wrong)
    return hits[min(k, len(hits)) - 1] if len(hits) else torch.zeros((), dtype=torch.float64)


def _expected_hits(scores: Tensor, wrong: Tensor) -> tuple[Tensor, Tensor]:
    """hits(k) for k = 1..N, (N,) float64, and how many tokens each of the G different scores has, (G,)."""
    if scores.ndim != 1 or scores.shape != wrong.shape or wrong.dtype != torch.bool:
        raise DataError(f"{tuple(scores.shape)} scores and {tuple(wrong.shape)} truths: expected one boolean a score")
    if bool(scores.isnan().any()):
        raise DataError(f"{int(scores.isnan().sum())} of the scores are not numbers")
    order = scores.argsort(descending=True)
    _, group, sizes = scores[order].unique_consecutive(return_inverse=True, return_counts=True)  # (N,), (G,)
    wrong_of = torch.zeros(len(sizes), dtype=torch.float64).index_add(0, group, wrong[order].double())  # (G,)
    before = wrong_of.cumsum(0) - wrong_of  # exact: whole numbers
    place = torch.arange(len(order)) - (sizes.cumsum(0) - sizes)[group] + 1  # in its group, from 1
    return before[group] + wrong_of[group] * place / sizes[group], sizes


def _same_order(index: Index, corpus: Corpus) -> list[Sentence]:
    """The corpus's sentences that are the index's, in its order."""
    sentences = join_documents(corpus.sentences) if index.manifest.unit == "document" else list(corpus.sentences)
    ids, by_id = index.ids, defaultdict[str, deque[Sentence]](deque)
    for sentence in sentences:
        by_id[sentence.id].append(sentence)
    missing = _missing(ids, by_id)
    if missing is None:
        sentences = [by_id[name].popleft() for name in ids]
    elif len(sentences) != len(ids):
        raise DataError(
            f"{corpus.path}: has {len(sentences)} {index.manifest.unit}s and not {missing!r}, one of the {len(ids)} of "
            "the index; give the training data with its labels corrected and nothing else changed"
        )
    for number, sentence in enumerate(sentences):
        _check_same(index, number, sentence, corpus)
    return sentences


def _missing(ids: Sequence[str], by_id: Mapping[str, Sequence[Sentence]]) -> str | None:
    """An id that stands more often in the index than in the corpus."""
    num_left = {name: len(found) for name, found in by_id.items()}
    for name in ids:
        num_left[name] = num_left.get(name, 0) - 1
        if num_left[name] < 0:
            return name
    return None


def _check_same(index: Index, number: int, sentence: Sentence, corpus: Corpus) -> None:
    """Raise unless a sentence of the corpus has labels and the tokens of the index's sentence."""
    tokens = index.sentence(number).tokens
    if sentence.tokens == tokens and sentence.is_labelled:
        return
    pairs = enumerate(zip(sentence.tokens, tokens, strict=False))
    place = next((t for t, (ours, theirs) in pairs if ours != theirs), min(len(sentence), len(tokens)))
    what = (
        f"token {place} of {sentence.id} is not that of the index"
        if sentence.tokens != tokens
        else "has no labels here"
    )
    line = sentence.lines[min(place, len(sentence.lines) - 1)] if sentence.lines else None
    raise DataError(f"{at(corpus.path, line)}: {what}; give the training data with its labels corrected and no more")
