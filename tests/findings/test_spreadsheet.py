"""CSV files: no text becomes a formula, in any country, and every text comes back as it was."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tagtrace.findings.spreadsheet import exact_text, plain_text, read_csv, write_csv

FORMULAS = [
    "=1+1",
    "+1",
    "-2+3",
    "@SUM(1)",
    "\t=1",
    "\r=1",
    "\n=1",
    " =1",
    '"=1',
    "'=1",
    "''' -1",
    "\u00a0=1",
    "\uff1d1+1",
    "a;=1",
    "a; '-1;b;+1",
    "a\n=HYPERLINK(1)",
    "a\r=1",
    "x\t=1+1",
    "a\u2028=1",
    "\u200b=1",
    "\ufeff-1",
    "\x00@SUM(1)",
    "b;\u2060'\u200d =1",
]
texts = st.text(st.sampled_from("=+-@\t\r\n'\" ;,ab\x00\u200b\u2028") | st.characters(codec="utf-8"), max_size=12)


@pytest.mark.parametrize("text", FORMULAS)
def test_formulas_become_text(text: str, tmp_path: Path) -> None:
    write_csv(tmp_path / "t.csv", [("name", text), (text, 0.5)])
    with (tmp_path / "t.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.reader(stream))
    for cell in (rows[0][1], rows[1][0]):
        for part in re.split("[;\t\r\n\u2028]", cell):  # a new cell in many countries
            assert part.strip("\"' \u00a0\x00\u200b\u200d\u2060\ufeff")[:1] not in tuple("=+-@\uff1d") or part[0] == "'"
    assert read_csv(tmp_path / "t.csv") == [["name", text], [text, "0.5"]]


@pytest.mark.parametrize("text", ["", "Orla", "3-0", "a = b", "'tis", "\u2013", "x ; y", "AT&T", "100,000"])
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert plain_text(text) == text


def test_numbers_stay_numbers(tmp_path: Path) -> None:
    write_csv(tmp_path / "t.csv", [(-1, -0.25, None, 1e-300)])
    assert (tmp_path / "t.csv").read_bytes() == b"-1,-0.25,,1e-300\r\n"


@given(st.lists(st.lists(texts, min_size=1, max_size=3), max_size=4))
@example([["x" * 200_000]])
def test_every_text_comes_back(rows: list[list[str]]) -> None:
    for text in (text for row in rows for text in row):
        assert exact_text(plain_text(text)) == text
        assert exact_text(plain_text(plain_text(text))) == plain_text(text)


def test_a_file_of_any_text_comes_back(tmp_path: Path) -> None:
    rows = [["x" * 200_000, *FORMULAS], ["", "a\x00b", "\u2028", '"', ",", "\r\n"]]
    write_csv(tmp_path / "t.csv", rows)
    assert read_csv(tmp_path / "t.csv") == rows
