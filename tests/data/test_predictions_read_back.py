"""What ``write_predictions`` writes reads back equal: any file that can be read, with any labels."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tagtrace._checks import DataError
from tagtrace.data import ReadOptions, read_corpus, write_predictions

TOKENS = ["a", "#", "#b", "-DOCSTART-", "1", "2", "3-4", "O", "B-X", "{", "\u00a0", "\ufeff", "e\u0301", "doc"]
COMMENTS = ["#", "# doc", "#\tdoc", "# a b", "#\ta\tb", "# a b c", "#  doc ", "# -DOCSTART-", "#\t-DOCSTART-\tO"]
OTHERS = ["", " ", "\t", "-DOCSTART-", "-DOCSTART- -X- O", "\ufeff", "3-4\tab\t_", "1.1 x"]


@st.composite
def conll_texts(draw: st.DrawFn) -> str:
    """Lines of one to four columns, numbered or not, with comments and everything else that a file may have."""
    columns, separator = draw(st.integers(1, 4)), draw(st.sampled_from(["\t", " ", "  "]))
    numbered, end = draw(st.booleans()), draw(st.sampled_from(["\n", "\r\n", " \n"]))
    tokens = st.lists(st.sampled_from(TOKENS), min_size=columns, max_size=columns).map(separator.join)
    lines, number = draw(st.lists(tokens | st.sampled_from(COMMENTS) | st.sampled_from(OTHERS), min_size=1)), 0
    found: list[str] = []
    for line in lines:
        is_token = line not in COMMENTS and line not in OTHERS
        number = number + 1 if is_token else number if line in COMMENTS else 0
        found.append(f"{number}{separator}{line}" if is_token and numbered else line)
    return draw(st.sampled_from(["", "\ufeff"])) + end.join(found) + draw(st.sampled_from(["", end]))


@st.composite
def json_texts(draw: st.DrawFn) -> str:
    """Rows with and without tokens, labels, names and older predictions, and empty lines."""
    rows: list[str] = []
    for _ in range(draw(st.integers(1, 5))):
        tokens = draw(st.lists(st.sampled_from(["", *TOKENS]) | st.text(max_size=3)))
        row: dict[str, object] = {"tokens": tokens, "tags": ["O"] * len(tokens)}
        row |= draw(st.dictionaries(st.sampled_from(["id", "predicted", "doc_id"]), st.just("7"), max_size=2))
        rows += [json.dumps(row, ensure_ascii=draw(st.booleans())), *draw(st.sampled_from([[], [""], [" "]]))]
    return "\n".join(rows)


def check(text: str, options: ReadOptions, folder: Path, draw: Random) -> None:
    """Read a file, write labels beside it, and read these back."""
    path, target = folder / "given", folder / "out"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        corpus = read_corpus(path, options)
    except DataError:
        assume(False)
        raise
    labels = [[draw.choice(["O", "B-X", "B-\u00c4"]) for _ in sentence.tokens] for sentence in corpus.sentences]
    write_predictions(corpus, labels, target, scheme="iob2")
    reading = replace(corpus.options, labelled=True, label_column=-1, labels_key="predicted", scheme="plain")
    again = read_corpus(target, reading)
    assert [one.tokens for one in again.sentences] == [one.tokens for one in corpus.sentences]
    assert [list(one.labels) for one in again.sentences] == labels
    assert (again.num_comments, len(again.skipped)) == (corpus.num_comments, len(corpus.skipped))
    assert [one.lines for one in again.sentences] == [one.lines for one in corpus.sentences]


@given(text=conll_texts(), labelled=st.booleans(), draw=st.randoms())
def test_columns(tmp_path_factory: pytest.TempPathFactory, text: str, labelled: bool, draw: Random) -> None:
    folder = tmp_path_factory.mktemp("columns")
    check(text, ReadOptions(format="conll", labelled=labelled, scheme="plain"), folder, draw)


@given(text=json_texts(), labelled=st.booleans(), draw=st.randoms())
def test_json_lines(tmp_path_factory: pytest.TempPathFactory, text: str, labelled: bool, draw: Random) -> None:
    folder = tmp_path_factory.mktemp("json")
    check(text, ReadOptions(format="jsonl", labelled=labelled, scheme="plain"), folder, draw)
    given_rows, rows = ((folder / name).read_text("utf-8").split("\n") for name in ("given", "out"))
    assert len(rows) == len(given_rows)
    assert all("predicted" in json.loads(row) for row in rows if row.strip())
