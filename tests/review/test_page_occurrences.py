"""One decision for all occurrences of a segment, with its preview, in a real browser with the real server."""

from __future__ import annotations

from pathlib import Path

from tests.review.browser import Browser, Keys
from tests.review.page import Site, serving
from tests.review.page_project import NUM_PLACES, many_occurrences


def ticks(browser: Browser) -> list[bool]:
    return browser.run("return [...document.querySelectorAll('#preview-list input')].map((one) => one.checked)")


def test_only_findings_of_the_same_change_are_ticked_at_first(site: Site) -> None:
    site.open("findings?rank=7")
    browser = site.browser
    browser.press("o")
    browser.sees("#preview-count", "3 of 4 occurrences selected")
    assert ticks(browser) == [True, True, True, False]
    browser.sees("#preview-about", "Selected at first (3): this finding and 2 other open findings with the same change")
    browser.press(Keys.SPACE)
    assert browser.run("return document.activeElement.id") == "preview-list"
    assert browser.run("return document.querySelector('#preview').open")
    assert not site.rows
    browser.find("#preview-apply").click()
    assert [(row.sentence_number, row.rank) for row in site.decisions(3)] == [(7, 7), (8, 8), (9, 9)]


def test_findings_of_the_same_change_that_are_still_to_come_are_counted(browser: Browser, tmp_path: Path) -> None:
    with serving(browser, many_occurrences(tmp_path)) as site:
        site.open()
        site.faults.held = "offset=30&"
        browser.press("o")
        browser.wait(lambda: browser.text("#preview-count"), "the first places")
        assert browser.text("#preview-count") == "51 of 2,346 occurrences selected"
        site.faults.held = ""
        browser.sees("#preview-more", "of 2,316")
        assert browser.text("#preview-count") == "51 of 2,346 occurrences selected"
        browser.find("#preview-apply").click()
        numbers = [row.sentence_number for row in site.decisions(51)]
        assert numbers == [0, *range(NUM_PLACES - 50, NUM_PLACES)]


def test_all_occurrences_with_a_preview(site: Site) -> None:
    site.open()
    browser = site.browser
    browser.press("o")
    browser.wait(lambda: browser.run("return document.activeElement.id") == "preview-list", "the dialog")
    assert ticks(browser) == [True, False, False, False]
    browser.sees("#preview-about", "Selected at first (1): only this finding")
    browser.find("#preview-list li:nth-child(2) input").click()
    browser.find("#preview-list li:nth-child(4) input").click()
    browser.sees("#preview-count", "3 of 4 occurrences")
    browser.find("#preview-apply").click()
    rows = site.decisions(3)
    assert [(row.rank, row.sentence_number) for row in rows] == [(1, 1), (None, 301), (None, 303)]
    assert {row.labels for row in rows} == {("B-ORG", "I-ORG")}
    browser.sees("#message", "3 decisions saved")
    browser.sees("#progress-text", "1 accepted · 0 rejected · 0 skipped · +2 other decisions")
    browser.press("u")
    browser.wait(lambda: site.num_undone() == 3, "undo of all three")
    browser.sees("#message", "3 decisions undone")
    browser.wait(lambda: "other" not in browser.text("#progress-text"), "no other decisions")


def test_very_many_occurrences_can_all_be_looked_at(browser: Browser, tmp_path: Path) -> None:
    with serving(browser, many_occurrences(tmp_path)) as site:
        site.open()
        browser.press("o")
        browser.sees("#preview-count", "51 of 2,346 occurrences")
        browser.find("#preview-all").click()
        browser.sees("#preview-count", "2,346 of 2,346 occurrences")
        browser.sees("#preview-more", "of 2,316")
        assert len(browser.texts("#preview-list li")) == 30
        browser.find("#preview-more").click()
        assert len(browser.texts("#preview-list li")) == 60
        assert browser.run("return document.activeElement === document.querySelectorAll('#preview-list input')[30]")
        assert "train-9 " in browser.text("#preview-list li:nth-child(60)")
        browser.find("#preview-list li:nth-child(60) input").click()
        browser.find("#preview-apply").click()
        rows = site.decisions(NUM_PLACES - 1)
        assert {row.sentence_number for row in rows} == set(range(NUM_PLACES)) - {9}


def test_other_boundaries_at_all_occurrences(site: Site) -> None:
    site.open()
    browser = site.browser
    browser.press(Keys.ARROW_RIGHT, shift=True)
    browser.wait(lambda: len(browser.texts("#detail .diff tbody tr")) == 3, "the move")
    browser.press("o")
    browser.sees("#preview-about", "“Eastmoor001 United beat001” has 3 other occurrences with the labels B-LOC I-LOC O")
    browser.find("#preview-all").click()
    browser.find("#preview-apply").click()
    rows = site.decisions(4)
    assert [(row.rank, row.start, row.stop, row.labels, row.action) for row in rows] == [
        (1 if number == 0 else None, 5, 8, ("B-ORG", "I-ORG", "I-ORG"), "relabel") for number in range(4)
    ]
