"""The user's own features: one array per data file, one row per token, computed by any program."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar, Literal, Self

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from tagtrace._checks import EncoderError
from tagtrace._documents import Document, check_regular_file, read_document, recorded_path
from tagtrace._files import check_name_is_text
from tagtrace._places import RecordedPlace, find_place
from tagtrace.data.corpus import Corpus
from tagtrace.data.sentence import Sentence
from tagtrace.tagger.encoders.base import Encoder

_TENSOR = "features"
_SAFETENSORS_FLOATS = ("F16", "BF16", "F32", "F64")
_BLOCK, _NUM_BLOCKS = 1 << 16, 64  # bytes read for a checksum: at most 4 MiB of a file


@dataclass(frozen=True)
class ArrayRecord:
    """An array as it was when the encoder was saved."""

    shape: tuple[int, int]
    dtype: str
    checksum: str


@dataclass(frozen=True)
class SavedPrecomputed(Document):
    """The description of a saved encoder: its arrays stay where they are."""

    kind: Literal["precomputed"]
    folder: str
    """As it was given."""
    absolute: str
    arrays: dict[str, ArrayRecord]
    relative: str | None = None
    """Relative to the encoder's own folder; earlier versions did not record it."""


class Precomputed(Encoder):
    """Rows of arrays in a folder: the tokens of `train.conll` are the rows of `train.conll.npy`.

    Row r is the r-th token of the file, counted from 0 over all its sentences. `train.conll.gz` may use
    `train.conll.npy` too; `train.conll.safetensors` has the same rows as a tensor named `features`. Arrays are
    memory-mapped and never copied: a saved encoder points to the folder and checks that it has not changed.
    """

    folder: Path
    dim: int

    kind: ClassVar[str] = "precomputed"
    trainable: ClassVar[bool] = False

    _device: Tensor

    def __init__(self, folder: str | Path) -> None:
        super().__init__()
        self.folder = Path(folder)
        check_name_is_text(self.folder)
        self._arrays = _open_arrays(self.folder)
        self.dim = next(iter(self._arrays.values())).shape[1]
        self.register_buffer("_device", torch.empty(0), persistent=False)  # its device is where features go

    def prepare(self, sentence: Sentence) -> Tensor:
        """Features (T, D): the sentence's rows of its file's array."""
        array = self._array_of(sentence)
        if sentence.offset < 0:
            raise EncoderError(
                f"{sentence.path}: the tokens of {sentence.id!r} are not contiguous in the file, so they have no"
                " rows of their own; give whole documents, or use the unit sentence"
            )
        start, stop = sentence.offset, sentence.offset + len(sentence)
        num_rows = array.shape[0]
        if start < 0 or stop > num_rows:
            raise EncoderError(
                f"{array.path}: has {num_rows} rows, but a sentence of {sentence.path} needs rows"
                f" {start}..{stop - 1}; it should have one row for each token of that file, in order"
            )
        features = array.read(start, stop)  # (T, D)
        if not features.sum().isfinite():  # or the sum overflowed
            finite = features.isfinite().all(dim=1)  # (T,)
            if not finite.all():
                row = start + int((~finite).nonzero()[0])
                raise EncoderError(
                    f"{array.path}, row {row}: contains NaN, infinity or a number too large for float32;"
                    " compute that row again"
                )
        return features

    def check_corpus(self, corpus: Corpus) -> None:
        array = self._array_of(corpus.sentences[0])
        if array.shape[0] != corpus.num_tokens:
            raise EncoderError(
                f"{array.path}: has {array.shape[0]} rows, but {corpus.path} has {corpus.num_tokens} tokens; it should"
                " have one row for each token of that file, in order"
            )

    def forward(self, batch: Sequence[Tensor]) -> Tensor:
        if not batch:
            return torch.zeros(0, self.dim, device=self._device.device)
        return torch.cat(list(batch)).to(self._device.device)  # (N, D)

    def save(self, folder: Path) -> None:
        """Write where the arrays are and their checksums; the arrays themselves are not copied."""
        arrays = {recorded_path(array.path.name): array.describe() for array in self._arrays.values()}
        place = RecordedPlace.of(self.folder, folder)
        saved = SavedPrecomputed("precomputed", str(self.folder), place.path, arrays, place.relative)
        (folder / "encoder.json").write_text(json.dumps(asdict(saved), indent=1), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Self:
        saved = read_document(folder / "encoder.json", SavedPrecomputed, remedy="train it again", error=EncoderError)
        encoder = cls(find_place(folder, "folder of arrays", saved.absolute, saved.relative))
        encoder._check_unchanged(saved.arrays)
        return encoder

    def _check_unchanged(self, arrays: dict[str, ArrayRecord]) -> None:
        """Raise if an array has changed since the encoder was saved; new arrays may be added."""
        present = {recorded_path(array.path.name): array for array in self._arrays.values()}
        for name, before in arrays.items():
            if name not in present:
                raise EncoderError(f"{self.folder / name}: the tagger was trained on it, but it is gone; restore it")
            now = present[name].describe()
            for what in ("shape", "dtype", "checksum"):
                if getattr(now, what) != getattr(before, what):
                    raise EncoderError(
                        f"{self.folder / name}: its {what} was {getattr(before, what)} when the tagger was saved"
                        f" and is {getattr(now, what)} now; restore the array or train again"
                    )

    def _array_of(self, sentence: Sentence) -> _Array:
        """The array named after the sentence's file, with or without `.gz`."""
        if not sentence.path:
            raise EncoderError(
                f"sentence {sentence.id!r} does not come from a file, so it has no rows in {self.folder};"
                " read it from a file, or use another encoder"
            )
        name = Path(sentence.path).name
        plain = name.removesuffix(".gz")
        array = self._arrays.get(name) or self._arrays.get(plain)
        if array is None:
            held = ", ".join(sorted(array.path.name for array in self._arrays.values()))
            raise EncoderError(
                f"{self.folder}: no features for {sentence.path}; expected {plain}.npy or"
                f" {plain}.safetensors, found {held}"
            )
        return array


class _Array(ABC):
    """Float rows on disk."""

    path: Path
    shape: tuple[int, int]
    """(R, D)"""
    dtype: str

    @abstractmethod
    def read(self, start: int, stop: int) -> Tensor:
        """A float32 copy of rows ``start:stop``."""

    def describe(self) -> ArrayRecord:
        """What must not change."""
        return ArrayRecord(self.shape, self.dtype, _checksum(self.path))

    def _set_shape(self, shape: Sequence[int]) -> None:
        if len(shape) != 2 or shape[1] == 0:
            raise EncoderError(f"{self.path}: has shape {tuple(shape)}; expected (tokens, features), one row per token")
        self.shape = (shape[0], shape[1])

    def _refuse_dtype(self) -> EncoderError:
        return EncoderError(f"{self.path}: has dtype {self.dtype}; save it as float16, bfloat16, float32 or float64")


class _NumpyArray(_Array):
    """A memory-mapped `.npy` file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with np.errstate(over="ignore"):  # of a shape beyond all bounds, which then is an error
                self._rows = np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, EOFError, ValueError, OverflowError, MemoryError) as error:
            raise EncoderError(
                f"{path}: cannot be read as an array of floats ({error}); write it with numpy.save"
            ) from error
        if not isinstance(self._rows, np.ndarray):
            raise EncoderError(f"{path}: is an archive of arrays; write one array with numpy.save")
        self.dtype = str(self._rows.dtype)
        if self._rows.dtype.kind != "f" or self._rows.dtype.itemsize > 8:
            raise self._refuse_dtype()
        self._set_shape(self._rows.shape)

    def read(self, start: int, stop: int) -> Tensor:
        with np.errstate(over="ignore"):
            return torch.from_numpy(np.array(self._rows[start:stop], dtype=np.float32, order="C"))


class _SafetensorsArray(_Array):
    """The tensor `features` of a safetensors file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._rows = safe_open(path, framework="pt").get_slice(_TENSOR)
        except (OSError, SafetensorError) as error:
            raise EncoderError(
                f"{path}: cannot be read ({error}); write it with"
                f" safetensors.torch.save_file({{'{_TENSOR}': rows}}, file)"
            ) from error
        self.dtype = str(self._rows.get_dtype())
        if self.dtype not in _SAFETENSORS_FLOATS:
            raise self._refuse_dtype()
        self._set_shape(self._rows.get_shape())

    def read(self, start: int, stop: int) -> Tensor:
        return self._rows[start:stop].to(torch.float32, copy=True)


_READERS = {".npy": _NumpyArray, ".safetensors": _SafetensorsArray}


def _open_arrays(folder: Path) -> dict[str, _Array]:
    """Every array in a folder, by the name of its data file; all have the same number of features."""
    if not folder.is_dir():
        raise EncoderError(f"{folder}: no such folder of features; give one with FILE.npy for each data FILE")
    arrays: dict[str, _Array] = {}
    for path in sorted(folder.iterdir()):
        if path.suffix not in _READERS or path.name.startswith("."):
            continue
        if path.stem in arrays:
            raise EncoderError(f"{folder}: has both {arrays[path.stem].path.name} and {path.name}; keep one of them")
        try:
            check_regular_file(path)
        except OSError as error:
            raise EncoderError(f"{path}: cannot be read as an array ({error.strerror}); replace or remove it") from None
        arrays[path.stem] = _READERS[path.suffix](path)
    if not arrays:
        raise EncoderError(f"{folder}: has no .npy or .safetensors files; give one FILE.npy for each data FILE")
    _check_widths(list(arrays.values()))
    return arrays


def _check_widths(arrays: list[_Array]) -> None:
    first = arrays[0]
    for other in arrays[1:]:
        if other.shape[1] != first.shape[1]:
            raise EncoderError(
                f"{other.path}: {other.shape[1]} features per token, but {first.path.name} has"
                f" {first.shape[1]}; all arrays must come from one encoder"
            )


def _checksum(path: Path) -> str:
    """SHA-256 of a file's size and of at most 64 blocks spread evenly over it, so that it is fast for any size."""
    size = path.stat().st_size
    digest = hashlib.sha256(str(size).encode())
    last = max(size - _BLOCK, 0)
    with path.open("rb") as stream:
        for i in range(_NUM_BLOCKS):
            stream.seek(last * i // (_NUM_BLOCKS - 1))
            digest.update(stream.read(_BLOCK))
    return digest.hexdigest()
