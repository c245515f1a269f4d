"""Word vectors and indicators: the layout by hand, both file formats, and files that must be refused."""

from __future__ import annotations

import gzip
import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tagtrace import _documents
from tagtrace._checks import EncoderError
from tagtrace.data.sentence import Sentence
from tagtrace.tagger.encoders.stopwords import STOP_WORDS
from tagtrace.tagger.encoders.vectors import Vectors

WORDS = ["the", "khl", "leaves", "KHL", "1996", ". . ."]
TABLE = np.array([[1, 2], [3, 4], [5, 6], [-0.5, 0.25], [7, 8], [0, 9]], dtype=np.float32)
TRAIN = [
    Sentence(("The", "KHL", "leaves", "1996"), (), pos=("DT", "NNP", "VBZ", "CD")),
    Sentence(("no", "tags"), ()),
]


def write_text(path: Path, *, header: bool = False) -> Path:
    lines = [f"{word} {a} {b}" for word, (a, b) in zip(WORDS, TABLE.tolist(), strict=True)]
    text = "\n".join([f"{len(WORDS)} 2"] * header + lines) + "\n"
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def write_npz(path: Path, **arrays: Any) -> Path:
    np.savez(path, **{"words": np.array(WORDS), "vectors": TABLE, **arrays})
    return path


@pytest.fixture
def encoder(tmp_path: Path) -> Vectors:
    return Vectors.fit(write_npz(tmp_path / "six.npz"), TRAIN)


def test_the_layout_by_hand(encoder: Vectors) -> None:
    assert encoder.pos == ("CD", "DT", "NNP", "VBZ")
    # own: CD DT NNP VBZ, digit capital title stop
    the = [0, 1, 0, 0, 0, 0, 1, 1]
    acronym = [0, 0, 1, 0, 0, 1, 0, 0]
    verb = [0, 0, 0, 1, 0, 0, 0, 0]
    year = [1, 0, 0, 0, 1, 0, 0, 0]
    none = [0, 0, 0, 0, 0, 0, 0, 0, 1]
    expected = [
        # vector, unknown, own, left + none, right + none
        [1, 2, 0, *the, *none, *acronym, 0],
        [-0.5, 0.25, 0, *acronym, *the, 0, *verb, 0],
        [5, 6, 0, *verb, *acronym, 0, *year, 0],
        [7, 8, 0, *year, *verb, 0, *none],
    ]
    features = encoder([encoder.prepare(TRAIN[0])])
    assert features.dtype == torch.float32
    assert features.tolist() == expected
    assert features.shape == (4, encoder.dim)


def test_unknown_words_and_parts_of_speech(encoder: Vectors) -> None:
    features = encoder.prepare(Sentence(("zebra", "Leaves"), (), pos=("JJ", "JJ")))
    assert features[0, :3].tolist() == [0, 0, 1]
    assert features[1, :3].tolist() == [5, 6, 0]  # found lower-cased
    assert features[:, 3:7].sum() == 0  # no part of speech
    assert features[1, 7:11].tolist() == [0, 0, 1, 0]


def test_without_parts_of_speech(tmp_path: Path) -> None:
    encoder = Vectors.fit(write_npz(tmp_path / "six.npz"), [TRAIN[1]])
    assert encoder.dim == 2 + 1 + 4 + 5 + 5
    features = encoder.prepare(TRAIN[1])
    assert features[0].tolist() == [0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0]
    assert encoder.prepare(TRAIN[0]).shape == (4, 17)


def test_a_sentence_of_one_token_has_no_neighbours(encoder: Vectors) -> None:
    features = encoder.prepare(Sentence(("KHL",), ()))
    assert features[0, 11:].tolist() == [0] * 8 + [1] + [0] * 8 + [1]


def test_a_batch_is_its_sentences_in_order(encoder: Vectors) -> None:
    prepared = [encoder.prepare(s) for s in (*TRAIN, Sentence((), ()))]
    assert torch.equal(encoder(prepared), torch.cat(prepared))
    assert encoder([]).shape == (0, encoder.dim)
    assert not list(encoder.parameters())


@pytest.mark.parametrize("name", ["six.txt", "six.vec", "six.txt.gz"])
@pytest.mark.parametrize("header", [False, True])
def test_text_and_npz_agree(tmp_path: Path, encoder: Vectors, name: str, header: bool) -> None:
    text = Vectors.fit(write_text(tmp_path / name, header=header), TRAIN)
    assert text.words == encoder.words
    assert torch.equal(text.vectors, encoder.vectors)
    assert torch.equal(text.prepare(TRAIN[0]), encoder.prepare(TRAIN[0]))


def test_text_with_carriage_returns_tabs_and_odd_spaces(tmp_path: Path) -> None:
    path = tmp_path / "odd.txt"
    path.write_bytes("a\t1\t2 \r\nno\u00a0break 3 4\r\n\u2028 5 6\r\n\n".encode())
    encoder = Vectors.fit(path, [])
    assert encoder.words == ("a", "no\u00a0break", "\u2028")
    assert encoder.vectors.tolist() == [[1, 2], [3, 4], [5, 6]]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_saved_and_loaded_it_gives_the_same_features(tmp_path: Path, dtype: Any) -> None:
    encoder = Vectors.fit(write_npz(tmp_path / "six.npz", vectors=TABLE.astype(dtype)), TRAIN)
    assert encoder.vectors.dtype == (torch.float16 if dtype == np.float16 else torch.float32)
    folder = tmp_path / "saved"
    folder.mkdir()
    encoder.save(folder)
    (tmp_path / "six.npz").unlink()
    again = Vectors.load(folder)
    assert (again.words, again.pos, again.dim) == (encoder.words, encoder.pos, encoder.dim)
    assert again.vectors.dtype == encoder.vectors.dtype
    assert torch.equal(again.prepare(TRAIN[0]), encoder.prepare(TRAIN[0]))
    assert {path.suffix for path in folder.iterdir()} == {".json", ".safetensors"}


def test_words_that_occur_twice_keep_their_first_vector(tmp_path: Path) -> None:
    path = tmp_path / "twice.txt"
    path.write_text("a 1 2\na 3 4\n")
    assert Vectors.fit(path, []).prepare(Sentence(("a",), ()))[0, :2].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a 1 2\nb 1\n", "line 2: 1 numbers, expected 2"),
        ("a 1 2\nb 1 2 3\n", "line 2: 3 numbers, expected 2"),
        ("a 1 2\nb 1 x\n", "line 2: 'x' is not a number"),
        ("a 1 2\nb nan 1\n", "line 2: the vector of 'b' contains NaN"),
        ("a 1 2\nb 1 -inf\n", "line 2: the vector of 'b' contains NaN or infinity"),
        ("a 1 2\nb 1 1e39\n", "too large for float32"),
        ("2 3\na 1 2\n", "line 2: 2 numbers, expected 3"),
        ("word\n", "line 1: 0 numbers, expected some"),
        ("2 3\n", "has no vectors"),
        ("", "has no vectors"),
    ],
)
def test_malformed_text_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.txt"
    path.write_text(text)
    refuse(path, message)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"words": np.array(WORDS, dtype=object)}, "Python objects"),
        ({"words": np.array(WORDS[:5])}, "5 words but 6 vectors"),
        ({"words": np.array([w.encode() for w in WORDS])}, "row of strings"),
        ({"words": np.array([WORDS])}, "row of strings"),
        ({"vectors": TABLE[0]}, "rows of floats"),
        ({"vectors": TABLE.astype(int)}, "rows of floats"),
        ({"vectors": TABLE[:, :0]}, "has no vectors"),
        ({"vectors": np.where(TABLE == 5, np.nan, TABLE)}, "the vector of 'leaves' contains NaN"),
        ({"vectors": np.where(TABLE == 5, np.inf, TABLE)}, "the vector of 'leaves' contains NaN, infinity"),
        ({"vectors": np.where(TABLE == 5, 1e39, TABLE.astype(float))}, "too large for float32"),
    ],
)
def test_malformed_npz_is_refused(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    refuse(write_npz(tmp_path / "bad.npz", **arrays), message)


def test_npz_without_words_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "bad.npz", vectors=TABLE)
    refuse(tmp_path / "bad.npz", "no array words")


@pytest.mark.parametrize("name", ["none.npz", "none.txt", "none.txt.gz"])
def test_missing_and_broken_files_are_refused(tmp_path: Path, name: str) -> None:
    refuse(tmp_path / name, "no such file")
    (tmp_path / name).write_bytes(b"\xff\xfe broken \x80\n")
    refuse(tmp_path / name, "cannot be read|line 1: not UTF-8")


def test_a_single_array_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "one.npz").open("wb") as stream:
        np.save(stream, TABLE)
    refuse(tmp_path / "one.npz", "cannot be read as .npz")


def test_half_a_file_is_refused(tmp_path: Path) -> None:
    for path in (write_text(tmp_path / "six.txt.gz"), write_npz(tmp_path / "six.npz")):
        path.write_bytes(path.read_bytes()[:-30])
        refuse(path, "cannot be read")


def test_loading_something_else_is_refused(tmp_path: Path, encoder: Vectors) -> None:
    with pytest.raises(EncoderError, match=r"encoder\.json: cannot be read"):
        Vectors.load(tmp_path / "nowhere")
    folder = tmp_path / "saved"
    folder.mkdir()
    encoder.save(folder)
    description = json.loads((folder / "encoder.json").read_text())
    (folder / "encoder.json").write_text(json.dumps({**description, "words": ["one"]}))
    with pytest.raises(EncoderError, match="1 words but vectors of shape"):
        Vectors.load(folder)


def test_stop_words_are_plain_lower_case_words() -> None:
    assert 120 <= len(STOP_WORDS) <= 180
    assert all(word == word.lower() for word in STOP_WORDS)
    assert {"the", "of", "not", "is"} <= STOP_WORDS


def refuse(path: Path, message: str) -> None:
    with pytest.raises(EncoderError, match=message) as error:
        Vectors.fit(path, [])
    assert "\n" not in str(error.value)
    assert str(error.value).startswith(str(path))


@pytest.mark.parametrize("size", ["9" * 40, "9" * 5000, "1" + "0" * 18, "\u0661" * 30])
def test_a_first_line_of_huge_numbers_is_no_header(tmp_path: Path, size: str) -> None:
    (tmp_path / "v.txt").write_text(f"1 {size}\nword 1 2\n", encoding="utf-8")
    with pytest.raises(EncoderError, match=r"line [12]: ") as error:
        Vectors.fit(tmp_path / "v.txt", [])
    assert "\n" not in str(error.value)


def archive_of(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)
    return path


def npy(shape: tuple[int, ...], dtype: str, data: bytes = b"") -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"shape": shape, "fortran_order": False, "descr": dtype})
    return stream.getvalue() + data


TWO_WORDS = npy((2,), "<U1", "ab".encode("utf-32-le"))


@pytest.mark.parametrize(
    ("words", "vectors", "message"),
    [
        (TWO_WORDS, npy((10**9, 300), "<f4"), "vectors.npy is shorter than its header says"),
        (TWO_WORDS, npy((10**30, 10**30), "<f4"), "vectors.npy is shorter"),
        (npy((10**12,), "<U0"), npy((1, 1), "<f4", bytes(4)), "words.npy is shorter"),
        (TWO_WORDS, npy((2, 10**8), "<f4", bytes(300_000_000)), "vectors.npy would take 300,000,128 bytes"),
        (TWO_WORDS, npy((-1, 3), "<f4"), "cannot be read"),
        (TWO_WORDS, b"\x93NUMPY\x01\x00\xff\xff" + b"(" * 65535, "never loaded"),
        (TWO_WORDS, b"no array", "cannot be read"),
    ],
)
def test_an_archive_that_is_larger_than_it_looks_is_refused(
    tmp_path: Path, words: bytes, vectors: bytes, message: str
) -> None:
    with pytest.raises(EncoderError, match=message) as error:
        Vectors.fit(archive_of(tmp_path / "v.npz", words=words, vectors=vectors), [])
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("place", "value"), [(6, 1), (8, 99)], ids=["encrypted", "unknown compression"])
def test_an_archive_that_python_cannot_read_is_refused(tmp_path: Path, place: int, value: int) -> None:
    path = archive_of(tmp_path / "v.npz", words=TWO_WORDS, vectors=npy((2, 1), "<f4", bytes(8)))
    data = bytearray(path.read_bytes())
    for header, offset in ((b"PK\x03\x04", place), (b"PK\x01\x02", place + 2)):
        start = data.find(header)
        while start >= 0:
            data[start + offset] = value
            start = data.find(header, start + 4)
    path.write_bytes(data)
    with pytest.raises(EncoderError, match="cannot be read as"):
        Vectors.fit(path, [])


@pytest.mark.parametrize("name", ["v.txt", "v.txt.gz", "v.npz"])
def test_a_pipe_is_refused(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(EncoderError, match=r"cannot be read .*Not an ordinary file"):
        Vectors.fit(tmp_path / name, [])


def test_a_line_that_never_ends_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some KB of gzip may be a line of GBs."""
    monkeypatch.setattr(_documents, "MAX_BYTES", 1000)
    with gzip.open(tmp_path / "v.txt.gz", "wb") as stream:
        stream.write(b"word 1 2\n" + b"0 " * 10_000)
    with pytest.raises(EncoderError, match="a line is longer than 1,000 bytes"):
        Vectors.fit(tmp_path / "v.txt.gz", [])
