"""A browser and an open project for the whole session; a server and a database of decisions for each test.

What these need is imported when a test asks for it: where it is not installed, only the tests of the page are skipped.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tagtrace.review import Review, open_review

if TYPE_CHECKING:
    from tests.review.browser import Browser
    from tests.review.page import Site


@pytest.fixture(scope="session")
def session_browser() -> Iterator[Browser]:
    browser = pytest.importorskip("tests.review.browser").Browser()
    yield browser
    browser.quit()


@pytest.fixture
def browser(session_browser: Browser) -> Browser:
    """The browser with a window of the usual size, nothing stored and nothing logged."""
    session_browser.resize(1440, 900)
    session_browser.scheme("light")
    session_browser.complaints()
    return session_browser


@pytest.fixture(scope="session")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Review]:
    """The project of the page's tests, open, its held-out data predicted and its curvature worked out."""
    project = pytest.importorskip("tests.review.page_project")
    folder = tmp_path_factory.mktemp("opened") / "match reports"
    folder.mkdir()
    review = open_review(project.make_page_project(folder), "ada")
    model = review.the_model()
    while model.is_busy:
        time.sleep(0.02)
    model.prepare_edits()
    yield review
    review.close()


@pytest.fixture
def site(browser: Browser, opened: Review, tmp_path: Path) -> Iterator[Site]:
    page = pytest.importorskip("tests.review.page")
    with page.serving(browser, page.with_own_decisions(opened, tmp_path)) as made:
        yield made
