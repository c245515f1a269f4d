"""Writing back: what did not change stays, byte for byte."""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tagtrace._checks import DataError
from tagtrace.data import (
    Corpus,
    ReadOptions,
    Sentence,
    denormalise,
    join_documents,
    read_corpus,
    segments,
    violations,
    write_corpus,
)
from tagtrace.data.relabel import relabel

PREFIXED = ("iob1", "iob2", "bioes", "bilou")


def edit(corpus: Corpus, index: int, labels: tuple[str, ...]) -> Corpus:
    sentences = list(corpus.sentences)
    sentences[index] = sentences[index].with_labels(labels)
    return corpus.with_sentences(sentences)


@contextmanager
def file_with(content: bytes) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tiny"
        path.write_bytes(content)
        yield path


# Generated files -------------------------------------------------------------------------------------------

words = st.text(st.sampled_from('ab1#{}[]",-O\\\u00a0\u2028\u0085\u3000\x0cäß漢😀'), min_size=1, max_size=4).filter(
    lambda word: word != "-DOCSTART-"
)
label_lists = st.lists(st.sampled_from(["O", "B-X", "I-X", "B-Y", "I-Y-z"]), min_size=1, max_size=5)


@st.composite
def conll_files(draw: st.DrawFn) -> tuple[str, list[list[str]]]:
    """The text of an odd but sound CoNLL file in iob2, and its tokens."""
    separator = draw(st.sampled_from(["\t", " ", "   ", " \t "]))
    ends = st.sampled_from(["\n", "\r\n"])
    tails = st.sampled_from(["", "", " ", "\t"])
    blanks = st.sampled_from(["", " ", "\t"])
    text, all_tokens = draw(st.sampled_from(["", "\ufeff", "\n", "\r\n"])), []
    for labels in draw(st.lists(label_lists, min_size=1, max_size=4)):
        if draw(st.booleans()):
            text += draw(st.sampled_from(["-DOCSTART- O", "# a comment with words", "-DOCSTART-"])) + draw(ends)
        # One token at least does not start with #: nothing tells "# x O" from a comment in a file of such lines.
        all_tokens.append(
            [draw(words) for _ in labels] if all_tokens else ["first", *(draw(words) for _ in labels[1:])]
        )
        for token, label in zip(all_tokens[-1], labels, strict=True):
            text += separator.join([token, "x", label]) + draw(tails) + draw(ends)
        text += draw(blanks) + draw(ends)
    return (text if draw(st.booleans()) else text.rstrip("\r\n \t")), all_tokens


CONLL_OPTIONS = ReadOptions(format="conll", token_column=0, scheme="iob2")


@given(conll_files(), st.booleans())
def test_an_unchanged_conll_file_is_the_same_bytes(case: tuple[str, list[list[str]]], compress: bool):
    text, all_tokens = case
    content = gzip.compress(text.encode()) if compress else text.encode()
    with file_with(content) as path:
        corpus = read_corpus(path, CONLL_OPTIONS)
        assert [list(s.tokens) for s in corpus.sentences] == all_tokens
        assert write_corpus(corpus, path.with_name("out")) == 0
        assert path.with_name("out").read_bytes() == content


@given(conll_files(), st.data())
def test_one_segment_of_one_token_is_one_line(case: tuple[str, list[list[str]]], data: st.DataObject):
    text, _ = case
    with file_with(text.encode()) as path:
        corpus = read_corpus(path, CONLL_OPTIONS)
        single = [
            (i, segment.start)
            for i, sentence in enumerate(corpus.sentences)
            for segment in segments(sentence.labels, "iob2")
            if segment.stop == segment.start + 1
        ]
        assume(single)
        i, place = data.draw(st.sampled_from(single))
        labels = list(corpus.sentences[i].labels)
        labels[place] = "B-new"
        assert write_corpus(edit(corpus, i, tuple(labels)), path.with_name("out")) == 1
        before, after = path.read_bytes().split(b"\n"), path.with_name("out").read_bytes().split(b"\n")
        assert len(before) == len(after)
        changed = [k for k, pair in enumerate(zip(before, after, strict=True), start=1) if pair[0] != pair[1]]
        assert changed == [corpus.sentences[i].lines[place]]
        again = read_corpus(path.with_name("out"), CONLL_OPTIONS)
        assert again.sentences[i].labels == tuple(labels)


extras = st.dictionaries(
    st.sampled_from(["metadata", "tags", "x"]),
    st.none() | st.floats(allow_nan=False) | st.lists(st.text(max_size=3), max_size=2),
    max_size=2,
)


@st.composite
def jsonl_files(draw: st.DrawFn) -> str:
    """The text of an odd but sound JSONL file with labels as strings and as numbers."""
    text = draw(st.sampled_from(["", "\ufeff", "\n"]))
    for labels in draw(st.lists(label_lists, min_size=1, max_size=4)):
        values: list[object] = list(labels)
        if draw(st.booleans()):
            values[0] = NAMES.index(labels[0])
        record = {"tokens": [draw(words) for _ in labels], **draw(extras), "ner_tags": values, **draw(extras)}
        gap = draw(st.sampled_from(["", " ", "  \t"]))
        separators = (f"{gap},{gap}", f"{gap}:{gap}")
        text += gap + json.dumps(record, ensure_ascii=draw(st.booleans()), separators=separators)
        text += draw(st.sampled_from(["\n", "\r\n", " \n\n"]))
    return text if draw(st.booleans()) else text.rstrip()


NAMES = ["O", "B-X", "I-X", "B-Y", "I-Y", "B-Y-z", "I-Y-z", "B-new"]
JSONL_OPTIONS = ReadOptions(format="jsonl", scheme="iob2", labels=NAMES)


@given(jsonl_files())
def test_an_unchanged_jsonl_file_is_the_same_bytes(text: str):
    with file_with(text.encode()) as path:
        assert write_corpus(read_corpus(path, JSONL_OPTIONS), path.with_name("out")) == 0
        assert path.with_name("out").read_bytes() == text.encode()


@given(jsonl_files(), st.data())
def test_only_changed_labels_of_a_row_change(text: str, data: st.DataObject):
    with file_with(text.encode()) as path:
        corpus = read_corpus(path, JSONL_OPTIONS)
        i = data.draw(st.integers(0, len(corpus.sentences) - 1))
        old = corpus.sentences[i]
        place = data.draw(st.integers(0, len(old) - 1))
        labels = denormalise([*old.labels[:place], "B-new", *old.labels[place + 1 :]], "iob2")
        num_changed = write_corpus(edit(corpus, i, labels), path.with_name("out"))
        assert num_changed >= 1
        assert read_corpus(path.with_name("out"), JSONL_OPTIONS).sentences[i].labels == labels

        out = path.with_name("out").read_bytes().decode()
        for k, (before, after) in enumerate(zip(text.split("\n"), out.split("\n"), strict=True), start=1):
            if k != old.lines[0]:
                assert before == after
                continue
            a, b = json.loads(before.removeprefix("\ufeff")), json.loads(after.removeprefix("\ufeff"))
            differ = [x != y for x, y in zip(a.pop("ner_tags"), b.pop("ner_tags"), strict=True)]
            assert sum(differ) == num_changed
            assert list(a.items()) == list(b.items())


@given(label_lists.map(tuple), st.lists(st.sampled_from(["O", "B-X", "I-X", "B-Y"]), min_size=5, max_size=5), st.data())
def test_relabelled_sequences_read_as_wanted(old: tuple[str, ...], wanted: list[str], data: st.DataObject):
    scheme = data.draw(st.sampled_from(PREFIXED))
    raw, wanted = denormalise(old, scheme), wanted[: len(old)]
    new = relabel(raw, wanted, scheme)
    assert segments(new, scheme) == segments(wanted, "iob2")
    assert violations(new, scheme) == []
    if segments(old, "iob2") == segments(wanted, "iob2"):
        assert new == raw


# Cases -----------------------------------------------------------------------------------------------------


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., Corpus]:
    def read_text(text: str, **options) -> Corpus:
        path = tmp_path / "tiny"
        path.write_bytes(text.encode())
        return read_corpus(path, ReadOptions(**options))

    return read_text


def rewritten(corpus: Corpus) -> str:
    target = corpus.path.with_name("out")
    write_corpus(corpus, target)
    return target.read_bytes().decode()


def test_segments_that_stay_keep_their_labels(read):
    corpus = read("a I-X\nb O\nc B-Y\nd O\ne I-X\n")  # iob1, with a B- by mistake
    assert corpus.scheme == "iob1"
    labels = (*corpus.sentences[0].labels[:4], "B-Z")
    assert rewritten(edit(corpus, 0, labels)) == "a I-X\nb O\nc B-Y\nd O\ne I-Z\n"


def test_a_sentence_is_written_again_if_its_labels_would_mislead(read):
    corpus = read("a I-X\nb I-Y\nc O\n\nd I-X\n")
    assert rewritten(edit(corpus, 0, ("B-Y", "B-Y", "O"))) == "a I-Y\nb B-Y\nc O\n\nd I-X\n"
    corpus = read("a I-X\nb B-X\nc O\n\nd I-X\n")
    assert rewritten(edit(corpus, 0, ("B-Y", "B-X", "O"))) == "a I-Y\nb I-X\nc O\n\nd I-X\n"


@pytest.mark.parametrize(
    ("text", "labels", "expected"),
    [
        ("a S-X\nb O\nc O\n", ("B-X", "I-X", "O"), "a B-X\nb E-X\nc O\n"),
        ("a U-X\nb O\nc O\n", ("B-X", "I-X", "I-X"), "a B-X\nb I-X\nc L-X\n"),
        ("a INT\nb O\nc INT\n", ("INT", "POP", "INT"), "a INT\nb POP\nc INT\n"),
        ("a DET\nb NOUN\nc VERB\n", ("DET", "ADJ", "VERB"), "a DET\nb ADJ\nc VERB\n"),
    ],
)
def test_new_labels_are_in_the_scheme_of_the_file(read, text: str, labels: tuple[str, ...], expected: str):
    assert rewritten(edit(read(text), 0, labels)) == expected


def test_other_columns_and_a_chosen_one(read):
    corpus = read("1\t O \tB-X\tO\t\n2\tb\tO\tB-X\r\n", label_column=2)
    assert rewritten(edit(corpus, 0, ("B-O", "O"))) == "1\t O \tB-O\tO\t\n2\tb\tO\tB-X\r\n"
    corpus = read("O   O\nO O\n")
    assert rewritten(edit(corpus, 0, ("O", "B-O"))) == "O   O\nO B-O\n"


def test_joined_documents_are_taken_apart(read):
    text = "-DOCSTART- O\n\na B-X\n# x y z\nb I-X\n\nc O\nd B-Y\n\n-DOCSTART- O\n\ne O\n"
    corpus = read(text)
    joined = corpus.with_sentences(join_documents(corpus.sentences))
    assert rewritten(joined) == text
    changed = edit(joined, 0, ("B-X", "I-X", "I-X", "B-Z"))  # over the end of a sentence: cut there
    assert rewritten(changed) == text.replace("c O", "c B-X").replace("d B-Y", "d B-Z")


def test_joined_rows_are_taken_apart(read):
    text = "".join(f'{{"id":"{name}","tokens":["a","b"],"tags":["O","B-X"]}}\n' for name in ("p_0", "p_1", "q_0"))
    corpus = read(text)
    joined = corpus.with_sentences(join_documents(corpus.sentences))
    assert len(joined.sentences) == 2
    changed = edit(joined, 0, ("O", "B-X", "B-Y", "B-X"))
    lines = text.split("\n")
    lines[1] = lines[1].replace('["O"', '["B-Y"')
    assert rewritten(changed) == "\n".join(lines)


def test_json_numbers_and_letters_stay(read):
    text = '{"x": 1.50, "tokens": ["\\u00e4", "b"],\t"ner_tags": [0, 1 ], "y": 1e2}\n'
    corpus = read(text, labels=["O", "B-Ä"])
    assert rewritten(edit(corpus, 0, ("B-Ä", "B-Ä"))) == text.replace("[0,", "[1,")
    text = '{"tokens": ["ä", "b"], "tags": ["B-Ä", "O"]}'
    assert rewritten(edit(read(text), 0, ("B-Ä", "B-Ö"))) == text.replace('"O"', '"B-Ö"')
    text = '{"tokens": ["a", "b"], "tags": ["B-X", "O"]}'
    assert rewritten(edit(read(text), 0, ("B-X", "B-Ö"))) == text.replace('"O"', '"B-\\u00d6"')


def test_sentences_that_are_absent_keep_their_labels(read):
    corpus = read("a B-X\n\nb B-X\n\nc B-X\n")
    changed = edit(corpus, 2, ("B-Y",))
    assert rewritten(corpus.with_sentences([changed.sentences[2], changed.sentences[0]])) == "a B-X\n\nb B-X\n\nc B-Y\n"


def test_the_file_itself_can_be_the_target(read):
    corpus = read("a B-X\nb O\n")
    assert write_corpus(edit(corpus, 0, ("B-Y", "O")), corpus.path) == 1
    assert corpus.path.read_text() == "a B-Y\nb O\n"
    assert [path.name for path in corpus.path.parent.iterdir()] == ["tiny"]


def test_a_changed_gzip_file_is_one_again_and_always_the_same(tmp_path: Path):
    path = tmp_path / "tiny.gz"
    path.write_bytes(gzip.compress(b"\xef\xbb\xbfa B-X\nb O\n"))
    corpus = read_corpus(path)
    outputs = []
    for name in ("one.gz", "two"):
        write_corpus(edit(corpus, 0, ("B-Y", "O")), tmp_path / name)
        outputs.append((tmp_path / name).read_bytes())
    assert outputs[0] == outputs[1]
    assert gzip.decompress(outputs[0]) == b"\xef\xbb\xbfa B-Y\nb O\n"
    assert outputs[0][4:8] == bytes(4)  # no time stamp


def test_unlabelled_files_are_copied(read):
    assert rewritten(read("a\nb\n", labelled=False)) == "a\nb\n"


def wide(sentence: Sentence) -> Sentence:
    return replace(sentence, lines=range(90, 90 + len(sentence)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: edit(c, 0, ("B-Y",)), "sentence 'tiny:0' has 2 tokens, 1 labels and 2 line numbers; give each"),
        (lambda c: edit(c, 0, ("O", "X")), "line 2: the new label 'X' does not belong to the scheme iob2; expected O"),
        (lambda c: edit(c, 0, ("O", "B-a b")), "line 2: the new label 'B-a b' is empty or contains spaces; rename it"),
        (lambda c: c.with_sentences(c.sentences * 2), "line 1: found a label without a token, or a second label"),
        (lambda c: c.with_sentences([wide(c.sentences[0])]), "line 90: found a label without a token"),
        (
            lambda c: c.with_sentences([Sentence(("a",), ("O",), lines=(1,))]),
            "line 1: found labels for 1 of the 2 tokens of this sentence; keep or drop whole sentences",
        ),
    ],
)
def test_impossible_changes_leave_the_target_alone(read, change, message: str):
    corpus = read("a B-X\nb O\n\nc O\n")
    target = corpus.path.with_name("out")
    target.write_text("before")
    with pytest.raises(DataError) as caught:
        write_corpus(change(corpus), target)
    assert message in str(caught.value)
    assert str(corpus.path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert target.read_text() == "before"
    assert sorted(path.name for path in target.parent.iterdir()) == ["out", "tiny"]


def test_a_label_without_a_number_is_refused(read):
    corpus = read('{"tokens": ["a", "b"], "tags": [0, 1]}', labels=["O", "B-X"])
    with pytest.raises(DataError, match="line 1: the new label 'B-Y' is not one of the 2 label names"):
        rewritten(edit(corpus, 0, ("B-Y", "O")))


@pytest.mark.parametrize("now", ["a B-Y\nb O\n", "x B-X\nb O\n", "a B-X\n\nb O\n", "a\n", ""])
def test_a_file_that_changed_is_not_written(read, now: str):
    corpus = read("a B-X\nb O\n")
    target = corpus.path.with_name("out")
    corpus.path.write_text(now)
    with pytest.raises(DataError, match=r"tiny: the file changed since it was read .*; read it again"):
        write_corpus(corpus, target)
    assert not target.exists()


def test_a_file_that_vanished_is_not_written(read):
    corpus = read("a B-X\nb O\n")
    corpus.path.unlink()
    with pytest.raises(DataError, match="tiny: cannot be read: No such file"):
        write_corpus(corpus, corpus.path.with_name("out"))
    assert not corpus.path.with_name("out").exists()
