"""The inverted Hessian of an index, stored in its folder so that it is computed once.

curvature/          without damping; curvature-damped/ for the last damping other than 0
  inverse.safetensors   inverse (P, P), probes and products (R, P), all float64
  curvature.json        what it belongs to (head and its options, labels, features, l2, damping) and the file's checksum

It may be deleted at any time. A damaged inverse, or one of another head or of different features, is never used.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Any

import torch
from safetensors import SafetensorError

from tagtrace._checks import DataError, TagtraceError
from tagtrace._run_folder import RunFolder
from tagtrace.index import Index
from tagtrace.influence.curvature.operators import check_damping
from tagtrace.influence.curvature.solvers import Cholesky, Probes

FORMAT = 1
MARKER = "curvature.json"
INVERSE = "inverse.safetensors"

_log = logging.getLogger(__name__)


def load_inverse(index: Index, damping: float) -> Cholesky | None:
    """The stored (H + damping I)^-1, memory-mapped; None, with a warning in the log, if it cannot be used."""
    check_damping(damping)
    run = _run_folder(index, damping)
    if not run.has_begun:
        return None
    try:
        run.resume()
        tensors = run.read(INVERSE)
        if tensors is None:
            raise DataError(f"{run.folder}: incomplete or damaged")
        inverse, vectors, products = (tensors[name] for name in ("inverse", "probes", "products"))
        _check_shapes(index.head.num_parameters, inverse, vectors, products)
    except (OSError, ValueError, KeyError, TagtraceError) as error:
        _log.warning("the stored curvature is computed again (%s)", error)
        return None
    return Cholesky.of_inverse(inverse, Probes(vectors, products))


def save_inverse(index: Index, damping: float, solver: Cholesky) -> None:
    """Store a solver for next time; a folder that cannot be written to is only a warning in the log."""
    run = _run_folder(index, damping)
    tensors = {"inverse": solver.inverse, "probes": solver.probes.vectors, "products": solver.probes.products}
    try:
        run.folder.mkdir(exist_ok=True)
        run.add({INVERSE: tensors})
    except (OSError, SafetensorError, TagtraceError) as error:
        reason = " ".join(str(error).split())
        _log.warning("the curvature could not be stored for next time (%s)", reason)
        with suppress(OSError, TagtraceError):
            if run.files:
                return
            run.remove()
            run.folder.rmdir()  # if it is empty


def _run_folder(index: Index, damping: float) -> RunFolder:
    folder = index.added_folder("curvature-damped" if damping else "curvature")
    return RunFolder(folder, MARKER, _owner(index, damping), "the curvature")


def _owner(index: Index, damping: float) -> dict[str, Any]:
    """Everything that the Hessian depends on."""
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
    """Raise ValueError unless the tensors have P = ``size`` parameters."""
    shapes = [tuple(inverse.shape), *(tuple(part.shape[1:]) for part in probes)]
    if shapes != [(size, size), (size,), (size,)] or inverse.dtype != torch.float64:
        raise ValueError(f"expected {size} parameters in float64")
