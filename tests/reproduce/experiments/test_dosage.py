"""The dosage experiment: its parts on invented labels and an invented index, and the quick run on real data."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tagtrace._checks import TagtraceError
from tagtrace.data import LabelSet, Sentence
from tagtrace.findings import Queries, read_trusted
from tagtrace.index import Index
from tagtrace.reproduce.experiments import dosage
from tagtrace.reproduce.experiments.dosage import (
    DosageOptions,
    all_queries,
    methods_with_curvature,
    methods_without_curvature,
    queries,
    rows_of,
    token_f1,
)
from tagtrace.reproduce.experiments.dosage_conflicts import EXAMPLE, TOKEN
from tagtrace.reproduce.experiments.dosage_regex import PRINTED, RELEASED
from tagtrace.reproduce.shared.experiment import SeedResult, run_seed
from tagtrace.reproduce.shared.retrieval import Retriever
from tagtrace.reproduce.shared.setting import Setting
from tests.findings.made import make_sentences, make_tagger
from tests.places import DATA

LABELS = LabelSet(("O", "INT", "POP"), "io")


OPTIONS = DosageOptions("", [], ["INT"], "INT", ["printed"], 0, 0, 0, 1e-6, True, {}, {})


def test_a_query_is_the_last_mispredicted_token_of_a_dosage_outside() -> None:
    first = Sentence(("drug", "5", "mg", "and", "6", "mg"), ("INT", "O", "O", "O", "O", "INT"))
    second = Sentence(("7", "mg", "8", "mg", "9", "mg"), ("O", "POP", "O", "O", "O", "O"))
    predicted = torch.tensor([1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 0, 0]).bool()
    # 5 mg: its last; 6 mg: partly an intervention in gold; 7 mg: its first; 8 mg: its last; 9 mg: predicted correctly
    assert queries([first, second], predicted, PRINTED, OPTIONS).tolist() == [2, 6, 9]
    assert queries([first, second], ~torch.ones(12).bool(), PRINTED, OPTIONS).tolist() == []


def test_queries_of_several_test_sets_are_rows_of_all_of_them() -> None:
    dosage_outside = Sentence(("take", "5", "mg"), ("O", "O", "O"))
    tests = {"one": [dosage_outside], "two": [Sentence(("now",), ("O",)), dosage_outside]}
    options = replace(OPTIONS, readings=["printed", "released"])
    found = all_queries(tests, torch.tensor([0, 1, 1, 1, 0, 1, 0]).bool(), options)
    assert {name: rows.tolist() for name, (_, rows) in found.items()} == {
        "printed, one": [2], "printed, two": [5], "released, one": [], "released, two": [],
    }  # fmt: skip
    assert found["released, two"][0] is RELEASED  # no intervention is near
    assert rows_of(tests) == {"one": slice(0, 3), "two": slice(3, 7)}


def test_token_f1() -> None:
    gold, predicted = torch.tensor([0, 1, 1, 2, 2, 0]), torch.tensor([1, 1, 0, 2, 2, 0])
    found = token_f1(gold, predicted, LABELS)
    assert found == pytest.approx({"INT": 0.5, "POP": 1.0, "mean": 0.75, "micro": 6 / 8})


class TooLargeError(TagtraceError):
    """Raised in a test in place of computing a Hessian."""


@pytest.mark.parametrize(
    "error", [TooLargeError("not\nenough memory"), RuntimeError("CUDA out of memory"), MemoryError()]
)
def test_curvature_that_cannot_be_computed_is_left_out(
    index: Index, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    trusted = read_trusted(index, make_tagger(), make_sentences(9, seed=5))
    retriever, asked, lines = Retriever(index), Queries(trusted.rows, torch.tensor([0, 3])), list[str]()
    cheap = methods_without_curvature(retriever, asked, lines.append)
    assert len(cheap) == 6
    found, notes = methods_with_curvature(retriever, asked, lines.append)
    assert (len(found), notes) == (4, [])
    assert not cheap.keys() & found.keys()

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(dosage, "DeviceCurvature", fail)
    found, notes = methods_with_curvature(retriever, asked, lines.append)
    assert found == {}
    assert notes == [lines[-1]]
    assert "\n" not in notes[0]
    assert notes[0] in (f"curvature is left out: {' '.join(str(error).split())}", "curvature is left out: MemoryError")


@pytest.mark.skipif(not (DATA / "ebmnlp").is_dir(), reason=f"no EBM-NLP in {DATA}; set TAGTRACE_DATA")
def test_the_quick_run_has_the_expected_direction(tmp_path: Path) -> None:
    found = run_seed(dosage.EXPERIMENT, Setting(DATA, tmp_path, quick=True, report=lambda _: None), 0)
    assert dosage.check([found]) == []
    text = dosage.table([found, found])
    assert "| segment influence, cosine | " in text
    assert "| *segment influence, paper* | 97.9 | 100.0 | 97.9 | 97.9 | 87.5 | 85.4 |" in text
    assert len(dosage.check([reversed_(found)])) == 3
    partial = json.loads((tmp_path / "work/dosage-0/partial.json").read_text())
    assert partial["notes"] == ["curvature was not computed"]
    whole = found["readings"]["released, test_gold"]["methods"]
    assert all(whole[name] == shares for name, shares in partial["readings"]["released, test_gold"]["methods"].items())
    text = dosage.table([found, {**found, **partial}])
    assert "segment influence, curvature" not in text
    assert "Seed 0: curvature was not computed." in text


def reversed_(found: SeedResult) -> SeedResult:
    """The result with the shares of segment and instance influence swapped, and without conflicting tokens."""
    changed = copy.deepcopy(found)
    methods = changed["readings"]["released, test_gold"]["methods"]
    instance = methods["instance influence, cosine"]
    methods["instance influence, cosine"] = methods["segment influence, cosine"]
    methods["segment influence, cosine"] = {**dict.fromkeys(TOKEN, 0.0), **instance, EXAMPLE[2]: 0.0}
    return changed
