"""Take the pictures of the review page for the docs: ``python experiments/screenshots.py [DEMO] [OUT]``.

DEMO is a folder made by ``tagtrace demo``; without it, the demo is run first in a temporary folder. Decisions are made
in a copy of DEMO. Needs Chromium, chromedriver and selenium.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.review.browser import Browser, Keys

TAGTRACE = (sys.executable, "-c", "from tagtrace.cli import main; main()")
SIZE = (1440, 900)


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve the review page of a project, and give its address."""
    arguments = [*TAGTRACE, "review", str(folder), "--no-browser", "--reviewer", "ada", "--port", "0"]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if found := re.search(r"http://\S+", line):
                yield found[0]
                return
        raise SystemExit("tagtrace review stopped before it printed its address")
    finally:
        process.terminate()
        process.wait()


def picture(browser: Browser, path: Path) -> None:
    time.sleep(0.5)
    browser.driver.save_screenshot(str(path))
    print(path)


def take(url: str, out: Path) -> None:
    """Take pictures of the three views after some decisions, a question and an edit; then dark and zoomed."""
    browser = Browser(*SIZE)
    browser.patience = 300.0  # it trains taggers
    try:
        browser.open(url)  # with the access token, which becomes a cookie
        url = url.split("?", maxsplit=1)[0]
        browser.wait(lambda: browser.run("return !location.search"), "the page")
        browser.open(f"{url}errors?pair=ORG:LOC")
        browser.wait(lambda: browser.texts("#errors-list [aria-selected=true]"), "errors")
        picture(browser, out / "review-errors.png")
        browser.press(Keys.ENTER)
        browser.wait(lambda: browser.text("#why-shown").endswith(" s"), "the score of the whole tagger")
        browser.run("document.querySelector('[data-do=pattern]').click()")
        browser.wait(lambda: browser.texts("#what-if-answer tbody tr"), "a prediction")
        browser.press("v")
        browser.wait(lambda: "verified" in browser.text("#what-if-answer thead"), "retraining the head")
        browser.press("w")
        browser.wait(lambda: "The whole tagger retrained" in browser.text("#what-if-answer"), "retraining everything")
        picture(browser, out / "review-why.png")
        browser.press("g", "f")
        browser.wait(lambda: browser.texts("#findings-list [aria-selected=true]"), "findings")
        browser.open(f"{url}findings?status=all")
        browser.wait(lambda: browser.texts("#findings-list [aria-selected=true]"), "findings")
        browser.press("a", "a", "r", "s", "3", "h")
        browser.sees("#progress-text", "1 skipped")
        browser.wait(lambda: len(browser.texts("#history-list li")) >= 5, "the history")
        picture(browser, out / "review-findings.png")
        browser.scheme("dark")
        picture(browser, out / "review-dark.png")
        browser.scheme("light")
        browser.resize(*SIZE, zoom=2.0)
        browser.open(f"{url}findings?status=all&rank=6")
        browser.wait(lambda: browser.texts("#findings-list [aria-selected=true]"), "findings")
        picture(browser, out / "review-zoomed.png")
    finally:
        browser.quit()


def main(demo: str | None = None, out: str = "docs") -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "invented newswire"
        if demo is None:
            subprocess.run([*TAGTRACE, "demo", "--out", str(folder)], check=True)
        else:
            ignored = shutil.ignore_patterns("decisions.sqlite*", "export")
            shutil.copytree(demo, folder, ignore=ignored)
        with served(folder) as url:
            take(url, Path(out))


if __name__ == "__main__":
    main(*sys.argv[1:])
