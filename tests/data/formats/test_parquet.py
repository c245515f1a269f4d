"""Hugging Face datasets: read, relabelled, written, and read back by the package ``datasets``."""

from __future__ import annotations

import builtins
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tagtrace._checks import DataError, NoLabelsError
from tagtrace.data import Corpus, ReadOptions, read_corpus, summarise, write_corpus
from tests.fuzz import tables

pa = pytest.importorskip("pyarrow", reason="the formats extra is not installed")
pq = pytest.importorskip("pyarrow.parquet")
NAMES = ["O", "B-PER", "I-PER", "B-LOC"]
ROWS = {
    "id": ["h_1", "h_2", "k_1"],
    "tokens": [["Orla", "Venn", "sailed"], ["Rain"], ["Port", "Ilse"]],
    "ner_tags": [[1, 2, 0], [0], [3, 0]],
    "score": [0.5, None, 1.5],
}
ABOUT = {"info": {"features": {"ner_tags": {"feature": {"names": NAMES, "_type": "ClassLabel"}, "_type": "List"}}}}


def write(path: Path, rows: dict[str, Any] = ROWS, about: object = ABOUT, **options: Any) -> Path:
    table = pa.table(rows).replace_schema_metadata({"huggingface": json.dumps(about), "mine": "kept"})
    pq.write_table(table, path, row_group_size=2, **options)
    return path


def with_labels(corpus: Corpus, number: int, *labels: str) -> Corpus:
    sentences = list(corpus.sentences)
    sentences[number] = sentences[number].with_labels(labels)
    return corpus.with_sentences(sentences)


def test_reading(tmp_path: Path) -> None:
    corpus = read_corpus(write(tmp_path / "sea.parquet"))
    assert (corpus.format, corpus.scheme, corpus.options.labels) == ("parquet", "iob2", tuple(NAMES))
    assert [one.labels for one in corpus.sentences] == [("B-PER", "I-PER", "O"), ("O",), ("B-LOC", "O")]
    assert [(one.id, one.document) for one in corpus.sentences] == [("h_1", "h"), ("h_2", "h"), ("k_1", "k")]
    assert corpus.sentences[2].tokens == ("Port", "Ilse")
    assert summarise(corpus).labels_from == "key ner_tags"


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_datasets_reads_what_is_written(tmp_path: Path, form: str) -> None:
    datasets = pytest.importorskip("datasets", reason="the package datasets is not installed")
    names = datasets.Sequence(datasets.ClassLabel(names=NAMES))
    features = datasets.Features(
        {"id": datasets.Value("string"), "tokens": datasets.Sequence(datasets.Value("string")), "ner_tags": names}
        | {"score": datasets.Value("float32")}
    )
    given = datasets.Dataset.from_dict(ROWS, features=features)
    if form == "parquet":
        path = tmp_path / "sea.parquet"
        given.to_parquet(path)
    else:
        given.save_to_disk(tmp_path / "saved")
        (path,) = (tmp_path / "saved").glob("*.arrow")
    corpus = read_corpus(path)
    target = tmp_path / f"new.{form}"
    assert write_corpus(with_labels(corpus, 2, "B-PER", "I-PER"), target) == 2
    load = datasets.Dataset.from_parquet if form == "parquet" else datasets.Dataset.from_file
    kept = {"cache_dir": str(tmp_path / "cache")} if form == "parquet" else {}
    found = load(str(target), **kept)
    assert found.features == features
    assert found.to_dict() == {**ROWS, "ner_tags": [[1, 2, 0], [0], [1, 2]]}


def test_row_groups_compression_and_metadata_stay(tmp_path: Path) -> None:
    path = write(tmp_path / "sea.parquet", compression={"tokens": "ZSTD", "id": "GZIP"}, write_statistics=["id"])
    write_corpus(with_labels(read_corpus(path), 0, "O", "O", "O"), tmp_path / "new")
    old, new = pq.ParquetFile(path), pq.ParquetFile(tmp_path / "new")
    assert new.schema_arrow.equals(old.schema_arrow, check_metadata=True)
    assert new.metadata.num_row_groups == old.metadata.num_row_groups == 2
    for column in range(old.metadata.num_columns):
        was, now = (one.metadata.row_group(0).column(column) for one in (old, new))
        assert (was.compression, was.is_stats_set) == (now.compression, now.is_stats_set)


def test_columns_that_are_named_in_the_old_way_stay_compressed(tmp_path: Path) -> None:
    path = write(tmp_path / "sea.parquet", compression="ZSTD", use_compliant_nested_type=False)
    write_corpus(with_labels(read_corpus(path), 0, "O", "O", "O"), tmp_path / "new")
    for file in (path, tmp_path / "new"):
        columns = [pq.read_metadata(file).row_group(0).column(number) for number in range(4)]
        assert [(one.path_in_schema, one.compression) for one in columns][1] == ("tokens.list.item", "ZSTD")
        assert {one.compression for one in columns} == {"ZSTD"}


def test_strings_need_no_names(tmp_path: Path) -> None:
    labels = [["B-PER", "I-PER", "O"], ["O"], ["B-LOC", "O"]]
    path = write(tmp_path / "sea.parquet", {**ROWS, "ner_tags": labels}, {})
    write_corpus(with_labels(read_corpus(path), 1, "B-NEW"), path)
    assert pq.read_table(path)["ner_tags"].to_pylist() == [labels[0], ["B-NEW"], labels[2]]


def test_the_old_form_of_the_features(tmp_path: Path) -> None:
    about = {"info": {"features": {"ner_tags": [{"names": NAMES, "_type": "ClassLabel"}]}}}
    assert read_corpus(write(tmp_path / "sea.parquet", about=about)).options.labels == tuple(NAMES)


def test_names_may_be_given(tmp_path: Path) -> None:
    path = write(tmp_path / "sea.parquet", about={})
    with pytest.raises(DataError, match="row 1: found the label 1, a number; give the names"):
        read_corpus(path)
    corpus = read_corpus(path, ReadOptions(labels=["O", "B-A", "I-A", "B-B"]))
    assert corpus.sentences[0].labels == ("B-A", "I-A", "O")


def test_a_label_without_a_number_is_refused(tmp_path: Path) -> None:
    corpus = read_corpus(write(tmp_path / "sea.parquet"))
    with pytest.raises(DataError, match=r"row 2: the new label 'B-ORG' is not one of the 4 label names"):
        write_corpus(with_labels(corpus, 1, "B-ORG"), tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("rows", "about", "message"),
    [
        ({"words": ROWS["tokens"]}, {}, "found no column 'tokens' among 'words'"),
        ({"tokens": ["a", "b", "c"]}, {}, "the column 'tokens' is of type 'string', expected lists of strings"),
        ({"ner_tags": [[1, 2], [0], [3, 0]]}, ABOUT, "row 1: found 3 tokens and 2 labels"),
        ({"ner_tags": [[1, 2, 9], [0], [3, 0]]}, ABOUT, "row 1: found the label 9, expected 0 to 3"),
        ({"ner_tags": [[1, 2, 0], [-1], [3, 0]]}, ABOUT, "row 2: found the label -1, expected 0 to 3"),
        ({"ner_tags": [[1, 2, 0], None, [3, 0]]}, ABOUT, "row 2: found 'null' under 'ner_tags'"),
    ],
)
def test_what_is_wrong_is_named_with_its_row(tmp_path: Path, rows: dict[str, Any], about: object, message: str) -> None:
    rows = rows if "words" in rows else {**ROWS, **rows}
    with pytest.raises(DataError, match=message):
        read_corpus(write(tmp_path / "sea.parquet", rows, about))


@pytest.mark.parametrize("names", [["O", "O"], "O", [1], ["\ud800"]])
def test_odd_names(tmp_path: Path, names: object) -> None:
    about = {"info": {"features": {"ner_tags": {"feature": {"names": names, "_type": "ClassLabel"}}}}}
    with pytest.raises(DataError, match="give the names of all labels"):
        read_corpus(write(tmp_path / "sea.parquet", about=about))


def test_without_labels(tmp_path: Path) -> None:
    path = write(tmp_path / "sea.parquet", {"tokens": ROWS["tokens"], "tags": [[0.5], [0.5], [0.5]]})
    with pytest.raises(NoLabelsError, match="no lists of labels"):
        read_corpus(path)
    assert not read_corpus(path, require_labels=False).sentences[0].is_labelled


def test_neighbours_are_not_taken_for_it(tmp_path: Path) -> None:
    """A token ``PAR1`` is CoNLL, and a table needs no name."""
    conll = tmp_path / "a"
    conll.write_text("PAR1\tO\nsea\tO\n\nARROW1 O\n")
    assert read_corpus(conll).format == "conll"
    assert read_corpus(write(tmp_path / "b")).format == "parquet"


def test_pyarrow_is_an_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, plain = write(tmp_path / "sea.parquet"), builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.split(".", maxsplit=1)[0] == "pyarrow":
            raise ModuleNotFoundError(name=name)
        return plain(name, *rest)

    monkeypatch.delitem(sys.modules, "tagtrace.data.formats.parquet", raising=False)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(DataError, match=r'pip install "tagtrace\[formats\]"'):
        read_corpus(path)


def test_a_damaged_file_that_would_end_the_process(tmp_path: Path) -> None:
    """pyarrow 26 does so when it is asked about the columns of this file before all of them are read."""
    corpus = read_corpus(Path(__file__).parent / "histogram.parquet")
    first = corpus.sentences[0]
    new = ["B-PER" if label == "O" else "O" for label in first.labels]
    with pytest.raises(DataError, match="histogram"):
        write_corpus(with_labels(corpus, 0, *new), tmp_path / "new")


def test_a_file_that_says_it_holds_far_more_than_it_can_is_refused(tmp_path: Path) -> None:
    rows = pa.array([["a"]] * 1000)
    table = pa.table({"tokens": pa.concat_arrays([rows] * 12_000), "ner_tags": pa.concat_arrays([rows] * 12_000)})
    pq.write_table(table, tmp_path / "bomb.parquet", compression="zstd")
    with pytest.raises(DataError, match=r"it has 12,000,000 values in [\d,]+ bytes"):
        read_corpus(tmp_path / "bomb.parquet")


def test_many_files_survive_relabelling(tmp_path: Path) -> None:
    tables.check_many("parquet", tmp_path, 100)
