"""Writing copies of data folders in which what changed is changed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tagtrace._checks import DataError, at
from tagtrace._files import check_not_input
from tagtrace._folders import check_replaceable, folder_moved_when_whole
from tagtrace.data.marked.mark_edits import edits_of
from tagtrace.data.marked.marks import MarkedFolderFormat
from tagtrace.data.source_folder import DataFolder, SourceFolder

if TYPE_CHECKING:
    from tagtrace.data.corpus import Corpus


class _Fingerprinted(Protocol):
    @property
    def fingerprint(self) -> str: ...


def check_unchanged(source: _Fingerprinted, corpus: Corpus) -> None:
    """Raise if a file or folder that was read again differs from the corpus."""
    if source.fingerprint != corpus.fingerprint:
        what = "folder" if isinstance(source, SourceFolder) else "file"
        raise DataError(
            f"{at(corpus.path)}: the {what} changed since it was read (found sha256 {source.fingerprint[:12]}, "
            f"expected {corpus.fingerprint[:12]}); read it again and repeat the changes"
        )


def check_folder_target(corpus: Corpus, target: Path, *, overwrite: bool) -> None:
    """Raise if a copy of a folder may not be written to ``target``."""
    inputs = {"the data": corpus.path}
    check_not_input("the copy", target, inputs)
    product = DataFolder.of(SourceFolder(corpus.path).names)
    check_replaceable(target, overwrite=overwrite, product=product, inputs=inputs)


def write_folder(kind: MarkedFolderFormat, corpus: Corpus, target: Path) -> int:
    """Write a copy of a corpus's folder with the marks that its labels ask for.

    Returns the number of tokens whose label changed. Files without a change are copied as they are.
    """
    check_folder_target(corpus, target, overwrite=True)
    source, changed, num_changed = SourceFolder(corpus.path), dict[str, bytes](), 0
    if corpus.options.labelled:
        edits, num_changed = edits_of(kind.texts(source, corpus.options), corpus)
        changed = dict(kind.edited(source, corpus.options, edits))
    write_changed(source, corpus, changed, target)
    return num_changed


def write_changed(source: SourceFolder, corpus: Corpus, changed: Mapping[str, bytes], target: Path) -> None:
    """Write a copy of a folder in which some files, by their names, have other bytes."""
    check_unchanged(source, corpus)
    product = DataFolder.of(source.names)
    with folder_moved_when_whole(target, overwrite=True, product=product, source=corpus.path) as aside:
        for name in source.names:
            place = aside / name
            place.parent.mkdir(parents=True, exist_ok=True)
            if name in changed:
                place.write_bytes(changed[name])
            else:
                source.copy(name, place)


def write_files(files: Mapping[str, bytes], folder: Path) -> None:
    """Write files by their names into a folder."""
    for name, data in files.items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
