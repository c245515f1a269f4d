"""doccano's JSON lines: what is read, and that only the labels that change are written."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tagtrace._checks import DataError
from tagtrace.data import Corpus, ReadOptions, Sentence, join_documents, read_corpus, write_corpus

LINES = (
    '{"id":1,"text":"Ada Lovelace joined Acme Corp in Oslo. She left.",'
    '"label":[[0,12,"PER"],[20, 29,"ORG"]],"Comments":[]}\n'
    '{"id": 2, "text": "Kr\\u00f8ger saw Oslo", "entities": [{"id": 5, "label": "PER", "start_offset": 0,'
    ' "end_offset": 6}], "relations": [{"id": 0}]}\r\n'
    '\n'
    '{"text": "Nothing", "labels": []}'
)  # fmt: skip


def written(text: str, tmp_path: Path, name: str = "in.jsonl") -> Path:
    path = tmp_path / name
    path.write_bytes(text.encode())
    return path


def relabelled(corpus: Corpus, number: int, labels: str) -> Corpus:
    sentences = list(corpus.sentences)
    sentences[number] = sentences[number].with_labels(labels.split())
    return corpus.with_sentences(sentences)


def rewritten(corpus: Corpus, tmp_path: Path) -> str:
    write_corpus(corpus, tmp_path / "out.jsonl")
    return (tmp_path / "out.jsonl").read_bytes().decode()


def test_reading(tmp_path: Path) -> None:
    corpus = read_corpus(written(LINES, tmp_path))
    assert corpus.format == "doccano"
    assert [(s.id, s.document, s.lines[0]) for s in corpus.sentences] == [
        ("1:0", "1", 1), ("1:1", "1", 1), ("2:0", "2", 2), ("in-2:0", "in-2", 4),
    ]  # fmt: skip
    assert corpus.sentences[0].labels == ("B-PER", "I-PER", "O", "B-ORG", "I-ORG", "O", "O", "O")
    assert corpus.sentences[2].tokens == ("Kr\xf8ger", "saw", "Oslo")
    assert corpus.skipped == ((2, "its relations are kept and not looked at"),)


@pytest.mark.parametrize("is_gzip", [False, True])
def test_unchanged_is_the_same_bytes(tmp_path: Path, is_gzip: bool) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes(gzip.compress(LINES.encode()) if is_gzip else LINES.encode())
    assert write_corpus(read_corpus(path), tmp_path / "out") == 0
    assert (tmp_path / "out").read_bytes() == path.read_bytes()


def test_one_label_changes_and_nothing_else(tmp_path: Path) -> None:
    corpus = read_corpus(written(LINES, tmp_path))
    fixed = relabelled(corpus, 0, "B-PER I-PER O B-LOC I-LOC O O O")
    assert write_corpus(fixed, tmp_path / "out.jsonl") == 2
    assert rewritten(fixed, tmp_path) == LINES.replace('[20, 29,"ORG"]', '[20, 29,"LOC"]')


def test_entities_keep_their_ids_and_new_ones_get_one(tmp_path: Path) -> None:
    corpus = read_corpus(written(LINES, tmp_path))
    moved = relabelled(corpus, 2, "B-PER I-PER O")
    assert rewritten(moved, tmp_path) == LINES.replace('"end_offset": 6', '"end_offset": 10')
    more = relabelled(corpus, 2, "B-PER O B-LOC")
    new = '{"id": 6, "label": "LOC", "start_offset": 11, "end_offset": 15}'
    assert rewritten(more, tmp_path) == LINES.replace('"end_offset": 6}]', f'"end_offset": 6}}, {new}]')
    none = relabelled(corpus, 2, "O O O")
    assert json.loads(rewritten(none, tmp_path).splitlines()[1])["entities"] == []


def test_documents_that_were_joined_are_written(tmp_path: Path) -> None:
    corpus = read_corpus(written(LINES, tmp_path))
    joined = corpus.with_sentences(join_documents(corpus.sentences))
    assert rewritten(joined, tmp_path) == LINES
    fewer = corpus.with_sentences([corpus.sentences[1].with_labels(["B-PER", "O", "O"])])
    assert '[20, 29,"ORG"],[39, 42, "PER"]]' in rewritten(fewer, tmp_path)


def test_a_mark_inside_a_token_is_kept_and_reported(tmp_path: Path) -> None:
    line = '{"text": "Ada lives", "label": [[1, 3, "PER"], [4, 9, "V"]]}\n'
    corpus = read_corpus(written(line, tmp_path))
    assert corpus.sentences[0].labels == ("O", "B-V")
    assert "does not begin and end with tokens" in corpus.skipped[0][1]
    assert rewritten(relabelled(corpus, 0, "O O"), tmp_path) == line.replace(', [4, 9, "V"]', "")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            '{"text": "a", "label": [[0, 2, "X"]]}',
            "in.jsonl, line 1: found a span from 0 to 2, but the text has 1 char",
        ),
        ('{"text": "a", "label": [[0, true, "X"]]}', "found the offset 'true', expected a whole number"),
        ('{"text": "a", "label": [[0, 1, ""]]}', "found the label '\"\"', expected a name"),
        ('{"text": "a", "label": [[0, 1]]}', "a label should be"),
        ('{"text": "a", "label": "X"}', "has no list of labels under entities, label, labels"),
        ('{"text": 1, "label": []}', "has no text under the key 'text'"),
        ('{"text": "\\ud800", "label": []}', "half a surrogate pair"),
        ('{"text": "a", "label": []}\n[1]', "line 2: found '[1]', expected an object"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(DataError) as raised:
        read_corpus(written(line, tmp_path), ReadOptions(format="doccano"))
    assert message in str(raised.value)


def test_other_json_lines_are_not_taken_for_doccanos(tmp_path: Path) -> None:
    for line in ('{"tokens": ["a"], "labels": ["O"], "text": "a"}', '{"tokens": ["a"], "ner_tags": ["O"]}'):
        assert read_corpus(written(line, tmp_path)).format == "jsonl"


@st.composite
def records(draw: st.DrawFn) -> dict[str, Any]:
    text = draw(st.text("ab .\n\U0001f600\u5317\xe9", min_size=1, max_size=20))
    starts = draw(st.lists(st.integers(0, len(text) - 1), max_size=4))
    marks = [(start, draw(st.integers(start + 1, len(text))), draw(st.sampled_from("XY"))) for start in starts]
    if draw(st.booleans()):
        return {"text": text, draw(st.sampled_from(["label", "labels"])): marks, "z": [1]}
    names = ("start_offset", "end_offset", "label")
    return {
        "id": 3,
        "text": text,
        "entities": [{"id": n, **dict(zip(names, m, strict=True))} for n, m in enumerate(marks)],
    }


@given(st.lists(records(), min_size=1, max_size=3), st.booleans(), st.randoms(use_true_random=False))
def test_relabelling_changes_only_marks(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]], ascii_only: bool, rng: Any
) -> None:
    folder = tmp_path_factory.mktemp("doccano")
    text = "".join(json.dumps(row, ensure_ascii=ascii_only, indent=None) + "\n" for row in rows)
    if not any(row["text"].strip(" \n") for row in rows):
        return
    corpus = read_corpus(written(text, folder))
    assert rewritten(corpus, folder) == text
    wanted = [one.with_labels([rng.choice(["O", "B-X"]) for _ in one.tokens]) for one in corpus.sentences]
    after = rewritten(corpus.with_sentences(wanted), folder)
    for old, new in zip(rows, map(json.loads, after.splitlines()), strict=True):
        assert {k: v for k, v in new.items() if not isinstance(v, list)} == {
            k: v for k, v in old.items() if not isinstance(v, list)
        }
        assert new.get("z") == old.get("z")
    again = read_corpus(folder / "out.jsonl")  # a mark that was removed may uncover another, or end a sentence
    assert flat(again.sentences, "tokens") == flat(wanted, "tokens")
    if not any("kept as it is" in reason for _, reason in corpus.skipped):
        assert flat(again.sentences, "labels") == flat(wanted, "labels")


def flat(sentences: Sequence[Sentence], what: str) -> list[str]:
    return [one for sentence in sentences for one in getattr(sentence, what)]
