"""Saved datasets: read, relabelled, written, and loaded by the package ``datasets``."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tagtrace._checks import DataError, NoLabelsError
from tagtrace.data import Corpus, ReadOptions, convert, read_corpus, summarise, write_corpus
from tests.cli.command import refused, succeed, tagtrace
from tests.data.formats.brat_standoff import files_of
from tests.fuzz import dataset_folders
from tests.fuzz.brat_folders import packed

datasets = pytest.importorskip("datasets", reason="the package datasets is not installed")
NAMES = ["O", "B-PER", "I-PER", "B-LOC"]
ROWS = {
    "id": ["h_1", "h_2", "k_1", "k_2"],
    "tokens": [["Orla", "Venn", "sailed"], ["Rain"], ["Port", "Ilse"], []],
    "ner_tags": [[1, 2, 0], [0], [3, 0], []],
    "score": [0.5, None, 1.5, 2.0],
}


def dataset(rows: dict[str, Any] = ROWS) -> Any:
    names = datasets.Sequence(datasets.ClassLabel(names=NAMES))
    features = {"id": datasets.Value("string"), "tokens": datasets.Sequence(datasets.Value("string"))}
    features |= {"ner_tags": names, "score": datasets.Value("float32")}
    return datasets.Dataset.from_dict(rows, features=datasets.Features(features))


def saved(folder: Path, num_shards: int = 2) -> Path:
    datasets.disable_progress_bars()
    dataset().save_to_disk(folder, num_shards=num_shards)
    return folder


def with_labels(corpus: Corpus, number: int, *labels: str) -> Corpus:
    sentences = list(corpus.sentences)
    sentences[number] = sentences[number].with_labels(labels)
    return corpus.with_sentences(sentences)


def test_reading(tmp_path: Path) -> None:
    corpus = read_corpus(saved(tmp_path / "sea"))
    assert (corpus.format, corpus.scheme, corpus.options.labels) == ("dataset", "iob2", tuple(NAMES))
    assert [one.labels for one in corpus.sentences] == [("B-PER", "I-PER", "O"), ("O",), ("B-LOC", "O")]
    assert [(one.id, one.document) for one in corpus.sentences] == [("h_1", "h"), ("h_2", "h"), ("k_1", "k")]
    assert [one.lines for one in corpus.sentences] == [(1, 1, 1), (2,), (3, 3)], "rows are counted through all files"
    assert corpus.skipped == ((4, "a row without tokens"),)
    assert summarise(corpus).labels_from == "key ner_tags"


def test_datasets_loads_what_is_written(tmp_path: Path) -> None:
    folder, target = saved(tmp_path / "sea"), tmp_path / "new"
    assert write_corpus(with_labels(read_corpus(folder), 2, "B-PER", "I-PER"), target) == 2
    found, before = datasets.load_from_disk(str(target)), datasets.load_from_disk(str(folder))
    assert found.features == before.features
    assert found.to_dict() == {**ROWS, "ner_tags": [[1, 2, 0], [0], [1, 2], []]}
    assert before.to_dict() == ROWS
    assert found._fingerprint != before._fingerprint
    old, new = files_of(folder), files_of(target)
    assert {name for name in old if old[name] != new[name]} == {"data-00001-of-00002.arrow", "state.json"}
    assert old.keys() == new.keys()


def test_what_datasets_keeps_of_the_old_data_is_not_taken_for_the_new(tmp_path: Path) -> None:
    folder, target = saved(tmp_path / "sea"), tmp_path / "new"
    was = datasets.load_from_disk(str(folder)).map(_first_label)
    assert list(folder.glob("cache-*.arrow"))
    write_corpus(with_labels(read_corpus(folder), 0, "O", "O", "O"), target)
    assert list(target.glob("cache-*.arrow"))
    assert was["first"][:3] == [1, 0, 3]
    assert datasets.load_from_disk(str(target)).map(_first_label)["first"][:3] == [0, 0, 3]


def _first_label(row: dict[str, Any]) -> dict[str, Any]:
    return {"first": (row["ner_tags"] or [0])[0]}


def test_unchanged_is_the_same_bytes(tmp_path: Path) -> None:
    folder = saved(tmp_path / "sea")
    (folder / "README.md").write_text("rain")
    assert write_corpus(read_corpus(folder), tmp_path / "new") == 0
    assert files_of(tmp_path / "new") == files_of(folder)


def test_the_same_change_gives_the_same_fingerprint(tmp_path: Path) -> None:
    corpus = read_corpus(saved(tmp_path / "sea"))
    found = list[str]()
    for name, label in (("a", "B-LOC"), ("b", "B-LOC"), ("c", "B-PER")):
        write_corpus(with_labels(corpus, 1, label), tmp_path / name)
        found.append(json.loads((tmp_path / name / "state.json").read_text())["_fingerprint"])
    assert found[0] == found[1] != found[2]


def test_nothing_but_the_fingerprint_changes_in_the_state(tmp_path: Path) -> None:
    folder = saved(tmp_path / "sea")
    state = (folder / "state.json").read_text().replace("\n", "\r\n").replace(": null", " : null")
    (folder / "state.json").write_text(state, newline="")
    write_corpus(with_labels(read_corpus(folder), 1, "B-LOC"), tmp_path / "new")
    new = (tmp_path / "new" / "state.json").read_bytes().decode()
    old_mark, new_mark = (json.loads(one)["_fingerprint"] for one in (state, new))
    assert new == state.replace(old_mark, new_mark)
    (folder / "state.json").write_text(state.replace(f'"{old_mark}"', "null"))
    write_corpus(with_labels(read_corpus(folder), 1, "B-LOC"), tmp_path / "none")
    assert json.loads((tmp_path / "none" / "state.json").read_text())["_fingerprint"] is None


def test_names_are_those_of_the_info(tmp_path: Path) -> None:
    """As ``load_from_disk`` has it: the arrow files may say something older."""
    folder = saved(tmp_path / "sea")
    info = folder / "dataset_info.json"
    info.write_text(info.read_text().replace("B-LOC", "B-SEA"))
    assert read_corpus(folder).sentences[2].labels == ("B-SEA", "O")
    info.write_text("{}")
    assert read_corpus(folder).sentences[2].labels == ("B-LOC", "O")


def test_a_label_without_a_number_is_refused(tmp_path: Path) -> None:
    corpus = read_corpus(saved(tmp_path / "sea"))
    with pytest.raises(DataError, match=r"row 3: the new label 'B-ORG' is not one of the 4 label names"):
        write_corpus(with_labels(corpus, 2, "B-ORG", "O"), tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_several_splits_are_refused_with_their_folders(tmp_path: Path) -> None:
    datasets.disable_progress_bars()
    datasets.DatasetDict({"train": dataset(), "test": dataset()}).save_to_disk(tmp_path / "all")
    for name in ("auto", "dataset"):
        with pytest.raises(DataError, match=r"several splits \(a DatasetDict\); .* one of them: 'test, train'"):
            read_corpus(tmp_path / "all", ReadOptions(format=name))
    assert len(read_corpus(tmp_path / "all" / "train").sentences) == 3


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ("{", "state.json: not valid JSON"),
        ("[]", "state.json: the document should be"),
        ("{}", "state.json: the key _data_files is missing; save the dataset again"),
        ('{"_data_files": []}', "state.json: the key _fingerprint is missing"),
        ('{"_fingerprint": "a", "_data_files": []}', "state.json: names no arrow files"),
        (
            '{"_fingerprint": "a", "_data_files": [{"filename": 1}]}',
            "state.json: _data_files.0.filename should be a valid string",
        ),
        (
            '{"_fingerprint": null, "_data_files": [{"filename": "../sea.arrow"}]}',
            "names '../sea.arrow', which is no file of the folder",
        ),
        ('{"_fingerprint": "a", "_data_files": [{"filename": "A"}, {"filename": "A"}]}', "names a file twice"),
        (
            '{"_fingerprint": "a", "_data_files": [{"filename": "A"}], "_indices_data_files": [{"filename": "A"}]}',
            "an order of the rows",
        ),
        ('{"_fingerprint": "a", "_data_files": [{"filename": "state.json"}]}', "cannot be read as parquet or arrow"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, state: str, message: str) -> None:
    folder = saved(tmp_path / "sea")
    (folder / "state.json").write_text(state.replace('"A"', '"data-00000-of-00002.arrow"'))
    with pytest.raises(DataError) as raised:
        read_corpus(folder)
    assert message in str(raised.value)


def test_files_have_to_have_the_same_columns(tmp_path: Path) -> None:
    folder, other = saved(tmp_path / "sea"), saved(tmp_path / "other", 1)
    rows = dataset().rename_column("score", "scores")
    rows.save_to_disk(other)
    shutil.copy(other / "data-00000-of-00001.arrow", folder / "data-00001-of-00002.arrow")
    with pytest.raises(DataError, match=r"data-00001-of-00002.arrow: .* columns are others than those of the first"):
        read_corpus(folder)


def test_other_folders_and_files_are_named(tmp_path: Path) -> None:
    folder = saved(tmp_path / "sea")
    with pytest.raises(DataError, match="is a file, but a saved Hugging Face dataset is a folder"):
        read_corpus(folder / "state.json", ReadOptions(format="dataset"))
    assert read_corpus(folder / "data-00000-of-00002.arrow").format == "parquet"
    (folder / "dataset_info.json").unlink()
    with pytest.raises(DataError, match="or of a saved dataset"):
        read_corpus(folder)
    with pytest.raises(DataError, match=r"has no state.json and dataset_info.json"):
        read_corpus(folder, ReadOptions(format="dataset"))


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    folder = saved(tmp_path / "sea")
    shard = folder / "data-00001-of-00002.arrow"
    shard.rename(tmp_path / "mine.arrow")
    shard.symlink_to(tmp_path / "mine.arrow")
    with pytest.raises(DataError, match="leads out of its folder"):
        read_corpus(folder)


def test_without_labels_and_converted(tmp_path: Path) -> None:
    datasets.disable_progress_bars()
    dataset().remove_columns("ner_tags").save_to_disk(tmp_path / "bare")
    with pytest.raises(NoLabelsError):
        read_corpus(tmp_path / "bare")
    assert not read_corpus(tmp_path / "bare", require_labels=False).sentences[0].is_labelled
    convert(read_corpus(saved(tmp_path / "sea")), tmp_path / "new.conll")
    assert read_corpus(tmp_path / "new.conll").sentences[0].labels == ("B-PER", "I-PER", "O")


def test_check_and_a_copy_onto_what_is_read(tmp_path: Path) -> None:
    folder = saved(tmp_path / "sea")
    assert json.loads(succeed("data", "check", folder, "--json").stdout)[0]["format"] == "dataset"
    refused(tagtrace("fix", folder, "findings.jsonl", folder / "new", "--all"), "never changed")
    with pytest.raises(Exception, match="never changed"):
        write_corpus(read_corpus(folder), folder / "new")


def test_many_folders_survive_relabelling(tmp_path: Path) -> None:
    for number in range(60):
        path = tmp_path / "file"
        path.write_bytes(packed(dataset_folders.dataset_files(Random(f"many-{number}"))))
        dataset_folders.relabelled(path)
