"""Markdown tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import mean, stdev


def spread(values: Iterable[float], digits: int = 3) -> str:
    """The mean and, if there are several values, the standard deviation.

    >>> spread([1.0, 2.0, 3.0], 1)
    '2.0 ± 1.0'
    """
    numbers = list(values)
    deviation = f" ± {stdev(numbers):.{digits}f}" if len(numbers) > 1 else ""
    return f"{mean(numbers):.{digits}f}{deviation}"


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table that ends with a newline."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
