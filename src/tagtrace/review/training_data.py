"""The training data that is reviewed and the findings about it, with what looks them up."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from tagtrace._checks import DataError
from tagtrace.data import Corpus, LabelSet, Sentence, join_documents
from tagtrace.findings.finding import Finding
from tagtrace.findings.patterns.pattern import Pattern

AROUND = 8
"""Tokens shown before and after a segment."""

SegmentKey = tuple[int, int, int]
"""A sentence's number and tokens start:stop of it."""


class TrainingData:
    """The sentences of the training data in the order of the index, and the findings about them."""

    def __init__(
        self,
        corpus: Corpus,
        labels: LabelSet,
        unit: str = "sentence",
        findings: Sequence[Finding] = (),
        patterns: Sequence[Pattern] = (),
        audit: str = "",
    ) -> None:
        self.corpus, self.labels = corpus, labels
        self.sentences: list[Sentence] = (
            join_documents(corpus.sentences) if unit == "document" else list(corpus.sentences)
        )
        self.findings = sorted(findings, key=lambda one: one.rank)
        self.patterns = list(patterns)
        self.audit = audit
        """The fingerprint of the findings: ranks of another audit name other findings."""
        self.by_rank = {one.rank: one for one in self.findings}
        self.rank_at: dict[SegmentKey, int] = {}
        self.by_sentence_number: dict[int, list[Finding]] = {}
        for one in self.findings:
            self._check(one)
            self.rank_at.setdefault((one.sentence_number, one.start, one.stop), one.rank)
            self.by_sentence_number.setdefault(one.sentence_number, []).append(one)

    def _check(self, one: Finding) -> None:
        sentence = self.sentences[one.sentence_number] if 0 <= one.sentence_number < len(self.sentences) else None
        inside = slice(one.start, one.stop)
        if sentence is None or sentence.tokens[inside] != one.tokens or sentence.labels[inside] != one.given:
            raise DataError(
                f"finding {one.rank} ({one.sentence} {one.start}:{one.stop}) is not about {self.corpus.path}; "
                "audit this data again"
            )

    @cached_property
    def number_of(self) -> dict[str, int]:
        """The sentence with an id (the first, where several have it)."""
        found: dict[str, int] = {}
        for number, sentence in enumerate(self.sentences):
            found.setdefault(sentence.id, number)
        return found

    def prepare(self) -> None:
        """Make the lookups now that requests would wait for."""
        _ = self.number_of, self.searched, self._places, self.num_tokens

    @cached_property
    def num_tokens(self) -> int:
        return sum(map(len, self.sentences))

    @cached_property
    def searched(self) -> dict[int, str]:
        """By rank, the sentence of each finding in lower case."""
        data = {number: lowered(self.sentences[number]) for number in self.by_sentence_number}
        return {one.rank: data[one.sentence_number] for one in self.findings}

    def overlapping(self, segment: SegmentKey) -> list[Finding]:
        """The findings that share a token with a segment."""
        number, start, stop = segment
        return [one for one in self.by_sentence_number.get(number, ()) if one.start < stop and start < one.stop]

    @cached_property
    def _places(self) -> dict[tuple[str, str], list[tuple[int, int]]]:
        """Where each token has each label."""
        found: dict[tuple[str, str], list[tuple[int, int]]] = {}
        for number, sentence in enumerate(self.sentences):
            for place, pair in enumerate(zip(sentence.tokens, sentence.labels, strict=True)):
                found.setdefault(pair, []).append((number, place))
        return found

    def occurrences(self, segment: SegmentKey) -> list[SegmentKey]:
        """Other places with the same tokens and the same labels; a segment that goes on beyond is another one."""
        sentence_number, start, stop = segment
        tokens, labels, goes_on = self._seen(sentence_number, start, stop)
        rarest = min(range(stop - start), key=lambda t: len(self._places[tokens[t], labels[t]]))
        if stop - start == 1 and (labels == ("O",) or self.labels.scheme != "iob2"):  # may be very many
            return [
                (number, place, place + 1)
                for number, place in self._places[tokens[0], labels[0]]
                if (number, place) != (sentence_number, start)
            ]
        found: list[SegmentKey] = []
        for number, place in self._places[tokens[rarest], labels[rarest]]:
            first = place - rarest
            last = first + stop - start
            if first < 0 or last > len(self.sentences[number]) or (number, first) == (sentence_number, start):
                continue
            if self._seen(number, first, last) == (tokens, labels, goes_on):
                found.append((number, first, last))
        return found

    def _seen(self, sentence_number: int, start: int, stop: int) -> tuple[tuple[str, ...], tuple[str, ...], bool]:
        """Tokens and labels of a segment, and whether a labelled segment goes on after it."""
        one = self.sentences[sentence_number]
        goes_on = self.labels.scheme == "iob2" and stop < len(one) and one.labels[stop].startswith("I-")
        return one.tokens[start:stop], one.labels[start:stop], goes_on


def lowered(sentence: Sentence) -> str:
    """The text of a sentence to search in."""
    return " ".join(sentence.tokens).lower()


def context(sentence: Sentence, start: int, stop: int) -> dict[str, list[str]]:
    """The tokens of a segment, and a few on both sides."""
    return {
        "before": list(sentence.tokens[max(start - AROUND, 0) : start]),
        "tokens": list(sentence.tokens[start:stop]),
        "after": list(sentence.tokens[stop : stop + AROUND]),
    }
