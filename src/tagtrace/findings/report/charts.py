"""Small charts as inline SVG, deterministic; their colours come from the style of the page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, isfinite, isnan, log10

import numpy as np

from tagtrace._markup import Child, Html, element

WIDTH, HEIGHT = 720, 300
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 40, 44
"""Margins of the plot."""
NUM_BINS = 48
DASHES = (None, "7 3", "2 3", "9 3 2 3", "12 4", "4 2 1 2")
"""Dashes of curves, so that they can be told apart without colour."""


@dataclass(frozen=True)
class Bins:
    """Counts of values in G bins, between G + 1 ``edges``."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]

    @classmethod
    def of(cls, values: np.ndarray, num_bins: int = NUM_BINS) -> Bins:
        """Count the finite values in bins of equal width."""
        finite = values[np.isfinite(values)].astype(np.float64)
        counts, edges = np.histogram(finite, bins=num_bins)
        return cls(tuple(edges.tolist()), tuple(counts.tolist()))


def histogram(bins: Bins, threshold: float | None, title: str, description: str, name: str) -> Html:
    """Bars of height log(1 + count); bars beyond ``threshold`` are marked, and the threshold is a line."""
    low, high = bins.edges[0], bins.edges[-1]
    most = max(1, *bins.counts)

    def across(value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (value - low) / (high - low)

    def up(count: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * log10(1 + count) / log10(1 + most)

    bars: list[Html] = []
    for number, count in enumerate(bins.counts):
        if count:
            left, right = bins.edges[number], bins.edges[number + 1]
            kind = "bar" if threshold is None or right <= threshold else "bar found"
            hint = element("title", f"{short(left)} to {short(right)}: {count:,} {'token' if count == 1 else 'tokens'}")
            size = {"width": _digits(across(right) - across(left) - 1), "height": _digits(HEIGHT - BOTTOM - up(count))}
            bars.append(_shape("rect", hint, class_=kind, x=across(left), y=up(count), **size))
    ticks = [10**power for power in range(ceil(log10(most + 1)) + 1) if 10**power <= most]
    parts = [
        [_row(up(count), f"{count:,}") for count in (0, *ticks)],
        bars,
        [_column(across(value), short(value)) for value in even_ticks(low, high)],
        _threshold(across(threshold), threshold) if threshold is not None and low <= threshold <= high else None,
        _axis_names("suspicion", "tokens (log scale)"),
    ]
    return _svg(parts, title, description, name)


def recall_curves(
    curves: Sequence[tuple[str, Sequence[tuple[int, float]]]], num_tokens: int, title: str, description: str, name: str
) -> Html:
    """Recall among the first k tokens, with k on a log scale: a line for each curve and one for a random order."""
    furthest = log10(max(num_tokens, 10))

    def across(count: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * log10(count) / furthest

    def up(recall: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * recall

    def path(points: Sequence[tuple[float, float]]) -> str:
        return " ".join(f"{_digits(across(count))},{_digits(up(recall))}" for count, recall in points)

    chance = [(10 ** (furthest * step / 60), min(1.0, 10 ** (furthest * step / 60) / num_tokens)) for step in range(61)]
    lines = [
        _shape(
            "polyline",
            element("title", label),
            class_=f"curve curve-{number % len(DASHES)}",
            points=path(points),
            stroke_dasharray=DASHES[number % len(DASHES)],
        )
        for number, (label, points) in enumerate(curves)
    ]
    parts = [
        [_row(up(share / 4), f"{share * 25} %") for share in range(5)],
        [_column(across(10**power), f"{10**power:,}") for power in range(int(furthest) + 1)],
        _shape("polyline", element("title", "a random order"), class_="curve chance", points=path(chance)),
        lines,
        _legend([label for label, _ in curves]),
        _axis_names("tokens looked at, the most suspicious first (log scale)", "wrong labels found"),
    ]
    return _svg(parts, title, description, name)


def even_ticks(low: float, high: float, most: int = 8) -> list[float]:
    """Round numbers between two numbers, at most ``most`` + 1.

    >>> even_ticks(-0.2, 3.1)
    [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0]
    """
    rough = (high - low) / most
    if not isfinite(rough) or rough <= 0:
        return [low]
    unit = 10.0 ** np.floor(log10(rough))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= rough * (1 - 1e-9))
    first, last = ceil(low / step - 1e-9), int(np.floor(high / step + 1e-9))
    return [float(f"{number * step:.12g}") + 0.0 for number in range(first, last + 1)]


def short(value: float) -> str:
    """A number in few characters.

    >>> short(0.5), short(12345.678), short(0.00012345), short(float("nan")), short(3)
    ('0.5', '12,346', '0.000123', 'unknown', '3')
    """
    if not isfinite(value):
        return "unknown" if isnan(value) else ("∞" if value > 0 else "-∞")
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.3g}"


def _svg(parts: Child, title: str, description: str, name: str) -> Html:
    names = (element("title", title, id=f"{name}-title"), element("desc", description, id=f"{name}-desc"))
    labelled = {"aria_labelledby": f"{name}-title", "aria_describedby": f"{name}-desc"}
    return element("svg", names, parts, role="img", viewBox=f"0 0 {WIDTH} {HEIGHT}", class_="chart", **labelled)


def _row(y: float, label: str) -> list[Html]:
    """A horizontal line across the plot, and its label."""
    line = _shape("line", class_="grid", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y)
    return [line, _shape("text", label, class_="tick", x=LEFT - 8, y=y + 4, text_anchor="end")]


def _column(x: float, label: str) -> list[Html]:
    """A mark under the plot, and its label."""
    line = _shape("line", class_="mark", x1=x, x2=x, y1=HEIGHT - BOTTOM, y2=HEIGHT - BOTTOM + 5)
    return [line, _shape("text", label, class_="tick", x=x, y=HEIGHT - BOTTOM + 18, text_anchor="middle")]


def _threshold(x: float, value: float) -> list[Html]:
    anchor, shift = ("end", -6) if x > WIDTH / 2 else ("start", 6)
    line = _shape("line", class_="threshold", x1=x, x2=x, y1=TOP - 14, y2=HEIGHT - BOTTOM)
    label = f"findings from {short(value)}"
    return [line, _shape("text", label, class_="name", x=x + shift, y=TOP - 6, text_anchor=anchor)]


def _axis_names(across: str, up: str) -> list[Html]:
    return [
        _shape("text", across, class_="name", x=WIDTH - RIGHT, y=HEIGHT - 6, text_anchor="end"),
        _shape("text", up, class_="name", x=6, y=15),
    ]


def _legend(labels: Sequence[str]) -> Iterator[Html]:
    """The legend, in the upper left of the plot, where rising curves leave room."""
    for number, label in enumerate((*labels, "a random order")):
        y = TOP + 14 + 17 * number
        is_chance = number == len(labels)
        kind = "curve chance" if is_chance else f"curve curve-{number % len(DASHES)}"
        dash = None if is_chance else DASHES[number % len(DASHES)]
        yield _shape("line", class_=kind, x1=LEFT + 12, x2=LEFT + 48, y1=y - 4, y2=y - 4, stroke_dasharray=dash)
        yield _shape("text", label, class_="name", x=LEFT + 56, y=y)


def _shape(name: str, *children: Child, **attributes: str | float | None) -> Html:
    """An element whose numbers are rounded to two decimals."""
    rounded = {key: _digits(value) if isinstance(value, float) else value for key, value in attributes.items()}
    return element(name, *children, **rounded)


def _digits(value: float) -> str:
    """A number rounded to two decimals.

    >>> _digits(12.0), _digits(3.14159)
    ('12', '3.14')
    """
    return f"{value:.2f}".rstrip("0").rstrip(".")
