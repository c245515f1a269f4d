"""Datasets of Hugging Face as parquet or arrow files: a row for each sentence, with its tokens and labels in columns.

- The columns have the names that the keys of JSON lines have: ``tokens``, ``ner_tags`` or ``labels`` or ..., ``id``,
  ``document`` or ``doc_id``; the rules for ids and documents are those of ``jsonl``.
- Labels are strings, or numbers whose names the file has (``ClassLabel`` in its schema) or the options give.
- Writing keeps the schema with its metadata, all other columns, the row groups and how each column is compressed.

Needs pyarrow (extra ``formats``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import parquet, types

from tagtrace._checks import DataError, NoLabelsError, at
from tagtrace._documents import MANY_BYTES, MOST_EXPANSION
from tagtrace.data.jsonl import DOCUMENT_KEYS, LABEL_KEYS, JsonlReader
from tagtrace.data.options import ReadOptions
from tagtrace.data.source import Row, shown

if TYPE_CHECKING:
    from tagtrace.data.corpus import Corpus

_AT_ONCE = 1000
_MANY_VALUES, _VALUES_PER_BYTE = 10_000_000, 20
"""A file with more values (rows, tokens) than the first number must have as many bytes as the second one demands."""


def open_rows(data: bytes, options: ReadOptions, path: Path) -> ParquetReader:
    return ParquetReader(data, options, path)


class ParquetReader(JsonlReader):
    """Iterate to get the rows of a table; the attributes report what was found on the way."""

    def __init__(self, data: bytes, options: ReadOptions, path: Path, features: object = None) -> None:
        """``features`` are those that something else than the file says it has."""
        with _pyarrow(path):
            schema, _ = _opened(data)
            _column(schema, options.tokens_key, ("string",), path, "tokens_key")
            if options.labelled:
                key = options.labels_key or _labels_key(schema, options.tokens_key, path)
                _column(schema, key, ("string", "int"), path, "labels_key")
                names = options.labels or class_names(features, key, path) or _names_in(schema, key, path)
                options = replace(options, labels_key=key, labels=names)
            wanted = [options.tokens_key, *([options.labels_key] if options.labelled else [])]
            wanted += [one for one in ("id", *DOCUMENT_KEYS) if one not in wanted and _is_a_name(schema, one)]
        super().__init__((), options, path)
        self._wanted, self._data, self._schema = wanted, data, schema

    def tables(self) -> Iterator[tuple[Path, bytes]]:
        """All files with their paths, in the order of their rows."""
        yield self._path, self._data

    def __iter__(self) -> Iterator[Row]:
        number = 0
        for columns in self._columns():
            for values in zip(*columns, strict=True):
                number += 1
                record = dict(zip(self._wanted, values, strict=True))
                row = self.row(record, number, f"{at(self._path)}, row {number}")
                if row is not None:
                    yield row

    def _columns(self) -> Iterator[list[list[Any]]]:
        """The values of the columns that are wanted, some rows at a time."""
        for path, data in self.tables():
            with _pyarrow(path):
                (schema, read), num_values = _opened(data), 0
                if not schema.equals(self._schema):
                    raise ValueError("its columns are others than those of the first file")
                for batch in read(self._wanted):
                    batch.validate(full=True)  # offsets lie within buffers, strings are UTF-8
                    num_values += batch.num_rows + len(batch.column(self.options.tokens_key).flatten())
                    _check_number(num_values, len(data))
                    yield [batch.column(name).to_pylist() for name in self._wanted]


def num_rows(data: bytes, path: Path) -> int:
    """The number of rows of a file."""
    with _pyarrow(path):
        if _is_parquet(data):
            return parquet.ParquetFile(pa.BufferReader(data)).metadata.num_rows
        return sum(batch.num_rows for batch in _batches(_arrow_reader(data)))


def edited(data: bytes, corpus: Corpus, changes: Mapping[int, Mapping[int, str]], before: int = 0) -> bytes:
    """The file with new labels, by the number of the row and their place in it.

    Rows are counted from 1, and ``before`` is the number of those in files before this one.
    """
    with _pyarrow(corpus.path):
        sink = pa.BufferOutputStream()
        (_write_parquet if _is_parquet(data) else _write_arrow)(data, sink, _Labels(corpus, changes, before))
        return sink.getvalue().to_pybytes()


class _Labels:
    """Puts the new labels into tables that are handed to it in the order of the file."""

    def __init__(self, corpus: Corpus, changes: Mapping[int, Mapping[int, str]], before: int) -> None:
        self._corpus, self._changes, self._row = corpus, changes, before

    def put(self, table: Any) -> Any:
        """A table or a batch with its new labels."""
        first, self._row = self._row + 1, self._row + table.num_rows
        rows = [row for row in range(first, self._row + 1) if row in self._changes]
        if not rows:
            return table
        place = table.schema.get_field_index(self._corpus.options.labels_key)
        field, values = table.schema.field(place), table.column(place).to_pylist()
        is_number = types.is_integer(field.type.value_type)
        for row in rows:
            for token, label in self._changes[row].items():
                values[row - first][token] = self._number(label, row) if is_number else label
        return table.set_column(place, field, pa.array(values, type=field.type))

    def _number(self, label: str, row: int) -> int:
        names: Sequence[str] = self._corpus.options.labels or ()
        if label not in names:
            raise DataError(
                f"{at(self._corpus.path)}, row {row}: the new label {label!r} is not one of the {len(names)} label "
                "names of the file; add it to them (its ClassLabel), or choose another label"
            )
        return names.index(label)


def _write_parquet(data: bytes, sink: Any, labels: _Labels) -> None:
    """Write each row group as it was, as far as pyarrow lets us."""
    file = parquet.ParquetFile(pa.BufferReader(data))
    # The tables first: what is damaged raises there, but would end the process where columns are asked about.
    tables = [file.read_row_group(number) for number in range(file.metadata.num_row_groups)]
    kept = file.metadata.metadata or {}
    with parquet.ParquetWriter(sink, file.schema_arrow, **_as_it_was(file)) as writer:
        for table in tables:
            writer.write_table(labels.put(table), max(1, table.num_rows))
        written = {b"ARROW:schema", *((b"ARROW:schema" in kept and file.schema_arrow.metadata) or ())}
        writer.add_key_value_metadata({key: value for key, value in kept.items() if key not in written})


def _as_it_was(file: Any) -> dict[str, Any]:
    """How a file was written, as far as it says so."""
    about = file.metadata
    compliant = all(".list." not in path or ".list.element" in path for path in _paths(about))
    first = about.row_group(0) if about.num_row_groups else None
    paths = _new_paths(file.schema_arrow, compliant=compliant)
    columns = {path: first.column(number) for number, path in enumerate(paths) if first}
    return {
        "version": about.format_version,
        "compression": {path: one.compression.replace("UNCOMPRESSED", "NONE") for path, one in columns.items()},
        "use_dictionary": [path for path, one in columns.items() if one.has_dictionary_page] or False,
        "write_statistics": [path for path, one in columns.items() if one.is_stats_set] or False,
        "write_page_index": any(one.has_column_index for one in columns.values()),
        "sorting_columns": (first.sorting_columns if first else None) or None,
        "store_schema": b"ARROW:schema" in (about.metadata or {}),
        "use_compliant_nested_type": compliant,
    }


def _new_paths(schema: Any, *, compliant: bool) -> list[str]:
    """How pyarrow will name the columns; other programs name what lists hold in other ways."""
    sink = pa.BufferOutputStream()
    parquet.ParquetWriter(sink, schema, use_compliant_nested_type=compliant).close()
    return _paths(parquet.read_metadata(pa.BufferReader(sink.getvalue())))


def _paths(about: Any) -> list[str]:
    return [about.schema.column(number).path for number in range(about.num_columns)]


def _write_arrow(data: bytes, sink: Any, labels: _Labels) -> None:
    reader = _arrow_reader(data)
    new = pa.ipc.new_file if _is_arrow_file(data) else pa.ipc.new_stream
    with new(sink, reader.schema) as writer:
        for batch in _batches(reader):
            batch.validate(full=True)
            writer.write_batch(labels.put(batch))


def _is_parquet(data: bytes) -> bool:
    return data.startswith(b"PAR1")


def _is_arrow_file(data: bytes) -> bool:
    return data.startswith(b"ARROW1")


def _opened(data: bytes) -> tuple[Any, Callable[[list[str]], Iterator[Any]]]:
    """The schema, and a function that reads columns of these names, some rows at a time."""
    if _is_parquet(data):
        file = parquet.ParquetFile(pa.BufferReader(data))
        _check_parquet(file.metadata, len(data))
        return file.schema_arrow, lambda names: file.iter_batches(_AT_ONCE, columns=names)
    reader = _arrow_reader(data)
    return reader.schema, lambda names: _slices(batch.select(names) for batch in _batches(reader))


def _check_parquet(about: Any, size: int) -> None:
    """Raise ValueError if a file of so many bytes says that it holds far more than such a file does.

    Its columns, which know how many tokens there are, are not asked: if they are damaged, that would end the process.
    """
    _check_number(about.num_rows, size)
    num_bytes = sum(about.row_group(number).total_byte_size for number in range(about.num_row_groups))
    if num_bytes > max(MANY_BYTES, MOST_EXPANSION * size):
        raise ValueError(f"it expands to {num_bytes:,} bytes")


def _check_number(num_values: int, size: int) -> None:
    if num_values > max(_MANY_VALUES, _VALUES_PER_BYTE * size):
        raise ValueError(f"it has {num_values:,} values in {size:,} bytes")


def _slices(batches: Iterator[Any]) -> Iterator[Any]:
    for batch in batches:
        batch.validate(full=True)
        for start in range(0, batch.num_rows, _AT_ONCE):
            yield batch.slice(start, _AT_ONCE)


def _arrow_reader(data: bytes) -> Any:
    source = pa.BufferReader(data)
    return pa.ipc.open_file(source) if _is_arrow_file(data) else pa.ipc.open_stream(source)


def _batches(reader: Any) -> Iterator[Any]:
    if hasattr(reader, "get_batch"):
        return (reader.get_batch(number) for number in range(reader.num_record_batches))
    return iter(reader)


def _labels_key(schema: Any, tokens_key: str, path: Path) -> str:
    for key in LABEL_KEYS:
        if key != tokens_key and key in schema.names and _kind(schema.field(schema.names.index(key)).type) is not None:
            return key
    raise NoLabelsError(
        f"{at(path)}: found no lists of labels among the columns {_names(schema)}; set labels_key, or read the file as "
        "unlabelled"
    )


def _column(schema: Any, name: str, kinds: Sequence[str], path: Path, option: str) -> None:
    """Raise unless there is one column of this name, with lists of one of these kinds."""
    count = schema.names.count(name)
    if count != 1:
        found = f"{count} columns" if count else "no column"
        raise DataError(f"{at(path)}: found {found} {name!r} among {_names(schema)}; name one with {option}")
    found = schema.field(schema.names.index(name)).type
    if _kind(found) not in kinds:
        wanted = " or ".join({"string": "strings", "int": "whole numbers"}[kind] for kind in kinds)
        raise DataError(
            f"{at(path)}: the column {name!r} is of type {shown(str(found))}, expected lists of {wanted}; name another "
            f"with {option}"
        )


def _kind(found: Any) -> str | None:
    """What the lists of a column hold: ``string``, ``int``; None for anything else."""
    if not (types.is_list(found) or types.is_large_list(found) or types.is_fixed_size_list(found)):
        return None
    value = found.value_type
    if types.is_dictionary(value):
        value = value.value_type
        return "string" if types.is_string(value) or types.is_large_string(value) else None
    if types.is_string(value) or types.is_large_string(value):
        return "string"
    return "int" if types.is_integer(value) else None


def _is_a_name(schema: Any, name: str) -> bool:
    """Whether a column has strings or numbers, from which names can be made."""
    if schema.names.count(name) != 1:
        return False
    found = schema.field(schema.names.index(name)).type
    return any(test(found) for test in (types.is_string, types.is_large_string, types.is_integer, types.is_floating))


def _names(schema: Any) -> str:
    return shown(", ".join(schema.names), limit=80)


def _names_in(schema: Any, key: str, path: Path) -> tuple[str, ...] | None:
    """The names of labels in the metadata that ``datasets`` gives a schema; None if it has none."""
    try:
        features = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))["info"]["features"]
    except (ValueError, RecursionError, KeyError, TypeError):
        return None
    return class_names(features, key, path)


def class_names(features: object, key: str, path: Path) -> tuple[str, ...] | None:
    """The names of labels that are numbers, from features as ``datasets`` writes them; None if they have none."""
    feature = features.get(key) if isinstance(features, dict) else None
    if isinstance(feature, list) and len(feature) == 1:
        feature = {"feature": feature[0]}
    inner = feature.get("feature") if isinstance(feature, dict) else None
    if not isinstance(inner, dict) or inner.get("_type") != "ClassLabel":
        return None
    names = inner.get("names")
    if not isinstance(names, list) or not all(isinstance(one, str) and one for one in names):
        raise DataError(f"{at(path)}: the ClassLabel of {key!r} has no list of names; give the names of all labels")
    if len(set(names)) < len(names) or any("\ud800" <= letter <= "\udfff" for name in names for letter in name):
        raise DataError(f"{at(path)}: the ClassLabel of {key!r} has odd or equal names; give the names of all labels")
    return tuple(names)


@contextmanager
def _pyarrow(path: Path) -> Iterator[None]:
    """Turn what pyarrow raises into one line."""
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError, EOFError) as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise DataError(f"{at(path)}: cannot be read as parquet or arrow ({reason}); check the file") from None
