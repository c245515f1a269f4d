"""Downloads have what an export wrote, and nothing that a link in a received project leads to."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tagtrace.data import read_corpus
from tagtrace.review import Decisions, Review, Store, TrainingData
from tagtrace.review.http import downloads
from tests.review.http.test_routes_deciding import say_thread
from tests.review.made import LABELS, Client


@pytest.fixture
def brat(tmp_path: Path) -> Client:
    """A client of a project whose data is a folder, which has been exported."""
    source = tmp_path / "texts" / "sub"
    source.mkdir(parents=True)
    (source / "d.txt").write_text("Club0 beat Delft .")
    (source / "d.ann").write_text("T1\tLOC 0 5\tClub0\n")
    data = TrainingData(read_corpus(tmp_path / "texts"), LABELS)
    review = Review("folder", "ada", Decisions(data, Store(tmp_path / "decisions.sqlite")), tmp_path / "export")
    client = Client(review)
    client.post("export")
    return client


def names_of(client: Client) -> list[str]:
    response = client.http.get("/api/export/data")
    assert response.status_code == 200, response.text
    with zipfile.ZipFile(io.BytesIO(response.content)) as archive:
        return archive.namelist()


def test_only_files_of_the_export_are_downloaded(brat: Client, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (brat.review.export / "texts" / "other.txt").symlink_to(tmp_path / "secret")
    (brat.review.export / "texts" / "notes.txt").write_text("mine")
    assert names_of(brat) == ["texts/sub/d.ann", "texts/sub/d.txt"]


def link(path: Path, target: Path) -> None:
    path.symlink_to(target)


def pipe(path: Path, _: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize("make", [link, pipe, Path.mkdir])
@pytest.mark.parametrize("name", ["export", "export/texts", "export/texts/sub", "export/texts/sub/d.txt"])
def test_nothing_else_in_its_place_is_downloaded(
    brat: Client, tmp_path: Path, name: str, make: Callable[..., None]
) -> None:
    (tmp_path / name).rename(tmp_path / "elsewhere")
    make(*(tmp_path / name, tmp_path / "elsewhere")[: 1 if make is Path.mkdir else 2])
    assert brat.http.get("/api/export/data").status_code == 404


@pytest.mark.parametrize("make", [link, pipe])
def test_a_log_that_is_a_link_is_not_downloaded(brat: Client, tmp_path: Path, make: Callable[..., None]) -> None:
    (tmp_path / "export" / "changes.jsonl").rename(tmp_path / "elsewhere")
    make(tmp_path / "export" / "changes.jsonl", tmp_path / "elsewhere")
    assert brat.http.get("/api/export/log").status_code == 404


def test_a_download_is_limited(brat: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "MAX_ZIPPED", 10)
    response = brat.http.get("/api/export/data")
    assert response.status_code == 400
    assert "has more than 10 bytes; copy it from there" in response.json()["error"]


@pytest.mark.parametrize("which", ["data", "log"])
def test_downloads_wait_for_exports_and_imports_only(ada: Client, monkeypatch: pytest.MonkeyPatch, which: str) -> None:
    monkeypatch.setattr("tagtrace.review.http.routes_deciding.download", say_thread)
    assert ada.http.get(f"/api/export/{which}").json()["error"] == "exports and imports_0"


def test_a_file_that_grows_is_sent_as_announced(tmp_path: Path) -> None:
    file = tmp_path / "data"
    file.write_bytes(b"12")
    with file.open("rb") as stream:
        blocks = downloads._blocks(stream, 2)
        file.write_bytes(b"1234")
        assert b"".join(blocks) == b"12"
