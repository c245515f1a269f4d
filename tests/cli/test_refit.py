"""``tagtrace refit``."""

from __future__ import annotations

from pathlib import Path

from tagtrace import load_tagger
from tests.cli.command import succeed


def test_the_head_reaches_its_optimum(data: Path, tmp_path: Path) -> None:
    train, folder = data / "train.conll", tmp_path / "refitted"
    succeed("train", train, tmp_path / "t", "--encoder", f"precomputed:{data}/arrays", "--l2", 30)
    result = succeed("refit", tmp_path / "t", train, folder, "--l2", 3, "--tolerance", 1e-8)
    steps = [line for line in result.stderr.splitlines() if line.startswith("step")]
    assert len(steps) > 1
    assert f"saved {folder}" in result.stdout
    refitted = load_tagger(folder)
    assert refitted.record["refit"]["max_gradient"] <= 1e-8
    assert refitted.record["refit"]["options"]["l2"] == 3
    assert str(refitted.head.weight.dtype) == "torch.float64"
    succeed("evaluate", folder, data / "dev.conll")
