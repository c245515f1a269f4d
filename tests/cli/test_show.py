"""What commands print: progress on a terminal, and names as they are."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from tagtrace.cli.show import TrainingDisplay, out, training_several
from tagtrace.tagger import Step
from tests.cli.command import succeed


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What is written to standard error, which is a terminal."""
    monkeypatch.setenv("TERM", "xterm")
    written = io.StringIO()
    monkeypatch.setattr("tagtrace.cli.show.err", Console(file=written, force_terminal=True, width=120))
    return written


def test_training_shows_progress_on_a_terminal(terminal: io.StringIO) -> None:
    with TrainingDisplay() as display:
        for step in (1, 2):
            display(Step(1, 1, step, 2, 0.5, 90.0 * (2 - step), None))
            display.bars.refresh()
    assert "epoch 1/1  loss 0.500" in terminal.getvalue()
    assert "left" in terminal.getvalue()


def test_each_training_run_is_named_once(capsys: pytest.CaptureFixture[str]) -> None:
    with training_several() as training:
        for run in ("first", "second"):
            for step in (1, 2):
                training(run, Step(1, 1, step, 2, 0.5, 0.0, 0.25))
    lines = capsys.readouterr().err.splitlines()
    epoch = "epoch  1/1  loss 0.5000  dev loss 0.2500"
    assert lines == ["training: first", epoch, "training: second", epoch]


def test_unusual_names_are_printed_as_they_are(data: Path, tagger: Path, tmp_path: Path) -> None:
    folder = tmp_path / "[bold]a[" / "b] :smile:" / ("long " * 20)
    folder.mkdir(parents=True)
    (folder / "dev.conll").write_bytes((data / "dev.conll").read_bytes())
    result = succeed("predict", tagger, folder / "dev.conll", folder / "out.conll")
    assert f"wrote {folder / 'out.conll'}: " in result.stdout
    (tmp_path / "odd.conll").write_text("x B-[/red]\n\ny B-:cat:\n")
    found = succeed("data", "check", tmp_path / "odd.conll").stdout
    assert "[/red]" in found
    assert ":cat:" in found
    assert not out.is_terminal
