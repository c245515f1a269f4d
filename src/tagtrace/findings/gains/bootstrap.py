"""The paired bootstrap: how much a difference in F1 depends on which units happen to be in the held-out data.

Units (documents or sentences) u = 1..U have counts (true positives, predicted, gold) before and after. A resample draws
U units with replacement; with n_u the number of times that unit u was drawn,

    F1 = 2 sum_u n_u tp_u / sum_u n_u (predicted_u + gold_u),   difference = F1 after - F1 before,

both with the same n (this is the pairing). With several runs (seeds) of each side, F1 is averaged over runs within each
resample. A share right / total is F1 of the counts (right, total, total).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tagtrace._checks import DataError, OptionError

LEVEL = 0.95
MAX_WEIGHTS = 1 << 23
"""Maximum number of weights in memory at a time."""

Floats = NDArray[np.float64]
Name = TypeVar("Name", bound=Hashable)


@dataclass(frozen=True)
class Difference:
    """F1 before and after on all units, and the interval of the difference over resamples."""

    before: float
    after: float
    low: float
    """The middle 95 % of the resampled differences lie between ``low`` and ``high``."""
    high: float
    share_not_better: float
    """Share of the resamples with a difference of at most 0."""

    @property
    def difference(self) -> float:
        return self.after - self.before

    def to_json(self) -> dict[str, float]:
        return {**asdict(self), "difference": self.difference}


def paired_bootstrap(before: ArrayLike, after: ArrayLike, samples: int = 1000, seed: int = 0) -> Difference:
    """The difference in F1 from counts (U, 3), or (S, U, 3) for S runs of each side.

    >>> paired_bootstrap([[1, 2, 2], [0, 1, 1]], [[2, 2, 2], [1, 1, 1]]).difference
    0.6666666666666667
    """
    return paired_bootstraps({"": before}, {"": after}, samples, seed)[""]


def paired_bootstraps(
    before: Mapping[Name, ArrayLike], after: Mapping[Name, ArrayLike], samples: int = 1000, seed: int = 0
) -> dict[Name, Difference]:
    """``paired_bootstrap`` for several kinds of counts of the same units, by name, with the same resamples."""
    if samples < 1:
        raise OptionError(f"samples {samples}: must be at least 1")
    pairs = {name: (_runs(before[name]), _runs(after[name])) for name in before}
    num_units = _num_units(pairs.values())
    rng = np.random.default_rng(seed)
    found: dict[Name, list[Floats]] = {name: [] for name in pairs}
    block = max(MAX_WEIGHTS // num_units, 1)
    for start in range(0, samples, block):
        weights = draw_weights(num_units, min(block, samples - start), rng)
        for name, (old, new) in pairs.items():
            found[name].append(mean_f1(new, weights) - mean_f1(old, weights))
    whole = np.ones((1, num_units))
    return {
        name: _summary(mean_f1(old, whole)[0], mean_f1(new, whole)[0], np.concatenate(found[name]))
        for name, (old, new) in pairs.items()
    }


def draw_weights(num_units: int, samples: int, rng: np.random.Generator) -> Floats:
    """The number of times that each unit was drawn, (R, U); every row sums to U."""
    drawn = rng.integers(num_units, size=(samples, num_units)) + num_units * np.arange(samples)[:, None]
    return np.bincount(drawn.ravel(), minlength=samples * num_units).reshape(samples, num_units).astype(np.float64)


def mean_f1(counts: Floats, weights: Floats) -> Floats:
    """F1 of each resample, (R,), the mean over runs, of counts (S, U, 3) and weights (R, U); 0 without segments."""
    totals = np.einsum("ru,suk->rsk", weights, counts, optimize=True)  # (R, S, 3)
    correct, size = 2 * totals[..., 0], totals[..., 1] + totals[..., 2]  # (R, S)
    return np.divide(correct, size, out=np.zeros_like(correct), where=size > 0).mean(1)


def _summary(before: float, after: float, differences: Floats) -> Difference:
    tail = 50 * (1 - LEVEL)
    low, high = np.percentile(differences, [tail, 100 - tail])
    return Difference(float(before), float(after), float(low), float(high), float((differences <= 0).mean()))


def _runs(counts: ArrayLike) -> Floats:
    """Counts as (S, U, 3)."""
    array = np.asarray(counts, dtype=np.float64)
    array = array[None] if array.ndim == 2 else array
    if array.ndim != 3 or array.shape[2] != 3:
        raise OptionError(f"counts of shape {np.shape(counts)}: expected (units, 3), or (runs, units, 3)")
    return array


def _num_units(pairs: Iterable[tuple[Floats, Floats]]) -> int:
    sizes = {counts.shape[1] for pair in pairs for counts in pair}
    if len(sizes) != 1:
        raise OptionError(f"counts of {' and '.join(map(str, sorted(sizes)))} units: both sides need the same units")
    (num_units,) = sizes
    if num_units == 0:
        raise DataError("the held-out data has no sentences; give other data")
    return num_units
