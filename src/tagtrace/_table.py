"""Results that describe themselves: as text for a terminal, as HTML for a notebook.

A result is a list of lines and tables (``Described.describe``). The command line prints the same list with colours.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from tagtrace._checks import OptionError
from tagtrace._markup import Html, element
from tagtrace._visible import visible

if TYPE_CHECKING:
    import pandas

Cell = str | tuple[str, ...]
"""One line, or several."""

WIDTH = 100
"""Maximum number of characters in a line of text."""
MIN_COLUMN = 12
"""Columns are not narrowed below this number of characters."""


@dataclass(frozen=True)
class Table:
    """Rows of cells under column names; ``right`` names right-aligned columns."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    right: tuple[str, ...] = ()

    def lines(self) -> list[list[tuple[str, ...]]]:
        """The lines of each cell of each row, with nothing in them that a person cannot see."""
        return [[_lines(cell) for cell in row] for row in self.rows]

    def names(self) -> list[str]:
        """The names of the columns, with nothing in them that a person cannot see."""
        return [visible(name) for name in self.columns]

    def text(self) -> str:
        """Aligned columns, wrapped to the width of a line.

        >>> print(Table("fruit", ("name", "count"), (("apple", "3"), ("fig", "12")), ("count",)).text())
        fruit
        name   count
        -----  -----
        apple      3
        fig       12
        """
        rows, widths = self.lines(), self._widths()
        lines = [visible(self.title)] if self.title else []
        lines += [self._line(self.names(), widths), "  ".join("-" * width for width in widths)]
        for row in rows:
            cells = [_wrapped(cell, width) for cell, width in zip(row, widths, strict=True)]
            for number in range(max(map(len, cells))):
                lines.append(self._line([cell[number] if number < len(cell) else "" for cell in cells], widths))
        return "\n".join(lines)

    def _widths(self) -> list[int]:
        """The width of each column; the widest column is narrowed until the table fits a line."""
        cells = [[(name,) for name in self.names()], *self.lines()]
        widths = [max(len(line) for row in cells for line in row[column]) for column in range(len(self.columns))]
        while sum(widths) + 2 * (len(widths) - 1) > WIDTH and max(widths) > MIN_COLUMN:
            widths[widths.index(max(widths))] -= 1
        return widths

    def _line(self, cells: Sequence[str], widths: Sequence[int]) -> str:
        padded = [
            cell.rjust(width) if name in self.right else cell.ljust(width)
            for name, cell, width in zip(self.columns, cells, widths, strict=True)
        ]
        return "  ".join(padded).rstrip()

    def html(self) -> Html:
        """A table element; everything in it is escaped."""
        head = element("tr", [element("th", name, scope="col") for name in self.names()])
        body = [element("tr", [element("td", _broken(cell)) for cell in row]) for row in self.lines()]
        caption = element("caption", visible(self.title)) if self.title else None
        return element("table", caption, element("thead", head), element("tbody", body), class_="tagtrace")


def fact_table(title: str, facts: Mapping[str, Cell]) -> Table:
    """Facts by name, one in each row."""
    return Table(title, ("", "value"), tuple(facts.items()))


def _lines(cell: Cell) -> tuple[str, ...]:
    return tuple(map(visible, (cell,) if isinstance(cell, str) else cell or ("",)))


def _wrapped(cell: Sequence[str], width: int) -> list[str]:
    return [part for line in cell for part in (wrap(line, width) or [""])]


def _broken(cell: Sequence[str]) -> list[Html | str]:
    """The lines of a cell with breaks between them."""
    first, *rest = cell
    return [first, *(part for line in rest for part in (Html("<br>"), line))]


class Described(ABC):
    """A result that prints itself: each line as one line, whatever is in it."""

    __slots__ = ()

    @abstractmethod
    def describe(self) -> list[str | Table]:
        """Lines and tables to read, in order."""

    def __str__(self) -> str:
        return "\n".join(part.text() if isinstance(part, Table) else visible(part) for part in self.describe())

    def _repr_html_(self) -> str:
        """For notebooks; everything in it is escaped."""
        parts = [part.html() if isinstance(part, Table) else element("p", visible(part)) for part in self.describe()]
        return element("div", parts, class_="tagtrace")


class Tabular(Described):
    """A result that also has rows of data."""

    __slots__ = ()

    @abstractmethod
    def to_records(self) -> list[dict[str, Any]]:
        """The rows, each with the same keys."""

    def to_pandas(self) -> pandas.DataFrame:
        """The rows of ``to_records`` as a data frame, one column for each key."""
        try:
            import pandas  # noqa: PLC0415  (an optional dependency, and slow to import)
        except ImportError:
            raise OptionError(
                'to_pandas needs pandas: pip install "tagtrace[pandas]"; to_records gives the same rows without it'
            ) from None
        return pandas.DataFrame(self.to_records())
