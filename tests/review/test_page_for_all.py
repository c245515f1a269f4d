"""The review page for those who zoom, use a screen reader or prefer dark colours."""

from __future__ import annotations

import pytest

from tests.review.browser import Keys
from tests.review.page import Site
from tests.review.page_project import WHY


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_serious_accessibility_violation(site: Site, scheme: str) -> None:
    browser = site.browser
    browser.scheme(scheme)
    for path in ("errors", "findings", WHY):
        site.open(path)
        assert browser.axe() == [], path
    browser.press("x")
    browser.wait(lambda: browser.texts("#what-if-answer tbody tr"), "the prediction")
    browser.press("h")
    assert browser.axe() == [], "what if and history"
    site.open("findings?status=all")
    browser.press("a", "r", "s", "k")
    for key in ("?", "n", "o", "e"):
        browser.press(key)
        browser.wait(lambda: browser.texts("dialog[open]"), "a dialog")
        assert browser.axe() == [], key
        browser.press(Keys.ESCAPE)
        browser.wait(lambda: not browser.texts("dialog[open]"), "it to close")
        assert browser.run("return document.activeElement.getAttribute('role')") == "option", "focus comes back"


@pytest.mark.parametrize("zoom", [2.0, 4.0])
def test_no_sideways_scrolling_when_zoomed(site: Site, zoom: float) -> None:
    browser = site.browser
    browser.resize(1280, 1024, zoom)
    for path in ("errors", "findings", WHY):
        site.open(path)
        browser.press("h")
        browser.sees("#history", "History")
        wide = browser.run("return [document.documentElement.scrollWidth, innerWidth]")
        assert wide[0] <= wide[1], path
    assert browser.axe() == []


def test_the_tab_key_goes_through_the_page_in_the_order_of_reading(site: Site) -> None:
    site.open()
    browser = site.browser
    browser.run("document.activeElement.blur(); document.querySelector('.skip').focus()")
    stops = list[str]()
    for _ in range(60):
        where = "header, .patterns, .singles form, #findings-list, #detail, footer, .skip"
        stop = browser.run("return document.activeElement.closest(arguments[0])?.cloneNode().outerHTML ?? ''", where)
        name = browser.run(
            "const one = document.activeElement;"
            "return one.innerText || one.labels?.[0]?.innerText || one.getAttribute('aria-label') || ''"
        )
        assert name.strip(), f"a stop without a name in {stop}"
        if not stops or stops[-1] != stop:
            stops.append(stop)
        browser.press(Keys.TAB)
        if browser.run("return document.activeElement === document.body || document.activeElement.matches('.skip')"):
            break
    order = ("skip", "<header", "patterns", "filter", "findings-list", "detail")
    assert len(stops) == len(order), stops
    assert all(name in stop for name, stop in zip(order, stops, strict=True)), stops


def test_focus_and_roles_for_screen_readers(site: Site) -> None:
    site.open()
    browser = site.browser
    assert browser.run("return [...document.querySelectorAll('#findings-list [tabindex=\"0\"]')].length") == 1
    assert browser.run("return document.activeElement.getAttribute('aria-setsize')") == "300"
    browser.press("j", "j")
    assert browser.run("return document.activeElement.getAttribute('aria-posinset')") == "3"
    assert browser.run("return document.activeElement.getAttribute('aria-selected')") == "true"
    named = browser.run("return document.activeElement.innerText")
    assert all(word in named for word in ("#3", "Winnow003 United", "LOC", "ORG", "open")), (
        "labels are written, not only coloured"
    )
    browser.press("a")
    browser.sees("#message", "Finding 3 accepted. Next: Northbridge004 United")
    browser.press("?")
    browser.run("document.querySelector('#use-keys').click()")
    browser.press(Keys.ESCAPE)
    browser.press("a", "r")
    browser.press(Keys.ARROW_DOWN)
    browser.wait(lambda: site.rank == "5", "an arrow key still moves")
    assert len(site.rows) == 1, "single keys can be turned off"
    browser.run("localStorage.clear()")
