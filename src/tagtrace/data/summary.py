"""Counts of what a data file contains."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tagtrace._checks import DataError, at
from tagtrace._documents import recorded_path
from tagtrace._table import Described, Table
from tagtrace.data.corpus import Corpus
from tagtrace.data.formats import FORMATS
from tagtrace.data.schemes import segments


@dataclass(frozen=True)
class Summary(Described):
    """Counts of one corpus. Types and labels are sorted by frequency, then by name."""

    path: str
    format: str
    scheme: str
    tokens_from: str
    """The column, counted from 0, or the key that the tokens were read from."""
    labels_from: str
    documents: int
    sentences: int
    tokens: int
    segments: int
    segments_per_type: dict[str, int]
    labels: dict[str, int]
    """How often each normalised label occurs."""
    violations: tuple[tuple[int, str], ...]
    skipped: tuple[tuple[int, str], ...]
    doubts: tuple[str, ...]
    comments: int

    def describe(self) -> list[str | Table]:
        return [summary_table([self]), *self.oddities()]

    def oddities(self, most: int = 10) -> list[str]:
        """What is doubtful about the columns, and the first broken labels and skipped lines, with their places."""
        lines = [f"{self.path}: {doubt}" for doubt in self.doubts]
        for kind, entries in (("broken label", self.violations), ("skipped", self.skipped)):
            lines += [f"{at(self.path, line or None)}: {kind}: {message}" for line, message in entries[:most]]
            if len(entries) > most:
                lines.append(f"{self.path}: {len(entries) - most:,} more are not shown")
        return lines

    def to_json(self) -> dict[str, Any]:
        """A dictionary for JSON."""
        lists = {name: [list(entry) for entry in getattr(self, name)] for name in ("violations", "skipped")}
        return {**asdict(self), **lists, "doubts": list(self.doubts), "path": recorded_path(self.path)}


def summarise(corpus: Corpus) -> Summary:
    """Count the documents, sentences, tokens, segments and labels of a corpus."""
    num_labels: Counter[str] = Counter()
    num_segments: Counter[str] = Counter()
    for sentence in corpus.sentences:
        num_labels.update(sentence.labels)
        num_segments.update(s.type for s in segments(sentence.labels, corpus.normalised_scheme))
    return Summary(
        path=str(corpus.path),
        format=corpus.format,
        scheme=corpus.scheme,
        tokens_from=_place(corpus, corpus.options.token_column, corpus.options.tokens_key),
        labels_from="nothing"
        if corpus.scheme == "none"
        else _place(corpus, corpus.options.label_column, corpus.options.labels_key),
        documents=len(corpus.documents),
        sentences=len(corpus.sentences),
        tokens=corpus.num_tokens,
        segments=num_segments.total(),
        segments_per_type=_most_frequent_first(num_segments),
        labels=_most_frequent_first(num_labels),
        violations=corpus.violations,
        skipped=corpus.skipped,
        doubts=corpus.doubts,
        comments=corpus.num_comments,
    )


def _place(corpus: Corpus, column: int | None, key: str | None) -> str:
    if FORMATS[corpus.format].is_marked:
        return "marked texts"
    has_columns = corpus.format in ("conll", "conllu") and column is not None
    return f"column {column}" if has_columns else f"key {key}"


def summary_table(summaries: Sequence[Summary]) -> Table:
    """Counts of several files side by side, one column per file."""
    types = sorted({name for summary in summaries for name in summary.segments_per_type})
    names = tuple(Path(summary.path).name for summary in summaries)
    rows = [("format", *(s.format for s in summaries)), ("scheme", *(s.scheme for s in summaries))]
    rows += [("tokens from", *(s.tokens_from for s in summaries)), ("labels from", *(s.labels_from for s in summaries))]
    for name in ("documents", "sentences", "tokens", "segments"):
        rows.append((name, *(f"{getattr(s, name):,}" for s in summaries)))
    rows += [(f"  {name}", *(f"{s.segments_per_type.get(name, 0):,}" for s in summaries)) for name in types]
    rows.append(("broken labels", *(f"{len(s.violations):,}" for s in summaries)))
    return Table("data", ("", *names), tuple(rows), names)


def check_same_types(summaries: Sequence[Summary]) -> None:
    """Raise if a file has types that the first one does not have: a tagger trained on the first cannot predict them."""
    first = summaries[0]
    for summary in summaries[1:]:
        unknown = sorted(set(summary.segments_per_type) - set(first.segments_per_type))
        if unknown:
            raise DataError(
                f"{summary.path}: has types that {first.path} does not have: {', '.join(unknown)}; a tagger trained on "
                f"{first.path} cannot predict them (give the training file first)"
            )


def _most_frequent_first(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
