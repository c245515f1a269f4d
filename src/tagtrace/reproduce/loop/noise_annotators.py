"""Noise of people: entities that are overlooked, disputed boundaries, types that differ by kind of document."""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from math import sqrt
from random import Random

from tagtrace.data import Segment, Sentence
from tagtrace.reproduce.loop.slips import (
    Mention,
    Slip,
    by_weight,
    document_keys,
    find_mentions,
    is_free,
    is_weak,
    make_slips,
)

NUM_KINDS = 6
"""Number of kinds of documents."""
MARKER_SHARES = (0.03, 0.4)
"""A word that marks a kind of document occurs in a share of all documents between these."""
WEAK, STRONG, RESHAPED = 4.0, 1.0, 1.0
"""Weights of moving a boundary over a weak token, over another token, and of merging or splitting segments."""
LATER = 0.25
"""How much each earlier segment of the document raises the rate of overlooking one."""

Confusion = tuple[Callable[[Mention], bool], str | None]
"""Which segments are mistaken, and the type that they get; None if they are left out."""

PROPERTIES: tuple[Callable[[Mention], bool], ...] = (
    lambda one: len(one.tokens) == 1 and len(one.tokens[0]) > 1 and one.tokens[0].isupper(),
    lambda one: len(one.tokens) == 1 and not one.tokens[0].isupper(),
    lambda one: len(one.tokens) == 2,
    lambda one: len(one.tokens) > 2,
)
"""Of segments in data with one type: abbreviations, other single words, pairs of words, longer ones."""


def missed(sentences: Sequence[Sentence], share: float, random: Random) -> list[Sentence]:
    """Annotators overlook whole entities, more often those with a rare form and those that come late in a document.

    The rate is proportional to (1 + LATER x segments before it in the document) / sqrt(occurrences of the form).
    """
    mentions, documents = find_mentions(sentences), document_keys(sentences)
    counts, before = Counter(one.tokens for one in mentions), Counter[str]()
    weights: list[float] = []
    for one in mentions:
        document = documents[one.number]
        weights.append((1 + LATER * before[document]) / sqrt(counts[one.tokens]))
        before[document] += 1
    order = by_weight(mentions, weights, random)
    return make_slips(sentences, (Slip.of(one.number, [one.segment], []) for one in order), share)


def boundaries(sentences: Sequence[Sentence], share: float, random: Random) -> list[Sentence]:
    """Segments lose or gain their first or last token, preferably a weak one; some neighbours merge, some split."""
    found = [pair for number, one in enumerate(sentences) for pair in _other_boundaries(number, one)]
    order = by_weight([slip for slip, _ in found], [weight for _, weight in found], random)
    return make_slips(sentences, order, share)


def _other_boundaries(number: int, sentence: Sentence) -> Iterator[tuple[Slip, float]]:
    """Slips and their weights."""
    given = [one.segment for one in find_mentions([sentence])]
    for one in given:
        for moved, t in _moved(one):
            is_shorter = one.start <= t < one.stop
            if moved.start < moved.stop and (is_shorter or is_free(sentence, t)):
                yield Slip.of(number, [one], [moved]), WEAK if is_weak(sentence.tokens[t]) else STRONG
        if one.stop - one.start > 2:
            middle = (one.start + one.stop) // 2
            yield Slip.of(number, [one], [replace(one, stop=middle), replace(one, start=middle)]), RESHAPED
    for one, other in pairwise(given):
        if other.start - one.stop <= 1:
            yield Slip.of(number, [one, other], [replace(one, stop=other.stop)]), RESHAPED


def _moved(one: Segment) -> list[tuple[Segment, int]]:
    """The segment with one boundary moved by a token, and that token."""
    return [
        (replace(one, start=one.start + 1), one.start),
        (replace(one, stop=one.stop - 1), one.stop - 1),
        (replace(one, start=one.start - 1), one.start - 1),
        (replace(one, stop=one.stop + 1), one.stop),
    ]


def types(sentences: Sequence[Sentence], share: float, random: Random) -> list[Sentence]:
    """Each kind of document has a guideline of its own: in it, every segment of one type gets another.

    With a single type, every segment with one of ``PROPERTIES`` is left out instead. Kinds of documents follow one
    after another until the share is reached (the last one in part); if it is not, they get a second guideline.
    """
    members = defaultdict[str, list[Mention]](list)
    kinds = document_kinds(sentences, random)
    for mention in find_mentions(sentences):
        members[kinds[mention.number]].append(mention)
    order = random.sample(sorted(members), len(members))
    guidelines = {kind: _confusions(members[kind], find_mentions(sentences), random) for kind in order}
    slips = [
        Slip.of(one.number, [one.segment], [] if type_ is None else [replace(one.segment, type=type_)])
        for turn in range(max(map(len, guidelines.values())))
        for kind in order
        for applies, type_ in guidelines[kind][turn : turn + 1]
        for one in members[kind]
        if applies(one)
    ]
    return make_slips(sentences, slips, share)


def _confusions(members: Sequence[Mention], mentions: Sequence[Mention], random: Random) -> list[Confusion]:
    """The guidelines of a kind of document, in the order in which they are used: frequent types are likely first."""
    known = sorted({one.segment.type for one in mentions})
    if len(known) == 1:
        counts = [(applies, sum(map(applies, members))) for applies in PROPERTIES]
        some = [(applies, count) for applies, count in counts if count]
        return [(applies, None) for applies in by_weight([a for a, _ in some], [c for _, c in some], random)]
    counts = Counter(one.segment.type for one in members)
    return [
        (lambda one, old=old: one.segment.type == old, random.choice([type_ for type_ in known if type_ != old]))
        for old in by_weight(sorted(counts), [counts[old] for old in sorted(counts)], random)
    ]


def document_kinds(sentences: Sequence[Sentence], random: Random) -> list[str]:
    """The kind of each sentence's document: the first of a few frequent words (drawn at random) that it contains.

    A document with none of these words belongs to one of two kinds by its first token.
    """
    documents, words = document_keys(sentences), defaultdict[str, dict[str, None]](dict)
    for document, sentence in zip(documents, sentences, strict=True):
        for token, label in zip(sentence.tokens, sentence.labels, strict=True):
            if label == "O":
                words[document][token.lower()] = None
    counts, (low, high) = Counter(word for found in words.values() for word in found), MARKER_SHARES
    frequent = sorted(word for word, n in counts.items() if word.isalpha() and low <= n / len(words) <= high)
    markers = random.sample(frequent, min(NUM_KINDS, len(frequent)))
    return [_kind(list(words[document]), markers) for document in documents]


def _kind(words: Sequence[str], markers: Sequence[str]) -> str:
    rest = f" {zlib.crc32(''.join(words[:1]).encode()) % 2}"
    return next((word for word in markers if word in words), rest)
