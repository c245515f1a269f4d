"""``tagtrace verify``: the estimated change and the one after retraining."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tagtrace._checks import TrainingError
from tagtrace.cli.show import out
from tagtrace.influence import Explainer, Query, TrainingSegment
from tagtrace.influence.edits.refine import Refiner
from tests.cli.command import answer
from tests.cli.questions import ask


def test_both_changes_are_shown(indexed: Path, tmp_path: Path) -> None:
    predicted, both = tmp_path / "predicted.json", tmp_path / "both.json"
    (first,) = answer(ask(indexed, "explain", "--top", 2, "--refine", "--json", predicted), predicted)
    result = ask(indexed, "verify", "--top", 2, "--json", both)
    (second,) = answer(result, both)
    for side in ("supporters", "opposers"):
        for one, other in zip(first[side], second[side], strict=True):
            assert (one["rung"], other["rung"]) == ("refine", "verify")
            assert one["refined_change"] == one["change"] == pytest.approx(other["refined_change"], abs=1e-9)
            assert one["verified_change"] is None
            assert other["verified_change"] == other["change"] == pytest.approx(other["refined_change"], rel=0.2)
            assert other["verified_change"] != other["refined_change"]
            for word in ("refined", "verified"):
                assert f"{other[f'{word}_change']:+.4f} {word}" in result.stdout


def test_a_retraining_that_fails_loses_nothing_else(
    indexed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = Explainer.verify, []

    def fail_first(self: Explainer, query: Query, segment: TrainingSegment) -> TrainingSegment:
        calls.append(segment)
        if len(calls) == 1:
            raise TrainingError("retraining stopped at max |gradient| 1.0e-03")
        return real(self, query, segment)

    monkeypatch.setattr(Explainer, "verify", fail_first)
    path = tmp_path / "answer.json"
    result = ask(indexed, "verify", "--top", 2, "--json", path)
    (case,) = answer(result, path)
    assert "retraining did not converge: retraining stopped at max |gradient| 1.0e-03" in result.stdout
    first, *others = case["supporters"] + case["opposers"]
    assert (first["rung"], first["verified_change"]) == ("refine", None)
    assert first["change"] == first["refined_change"] is not None
    assert len(others) == 3
    assert all(one["rung"] == "verify" and one["verified_change"] is not None for one in others)


@pytest.mark.parametrize("options", [("verify",), ("explain", "--refine")], ids=["verify", "refine"])
def test_what_is_too_long_to_estimate_is_retrained(
    indexed: Path, tmp_path: Path, options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Refiner, "can_refine", lambda *_: False)
    path = tmp_path / "answer.json"
    result = ask(indexed, *options, "--top", 1, "--kind", "document", "--json", path)
    (case,) = answer(result, path)
    for one in case["supporters"] + case["opposers"]:
        assert (one["rung"], one["refined_change"]) == ("verify", None)
        assert one["verified_change"] == one["change"] is not None
        assert f"{one['change']:+.4f} verified" in result.stdout
    assert not re.search(r"[+-][0-9.]+ predicted", result.stdout)


@pytest.mark.parametrize("kind", ["token", "sentence", "document"])
def test_tables_fit_a_narrow_terminal(
    indexed: Path, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(out, "width", 80)
    path = tmp_path / "answer.json"
    options = ("--target", "MISC", "--kind", kind, "--json", path)
    result = ask(indexed, "verify", *options, segment="0:2")
    (case,) = answer(result, path)
    assert max(map(len, result.stdout.splitlines())) <= 80
    shown = [part.strip() for line in result.stdout.splitlines() for part in line.split("│")]
    for one in case["supporters"] + case["opposers"]:
        where = f"{one['id']} {one['start']}:{one['stop']}" if kind != "document" else one["document"]
        assert f"{one['score']:+.4g}" in shown
        assert f"{one['refined_change']:+.4f} refined" in shown
        assert f"{one['verified_change']:+.4f} verified" in shown
        before, after = (one["probabilities"][when][0].get("B-MISC", 0.0) for when in ("before", "after"))
        assert f"p(B-MISC) {before:.3f} -> {after:.3f}" in shown
        assert where in result.stdout
        if kind == "token":
            assert one["labels"][0] in shown
            assert f"[{one['tokens'][0]}]" in result.stdout
