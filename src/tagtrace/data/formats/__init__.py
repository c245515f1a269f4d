"""The formats of data files: how each is recognised, and the module that reads and writes it.

A module is imported when a file of its format is met. There are five kinds:

lines   ``open_rows(texts, options, path)`` reads rows from numbered lines, ``edit_line(text, labels, corpus, number)``
        changes the labels of one line. Files are streamed.
marked  ``texts`` and ``edited`` of ``marked.marks.MarkedFormat``: texts in which characters are marked.
rows    ``open_rows(data, options, path)`` reads rows from the bytes of a file, ``edited(data, corpus, changes)`` gives
        the bytes with changed labels, by the number of the row and their place in it.
marked-folder
        ``texts`` and ``edited`` of ``marked.marks.MarkedFolderFormat``: a folder of files with marked texts.
rows-folder
        ``open_folder(source, options)`` reads rows from a folder, numbered through all files, ``edited(source, corpus,
        changes)`` gives the files that change, by their names.

A format that data can be converted to has ``fresh=True`` in its entry and this function in its module:

    def fresh(texts: Sequence[FreshText]) -> bytes:
        '''The bytes of a new file with these texts (of a folder: the bytes of each file by its name).'''

A ``FreshText`` (``fresh.py``) is one document, or a sentence without one. It has everything twice: as a ``text`` with
``marks`` and the places of its ``tokens`` in it, and as ``rows`` of tokens with labels; a format writes what it can
hold, and raises DataError for what it cannot (``one.where(row)`` names the place). There is nothing else to do:
``convert`` reads what was written with ``read_corpus``, compares it with the data, refuses it if labels (or tokens, in
a format that has its own) differ, and says what else was lost.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Protocol

from tagtrace._checks import DataError, at
from tagtrace.data.marked.texts import FolderReader, MarkedReader
from tagtrace.data.options import ReadOptions
from tagtrace.data.source import Row, SourceFile
from tagtrace.data.source_folder import SourceFolder

Kind = Literal["lines", "marked", "rows", "marked-folder", "rows-folder"]


class Reader(Protocol):
    """Iterate to get the rows of a file; the attributes report what was found on the way."""

    @property
    def options(self) -> ReadOptions: ...
    @property
    def skipped(self) -> list[tuple[int, str]]: ...
    @property
    def num_comments(self) -> int: ...
    @property
    def has_pos(self) -> bool: ...
    @property
    def doubts(self) -> tuple[str, ...]: ...
    def __iter__(self) -> Iterator[Row]: ...
    def resolved_options(self) -> ReadOptions:
        """The options with everything that was detected filled in."""
        ...


@dataclass(frozen=True)
class Format:
    """One format of data files."""

    name: str
    kind: Kind
    what: str
    """In a few words."""
    module: str
    endings: tuple[str, ...] = ()
    """How the names of its files end, before ``.gz``."""
    begins: Callable[[bytes], bool] | None = None
    """Whether a file is of this format, by its first lines up to one that is neither blank nor only opens JSON."""
    holds: Callable[[SourceFolder], bool] | None = None
    """Whether a folder is of this format, by the names of its files."""
    extra: str = ""
    """What of tagtrace to install, if it needs packages that the core does without."""
    fresh: bool = False
    """Whether its module has ``fresh``: data can be converted to it."""
    named: tuple[str, ...] = ()
    """How other names of new files may end; an ending of several formats names none of them."""

    @property
    def is_folder(self) -> bool:
        return self.kind in ("marked-folder", "rows-folder")

    @property
    def is_marked(self) -> bool:
        """Whether characters of texts are marked."""
        return self.kind in ("marked", "marked-folder")

    def load(self) -> Any:
        """Its module."""
        try:
            return import_module(self.module)
        except ModuleNotFoundError as error:
            if not self.extra:
                raise
            how = f'pip install "tagtrace[{self.extra}]"'
            raise DataError(f"{self.what}: cannot be read or written without {error.name}: {how}") from None

    def open(self, source: SourceFile, lines: Iterator[bytes], options: ReadOptions) -> Reader:
        """The reader for a file of this format."""
        if self.is_folder:
            raise DataError(f"{at(source.path)}: is a file, but {self.what} is a folder; give the folder that it is in")
        if self.kind == "marked":
            return MarkedReader(self.load(), source, lines, options)
        if self.kind == "lines":
            return self.load().open_rows(source.texts(lines), options, source.path)
        return self.load().open_rows(b"".join(lines), options, source.path)

    def open_folder(self, source: SourceFolder, options: ReadOptions) -> Reader:
        """The reader for a folder of this format."""
        if not self.is_folder:
            raise DataError(f"{at(source.path)}: cannot be read: Is a directory; {self.what} is a file, so give that")
        if self.kind == "rows-folder":
            return self.load().open_folder(source, options)
        return FolderReader(self.load(), source, options)


def _is_json_row(line: bytes) -> bool:
    return line.lstrip(_SPACE).startswith(b"{") and not _TOKEN_BRACE.match(line.removeprefix(b"\xef\xbb\xbf"))


def _object(line: bytes) -> dict[str, Any]:
    """The JSON object in a line; an empty one if there is none."""
    if not _is_json_row(line):
        return {}
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _is_doccano(line: bytes) -> bool:
    keys = set(_object(line))
    return "text" in keys and not keys & {"tokens", "spans"} and bool(keys & {"label", "labels", "entities"})


def _is_xmi(line: bytes) -> bool:
    return _XML.match(line) is not None


def _is_cas_json(line: bytes) -> bool:
    return _CAS_KEY.match(line) is not None


def _is_webanno_tsv(line: bytes) -> bool:
    return line.removeprefix(b"\xef\xbb\xbf").startswith(b"#FORMAT=WebAnno TSV")


def _is_parquet(line: bytes) -> bool:
    return line.startswith((b"PAR1\x15", b"ARROW1\0\0", b"\xff\xff\xff\xff"))


def _is_docbin(line: bytes) -> bool:
    return line.startswith(b"x\x9c")  # zlib, and no UTF-8


def _holds_brat(source: SourceFolder) -> bool:
    return any(name.lower().endswith(".ann") for name in source.names)


def _holds_dataset(source: SourceFolder) -> bool:
    return "dataset_dict.json" in source or ("state.json" in source and "dataset_info.json" in source)


def _is_prodigy(line: bytes) -> bool:
    found = _object(line)
    keys, tokens = set(found), found.get("tokens")
    if "text" not in keys or (isinstance(tokens, list) and not all(isinstance(one, dict) for one in tokens)):
        return False
    has_labels = keys & {"ner_tags", "labels", "tags"}
    return bool(tokens or keys & {"_input_hash", "_task_hash"} or ("spans" in keys and not has_labels))


def _is_label_studio(line: bytes) -> bool:
    return _OBJECTS.match(line) is not None


_SPACE = b" \t\r\n\xef\xbb\xbf"
_TOKEN_BRACE = re.compile(rb'\{[ \t]+[^"} \t\r\n]')
"""A CoNLL line whose token is ``{``."""
_XML = re.compile(rb"(?:\xef\xbb\xbf)?\s*<(?:\?xml\s+version\s*=|[^\s<>/:]+:XMI\s)")
_CAS_KEY = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"%(?:HEADER|TYPES|FEATURE_STRUCTURES|VIEWS)"')
_OBJECTS = re.compile(rb'[ \t\r\n]*+(?:\xef\xbb\xbf)?+[ \t\r\n]*+\[\s*+\{\s*+(?:\}|"[^"\n]*+"\s*+:)')
"""The beginning of a JSON list of objects."""

FORMATS: dict[str, Format] = {
    one.name: one
    for one in (
        Format("conll", "lines", "CoNLL columns", "tagtrace.data.conll", fresh=True,
               named=(".conll", ".bio", ".iob", ".iob2")),
        Format("jsonl", "lines", "JSON lines with tokens and labels", "tagtrace.data.jsonl", begins=_is_json_row,
               fresh=True, named=(".jsonl",)),
        Format("conllu", "rows", "CoNLL-U with entities in MISC", "tagtrace.data.formats.conllu", endings=(".conllu",)),
        Format("parquet", "rows", "Hugging Face datasets as parquet or arrow", "tagtrace.data.formats.parquet",
               (".parquet", ".arrow"), _is_parquet, extra="formats"),
        Format("docbin", "rows", "spaCy's DocBin", "tagtrace.data.formats.docbin", (".spacy",), _is_docbin,
               extra="spacy"),
        Format("xmi", "marked", "UIMA CAS XMI of INCEpTION", "tagtrace.data.formats.xmi", (".xmi",), _is_xmi),
        Format("cas-json", "marked", "UIMA CAS JSON of INCEpTION", "tagtrace.data.formats.cas_json", (), _is_cas_json),
        Format("webanno-tsv", "marked", "WebAnno TSV of INCEpTION", f"{__name__}.webanno_tsv", begins=_is_webanno_tsv),
        Format("doccano", "marked", "doccano's JSON lines", "tagtrace.data.formats.doccano", begins=_is_doccano,
               fresh=True, named=(".jsonl",)),
        Format("brat", "marked-folder", "brat standoff", "tagtrace.data.formats.brat", (".ann",),
               holds=_holds_brat, fresh=True),
        Format("dataset", "rows-folder", "a saved Hugging Face dataset", "tagtrace.data.formats.dataset",
               holds=_holds_dataset, extra="formats"),
        Format("prodigy", "marked", "Prodigy's JSON lines", "tagtrace.data.formats.prodigy", begins=_is_prodigy),
        Format("label-studio", "marked", "Label Studio's JSON", f"{__name__}.label_studio", begins=_is_label_studio),
    )
}  # fmt: skip
"""By name; those that come later are recognised first."""


def detect_format(path: Path, first: bytes) -> Format:
    """The format of a file by its first line that is not blank, or else by its name."""
    name = path.name.removesuffix(".gz").lower()
    for one in reversed(FORMATS.values()):
        if (one.begins is not None and one.begins(first)) or name.endswith(one.endings or ("\0",)):
            return one
    return FORMATS["conll"]


def folder_format(source: SourceFolder, name: str) -> Format:
    """The format of a folder, which ``name`` may name, by the names of its files."""
    if name != "auto":
        return FORMATS[name]
    for one in reversed(FORMATS.values()):
        if one.holds is not None and one.holds(source):
            return one
    raise DataError(
        f"{at(source.path)}: cannot be read: Is a directory, without files that end with .ann; give a data file, or "
        "the folder of a brat corpus or of a saved dataset (with state.json and dataset_info.json)"
    )
