"""Reading either format: which one, compression, fingerprints, and nothing but DataError on rubbish."""

from __future__ import annotations

import gzip
import hashlib
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tagtrace import _documents
from tagtrace._checks import DataError, NoLabelsError
from tagtrace.data import ReadOptions, join_documents, read_corpus

CONLL = b"Orla B-PER\nsang O\n"
JSONL = b'{"tokens": ["Orla", "sang"], "ner_tags": ["B-PER", "O"]}\n'


def write(folder: Path, content: bytes, name: str = "tiny") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("content", [CONLL, JSONL, b"\xef\xbb\xbf" + CONLL, b"\xef\xbb\xbf" + JSONL, b"\n \n" + JSONL])
@pytest.mark.parametrize("compress", [False, True])
def test_format_and_compression_are_seen_in_the_bytes(tmp_path: Path, content: bytes, compress: bool):
    path = write(tmp_path, gzip.compress(content, mtime=0) if compress else content)
    corpus = read_corpus(path)
    assert corpus.format == ("jsonl" if JSONL in content else "conll")
    assert corpus.sentences[0].tokens == ("Orla", "sang")
    assert corpus.sentences[0].path == str(path)
    assert corpus.fingerprint == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("line", [b"{ O\n", b"{\tO\n", b"{  -LRB- O\n"])
def test_a_brace_may_be_a_token(tmp_path: Path, line: bytes):
    corpus = read_corpus(write(tmp_path, line))
    assert (corpus.format, corpus.sentences[0].tokens) == ("conll", ("{",))


def test_resolved_options_read_the_same(tmp_path: Path):
    path = write(tmp_path, b"1 Orla B-PER\n2 sang O\n")
    corpus = read_corpus(path)
    assert corpus.options == ReadOptions(format="conll", scheme="iob2", token_column=1, label_column=2)
    assert read_corpus(path, corpus.options) == corpus


def test_a_forced_scheme(tmp_path: Path):
    path = write(tmp_path, b"Orla B-PER\nsang U-ACT\n")
    corpus = read_corpus(path, ReadOptions(scheme="biluo"))
    assert (corpus.scheme, corpus.normalised_scheme) == ("bilou", "iob2")
    assert corpus.sentences[0].labels == ("B-PER", "B-ACT")
    assert corpus.violations == ((1, "the segment of B-PER is not closed, as bilou requires"),)
    assert read_corpus(path, ReadOptions(scheme="io")).sentences[0].labels == ("B-PER", "U-ACT")


@pytest.mark.parametrize("content", [b"Orla\nsang\n", b'{"tokens": ["Orla", "sang"]}\n'])
def test_labels_are_optional_only_when_asked(tmp_path: Path, content: bytes):
    path = write(tmp_path, content)
    with pytest.raises(NoLabelsError):
        read_corpus(path)
    corpus = read_corpus(path, require_labels=False)
    assert corpus.sentences[0].tokens == ("Orla", "sang")
    assert corpus.sentences[0].labels == ()
    assert not corpus.options.labelled
    assert corpus == read_corpus(path, ReadOptions(labelled=False))


def test_labels_that_are_there_are_read_and_checked_either_way(tmp_path: Path):
    for content in (CONLL, JSONL):
        path = write(tmp_path, content)
        assert read_corpus(path, require_labels=False) == read_corpus(path)
    wrong = write(tmp_path, b"Orla B-\nsang O\n")
    with pytest.raises(DataError, match="label 'B-' has no type"):
        read_corpus(wrong, require_labels=False)
    with pytest.raises(DataError, match="choose another label_column"):
        read_corpus(wrong, ReadOptions(label_column=7), require_labels=False)


def test_repeated_strings_are_one_object(tmp_path: Path):
    content = b"Orla\tNNP\tB-long-type\nsang\tVBD\tI-long-type\n\nOrla\tNNP\tI-long-type\n"
    first, second = read_corpus(write(tmp_path, content)).sentences
    assert first.tokens[0] is second.tokens[0]
    assert first.labels[0] is second.labels[0]
    assert first.pos is not None
    assert second.pos is not None
    assert first.pos[0] is second.pos[0]


def test_documents_join(tmp_path: Path):
    corpus = read_corpus(write(tmp_path, b"-DOCSTART- O\n\na O\n\nb O\n-DOCSTART- O\nc O\n"))
    joined = corpus.with_sentences(join_documents(corpus.sentences))
    assert [s.tokens for s in joined.sentences] == [("a", "b"), ("c",)]
    assert [s.id for s in joined.sentences] == list(corpus.documents) == ["tiny-0", "tiny-1"]
    assert joined.num_tokens == corpus.num_tokens == 3


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (gzip.compress(CONLL, mtime=0)[:-12], "damaged gzip data"),
        (gzip.compress(CONLL, mtime=0)[:10] + b"\xff" * 9, "damaged gzip data"),
        (b"\x1f\x8bX", "damaged gzip data"),
        (b"\xff\xfea\x00 \x00O\x00\n\x00", "line 1: byte 0 is not UTF-8; convert the file to UTF-8"),
        (gzip.compress(b"a O\n\xe4 O\n", mtime=0), "line 2: byte 4 is not UTF-8"),
    ],
)
def test_damaged_files(tmp_path: Path, content: bytes, message: str):
    path = write(tmp_path, content)
    with pytest.raises(DataError) as caught:
        read_corpus(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("start", [CONLL, JSONL])
def test_a_line_that_never_ends_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: bytes):
    """Some KB of gzip may be a line of GBs."""
    monkeypatch.setattr(_documents, "MAX_BYTES", 1000)
    path = write(tmp_path, gzip.compress(start + b"x" * 10_000))
    with pytest.raises(DataError, match="tiny: cannot be read: a line is longer than 1,000 bytes; check the file"):
        read_corpus(path)


@pytest.mark.parametrize("start", [CONLL, JSONL])
def test_a_file_that_expands_beyond_reason_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: bytes):
    """A megabyte of gzip may be a gigabyte of line ends."""
    monkeypatch.setattr(_documents, "MANY_BYTES", 1_000_000)
    path = write(tmp_path, gzip.compress(start + b"\n" * 3_000_000))
    with pytest.raises(DataError, match="tiny: cannot be read: expands to more than 60 times its size; check"):
        read_corpus(path)


def test_a_file_of_lines_that_are_no_tokens_is_not_kept_in_memory(tmp_path: Path):
    with pytest.raises(DataError, match="found no token in the first 100,000 lines"):
        read_corpus(write(tmp_path, b"\n" * 200_000 + CONLL))


def test_missing_files_and_folders(tmp_path: Path):
    with pytest.raises(DataError, match="nowhere: cannot be read: No such file or directory; check the file"):
        read_corpus(tmp_path / "nowhere")
    with pytest.raises(DataError, match="cannot be read: Is a directory"):
        read_corpus(tmp_path)


COLUMN_PIECES = rb"\n \r\n \r # O B-X I- -DOCSTART- 1 2 1-2 \xef\xbb\xbf \xa0 \xc2\xa0 \x1f\x8b \x00".split()
JSON_PIECES = rb'{"tokens":["a"],"tags":["O"]} {"tokens": [ ] { } "a" , \ud800 1e999 NaN null "id":'.split()
pieces = st.sampled_from([piece.decode("unicode_escape").encode("latin-1") for piece in COLUMN_PIECES])
pieces |= st.sampled_from([*JSON_PIECES, b" ", b"\t"])
rubbish = st.binary(max_size=60) | st.lists(pieces, max_size=25).map(b"".join)
options = st.builds(
    ReadOptions,
    format=st.sampled_from(["auto", "conll", "jsonl"]),
    scheme=st.sampled_from(["auto", "iob2", "bioes", "io"]),
    labelled=st.booleans(),
    label_column=st.sampled_from([None, 1, -2]),
    labels=st.sampled_from([None, ("O", "B-X")]),
)


@given(rubbish, options, st.booleans())
@example(b"1 a O\n2 b O\n\n\xef\xbb\xbf\n", ReadOptions(), False)
@example(b"{" * 100_000, ReadOptions(), False)
@example(b'{"tokens": ["a"], "id": [' + b"[" * 900 + b"]" * 901 + b"}", ReadOptions(labelled=False), False)
def test_rubbish_raises_nothing_but_data_errors(content: bytes, options: ReadOptions, compress: bool):
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder), gzip.compress(content, mtime=0) if compress else content)
        try:
            corpus = read_corpus(path, options)
        except DataError as error:
            assert "\n" not in str(error).replace(str(path), "")  # noqa: PT017
            return
    assert corpus.sentences
    assert corpus.num_tokens == sum(len(s.tokens) for s in corpus.sentences)
    for sentence in corpus.sentences:
        assert len(sentence.lines) == len(sentence)
        assert sentence.is_labelled == corpus.options.labelled
