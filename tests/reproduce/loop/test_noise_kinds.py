"""Simulated noise: well-formed, reproducible, of the size asked for, and of the kind that it says."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from statistics import fmean

import pytest

from tagtrace._checks import DataError, OptionError
from tagtrace.data import Segment, Sentence, violations
from tagtrace.reproduce.loop.noise_annotators import PROPERTIES, document_kinds
from tagtrace.reproduce.loop.noise_kinds import LEAST, MOST, NOISES, default_share, make_noise, share_wrong
from tagtrace.reproduce.loop.noise_machines import PRONOUNS, fired_rules
from tagtrace.reproduce.loop.slips import Slip, by_weight, find_mentions, is_weak, make_slips
from tests.reproduce.loop.made_noise import found, one_type, true_sentences


@pytest.mark.parametrize("name", NOISES)
@pytest.mark.parametrize("data", [true_sentences, one_type])
def test_every_kind_is_well_formed_reproducible_and_of_the_share_asked_for(
    name: str, data: Callable[[], tuple[Sentence, ...]]
) -> None:
    true = data()
    noisy = list[Sentence]()
    for share in (0.04, 0.06):
        noisy = make_noise(name, true, 3, share)
        assert not any(violations(one.labels, "iob2") for one in noisy)
        assert [replace(a, labels=b.labels) for a, b in zip(noisy, true, strict=True)] == list(true), "only labels"
        assert share_wrong(noisy, true) == pytest.approx(share, abs=0.003)
    assert noisy == make_noise(name, true, 3, 0.06)
    assert noisy != make_noise(name, true, 4, 0.06)


@pytest.mark.parametrize("name", NOISES)
def test_by_default_a_few_tokens_in_a_hundred_are_wrong(name: str) -> None:
    true = true_sentences()
    assert LEAST <= default_share(name, true) <= MOST
    assert share_wrong(make_noise(name, true, 0), true) == pytest.approx(default_share(name, true), abs=0.003)
    rare = [replace(one, labels=("O",) * len(one)) for one in true] + [Sentence(("Ostrel",), ("B-LOC",))]
    assert default_share(name, rare) == LEAST


def test_the_share_of_wrong_tokens_is_counted() -> None:
    true = [Sentence(("a", "b"), ("O", "B-X")), Sentence(("c", "d"), ("O", "O"))]
    assert share_wrong([true[0].with_labels(("B-X", "I-X")), true[1]], true) == 0.5


def test_missed_only_removes_whole_segments_rare_and_late_ones_first() -> None:
    true = true_sentences()
    lost = [found(true) - found(make_noise("missed", true, seed, 0.05)) for seed in range(5)]
    assert all(found(make_noise("missed", true, seed, 0.05)) < found(true) for seed in range(2))
    counts = Counter(one.tokens for one in find_mentions(true))
    places, seen = dict[tuple[int, Segment], tuple[int, int]](), Counter[str]()
    for one in find_mentions(true):
        document = true[one.number].document
        places[one.number, one.segment] = counts[one.tokens], seen[document]
        seen[document] += 1
    kept = [places[key] for key in places]
    gone = [places[key] for some in lost for key in some]
    assert fmean(count for count, _ in gone) < 0.8 * fmean(count for count, _ in kept)
    assert fmean(late for _, late in gone) > 1.1 * fmean(late for _, late in kept)


def test_boundaries_move_by_one_token_split_or_merge() -> None:
    true = true_sentences()
    noisy = make_noise("boundaries", true, 0, 0.06)
    changed = found(noisy) - found(true)
    kinds = Counter(_change(one, [two for n, two in found(true) if n == number]) for number, one in changed)
    assert set(kinds) == {"shorter", "longer", "split", "merged"}
    assert kinds["shorter"] + kinds["longer"] > kinds["split"] + kinds["merged"]
    pairs = [pair for a, b in zip(true, noisy, strict=True) for pair in zip(a.tokens, a.labels, b.labels, strict=True)]
    dropped = [is_weak(token) for token, old, new in pairs if old != "O" == new]
    edges = [is_weak(one.tokens[t]) for one in find_mentions(true) if len(one.tokens) > 1 for t in (0, -1)]
    assert fmean(dropped) > 1.4 * fmean(edges), "weak tokens are preferred"


def _change(new: Segment, true: list[Segment]) -> str:
    touching = [one for one in true if one.start < new.stop and new.start < one.stop]
    if len(touching) == 2:
        return "merged"
    (old,) = touching
    assert old.type == new.type
    moved = abs(old.start - new.start) + abs(old.stop - new.stop)
    if moved == 1:
        return "shorter" if new.stop - new.start < old.stop - old.start else "longer"
    assert old.start <= new.start
    assert new.stop <= old.stop
    return "split"


def test_types_are_confused_in_whole_kinds_of_documents() -> None:
    true = true_sentences()
    noisy = make_noise("types", true, 0, 0.04)
    kinds = document_kinds(true, Random("types 0"))
    assert 2 < len(set(kinds)) <= 8
    by_kind = defaultdict[str, Counter[tuple[str, str]]](Counter)
    for number, (given, right) in enumerate(zip(noisy, true, strict=True)):
        for a, b in zip(right.labels, given.labels, strict=True):
            assert a[0] == b[0], "boundaries stay"
            if a != "O":
                by_kind[kinds[number]][a[2:], b[2:]] += 1
    spoiled = {kind: {pair for pair in pairs if pair[0] != pair[1]} for kind, pairs in by_kind.items()}
    assert all(len(pairs) <= 1 for pairs in spoiled.values()), "one guideline for a kind"
    assert 1 <= sum(map(bool, spoiled.values())) < len(by_kind), "some kinds are clean"
    partly = [kind for kind, pairs in spoiled.items() for old, _ in pairs if by_kind[kind][old, old]]
    assert len(partly) <= 1, "only the last kind is confused in part"


def test_documents_of_a_kind_share_a_word() -> None:
    kinds, texts = document_kinds(true_sentences(), Random(0)), defaultdict[str, set[str]](set)
    for one in true_sentences():
        texts[one.document] |= {token.lower() for token in one.tokens}
    for one, kind in zip(true_sentences(), kinds, strict=True):
        assert kind.startswith(" ") or kind in texts[one.document]
    assert len(set(zip((one.document for one in true_sentences()), kinds, strict=True))) == len(texts)


def test_with_one_type_segments_with_a_property_are_left_out() -> None:
    true = one_type()
    noisy = make_noise("types", true, 0, 0.03)
    kinds = document_kinds(true, Random("types 0"))
    mentions = {(one.number, one.segment): one for one in find_mentions(true)}
    lost = found(true) - found(noisy)
    assert found(noisy) < found(true)
    properties = defaultdict[str, set[int]](set)
    for key in lost:
        properties[kinds[key[0]]].add([applies(mentions[key]) for applies in PROPERTIES].index(True))
    assert all(len(which) == 1 for which in properties.values())


def test_a_form_of_the_gazetteer_has_one_label_everywhere() -> None:
    true = true_sentences()
    noisy = make_noise("gazetteer", true, 0, 0.08)
    listed = {one.tokens: one.segment.type for one in find_mentions(noisy)}
    assert len(listed) == len({(one.tokens, one.segment.type) for one in find_mentions(noisy)})
    assert listed.keys() < {one.tokens for one in find_mentions(true)}
    for sentence in noisy:
        for t in range(len(sentence)):
            outside = [form for form in listed if sentence.tokens[t : t + len(form)] == form]
            assert not outside or sentence.labels[t] != "O"


def test_a_gazetteer_with_about_half_of_the_forms_loses_about_half_of_the_entities() -> None:
    true = one_type()
    forms = {one.tokens for one in find_mentions(true)}
    kept = forms & {one.tokens for one in find_mentions(make_noise("gazetteer", true, 0, 0.15))}
    assert 0.3 < len(kept) / len(forms) < 0.7


def test_rules_fire_everywhere_and_what_they_leave_is_kept_or_lost() -> None:
    true = true_sentences()
    noisy = make_noise("rules", true, 0, 0.06)
    assert found(true) & found(noisy)
    assert found(true) - found(noisy)
    always = _always_labelled(noisy)
    new = [(n, t) for n, one in enumerate(noisy) for t, label in enumerate(one.labels) if label != "O"]
    new = [(n, t) for n, t in new if true[n].labels[t] == "O"]
    assert len(new) > 10, "rules label what is not an entity"
    assert all(always.intersection(fired_rules(noisy[n].tokens, t)) for n, t in new)


def _always_labelled(sentences: Sequence[Sentence]) -> set[tuple[str, str]]:
    """The rules that fire several times, always on labelled tokens."""
    fired, labelled = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for one in sentences:
        for t, label in enumerate(one.labels):
            for rule in fired_rules(one.tokens, t):
                fired[rule] += 1
                labelled[rule] += label != "O"
    return {rule for rule, count in fired.items() if count > 4 and labelled[rule] == count}


def test_an_eager_labeller_loses_no_entity() -> None:
    true = true_sentences()
    noisy = make_noise("eager", true, 0, 0.08)
    extra = list[str]()
    for right, given in zip(true, noisy, strict=True):
        assert all(b != "O" for a, b in zip(right.labels, given.labels, strict=True) if a != "O")
        extra += [w for w, a, b in zip(right.tokens, right.labels, given.labels, strict=True) if a == "O" != b]
    assert any(word.lower() in PRONOUNS for word in extra)
    assert any(word.isdecimal() for word in extra)
    assert any(word.islower() and word not in PRONOUNS for word in extra)
    kept = len(found(true) & found(noisy)) / len(found(true))
    assert kept > 0.75
    retyped = Counter(
        (a[2:], b[2:]) for right, given in zip(true, noisy, strict=True)
        for a, b in zip(right.labels, given.labels, strict=True) if a != "O" and a[2:] != b[2:]
    )  # fmt: skip
    counts = Counter(one.segment.type for one in find_mentions(true))
    assert {new for _, new in retyped} == {counts.most_common(1)[0][0]}
    assert {old for old, _ in retyped} == {"MISC"}, "only rare types are replaced"


def test_slips_do_not_overlap_and_stop_in_time() -> None:
    true = [Sentence(("a", "b", "c", "d"), ("B-X", "I-X", "O", "B-X"))]
    first = Slip.of(0, [Segment(0, 2, "X")], [Segment(1, 3, "Y")])
    slips = [first, Slip.of(0, [Segment(0, 2, "X")], []), Slip.of(0, [Segment(3, 4, "X")], [])]
    assert make_slips(true, slips, 0.5)[0].labels == ("O", "B-Y", "I-Y", "B-X")
    assert make_slips(true, slips, 1.0)[0].labels == ("O", "B-Y", "I-Y", "O")


def test_heavier_items_come_first() -> None:
    """Against the exact probability of the first place, w / sum of w."""
    random = Random(0)
    first = Counter(by_weight("abc", [1.0, 2.0, 5.0], random)[0] for _ in range(8000))
    assert first["c"] / 8000 == pytest.approx(5 / 8, abs=0.02)
    assert first["a"] / 8000 == pytest.approx(1 / 8, abs=0.02)


def test_what_noise_cannot_be_made_of_is_refused() -> None:
    with pytest.raises(OptionError, match="no noise 'loud'; expected one of missed"):
        make_noise("loud", true_sentences(), 0)
    with pytest.raises(OptionError, match="must be between 0 and 1"):
        make_noise("missed", true_sentences(), 0, 1.5)
    with pytest.raises(DataError, match="no segments"):
        make_noise("missed", [Sentence(("a",), ("O",))], 0)
    with pytest.raises(DataError, match="not well-formed iob2"):
        make_noise("missed", [Sentence(("a",), ("I-X",))], 0)
