"""The tagger that an index was built with, found again."""

from __future__ import annotations

from pathlib import Path

from tagtrace._checks import OptionError
from tagtrace.index.index import Index
from tagtrace.tagger import Tagger, load_tagger


def tagger_of(index: Index, folder: Path | None = None) -> Tagger:
    """The tagger an index was built with, where the index says it is or in ``folder``, with the index's head."""
    tagger = load_tagger(folder or tagger_path(index))
    index.check_tagger(tagger)
    tagger.head = index.head
    return tagger


def tagger_path(index: Index) -> Path:
    """Where the tagger is as seen from the index, or where it was when the index was built."""
    saved = index.manifest.tagger
    if not saved["path"]:
        raise OptionError(f"{index.folder}: does not say where its tagger is; give it with --tagger")
    places = [index.folder / saved["from_index"]] if saved.get("from_index") else []
    for place in (*places, Path(saved["path"])):
        if place.exists():
            return place
    raise OptionError(f"{index.folder}: its tagger was at {saved['path']} and is not there; give it with --tagger")
