"""The project file: reading, writing and errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tagtrace._checks import OptionError
from tagtrace.data import ReadOptions
from tagtrace.review import read_project_file, write_project_file


def test_paths_are_relative_inside_the_folder_and_absolute_outside(project_folder: Path, tmp_path: Path) -> None:
    saved = json.loads((project_folder / "project.json").read_text())
    assert saved == {
        "index": "index", "data": "data/train.conll", "dev": "data/dev.conll", "audit": "audit", "reading": {}
    }  # fmt: skip
    reading, data = ReadOptions(label_column=1, scheme="iob1"), project_folder / "data" / "train.conll"
    written = write_project_file(tmp_path, reading, index=project_folder / "index", data=data)
    found = read_project_file(tmp_path)
    assert found == written
    assert found.reading == reading
    assert found.index.resolve() == (project_folder / "index").resolve()
    assert found.dev is None
    saved = json.loads((tmp_path / "project.json").read_text())
    assert saved["data"] == str(data.resolve())
    assert saved["reading"] == {"label_column": 1, "scheme": "iob1"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "has no project.json; give the index and the data to create a project"),
        ("{", "not valid JSON"),
        ("[]", "should be an object"),
        ('{"index": "i"}', "the key data is missing"),
        ('{"index": "i", "data": "d", "extra": 1}', "the key extra is unknown"),
        ('{"index": 1, "data": "d"}', "index should be a valid string"),
        ('{"index": "i", "data": "d", "reading": []}', "reading should be an object"),
        ('{"index": "i", "data": "d", "reading": {"x": 1}}', "the key reading.x is unknown"),
        ('{"index": "i", "data": "d", "reading": {"format": "x"}}', "unknown format"),
        ('{"index": "i", "data": ""}', "data '' is not a path"),
        ('{"index": "i\\u0000", "data": "d"}', "is not a path"),
        ("[" * 100_000, "not valid JSON"),
        ('{"index": "i", "data": "export/d"}', "an export could overwrite this"),
    ],
)
def test_invalid_project_files_are_refused(tmp_path: Path, text: str | None, message: str) -> None:
    if text is not None:
        (tmp_path / "project.json").write_text(text)
    with pytest.raises(OptionError, match=message) as raised:
        read_project_file(tmp_path)
    assert "\n" not in str(raised.value)
