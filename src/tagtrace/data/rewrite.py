"""Writing a corpus back to a file: everything that did not change stays the same, byte for byte.

A file read from gzip is written as gzip (without a time stamp), whatever its new name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import TypeVar

from tagtrace._files import check_outputs, copy_file, file_moved_when_whole
from tagtrace.data.corpus import Corpus
from tagtrace.data.formats import FORMATS, Format
from tagtrace.data.marked.folders import check_folder_target, check_unchanged, write_changed, write_folder
from tagtrace.data.marked.mark_edits import write_marked
from tagtrace.data.relabel import changed_labels
from tagtrace.data.source import SourceFile, compressed
from tagtrace.data.source_folder import SourceFolder

_BOM = "\ufeff"

LineEdit = TypeVar("LineEdit")


def write_corpus(corpus: Corpus, target: str | Path) -> int:
    """Write the corpus's file to ``target`` with the labels of its sentences; returns the number of changed labels.

    The corpus may have been relabelled and joined into documents since it was read; sentences that it does not have
    keep the labels of the file. ``target`` may be the file itself. If the corpus is a folder, ``target`` is another
    folder; an existing one is replaced if it has no other files than those of the corpus.
    """
    check_source(corpus)
    found = FORMATS[corpus.format]
    if found.kind == "marked-folder":
        return write_folder(found.load(), corpus, Path(target))
    if found.kind == "rows-folder":
        return _write_rows_folder(found, corpus, Path(target))
    if found.kind == "marked" and corpus.options.labelled:
        return write_marked(found.load(), corpus, target)
    changes = changed_labels(corpus) if corpus.options.labelled else iter(())
    first = next(changes, None)
    if first is None:
        copy_file(corpus.path, target)
        return 0
    changes = chain([first], changes)
    return (
        _write_rows(found, corpus, target, changes)
        if found.kind == "rows"
        else _write_lines(found, corpus, target, changes)
    )


Changes = Iterator[tuple[int, dict[int, str]]]


def _write_rows(found: Format, corpus: Corpus, target: str | Path, changes: Changes) -> int:
    """A file that is written anew as a whole."""
    by_row, source = dict(changes), SourceFile(corpus.path)
    made = found.load().edited(b"".join(source), corpus, by_row)
    with file_moved_when_whole(target, source=corpus.path) as stream, compressed(stream, source.is_gzip) as out:
        out.write(made)
    return sum(map(len, by_row.values()))


def _write_rows_folder(found: Format, corpus: Corpus, target: Path) -> int:
    """A folder of which the files with changes are written anew."""
    check_folder_target(corpus, target, overwrite=True)
    source, by_row = SourceFolder(corpus.path), dict(changed_labels(corpus) if corpus.options.labelled else ())
    write_changed(source, corpus, found.load().edited(source, corpus, by_row) if by_row else {}, target)
    return sum(map(len, by_row.values()))


def _write_lines(found: Format, corpus: Corpus, target: str | Path, changes: Changes) -> int:
    num_changed, edit_line = 0, found.load().edit_line

    def edit(number: int, text: str, labels: dict[int, str]) -> str:
        nonlocal num_changed
        num_changed += len(labels)
        return edit_line(text, labels, corpus, number)

    stream_edited(corpus, target, changes, edit)
    return num_changed


def check_copy(corpus: Corpus, target: Path, others: Mapping[str, Path], *, overwrite: bool) -> None:
    """Raise, before any work is done, if a copy of a corpus, or one of ``others`` beside it, may not be written."""
    inputs = {"the data to fix": corpus.path}
    if not FORMATS[corpus.format].is_folder:
        check_outputs({"the data": target, **others}, inputs, overwrite=overwrite)
        return
    check_outputs(others, inputs, overwrite=overwrite, folders={"the data": target})
    check_folder_target(corpus, target, overwrite=overwrite)


def check_source(corpus: Corpus) -> None:
    """Raise if the corpus's file or folder is gone or has changed since it was read."""
    if FORMATS[corpus.format].is_folder:
        check_unchanged(SourceFolder(corpus.path), corpus)
        return
    source = SourceFile(corpus.path)
    for _ in source:
        pass
    check_unchanged(source, corpus)


def stream_edited(
    corpus: Corpus,
    target: str | Path,
    edits: Iterator[tuple[int, LineEdit]],
    edit_line: Callable[[int, str, LineEdit], str],
) -> None:
    """Copy the corpus's file to ``target``; the lines named in ``edits``, in order, are changed by ``edit_line``."""
    source = SourceFile(corpus.path)
    with file_moved_when_whole(target, source=corpus.path) as stream:
        lines = iter(source)
        before = [line for line in (next(lines, None),) if line is not None]  # after this, source.is_gzip is known
        with compressed(stream, source.is_gzip) as out:
            edit = next(edits, None)
            for number, line in enumerate(chain(before, lines), start=1):
                if edit is None or edit[0] != number:
                    out.write(line)
                    continue
                out.write(_edited(number, line, edit[1], edit_line))
                edit = next(edits, None)
        check_unchanged(source, corpus)


def _edited(number: int, line: bytes, edit: LineEdit, edit_line: Callable[[int, str, LineEdit], str]) -> bytes:
    text = line.decode("utf-8")
    mark = _BOM if number == 1 and text.startswith(_BOM) else ""
    return (mark + edit_line(number, text.removeprefix(mark), edit)).encode("utf-8")
