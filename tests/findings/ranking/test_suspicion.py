"""The combined score against plain loops over regions and words, for every scheme and any size of shards."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tagtrace._checks import DataError, OptionError
from tagtrace.data import Corpus, LabelSet, ReadOptions, Sentence
from tagtrace.data.schemes import normalise, segments
from tagtrace.findings.patterns.conditions import NumberedText
from tagtrace.findings.ranking.suspicion import group_means, mistaken_for, others_mean, regions, suspicion
from tagtrace.index import Index, IndexOptions, build_index
from tagtrace.tagger import new_tagger
from tests.findings.made import sentence_tokens
from tests.index.test_build import Spelt

SETS = {
    "iob2": LabelSet(("O", "B-X", "I-X", "B-Y", "I-Y"), "iob2"),
    "io": LabelSet(("O", "X", "Y"), "io"),
    "plain": LabelSet(("ADJ", "NOUN", "O"), "plain"),
}
WORDS = ("ash", "Ash", "ASH", "birch", "Birch", "cedar", "I-X", "elm")


def index_of(folder: Path, sentences: Sequence[Sentence], labels: LabelSet, shard_tokens: int = 9) -> Index:
    """An index of sentences as they are."""
    corpus = Corpus(Path("train.conll"), tuple(sentences), labels.scheme, ReadOptions(), "made")
    options = IndexOptions(dtype="float32", l2=0.5, shard_tokens=shard_tokens, tolerance=1e-4)
    return build_index(new_tagger(Spelt(dim=3), labels), corpus, folder, options)


def sentences_of(labels: LabelSet, number: int = 12, seed: int = 0) -> list[Sentence]:
    """Sentences of 1 to 5 tokens with random well-formed labels, two a document, a line a token."""
    rng, found, line = random.Random(seed), list[Sentence](), 1
    for sentence in range(number):
        tokens = tuple(rng.choices(WORDS, k=rng.choice([1, 1, 2, 3, 4, 5])))
        given = normalise(rng.choices(labels.labels, k=len(tokens)), labels.scheme)
        lines = range(line, line + len(tokens))
        found.append(Sentence(tokens, given, f"s:{sentence}", f"d:{sentence // 2}", "train.conll", lines))
        line += len(tokens) + 1
    return found


@pytest.fixture(params=list(SETS), scope="module")
def index(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Index:
    labels = SETS[request.param]
    found = index_of(tmp_path_factory.mktemp("made") / "index", sentences_of(labels), labels)
    assert len(found.shards) > 2
    return found


def beliefs(index: Index, seed: int, sharpness: float = 3.0) -> Tensor:
    """Random probabilities (N, C)."""
    generator = torch.Generator().manual_seed(seed)
    shape = (index.num_tokens, len(index.labels))
    return (sharpness * torch.randn(shape, generator=generator, dtype=torch.float64)).softmax(1)


def certain(index: Index, labels: Sequence[Sequence[str]]) -> Tensor:
    """Probabilities that leave no doubt of these labels, (N, C)."""
    ids = [index.labels.index(label) for each in labels for label in each]
    return torch.nn.functional.one_hot(torch.tensor(ids), len(index.labels)).double()


def given_labels(index: Index) -> list[tuple[str, ...]]:
    return [index.sentence(number).labels for number in range(index.num_sentences)]


def hangs_on(scheme: str, before: str, label: str) -> bool:
    if scheme == "iob2":
        return label.startswith("I-")
    return scheme == "io" and label == before != "O"


def slow_regions(index: Index, believed: Tensor) -> list[int]:
    """Token by token."""
    found: list[int] = []
    names, scheme = index.labels.labels, index.labels.scheme
    for row, (number, t) in enumerate(sentence_tokens(index)):
        given = index.sentence(number).labels
        likeliest = [names[int(believed[row - t + s].argmax())] for s in range(len(given))]
        joined = t > 0 and any(hangs_on(scheme, one[t - 1], one[t]) for one in (given, likeliest))
        found.append(found[-1] if joined else (found[-1] + 1 if found else 0))
    return found


def slow_suspicion(index: Index, believed: Tensor) -> list[float]:
    """From the definition."""
    places = sentence_tokens(index)
    words = [index.sentence(number).tokens[t].lower() for number, t in places]
    labels = [index.sentence(number).labels[t] for number, t in places]
    losses = [-math.log(float(believed[row, index.labels.index(label)])) for row, label in enumerate(labels)]
    region = slow_regions(index, believed)
    shared: list[float] = []
    for row, loss in enumerate(losses):
        own = [losses[other] for other in range(len(losses)) if region[other] == region[row]]
        shared.append((loss + sum(own) / len(own)) / 2)
    found: list[float] = []
    for row, value in enumerate(shared):
        like = [o for o in range(len(shared)) if o != row and (words[o], labels[o]) == (words[row], labels[row])]
        mean = sum(shared[other] for other in like) / len(like) if like else value
        found.append(0.75 * value + 0.25 * mean)
    return found


@settings(max_examples=15)
@given(st.integers(0, 10_000), st.sampled_from([0.0, 1.0, 6.0]))
def test_suspicion_is_its_definition(index: Index, seed: int, sharpness: float) -> None:
    believed = beliefs(index, seed, sharpness)
    assert regions(NumberedText(index), believed).tolist() == slow_regions(index, believed)
    assert suspicion(NumberedText(index), believed).tolist() == pytest.approx(slow_suspicion(index, believed), rel=1e-9)


def test_regions_are_segments_and_single_tokens_outside(index: Index) -> None:
    """Where the likeliest labels are those given, or spell segments of their own."""
    text = NumberedText(index)
    outside = ["O"] * int(index.lengths.max())
    for likeliest in (given_labels(index), [outside[: len(one)] for one in given_labels(index)]):
        found = regions(text, certain(index, likeliest)).split(index.lengths.tolist())
        first = 0
        for part, labels in zip(found, given_labels(index), strict=True):
            owner = list(range(len(labels)))
            for segment in segments(labels, index.labels.scheme):
                owner[segment.start : segment.stop] = [segment.start] * (segment.stop - segment.start)
            numbers = {start: first + number for number, start in enumerate(sorted(set(owner)))}
            assert part.tolist() == [numbers[start] for start in owner]
            first += len(numbers)


def test_regions_stay_in_their_sentences(index: Index) -> None:
    """Even where every token is believed to go on with the one before it."""
    goes_on = {"iob2": "I-X", "io": "X", "plain": "NOUN"}[index.labels.scheme]
    found = regions(NumberedText(index), certain(index, [[goes_on] * len(one) for one in given_labels(index)]))
    sentences = torch.tensor([number for number, _ in sentence_tokens(index)])
    if index.labels.scheme == "plain":
        assert found.tolist() == list(range(index.num_tokens))
    else:
        assert found.tolist() == sentences.tolist()


def test_shards_do_not_matter(tmp_path: Path) -> None:
    labels = SETS["iob2"]
    several = [index_of(tmp_path / str(n), sentences_of(labels), labels, n) for n in (1, 7, 100_000)]
    assert len({len(index.shards) for index in several}) == 3
    believed = beliefs(several[0], 3)
    found = [suspicion(NumberedText(index), believed) for index in several]
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])
    asked = [mistaken_for(index, believed, "X:Y") for index in several]
    assert torch.equal(asked[0], asked[2])


def test_by_hand(tmp_path: Path) -> None:
    """Two tokens of one segment, the same word with the same label elsewhere, and with another label."""
    sentences = [
        Sentence(("Ash", "Street"), ("B-X", "I-X"), "s:0"),
        Sentence(("ash",), ("B-X",), "s:1"),
        Sentence(("ash",), ("O",), "s:2"),
    ]
    index = index_of(tmp_path / "index", sentences, SETS["iob2"])
    p = torch.tensor([[0.7, 0.1, 0, 0.2, 0], [0, 0, 0.4, 0.2, 0.4], [0, 0.5, 0, 0.5, 0], [0.9, 0.1, 0, 0, 0]])
    first, second, third, fourth = (-math.log(each) for each in (0.1, 0.4, 0.5, 0.9))
    mean = (first + second) / 2
    r = [(first + mean) / 2, (second + mean) / 2, third, fourth]
    expected = [0.75 * r[0] + 0.25 * r[2], r[1], 0.75 * r[2] + 0.25 * r[0], r[3]]
    assert suspicion(NumberedText(index), p.double()).tolist() == pytest.approx(expected)
    assert suspicion(NumberedText(index), p).tolist() == pytest.approx(expected, rel=1e-6)
    assert mistaken_for(index, p.double(), "Y:X").tolist() == pytest.approx([0.2, 0.6, 0.5, 0.0])
    assert mistaken_for(index, p.double(), "O:B-X").tolist() == pytest.approx([0.7, 0.0, 0.0, 0.0])


def test_a_label_that_is_ruled_out_is_very_suspicious_not_infinite(tmp_path: Path) -> None:
    index = index_of(tmp_path / "index", [Sentence(("a",), ("O",), "s:0"), Sentence(("b",), ("B-X",), "s:1")],
                     SETS["iob2"])  # fmt: skip
    found = suspicion(NumberedText(index), certain(index, [["B-Y"], ["B-X"]]))
    assert found.isfinite().all()
    assert float(found[0]) > 100
    assert float(found[1]) == 0.0


@settings(max_examples=10)
@given(st.integers(0, 10_000))
def test_mistaken_for_sums_the_labels_of_a_type(index: Index, seed: int) -> None:
    believed, names = beliefs(index, seed, 1.0), index.labels.labels
    kinds = sorted({name.split("-")[-1] for name in names} | set(names))
    for gold in kinds:
        for predicted in kinds:
            is_gold = [gold in (name, name.split("-")[-1]) for name in names]
            is_predicted = [predicted in (name, name.split("-")[-1]) for name in names]
            if any(a and b for a, b in zip(is_gold, is_predicted, strict=True)):
                with pytest.raises(OptionError, match="nothing in common"):
                    mistaken_for(index, believed, f"{gold}:{predicted}")
                continue
            expected: list[float] = []
            for row, (number, t) in enumerate(sentence_tokens(index)):
                label = index.labels.index(index.sentence(number).labels[t])
                total = sum(float(believed[row, c]) for c in range(len(names)) if is_gold[c])
                expected.append(total if is_predicted[label] else 0.0)
            assert mistaken_for(index, believed, f"{gold}:{predicted}").tolist() == pytest.approx(expected)


@given(st.lists(st.tuples(st.integers(0, 4), st.floats(-5, 5)), min_size=1, max_size=12))
def test_means_of_groups_and_of_the_others_in_them(members: list[tuple[int, float]]) -> None:
    owner, values = torch.tensor([one[0] for one in members]), torch.tensor([one[1] for one in members]).double()
    for row, (group, value) in enumerate(members):
        own = [v for g, v in members if g == group]
        others = [v for other, (g, v) in enumerate(members) if g == group and other != row]
        assert float(group_means(values, owner)[row]) == pytest.approx(sum(own) / len(own), abs=1e-6)
        expected = sum(others) / len(others) if others else value
        assert float(others_mean(values, owner)[row]) == pytest.approx(expected, abs=1e-6)


def test_probabilities_of_other_data_are_refused(index: Index) -> None:
    believed = beliefs(index, 0)
    broken = believed.clone()
    broken[3, 1] = torch.nan
    for wrong in (believed[:-1], believed[:, :-1], broken):
        with pytest.raises(DataError, match="the probabilities are of other data"):
            suspicion(NumberedText(index), wrong)
        with pytest.raises(DataError, match="the probabilities are of other data"):
            mistaken_for(index, wrong, "X:O")
    for pair, message in (("X", "expected GOLD:PREDICTED"), ("X:Y:O", "expected GOLD"), ("O:WINE", "unknown label")):
        with pytest.raises(OptionError, match=message):
            mistaken_for(index, believed, pair)
