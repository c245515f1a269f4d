"""Small indexes and findings for tests of patterns."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tagtrace.data import Corpus, LabelSet, ReadOptions, Sentence
from tagtrace.data.schemes import segments
from tagtrace.findings.finding import Finding
from tagtrace.index import Index, IndexOptions, build_index
from tagtrace.tagger import new_tagger
from tests.index.test_build import Spelt


def make_index(folder: Path, sentences: Sequence[Sentence], scheme: str = "iob2", unit: Any = "sentence") -> Index:
    """In several shards, with a head that is not trained."""
    labels = LabelSet.from_sentences(sentences, scheme)
    corpus = Corpus(Path("train.conll"), tuple(sentences), scheme, ReadOptions(), "made")  # type: ignore[arg-type]
    options = IndexOptions(refit=False, shard_tokens=max(sum(map(len, sentences)) // 3, 1))
    return build_index(new_tagger(Spelt(dim=2), labels, None, unit), corpus, folder / "index", options)


def make_finding(
    index: Index,
    rank: int,
    sentence_number: int,
    start: int,
    stop: int,
    proposed: Sequence[str],
    confidence: float = 0.8,
) -> Finding:
    sentence = index.sentence(sentence_number)
    return Finding(
        rank, sentence.id, sentence.document, sentence_number, start, stop, 0, sentence.tokens[start:stop], (), (),
        sentence.labels[start:stop], tuple(proposed), confidence, confidence,
    )  # fmt: skip


def spell(type_: str, length: int) -> tuple[str, ...]:
    return ("O",) * length if type_ == "O" else (f"B-{type_}", *[f"I-{type_}"] * (length - 1))


def listed(index: Index, type_: str) -> list[dict[str, str]]:
    """The conditions that every segment of a type meets, by a plain loop."""
    sentences = [index.sentence(number) for number in range(index.num_sentences)]
    first: dict[str, str] = {}
    for sentence in sentences:
        first.setdefault(sentence.document or sentence.id, sentence.tokens[0])
    found = []
    for sentence in sentences:
        spans = [(one.start, one.stop) for one in segments(sentence.labels, index.labels.scheme) if one.type == type_]
        if type_ == "O":
            spans = [(t, t + 1) for t, label in enumerate(sentence.labels) if label == "O"]
        for start, stop in spans:
            found.append({
                "document": sentence.document,
                "opening": first[sentence.document or sentence.id],
                "form": " ".join(sentence.tokens[start:stop]),
                "before": sentence.tokens[start - 1] if start else "",
                "after": sentence.tokens[stop] if stop < len(sentence) else "",
            })  # fmt: skip
    return found
