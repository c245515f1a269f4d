"""Datasets of Hugging Face as ``save_to_disk`` writes them: a folder with a split in arrow files.

    state.json            the names of the arrow files in order, and a fingerprint
    dataset_info.json     the features, with the names of labels
    data-00000-of-00002.arrow ...

The columns are those of ``parquet``, and rows are counted from 1 through all files. A copy has the same files; only
those are written anew in which labels change, and ``state.json`` then has another fingerprint: ``datasets`` names the
results that it keeps (``cache-....arrow``) after it, and would otherwise take old ones for those of the new data.

Needs pyarrow (extra ``formats``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from tagtrace._checks import DataError, at
from tagtrace._documents import Document, DocumentError, parse_document
from tagtrace.data.formats import parquet
from tagtrace.data.options import ReadOptions
from tagtrace.data.source import shown
from tagtrace.data.source_folder import SourceFolder
from tagtrace.data.spans.json_spans import member_spans, replace_spans

if TYPE_CHECKING:
    from tagtrace.data.corpus import Corpus

STATE, INFO, SPLITS = "state.json", "dataset_info.json", "dataset_dict.json"
MAX_SHARD = 2**30
"""Maximum size of an arrow file; ``datasets`` makes them half as large."""
AGAIN = "save the dataset again with save_to_disk"
T = TypeVar("T")


@dataclass(frozen=True)
class DataFile(Document):
    """The name of an arrow file."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {**Document.__pydantic_config__, "extra": "ignore"}
    filename: str


@dataclass(frozen=True)
class DatasetState(Document):
    """What is read of ``state.json``."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {**Document.__pydantic_config__, "extra": "ignore"}
    _data_files: tuple[DataFile, ...]
    _fingerprint: str | None
    _indices_data_files: tuple[DataFile, ...] | None = None
    """Older versions may have saved an order of the rows apart from them."""

    @property
    def names(self) -> list[str]:
        return [one.filename for one in self._data_files]

    @property
    def has_order(self) -> bool:
        return bool(self._indices_data_files)


@dataclass(frozen=True)
class DatasetInfo(Document):
    """What is read of ``dataset_info.json``."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {**Document.__pydantic_config__, "extra": "ignore"}
    features: dict[str, Any] | None = None


def open_folder(source: SourceFolder, options: ReadOptions) -> DatasetReader:
    return DatasetReader(source, options)


class DatasetReader(parquet.ParquetReader):
    """Iterate to get the rows of all arrow files; the attributes report what was found on the way."""

    def __init__(self, source: SourceFolder, options: ReadOptions) -> None:
        self._source, self._names = source, _shards(source)
        first = source.read(self._names[0], MAX_SHARD)
        super().__init__(first, options, source.path, _read(source, INFO, DatasetInfo).features)

    def tables(self) -> Iterator[tuple[Path, bytes]]:
        for name in self._names:
            yield self._source.path / name, self._source.read(name, MAX_SHARD)


def edited(source: SourceFolder, corpus: Corpus, changes: Mapping[int, Mapping[int, str]]) -> Mapping[str, bytes]:
    """The files that change, by their names."""
    made, before = dict[str, bytes](), 0
    for name in _shards(source):
        data = source.read(name, MAX_SHARD)
        stop = before + parquet.num_rows(data, source.path / name)
        if any(before < row <= stop for row in changes):
            made[name] = parquet.edited(data, corpus, changes, before)
        before = stop
    return {**made, STATE: _with_new_fingerprint(source.text(STATE), made).encode()}


def _shards(source: SourceFolder) -> list[str]:
    """The names of the arrow files, in the order of their rows."""
    if STATE not in source or INFO not in source:
        raise DataError(f"{at(source.path)}: {_what_it_is(source)}")
    state = _read(source, STATE, DatasetState)
    where, names = at(source.path / STATE), state.names
    if state.has_order:
        raise DataError(f"{where}: has an order of the rows in other files (_indices_data_files); load it and {AGAIN}")
    missing = [name for name in names if name not in source]
    if missing:
        raise DataError(f"{where}: names {shown(missing[0])}, which is no file of the folder; {AGAIN}")
    if not names or len(set(names)) < len(names):
        raise DataError(f"{where}: {'names a file twice' if names else 'names no arrow files'}; {AGAIN}")
    return names


def _what_it_is(source: SourceFolder) -> str:
    splits = [name.removesuffix(f"/{STATE}") for name in source.names if name.endswith(f"/{STATE}")]
    if SPLITS in source:
        found = f": {shown(', '.join(splits), 100)}" if splits else ""
        return f"is a dataset of several splits (a DatasetDict); give the folder of one of them{found}"
    return f"has no {STATE} and {INFO}; give the folder that save_to_disk wrote"


def _read(source: SourceFolder, name: str, kind: type[T]) -> T:
    try:
        return parse_document(source.text(name), kind)
    except DocumentError as error:
        raise DataError(f"{at(source.path / name)}: {error}; {AGAIN}") from None


def _with_new_fingerprint(state: str, made: Mapping[str, bytes]) -> str:
    """``state.json`` with a fingerprint made of the old one and the new files; one that is null stays."""
    span = member_spans(state)["_fingerprint"]
    if state[span[0]] != '"':
        return state
    digest = sha256(state[slice(*span)].encode())
    for data in made.values():
        digest.update(sha256(data).digest())
    return replace_spans(state, [(span, f'"{digest.hexdigest()[:16]}"')])
