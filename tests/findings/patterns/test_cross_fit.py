"""Verdicts by cross-fitting: proposals that only the trusted data taught do not help; right ones do."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
import torch
from torch import Tensor

from tagtrace._checks import OptionError
from tagtrace.data import Corpus, LabelSet, ReadOptions, Sentence
from tagtrace.findings.judges.folds import taught_head
from tagtrace.findings.patterns import cross_fit
from tagtrace.findings.patterns.conditions import Condition, NumberedText
from tagtrace.findings.patterns.cross_fit import CrossFit
from tagtrace.findings.patterns.group_effect import (
    GroupEffect,
    TrustedFit,
    TrustedPart,
    group_effect,
    joint_effect,
    pattern_edits,
)
from tagtrace.findings.patterns.pattern import Pattern
from tagtrace.findings.ranking.trusted import read_trusted
from tagtrace.index import Index, IndexOptions, build_index
from tagtrace.influence import Edit, Explainer
from tagtrace.tagger import Tagger, new_tagger
from tests.index.test_build import Spelt

NUM_NAMES = 48
LABELS = LabelSet(("O", "B-LOC", "B-ORG"), "iob2")
BLANK = Pattern(1, "", None, 0, 0, (), (), (), 0.9, 0.0, "")
ROWS = {crc32(f"name{number}".encode()) % 64: f"name{number}" for number in range(200)}
NAMES = sorted(name for row, name in ROWS.items() if row not in {crc32(word) % 64 for word in (b"the", b"fell")})
"""Names with features of their own."""


def sentence(number: int, name: int, label: str, document: str) -> Sentence:
    """A word before and after a name."""
    return Sentence(("the", NAMES[name], "fell"), ("O", label, "O"), f"{document}:{number}", document)


def make_index(folder: Path, sentences: list[Sentence]) -> tuple[Index, Tagger]:
    """Every name has a feature of its own, and what is learned about one says nothing about the others."""
    encoder = Spelt(dim=64)
    encoder.table.data = 3.0 * torch.eye(64)
    tagger = new_tagger(encoder, LABELS)
    corpus = Corpus(Path("train.conll"), tuple(sentences), "iob2", ReadOptions(), "made")
    return build_index(tagger, corpus, folder / "index", IndexOptions(dtype="float32", l2=2.0)), tagger


def training(wrong: set[int], num_copies: int = 10) -> list[Sentence]:
    """Ten sentences of every name; so many of those of ``wrong`` names are LOC, all others ORG."""
    return [
        sentence(copy, name, "B-LOC" if name in wrong and copy < num_copies else "B-ORG", f"train-{copy}")
        for copy in range(10)
        for name in range(NUM_NAMES)
    ]


def odd_trusted(seed: int) -> list[Sentence]:
    """Two names in each document, none in two; a third of the LOC names are ORG there, a third of the ORG names LOC."""
    rng = random.Random(seed)
    odd = {*rng.sample(range(0, NUM_NAMES, 2), NUM_NAMES // 6), *rng.sample(range(1, NUM_NAMES, 2), NUM_NAMES // 6)}
    return [
        sentence(copy, name, "B-LOC" if (name % 2 == 0) != (name in odd) else "B-ORG", f"dev-{name // 2}")
        for name in range(NUM_NAMES)
        for copy in range(3)
    ]


@pytest.mark.parametrize("change", ["LOC -> ORG", "ORG -> LOC"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_what_only_the_trusted_data_taught_does_not_help(tmp_path: Path, seed: int, change: str) -> None:
    """Proposals fit the trusted data that taught them; the halves know nothing of each other's names."""
    index, tagger = make_index(tmp_path, training(set(range(0, NUM_NAMES, 2))))
    trusted, explainer = read_trusted(index, tagger, odd_trusted(seed)), Explainer(index)
    crossed, pattern = CrossFit(NumberedText(index), trusted), replace(BLANK, change=change)
    everything = torch.ones(len(trusted.rows.lengths), dtype=torch.bool)
    findings = crossed._learned_from(everything)  # pyright: ignore[reportPrivateUsage]
    edits = pattern_edits(index, [one for one in findings if one.change == change])
    assert len(edits) == 10 * NUM_NAMES // 6
    circular = group_effect(explainer, trusted.rows, edits, verify=True, documents=trusted.documents)
    assert circular.verdict == "helps"
    honest = crossed.effect(explainer, pattern)
    assert honest.num_edits == len(edits)
    assert honest.verdict != "helps"
    assert honest.change > 0.2 * circular.change


def right_trusted() -> list[Sentence]:
    """Twelve documents, each with a fourth of the names, all of which are ORG."""
    pairs = [(copy, name) for copy in range(12) for name in range(copy % 4, NUM_NAMES, 4)]
    return [sentence(copy, name, "B-ORG", f"dev-{copy}") for copy, name in pairs]


def test_right_proposals_help(tmp_path: Path) -> None:
    """A third of the names is mostly wrong in the training data; each half of the trusted documents knows better."""
    index, tagger = make_index(tmp_path, training(set(range(0, NUM_NAMES, 3)), 6))
    trusted = read_trusted(index, tagger, right_trusted())
    pattern = replace(BLANK, change="LOC -> ORG")
    found = CrossFit(NumberedText(index), trusted).effect(Explainer(index), pattern)
    assert found.verdict == "helps"
    assert found.verified is not None
    assert found.verified.num_wrong < found.before.num_wrong
    assert found.loss_interval is not None
    assert found.wrong_interval is not None
    assert found.loss_interval[0] < found.change < found.loss_interval[1] < 0
    assert found.wrong_interval[1] < 0
    assert found.num_documents == 12


def test_each_half_is_judged_by_what_the_other_taught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index, tagger = make_index(tmp_path, training(set(range(0, NUM_NAMES, 3)), 6))
    trusted = read_trusted(index, tagger, right_trusted())
    learned: list[Tensor] = []

    def watched(index: Index, keep: Tensor, rows: object, **options: object) -> object:
        learned.append(rows.features)  # type: ignore[attr-defined]
        return taught_head(index, keep, rows, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(cross_fit, "taught_head", watched)
    crossed = CrossFit(NumberedText(index), trusted)
    pattern = replace(BLANK, change="LOC -> ORG")
    parts = [crossed._judged(half, pattern, ()) for half in (0, 1)]  # pyright: ignore[reportPrivateUsage]
    assert [torch.equal(parts[half].rows.features, learned[1 - half]) for half in (0, 1)] == [True, True]
    documents = [set(part.documents.tolist()) for part in parts]
    assert documents[0].isdisjoint(documents[1])
    assert documents[0] | documents[1] == set(range(12))


def test_a_condition_and_earlier_patterns_choose_the_edits(tmp_path: Path) -> None:
    index, tagger = make_index(tmp_path, training(set(range(0, NUM_NAMES, 3)), 6))
    crossed = CrossFit(NumberedText(index), read_trusted(index, tagger, right_trusted()))
    blank = replace(BLANK, change="LOC -> ORG")
    form = replace(blank, condition=Condition("form", NAMES[6]))

    def words(pattern: Pattern, earlier: tuple[Pattern, ...] = ()) -> set[str]:
        part = crossed._judged(0, pattern, earlier)  # pyright: ignore[reportPrivateUsage]
        return {index.sentence(edit.sentence_number).tokens[edit.start] for edit in part.edits}

    assert words(form) == {NAMES[6]}
    assert words(blank) - words(blank, (form,)) == {NAMES[6]}
    assert len(words(blank)) > 3
    assert words(blank, (replace(form, change="LOC -> O"),)) == words(blank)
    with pytest.raises(OptionError, match="do not propose it"):
        crossed.effect(Explainer(index), replace(blank, change="ORG -> O"))


def test_the_interval_is_that_of_resampled_documents(tmp_path: Path) -> None:
    """Against a plain bootstrap over documents of different sizes."""
    index, tagger = make_index(tmp_path, training(set(range(0, NUM_NAMES, 3)), 6))
    some = [one for number, one in enumerate(right_trusted()) if number % 5]
    trusted, explainer = read_trusted(index, tagger, some), Explainer(index)
    edits = [Edit(3, 1, 2, (2,)), Edit(6, 1, 2, (2,)), Edit(9, 1, 2, (1,))]
    found = group_effect(explainer, trusted.rows, edits, documents=trusted.documents)
    one_by_one = [
        group_effect(explainer, trusted.rows.take(torch.tensor([number])), edits).change for number in range(len(some))
    ]
    names = [one.document for one in some]
    draws, rng = [], random.Random(0)
    for _ in range(4000):
        drawn = rng.choices(sorted(set(names)), k=len(set(names)))
        changes = [change for name in drawn for change, own in zip(one_by_one, names, strict=True) if own == name]
        draws.append(float(np.mean(changes)))
    low, high = np.percentile(draws, [2.5, 97.5])
    assert found.change == pytest.approx(np.mean(one_by_one))
    assert found.loss_interval == pytest.approx((low, high), abs=0.1 * (high - low))


def test_parts_are_judged_by_their_own_edits(tmp_path: Path) -> None:
    index, tagger = make_index(tmp_path, training({0}))
    rows, explainer = tagger.rows(right_trusted()), Explainer(index)
    halves = [rows.take(torch.arange(start, start + 72)) for start in (0, 72)]
    numbers = torch.arange(72)
    edits = [[Edit(0, 1, 2, (2,)), Edit(24, 1, 2, (2,))], [Edit(3, 1, 2, (1,))]]
    parts = [TrustedPart(half, numbers + 72 * place, edits[place]) for place, half in enumerate(halves)]
    found = joint_effect(explainer, parts, verify=True)
    alone = [group_effect(explainer, half, own, verify=True) for half, own in zip(halves, edits, strict=True)]
    assert found.change == pytest.approx(np.mean([one.change for one in alone]))
    assert found.after.num_wrong == sum(one.after.num_wrong for one in alone)
    assert (found.num_edits, found.num_sentences, found.num_documents) == (3, 144, 144)
    only = joint_effect(explainer, [parts[0], replace(parts[1], edits=[])], verify=True)
    assert only.change == pytest.approx(alone[0].change / 2)


def test_verdicts() -> None:
    fits = TrustedFit(1.0, 3), TrustedFit(0.9, 2)

    def verdict(low: float, high: float, num_documents: int = 20) -> str:
        return GroupEffect(1, 30, 90, *fits, None, num_documents, (low, high)).verdict

    assert verdict(-0.3, -0.01) == "helps"
    assert verdict(-0.3, 0.0) == verdict(0.0, 0.3) == verdict(-0.1, 0.1) == "no clear difference"
    assert verdict(0.01, 0.3) == "hurts"
    assert verdict(-0.3, -0.01, 5) == "no clear difference"  # five documents may agree by accident
    assert GroupEffect(1, 30, 90, *fits).verdict == "no clear difference"
    line = replace(BLANK, effect=GroupEffect(1, 30, 90, *fits, None, 20, (-1.0, 2.0)))
    assert line.effect_line == "1.0000 -> 0.9000, change -1.0000 to +2.0000 (no clear difference)"
