"""Results as text for a terminal and as HTML for a notebook: aligned, wrapped, and escaped."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tagtrace as tt
from tagtrace._table import WIDTH, Described, Table, Tabular, fact_table
from tagtrace._visible import visible

HOSTILE = ["<script>alert(1)</script>", "<img src=x onerror='x'>", '"><b>', "a & b", "</td></table>", "\x00\ud800<"]


@dataclass(frozen=True)
class Report(Described):
    """A line, then a table, then a line."""

    parts: tuple[str | Table, ...]

    def describe(self) -> list[str | Table]:
        return list(self.parts)


@dataclass(frozen=True)
class Rows(Tabular):
    """Some rows."""

    rows: tuple[dict[str, Any], ...]

    def describe(self) -> list[str | Table]:
        return [f"{len(self.rows)} rows"]

    def to_records(self) -> list[dict[str, Any]]:
        return list(self.rows)


class Reader(HTMLParser):
    """The tags of a page and the text of its cells."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.cells: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag in ("td", "th", "caption", "p"):
            self.cells.append("")
            assert {name for name, _ in attrs} <= {"scope"}
        elif tag == "br":
            self.cells[-1] += "\n"

    def handle_data(self, data: str) -> None:
        self.cells[-1] += data


def lines_of(table: Table) -> list[str]:
    return table.text().split("\n")


def test_columns_are_aligned() -> None:
    table = Table("fruit", ("name", "count", "note"), (("apple", "3", "x"), ("fig", "12", "")), ("count",))
    assert lines_of(table) == [
        "fruit",
        "name   count  note",
        "-----  -----  ----",
        "apple      3  x",
        "fig       12",
    ]


def test_a_table_without_a_title_or_rows() -> None:
    assert lines_of(Table("", ("a", "bb"), ())) == ["a  bb", "-  --"]
    assert "caption" not in Table("", ("a",), ()).html()


def test_a_cell_with_several_lines() -> None:
    table = Table(
        "", ("name", "text", "count"), (("a", ("one", "two three", "", "four"), "7"), ("b", "five", "12")), ("count",)
    )
    assert lines_of(table)[2:] == [
        "a     one            7",
        "      two three",
        "",
        "      four",
        "b     five          12",
    ]


def test_long_cells_are_wrapped_between_words() -> None:
    words = [f"word{number}" for number in range(60)]
    table = Table("", ("name", "text"), (("a", " ".join(words)), ("b", "short")), ())
    lines = lines_of(table)
    assert max(map(len, lines)) <= WIDTH
    assert len(lines) > 5
    assert " ".join(line[6:].strip() for line in lines[2:-1]).split() == words
    assert lines[2].startswith("a     word0")
    assert all(line.startswith("      ") for line in lines[3:-1])
    assert lines[-1] == "b     short"


def test_only_wide_columns_are_narrowed() -> None:
    table = Table("", ("short", "long", "longer"), (("12345", "b " * 60, "c " * 100),), ())
    rule = lines_of(table)[1].split("  ")
    assert len(rule[0]) == len("12345")
    assert sum(map(len, rule)) + 4 == WIDTH
    assert abs(len(rule[1]) - len(rule[2])) <= 1


def test_a_word_longer_than_a_line_is_broken() -> None:
    lines = lines_of(Table("", ("text",), (("x" * 250,),), ()))
    assert [len(line) for line in lines[2:]] == [WIDTH, WIDTH, 250 - 2 * WIDTH]


def test_many_columns_keep_a_width_that_can_be_read() -> None:
    table = Table("", tuple(f"column {number}" for number in range(12)), (("some words here " * 3,) * 12,), ())
    assert {len(part) for part in lines_of(table)[1].split("  ")} == {12}


def test_indents_of_cells_are_kept() -> None:
    assert lines_of(Table("", ("", "n"), (("all", "3"), ("  ORG", "2")), ("n",)))[2:] == ["all    3", "  ORG  2"]


LINES = st.lists(st.text("ab ", max_size=100), max_size=3).map(tuple)


@given(st.lists(st.tuples(LINES, st.text("01", max_size=9)), max_size=4))
def test_no_line_is_too_long_and_no_word_is_lost(rows: list[tuple[tuple[str, ...], str]]) -> None:
    table = Table("title", ("text", "number"), tuple(rows), ("number",))
    text = table.text()
    assert max(map(len, text.split("\n"))) <= WIDTH
    assert all(len(line) == len(line.rstrip()) for line in text.split("\n"))
    body = "".join(text.split("\n")[3:])
    letters = "".join(part for lines, number in rows for part in (*lines, number))
    assert sorted(re.sub(r"\s", "", body)) == sorted(re.sub(r"\s", "", letters))


@pytest.mark.parametrize("hostile", HOSTILE)
def test_cells_titles_and_lines_are_escaped(hostile: str) -> None:
    table = Table(hostile, (hostile, "b"), ((hostile, "x"), (("one", hostile), "y")), ("b",))
    page = Report((hostile, table))._repr_html_()
    reader = Reader(page)
    expected = [
        "div",
        "p",
        "table",
        "caption",
        "thead",
        "tr",
        "th",
        "th",
        "tbody",
        "tr",
        "td",
        "td",
        "tr",
        "td",
        "br",
        "td",
    ]
    assert reader.tags == expected
    shown = visible(hostile)
    assert reader.cells == [shown, shown, shown, "b", shown, "x", f"one\n{shown}", "y"]
    page.encode("utf-8")


def test_a_result_prints_its_lines_and_tables_in_order() -> None:
    table = Table("fruit", ("name",), (("fig",),))
    report = Report(("first", table, "last"))
    assert str(report) == f"first\n{table.text()}\nlast"
    assert f"{report}" == str(report)
    assert report._repr_html_() == f'<div class="tagtrace"><p>first</p>{table.html()}<p>last</p></div>'


def test_what_cannot_be_seen_is_escaped() -> None:
    hidden = "a\x1b[2J\u202eb\nc"
    table = Table(hidden, (hidden, "b"), ((hidden, (hidden, "d")),), (hidden,))
    shown = visible(hidden)
    lines = lines_of(table)
    assert lines[0] == shown
    assert [line.split() for line in lines[3:]] == [[shown, shown], ["d"]]
    assert str(Report((hidden, table))).split("\n") == [shown, *lines]
    assert Report((hidden, table))._repr_html_().count(shown) == 5


def test_a_result_must_describe_itself() -> None:
    with pytest.raises(TypeError, match="describe"):
        type("Silent", (Described,), {})()


def test_facts_are_rows_of_a_table() -> None:
    table = fact_table("fruit", {"name": "fig", "seeds": ("many", "small")})
    assert lines_of(table) == ["fruit", "       value", "-----  -----", "name   fig", "seeds  many", "       small"]


def test_records_become_a_data_frame() -> None:
    rows = ({"token": "Oslo", "p": 0.25, "line": 3}, {"token": "<b>", "p": 1.0, "line": 4})
    frame = Rows(rows).to_pandas()
    assert list(frame.columns) == ["token", "p", "line"]
    assert frame.to_dict("records") == list(rows)
    assert frame["p"].tolist() == [0.25, 1.0]


def test_without_pandas_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(tt.TagtraceError, match=r'pip install "tagtrace\[pandas\]"') as error:
        Rows(()).to_pandas()
    assert "\n" not in str(error.value)


def test_whatever_has_records_has_data_frames() -> None:
    found = [getattr(tt, name) for name in tt.__all__]
    with_records = [one for one in found if hasattr(one, "to_records")]
    assert len(with_records) >= 7
    assert all(issubclass(one, Tabular) for one in with_records)


def test_what_notebooks_show_as_tables() -> None:
    for one in (tt.Tagger, tt.Index, tt.Explanation, tt.Audit, tt.Pattern, tt.Scorecard, tt.Gain, tt.Flip, tt.WhatIf):
        assert issubclass(one, Described), one
