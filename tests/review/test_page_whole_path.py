"""The whole path in a real browser with the real command: filter, why, what if, decide, undo, reload, export.

The project is a smaller version of the demo. With ``TAGTRACE_DEMO=folder``, it is a copy of that folder, which
``tagtrace demo`` made.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the review extra is not installed")
pytest.importorskip("uvicorn", reason="the review extra is not installed")

from tagtrace import build_whole, open_index
from tests.review.browser import Browser, Keys
from tests.review.made import make_project

COMMAND = (sys.executable, "-c", "from tagtrace.cli import main; main()", "review")


class CommandSite:
    """``tagtrace review`` with a project, in a process of its own."""

    def __init__(self, folder: Path, browser: Browser) -> None:
        self.folder, self.browser = folder, browser
        self.start()

    def start(self, port: int = 0) -> None:
        arguments = [*COMMAND, str(self.folder), "--no-browser", "--reviewer", "ada", "--port", str(port)]
        self.process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        found = None
        while found is None:
            line = self.process.stdout.readline()
            assert line, "the server stopped before it printed its address"
            found = re.search(r"(http://127\.0\.0\.1:(\d+)/)\?token=(\S+)", line)
        self.entrance, self.url, self.port, self.token = found[0], found[1], int(found[2]), found[3]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def get(self, path: str) -> Any:
        return json.loads(self.get_bytes(path))

    def get_bytes(self, path: str) -> bytes:
        asked = urllib.request.Request(f"{self.url}api/{path}", headers={"Authorization": f"Bearer {self.token}"})
        with urllib.request.urlopen(asked) as answer:
            return answer.read()

    def progress(self, **counts: int) -> None:
        """Wait until the server reports these numbers."""
        self.browser.wait(lambda: counts.items() <= self.get("project")["progress"].items(), str(counts))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandSite]:
    browser = Browser()
    folder = tmp_path_factory.mktemp("made") / "project"
    if demo := os.environ.get("TAGTRACE_DEMO"):
        browser.patience = 120.0  # it retrains on more data
        shutil.copytree(demo, folder, ignore=shutil.ignore_patterns("decisions.sqlite*", "export"))
    else:
        folder.mkdir()
        build_whole(open_index(make_project(folder).index), 1)
    made = CommandSite(folder, browser)
    browser.open(made.entrance)
    with browser.patient(120.0):
        browser.wait(lambda: made.get("project")["has"]["errors"], "the predictions")
    yield made
    made.kill()
    browser.quit()


def with_labels(content: bytes, line: int, labels: list[str]) -> bytes:
    """The file with other labels in its last column, starting at a line (counted from 1)."""
    lines = content.split(b"\n")
    for offset, label in enumerate(labels):
        at = line - 1 + offset
        lines[at] = re.sub(rb"\S+(\s*)$", label.encode() + rb"\1", lines[at])
    return b"\n".join(lines)


def answer_text(browser: Browser) -> str:
    return browser.text("#what-if-answer")


def test_from_an_error_to_the_corrected_file(site: CommandSite) -> None:
    browser = site.browser
    browser.open(f"{site.url}errors")
    browser.wait(lambda: browser.texts("#errors-list [aria-selected=true]"), "errors")
    pair, number = site.get("errors")["pairs"][0]
    browser.run(
        "const field = document.querySelector('[name=pair]'); field.value = arguments[0];"
        "field.dispatchEvent(new Event('change', {bubbles: true}))",
        pair,
    )
    browser.sees("#errors-shown", f"{number} error")
    browser.press(Keys.ESCAPE, Keys.ENTER)
    browser.wait(lambda: len(browser.texts("#supporters [role=option]")) == 20, "supporters")
    assert site.get("project")["asking"]["score"] == "whole"  # shown once it is computed; until then, by cosine
    with browser.patient(120.0):
        browser.wait(lambda: re.fullmatch(r"\d+\.\d\d s", browser.text("#why-shown")), "the score of the whole tagger")
    assert browser.find("#view-why [name=score]").get_attribute("value") == "whole"
    browser.press("x")
    browser.wait(lambda: browser.texts("#what-if-answer tbody tr"), "a prediction")
    browser.press("v")
    browser.sees("#what-if-answer thead", "verified")
    browser.wait(lambda: re.search(r"Train the whole tagger again, about \d+ (s|min)", answer_text(browser)), "a time")
    browser.press("w")
    with browser.patient(300.0):
        browser.sees("#what-if-answer", "The whole tagger retrained, mean of 3 seeds")
    assert browser.texts("#what-if-answer thead th")[-3:] == ["label", "before", "retrained"]
    assert re.search(r"the prediction changes in [0-3] of 3 seeds; mean change of the loss [+-]", answer_text(browser))
    browser.press("g", "f")
    browser.wait(lambda: "Finding 1" in browser.text("#detail h3"), "findings")

    first, second, third = (site.get(f"findings/{rank}") for rank in (1, 2, 3))
    browser.press("a", "4", "r", "a")
    site.progress(accepted=3, rejected=1)
    browser.press("u")
    site.progress(accepted=2, rejected=1)
    browser.driver.refresh()
    browser.sees("#progress-text", "2 accepted · 1 rejected")
    browser.press("e")
    browser.wait(lambda: browser.run("return document.activeElement.id") == "export-run", "the dialog")
    browser.press(Keys.ENTER)
    browser.sees("#export-answer", "export/train.conll")

    given = (site.folder / "data" / "train.conll").read_bytes()
    types = site.get("project")["types"]
    chosen = [f"{'BI'[t > 0]}-{types[3]}" for t in range(second["stop"] - second["start"])]
    expected = with_labels(with_labels(given, first["line"], first["proposed"]), second["line"], chosen)
    assert expected != given
    assert (site.folder / "export" / "train.conll").read_bytes() == expected
    assert site.get_bytes("export/data") == expected
    assert third["given"] != third["proposed"]
    assert not browser.complaints()


def test_a_killed_server_comes_back_and_nothing_is_lost(site: CommandSite) -> None:
    browser = site.browser
    before = site.get("project")["progress"]
    browser.open(f"{site.url}findings")
    browser.wait(lambda: browser.texts("#findings-list [aria-selected=true]"), "findings")
    site.kill()
    browser.press("s", "s")
    browser.sees("#banner", "The server does not answer")
    site.start(site.port)
    page = browser.driver.current_window_handle
    browser.driver.switch_to.new_window("tab")
    browser.open(site.entrance)  # the new server has another token
    browser.driver.close()
    browser.driver.switch_to.window(page)
    site.progress(skipped=before["skipped"] + 2)
    browser.wait(lambda: not browser.text("#banner"), "the banner to go")


def test_two_browsers_see_each_other(site: CommandSite) -> None:
    one, other = site.browser, Browser()
    try:
        other.open(site.entrance)
        for browser in (one, other):
            browser.open(f"{site.url}findings?status=all&rank=6")
            browser.wait(lambda browser=browser: "Finding 6" in browser.text("#detail h3"), "the finding")
        other.run("document.querySelector('[data-do=reviewer]').click()")
        other.run("document.querySelector('#reviewer-input').value = 'bea'")
        other.find("#reviewer [value=save]").click()
        other.sees("#reviewer-name", "bea")
        other.run("document.activeElement.blur()")
        other.run(
            "window.held = window.fetch; window.fetch = () => new Promise(() => {})"
        )  # it gets no news for a while
        one.press("a")
        one.wait(lambda: site.get("findings/6")["status"] == "accepted", "one decision")
        other.run("window.fetch = window.held")
        other.press("r")
        other.sees("#findings-list", "conflict")
        one.sees("#findings-list", "conflict")
        assert site.get("findings/6")["conflict"]
        assert {row["reviewer"] for row in site.get("history")["items"] if row["rank"] == 6} == {"ada", "bea"}
        one.run("document.activeElement.blur()")
        one.press("k")
        one.sees("#detail .notice", "Reviewers decided differently")
        one.press("a")
        one.wait(lambda: not site.get("findings/6")["conflict"], "the conflict to be settled")
    finally:
        other.run("localStorage.clear()")
        other.quit()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_serious_accessibility_violation_on_real_data(site: CommandSite, scheme: str) -> None:
    browser = site.browser
    browser.scheme(scheme)
    with browser.patient(120.0):  # the server may have been started again
        browser.wait(lambda: site.get("project")["has"]["errors"], "the predictions")
    error = site.get("errors")["items"][0]
    why = f"why?sentence={error['sentence']}&start={error['start']}&stop={error['stop']}"
    for path, ready in (("errors", "#errors-list"), ("findings?status=all", "#findings-list"), (why, "#supporters")):
        browser.open(f"{site.url}{path}")
        browser.wait(lambda ready=ready: browser.texts(f"{ready} [aria-selected=true]"), path)
        assert browser.axe() == [], path
