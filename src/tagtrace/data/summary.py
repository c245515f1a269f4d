"""What a data file holds, counted."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from tagtrace.data.corpus import Corpus
from tagtrace.data.schemes import segments


@dataclass(frozen=True)
class Summary:
    """Counts of one corpus. Types and labels come most frequent first, equals by name."""

    path: str
    format: str
    scheme: str
    documents: int
    sentences: int
    tokens: int
    segments: int
    segments_per_type: dict[str, int]
    labels: dict[str, int]
    """How often each normalised label occurs."""
    violations: tuple[tuple[int, str], ...]
    skipped: tuple[tuple[int, str], ...]
    comments: int

    def to_json(self) -> dict[str, Any]:
        """A dictionary for JSON."""
        lists = {name: [list(entry) for entry in getattr(self, name)] for name in ("violations", "skipped")}
        return {**asdict(self), **lists}


def summarise(corpus: Corpus) -> Summary:
    """Count what a corpus holds."""
    num_labels: Counter[str] = Counter()
    num_segments: Counter[str] = Counter()
    for sentence in corpus.sentences:
        num_labels.update(sentence.labels)
        num_segments.update(s.type for s in segments(sentence.labels, corpus.normalised_scheme))
    return Summary(
        path=str(corpus.path),
        format=corpus.format,
        scheme=corpus.scheme,
        documents=len(corpus.documents),
        sentences=len(corpus.sentences),
        tokens=corpus.num_tokens,
        segments=num_segments.total(),
        segments_per_type=_most_frequent_first(num_segments),
        labels=_most_frequent_first(num_labels),
        violations=corpus.violations,
        skipped=corpus.skipped,
        comments=corpus.num_comments,
    )


def _most_frequent_first(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
