"""``tagtrace review``: options reach ``review_project``, and errors are one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tagtrace.cli import main
from tagtrace.data import ReadOptions


def test_options_reach_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[Path, dict[str, Any]]] = []

    def review_project(folder: Path, **options: Any) -> None:
        options.pop("show")("open http://127.0.0.1:1/")
        options.pop("note")("stopped")
        calls.append((folder, options))

    monkeypatch.setattr("tagtrace.cli.review.review_project", review_project)
    places = {"index": Path("i"), "data": Path("d"), "dev": Path("e"), "audit": Path("a"), "tagger": Path("t")}
    named = [word for name, place in places.items() for word in (f"--{name}", str(place))]
    more = ["--port", "0", "--host", "box", "--allow-remote", "--no-browser", "--reviewer", "cleo", "--scheme", "iob2"]
    result = CliRunner().invoke(main, ["review", "project", *named, *more])
    assert result.exit_code == 0, result.output
    assert "open http://127.0.0.1:1/" in result.stdout
    assert "stopped" in result.stderr
    served = {"port": 0, "host": "box", "allow_remote": True, "browser": False, "reviewer": "cleo"}
    assert calls == [(Path("project"), {**places, **served, "reading": ReadOptions(scheme="iob2")})]


def test_an_error_is_one_line(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["review", str(tmp_path)])
    assert result.exit_code == 1
    assert "has no project.json; give the index and the data" in result.stderr.splitlines()[-1]
