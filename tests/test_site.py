"""The documentation as a site: it is built without warnings, has every page, and loads nothing from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import tagtrace
from tests.pages import PAGES, README
from tests.places import REPOSITORY


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as ``make docs`` builds it."""
    pytest.importorskip("mkdocstrings_handlers.python", reason="the extra docs is not installed")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "--quiet", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return folder


def test_every_page_is_in_the_site_and_in_its_menu(site: Path) -> None:
    start = (site / "index.html").read_text(encoding="utf-8")
    for page in PAGES:
        if page != README:
            name = page.relative_to(REPOSITORY / "docs").with_suffix(".html").as_posix()
            assert (site / name).is_file()
            assert f'href="{name}"' in start


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) >= len(PAGES)
    for page in pages:
        text = page.read_text(encoding="utf-8")
        loaded = re.findall(r"<(?:script|img|link|iframe)\b[^>]*?(?:src|href)=\"?([^\" >]+)", text)
        assert loaded
        assert not [address for address in loaded if re.match(r"(https?:)?//", address)], page.name


def test_links_that_leave_the_documentation_are_text(site: Path) -> None:
    text = (site / "teaching.html").read_text(encoding="utf-8")
    assert "process.py" in text
    assert "../src" not in text


def test_folded_tables_are_tables(site: Path) -> None:
    folded = re.findall(r"<details>(.*?)</details>", (site / "results.html").read_text(encoding="utf-8"), re.DOTALL)
    assert folded
    assert all("<table>" in one for one in folded)


def test_the_reference_has_every_public_name() -> None:
    text = (REPOSITORY / "docs" / "reference.md").read_text(encoding="utf-8")
    named = re.findall(r"^::: tagtrace\.(\w+)$", text, re.MULTILINE)
    assert sorted(named) == sorted(set(tagtrace.__all__) - {"__version__"})


def test_the_menu_names_every_page_once() -> None:
    def pages(entry: object) -> list[str]:
        if isinstance(entry, str):
            return [entry]
        return [page for one in (entry.values() if isinstance(entry, dict) else entry) for page in pages(one)]  # type: ignore[attr-defined]

    menu = pages(yaml.safe_load((REPOSITORY / "mkdocs.yml").read_text(encoding="utf-8"))["nav"])
    docs = REPOSITORY / "docs"
    assert sorted(menu) == sorted(page.relative_to(docs).as_posix() for page in docs.rglob("*.md"))
