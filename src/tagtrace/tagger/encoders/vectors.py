"""Static word vectors and syntactic indicators: the features of the paper's linear model.

Layout of one token's features, with d the vectors' size and K the number of parts of speech::

    vector (d) | unknown (1) | own (K + 4) | left (K + 5) | right (K + 5)

``own`` is the part of speech as a one-hot followed by the four ``FLAGS``; ``left`` and ``right`` are the
neighbours' own indicators followed by one for "there is no neighbour".
"""

from __future__ import annotations

import io
import json
import re
import zipfile
import zlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import isfinite, prod
from pathlib import Path
from typing import IO, Any, ClassVar, Literal, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file
from torch import Tensor

from tagtrace._checks import EncoderError, at
from tagtrace._documents import Document, ExpandedFile, check_regular_file, limited_lines, read_document
from tagtrace._tensor_files import map_tensors, not_finite
from tagtrace.data.sentence import Sentence
from tagtrace.tagger.encoders.base import Encoder
from tagtrace.tagger.encoders.stopwords import STOP_WORDS

FLAGS = ("digit", "capital", "title", "stop")
"""The indicators of a word, apart from its part of speech, in order."""

_SIZE = re.compile(r"\d{1,9}")
_MOST_BYTES, _MOST_EXPANSION = 256_000_000, 100
"""An array may be larger than both, this size and so many times its file, in no honest archive."""
_NPZ_HINT = "save it with numpy.savez(file, words=numpy.array(words, dtype=str), vectors=vectors)"
_TEXT_HINT = "each line should be a word and its numbers, separated by spaces, in UTF-8"

Words = list[str]
FloatArray = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class SavedVectors(Document):
    """The description of a saved encoder; its vectors are beside it."""

    kind: Literal["vectors"]
    pos: tuple[str, ...]
    words: tuple[str, ...]


class Vectors(Encoder):
    """A fixed vector for each known word, and indicators of the word and of its two neighbours.

    A word is looked up as written, then in lower case; if neither is known its vector is zero and its `unknown`
    indicator is one. A part of speech that ``fit`` did not see is all zeros.
    """

    words: tuple[str, ...]
    pos: tuple[str, ...]
    dim: int

    kind: ClassVar[str] = "vectors"
    trainable: ClassVar[bool] = False

    _device: Tensor

    def __init__(self, words: Sequence[str], vectors: Tensor, pos: Sequence[str] = ()) -> None:
        """``vectors`` (V, d) are those of ``words``, in float16 or float32; ``pos`` are the parts of speech."""
        super().__init__()
        self.words = tuple(words)
        self.vectors = vectors  # (V, d): stays on the CPU, where `prepare` reads it
        self.pos = tuple(pos)
        self.dim = vectors.shape[1] + 1 + 3 * (len(self.pos) + len(FLAGS)) + 2
        self._row: dict[str, int] = {}
        for row, word in enumerate(self.words):
            self._row.setdefault(word, row)
        self._column = {tag: column for column, tag in enumerate(self.pos)}
        self.register_buffer("_device", torch.empty(0), persistent=False)  # its device is where features go

    @classmethod
    def fit(cls, path: str | Path, sentences: Iterable[Sentence]) -> Self:
        """Read the vectors in ``path`` (`.npz` or text) and take the parts of speech of ``sentences``."""
        path = Path(path)
        words, vectors = _read_npz(path) if path.suffix == ".npz" else _read_text(path)
        _check_vectors(path, words, vectors)
        kept = vectors if vectors.dtype == np.float16 else vectors.astype(np.float32)
        pos = {tag for sentence in sentences for tag in sentence.pos or ()}
        return cls(words, torch.from_numpy(np.ascontiguousarray(kept)), sorted(pos))

    def prepare(self, sentence: Sentence) -> Tensor:
        """Features (T, D) of one sentence."""
        rows = torch.tensor([self._find(token) for token in sentence.tokens], dtype=torch.long)  # (T,)
        known = (rows >= 0).float().unsqueeze(1)  # (T, 1)
        vectors = self.vectors[rows.clamp(min=0)].float() * known  # (T, d)
        own = self._indicators(sentence)  # (T, K + 4)
        return torch.cat([vectors, 1 - known, own, _left(own), _right(own)], dim=1)  # (T, D)

    def forward(self, batch: Sequence[Tensor]) -> Tensor:
        if not batch:
            return torch.zeros(0, self.dim, device=self._device.device)
        return torch.cat(list(batch)).to(self._device.device)  # (N, D)

    def save(self, folder: Path) -> None:
        description = {"kind": self.kind, "pos": self.pos, "words": self.words}
        (folder / "encoder.json").write_text(json.dumps(description), encoding="utf-8")
        save_file({"vectors": self.vectors}, folder / "vectors.safetensors")

    @classmethod
    def load(cls, folder: Path) -> Self:
        saved = read_document(folder / "encoder.json", SavedVectors, remedy="train it again", error=EncoderError)
        vectors = map_tensors(folder / "vectors.safetensors").get("vectors")
        if vectors is None or vectors.ndim != 2 or len(vectors) != len(saved.words):
            shape = None if vectors is None else tuple(vectors.shape)
            raise EncoderError(f"{folder}: {len(saved.words)} words but vectors of shape {shape}; train it again")
        if not_finite({"vectors": vectors}):
            raise EncoderError(f"{folder}: the vectors are not finite numbers; train it again")
        return cls(saved.words, vectors, saved.pos)

    def _find(self, word: str) -> int:
        """The row of a word's vector, or -1."""
        row = self._row.get(word)
        return self._row.get(word.lower(), -1) if row is None else row

    def _indicators(self, sentence: Sentence) -> Tensor:
        """Part of speech and flags of each token: (T, K + 4)."""
        num_pos = len(self.pos)
        own = torch.zeros(len(sentence), num_pos + len(FLAGS))
        own[:, num_pos:] = torch.tensor([_flags(token) for token in sentence.tokens]).view(-1, len(FLAGS))
        for t, tag in enumerate(sentence.pos or ()):
            if tag in self._column:
                own[t, self._column[tag]] = 1
        return own


def _flags(word: str) -> tuple[float, ...]:
    """The ``FLAGS`` of a word.

    >>> _flags("EU"), _flags("1996"), _flags("The")
    ((0.0, 1.0, 0.0, 0.0), (1.0, 0.0, 0.0, 0.0), (0.0, 0.0, 1.0, 1.0))
    """
    flags = (word.isdigit(), word.isupper(), word.istitle(), word.lower() in STOP_WORDS)
    return tuple(float(flag) for flag in flags)


def _left(own: Tensor) -> Tensor:
    """Each token's left neighbour's indicators, and whether there is none: (T, K + 5)."""
    beside = own.new_zeros(own.shape[0], own.shape[1] + 1)
    beside[1:, :-1] = own[:-1]
    beside[:1, -1] = 1
    return beside


def _right(own: Tensor) -> Tensor:
    """Like ``_left``, for the right neighbour: (T, K + 5)."""
    return _left(own.flip(0)).flip(0)


def _read_npz(path: Path) -> tuple[Words, FloatArray]:
    """The arrays ``words`` (V,) and ``vectors`` (V, d) of a NumPy archive."""
    if path.is_file() and not zipfile.is_zipfile(path):
        raise EncoderError(f"{path}: cannot be read as .npz, or is incomplete; {_NPZ_HINT}")
    try:
        _check_sizes(path)
        with np.load(path, allow_pickle=False) as arrays:
            if missing := {"words", "vectors"} - set(arrays):
                raise EncoderError(f"{path}: has no array {' or '.join(sorted(missing))}; {_NPZ_HINT}")
            words, vectors = arrays["words"], arrays["vectors"]
    except FileNotFoundError as error:
        raise EncoderError(f"{path}: no such file of word vectors; check the path") from error
    except EncoderError:
        raise
    except Exception as error:  # each kind of damage to an archive raises an error of its own
        if "allow_pickle" in str(error):
            raise EncoderError(f"{path}: contains Python objects, which are never loaded; {_NPZ_HINT}") from error
        raise EncoderError(f"{path}: cannot be read as .npz ({error}); {_NPZ_HINT}") from error
    if words.dtype.kind != "U" or words.ndim != 1:
        raise EncoderError(
            f"{path}: `words` should be one row of strings, not {words.dtype} {words.shape}; {_NPZ_HINT}"
        )
    if vectors.dtype.kind != "f" or vectors.ndim != 2:
        raise EncoderError(
            f"{path}: `vectors` should be rows of floats, not {vectors.dtype} {vectors.shape}; {_NPZ_HINT}"
        )
    return words.tolist(), vectors


def _check_sizes(path: Path) -> None:
    """Raise ValueError if an array has another size than its header says, or the archive expands beyond reason."""
    check_regular_file(path)
    most = max(_MOST_BYTES, _MOST_EXPANSION * path.stat().st_size)
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if member.file_size > most:
                raise ValueError(f"{member.filename} would take {member.file_size:,} bytes")
            if member.filename in ("words.npy", "vectors.npy"):
                with archive.open(member) as stream:
                    if _size_in_header(stream) > member.file_size:
                        raise ValueError(f"{member.filename} is shorter than its header says")


def _size_in_header(stream: IO[bytes]) -> int:
    """The bytes, at least one for each element, that an array needs by the header of its `.npy` file."""
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(stream)
    return prod(shape) * max(dtype.itemsize, 1)


def _read_text(path: Path) -> tuple[Words, FloatArray]:
    """GloVe's or word2vec's text format: a word and its numbers on each line."""
    words: Words = []
    values = array("f")
    size = 0
    try:
        for number, line in _lines(path):
            if number == 1 and (size := _header_size(line)):
                continue
            word, numbers = _split_line(path, number, line, size)
            size = size or len(numbers)
            words.append(word)
            values.extend(numbers)
    except FileNotFoundError as error:
        raise EncoderError(f"{path}: no such file of word vectors; check the path") from error
    except (OSError, EOFError, zlib.error) as error:
        raise EncoderError(f"{path}: cannot be read ({error}); check that the file is complete") from error
    return words, np.array(values, dtype=np.float32).reshape(len(words), size if words else 0)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Numbered lines that are not empty. Only a newline ends a line: words may contain unusual spaces."""
    check_regular_file(path, opened=True)
    with path.open("rb") as file:
        stream = io.BufferedReader(cast(Any, ExpandedFile(file))) if path.suffix == ".gz" else file
        for number, line in enumerate(limited_lines(stream), start=1):
            try:
                text = line.decode("utf-8").replace("\t", " ").rstrip(" \r\n")
            except UnicodeDecodeError as error:
                raise EncoderError(f"{at(path, number)}: not UTF-8 text; {_TEXT_HINT}") from error
            if text:
                yield number, text


def _header_size(line: str) -> int:
    """The vectors' size if this is word2vec's first line, `number-of-words size`; else 0.

    >>> _header_size("400000 100"), _header_size("the 0.1 0.2")
    (100, 0)
    """
    fields = line.split(" ")
    return int(fields[1]) if len(fields) == 2 and all(map(_SIZE.fullmatch, fields)) else 0


def _split_line(path: Path, number: int, line: str, size: int) -> tuple[str, list[float]]:
    """A word (which may contain spaces) and its ``size`` numbers; the first line, size 0, sets the size."""
    word, *fields = line.rsplit(" ", size) if size else line.split(" ")
    numbers = [_number(field) for field in fields]
    bad = [field for field, value in zip(fields, numbers, strict=True) if value is None]
    if bad:
        raise EncoderError(f"{at(path, number)}: {bad[0]!r} is not a number; {_TEXT_HINT}")
    spare = _number(word.rsplit(" ", 1)[1]) if " " in word else None
    if not fields or (size and len(fields) != size) or spare is not None:
        found = len(line.split(" ")) - 1
        raise EncoderError(f"{at(path, number)}: {found} numbers, expected {size or 'some'}; {_TEXT_HINT}")
    values = [value for value in numbers if value is not None]
    if not all(map(isfinite, values)):
        raise EncoderError(
            f"{at(path, number)}: the vector of {word!r} contains NaN or infinity; remove or fix that line"
        )
    return word, values


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _check_vectors(path: Path, words: Words, vectors: FloatArray) -> None:
    """Raise for vectors that cannot give usable features."""
    if not words or vectors.shape[1] == 0:
        raise EncoderError(f"{path}: has no vectors; {_TEXT_HINT}, or .npz with `words` and `vectors`")
    if len(words) != len(vectors):
        raise EncoderError(f"{path}: {len(words)} words but {len(vectors)} vectors; give one vector for each word")
    with np.errstate(over="ignore"):
        finite = np.isfinite(vectors.astype(np.float32, copy=False)).all(axis=1)  # (V,)
    if not finite.all():
        word = words[int(np.argmin(finite))]
        raise EncoderError(
            f"{path}: the vector of {word!r} contains NaN, infinity or a number too large for float32; remove or fix it"
        )
