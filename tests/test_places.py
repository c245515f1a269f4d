"""What a folder refers to is found from any working folder, and after one or both have moved."""

from __future__ import annotations

from pathlib import Path

import pytest

from tagtrace._places import MovedError, RecordedPlace, find_place


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "work" / "index").mkdir(parents=True)
    (tmp_path / "work" / "train.conll").write_text("a O\n")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


def test_a_place_that_was_given_relative_to_the_working_folder(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = RecordedPlace.of("train.conll", "index")
    assert place == RecordedPlace(str(work / "train.conll"), "../train.conll")
    monkeypatch.chdir(work.parent / "elsewhere")
    found = find_place(work / "index", "data", place.path, place.relative)
    assert found.samefile(work / "train.conll")


@pytest.mark.parametrize("moved", ["work", "work/index"])
def test_after_a_move(work: Path, monkeypatch: pytest.MonkeyPatch, moved: str) -> None:
    """Of both together, or of the folder alone."""
    place = RecordedPlace.of("train.conll", "index")
    monkeypatch.chdir("/")
    (work.parent / moved).rename(work.parent / "elsewhere" / "moved")
    (folder,) = (work.parent / "elsewhere").glob("moved/index" if moved == "work" else "moved")
    assert find_place(folder, "data", place.path, place.relative).read_text() == "a O\n"


def test_through_links(work: Path) -> None:
    """``..`` of a link is not the folder that the link is in."""
    (work / "deep" / "er").mkdir(parents=True)
    (work / "link").symlink_to(work / "deep" / "er")
    place = RecordedPlace.of("train.conll", "link")
    assert (work / "link" / place.relative).samefile("train.conll")


def test_what_is_gone_is_named_with_all_that_was_tried(work: Path) -> None:
    place = RecordedPlace.of("train.conll", "index")
    (work / "train.conll").unlink()
    (work / "index").rename(work / "deeper")
    (work / "other").mkdir()
    (work / "deeper").rename(work / "other" / "index")
    with pytest.raises(MovedError) as caught:
        find_place(work / "other" / "index", "data", place.path, place.relative)
    assert str(caught.value) == (
        f"{work}/other/index: its data is no longer at {work}/other/train.conll nor at {work}/train.conll; give the "
        "file of the data"
    )
    assert caught.value.what == "data"
    with pytest.raises(MovedError, match="has no record of where its tagger is; give the tagger's folder"):
        find_place(work / "index", "tagger", None, None)
