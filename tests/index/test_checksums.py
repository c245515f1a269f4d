"""Contents are compared with the checksums once, and again as soon as a file has changed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tagtrace import _tensor_files as tensor_files
from tagtrace.index import Index, IndexFolderError, IndexOptions, build_index, checksums, open_index
from tests.index.test_build import make_corpus, make_tagger

ALWAYS = {"head.safetensors"}
"""Small, so it is read each time."""


@pytest.fixture(autouse=True)
def fine_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that were just written are old."""
    monkeypatch.setattr(checksums, "CLOCK_NS", -(10**12))


@pytest.fixture
def index(tmp_path: Path) -> Index:
    return build_index(make_tagger(), make_corpus(), tmp_path / "index", IndexOptions(shard_tokens=20))


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that were read for their checksums, in order."""
    names: list[str] = []
    real = tensor_files.file_sha256

    def noting(path: Path) -> str:
        names.append(path.name)
        return real(path)

    monkeypatch.setattr(tensor_files, "file_sha256", noting)
    return names


def names_read(folder: Path, read: list[str]) -> set[str]:
    read.clear()
    open_index(folder, verify=True)
    return set(read)


def names_of(index: Index) -> set[str]:
    return {file.name for file in index.manifest.files()}


def test_files_are_read_once(index: Index, read: list[str]) -> None:
    assert names_read(index.folder, read) == names_of(index)
    assert names_read(index.folder, read) == ALWAYS
    read.clear()
    index.verify()
    assert set(read) == names_of(index), "asked for outright, they are always read"


@pytest.mark.parametrize("name", ["shard-00000", "errors-00001", "text-00000", "head"])
def test_a_touched_file_has_all_read_again(index: Index, read: list[str], name: str) -> None:
    open_index(index.folder, verify=True)
    path = index.folder / f"{name}.safetensors"
    os.utime(path, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns + 1))
    assert names_read(index.folder, read) == names_of(index)
    assert names_read(index.folder, read) == ALWAYS


@pytest.mark.parametrize("name", ["shard-00000", "errors-00001", "text-00000"])
def test_damage_after_a_first_look_is_found_each_time(index: Index, name: str) -> None:
    open_index(index.folder, verify=True)
    path = index.folder / f"{name}.safetensors"
    data = bytearray(path.read_bytes())
    data[-4:] = b"\x7e\x7e\x7e\x7e"
    path.write_bytes(data)
    for _ in range(2):
        with pytest.raises(IndexFolderError, match=f"{name}.safetensors: its checksum differs") as caught:
            open_index(index.folder, verify=True)
        assert "\n" not in str(caught.value)


def changed_with_its_time_kept(path: Path) -> None:
    """The same size and modification time, another number at the end."""
    before, data = path.stat(), bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("name", ["shard-00000", "errors-00001", "text-00000"])
def test_a_change_with_the_modification_time_kept_is_found(index: Index, name: str) -> None:
    open_index(index.folder, verify=True)
    changed_with_its_time_kept(index.folder / f"{name}.safetensors")
    with pytest.raises(IndexFolderError, match=f"{name}.safetensors: its checksum differs"):
        open_index(index.folder, verify=True)


def test_another_file_with_the_same_times_is_found(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    path = index.folder / "errors-00000.safetensors"
    real = path.stat()

    class Status:
        st_size, st_mtime_ns, st_ctime_ns, st_ino = real.st_size, real.st_mtime_ns, real.st_ctime_ns, real.st_ino

    found = Status()
    monkeypatch.setattr(checksums, "_status", lambda _: found)
    open_index(index.folder, verify=True)
    found.st_ino += 1
    changed_with_its_time_kept(path)
    with pytest.raises(IndexFolderError, match=r"errors-00000.safetensors: its checksum differs"):
        open_index(index.folder, verify=True)


def test_a_file_that_has_just_changed_is_read_again(
    index: Index, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checksums, "CLOCK_NS", 10**12)  # a clock so coarse that a change now has no other time
    for _ in range(2):
        assert names_read(index.folder, read) == names_of(index)


def test_another_manifest_has_all_read_again(index: Index) -> None:
    open_index(index.folder, verify=True)
    path = index.folder / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["shards"][0]["files"][0]["sha256"] = "0" * 64
    del manifest["seal"]
    path.write_text(json.dumps(manifest))
    with pytest.raises(IndexFolderError, match=r"shard-00000.safetensors: its checksum differs"):
        open_index(index.folder, verify=True)


@pytest.mark.parametrize("found", ["", "[]", "null", '{"head.safetensors": 3}', "\xff"])
def test_a_damaged_record_of_checksums_is_ignored(index: Index, read: list[str], found: str) -> None:
    (index.folder / "verified.json").write_bytes(found.encode("latin-1"))
    assert names_read(index.folder, read) == names_of(index)
    assert names_read(index.folder, read) == ALWAYS


def test_where_nothing_can_be_noted_files_are_read_again(index: Index, read: list[str]) -> None:
    (index.folder / "verified.json").mkdir()  # as good as a folder that cannot be written to, whoever runs the test
    for _ in range(2):
        assert names_read(index.folder, read) == names_of(index)
    assert [path.name for path in index.folder.iterdir() if path.name.startswith(".")] == []


def test_a_read_only_folder(index: Index, read: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tagtrace._files.tempfile.mkstemp", refuse)
    for _ in range(2):
        assert names_read(index.folder, read) == names_of(index)
    assert not (index.folder / "verified.json").exists()


def test_the_record_of_checksums_is_not_part_of_the_index(index: Index) -> None:
    size, manifest = index.num_bytes, (index.folder / "manifest.json").read_bytes()
    again = open_index(index.folder, verify=True)
    assert (index.folder / "verified.json").is_file()
    assert again.num_bytes == size
    assert (index.folder / "manifest.json").read_bytes() == manifest
    built = build_index(make_tagger(), make_corpus(), index.folder, IndexOptions(shard_tokens=20), overwrite=True)
    assert not (built.folder / "verified.json").exists()
