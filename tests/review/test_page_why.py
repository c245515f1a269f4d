"""The Why view in a real browser with the real server: from an error to what-ifs, retraining and a decision."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tagtrace.review import Review
from tagtrace.review.model.explainers import Explainers
from tests.review.browser import Browser, Keys
from tests.review.page import Site, serving, with_own_decisions
from tests.review.page_project import START, STOP, WHY


def percent(p: float) -> str:
    return "<0.1 %" if 0 < p < 0.001 else f"{100 * p:.1f} %"


def shown_probabilities(answers: list[dict[str, Any]]) -> dict[tuple[int, str], list[str]]:
    """The table of a what-if: by token and label, the probability before and after each answer."""
    before, afters = answers[0]["before"]["p"], [answer["after"]["p"] for answer in answers]
    return {
        (one["token"], one["label"]): [percent(each["p"]) for each in (one, *(after[place] for after in afters))]
        for place, one in enumerate(before)
        if one["p"] >= 0.01
    }


def check_what_if(site: Site, body: dict[str, Any], *kinds: str) -> None:
    """The table shows what the server answers to the same question, predicted and (``verify``) retrained."""
    api = site.api()
    answers = [api.job({"kind": "verify", **body}) if kind == "verify" else api.post("what-if", body) for kind in kinds]
    expected = shown_probabilities(answers)
    assert expected
    if "pattern" in body:
        assert any(cells[0] != cells[1] for cells in expected.values()), "so many edits must change something"
    tokens = site.api().get(f"why?sentence={body['sentence']}&start={START}&stop={STOP}")["query"]["tokens"]
    shown = [row.split("\t") for row in site.browser.texts("#what-if-answer tbody tr")]
    table = {row[0]: [re.sub(r"\s+", " ", cell).strip() for cell in row[1:]] for row in shown}
    for (token, label), cells in expected.items():
        assert table[f"{tokens[token]} {label}"] == cells


def test_the_whole_path(site: Site) -> None:
    site.open("errors")
    browser = site.browser
    browser.press("/")
    browser.press(*"beat007 ")
    browser.wait(lambda: browser.text("#errors-shown") == "1 error", "the error")
    browser.press(Keys.ESCAPE, Keys.ENTER)
    browser.sees("#why-query", "dev-7")
    assert "/why?" in browser.driver.current_url
    assert "text=beat007" in browser.driver.current_url
    browser.wait(lambda: browser.texts("#opposers [role=option]"), "opposers")
    browser.press("j", Keys.ARROW_RIGHT, "x")
    query = {"sentence": "dev-7", "start": START, "stop": STOP}
    asking = site.api().get("project")["asking"]
    options = f"score={asking['score']}&curvature={asking['curvature']}"
    opposers = site.api().get(f"why?sentence=dev-7&start={START}&stop={STOP}&{options}")["opposers"]
    places = [{name: one[name] for name in ("sentence_number", "start", "stop")} for one in opposers]
    browser.wait(lambda: browser.texts("#what-if-answer tbody tr"), "the prediction")
    removed = {**query, "edits": [{**places[1], "labels": None}]}
    check_what_if(site, removed, "predict")
    assert browser.texts("#what-if-answer thead th") == ["label", "before", "refined"]
    browser.press("v")
    browser.sees("#what-if-answer thead", "verified")
    check_what_if(site, removed, "predict", "verify")
    assert browser.texts("#what-if-answer thead th") == ["label", "before", "refined", "verified"]
    browser.find("#what-if-by-pattern button").click()
    browser.sees("#what-if-answer", "100 edits")
    check_what_if(site, {**query, "edits": [], "pattern": 1}, "predict")
    browser.run("document.activeElement.blur()")
    browser.press("m", "j", "m", "t")
    browser.sees("#what-if-answer", "2 edits")
    browser.press("3")
    (row,) = site.decisions(1)
    assert (row.rank, row.action, row.labels) == (None, "relabel", ("B-ORG",))
    assert (row.sentence_number, row.start, row.stop) == tuple(places[2].values())
    browser.sees("#progress-text", "+1 other decision")
    browser.driver.back()
    browser.wait(lambda: browser.text("#errors-shown") == "1 error", "the errors")
    browser.driver.refresh()
    browser.wait(lambda: browser.text("#errors-shown") == "1 error", "the errors")
    assert browser.find("#view-errors [name=text]").get_attribute("value") == "beat007"
    browser.press("g", "f")
    browser.wait(lambda: "/findings?" in browser.driver.current_url, "the findings")
    browser.press("e")
    browser.wait(lambda: browser.run("return document.activeElement.id") == "export-run", "the dialog")
    browser.press(Keys.ENTER)
    browser.sees("#export-answer", "export/train.jsonl")
    assert (site.review.export / "train.jsonl").is_file()
    assert not browser.complaints()


def without_curvature(opened: Review, folder: Path) -> Review:
    """The project before any curvature is computed."""
    review = with_own_decisions(opened, folder)
    model = review.the_model()
    model.explainers = Explainers(model.index)
    return review


def asked_why(site: Site) -> list[str]:
    return [path for path in site.faults.asked if path.startswith("/api/why")]


def seconds_shown(browser: Browser) -> bool:
    return re.fullmatch(r"\d+\.\d\d s", browser.text("#why-shown")) is not None


def test_why_answers_before_the_curvature_is_computed(browser: Browser, opened: Review, tmp_path: Path) -> None:
    with serving(browser, without_curvature(opened, tmp_path)) as site:
        site.faults.held = "/api/jobs/"
        site.open(f"{WHY}&curvature=dense")
        browser.sees("#why-shown", "Shown without curvature, which is being computed")
        assert len(asked_why(site)) == 1
        site.faults.held = ""
        browser.wait(lambda: seconds_shown(browser), "the answer with curvature")
        assert len(asked_why(site)) == 2
        assert all("wait=false" in path for path in asked_why(site))


def test_an_answer_in_use_does_not_change_by_itself(browser: Browser, opened: Review, tmp_path: Path) -> None:
    with serving(browser, without_curvature(opened, tmp_path)) as site:
        site.faults.held = "/api/jobs/"
        site.open(f"{WHY}&curvature=dense")
        browser.press("j", "x")
        browser.sees("#what-if-answer", "Computing the curvature")
        site.faults.held = ""
        browser.wait(lambda: browser.texts("#what-if-answer tbody tr"), "the prediction")
        browser.sees("#why-shown", "Update with curvature")
        assert len(asked_why(site)) == 1
        browser.find("#why-shown button").click()
        browser.wait(lambda: seconds_shown(browser), "the answer with curvature")
        assert len(asked_why(site)) == 2
