"""Writing a corpus back to a file: everything that did not change stays the same, byte for byte.

A file read from gzip is written as gzip (without a time stamp), whatever its new name.
"""

from __future__ import annotations

import gzip
import json
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import chain
from pathlib import Path
from typing import IO, TypeVar

from tagtrace._checks import DataError, at
from tagtrace._files import file_moved_when_whole
from tagtrace.data.corpus import Corpus
from tagtrace.data.json_spans import element_spans, member_spans, replace_spans
from tagtrace.data.layout import LINE_END, field_spans
from tagtrace.data.relabel import changed_labels
from tagtrace.data.source import SourceFile

_BOM = "\ufeff"
_SPACE_IN_LABEL = re.compile(r"[ \t\r\n]")

LineEdit = TypeVar("LineEdit")


def write_corpus(corpus: Corpus, target: str | Path) -> int:
    """Write the corpus's file to ``target`` with the labels of its sentences; returns the number of changed labels.

    The corpus may have been relabelled and joined into documents since it was read; sentences that it does not have
    keep the labels of the file. ``target`` may be the file itself.
    """
    check_source(corpus)
    changes = changed_labels(corpus) if corpus.options.labelled else iter(())
    first = next(changes, None)
    if first is None:
        _copy(corpus.path, target)
        return 0
    num_changed = 0
    edit_line = _edit_json if corpus.format == "jsonl" else _edit_columns

    def edit(number: int, text: str, labels: dict[int, str]) -> str:
        nonlocal num_changed
        num_changed += len(labels)
        return edit_line(text, labels, corpus, number)

    stream_edited(corpus, target, chain([first], changes), edit)
    return num_changed


def check_source(corpus: Corpus) -> None:
    """Raise if the corpus's file is gone or has changed since it was read."""
    source = SourceFile(corpus.path)
    for _ in source:
        pass
    _check_fingerprint(source, corpus)


def _check_fingerprint(source: SourceFile, corpus: Corpus) -> None:
    if source.fingerprint != corpus.fingerprint:
        raise DataError(
            f"{at(corpus.path)}: the file changed since it was read (found sha256 {source.fingerprint[:12]}, "
            f"expected {corpus.fingerprint[:12]}); read it again and repeat the changes"
        )


def _copy(path: Path, target: str | Path) -> None:
    with path.open("rb") as source, file_moved_when_whole(target) as stream:
        shutil.copyfileobj(source, stream)


def stream_edited(
    corpus: Corpus,
    target: str | Path,
    edits: Iterator[tuple[int, LineEdit]],
    edit_line: Callable[[int, str, LineEdit], str],
) -> None:
    """Copy the corpus's file to ``target``; the lines named in ``edits``, in order, are changed by ``edit_line``."""
    source = SourceFile(corpus.path)
    with file_moved_when_whole(target) as stream:
        lines = iter(source)
        before = [line for line in (next(lines, None),) if line is not None]  # after this, source.is_gzip is known
        with _compressed(stream, source.is_gzip) as out:
            edit = next(edits, None)
            for number, line in enumerate(chain(before, lines), start=1):
                if edit is None or edit[0] != number:
                    out.write(line)
                    continue
                out.write(_edited(number, line, edit[1], edit_line))
                edit = next(edits, None)
        _check_fingerprint(source, corpus)


def _compressed(stream: IO[bytes], is_gzip: bool) -> AbstractContextManager[IO[bytes] | gzip.GzipFile]:
    return gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0) if is_gzip else nullcontext(stream)


def _edited(number: int, line: bytes, edit: LineEdit, edit_line: Callable[[int, str, LineEdit], str]) -> bytes:
    text = line.decode("utf-8")
    mark = _BOM if number == 1 and text.startswith(_BOM) else ""
    return (mark + edit_line(number, text.removeprefix(mark), edit)).encode("utf-8")


def _edit_columns(text: str, labels: dict[int, str], corpus: Corpus, number: int) -> str:
    """A CoNLL line with a new label."""
    label = labels[0]
    if not label or _SPACE_IN_LABEL.search(label):
        where = at(corpus.path, number)
        raise DataError(f"{where}: the new label {label!r} is empty or contains spaces; rename it")
    column = corpus.options.label_column
    assert column is not None
    return replace_spans(text, [(field_spans(text.rstrip(LINE_END))[column], label)])


def _edit_json(text: str, labels: dict[int, str], corpus: Corpus, number: int) -> str:
    """A JSONL row with some new labels."""
    key = corpus.options.labels_key
    assert key is not None
    spans = element_spans(text, member_spans(text)[key][0])
    return replace_spans(
        text,
        [(spans[place], _json_label(label, text, spans[place], corpus, number)) for place, label in labels.items()],
    )


def _json_label(label: str, text: str, span: tuple[int, int], corpus: Corpus, number: int) -> str:
    """A label as the file writes it: a string, or the number of its name."""
    names: Sequence[str] = corpus.options.labels or ()
    if text[span[0]] == '"':
        return json.dumps(label, ensure_ascii=text.isascii())
    if label not in names:
        raise DataError(
            f"{at(corpus.path, number)}: the new label {label!r} is not one of the {len(names)} label names "
            "that the file was read with; add it to them, or choose another label"
        )
    return str(names.index(label))
