"""Figures: both files, the same bytes each time, text as text, and lines that differ without colour."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tagtrace._checks import OptionError
from tagtrace.reproduce.shared.figures import COLOURS, DASHES, MARKERS, best_fit, draw_bars, draw_curves, draw_scatter

SVG = "{http://www.w3.org/2000/svg}"


def texts(path: Path) -> list[str]:
    return ["".join(node.itertext()).strip() for node in ET.parse(path).iter(f"{SVG}text")]


def test_curves_are_drawn_with_their_names(tmp_path: Path) -> None:
    curves = {"loss, max": [0.1, 0.5, 1.0], "influence & more": [0.3, 0.6, 1.0]}
    paths = draw_curves(tmp_path / "new" / "v1.5", curves, title="Errors found", x="documents", y="recall")
    assert paths == [tmp_path / "new/v1.5.svg", tmp_path / "new/v1.5.png"]
    assert {"loss, max", "influence & more", "Errors found", "documents", "recall"} <= set(texts(paths[0]))
    assert paths[1].read_bytes().startswith(b"\x89PNG")


def test_the_same_numbers_give_the_same_bytes(tmp_path: Path) -> None:
    panels = {"first order": ([0.0, 1.0, 2.0], [0.0, 2.0, 4.0]), "refine": ([1.0, 2.0], [1.0, 2.0])}
    first, second = (
        [path.read_bytes() for path in draw_scatter(tmp_path / name, panels, title="t", x="x", y="y")] for name in "ab"
    )
    assert first == second
    assert b"dc:date" not in first[0]
    panels["refine"] = ([1.0, 2.0], [1.0, 3.0])
    other = draw_scatter(tmp_path / "c", panels, title="t", x="x", y="y")
    assert [path.read_bytes() for path in other] != first


def test_scatter_shows_the_slope_of_each_panel(tmp_path: Path) -> None:
    panels = {"one": ([0.0, 1.0, 2.0], [1.0, 3.0, 5.0]), "flat": ([1.0, 1.0], [2.0, 3.0]), "empty": ([], [])}
    (svg, _) = draw_scatter(tmp_path / "s", panels, title="t", x="predicted", y="actual")
    found = texts(svg)
    assert {"one", "flat", "empty"} <= set(found)
    assert [text for text in found if text.startswith("best fit")] == ["best fit, slope 2.00"]


def test_bars_have_their_values_and_may_be_missing(tmp_path: Path) -> None:
    groups = {"segment influence": {"cosine": [97.92], "raw": [0.0]}, "neighbour": {"cosine": [80.4, 90.4]}}
    (svg, _) = draw_bars(tmp_path / "b", groups, title="t", y="%")
    found = texts(svg)
    assert [value for value in ("97.9", "0.0", "85.4") if value in found] == ["97.9", "0.0", "85.4"]
    assert {"cosine", "raw"} <= set(found)


def test_thirteen_lines_differ_without_colour() -> None:
    looks = {(DASHES[n % len(DASHES)], MARKERS[n % len(MARKERS)]) for n in range(13)}
    assert len(looks) == 13
    assert len(set(COLOURS)) == len(COLOURS)


@pytest.mark.parametrize("curves", [{}, {"none": []}, {"one": [0.5]}])
def test_curves_with_few_values_can_be_drawn(tmp_path: Path, curves: dict[str, list[float]]) -> None:
    assert all(path.exists() for path in draw_curves(tmp_path / "c", curves, title="t", x="x", y="y"))


def test_best_fit_is_the_least_squares_line() -> None:
    assert best_fit([-1.0, 0.0, 1.0], [2.0, 0.0, 1.0]) == (-0.5, 1.0)
    assert best_fit([], []) is None
    assert best_fit([3.0, 3.0], [1.0, 2.0]) is None


def test_without_matplotlib_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(OptionError, match=r"\.\[experiments\]"):
        draw_curves(tmp_path / "c", {"a": [1.0]}, title="t", x="x", y="y")
    assert not list(tmp_path.iterdir())
