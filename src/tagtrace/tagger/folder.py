"""Saving a tagger as a folder of JSON and safetensors, and loading it. No pickle.

tagger.json        format, label set, unit, encoder kind, head options, how it was trained
head.safetensors   W, A, start, end
encoder/           whatever the encoder's own ``save`` writes
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from tagtrace._checks import DataError, OptionError, TaggerError
from tagtrace._files import folder_moved_when_whole
from tagtrace._version import __version__
from tagtrace.data.labels import LabelSet
from tagtrace.tagger.encoders import ENCODERS
from tagtrace.tagger.head import Head, HeadOptions
from tagtrace.tagger.tagger import Tagger

FORMAT = 1
MARKER = "tagger.json"
"""The file that shows a folder to be a tagger."""

_DAMAGE = (DataError, OptionError, KeyError, TypeError, ValueError, RuntimeError, OSError, SafetensorError)


def save_tagger(tagger: Tagger, folder: str | Path, *, overwrite: bool = False) -> None:
    """Write the tagger aside and move it to ``folder`` when whole."""
    description = {
        "format": FORMAT,
        "tagtrace": __version__,
        "labels": tagger.labels.to_json(),
        "unit": tagger.unit,
        "encoder": {"kind": tagger.encoder.kind, "dim": tagger.encoder.dim},
        "head": tagger.head.options.to_json(),
        "record": tagger.record,
    }
    with folder_moved_when_whole(folder, overwrite=overwrite, marker=MARKER) as aside:
        (aside / "encoder").mkdir()
        tagger.encoder.save(aside / "encoder")
        weights = {name: value.detach().cpu().contiguous() for name, value in tagger.head.state_dict().items()}
        save_file(weights, aside / "head.safetensors")
        (aside / MARKER).write_text(json.dumps(description, indent=1, ensure_ascii=False), encoding="utf-8")
    tagger.folder = Path(folder)


def load_tagger(folder: str | Path) -> Tagger:
    """The tagger ``save_tagger`` wrote."""
    folder = Path(folder)
    description = _description(folder)
    try:
        labels = LabelSet.from_json(description["labels"])
        encoder = ENCODERS[description["encoder"]["kind"]].load(folder / "encoder")
        head = Head(encoder.dim, labels, HeadOptions(**description["head"]))
        weights = load_file(folder / "head.safetensors")
        head.to(weights["weight"].dtype).load_state_dict(weights)
        tagger = Tagger(encoder, head, labels, description["unit"])
        tagger.record, tagger.folder = dict(description["record"]), folder
    except _DAMAGE as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise TaggerError(f"{folder}: the tagger is damaged ({reason}); train it again or restore a copy") from error
    return tagger.eval()


def _description(folder: Path) -> dict[str, Any]:
    path = folder / MARKER
    if not path.is_file():
        raise TaggerError(f"{folder}: not a tagger (no tagger.json); give a folder that `tagtrace train` wrote")
    try:
        description = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise TaggerError(f"{path}: not valid JSON; train the tagger again or restore a copy") from error
    if not isinstance(description, dict) or description.get("format") != FORMAT:
        found = description.get("format") if isinstance(description, dict) else description
        raise TaggerError(f"{path}: format {found!r}, but this tagtrace reads format {FORMAT}; use a matching version")
    return description
