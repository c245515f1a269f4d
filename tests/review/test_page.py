"""The review page in a real browser against a stand-in for the server: keyboard, address, failures."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.review.browser import Browser, Keys
from tests.review.fake_server import STATIC, TYPES, Fake, serve
from tests.review.page import WHY, Site, browsers, renewed, sites

MODULES = sorted(STATIC.rglob("*.js"))


@pytest.fixture(scope="module", name="shared_browser")
def _shared_browser() -> Iterator[Browser]:
    yield from browsers()


@pytest.fixture(name="browser")
def _browser(shared_browser: Browser) -> Browser:
    return renewed(shared_browser)


@pytest.fixture(name="site")
def _site(browser: Browser) -> Iterator[Site]:
    yield from sites(browser)


def test_nothing_is_inline_and_text_is_only_set_as_text() -> None:
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=", page)
    assert not re.search(r"(src|href)=\"(https?:)?//", page)
    for module in MODULES:
        text = module.read_text(encoding="utf-8")
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text)
        assert not re.search(r"https?://", text)
        name = module.relative_to(STATIC).as_posix()
        assert name == "main.js" or f'rel="modulepreload" href="/static/{name}"' in page, f"{name} is not preloaded"


def test_modules_are_short() -> None:
    for module in MODULES:
        assert len(module.read_text(encoding="utf-8").splitlines()) <= 330, module.name


def test_decide_by_keyboard(site: Site) -> None:
    site.open()
    browser = site.browser
    assert site.rank == "1"
    browser.press("a", "r", "s", "4", "0")
    rows = site.decisions(5)
    assert [(row["rank"], row["action"], row["labels"]) for row in rows] == [
        (1, "accept", ["B-ORG", "I-ORG"]),
        (2, "reject", None),
        (3, "skip", None),
        (4, "relabel", ["B-PER", "I-PER"]),
        (5, "relabel", ["O", "O"]),
    ]
    assert len({row["key"] for row in rows}) == 5
    browser.wait(lambda: site.rank == "6", "the next finding")
    browser.sees("#progress-text", "295 open · 3 accepted · 1 rejected · 1 skipped")
    browser.press("k", "k")
    browser.wait(lambda: site.rank == "4", "the finding before")
    browser.sees("#detail", "B-PER I-PER")
    browser.press("c")
    assert site.decisions(6)[-1]["action"] == "reopen"
    assert site.fake.rows[-1]["base"] == 4
    assert not browser.complaints()


def test_the_labels_given_are_a_rejection(site: Site) -> None:
    site.open("findings?status=all")
    browser = site.browser
    number = 1 + TYPES.index("LOC")
    browser.press(str(number))
    browser.sees("#message", "Finding 1 rejected: its labels are kept as given")
    browser.sees("#progress-text", "299 open · 0 accepted · 1 rejected")
    assert [(row["action"], row["labels"]) for row in site.decisions(1)] == [("relabel", ["B-LOC", "I-LOC"])]
    browser.press("h", "k")
    browser.sees("#detail", "rejected by ada")
    browser.sees("#detail", "kept as given, B-LOC I-LOC")
    browser.sees("#history-list", "rejected: kept as given")
    browser.driver.refresh()
    browser.sees("#progress-text", "299 open · 0 accepted · 1 rejected")
    assert not browser.complaints()


def test_boundaries_of_the_segment(site: Site) -> None:
    site.open()
    browser = site.browser
    browser.press(Keys.ARROW_RIGHT, shift=True)
    browser.press("]")
    browser.wait(lambda: len(browser.texts("#detail .diff tbody tr")) == 3, "both moves")
    assert browser.texts("#detail .diff tbody tr") == [
        "Eastmoor\t\N{MINUS SIGN} B-LOC\t+ O",
        "United\t\N{MINUS SIGN} I-LOC\t+ B-ORG",
        "beat1\t\N{MINUS SIGN} O\t+ I-ORG",
    ]
    browser.press("a")
    (row,) = site.decisions(1)
    assert (row["action"], row["start"], row["stop"], row["labels"]) == ("relabel", 5, 8, ["O", "B-ORG", "I-ORG"])
    browser.wait(lambda: site.rank == "2", "the next finding")
    browser.press("[")
    browser.press(Keys.ARROW_LEFT, Keys.ARROW_LEFT, shift=True)
    browser.press("4")
    row = site.decisions(2)[-1]
    assert (row["start"], row["stop"], row["labels"]) == (4, 7, ["B-PER", "O", "O"])


def test_undo_redo_history_and_notes(site: Site) -> None:
    site.open()
    browser = site.browser
    browser.press("a", "r")
    site.decisions(2)
    browser.press("u")
    browser.wait(lambda: site.fake.rows[1]["undone"], "undo")
    browser.wait(lambda: site.rank == "2", "what was undone")
    browser.press("u")
    browser.sees("#progress-text", "300 open")
    browser.press("U")
    browser.sees("#progress-text", "299 open · 1 accepted")
    browser.press("h")
    browser.sees("#history-list", "accept")
    assert ["undone" in one for one in browser.texts("#history-list li")] == [True, False]
    browser.press("n")
    browser.wait(lambda: browser.run("return document.activeElement.id") == "note-text", "the dialog")
    browser.press(*"see a 1 u")
    browser.find("#note-text").send_keys(Keys.CONTROL, Keys.ENTER)
    assert site.decisions(3)[-1]["note"] == "see a 1 u"
    browser.sees("#detail .note", "see a 1 u")
    browser.sees("#history-list", "see a 1 u")


def test_the_whole_path(site: Site) -> None:
    site.open("errors")
    browser = site.browser
    browser.press("/")
    browser.press(*"beat7 ")
    browser.sees("#errors-shown", "1 error")
    browser.press(Keys.ESCAPE, Keys.ENTER)
    browser.sees("#why-query", "dev-7")
    assert "/why?" in browser.driver.current_url
    assert "text=beat7" in browser.driver.current_url
    browser.press("j", Keys.ARROW_RIGHT, "x")
    browser.sees("#what-if-answer", "35.0 %")
    browser.press("v")
    browser.sees("#what-if-answer", "31.0 %")
    assert browser.texts("#what-if-answer thead th") == ["label", "before", "predicted", "retrained"]
    browser.press("m", "j", "m", "t")
    browser.sees("#what-if-answer", "2 edits")
    browser.press("3")
    row = site.decisions(1)[-1]
    assert (row["rank"], row["action"], row["labels"]) == (None, "relabel", ["B-ORG", "I-ORG"])
    browser.sees("#progress-text", "+1 other label")
    browser.driver.back()
    browser.sees("#errors-shown", "1 error")
    browser.driver.refresh()
    browser.sees("#errors-shown", "1 error")
    assert browser.find("#view-errors [name=text]").get_attribute("value") == "beat7"
    browser.press("g", "f")
    browser.wait(lambda: "/findings?" in browser.driver.current_url, "the findings")
    browser.press("e")
    browser.wait(lambda: browser.run("return document.activeElement.id") == "export-run", "the dialog")
    browser.press(Keys.ENTER)
    browser.sees("#export-answer", "export/train.conll")
    assert not browser.complaints()


def test_a_link_leads_to_the_same_place(site: Site) -> None:
    site.open("findings?status=all&pattern=2&rank=242")
    browser = site.browser
    assert site.rank == "242"
    assert browser.find("#findings-list [aria-selected=true]").get_attribute("aria-posinset") == "81"
    assert browser.texts("#patterns [aria-current]")[0].startswith("2.")
    browser.press("j")
    browser.wait(lambda: "rank=245" in browser.driver.current_url, "the address")
    browser.run("document.querySelector('#patterns a').click()")
    browser.sees("#findings-shown", "300 findings")
    browser.driver.back()
    browser.sees("#findings-shown", "100 findings")
    browser.wait(lambda: site.rank == "245", "the finding of that address")
    site.fake.decide({"rank": 1, "sentence_number": 1, "start": 5, "stop": 7, "action": "reject", "labels": None,
    "note": "",
                      "base": None, "key": "x"}, 1)  # fmt: skip
    browser.open(f"{site.url}/findings?rank=1")
    browser.sees("#detail", "rejected by ada")


def ticks(browser: Browser) -> list[bool]:
    return browser.run("return [...document.querySelectorAll('#preview-list input')].map((one) => one.checked)")


def test_only_findings_of_the_same_change_are_ticked_at_first(site: Site) -> None:
    site.fake.num_alike = 2
    site.open()
    browser = site.browser
    browser.press("o")
    browser.sees("#preview-count", "3 of 4 places ticked")
    assert ticks(browser) == [True, True, True, False]
    browser.sees(
        "#preview-about", "Ticked at first (3): this finding and the 2 others that are open findings of the same"
    )
    browser.press(Keys.SPACE)
    assert browser.run("return document.activeElement.id") == "preview-list"
    assert browser.run("return document.querySelector('#preview').open")
    assert not site.fake.rows
    browser.find("#preview-apply").click()
    assert [row["sentence_number"] for row in site.decisions(3)] == [1, 900, 901]


def test_findings_of_the_same_change_that_are_still_to_come_are_counted(site: Site) -> None:
    site.fake.num_occurrences, site.fake.num_alike = 2345, 50
    site.open()
    browser = site.browser
    browser.press("o")
    browser.sees("#preview-count", "51 of 2,346 places ticked")
    browser.sees("#preview-more", "of 2,316")
    browser.sees("#preview-count", "51 of 2,346 places ticked")
    browser.find("#preview-apply").click()
    assert [row["sentence_number"] for row in site.decisions(51)] == [1, *range(900, 950)]


def test_all_occurrences_with_a_preview(site: Site) -> None:
    site.open()
    browser = site.browser
    browser.press("o")
    browser.wait(lambda: browser.run("return document.activeElement.id") == "preview-list", "the dialog")
    assert ticks(browser) == [True, False, False, False]
    browser.sees("#preview-about", "Ticked at first (1): only this finding")
    browser.find("#preview-list li:nth-child(2) input").click()
    browser.find("#preview-list li:nth-child(4) input").click()
    browser.sees("#preview-count", "3 of 4 places")
    browser.find("#preview-apply").click()
    rows = site.decisions(3)
    assert [(row["rank"], row["sentence_number"]) for row in rows] == [(1, 1), (None, 900), (None, 902)]
    assert {tuple(row["labels"]) for row in rows} == {("B-ORG", "I-ORG")}
    browser.sees("#message", "3 decisions made")
    browser.sees("#progress-text", "1 accepted · 0 rejected · 0 skipped · +2 other labels")
    browser.press("u")
    browser.wait(lambda: all(row["undone"] for row in site.fake.rows), "undo of all three")
    browser.sees("#message", "3 decisions undone")
    browser.wait(lambda: "other" not in browser.text("#progress-text"), "no other labels")


def test_very_many_occurrences_can_all_be_looked_at(site: Site) -> None:
    site.fake.num_occurrences = 2345
    site.open()
    browser = site.browser
    browser.press("o")
    browser.sees("#preview-count", "1 of 2,346 places")
    browser.find("#preview-all").click()
    browser.sees("#preview-count", "2,346 of 2,346 places")
    browser.sees("#preview-more", "of 2,316")
    assert len(browser.texts("#preview-list li")) == 30
    browser.find("#preview-more").click()
    assert len(browser.texts("#preview-list li")) == 60
    assert browser.run("return document.activeElement === document.querySelectorAll('#preview-list input')[30]")
    browser.find("#preview-list li:nth-child(60) input").click()
    browser.find("#preview-apply").click()
    rows = site.decisions(2345)
    assert {row["sentence_number"] for row in rows} == {1, *range(900, 3245)} - {958}


def test_other_boundaries_at_all_occurrences(site: Site) -> None:
    site.open()
    browser = site.browser
    browser.press(Keys.ARROW_RIGHT, shift=True)
    browser.wait(lambda: len(browser.texts("#detail .diff tbody tr")) == 3, "the move")
    browser.press("o")
    browser.sees("#preview-about", "“Eastmoor United beat1” has the labels B-LOC I-LOC O at 3 other places")
    browser.find("#preview-all").click()
    browser.find("#preview-apply").click()
    rows = site.decisions(4)
    assert [(row["rank"], row["start"], row["stop"], row["labels"], row["action"]) for row in rows] == [
        (1 if number == 0 else None, 5, 8, ["B-ORG", "I-ORG", "I-ORG"], "relabel") for number in range(4)
    ]


def test_the_first_page_asks_for_nothing_twice(site: Site) -> None:
    site.open("findings?rank=242&status=all")
    site.browser.wait(lambda: any("findings/242" in path for path in site.fake.asked), "the sentence")
    asked = [path for path in site.fake.asked if "changes" not in path]
    assert len(asked) == len(set(asked))
    assert len([path for path in asked if path.startswith(("/api/project", "/api/patterns"))]) == 2
    site.fake.asked.clear()
    site.open("errors?text=beat7")
    assert len([path for path in site.fake.asked if path.startswith("/api/errors")]) == 1


def test_why_answers_before_the_curvature_is_worked_out(site: Site) -> None:
    site.fake.is_ready = False
    site.open(f"{WHY}&curvature=dense")
    browser = site.browser
    browser.sees("#why-shown", "Without curvature for now")
    browser.sees("#why-shown", "0.12 s")
    asked = [path for path in site.fake.asked if path.startswith("/api/why")]
    assert len(asked) == 2
    assert all("wait=false" in path for path in asked)


def test_an_answer_that_is_worked_on_does_not_change_by_itself(site: Site) -> None:
    site.fake.is_ready = False
    site.open(f"{WHY}&curvature=dense")
    browser = site.browser
    browser.press("j", "x")
    browser.sees("#what-if-answer", "working out the curvature")
    browser.sees("#what-if-answer", "35.0 %")
    browser.sees("#why-shown", "Ask again with curvature")
    assert len([path for path in site.fake.asked if path.startswith("/api/why")]) == 1
    browser.find("#why-shown button").click()
    browser.sees("#why-shown", "0.12 s")


def test_a_note_is_taken_away(site: Site) -> None:
    site.open()
    browser = site.browser
    for text in ("seen", ""):
        browser.press("n")
        browser.wait(lambda: browser.run("return document.activeElement.id") == "note-text", "the dialog")
        browser.find("#note-text").clear()
        browser.find("#note-text").send_keys(text, Keys.CONTROL, Keys.ENTER)
    assert [(row["action"], row["note"]) for row in site.decisions(2)] == [("note", "seen"), ("note", "")]
    browser.wait(lambda: not browser.texts("#detail .note"), "the note to go")


def test_refused_decisions_are_taken_back(site: Site) -> None:
    site.open()
    browser = site.browser
    site.fake.refuse = "tokens 5:7 are locked"
    browser.press("a")
    browser.sees("#message", "Finding 1 was not decided: tokens 5:7 are locked")
    browser.sees("#findings-list-0", "open")
    browser.sees("#progress-text", "300 open")


def test_an_answer_that_is_lost_does_not_decide_twice(site: Site) -> None:
    site.open()
    site.fake.broken = 2
    site.browser.press("a", "r")
    rows = site.decisions(2)
    site.browser.wait(lambda: not site.fake.broken and site.browser.text("#banner") == "", "the retries")
    site.browser.sees("#progress-text", "1 accepted · 1 rejected")
    assert [row["action"] for row in rows] == ["accept", "reject"]


def test_decisions_wait_while_the_server_is_gone(site: Site) -> None:
    site.open()
    browser = site.browser
    site.stop()
    browser.press("a", "s")
    browser.sees("#banner", "The server does not answer")
    browser.sees("#progress-text", "298 open")
    site.fake.csrf = "another-after-the-restart"
    site.fake.is_gone = False
    site.server = serve(site.fake, site.port)
    assert [row["action"] for row in site.decisions(2)] == ["accept", "skip"]
    browser.wait(lambda: not browser.text("#banner"), "the banner to go")


def test_decisions_on_their_way_outlive_a_reload(site: Site) -> None:
    site.open()
    browser = site.browser
    browser.run("window.fetch = () => new Promise(() => {})")
    browser.press("a", "r")
    browser.driver.refresh()
    assert [row["action"] for row in site.decisions(2)] == ["accept", "reject"]


def test_another_reviewer_is_seen_and_conflicts_are_shown(site: Site) -> None:
    site.open("findings?status=all")
    browser = site.browser
    other = {"rank": 3, "sentence_number": 3, "start": 5, "stop": 7, "action": "relabel", "labels": ["B-PER", "I-PER"],
             "note": "", "base": None, "key": "bob-1"}  # fmt: skip
    site.fake.decide(other, 77, "bob")
    browser.sees("#findings-list-2", "accepted")
    browser.sees("#progress-text", "299 open")
    browser.press("a")
    site.decisions(2)
    site.fake.decide({**other, "rank": 1, "sentence_number": 1, "key": "bob-2"}, 78, "bob")
    browser.sees("#findings-list-0", "conflict")
    browser.press("k")
    browser.sees("#detail .notice", "Reviewers decided differently")


def test_thousands_of_findings_are_not_all_in_the_page(browser: Browser) -> None:
    site = Site(browser, Fake(5000))
    try:
        site.open()
        assert browser.run("return document.querySelectorAll('#findings-list [role=option]').length") < 50
        browser.press(Keys.END)
        browser.wait(lambda: site.rank == "5000", "the last one")
        assert browser.run("return document.querySelectorAll('#findings-list [role=option]').length") < 50
        browser.press(Keys.HOME)
        browser.wait(lambda: site.rank == "1", "the first one")
        browser.press(*"jjjjjjjjjjkkaarrssj" * 3)
        assert len(site.decisions(18)) == 18
    finally:
        site.stop()
        browser.open("about:blank")


def test_pages_stay_in_place_while_findings_leave_the_list(site: Site) -> None:
    site.open()
    browser = site.browser
    browser.press(*"aaaaa")
    site.decisions(5)
    for _ in range(3):
        browser.press(*[Keys.PAGE_DOWN] * 4)
    browser.press(Keys.END)
    browser.wait(lambda: site.rank == "300", "the last one")
    seen = browser.run("return [...document.querySelectorAll('#findings-list .rank')].map((one) => one.innerText)")
    assert "#299" in seen
    assert "#300" in seen
    assert len(seen) == len(set(seen))
