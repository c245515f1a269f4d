"""What commands print: progress on a terminal, and names as they are."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from tagtrace.cli import main
from tagtrace.cli.show import TrainingDisplay, counting_several, out, training_several
from tagtrace.tagger import Step
from tests.cli.command import succeed, tagtrace


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


ODD = "a\x1b[31m\u202e\n[red]"
"""Part of a file's name, a token and a label."""


def test_nothing_in_a_file_reaches_the_terminal_as_a_command(data: Path, tagger: Path, tmp_path: Path) -> None:
    (tmp_path / ODD).mkdir()
    file, bare = tmp_path / ODD / "dev.jsonl", tmp_path / ODD / "bare.conll"
    file.write_text(json.dumps({"tokens": [ODD, "b"], "tags": [f"I-{ODD}", "O"], "id": ODD}))
    bare.write_text("a\n")
    for command in (
        ("data", "check", file, "--scheme", "iob2"),
        ("data", "check", file, "--scheme", "iob2", "--json"),
        ("data", "check", file, "--label-names", ODD, "--labels-key", ODD),
        ("data", "check", bare),
        ("data", "check", tmp_path / f"{ODD}.conll"),
        ("data", f"check{ODD}"),
        (f"dat{ODD}",),
        ("evaluate", tagger, file),
        ("predict", tagger, data / "dev.conll", tmp_path / ODD / "out"),
        ("predict", tagger / ODD, data / "dev.conll", tmp_path / ODD / "out"),
    ):
        result = tagtrace(*command)
        assert isinstance(result.exception, SystemExit | None), command
        assert not {"\x1b", "\u202e"} & set(result.output), command
        assert "a\n[red]" not in result.output, command
        assert "[red]" in result.output, command


def test_json_keeps_the_exact_text(tmp_path: Path) -> None:
    (tmp_path / "odd.jsonl").write_text(json.dumps({"tokens": ["a"], "tags": [f"B-{ODD}\x9b\U000e0041Ø"]}))
    result = succeed("data", "check", tmp_path / "odd.jsonl", "--json")
    assert list(json.loads(result.stdout)[0]["labels"]) == [f"B-{ODD}\x9b\U000e0041Ø"]
    assert "Ø" in result.stdout
    assert not {"\x1b", "\u202e", "\x9b", "\U000e0041"} & set(result.stdout)


def test_progress_on_a_terminal_shows_names_as_they_are(terminal: io.StringIO) -> None:
    with counting_several() as update:
        update(ODD, 1, 2)
    assert r"a\x1b[31m\u202e\n[red]" in terminal.getvalue()


def test_a_terminal_that_has_only_ascii(tmp_path: Path) -> None:
    """Everything is printed, on a real terminal that can do nothing else."""
    (tmp_path / "tøy.conll").write_text("Ærø B-Ø\nb I-Å\n", encoding="utf-8")
    script = (
        "import os, tagtrace.cli\n"
        "from tagtrace.cli.show import counting, note, show\n"
        "for arguments in (['data', 'check', 'tøy.conll'], ['data', 'check', 'tøy.conll', '--json'],\n"
        "                  ['data', 'check', 'ø'], ['--help'], ['ø']):\n"
        "    try: tagtrace.cli.main([os.fsdecode(each.encode()) for each in arguments])\n"
        "    except SystemExit: pass\n"
        "with counting('zählen') as progress: progress(1, 2)\n"
        "note('ü'); show('ü')"
    )
    variables = {**os.environ, "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C", "PYTHONUTF8": "0", "TERM": "dumb"}
    parent, child = pty.openpty()
    command = [sys.executable, "-c", script.encode("ascii", "backslashreplace")]
    with subprocess.Popen(command, cwd=tmp_path, env=variables, stdin=child, stdout=child, stderr=child):
        os.close(child)
        written = b"".join(iter(lambda: _read(parent), b""))
    os.close(parent)
    assert b"Traceback" not in written
    assert b"UnicodeEncodeError" not in written
    assert written.rstrip().endswith(rb"\xfc")
    assert rb"t\xc3\xb8y.conll" in written  # the bytes of the name, which is not ASCII


@pytest.mark.parametrize("command", ["--help", "explain --help", "data check tøy.conll", "data check ø"])
def test_an_output_that_has_only_ascii(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tøy.conll").write_text("Ærø B-Ø\nb I-Å\n", encoding="utf-8")
    result = CliRunner(charset="ascii").invoke(main, command.split())
    assert isinstance(result.exception, SystemExit | None)
    assert result.output_bytes.isascii()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other end is closed
        return b""
