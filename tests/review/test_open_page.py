"""``review_project``: an existing project is served, a new one is created, and errors leave nothing behind."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tagtrace._checks import TagtraceError
from tagtrace.data import ReadOptions
from tagtrace.review import review_project
from tests.review.made import Client

ROOT = Path(__file__).parents[2]


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The projects that would have been served, and how."""
    calls: list[dict[str, Any]] = []

    def serve(review: Any, host: str, port: int | None, **options: Any) -> None:
        options["say"]("http://127.0.0.1:1/")
        calls.append({"project": Client(review).get("project"), "host": host, "port": port, **options})
        review.close()

    monkeypatch.setattr("tagtrace.review.http.serve.serve", serve)
    return calls


def parts_of(folder: Path, *names: str) -> dict[str, Any]:
    parts = {"index": folder / "index", "data": folder / "data" / "train.conll", "audit": folder / "audit",
             "tagger": folder / "tagger"}  # fmt: skip
    return {name: parts[name] for name in names}


def refused(message: str, folder: Path, **options: Any) -> None:
    with pytest.raises(TagtraceError, match=message) as raised:
        review_project(folder, **options)
    assert "\n" not in str(raised.value)
    assert "--" not in str(raised.value)


def in_process(call: str) -> subprocess.CompletedProcess[str]:
    """Run a call of ``review_project`` in a process of its own; an error is printed as one line."""
    code = f"""
import sys
from tagtrace._checks import TagtraceError
from tagtrace.review import review_project
try:
    {call}
except TagtraceError as error:
    sys.exit(str(error))
"""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)


def test_a_project_is_served(project_folder: Path, served: list[dict[str, Any]]) -> None:
    shown, noted = list[str](), list[str]()
    review_project(project_folder, browser=False, reviewer="cleo", port=0, show=shown.append, note=noted.append)
    (call,) = served
    assert call["project"]["reviewer"] == "cleo"
    num_findings, num_sentences = (call["project"]["counts"][name] for name in ("findings", "sentences"))
    assert num_findings > 10
    assert (call["host"], call["port"], call["browser"], call["allow_remote"]) == ("127.0.0.1", 0, False, False)
    assert shown == [
        f"{project_folder.name}: {num_findings:,} findings in {num_sentences:,} sentences",
        "open http://127.0.0.1:1/   (Ctrl-C stops)",
    ]
    assert noted[-1] == f"stopped; all decisions are saved in {project_folder / 'decisions.sqlite'}"


def test_a_new_project_is_created(project_folder: Path, tmp_path: Path, served: list[dict[str, Any]]) -> None:
    folder = tmp_path / "new"
    review_project(folder, **parts_of(project_folder, "index", "data"), reading=ReadOptions(scheme="iob2"))
    saved = json.loads((folder / "project.json").read_text())
    assert saved["reading"] == {"scheme": "iob2"}
    assert saved["index"] == str((project_folder / "index").resolve())
    assert "tagger" not in saved
    assert served[0]["project"]["has"] == {"errors": False, "findings": False}
    assert served[0]["browser"]
    review_project(folder, **parts_of(project_folder, "index", "data"), reading=ReadOptions(scheme="iob2"))
    assert json.loads((folder / "project.json").read_text()) == saved, "the command can be repeated"
    dev = project_folder / "data" / "dev.conll"
    refused(r"project\.json: this project already has its data; leave it out, or edit the file", folder, data=dev)
    other = ReadOptions(scheme="iob1")
    refused(r"project\.json: this project already says how its data is read; edit that file", folder, reading=other)


def test_the_folder_of_the_tagger_can_be_given(
    project_folder: Path, tmp_path: Path, served: list[dict[str, Any]]
) -> None:
    """A new project remembers it; for an existing one it counts once."""
    shutil.copytree(project_folder / "tagger", tmp_path / "moved")
    folder = tmp_path / "new"
    review_project(folder, **parts_of(project_folder, "index", "data"), tagger=tmp_path / "moved")
    assert json.loads((folder / "project.json").read_text())["tagger"] == str((tmp_path / "moved").resolve())
    (tmp_path / "moved").rename(tmp_path / "again")
    refused("not a tagger", folder, tagger=project_folder / "index")
    review_project(folder, tagger=tmp_path / "again")
    assert len(served) == 2


def test_what_is_refused(project_folder: Path, tmp_path: Path, served: list[dict[str, Any]]) -> None:
    refused(r"has no project\.json; give the index and the data", tmp_path / "none")
    refused(r"has no project\.json; give the index", tmp_path / "none", **parts_of(project_folder, "index"))
    refused("allow_remote", project_folder, host="0.0.0.0")
    parts = parts_of(project_folder, "index")
    refused(r"no\.txt: does not exist; give the path of the data", tmp_path / "a", **parts, data=tmp_path / "no.txt")
    refused("built from other data", tmp_path / "b", **parts, data=project_folder / "data" / "dev.conll")
    assert not list(tmp_path.iterdir())
    assert not served


@pytest.mark.parametrize("wrong", ["index", "data", "audit", "tagger"])
def test_a_project_is_only_created_if_all_parts_can_be_opened(
    project_folder: Path, tmp_path: Path, served: list[dict[str, Any]], wrong: str
) -> None:
    bad, folder = tmp_path / "bad", tmp_path / "new"
    bad.mkdir()
    parts = parts_of(project_folder, "index", "data", "audit", "tagger")
    refused("bad", folder, **{**parts, wrong: bad})
    assert not folder.exists()
    assert not served
    review_project(folder, **parts)
    assert json.loads((folder / "project.json").read_text())[wrong] == str(parts[wrong].resolve())


def test_a_port_that_is_taken_is_reported_before_anything_is_created(project_folder: Path, tmp_path: Path) -> None:
    """In a process of its own: no thread may keep it alive."""
    parts = {name: str(place) for name, place in parts_of(project_folder, "index", "data").items()}
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for folder, named in ((project_folder, {}), (tmp_path / "new", parts)):
            options = {**named, "port": port, "browser": False}
            found = in_process(f"review_project({str(folder)!r}, **{options!r})")
            assert found.returncode == 1
            (line,) = found.stderr.splitlines()
            assert line.startswith(f"cannot listen at 127.0.0.1:{port}")
    assert not (tmp_path / "new").exists()


def test_missing_packages_are_reported_with_the_command_that_installs_them() -> None:
    found = in_process("sys.modules['fastapi'] = sys.modules['uvicorn'] = None; review_project('somewhere')")
    assert found.returncode == 1
    how = 'pip install "tagtrace[review]" (from a checkout: pip install -e ".[review]")'
    assert found.stderr.splitlines() == [f"the review page needs fastapi: {how}"]


def test_the_manual_describes_decisions_and_the_installation() -> None:
    manual = (ROOT / "docs" / "review.md").read_text(encoding="utf-8")
    for text in ("In Why: for the selected training segment", "*Accept all open…*", 'pip install -e ".[review]"'):
        assert text in manual
