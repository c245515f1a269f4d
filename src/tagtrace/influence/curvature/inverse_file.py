"""The inverted Hessian of an index, kept in its folder so that it is worked out once.

curvature/          for no damping; curvature-damped/ for the last other damping asked for
  inverse.safetensors   inverse (P, P), probes and products (R, P), all float64
  curvature.json        what it belongs to (head and its options, labels, features, l2, damping) and the file's checksum

It may be deleted at any time. One that is damaged, or belongs to another head or other features, is never used.
"""

from __future__ import annotations

import json
import logging
import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from tagtrace._checks import TagtraceError
from tagtrace._files import folder_moved_when_whole
from tagtrace.index import Index
from tagtrace.index.files import FileRecord, map_tensors, write_tensors
from tagtrace.influence.curvature.operators import check_damping
from tagtrace.influence.curvature.solvers import Cholesky, Probes

FORMAT = 1
MARKER = "curvature.json"
INVERSE = "inverse.safetensors"
STALE = 3600.0
"""Seconds after which a folder that was being written, or replaced, is one that a killed run left."""

_log = logging.getLogger(__name__)


def load_inverse(index: Index, damping: float) -> Cholesky | None:
    """The stored (H + damping I)^-1, memory-mapped, or None with a line in the log where it cannot be used."""
    check_damping(damping)
    folder = _folder(index, damping)
    if not folder.exists():
        return None
    try:
        saved = json.loads((folder / MARKER).read_text(encoding="utf-8"))
        if saved["owner"] != _owner(index, damping):
            _log.warning("%s: of another head, other features or another damping; worked out again", folder)
            return None
        FileRecord(**saved["file"]).check(folder, contents=True)
        tensors = map_tensors(folder / INVERSE)
        inverse, vectors, products = (tensors[name] for name in ("inverse", "probes", "products"))
        _check_shapes(index.head.num_parameters, inverse, vectors, products)
    except (OSError, ValueError, KeyError, TypeError, TagtraceError):
        _log.warning("%s: damaged; worked out again", folder)
        return None
    return Cholesky.of_inverse(inverse, Probes(vectors, products))


def save_inverse(index: Index, damping: float, solver: Cholesky) -> None:
    """Keep a solver for next time; where the folder cannot be written to, say so in the log and go on."""
    folder = _folder(index, damping)
    tensors = {"inverse": solver.inverse, "probes": solver.probes.vectors, "products": solver.probes.products}
    try:
        _clear(folder)
        with folder_moved_when_whole(folder, overwrite=True, marker=MARKER) as aside:
            record = write_tensors(aside / INVERSE, tensors)
            saved = {"owner": _owner(index, damping), "file": record.to_json()}
            (aside / MARKER).write_text(json.dumps(saved, indent=1), encoding="utf-8")
    except (OSError, SafetensorError, TagtraceError) as error:
        reason = " ".join(str(error).split())
        _log.warning("the curvature is not kept for next time (%s)", reason)


def _folder(index: Index, damping: float) -> Path:
    return index.folder / ("curvature-damped" if damping else "curvature")


def _clear(folder: Path) -> None:
    """Delete what killed runs left beside ``folder``, and ``folder`` itself where it has lost its record."""
    for path in folder.parent.glob(f".{folder.name}.*"):
        with suppress(OSError):  # another run may have moved it
            if time.time() - path.stat().st_mtime > STALE:
                shutil.rmtree(path)
    if folder.is_dir() and [path.name for path in folder.iterdir()] == [INVERSE]:  # and nothing of anyone else's
        shutil.rmtree(folder)


def _owner(index: Index, damping: float) -> dict[str, Any]:
    """All that the Hessian depends on."""
    manifest = index.manifest
    return {
        "format": FORMAT,
        "head": manifest.head_file.sha256,
        "options": manifest.head.to_json(),
        "labels": [manifest.labels.scheme, *manifest.labels.labels],
        "features": [shard.files[0].sha256 for shard in manifest.shards],
        "l2": manifest.fit.l2,
        "damping": damping,
    }


def _check_shapes(size: int, inverse: torch.Tensor, *probes: torch.Tensor) -> None:
    """Raise ValueError where the tensors are not those of P parameters."""
    shapes = [tuple(inverse.shape), *(tuple(part.shape[1:]) for part in probes)]
    if shapes != [(size, size), (size,), (size,)] or inverse.dtype != torch.float64:
        raise ValueError(f"expected {size} parameters in float64")
