"""Prodigy's JSON lines: which lines are read, tokens, edits, and what Prodigy's own rules say about the result."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
import srsly
from hypothesis import given
from hypothesis import strategies as st

from tagtrace._checks import DataError
from tagtrace.data import Corpus, ReadOptions, read_corpus, write_corpus
from tests.fuzz import annotated

Line = dict[str, Any]


def line(text: str = "Orla Vane sang in Oslo .", tokens: bool = True, **more: Any) -> Line:
    """An accepted line with Orla Vane and Oslo marked."""
    found: Line = {"text": text, "_input_hash": 7, "_task_hash": -8}
    words, start = [], 0
    for number, word in enumerate(text.split(" ")):
        words.append({"text": word, "start": start, "end": start + len(word), "id": number, "ws": True})
        start += len(word) + 1
    spans: list[Line] = [{"start": 0, "end": 9, "label": "PER"}, {"start": 18, "end": 22, "label": "ORG"}]
    if tokens:
        found["tokens"] = words
        spans = [
            {"start": 0, "end": 9, "token_start": 0, "token_end": 1, "label": "PER"},
            {"start": 18, "end": 22, "token_start": 4, "token_end": 4, "label": "ORG"},
        ]
    return {**found, "spans": spans, "answer": "accept", **more}


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., Corpus]:
    def read_lines(*lines: Line | str, **options: Any) -> Corpus:
        path = tmp_path / "tiny.jsonl"
        path.write_text("".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in lines))
        return read_corpus(path, ReadOptions(**options))

    return read_lines


def relabel(corpus: Corpus, number: int, labels: str) -> Path:
    """The file with a sentence relabelled."""
    sentences, target = list(corpus.sentences), corpus.path.with_name("fixed.jsonl")
    sentences[number] = sentences[number].with_labels(labels.split())
    write_corpus(corpus.with_sentences(sentences), target)
    return target


def check_rules(task: Line) -> None:
    """What Prodigy's documentation says of a task: ``token_end`` is the last token, ``end`` is behind it."""
    ids = {token["id"]: token for token in task.get("tokens", ())}
    for span in task.get("spans", ()):
        assert 0 <= span["start"] < span["end"] <= len(task["text"])
        if ids:
            assert ids[span["token_start"]]["start"] == span["start"]
            assert ids[span["token_end"]]["end"] == span["end"]
        assert span.get("text", task["text"][span["start"] : span["end"]]) == task["text"][span["start"] : span["end"]]


def test_one_label_is_fixed_and_the_rest_stays(read: Callable[..., Corpus]):
    """Read back by srsly, which Prodigy reads and writes its files with."""
    lines = [line(_input_hash=1), line(_input_hash=2, meta={"source": "\u00e9"}), line(_input_hash=3, answer="ignore")]
    corpus = read(*lines)
    assert corpus.format == "prodigy"
    assert [s.labels for s in corpus.sentences] == [("B-PER", "I-PER", "O", "O", "B-ORG", "O")] * 2
    fixed = relabel(corpus, 1, "B-PER I-PER O O B-LOC O")
    before, after = list(srsly.read_jsonl(corpus.path)), list(srsly.read_jsonl(fixed))
    assert isinstance(before[1], dict)
    before[1]["spans"][1]["label"] = "LOC"
    assert after == before
    assert fixed.read_text() == corpus.path.read_text().replace('"ORG"', '"LOC"', 2).replace('"LOC"', '"ORG"', 1)
    for task in after:
        check_rules(task)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("labels", "spans"),
    [
        ("B-PER O O O B-ORG O", [(0, 4, 0, 0, "PER"), (18, 22, 4, 4, "ORG")]),
        ("O O O O B-ORG O", [(18, 22, 4, 4, "ORG")]),
        ("O O O O O O", []),
        ("B-PER I-PER B-X I-X B-ORG O", [(0, 9, 0, 1, "PER"), (18, 22, 4, 4, "ORG"), (10, 17, 2, 3, "X")]),
        ("O B-PER O O B-ORG I-ORG", [(5, 9, 1, 1, "PER"), (18, 24, 4, 5, "ORG")]),
    ],
)
def test_spans_keep_their_tokens(read: Callable[..., Corpus], labels: str, spans: list[tuple[Any, ...]]):
    (task,) = srsly.read_jsonl(relabel(read(line()), 0, labels))
    keys = ("start", "end", "token_start", "token_end", "label")
    assert isinstance(task, dict)
    assert task == {**line(), "spans": [dict(zip(keys, span, strict=True)) for span in spans]}
    check_rules(task)


def test_a_new_span_is_like_the_others(read: Callable[..., Corpus]):
    spans = [{"label": "PER", "text": "Orla", "start": 0, "end": 4, "source": "a model", "score": 0.5}]
    text = json.dumps(line(tokens=False, spans=spans), separators=(",", ":"))
    fixed = relabel(read(text), 0, "B-PER O O O B-ORG O").read_text()
    assert fixed == text.replace("0.5}", '0.5}, {"label":"ORG","text":"Oslo","start":18,"end":22}') + "\n"


def test_a_byte_order_mark_and_windows_line_ends_stay(read: Callable[..., Corpus]):
    corpus = read(line(), line(_input_hash=2))
    text = b"\xef\xbb\xbf" + corpus.path.read_bytes().replace(b"\n", b"\r\n\r\n")
    corpus.path.write_bytes(text)
    fixed = relabel(read_corpus(corpus.path), 0, "B-PER I-PER O O B-LOC O")
    assert fixed.read_bytes() == text.replace(b'"ORG"', b'"LOC"', 1)


@pytest.mark.parametrize("spans", [{"spans": []}, {"spans": None}, {}])
def test_a_line_without_spans_gets_its_first(read: Callable[..., Corpus], spans: Line):
    given_ = {key: value for key, value in line().items() if key != "spans"} | spans
    (task,) = srsly.read_jsonl(relabel(read(given_), 0, "O O O O B-LOC O"))
    wanted = {"start": 18, "end": 22, "token_start": 4, "token_end": 4, "label": "LOC"}
    assert task == {**given_, "spans": [wanted]}


def test_what_was_not_accepted_is_left_out_and_kept(read: Callable[..., Corpus]):
    others = [line(answer=answer, _input_hash=number) for number, answer in enumerate(("reject", "ignore"))]
    asked = [{"text": "Is it sport?", "label": "SPORT", "answer": "accept", "_input_hash": 20}]
    corpus = read(*others, line(answer=None, _input_hash=5), *asked, line(_input_hash=6))
    assert [s.lines[0] for s in corpus.sentences] == [3, 5]
    fixed = relabel(corpus, 1, "O O O O O O")
    assert fixed.read_text().splitlines()[:4] == corpus.path.read_text().splitlines()[:4]
    assert json.loads(fixed.read_text().splitlines()[4])["spans"] == []


def test_of_several_lines_about_a_text_the_last_accepted_is_read(read: Callable[..., Corpus]):
    first, last = line(spans=[]), line()
    corpus = read(first, first, last, line(answer="reject"), line(_input_hash=None), line(_input_hash=None))
    assert [s.lines[0] for s in corpus.sentences] == [3, 5, 6]
    assert corpus.skipped == (
        (3, "earlier lines with the same _input_hash, kept and not learned from: 2 (lines 1, 2)"),
    )
    fixed = relabel(corpus, 0, "O O O O O O").read_text().splitlines()
    before = corpus.path.read_text().splitlines()
    assert [number for number, (old, new) in enumerate(zip(before, fixed, strict=True)) if old != new] == [2]


def test_own_tokens_are_used(read: Callable[..., Corpus]):
    """But for blank ones, and those without characters that a tokenizer adds; ids need not count from 0."""
    tokens = [(0, 0), (0, 2), (2, 4), (4, 5), (5, 9), (9, 9)]
    task = {
        "text": "Orla\nsang",
        "tokens": [{"start": start, "end": end, "id": 10 + n} for n, (start, end) in enumerate(tokens)],
        "spans": [{"start": 2, "end": 4, "token_start": 12, "token_end": 12, "label": "PER"}],
    }
    corpus = read(task)
    assert [s.tokens for s in corpus.sentences] == [("Or", "la"), ("sang",)]
    assert [s.labels for s in corpus.sentences] == [("O", "B-PER"), ("O",)]
    (fixed,) = srsly.read_jsonl(relabel(corpus, 0, "B-PER I-PER"))
    assert isinstance(fixed, dict)
    assert fixed["spans"] == [{"start": 0, "end": 4, "token_start": 11, "token_end": 12, "label": "PER"}]


def test_what_is_no_mark_is_reported(read: Callable[..., Corpus]):
    spans = [{"start": 0, "end": 4, "label": "PER", "answer": "reject"}, {"start": 1, "end": 4, "label": "PER"}]
    corpus = read(line(tokens=False, spans=spans, relations=[{"head": 1}], _view_id="ner"))
    assert corpus.sentences[0].labels == ("O",) * 6
    reasons = " ".join(reason for _, reason in corpus.skipped)
    for expected in ("relations are kept", "view 'ner'", "was not accepted", "does not begin and end with tokens"):
        assert expected in reasons


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"answer": "maybe"}, "line 1: found the answer '\"maybe\"', expected one of accept, reject, ignore"),
        ({"_input_hash": [1]}, "line 1: found a list under '_input_hash', expected a string or a number"),
        ({"spans": {"start": 1}}, "line 1: expected a list of objects under 'spans'"),
        ({"spans": [3]}, "line 1: expected a list of objects under 'spans'"),
        ({"tokens": ["Orla"]}, "line 1: expected a list of objects under 'tokens'"),
        (
            {"spans": [{"start": 0, "end": 99, "label": "PER"}]},
            "line 1: found a span from 0 to 99, but the text has 24",
        ),
        ({"spans": [{"start": 0, "end": 4}]}, "line 1: found the label 'null', expected a name"),
        (
            {"spans": [{"start": "0", "end": 4, "label": "X"}]},
            "line 1: found the offset '\"0\"', expected a whole number",
        ),
        ({"spans": [{"start": [[[]]], "end": 4, "label": "X"}]}, "line 1: found the offset a list, expected a whole"),
        ({"text": None}, "line 1: has no text under the key 'text'"),
        ({"text": "\ud800"}, "line 1: found half a surrogate pair"),
        ({"tokens": [{"start": 0, "end": 99}]}, "line 1: found a span from 0 to 99, but the text has 24"),
        (
            {"tokens": [{"start": 0, "end": 9}, {"start": 5, "end": 9}]},
            "line 1: token 1 begins at 5, before the end of the one before (9)",
        ),
        ({"tokens": [{"start": 5, "end": 9}, {"start": 0, "end": 4}]}, "line 1: token 1 begins at 0, before the end"),
    ],
)
def test_errors_say_what_where_and_what_to_try(read: Callable[..., Corpus], wrong: Line, message: str):
    with pytest.raises(DataError) as caught:
        read({**line(), **wrong}, format="prodigy")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("row", "name"),
    [
        ({"text": "sea", "spans": []}, "prodigy"),
        ({"text": "sea", "spans": [], "answer": "accept"}, "prodigy"),
        ({"text": "sea", "tokens": [{"start": 0, "end": 3}], "label": [[0, 3, "X"]]}, "prodigy"),
        ({"text": "sea", "label": "SPORT", "_input_hash": 1, "spans": []}, "prodigy"),
        ({"text": "sea", "label": [[0, 3, "X"]]}, "doccano"),
        ({"text": "sea", "entities": [], "relations": []}, "doccano"),
        ({"text": "sea", "tokens": ["sea"], "ner_tags": ["O"]}, "jsonl"),
        ({"text": "sea", "tokens": ["sea"], "tags": ["O"], "spans": []}, "jsonl"),
        ({"tokens": ["sea"], "tags": ["O"], "_input_hash": 1}, "jsonl"),
    ],
)
def test_is_told_from_its_neighbours(read: Callable[..., Corpus], row: Line, name: str):
    assert read(row).format == name


def test_is_told_from_rows_that_begin_empty(read: Callable[..., Corpus]):
    assert read({"text": "", "tokens": [], "tags": []}, {"tokens": ["sea"], "tags": ["O"]}).format == "jsonl"


@given(st.integers(0, 2**64 - 1).map(Random))
def test_generated_files_are_edited_in_one_place(tmp_path_factory: pytest.TempPathFactory, rng: Random):
    path = tmp_path_factory.mktemp("prodigy") / "file"
    path.write_text(annotated.prodigy(rng), newline="")
    if not annotated.is_read(path, annotated.prodigy_relabelled, "found no sentences"):
        return
    for each in (path, path.with_name("copy")):
        for task in each.read_text(encoding="utf-8-sig").splitlines() if "\u2028" not in each.read_text() else ():
            if task.strip():
                check_rules(json.loads(task))


@given(st.integers(0, 2**64 - 1).map(Random))
def test_a_label_changed_and_changed_back_gives_the_same_bytes(tmp_path_factory: pytest.TempPathFactory, rng: Random):
    annotated.check_there_and_back(tmp_path_factory.mktemp("prodigy"), annotated.prodigy(rng), "prodigy", rng)
