"""``tagtrace review``: how its options reach the page. The page itself is tested in ``tests/review``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tagtrace.data import ReadOptions
from tagtrace.review import write_project_file
from tests.cli.command import refused, succeed, tagtrace

pytest.importorskip("fastapi", reason="the review extra is not installed")


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What would be served, instead of a server that waits for Ctrl-C."""
    calls: list[dict[str, Any]] = []

    def serve(review: Any, host: str, port: int | None, **options: Any) -> None:
        options["say"]("http://here/")
        calls.append({"review": review, "host": host, "port": port, **options})
        review.close()

    monkeypatch.setattr("tagtrace.review.http.serve.serve", serve)
    return calls


def test_options_reach_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[Any, dict[str, Any]]] = []
    monkeypatch.setattr("tagtrace.cli.review.review_project", lambda folder, **given: calls.append((folder, given)))
    places = {name: tmp_path / name for name in ("index", "data", "dev", "audit", "tagger")}
    options = [part for name, place in places.items() for part in (f"--{name}", place)]
    more = ("--port", 9, "--host", "0.0.0.0", "--allow-remote", "--no-browser", "--reviewer", "ada", "--scheme", "io")
    succeed("review", tmp_path, *options, *more)
    ((folder, given),) = calls
    for name in ("show", "note"):
        assert callable(given.pop(name))
    expected = {
        **places, "reading": ReadOptions(scheme="io"), "host": "0.0.0.0", "port": 9, "allow_remote": True,
        "browser": False, "device": "auto", "reviewer": "ada",
    }  # fmt: skip
    assert (folder, given) == (tmp_path, expected)


def test_a_new_project_remembers_its_parts(indexed: Path, tmp_path: Path, served: list[dict[str, Any]]) -> None:
    project = tmp_path / "project"
    parts = ("--index", indexed / "index", "--data", indexed / "train.conll", "--dev", indexed / "dev.conll")
    first = succeed("review", project, *parts, "--no-browser", "--reviewer", "ada", "--port", 0)
    assert "open http://here/" in first.stdout
    assert json.loads((project / "project.json").read_text())
    succeed("review", project, "--no-browser", "--port", 0)
    assert [call["review"].name for call in served] == ["project", "project"]
    assert served[0]["review"].reviewer == "ada"
    assert not served[0]["browser"]
    succeed("review", project, *parts, "--no-browser", "--port", 0)  # the first command again
    refused(tagtrace("review", project, "--data", indexed / "dev.conll"), "project.json", "data")


def test_a_project_that_is_opened_again_is_as_private_as_its_parts(
    indexed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are named in its file, and not on the command line."""
    data, made = tmp_path / "train.conll", tmp_path / "made"
    data.write_bytes((indexed / "train.conll").read_bytes())
    write_project_file(tmp_path / "project", None, index=indexed / "index", data=data)
    monkeypatch.setattr("tagtrace.cli.review.review_project", lambda *_, **__: made.write_bytes(b""))
    for private, expected in ((0o600, 0o600), (0o640, 0o640), (0o644, 0o644)):
        data.chmod(private)
        made.unlink(missing_ok=True)
        succeed("review", tmp_path / "project")
        assert made.stat().st_mode & 0o777 == expected


def test_bad_input_is_one_line(indexed: Path, tmp_path: Path) -> None:
    refused(tagtrace("review", tmp_path), f"{tmp_path}: has no project.json", "index", "data")
    absent = ("--index", indexed / "index", "--data", tmp_path / "absent.conll")
    refused(tagtrace("review", tmp_path / "new", *absent), "absent.conll")
    refused(tagtrace("review", tmp_path, "--host", "0.0.0.0"), "0.0.0.0")
    assert tagtrace("review", tmp_path, "--port", 70000).exit_code == 2
    assert list(tmp_path.iterdir()) == []
