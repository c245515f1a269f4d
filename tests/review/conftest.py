"""A browser, a project and an open project for the whole session; a server and a database of decisions for each test.

Optional packages are imported when a fixture is used: if they are missing, only the tests that need them are skipped.
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
    from tests.review.made import Client
    from tests.review.page import Site


@pytest.fixture
def ada(tmp_path: Path) -> Iterator[Client]:
    """A client of the light project in ``tmp_path``."""
    made = pytest.importorskip("tests.review.made")
    review = made.light_review(tmp_path)
    yield made.Client(review)
    review.close()


@pytest.fixture
def bob(ada: Client) -> Client:
    """Another browser that uses the same server."""
    return type(ada)(ada.review, "B%C3%B6b")


@pytest.fixture(scope="session")
def project_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with data, a tagger, an index and an audit."""
    made = pytest.importorskip("tests.review.made")
    return made.make_project(tmp_path_factory.mktemp("project")).folder


@pytest.fixture(scope="session")
def session_browser() -> Iterator[Browser]:
    browser = pytest.importorskip("tests.review.browser").Browser()
    yield browser
    browser.quit()


@pytest.fixture
def browser(session_browser: Browser) -> Browser:
    """The browser with a window of the usual size and an empty log."""
    session_browser.resize(1440, 900)
    session_browser.scheme("light")
    session_browser.complaints()
    return session_browser


@pytest.fixture(scope="session")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Review]:
    """The open project of the tests of the page, with its held-out data predicted and its curvature computed."""
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
