"""Markup in every text of a project, shown by the real server in a real browser, is never interpreted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tagtrace.data import LabelSet
from tagtrace.findings import Finding
from tagtrace.review import Review, open_review
from tests.review.browser import Browser, Keys
from tests.review.made import write_audit
from tests.review.page import Site, serving, with_own_decisions
from tests.review.page_project import build, project_file

HOSTILE = (
    "<script>window.__xss=1</script>",
    "<img src=x onerror=window.__xss=1>",
    "<svg/onload=window.__xss=1>",
    "javascript:window.__xss=1",
    '"><iframe src=http://evil.invalid/></iframe>',
    "'-window.__xss=1-'",
    "{{constructor.constructor('window.__xss=1')()}}",
    "</style></title><script>window.__xss=1</script>",
    "&lt;script&gt;window.__xss=1&lt;/script&gt;",
    "<a href=javascript:window.__xss=1 autofocus onfocus=window.__xss=1>x</a>",
    "\u202egnp.exe",
)
"""Tokens that are markup, to be shown as they are."""
TYPE = "<img/src=x/onerror=window.__xss=1>"
"""A label type; training data can use any names."""
STRANGE = (
    "script:not([src^='/static/']), iframe, img, main svg, object, embed, form[action], "
    "[onerror], [onload], [onfocus], [onclick], a[href^='javascript:']"
)
NUM_SENTENCES = 60


def write_hostile(path: Path, kind: str) -> None:
    """Sentences whose ids, documents, tokens and labels are markup."""
    rows = list[str]()
    for number in range(NUM_SENTENCES):
        turn = number % len(HOSTILE)
        tokens = HOSTILE[turn:] + HOSTILE[:turn]
        tags = [f"B-{kind}" if place == 2 else "O" for place in range(len(tokens))]
        names = {"id": f"{path.stem} {number} {HOSTILE[turn]}", "document": f"{HOSTILE[turn]} {number // 10}"}
        rows.append(json.dumps({**names, "tokens": tokens, "ner_tags": tags}))
    path.write_text("\n".join(rows), encoding="utf-8")


@pytest.fixture(scope="module")
def opened_hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Review]:
    """A project whose tokens, labels, documents and evidence are markup, with a tagger, an index and an audit."""
    folder = tmp_path_factory.mktemp("hostile")
    write_hostile(folder / "train.jsonl", TYPE)
    write_hostile(folder / "dev.jsonl", "LOC")
    sentences = build(folder, LabelSet(("O", f"B-{TYPE}", f"I-{TYPE}", "B-LOC", "I-LOC"), "iob2"))
    findings = [
        Finding(
            number + 1, sentence.id, sentence.document, number, 2, 3, number + 1, sentence.tokens[2:3],
            sentence.tokens[:2], sentence.tokens[3:], sentence.labels[2:3], ("B-LOC",), 1.0, 0.9, {HOSTILE[0]: 1.0},
        )
        for number, sentence in enumerate(sentences)
    ]  # fmt: skip
    write_audit(folder / "audit", findings, ())
    review = open_review(project_file(folder), "ada")
    assert review.held is not None
    assert review.held.wait(60)
    yield review
    review.close()


@pytest.fixture
def hostile(browser: Browser, opened_hostile: Review, tmp_path: Path) -> Iterator[Site]:
    """The same with a name and a reviewer that are markup."""
    review = replace(with_own_decisions(opened_hostile, tmp_path), name=HOSTILE[1], reviewer=HOSTILE[2])
    with serving(browser, review) as site:
        yield site


def check_inert(site: Site) -> None:
    """No script ran, no text became an element, nothing was requested elsewhere and no policy was violated."""
    browser = site.browser
    assert browser.run("return window.__xss === undefined")
    assert not browser.run("return [...document.querySelectorAll(arguments[0])].map((one) => one.outerHTML)", STRANGE)
    asked = browser.run("return performance.getEntriesByType('resource').map((one) => one.name)")
    assert all(name.startswith(site.url) for name in asked)
    assert not browser.complaints()


def test_markup_everywhere_is_shown_as_text(hostile: Site) -> None:
    browser = hostile.browser
    hostile.open("findings?status=all")
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
    check_inert(hostile)
    browser.press("o")
    browser.sees("#preview-list", TYPE)
    check_inert(hostile)


@pytest.mark.parametrize("view", ["errors", "findings", "why"])
def test_markup_stays_text_after_every_action(hostile: Site, view: str) -> None:
    browser = hostile.browser
    error = hostile.api().get("errors")["items"][0]
    queries = {"why": {name: error[name] for name in ("sentence", "start", "stop")}, "findings": {"status": "all"}}
    hostile.open(f"{view}?{urlencode(queries.get(view, {}))}")
    for key in ("h", "j", "a", "x", "v", "o"):
        browser.press(key)
    browser.wait(lambda: not browser.run("return document.querySelector('[aria-busy]')"), "an answer")
    if view == "why":
        browser.sees("#what-if-answer thead", "verified")
    shown = browser.text("main")
    assert all(token in shown for token in HOSTILE[1:3])
    check_inert(hostile)


@pytest.mark.parametrize("text", HOSTILE)
def test_markup_in_an_error_is_shown_as_text(hostile: Site, text: str) -> None:
    """Errors of the server repeat what was asked."""
    browser = hostile.browser
    hostile.open("findings")
    browser.run(  # in one step, because the page updates its address shortly after a finding is chosen
        "history.pushState(null, '', '/findings?status=' + encodeURIComponent(arguments[0]));"
        "dispatchEvent(new PopStateEvent('popstate'))",
        text,
    )
    browser.sees("#message", "expected all, conflict")
    assert all("status of 400" in one for one in browser.complaints())
    check_inert(hostile)


def test_hostile_addresses_are_inert(site: Site) -> None:
    browser = site.browser
    for name in ("text", "pair", "target", "sentence", "document", "pattern"):
        for view in ("errors", "findings", "why"):
            browser.open(
                f"{site.url}/{view}?{name}=%22%3E%3Cimg%20src%3Dx%20onerror%3Dwindow.__xss%3D1%3E&start=1&stop=2"
            )
            browser.wait(lambda: browser.text("#project-name") == site.review.name, "the page")
            assert browser.run("return window.__xss === undefined && !document.querySelector('img')")


def test_the_policy_stops_what_would_slip_through(hostile: Site) -> None:
    """Markup that a mistake made live does not run: neither inline handlers nor strings that become HTML."""
    browser = hostile.browser
    hostile.open("findings")
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
