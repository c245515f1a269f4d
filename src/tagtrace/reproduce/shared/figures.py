"""Figures as SVG and PNG: the same numbers give the same bytes, and lines and bars can be distinguished without colour.

Figures are drawn on matplotlib's ``Figure``, not through ``pyplot``, so that no global state changes and no window
opens.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import cycle
from math import ceil
from pathlib import Path
from statistics import fmean
from textwrap import fill
from typing import TYPE_CHECKING, Any

from tagtrace._checks import OptionError
from tagtrace.reproduce.shared.setting import INSTALL

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#7a7a7a")
"""Distinguishable by the colour-blind (Okabe and Ito); neighbours also differ in grey."""
DASHES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D", "v", "x", "P")
"""Seven, and four dashes: 28 lines look different even without colour."""
HATCHES = ("", "///", "...", "xxx", "\\\\\\", "+++", "ooo")
NUM_MARKERS = 12
"""Approximate number of markers on each line."""
STYLE: dict[Any, Any] = {
    "font.size": 9, "axes.titlesize": 9, "legend.fontsize": 8, "axes.spines.top": False, "axes.spines.right": False,
    "svg.fonttype": "none", "svg.hashsalt": "tagtrace",
}  # fmt: skip
"""Text stays text, and the ids in an SVG are the same each time."""


def draw_curves(stem: Path, curves: Mapping[str, Sequence[float]], *, title: str, x: str, y: str) -> list[Path]:
    """Draw one line for each entry, its values over 1, 2, ..., n, and write ``stem``.svg and ``stem``.png."""
    with _figure(stem, (7.5, 4.2)) as (figure, paths):
        axes = figure.add_subplot()
        looks = zip(cycle(COLOURS), cycle(DASHES), cycle(MARKERS), range(len(curves)), strict=False)
        for (name, values), (colour, dash, marker, number) in zip(curves.items(), looks, strict=True):
            every = max(1, len(values) // NUM_MARKERS)
            offset = (number * every) // max(1, len(curves))  # markers of lines that coincide do not overlap
            axes.plot(
                range(1, len(values) + 1), values, label=name, color=colour, linestyle=dash, marker=marker,
                markevery=(min(offset, max(0, len(values) - 1)), every), markersize=4, linewidth=1.2, fillstyle="none",
            )  # fmt: skip
        _describe(axes, title, x, y)
        if curves:
            axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, handlelength=4)
    return paths


def draw_scatter(
    stem: Path, panels: Mapping[str, tuple[Sequence[float], Sequence[float]]], *, title: str, x: str, y: str
) -> list[Path]:
    """Draw one panel of points (x, y) for each entry, with the line y = x solid and the line of best fit dotted."""
    rows, columns = grid(len(panels))
    with _figure(stem, (3.2 * columns, 3.0 * rows + 0.4)) as (figure, paths):
        figure.suptitle(title, fontsize=10)
        for number, (name, (first, second)) in enumerate(panels.items(), 1):
            axes = figure.add_subplot(rows, columns, number)
            axes.scatter(first, second, s=9, facecolors="none", edgecolors="#555555", linewidths=0.7)
            _lines(axes, first, second)
            _describe(axes, name, x, y)
    return paths


def draw_bars(
    stem: Path, groups: Mapping[str, Mapping[str, Sequence[float]]], *, title: str, y: str, digits: int = 1
) -> list[Path]:
    """Draw a group of bars for each entry: the mean, written above; if there are several values, each as a dot."""
    names = list(dict.fromkeys(name for values in groups.values() for name in values))
    width = 0.8 / max(1, len(names))
    with _figure(stem, (max(4.5, 1.2 + 0.55 * len(groups) * len(names)), 4.0)) as (figure, paths):
        axes = figure.add_subplot()
        for number, (name, hatch) in enumerate(zip(names, cycle(HATCHES), strict=False)):
            places = [place for place, values in enumerate(groups.values()) if name in values]
            drawn = [values[name] for values in groups.values() if name in values]
            shift = (number - (len(names) - 1) / 2) * width
            bars = axes.bar(
                [place + shift for place in places], [fmean(some) for some in drawn], 0.92 * width,
                label=name, hatch=hatch,
                facecolor=("#ffffff", "#d9d9d9", "#a6a6a6")[number % 3], edgecolor="#222222", linewidth=0.8,
            )  # fmt: skip
            axes.bar_label(bars, fmt=f"{{:.{digits}f}}", fontsize=7, padding=2)
            several = [(place, some) for place, some in zip(places, drawn, strict=True) if len(some) > 1]
            dots = [(place + shift + 0.36 * width, one) for place, some in several for one in some]
            axes.scatter([x for x, _ in dots], [one for _, one in dots], s=8, color="#000000", zorder=3)
        axes.set_xticks(range(len(groups)), [fill(name, 13) for name in groups])
        axes.axhline(0, color="#222222", linewidth=0.8)
        axes.margins(y=0.12)
        _describe(axes, title, "", y)
        if len(names) > 1:
            axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    return paths


def grid(count: int) -> tuple[int, int]:
    """Rows and columns for ``count`` panels: at most three columns, rows as even as possible.

    >>> [grid(count) for count in (1, 2, 3, 4, 6, 7)]
    [(1, 1), (1, 2), (1, 3), (2, 2), (2, 3), (3, 3)]
    """
    rows = max(1, ceil(count / 3))
    return rows, max(1, ceil(count / rows))


def best_fit(first: Sequence[float], second: Sequence[float]) -> tuple[float, float] | None:
    """Slope and intercept of the least-squares fit of ``second`` on ``first``; None if ``first`` is constant.

    >>> best_fit([0.0, 1.0, 2.0], [1.0, 3.0, 5.0])
    (2.0, 1.0)
    """
    if len(set(first)) < 2:
        return None
    mean_x, mean_y = sum(first) / len(first), sum(second) / len(second)
    squares = sum((x - mean_x) ** 2 for x in first)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in zip(first, second, strict=True)) / squares
    return slope, mean_y - slope * mean_x


def _lines(axes: Axes, first: Sequence[float], second: Sequence[float]) -> None:
    if not first:
        return
    ends = (min(*first, *second), max(*first, *second))
    axes.plot(ends, ends, color="#000000", linewidth=0.9, linestyle="-", label="y = x")
    if fitted := best_fit(first, second):
        slope, intercept = fitted
        across = (min(first), max(first))
        values = [slope * value + intercept for value in across]
        axes.plot(across, values, color="#000000", linewidth=1.6, linestyle=":", label=f"best fit, slope {slope:.2f}")
    axes.legend(loc="best", frameon=False)


def _describe(axes: Axes, title: str, x: str, y: str) -> None:
    axes.set_title(title)
    axes.set_xlabel(x)
    axes.set_ylabel(y)


@contextmanager
def _figure(stem: Path, size: tuple[float, float]) -> Iterator[tuple[Figure, list[Path]]]:
    """A figure to draw on, written when the block ends, and the paths of its files."""
    try:
        from matplotlib import rc_context  # noqa: PLC0415
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError:
        raise OptionError(f"figures need matplotlib; {INSTALL}") from None
    paths = [stem.with_name(f"{stem.name}.{kind}") for kind in ("svg", "png")]
    with rc_context(STYLE):
        figure = Figure(figsize=size, layout="constrained")
        yield figure, paths
        stem.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(paths[0], metadata={"Date": None, "Creator": None})
        figure.savefig(paths[1], dpi=150, metadata={"Software": None})
