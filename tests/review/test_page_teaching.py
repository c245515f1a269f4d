"""Decisions teach, in a real browser: the new order, sentences that are marked as correct, and short sessions.

Every fifth finding of the project proposes O for the club, the others ORG; each has a sentence of its own.
"""

from __future__ import annotations

from itertools import count

from tests.review.page import Site
from tests.review.page_project import START, STOP

FIRST = 12
REASONS = ("probably wrong", "says most about the others", "random sample")


def ranks(site: Site) -> list[int]:
    """The ranks of the first rows of the list."""
    shown = "return [...document.querySelectorAll('#findings-list .rank')].map((one) => one.innerText)"
    return [int(text.removeprefix("#")) for text in site.browser.run(shown)][:FIRST]


def test_ten_decisions_change_the_order(site: Site) -> None:
    """Of ten findings, those that propose O are accepted: the others of them rise, and the reviewer stays in place."""
    site.open()
    browser = site.browser
    browser.press(*"rrrrarrrra")
    assert [row.rank for row in site.decisions(10) if row.action == "accept"] == [5, 10]
    browser.sees("#taught", "ranked again after 10 decisions: ")
    browser.sees("#message", "Ranked again after 10 decisions: ")
    assert site.rank == "11"
    selected = "#findings-list [aria-selected=true]"
    browser.wait(lambda: int(browser.find(selected).get_attribute("aria-posinset")) > 40, "the place of the finding")
    assert browser.text(f"{selected} .rank") == "#11"
    assert site.api().get("changes")["taught"] == 10
    browser.open(f"{site.url}/findings")
    browser.wait(lambda: len(ranks(site)) == FIRST, "the list")
    assert all(rank % 5 == 0 and rank > 10 for rank in ranks(site))
    browser.sees("#taught", "the number of wrong labels is not known yet; the next 50 decisions should find about ")
    browser.find("[name=order] [value=rank]").click()
    browser.wait(lambda: ranks(site)[:5] == [11, 12, 13, 14, 15], "the order of the ranks")
    assert "order=rank" in browser.driver.current_url
    assert not browser.complaints()


def test_a_sentence_is_marked_as_correct_and_taught_at_once(site: Site) -> None:
    site.open()
    browser = site.browser
    browser.press("c")
    browser.wait(lambda: site.rank == "2", "the next finding")
    (row,) = site.decisions(1)
    assert (row.action, row.rank, row.start, row.stop) == ("relabel", None, 0, 13)
    assert row.labels == row.given
    browser.sees("#progress-text", "299 open · 0 accepted · 1 rejected · 0 skipped · +1 other decision")
    browser.press("a", "k")
    browser.wait(lambda: site.rank in ("1", "2"), "the finding before")
    browser.press("t")
    browser.sees("#taught", "ranked again after 2 decisions: ")
    browser.sees("#taught", " rose into the first 100, ")
    browser.press("u", "u")
    browser.sees("#progress-text", "300 open")
    assert not site.api().get("sentences/1")["is_checked"]
    assert not browser.complaints()


def test_an_accepted_label_is_part_of_a_correct_sentence(site: Site) -> None:
    site.open("findings?status=all")
    browser = site.browser
    browser.press("a", "k", "c")
    row = site.decisions(2)[-1]
    assert row.labels is not None
    assert row.labels[START:STOP] == ("B-ORG", "I-ORG")
    assert site.api().get("findings/1")["status"] == "accepted"
    browser.sees("#progress-text", "299 open · 1 accepted")


def test_a_short_session(site: Site) -> None:
    """A few questions: findings, and a sentence in which a segment is corrected before it is marked."""
    site.open()
    browser = site.browser
    browser.press("S", shift=False)
    browser.sees("#session", "Question 1 of 50")
    browser.sees("#session", "the next 50 decisions should find about")
    asked = list[str]()
    for number in count(1):
        if number > 11 and asked[-1] != "sentence":
            break
        browser.sees("#session", f"Question {number} of 50")
        browser.wait(lambda: any(reason in browser.text("#session") for reason in REASONS), "the reason")
        is_sentence = "random sample" in browser.text("#session")
        before = len(site.rows)
        if is_sentence:
            browser.sees("#sentence-check", "Is every label here right?")
            asked.append("sentence")
            if asked.count("sentence") == 1:
                browser.press("3")  # ORG for the first segment
                browser.wait(lambda: "ORG" in browser.text("#sentence-check .sentence mark"), "the new label")
                browser.sees("#message", "Press c when every label is right")
            browser.press("c")
        else:
            browser.wait(lambda: site.rank not in ("", *asked), "another finding")
            asked.append(site.rank)
            browser.press("a")
        site.decisions(before + 1)
    assert asked.count("sentence") in (2, 3, 4)  # two of ten; the findings were ranked again in between
    assert len([one for one in asked if one != "sentence"]) == len({one for one in asked if one != "sentence"})
    corrected, marked = [row for row in site.rows if row.rank is None or row.action == "relabel"][:2]
    assert corrected.labels is not None
    assert corrected.labels[0] == "B-ORG"
    assert (marked.sentence_number, marked.start) == (corrected.sentence_number, 0)
    found = site.api().get(f"sentences/{marked.sentence_number}")
    assert found["is_checked"]
    assert found["labels"][corrected.start] == "B-ORG"
    browser.sees("#session", "ranked again after")
    browser.press("u")
    browser.wait(lambda: site.rank == asked[-1], "what was undone")
    browser.press("r")
    browser.sees("#session", f"Question {len(asked) + 1} of 50")
    browser.press("S", shift=False)
    browser.wait(lambda: not browser.find("#session").is_displayed(), "the end")
    browser.wait(lambda: browser.texts("#findings-list [aria-selected=true]"), "the list")
    assert not browser.complaints()


def test_the_session_has_no_serious_accessibility_problem(site: Site) -> None:
    site.open()
    browser = site.browser
    browser.press("S", shift=False)
    browser.sees("#session", REASONS[0])
    browser.press("s")
    browser.sees("#sentence-check", "Is every label here right?")
    assert browser.axe() == []
