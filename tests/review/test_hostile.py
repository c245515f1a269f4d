"""Markup in every text of a project, shown by the real server in a real browser: nothing of it comes alive."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
import uvicorn

from tagtrace.data import LabelSet, read_corpus
from tagtrace.findings import Finding
from tagtrace.review import Decisions, Review, Store, Texts
from tagtrace.review.http.app import make_app
from tagtrace.review.http.serve import listen
from tests.review.browser import Browser, Keys
from tests.review.fake_server import HOSTILE

TYPE = "<img/src=x/onerror=window.__xss=1>"
"""A label type: training data name their labels as they like."""
STRANGE = (
    "script:not([src^='/static/']), iframe, img, main svg, object, embed, form[action], "
    "[onerror], [onload], [onfocus], [onclick], a[href^='javascript:']"
)


def hostile_review(folder: Path) -> Review:
    """A project whose tokens, labels, documents, notes, name and reviewer are markup."""
    rows = list[str]()
    for number in range(30):
        turn = number % len(HOSTILE)
        tokens = HOSTILE[turn:] + HOSTILE[:turn]
        tags = [f"B-{TYPE}" if place == 2 else "O" for place in range(len(tokens))]
        names = {"id": f"{HOSTILE[turn]} {number}", "document": f"{HOSTILE[turn]} {number // 10}"}
        rows.append(json.dumps({**names, "tokens": tokens, "ner_tags": tags}))
    (folder / "train.jsonl").write_text("\n".join(rows), encoding="utf-8")
    corpus = read_corpus(folder / "train.jsonl")
    labels = LabelSet(("O", f"B-{TYPE}", f"I-{TYPE}", "B-LOC", "I-LOC"), "iob2")
    findings = [
        Finding(
            number + 1, sentence.id, sentence.document, number, 2, 3, number + 1, sentence.tokens[2:3],
            sentence.tokens[:2], sentence.tokens[3:], sentence.labels[2:3], ("B-LOC",), 1.0, 0.9, {HOSTILE[0]: 1.0},
        )
        for number, sentence in enumerate(corpus.sentences)
    ]  # fmt: skip
    decisions = Decisions(Texts(corpus, labels, findings=findings), Store(folder / "decisions.sqlite"))
    return Review(HOSTILE[1], HOSTILE[2], decisions, folder / "export")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    review, sock = hostile_review(tmp_path_factory.mktemp("hostile")), listen("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(make_app(review), log_level="critical", access_log=False))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]})
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{sock.getsockname()[1]}"
    server.should_exit = True
    thread.join()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    made = Browser()
    yield made
    made.quit()


def check_inert(browser: Browser, url: str) -> None:
    """Nothing ran, no element was made of text, nothing was asked for elsewhere, and no policy had to step in."""
    assert browser.run("return window.__xss === undefined")
    assert not browser.run("return [...document.querySelectorAll(arguments[0])].map((one) => one.outerHTML)", STRANGE)
    asked = browser.run("return performance.getEntriesByType('resource').map((one) => one.name)")
    assert all(name.startswith(url) for name in asked)
    assert not browser.complaints()


def test_markup_everywhere_is_shown_as_text(browser: Browser, url: str) -> None:
    browser.open(f"{url}/findings?status=all")
    browser.wait(lambda: browser.texts("#findings-list [aria-selected=true]"), "findings")
    browser.sees("#project-name", HOSTILE[1])
    browser.sees("#reviewer-name", HOSTILE[2])
    browser.sees("#findings-list", HOSTILE[0])
    browser.sees("#detail", TYPE)
    browser.press("a", "1", "r", "h")
    browser.sees("#history-list", HOSTILE[2])
    browser.press("n")
    browser.wait(lambda: browser.run("return document.activeElement.id") == "note-text", "the dialog")
    browser.find("#note-text").send_keys(HOSTILE[0], Keys.CONTROL, Keys.ENTER)
    browser.sees("#detail .note", HOSTILE[0])
    check_inert(browser, url)
    browser.press("o")
    browser.sees("#preview-list", TYPE)
    check_inert(browser, url)
    browser.press(Keys.ESCAPE)
    for view in ("errors", "why"):
        browser.open(f"{url}/{view}?{urlencode({'sentence': HOSTILE[1], 'start': 0, 'stop': 1, 'text': HOSTILE[0]})}")
        browser.sees("#project-name", HOSTILE[1])
        browser.wait(lambda: not browser.run("return document.querySelector('[aria-busy]')"), "an answer")
        assert all("status of 400" in one for one in browser.complaints())  # there is no index to ask
        check_inert(browser, url)


@pytest.mark.parametrize("text", HOSTILE)
def test_markup_in_an_error_is_shown_as_text(browser: Browser, url: str, text: str) -> None:
    """Errors of the server repeat what was asked."""
    browser.open(f"{url}/findings")
    browser.wait(lambda: browser.texts("#findings-list [aria-selected=true]"), "findings")
    browser.run(  # in one go: the page writes its address anew a moment after a finding is chosen
        "history.pushState(null, '', '/findings?status=' + encodeURIComponent(arguments[0]));"
        "dispatchEvent(new PopStateEvent('popstate'))",
        text,
    )
    browser.sees("#message", "expected all, conflict")
    assert all("status of 400" in one for one in browser.complaints())
    check_inert(browser, url)


def test_the_policy_stops_what_would_slip_through(browser: Browser, url: str) -> None:
    """Markup that a mistake made live does not run: neither inline handlers nor strings that become HTML."""
    browser.open(f"{url}/findings")
    browser.wait(lambda: browser.texts("#findings-list [aria-selected=true]"), "findings")
    refused = browser.run(
        """
        const tried = [
          () => (document.querySelector("main").innerHTML = "<img src=x onerror=window.__xss=1>"),
          () => document.write("<p>"),
        ];
        return tried.map((one) => { try { one(); return ""; } catch (error) { return error.name; } });
        """
    )
    assert refused == ["TypeError", "TypeError"]
    browser.run(
        "const one = document.createElement('button'); document.body.append(one);"
        "try { one.setAttribute('onclick', 'window.__xss = 1'); } catch { /* refused sooner */ } one.click();"
    )
    assert browser.run("return window.__xss === undefined")
