"""The project file, the command, and what happens where something is missing."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tagtrace._checks import OptionError
from tagtrace.cli import main
from tagtrace.data import ReadOptions
from tagtrace.review import open_review, read_project_file, write_project_file
from tests.review.made import Client, make_project


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("project")).folder


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What would have been served."""
    calls: list[dict[str, Any]] = []

    def serve(review: Any, host: str, port: int | None, **options: Any) -> None:
        options["say"]("http://127.0.0.1:1/")
        calls.append({"project": Client(review).get("project"), "host": host, "port": port, **options})
        review.close()

    monkeypatch.setattr("tagtrace.review.http.serve.serve", serve)
    return calls


def review(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["review", *map(str, arguments)])


def refused(result: Result, message: str) -> None:
    assert result.exit_code == 1, result.output
    assert message in result.stderr.splitlines()[-1]


def test_a_project_is_found_again_wherever_it_is(folder: Path, tmp_path: Path) -> None:
    saved = json.loads((folder / "project.json").read_text())
    assert saved == {
        "index": "index", "data": "data/train.conll", "dev": "data/dev.conll", "audit": "audit", "reading": {}
    }  # fmt: skip
    reading = ReadOptions(label_column=1, scheme="iob1")
    written = write_project_file(tmp_path, reading, index=folder / "index", data=folder / "data" / "train.conll")
    found = read_project_file(tmp_path)
    assert found == written
    assert found.reading == reading
    assert found.index.resolve() == (folder / "index").resolve()
    assert found.dev is None
    assert json.loads((tmp_path / "project.json").read_text())["reading"] == {"label_column": 1, "scheme": "iob1"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "cannot be read as JSON"),
        ("[]", "expected a JSON object"),
        ('{"index": "i"}', "'data' is missing"),
        ('{"index": "i", "data": "d", "extra": 1}', "'extra' is unknown"),
        ('{"index": 1, "data": "d"}', "index must be a path"),
        ('{"index": "i", "data": "d", "reading": {"x": 1}}', "options of reading only"),
        ('{"index": "i", "data": "d", "reading": {"format": "x"}}', "unknown format"),
        ('{"index": "i", "data": "export/d"}', "where the export is written"),
    ],
)
def test_files_that_are_no_project(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "project.json").write_text(text)
    with pytest.raises(OptionError, match=message):
        read_project_file(tmp_path)


def test_the_command_serves_a_project(folder: Path, served: list[dict[str, Any]]) -> None:
    result = review(folder, "--no-browser", "--reviewer", "cleo", "--port", 0)
    assert result.exit_code == 0, result.output
    assert "open http://127.0.0.1:1/" in result.stdout
    assert "every decision is in" in result.stderr
    (call,) = served
    assert call["project"]["reviewer"] == "cleo"
    assert call["project"]["counts"]["findings"] > 10
    assert (call["host"], call["port"], call["browser"], call["allow_remote"]) == ("127.0.0.1", 0, False, False)


def test_the_command_makes_a_project(folder: Path, tmp_path: Path, served: list[dict[str, Any]]) -> None:
    place = tmp_path / "new"
    result = review(place, "--index", folder / "index", "--data", folder / "data" / "train.conll", "--scheme", "iob2")
    assert result.exit_code == 0, result.output
    assert json.loads((place / "project.json").read_text())["reading"] == {"scheme": "iob2"}
    assert served[0]["project"]["has"] == {"errors": False, "findings": False}
    assert served[0]["browser"]
    refused(review(place, "--data", folder / "data" / "dev.conll"), "leave out --data, or edit it")
    assert review(place, "--tagger", folder / "tagger").exit_code == 0
    refused(review(place, "--tagger", folder / "index"), "not a tagger")


def test_what_the_command_refuses(folder: Path, tmp_path: Path, served: list[dict[str, Any]]) -> None:
    refused(review(tmp_path / "none"), "give --index and --data")
    refused(review(folder, "--host", "0.0.0.0"), "allow_remote")
    refused(review(tmp_path / "a", "--index", folder / "index", "--data", tmp_path / "no.conll"), "does not exist")
    assert not (tmp_path / "a").exists()
    refused(
        review(tmp_path / "b", "--index", folder / "index", "--data", folder / "data" / "dev.conll"),
        "built from other data",
    )
    assert not (tmp_path / "b").exists()
    assert not served


@pytest.mark.parametrize("wrong", ["--index", "--data", "--audit", "--tagger"])
def test_a_project_is_made_only_of_what_can_be_opened(
    folder: Path, tmp_path: Path, served: list[dict[str, Any]], wrong: str
) -> None:
    bad, place = tmp_path / "bad", tmp_path / "new"
    bad.mkdir()
    parts = {
        "--index": folder / "index", "--data": folder / "data" / "train.conll", "--audit": folder / "audit",
        "--tagger": folder / "tagger",
    }  # fmt: skip
    result = review(place, *(word for pair in (parts | {wrong: bad}).items() for word in pair))
    assert result.exit_code == 1
    assert not place.exists()
    assert not served
    result = review(place, *(word for pair in parts.items() for word in pair))
    assert result.exit_code == 0, result.output
    assert json.loads((place / "project.json").read_text())["index"] == str((folder / "index").resolve())


def test_a_port_that_is_taken_is_said_in_one_line(folder: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        parts = ["--index", folder / "index", "--data", folder / "data" / "train.conll"]
        for place in ([folder], [tmp_path / "new", *parts]):
            arguments = ["review", *place, "--no-browser", "--port", taken.getsockname()[1]]
            code = f"from tagtrace.cli import main; main({list(map(str, arguments))!r})"
            found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
            assert found.returncode == 1
            (line,) = found.stderr.splitlines()
            assert "cannot listen at 127.0.0.1" in line
        assert not (tmp_path / "new").exists()


def test_the_page_needs_an_extra_and_says_so() -> None:
    code = (
        "import sys; sys.modules['fastapi'] = sys.modules['uvicorn'] = None\n"
        "from tagtrace.cli import main\n"
        "main(['review', 'somewhere'])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert found.returncode == 1
    how = 'pip install "tagtrace[review]" (from a checkout: pip install -e ".[review]")'
    assert found.stderr.splitlines()[-1].endswith(how)


def test_the_manual_says_how_to_decide_and_install() -> None:
    manual = (Path(__file__).parents[2] / "docs" / "review.md").read_text(encoding="utf-8")
    for text in ("In Why: for the selected training segment", "*Accept all open…*", 'pip install -e ".[review]"'):
        assert text in manual


def test_dev_data_that_cannot_be_compared_are_named(folder: Path, tmp_path: Path) -> None:
    dev = tmp_path / "dev.conll"
    dev.write_text("Delft\tB-CITY\n")
    file = write_project_file(tmp_path, index=folder / "index", data=folder / "data" / "train.conll", dev=dev)
    review = open_review(file, "ada")
    found = Client(review).get("project")
    assert "unknown label 'B-CITY'" in found["note"]
    assert not found["has"]["errors"]
    assert Client(review).get("errors") == {"total": 0, "items": [], "pairs": [], "preparing": None}
    review.close()


def test_findings_of_other_data_are_named(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "audit").mkdir()
    lines = (folder / "audit" / "findings.jsonl").read_text().splitlines()
    record = json.loads(lines[0])
    (tmp_path / "audit" / "findings.jsonl").write_text(
        json.dumps({**record, "sentence_number": record["sentence_number"] + 1})
    )
    data, audit = folder / "data" / "train.conll", tmp_path / "audit"
    file = write_project_file(tmp_path, index=folder / "index", data=data, audit=audit)
    with pytest.raises(Exception, match=r"finding 1 .* audit this data again"):
        open_review(file, "ada")
