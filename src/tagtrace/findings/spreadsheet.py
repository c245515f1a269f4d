"""CSV files that a person may open in a spreadsheet, which would take a cell such as ``=1+1`` for a formula.

An apostrophe is put before such text, which makes it plain text everywhere; reading takes it away again, so every text
comes back as it was. Numbers are written as they are.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable
from pathlib import Path

from tagtrace._documents import check_regular_file
from tagtrace._files import file_moved_when_whole
from tagtrace._visible import NOT_SEEN

_FORMULA = re.compile(rf"""['"\s{NOT_SEEN}]*[=+\-@\t\r\n\uff0b\uff0d\uff1d\uff20]""")
"""A formula begins with one of these; spaces, quotes and what nobody sees before it do not help."""
_CELLS = re.compile(r"(?<=[;\t-\r\x85\u2028\u2029])")
"""After a semicolon, a tab or a line end some spreadsheets begin a new cell, in many countries even inside quotes."""
_MAX_CELL = 2**31 - 1
"""The name of a document may be as long as it likes; by default cells of 131,072 characters are read."""

Value = str | int | float | None


def plain_text(text: str) -> str:
    """The text as no spreadsheet takes it for a formula; ``exact_text`` is the way back.

    >>> plain_text("=HYPERLINK(1)"), plain_text("up ;-) down"), plain_text("3-0")
    ("'=HYPERLINK(1)", "up ;'-) down", '3-0')
    """
    return "".join([f"'{part}" if _FORMULA.match(part) else part for part in _CELLS.split(text)])


def exact_text(cell: str) -> str:
    """The text of which ``plain_text`` made this cell.

    >>> exact_text("'=HYPERLINK(1)"), exact_text("'tis")
    ('=HYPERLINK(1)', "'tis")
    """
    parts = _CELLS.split(cell)
    return "".join([part[1:] if part[:1] == "'" and _FORMULA.match(part) else part for part in parts])


def write_csv(path: str | Path, rows: Iterable[Iterable[Value]]) -> None:
    """Write rows as CSV in UTF-8, half a surrogate pair as its JSON escape."""
    text = io.StringIO(newline="")
    csv.writer(text).writerows(
        [plain_text(value) if isinstance(value, str) else value for value in row] for row in rows
    )
    with file_moved_when_whole(path) as stream:
        stream.write(text.getvalue().encode("utf-8", "backslashreplace"))


def read_csv(path: str | Path) -> list[list[str]]:
    """The rows that ``write_csv`` wrote, as text; raises ValueError if the file is not CSV in UTF-8."""
    csv.field_size_limit(_MAX_CELL)
    check_regular_file(path)
    with Path(path).open(encoding="utf-8-sig", newline="") as stream:
        try:
            return [[exact_text(cell) for cell in row] for row in csv.reader(stream)]
        except csv.Error as error:
            raise ValueError(str(error)) from None
