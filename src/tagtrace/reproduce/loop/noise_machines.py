"""Noise of machines: a dictionary, a handful of rules, and an over-eager language model as labellers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import groupby
from random import Random

from tagtrace.data import Segment, Sentence, differences, segments
from tagtrace.reproduce.experiments.noise_fresh import DATES, iob2_labels
from tagtrace.reproduce.loop.slips import (
    Mention,
    Slip,
    by_weight,
    find_mentions,
    is_free,
    is_weak,
    make_slips,
    share_wrong,
)
from tagtrace.reproduce.shared.sampling import at_most

MAX_RULES, MIN_RIGHT = 10, 4
"""Maximum number of rules, and the number of tokens that each labels correctly at least."""
PRECISIONS = (0.4, 0.95)
"""A rule's labels are right in a share of its tokens between these."""
RULES_SHARE = 0.6
"""At most this part of the wrong tokens is due to rules; the rest are entities that no rule finds."""

PRONOUNS = frozenset({
    "i", "me", "my", "we", "us", "our", "you", "your", "he", "him", "his", "she", "her", "they", "them", "their", "it",
    "its", "who",
})  # fmt: skip
MENTION_WEIGHTS = {"name": 1.0, "date": 1.0, "noun": 0.5, "pronoun": 0.2}
EXTENDED, RETYPED = 0.1, 0.1
"""Weights of words that are labelled too, of longer segments and of frequent types instead of rare ones."""
MAX_FORM = 0.1
"""A single word makes up at most this part of the wrong tokens."""

Form = tuple[str, ...]
Rule = tuple[str, str]
"""What is looked at (suffix, trigger word before a capital, shape), and its value."""


# a dictionary


def gazetteer(sentences: Sequence[Sentence], share: float, random: Random) -> list[Sentence]:
    """Distant supervision: wherever a form of the dictionary occurs, it has the type listed there; the rest is O.

    The dictionary has some forms of true segments, drawn at random, as many as give ``share`` wrong tokens, each with
    its most frequent type.
    """
    found = defaultdict[Form, Counter[str]](Counter)
    for mention in find_mentions(sentences):
        found[mention.tokens][mention.segment.type] += 1
    forms = random.sample(sorted(found), len(found))

    def labelled(size: int) -> list[Sentence]:
        listed = {form: _most_frequent(found[form]) for form in forms[:size]}
        longest = max(map(len, listed), default=0)
        return [one.with_labels(look_up(one.tokens, listed, longest)) for one in sentences]

    low, high = 0, len(forms)
    while low < high:  # the larger the dictionary, the fewer wrong labels
        middle = (low + high) // 2
        low, high = (middle + 1, high) if share_wrong(labelled(middle), sentences) > share else (low, middle)
    return labelled(low)


def look_up(tokens: Sequence[str], listed: Mapping[Form, str], longest: int) -> list[str]:
    """The labels of the listed forms in a sentence, from left to right, the longest first.

    >>> look_up(["New", "York", "York"], {("New", "York"): "LOC", ("York",): "ORG"}, 2)
    ['B-LOC', 'I-LOC', 'B-ORG']
    """
    found, t = list[Segment](), 0
    while t < len(tokens):
        lengths = range(min(longest, len(tokens) - t), 0, -1)
        length = next((n for n in lengths if tuple(tokens[t : t + n]) in listed), 0)
        if length:
            found.append(Segment(t, t + length, listed[tuple(tokens[t : t + length])]))
        t += length or 1
    return iob2_labels(found, len(tokens))


def _most_frequent(counts: Counter[str]) -> str:
    return min(counts, key=lambda name: (-counts[name], name))


# rules


def rules(sentences: Sequence[Sentence], share: float, random: Random) -> list[Sentence]:
    """Labelling by rules: what a rule fires on is a segment; entities that no rule touches are kept, or lost at random.

    Rules are added as long as they cause less than ``RULES_SHARE`` of the wrong tokens; then entities are lost.
    """
    fired = [[fired_rules(one.tokens, t) for t in range(len(one))] for one in sentences]
    chosen, slips = dict[Rule, str](), list[Slip]()
    for rule, type_ in _candidate_rules(sentences, fired, random)[: 3 * MAX_RULES]:
        if len(chosen) == MAX_RULES:
            break
        more = _rule_slips(sentences, fired, {**chosen, rule: type_})
        if _num_wrong(sentences, more) <= RULES_SHARE * share * sum(map(len, sentences)):
            chosen[rule], slips = type_, more
    untouched = [one for one in find_mentions(sentences) if not _is_touched(one, fired, chosen)]
    lost = [Slip.of(one.number, [one.segment], []) for one in random.sample(untouched, len(untouched))]
    return make_slips(sentences, [*slips, *lost], share)


def fired_rules(tokens: Sequence[str], t: int) -> list[Rule]:
    """The rules that could fire on a token.

    >>> fired_rules(["in", "Varnholt"], 1)
    [('shape', 'Xx'), ('suffix', 'olt'), ('after', 'in')]
    """
    token = tokens[t]
    found = [("shape", _shape(token))]
    if len(token) > 4:
        found.append(("suffix", token[-3:].lower()))
    if t > 0 and token[:1].isupper():
        found.append(("after", tokens[t - 1].lower()))
    return found


@cache
def _shape(token: str) -> str:
    """Capitals as X, other letters as x, digits as 9, each run once."""
    kinds = ("X" if c.isupper() else "x" if c.isalpha() else "9" if c.isdigit() else c for c in token)
    return "".join(kind for kind, _ in groupby(kinds))


def _candidate_rules(
    sentences: Sequence[Sentence], fired: Sequence[Sequence[Sequence[Rule]]], random: Random
) -> list[tuple[Rule, str]]:
    """Rules with a precision as in ``PRECISIONS`` and their types, in random order, likely first if often right."""
    counts = defaultdict[Rule, Counter[str]](Counter)
    for sentence, found in zip(sentences, fired, strict=True):
        for label, some in zip(sentence.labels, found, strict=True):
            for rule in some:
                counts[rule][label[2:]] += 1
    useful, weights = list[tuple[Rule, str]](), list[float]()
    for rule in sorted(counts):
        types = Counter({type_: n for type_, n in counts[rule].items() if type_})
        type_ = _most_frequent(types) if types else ""
        right = types[type_]
        if right >= MIN_RIGHT and PRECISIONS[0] <= right / counts[rule].total() <= PRECISIONS[1]:
            useful.append((rule, type_))
            weights.append(right)
    return by_weight(useful, weights, random)


def _rule_slips(
    sentences: Sequence[Sentence], fired: Sequence[Sequence[Sequence[Rule]]], chosen: Mapping[Rule, str]
) -> list[Slip]:
    """Where labelling by the chosen rules differs from the true labels of what the rules touch."""
    slips: list[Slip] = []
    for number, (sentence, found) in enumerate(zip(sentences, fired, strict=True)):
        types = [next((chosen[rule] for rule in some if rule in chosen), "") for some in found]
        runs = segments([f"I-{type_}" if type_ else "O" for type_ in types], "iob2")
        if not runs:
            continue
        labels = iob2_labels(runs, len(sentence))
        for start, stop in differences(sentence.labels, labels, "iob2"):
            given = tuple(one for one in runs if start <= one.start < stop)
            slips += [Slip(number, start, stop, given)] if given else []
    return slips


def _is_touched(one: Mention, fired: Sequence[Sequence[Sequence[Rule]]], chosen: Mapping[Rule, str]) -> bool:
    places = fired[one.number][one.segment.start : one.segment.stop]
    return any(rule in chosen for some in places for rule in some)


def _num_wrong(sentences: Sequence[Sentence], slips: Sequence[Slip]) -> int:
    pairs = [(sentences[one.number].labels[one.start : one.stop], one.labels()) for one in slips]
    return sum(a != b for old, new in pairs for a, b in zip(old, new, strict=True))


# a language model


def eager(sentences: Sequence[Sentence], share: float, random: Random) -> list[Sentence]:
    """Over-eager labelling, as by a language model: no entity is lost, but too much is labelled.

    Labelled too are capitalised words and dates or numbers next to entities, common nouns that are part of entities
    elsewhere, and pronouns; a word that is chosen is labelled wherever it can be, up to ``MAX_FORM``. Some segments
    take in a neighbouring token, and some of a rare type get the most frequent type.
    """
    mentions = find_mentions(sentences)
    most = max(round(MAX_FORM * share * sum(map(len, sentences))), 1)
    groups = [(at_most(slips, most, random), MENTION_WEIGHTS[kind]) for (kind, _), slips in _words(sentences).items()]
    groups += [([slip], EXTENDED) for one in mentions for slip in _extended(sentences[one.number], one)]
    groups += [([slip], RETYPED) for slip in _retyped(mentions)]
    order = by_weight([slips for slips, _ in groups], [weight for _, weight in groups], random)
    return make_slips(sentences, [slip for slips in order for slip in slips], share)


def _words(sentences: Sequence[Sentence]) -> dict[tuple[str, str], list[Slip]]:
    """Words outside entities that are labelled too, by the reason and the word."""
    mentions = find_mentions(sentences)
    types, usual = defaultdict[str, Counter[str]](Counter), Counter(one.segment.type for one in mentions)
    for one in mentions:
        for token in one.tokens:
            types[token.lower()][one.segment.type] += 1
    found = defaultdict[tuple[str, str], list[Slip]](list)
    for number, sentence in enumerate(sentences):
        for t, token in enumerate(sentence.tokens):
            word, near = token.lower(), _types_near(sentence, t)
            reason = _reason(token, t, word in types, bool(near)) if sentence.labels[t] == "O" else ""
            if reason:
                type_ = _most_frequent(types.get(word) or near or usual)
                found[reason, word].append(Slip(number, t, t + 1, (Segment(t, t + 1, type_),)))
    return found


def _reason(token: str, t: int, is_in_entities: bool, is_near: bool) -> str:
    """Why a token outside entities may be labelled; empty if it is not."""
    if token.lower() in PRONOUNS:
        return "pronoun"
    if is_near and (token.lower() in DATES or token.isdecimal()):
        return "date"
    if is_near and t > 0 and token.istitle():
        return "name"
    return "noun" if is_in_entities and token.isalpha() and token.islower() and len(token) > 3 else ""


def _types_near(sentence: Sentence, t: int) -> Counter[str]:
    """The types of the neighbouring tokens."""
    around = [sentence.labels[place] for place in (t - 1, t + 1) if 0 <= place < len(sentence)]
    return Counter(label[2:] for label in around if label != "O")


def _extended(sentence: Sentence, one: Mention) -> Iterator[Slip]:
    """The segment with a weak neighbour."""
    for t, longer in (
        (one.segment.start - 1, replace(one.segment, start=one.segment.start - 1)),
        (one.segment.stop, replace(one.segment, stop=one.segment.stop + 1)),
    ):
        if is_free(sentence, t) and is_weak(sentence.tokens[t]) and sentence.tokens[t].isalnum():
            yield Slip.of(one.number, [one.segment], [longer])


def _retyped(mentions: Sequence[Mention]) -> list[Slip]:
    """Segments of types that are less than half as frequent as the most frequent one, with that one."""
    counts = Counter(one.segment.type for one in mentions)
    usual = _most_frequent(counts)
    rare = {name for name, n in counts.items() if n < counts[usual] / 2}
    return [
        Slip.of(one.number, [one.segment], [replace(one.segment, type=usual)])
        for one in mentions
        if one.segment.type in rare
    ]
