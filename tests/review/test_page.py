"""The review page in a real browser with the real server: keys, addresses and long lists."""

from __future__ import annotations

from pathlib import Path

from tests.review.browser import Browser, Keys
from tests.review.made import light_review, write_light
from tests.review.page import Site, serving
from tests.review.page_project import TYPES


def test_decide_by_keyboard(site: Site) -> None:
    site.open()
    browser = site.browser
    assert site.rank == "1"
    browser.press("a", "r", "s", "4", "0")
    rows = site.decisions(5)
    assert [(row.rank, row.action, row.labels) for row in rows] == [
        (1, "accept", ("B-ORG", "I-ORG")),
        (2, "reject", None),
        (3, "skip", None),
        (4, "relabel", ("B-PER", "I-PER")),
        (5, "relabel", ("O", "O")),
    ]
    assert len({row.key for row in rows}) == 5
    browser.wait(lambda: site.rank == "6", "the next finding")
    browser.sees("#progress-text", "295 open · 3 accepted · 1 rejected · 1 skipped")
    browser.press("k", "k")
    browser.wait(lambda: site.rank == "4", "the finding before")
    browser.sees("#detail", "B-PER I-PER")
    browser.press("x")
    assert site.decisions(6)[-1].action == "reopen"
    assert site.rows[-1].base == rows[3].id
    assert not browser.complaints()


def test_the_labels_given_are_a_rejection(site: Site) -> None:
    site.open("findings?status=all")
    browser = site.browser
    number = 1 + TYPES.index("LOC")
    browser.press(str(number))
    browser.sees("#message", "Finding 1 rejected: the given labels are kept")
    browser.sees("#progress-text", "299 open · 0 accepted · 1 rejected")
    assert [(row.action, row.labels) for row in site.decisions(1)] == [("relabel", ("B-LOC", "I-LOC"))]
    browser.press("h", "k")
    browser.sees("#detail", "rejected by ada")
    browser.sees("#detail", "given labels kept, B-LOC I-LOC")
    browser.sees("#history-list", "rejected: given labels kept")
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
        "Eastmoor001\t\N{MINUS SIGN} B-LOC\t+ O",
        "United\t\N{MINUS SIGN} I-LOC\t+ B-ORG",
        "beat001\t\N{MINUS SIGN} O\t+ I-ORG",
    ]
    browser.press("a")
    (row,) = site.decisions(1)
    assert (row.action, row.start, row.stop, row.labels) == ("relabel", 5, 8, ("O", "B-ORG", "I-ORG"))
    browser.wait(lambda: site.rank == "2", "the next finding")
    browser.press("[")
    browser.press(Keys.ARROW_LEFT, Keys.ARROW_LEFT, shift=True)
    browser.press("4")
    row = site.decisions(2)[-1]
    assert (row.start, row.stop, row.labels) == (4, 7, ("B-PER", "O", "O"))


def test_undo_redo_history_and_notes(site: Site) -> None:
    site.open()
    browser = site.browser
    browser.press("a", "r")
    site.decisions(2)
    browser.press("u")
    browser.wait(lambda: site.api().get("history")["items"][0]["undone"], "undo")
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
    assert site.decisions(3)[-1].note == "see a 1 u"
    browser.sees("#detail .note", "see a 1 u")
    browser.sees("#history-list", "see a 1 u")


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
    site.api().decide(1, "reject")
    browser.open(f"{site.url}/findings?rank=1")
    browser.sees("#detail", "rejected by ada")


def test_the_first_page_asks_for_nothing_twice(site: Site) -> None:
    site.open("findings?rank=242&status=all")
    site.browser.wait(lambda: any("findings/242" in path for path in site.faults.asked), "the sentence")
    asked = [path for path in site.faults.asked if "changes" not in path]
    assert len(asked) == len(set(asked))
    assert len([path for path in asked if path.startswith(("/api/project", "/api/patterns"))]) == 2
    site.faults.asked.clear()
    site.open("errors?text=beat007")
    assert len([path for path in site.faults.asked if path.startswith("/api/errors")]) == 1


def test_a_note_is_taken_away(site: Site) -> None:
    site.open()
    browser = site.browser
    for text in ("seen", ""):
        browser.press("n")
        browser.wait(lambda: browser.run("return document.activeElement.id") == "note-text", "the dialog")
        browser.find("#note-text").clear()
        browser.find("#note-text").send_keys(text, Keys.CONTROL, Keys.ENTER)
    assert [(row.action, row.note) for row in site.decisions(2)] == [("note", "seen"), ("note", "")]
    browser.wait(lambda: not browser.texts("#detail .note"), "the note to go")


def test_thousands_of_findings_are_not_all_in_the_page(browser: Browser, tmp_path: Path) -> None:
    write_light(tmp_path, 4200)
    with serving(browser, light_review(tmp_path)) as site:
        total = len(site.review.data.findings)
        assert total > 5000
        site.open()
        assert browser.run("return document.querySelectorAll('#findings-list [role=option]').length") < 50
        browser.press(Keys.END)
        browser.wait(lambda: site.rank == str(total), "the last one")
        assert browser.run("return document.querySelectorAll('#findings-list [role=option]').length") < 50
        browser.press(Keys.HOME)
        browser.wait(lambda: site.rank == "1", "the first one")
        browser.press(*"jjjjjjjjjjkkaarrssj" * 3)
        assert len(site.decisions(18)) == 18


def test_pages_stay_in_place_while_findings_leave_the_list(site: Site) -> None:
    site.open()
    browser = site.browser
    browser.press(*"aaaaa")
    site.decisions(5)
    for _ in range(3):
        browser.press(*[Keys.PAGE_DOWN] * 4)
    browser.press(Keys.END)
    browser.wait(lambda: site.rank == "300", "the last one")
    selected = browser.find("#findings-list [aria-selected=true]")
    assert (selected.get_attribute("aria-posinset"), selected.get_attribute("aria-setsize")) == ("300", "300")
    seen = browser.run("return [...document.querySelectorAll('#findings-list .rank')].map((one) => one.innerText)")
    assert "#299" in seen
    assert "#300" in seen
    assert len(seen) == len(set(seen))
