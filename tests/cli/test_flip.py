"""``tagtrace flip``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command import answer, refused
from tests.cli.questions import ask


@pytest.mark.parametrize("edit", ["remove", "relabel"])
def test_what_if_confirms_the_edits(indexed: Path, tmp_path: Path, edit: str) -> None:
    path = tmp_path / "flip.json"
    result = ask(indexed, "flip", "--edit", edit, "--most", 40, "--max-retrainings", 30, "--json", path)
    found = answer(result, path)
    assert "retraining   1" in result.stderr
    assert found["num_retrainings"] <= 30
    assert found["found"], result.output
    assert f"{len(found['edits'])} label" in result.stdout
    assert found["labels_before"] == found["predicted"] != found["labels_after"]
    assert all((one["labels"] is None) == (edit == "remove") for one in found["edits"])
    (tmp_path / "edits.jsonl").write_text("\n".join(json.dumps(one) for one in found["edits"]))
    again = tmp_path / "again.json"
    checked = answer(ask(indexed, "what-if", "--from", tmp_path / "edits.jsonl", "--verify", "--json", again), again)
    assert checked["effects"]["verify"]["loss_after"] == pytest.approx(
        found["effects"]["verify"]["loss_after"], abs=1e-3
    )


def test_a_set_that_is_not_found_is_reported(indexed: Path, tmp_path: Path) -> None:
    path = tmp_path / "flip.json"
    options = ("--most", 1, "--kind", "entity", "--max-retrainings", 1, "--json", path)
    result = ask(indexed, "flip", *options, segment="0:2")
    assert not answer(result, path)["found"]
    assert "not found: " in result.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--to", "WINE"], "unknown label 'WINE'"),
        (["--to", "O,O"], "2 labels for 1 token"),
        (["--most", 0], "at least 1"),
    ],
)
def test_bad_options_get_one_line(indexed: Path, options: list[object], message: str) -> None:
    refused(ask(indexed, "flip", *options), message)
