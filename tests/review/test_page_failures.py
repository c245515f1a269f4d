"""Refusals, lost answers, a server that is gone and other reviewers, in a real browser with the real server."""

from __future__ import annotations

from pathlib import Path

from tagtrace.review import Review
from tests.review.page import Site, csrf_of, with_own_decisions


def outboxes(site: Site) -> list[str]:
    """What waits to be sent, for each project that the tab has shown."""
    script = "return Object.keys(sessionStorage).map((name) => [name, sessionStorage[name]])"
    return [one for name, one in site.browser.run(script) if name.startswith("tagtrace-outbox") and one != "[]"]


def test_refused_decisions_are_taken_back(site: Site) -> None:
    """The last finding proposes a label that the tagger does not know."""
    site.open("findings?rank=300")
    browser = site.browser
    browser.press("a")
    browser.sees("#message", "The decision on finding 300 was not saved: ")
    browser.sees("#message", "EVENT")
    browser.sees("#findings-list-299", "open")
    browser.sees("#progress-text", "300 open")
    assert not site.rows


def test_an_answer_that_is_lost_does_not_decide_twice(site: Site) -> None:
    site.open()
    site.faults.num_lost = 2
    site.browser.press("a", "r")
    site.decisions(2)
    site.browser.wait(lambda: not site.faults.num_lost and site.browser.text("#banner") == "", "the retries")
    site.browser.sees("#progress-text", "1 accepted · 1 rejected")
    assert [row.action for row in site.rows] == ["accept", "reject"]


def test_an_answer_that_breaks_off_does_not_decide_twice(site: Site) -> None:
    site.open()
    site.faults.num_cut = 1
    site.browser.press("a", "r", "s")
    site.decisions(3)
    site.browser.wait(lambda: not outboxes(site), "all")
    site.browser.sees("#progress-text", "1 accepted · 1 rejected · 1 skipped")
    assert [row.action for row in site.rows] == ["accept", "reject", "skip"]
    assert site.browser.texts("#findings-list .badge")[:3] == ["✓ accepted", "✗ rejected", "» skipped"]


def test_decisions_wait_while_the_server_is_gone(site: Site, opened: Review, tmp_path: Path) -> None:
    site.open()
    browser = site.browser
    site.stop()
    browser.press("a", "s")
    browser.sees("#banner", "The server does not answer")
    browser.sees("#progress-text", "298 open")
    before = browser.run("return document.querySelector('[name=csrf]').content")
    for path in tmp_path.glob("decisions.sqlite*"):
        path.unlink()
    site.start(with_own_decisions(opened, tmp_path), site.server.port)
    assert csrf_of(site.url) != before  # the open page has to learn the new one
    assert [row.action for row in site.decisions(2)] == ["accept", "skip"]
    browser.wait(lambda: not browser.text("#banner"), "the banner to go")


def test_decisions_wait_while_another_project_is_open(site: Site, opened: Review, tmp_path: Path) -> None:
    """Its server has the same address, so the page of the first one could decide in it."""
    site.open()
    browser, port = site.browser, site.server.port
    site.stop()
    site.start(with_own_decisions(opened, tmp_path / "another"), port)
    browser.sees("#banner", "Another project, or another audit of this one, is open at this address now.")
    browser.press("a", "s")
    browser.sees("#pending", "2 decisions are waiting")
    site.open()  # the page of the other project
    browser.press("r")
    assert [row.action for row in site.decisions(1)] == ["reject"]
    assert len(outboxes(site)) == 1
    site.stop()
    site.start(with_own_decisions(opened, tmp_path), port)
    site.open()
    assert [row.action for row in site.decisions(2)] == ["accept", "skip"]
    browser.wait(lambda: not browser.text("#banner") and not outboxes(site), "the banner to go")


def test_decisions_on_their_way_outlive_a_reload(site: Site) -> None:
    site.open()
    browser = site.browser
    browser.run("window.fetch = () => new Promise(() => {})")
    browser.press("a", "r")
    browser.driver.refresh()
    assert [row.action for row in site.decisions(2)] == ["accept", "reject"]


def test_another_reviewer_is_seen_and_conflicts_are_shown(site: Site) -> None:
    site.open("findings?status=all")
    browser = site.browser
    bob = site.api("bob")
    bob.decide(3, "relabel", labels=["B-PER", "I-PER"])
    browser.sees("#findings-list-2", "accepted")
    browser.sees("#progress-text", "299 open")
    browser.press("a")
    site.decisions(2)
    bob.decide(1, "relabel", labels=["B-PER", "I-PER"], base=None)  # he has not seen the other decision
    browser.sees("#findings-list-0", "conflict")
    browser.press("k")
    browser.sees("#detail .notice", "Reviewers decided differently")
