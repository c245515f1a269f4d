"""Documents are read into dataclasses, or refused in one line that names the place."""

from __future__ import annotations

import io
import os
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

from tagtrace import _documents
from tagtrace._checks import DataError, OptionError, TagtraceError
from tagtrace._documents import Document, DocumentError, parse_document, read_document, read_documents, recorded_path


@dataclass(frozen=True)
class Leaf:
    name: str
    size: float | None = None


@dataclass(frozen=True)
class Tree(Document):
    leaves: tuple[Leaf, ...]
    ages: dict[str, int]
    place: tuple[int, str] = (0, "")

    def __post_init__(self) -> None:
        if len(self.leaves) > 3:
            raise OptionError("too many leaves")


GOOD = '{"leaves": [{"name": "a"}, {"name": "b", "size": 2}], "ages": {"x": 3}, "place": [4, "y"]}'
TREE = Tree((Leaf("a"), Leaf("b", 2.0)), {"x": 3}, (4, "y"))


def test_a_document_becomes_a_dataclass() -> None:
    assert parse_document(GOOD, Tree) == TREE


def test_without_pydantic_the_same_document_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_documents, "_schema", lambda _: None)
    assert parse_document(GOOD, Tree) == TREE
    assert asdict(parse_document(GOOD, Tree)) == asdict(TREE)
    for bad in ("[]", '{"ages": {}}', "{", "[" * 100_000, "1" * 5_000):
        with pytest.raises(DocumentError):
            parse_document(bad, Tree)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not valid JSON"),
        ("[]", "should be an object"),
        ("null", "should be an object"),
        ("{}", "leaves is missing"),
        ('{"leaves": [], "ages": {}, "more": 1}', "more is unknown"),
        ('{"leaves": [{"name": 7}], "ages": {}}', "leaves.0.name should be a valid string"),
        ('{"leaves": [{"name": "a", "tall": 1}], "ages": {}}', "leaves.0.tall is unknown"),
        ('{"leaves": [{"name": "a", "size": 1e999}], "ages": {}}', "finite"),
        ('{"leaves": [{"name": "a", "size": NaN}], "ages": {}}', "finite"),
        ('{"leaves": [], "ages": {"x": true}}', "ages.x should be a valid integer"),
        ('{"leaves": [], "ages": {"x": 1.5}}', "ages.x should be a valid integer"),
        ('{"leaves": [], "ages": {"x": %s}}' % ("9" * 5_000), "not valid JSON"),
        ('{"leaves": %s' % ("[" * 100_000), "not valid JSON"),
        ('{"leaves": [{"name": "\\ud800"}], "ages": {}}', "not valid JSON"),
        ('{"leaves": [{"name":"a"},{"name":"a"},{"name":"a"},{"name":"a"}], "ages": {}}', "too many leaves"),
    ],
)
def test_what_does_not_fit_is_named(text: str, reason: str) -> None:
    with pytest.raises(TagtraceError, match=reason) as caught:
        parse_document(text, Tree)
    assert "\n" not in str(caught.value)


def test_an_error_names_the_file_the_line_and_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "trees.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + f"{GOOD}\n\n{GOOD}\n".encode())
    assert [number for number, _ in read_documents(path, Tree, remedy="plant again")] == [1, 3]
    path.write_text(f"{GOOD}\n[]\n")
    with pytest.raises(OptionError, match=r"trees.jsonl, line 2: .* should be an object; plant again"):
        list(read_documents(path, Tree, remedy="plant again", error=OptionError))
    with pytest.raises(OptionError, match=r"trees.jsonl: not valid JSON .*; plant again"):
        read_document(path, Tree, remedy="plant again", error=OptionError)
    path.write_bytes(b'{"leaves": [], "ages": {"\xff": 1}}')
    with pytest.raises(OptionError, match="not valid JSON"):
        read_document(path, Tree, remedy="plant again", error=OptionError)


def test_only_ordinary_files_of_a_size_that_fits_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "large").write_text(GOOD)
    for name, reason in {"pipe": "ordinary", "loop": "symbolic", ".": "directory", "none": "No such file"}.items():
        with pytest.raises(OptionError, match=reason):
            read_document(tmp_path / name, Tree, remedy="plant again", error=OptionError)
        with pytest.raises(OptionError, match=reason):
            list(read_documents(tmp_path / name, Tree, remedy="plant again", error=OptionError))
    with pytest.raises(OptionError, match="larger than 20 bytes"):
        read_document(tmp_path / "large", Tree, remedy="plant again", error=OptionError, max_bytes=20)


def test_names_that_are_not_text_can_be_recorded() -> None:
    assert recorded_path(os.fsdecode(b"caf\xe9/x")) == "caf\ufffd/x"
    assert recorded_path(Path("café")) == "café"


def test_what_is_open_already_may_be_a_pipe() -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as stream:
        stream.write(f"{GOOD}\n")
    found = list(read_documents(f"/dev/fd/{reading}", Tree, remedy="plant again"))
    os.close(reading)
    assert found == [(1, TREE)]


def test_a_line_that_never_ends_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_documents, "MAX_BYTES", 20)
    (tmp_path / "lines").write_bytes(b"{}\n" + b" " * 10_000)
    with pytest.raises(DataError, match=r"lines: cannot be read \(a line is longer than 20 bytes\); try"):
        list(read_documents(tmp_path / "lines", dict[str, int], remedy="try another"))


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_lines_up_to_the_limit_are_read(monkeypatch: pytest.MonkeyPatch, end: bytes) -> None:
    monkeypatch.setattr(_documents, "MAX_BYTES", 3)
    lines = [b"ab\n", b"\n", b"c\n", b"ab" + end]
    assert list(_documents.limited_lines(io.BytesIO(b"".join(lines)))) == lines
