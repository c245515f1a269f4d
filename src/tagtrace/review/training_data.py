"""The training data that is reviewed and its findings, with indexes to look them up."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from tagtrace._checks import DataError
from tagtrace.data import Corpus, LabelSet, Sentence, join_documents
from tagtrace.findings.finding import Finding
from tagtrace.findings.patterns.pattern import Pattern

AROUND = 8
"""Number of tokens shown before and after a segment."""

SegmentKey = tuple[int, int, int]
"""The number of a sentence, and the tokens start:stop in it."""


class TrainingData:
    """The sentences of the training data in the order of the index, and the findings in them."""

    corpus: Corpus
    labels: LabelSet
    findings: list[Finding]
    patterns: list[Pattern]
    by_rank: dict[int, Finding]

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
        """The fingerprint of the findings; a rank is only valid together with it."""
        self.by_rank = {one.rank: one for one in self.findings}
        self.rank_at: dict[SegmentKey, int] = {}
        self.by_sentence_number: dict[int, list[Finding]] = {}
        for one in self.findings:
            self.check(one)
            self.rank_at.setdefault((one.sentence_number, one.start, one.stop), one.rank)
            self.by_sentence_number.setdefault(one.sentence_number, []).append(one)

    def check(self, one: Finding) -> None:
        """Raise DataError unless a finding is about this data."""
        sentence = self.sentences[one.sentence_number] if 0 <= one.sentence_number < len(self.sentences) else None
        inside = slice(one.start, one.stop)
        if sentence is None or sentence.tokens[inside] != one.tokens or sentence.labels[inside] != one.given:
            raise DataError(
                f"finding {one.rank} ({one.sentence} {one.start}:{one.stop}) does not match {self.corpus.path}; "
                "audit this data again"
            )

    @cached_property
    def number_of(self) -> dict[str, int]:
        """The number of each sentence, by id; if several sentences have the same id, the first one counts."""
        found: dict[str, int] = {}
        for number, sentence in enumerate(self.sentences):
            found.setdefault(sentence.id, number)
        return found

    def prepare(self) -> None:
        """Compute the indexes now, so that no request has to wait for them."""
        _ = self.number_of, self.searched, self._places, self.num_tokens

    @cached_property
    def num_tokens(self) -> int:
        return sum(map(len, self.sentences))

    @cached_property
    def searched(self) -> dict[int, str]:
        """The text of each finding's sentence in lower case, by rank."""
        data = {number: lowered(self.sentences[number]) for number in self.by_sentence_number}
        return {one.rank: data[one.sentence_number] for one in self.findings}

    def overlapping(self, segment: SegmentKey) -> list[Finding]:
        """The findings that share a token with a segment."""
        return [one for one in self.by_sentence_number.get(segment[0], ()) if shares_token(one, segment)]

    @cached_property
    def _places(self) -> dict[tuple[str, str], list[tuple[int, int]]]:
        """The (sentence number, token number) of each pair of token and label."""
        found: dict[tuple[str, str], list[tuple[int, int]]] = {}
        for number, sentence in enumerate(self.sentences):
            for place, pair in enumerate(zip(sentence.tokens, sentence.labels, strict=True)):
                found.setdefault(pair, []).append((number, place))
        return found

    def occurrences(self, segment: SegmentKey) -> list[SegmentKey]:
        """Other segments with the same tokens and labels.

        A segment whose entity continues after it only matches segments whose entity continues too.
        """
        sentence_number, start, stop = segment
        tokens, labels, continues = self._content(sentence_number, start, stop)
        rarest = min(range(stop - start), key=lambda t: len(self._places[tokens[t], labels[t]]))
        if stop - start == 1 and (labels == ("O",) or self.labels.scheme != "iob2"):  # there can be very many
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
            if self._content(number, first, last) == (tokens, labels, continues):
                found.append((number, first, last))
        return found

    def _content(self, sentence_number: int, start: int, stop: int) -> tuple[tuple[str, ...], tuple[str, ...], bool]:
        """The tokens and labels of a segment, and whether its entity continues after it."""
        one = self.sentences[sentence_number]
        continues = self.labels.scheme == "iob2" and stop < len(one) and one.labels[stop].startswith("I-")
        return one.tokens[start:stop], one.labels[start:stop], continues


def shares_token(one: Finding, segment: SegmentKey) -> bool:
    """Whether a finding and a segment have a token in common."""
    number, start, stop = segment
    return one.sentence_number == number and one.start < stop and start < one.stop


def lowered(sentence: Sentence) -> str:
    """The text of a sentence in lower case, for searching."""
    return " ".join(sentence.tokens).lower()


def context(sentence: Sentence, start: int, stop: int) -> dict[str, list[str]]:
    """The tokens of a segment, and a few tokens before and after it."""
    return {
        "before": list(sentence.tokens[max(start - AROUND, 0) : start]),
        "tokens": list(sentence.tokens[start:stop]),
        "after": list(sentence.tokens[stop : stop + AROUND]),
    }
