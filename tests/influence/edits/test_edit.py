"""Edits made by hand, read from a file, shown in a table and written as data."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tagtrace._checks import DataError, OptionError, TagtraceError
from tagtrace.index import Index
from tagtrace.influence import Edit, make_edit, read_edits
from tagtrace.influence.edits.edit import NUM_SHOWN, edit_table, edit_to_json
from tests.influence.small_index import small_index


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    return small_index(tmp_path_factory.mktemp("edit"), dtype="float32", width=2, shard_tokens=300)


def long_sentence(index: Index) -> int:
    """The number of a sentence of at least six tokens that is not in the first shard."""
    first = index.shards[1].first_sentence
    return next(number for number in range(first, index.num_sentences) if int(index.lengths[number]) > 5)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, None),
        ("ORG", ("B-ORG", "I-ORG")),
        ("O", ("O", "O")),
        ("B-LOC", ("B-LOC", "B-LOC")),
        ("B-PER,O", ("B-PER", "O")),
        (["I-PER", "B-LOC"], ("I-PER", "B-LOC")),
    ],
)
def test_labels_of_an_edit(index: Index, given: str | list[str] | None, expected: tuple[str, ...] | None) -> None:
    number = long_sentence(index)
    labels = None if expected is None else tuple(index.labels.encode(expected))
    assert make_edit(index, number, 2, 4, given) == Edit(number, 2, 4, labels)
    assert make_edit(index, index.sentence(number).id, 2, 4, given) == Edit(number, 2, 4, labels)


def test_bad_edits(index: Index) -> None:
    number = long_sentence(index)
    last, id_ = int(index.lengths[number]) - 1, index.sentence(number).id
    for arguments, error, message in (
        (("nowhere", 0, 1), DataError, "no training sentence has the id 'nowhere'"),
        ((index.num_sentences, 0, 1), OptionError, f"no training sentence {index.num_sentences}; numbers are 0 to"),
        ((-1, 0, 1), OptionError, f"no training sentence -1; numbers are 0 to {index.num_sentences - 1}$"),
        ((number, 0, 0), OptionError, f"^0:0 is not a segment of sentence {number}, which has tokens 0 to {last}$"),
        ((id_, 0, last + 2), OptionError, f"^0:{last + 2} is not a segment of sentence {id_}"),
        ((number, -1, 1), OptionError, "^-1:1 is not a segment"),
        ((number, 0, 2, "WINE"), OptionError, "unknown label 'WINE'"),
        ((number, 0, 2, ["O"]), OptionError, "1 labels? for 2 tokens"),
    ):
        with pytest.raises(error, match=message):
            make_edit(index, *arguments)  # type: ignore[arg-type]


def test_edits_of_a_file(index: Index, tmp_path: Path) -> None:
    number, path = long_sentence(index), tmp_path / "edits.jsonl"
    id_ = index.sentence(number).id
    lines = [
        {"id": id_, "start": 2, "stop": 4, "labels": ["B-ORG", "I-ORG"]},
        {"id": id_, "start": 0, "stop": 1, "labels": None},
        {"id": id_, "start": 4, "stop": 5},
    ]
    path.write_text("\n\n".join(map(json.dumps, lines)) + "\n")
    edits = read_edits(index, path)
    assert edits == [make_edit(index, id_, 2, 4, "ORG"), Edit(number, 0, 1), Edit(number, 4, 5)]
    assert edits[0] == make_edit(index, np.int64(number), 2, 4, "ORG")
    path.write_text("".join(json.dumps(edit_to_json(index, edit)) + "\n" for edit in edits))
    assert read_edits(index, path) == edits, "what is written can be read"


EXPECTED = r'line 2: .*; give JSON lines such as {"id": ..., "start": 2, "stop": 4, "labels": \[...\] or null}'


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", EXPECTED),
        ("[]", EXPECTED),
        ('{"id": "train-0:0", "start": 0}', EXPECTED),
        ('{"id": "train-0:0", "start": true, "stop": 1}', EXPECTED),
        ('{"id": "train-0:0", "start": 0, "stop": 1.0}', EXPECTED),
        ('{"id": "train-0:0", "start": 0, "stop": 1, "labels": "O"}', EXPECTED),
        ('{"id": "train-0:0", "start": 0, "stop": 1, "labels": [0]}', EXPECTED),
        ('{"id": "nowhere", "start": 0, "stop": 1}', "line 2: .*no training sentence has the id 'nowhere'"),
        ('{"id": "train-0:0", "start": 0, "stop": 999}', "line 2: 0:999 is not a segment of sentence train-0:0"),
        ('{"id": "train-0:0", "start": 0, "stop": 1, "labels": ["WINE"]}', "line 2: unknown label 'WINE'"),
    ],
)
def test_a_bad_line_is_named(index: Index, tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "edits.jsonl"
    path.write_text(f"\n{line}\n")
    with pytest.raises(TagtraceError, match=message) as caught:
        read_edits(index, path)
    assert isinstance(caught.value, DataError)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_read(index: Index, tmp_path: Path) -> None:
    (tmp_path / "latin.jsonl").write_bytes(b"\xe9")
    for name in ("latin.jsonl", "nothing.jsonl"):
        with pytest.raises(DataError, match=f"{name}.*(not valid JSON|cannot be read)"):
            read_edits(index, tmp_path / name)


def test_the_table_shows_given_and_new_labels(index: Index) -> None:
    number = long_sentence(index)
    sentence = index.sentence(number)
    edits = [make_edit(index, number, 2, 4, "ORG"), make_edit(index, number, 0, 1)]
    table = edit_table(index, edits, "edits")
    assert (table.title, table.columns) == ("edits", ("given", "new", "where", "training sentence"))
    assert table.rows == (
        (" ".join(sentence.labels[2:4]), "B-ORG I-ORG", f"{sentence.id} 2:4", sentence.in_context(2, 4)),
        (sentence.labels[0], "(removed)", f"{sentence.id} 0:1", sentence.in_context(0, 1)),
    )


def test_a_long_table_says_what_is_left_out(index: Index) -> None:
    edits = [Edit(number, 0, 1) for number in range(NUM_SHOWN + 3)]
    table = edit_table(index, edits, "edits")
    assert table.title == "edits (3 more are not shown)"
    assert len(table.rows) == NUM_SHOWN
    assert edit_table(index, edits[:NUM_SHOWN], "edits").title == "edits"


def test_an_edit_as_data(index: Index) -> None:
    number = long_sentence(index)
    sentence = index.sentence(number)
    assert edit_to_json(index, make_edit(index, number, 2, 4, "ORG")) == {
        "id": sentence.id,
        "start": 2,
        "stop": 4,
        "labels": ["B-ORG", "I-ORG"],
        "given": list(sentence.labels[2:4]),
        "tokens": list(sentence.tokens[2:4]),
        "line": sentence.lines[2],
    }
    assert edit_to_json(index, Edit(number, 0, 1))["labels"] is None
