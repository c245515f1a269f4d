"""The review page in a browser, served by the stand-in; what its tests share."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tests.review.browser import Browser
from tests.review.fake_server import Fake, serve

WHY = "why?sentence=dev-0&start=5&stop=7"


class Site:
    """A server with the page open in a browser."""

    def __init__(self, browser: Browser, fake: Fake) -> None:
        self.browser, self.fake, self.server = browser, fake, serve(fake)
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def open(self, path: str = "findings") -> None:
        self.browser.open(f"{self.url}/{path}")
        view = path.split("?", maxsplit=1)[0]
        ready = "#why-query .sentence" if view == "why" else f"#{view}-list [aria-selected=true]"
        self.browser.wait(lambda: self.browser.texts(ready), ready)
        self.browser.wait(lambda: self.browser.run("return document.activeElement !== document.body"), "focus")

    def stop(self) -> None:
        self.fake.is_gone = True
        self.server.shutdown()
        self.server.server_close()

    def decisions(self, number: int) -> list[dict[str, Any]]:
        """The decisions, once there are so many."""
        self.browser.wait(lambda: len(self.fake.rows) >= number, f"{number} decisions")
        return self.fake.rows

    @property
    def rank(self) -> str:
        found = re.search(r"Finding (\d+)", self.browser.text("#detail h3"))
        return found[1] if found else ""


def browsers() -> Iterator[Browser]:
    """For a fixture: one browser for a module."""
    browser = Browser()
    yield browser
    browser.quit()


def renewed(browser: Browser) -> Browser:
    """As a test expects it."""
    browser.resize(1440, 900)
    browser.scheme("light")
    browser.complaints()
    return browser


def sites(browser: Browser, fake: Fake | None = None) -> Iterator[Site]:
    """For a fixture: a server of its own for a test."""
    site = Site(browser, fake or Fake())
    yield site
    site.stop()
    browser.open("about:blank")
