"""The review page for those who zoom, listen or prefer the dark, and with hostile text, against the stand-in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.review.browser import Browser, Keys
from tests.review.fake_server import HOSTILE, Fake
from tests.review.page import WHY, Site, browsers, renewed, sites


@pytest.fixture(scope="module", name="shared_browser")
def _shared_browser() -> Iterator[Browser]:
    yield from browsers()


@pytest.fixture(name="browser")
def _browser(shared_browser: Browser) -> Browser:
    return renewed(shared_browser)


@pytest.fixture(name="site")
def _site(browser: Browser) -> Iterator[Site]:
    yield from sites(browser)


HOSTILE_PAGES = ("errors", "findings?status=all", "why?sentence=dev-0&start=1&stop=3")


def test_hostile_text_is_inert(browser: Browser) -> None:
    site = Site(browser, Fake(60, hostile=True))
    try:
        for path in HOSTILE_PAGES:
            site.open(path)
            for key in ("h", "j", "a", "x", "v", "o"):
                browser.press(key)
            browser.wait(lambda: not browser.run("return document.querySelector('[aria-busy]')"), "an answer")
            assert browser.run("return window.__xss === undefined"), path
            shown = browser.text("main")
            assert all(token in shown for token in HOSTILE[1:3]), path
            strange = (
                "script:not([src^='/static/']), iframe, img, main svg, object, embed, [onerror], [onload], [onfocus]"
            )
            assert not browser.run("return document.querySelectorAll(arguments[0]).length", strange)
            assert not browser.run("return document.querySelectorAll('a[href^=\"javascript:\"]').length")
            asked = browser.run("return performance.getEntriesByType('resource').map((one) => one.name)")
            assert all(name.startswith(site.url) for name in asked)
            assert not browser.complaints()
    finally:
        site.stop()
        browser.open("about:blank")


def test_hostile_addresses_are_inert(site: Site) -> None:
    browser = site.browser
    for name in ("text", "pair", "target", "sentence", "document", "pattern"):
        for view in ("errors", "findings", "why"):
            browser.open(
                f"{site.url}/{view}?{name}=%22%3E%3Cimg%20src%3Dx%20onerror%3Dwindow.__xss%3D1%3E&start=1&stop=2"
            )
            browser.wait(lambda: browser.text("#project-name") == "invented newswire", "the page")
            assert browser.run("return window.__xss === undefined && !document.querySelector('img')")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_serious_accessibility_violation(site: Site, scheme: str) -> None:
    browser = site.browser
    browser.scheme(scheme)
    for path in ("errors", "findings", WHY):
        site.open(path)
        assert browser.axe() == [], path
    browser.press("x")
    browser.sees("#what-if-answer", "35.0 %")
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
    assert all(word in named for word in ("#3", "Winnow United", "LOC", "ORG", "open")), (
        "labels are written, not only coloured"
    )
    browser.press("a")
    browser.sees("#message", "Finding 3 accepted. Next: Northbridge United")
    browser.press("?")
    browser.run("document.querySelector('#use-keys').click()")
    browser.press(Keys.ESCAPE)
    browser.press("a", "r")
    browser.press(Keys.ARROW_DOWN)
    browser.wait(lambda: site.rank == "5", "an arrow key still moves")
    assert len(site.fake.rows) == 1, "single keys can be turned off"
    browser.run("localStorage.clear()")
