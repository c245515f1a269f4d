"""From decisions to what they teach: known labels, the new order, the sample and the questions."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tagtrace import decided_sentences, read_decided
from tagtrace._checks import DataError
from tagtrace.data import ReadOptions, read_corpus
from tagtrace.data.labels import HIDDEN
from tagtrace.findings.teaching.teach import teach
from tagtrace.review import Decisions, Store, open_review, read_project_file, write_project_file
from tagtrace.review.model.teaching import EVERY, Known, Teaching, read_known
from tests.review.made import Client, light_review

GIVEN = ("B-LOC", "O", "B-ORG", "I-ORG", "I-ORG", "O")


def known(client: Client) -> Known:
    return read_known(client.review.decisions)


def labels(client: Client, number: int = 0) -> dict[int, str]:
    return {t: label for (n, t), label in known(client).decided.labels.items() if n == number}


def test_known_labels_are_those_that_were_chosen_or_kept(ada: Client) -> None:
    ada.decide(1)  # sentence 0
    ada.decide(2, "reject")
    ada.decide(3, "skip")  # sentence 1
    ada.decide(4, "relabel", labels=["O"])  # sentence 2
    ada.decide(5, "note", note="?")  # sentence 3
    found = known(ada)
    assert found.decided.labels == {
        (0, 0): "B-ORG", (0, 2): "B-ORG", (0, 3): "I-ORG", (0, 4): "I-ORG", (2, 0): "O"
    }  # fmt: skip
    assert (found.num_fixed, found.num_decisions, found.skipped, found.checked) == (2, 4, {3}, {})
    ada.post("undo")
    ada.post("undo")
    assert not labels(ada, 2)
    ada.decide(1, "reopen")
    assert labels(ada) == {2: "B-ORG", 3: "I-ORG", 4: "I-ORG"}


def test_where_decisions_overlap_the_labels_are_those_of_an_export(ada: Client) -> None:
    ada.decide(2)  # New Delft Town: O B-LOC I-LOC
    place = {"sentence_number": 0, "action": "relabel"}
    ada.post("decisions", {**place, "start": 4, "stop": 6, "labels": ["B-ORG", "I-ORG"]})
    ada.post("decisions", {**place, "start": 1, "stop": 3, "action": "reject", "labels": None})
    assert labels(ada) == {1: "O", 2: "O", 3: "B-LOC", 4: "B-ORG", 5: "I-ORG"}
    ada.post("export")
    (first, *_) = read_corpus(ada.review.export / "train.conll").sentences
    assert all(first.labels[t] == label for t, label in labels(ada).items())
    for _ in range(2):
        ada.post("undo")
    assert labels(ada) == {2: "O", 3: "B-LOC", 4: "I-LOC"}


def test_a_sentence_is_checked_if_all_its_tokens_are_decided(ada: Client) -> None:
    ada.decide(1)
    ada.confirm(0)
    ada.confirm(1)
    assert known(ada).checked == {0: 1, 1: 0}
    assert labels(ada) == dict(enumerate(("B-ORG", *GIVEN[1:])))
    ada.decide(1, "reopen")
    assert known(ada).checked == {1: 0}
    place = {"sentence_number": 2, "action": "reject"}
    for start, stop in ((0, 2), (2, 6)):
        ada.post("decisions", {**place, "start": start, "stop": stop})
    assert known(ada).checked == {1: 0, 2: 0}


def test_many_sentences_are_read_in_parts(ada: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    for rank in range(1, 49):
        ada.decide(rank, "accept" if rank % 2 else "reject")
    whole = known(ada)
    monkeypatch.setattr("tagtrace.review.model.teaching.PART", 7)
    assert known(ada) == whole
    assert len(whole.decided) == 40 + 3 * 8


def test_decisions_change_the_order_of_findings_that_are_alike(ada: Client) -> None:
    """The second finding of every fifth sentence, ``New Delft Town``, is accepted; those about clubs are rejected."""
    assert ada.get("findings", sort="taught")["taught"] == 0
    assert [one["rank"] for one in ada.get("findings", sort="taught", limit=5)["items"]] == [1, 2, 3, 4, 5]
    for rank in (2, 8, 14, 20):
        ada.decide(rank)
    for rank in (3, 4, 5, 6):
        ada.decide(rank, "reject")
    answer = ada.teach()
    assert answer["version"] == 8
    found = ada.get("findings", sort="taught", status="open", limit=1000)
    ranks = [one["rank"] for one in found["items"]]
    assert set(ranks[:4]) == {26, 32, 38, 44}
    assert found["taught"] == 8
    assert [one["score"] for one in found["items"]] == sorted((one["score"] for one in found["items"]), reverse=True)
    openings = {number: f"Club{number - number % 10}" for number in range(40)}
    expected = teach(ada.review.data.findings, known(ada).decided, openings).findings
    for one in expected:
        shown = ada.get(f"findings/{one.rank}")
        assert (shown["score"], shown["confidence"]) == pytest.approx((one.score, one.confidence))
    assert expected[25].confidence > 0.6 > expected[39].confidence
    ordinary = ada.get("findings", status="open", limit=1000)["items"]
    assert [one["rank"] for one in ordinary] == sorted(ranks)
    everything = [one["rank"] for one in ada.get("findings", sort="taught", limit=1000)["items"]]
    assert everything == [*ranks, 2, 3, 4, 5, 6, 8, 14, 20]
    for rank in (1, 2, 26, 48, 99):
        page = ada.get("findings", sort="taught", limit=10, rank=rank)
        assert page["place"] == (everything.index(rank) if rank in everything else 48)
        assert [one["rank"] for one in page["items"]] == everything[page["offset"] : page["offset"] + 10]


def test_what_changed_is_counted_against_the_lesson_before(ada: Client) -> None:
    line = ada.teach()["line"]
    assert line.startswith("nothing is decided yet; the number of wrong labels is not known yet; the next 50 decisions")
    assert ada.review.teaching.taught is None
    for rank in (3, 4, 5):
        ada.decide(rank, "reject")
    first = ada.teach()["line"]
    with ada.review.decisions.reading() as ledger:
        new = ada.review.teaching.taught
        assert new is not None
        moved = [abs(new.findings[one.rank].confidence - one.confidence) for one in ledger.data.findings]
    expected = sum(value > 0.1 for rank, value in enumerate(moved, start=1) if rank not in (3, 4, 5))
    assert f"ranked again after 3 decisions: 0 findings rose into the first 100, {expected} confidences" in first
    again = ada.teach()["line"]
    assert "0 findings rose into the first 100, 0 confidences changed by more than 0.1; " in again


def test_findings_that_rise_are_counted(ada: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tagtrace.review.model.teaching.FIRST", 4)
    for rank in (2, 8, 14, 20):
        ada.decide(rank)
    for rank in (3, 4, 5, 6):
        ada.decide(rank, "reject")
    assert "4 findings rose into the first 4, " in ada.teach()["line"]  # 26, 32, 38, 44, not 1, 7, 9, 10


def test_what_is_left_is_estimated_from_the_sample(ada: Client) -> None:
    """Every club is wrong: 40 labels. The sample is checked, and each wrong label in it corrected."""
    order = ada.review.teaching.draws.first(200)
    for number in dict.fromkeys(order[:24]):
        (club, *_) = ada.review.data.by_sentence_number[number]
        ada.decide(club.rank)
        ada.confirm(number)
    found = ada.teach()
    num_fixed, expected, p = len(set(order[:24])), ada.review.teaching.expected, ada.review.teaching.draws.probabilities
    num_seen = next(place for place, number in enumerate(order) if number not in order[:24])
    terms = [(1 - expected[number]) / p[number] for number in order[:num_seen]]
    assert found["left"] == pytest.approx(sum(expected.values()) + sum(terms) / num_seen - num_fixed)
    assert found["margin"] is not None
    assert abs(found["left"] - (40 - num_fixed)) <= found["margin"] + 1e-6
    assert f"about {found['left']:,.0f} ± {found['margin']:,.0f} wrong labels left" in found["line"]
    assert f"should find about {found['next']:.0f}" in found["line"]
    questions = ada.get("questions", count=50)["items"]
    assert found["next"] == pytest.approx(sum(one["p"] for one in questions))


def test_a_restart_gives_the_same_sample_and_lesson(tmp_path: Path) -> None:
    first = light_review(tmp_path)
    client = Client(first)
    before = first.teaching.draws.first(300)
    for rank in range(1, 6):
        client.decide(rank)
    client.confirm(before[0])
    line = client.teach()
    assert first.teaching.draws.first(300) == before
    asked = client.get("questions", count=100)["items"]
    first.close()
    again = light_review(tmp_path)
    client = Client(again)
    assert again.teaching.draws.first(300) == before
    assert client.teach() == line
    assert client.get("questions", count=100)["items"] == asked
    again.close()


def test_nothing_decided_is_asked_again(ada: Client) -> None:
    """A whole review by questions: each finding and each sentence of the sample is asked once."""
    asked = list[tuple[str, int]]()
    for _ in range(200):
        ada.teach()
        items = ada.get("questions", count=7)["items"]
        if not items:
            break
        for place, one in enumerate(items):
            finding, number = one["finding"], one["sentence"]["sentence_number"]
            if ada.get(f"sentences/{number}")["is_checked"]:
                continue  # by a question before it
            asked.append(("sentence", number) if finding is None else ("finding", finding["rank"]))
            if finding is None:
                ada.confirm(number)
            elif ada.get(f"findings/{finding['rank']}")["status"] == "open":
                ada.decide(finding["rank"], ("accept", "reject", "skip")[place % 3])
        left = ada.get("questions", count=100)["items"]  # before anything new is learned
        now = {("sentence", one["sentence"]["sentence_number"]) if one["finding"] is None
               else ("finding", one["finding"]["rank"]) for one in left}  # fmt: skip
        assert not now & set(asked)
    assert len(asked) == len(set(asked))
    assert ada.statuses()["open"] == 0


def test_skipped_findings_are_not_among_what_comes_next(ada: Client) -> None:
    for rank in range(1, 31):
        ada.decide(rank, "skip")
    ada.teach()
    lesson = ada.review.teaching.lesson
    assert lesson is not None
    ranks = {one.finding.rank for one in lesson.questions if one.finding is not None}
    assert ranks == set(range(31, 49))


def test_it_is_learned_by_itself_after_some_decisions(ada: Client) -> None:
    assert ada.get("teaching") == {
        "state": "none", "version": 0, "decisions": 0, "line": "", "left": None, "margin": None, "next": None
    }  # fmt: skip
    for rank in range(1, EVERY):
        ada.decide(rank)
    assert ada.get("teaching")["state"] == "none"
    assert ada.get("changes")["taught"] == 0
    ada.decide(EVERY)
    while ada.get("teaching")["state"] == "running":
        time.sleep(0.01)
    assert ada.get("changes")["taught"] == EVERY
    ada.post("undo")
    assert ada.get("findings/10")["status"] == "open"


def test_decisions_of_another_server_are_learned_from(ada: Client, tmp_path: Path) -> None:
    other = light_review(tmp_path)
    for rank in range(1, EVERY + 1):
        Client(other).decide(rank)
    ada.get("changes")
    while ada.get("teaching")["state"] == "running":
        time.sleep(0.01)
    assert ada.get("teaching")["version"] == EVERY
    other.close()


@pytest.mark.parametrize("count", [0, 101, -1, "x"])
def test_numbers_are_bounded(ada: Client, count: object) -> None:
    assert ada.http.get(f"/api/questions?count={count}").status_code == 400
    assert ada.http.get("/api/findings?sort=score").status_code == 400


def test_a_project_without_findings_cannot_be_taught(ada: Client, tmp_path: Path) -> None:
    data = ada.review.data
    data.findings.clear()
    assert "no findings to rank" in ada.post("teach", status=400)["error"]
    teaching = Teaching(Decisions(data, Store(tmp_path / "other.sqlite")), ada.review.jobs)
    teaching.notice(1000)
    assert teaching.state == "none"


def test_decisions_are_read_from_the_folder_of_a_project(project_folder: Path, tmp_path: Path) -> None:
    places = {"index": "index", "data": "data/train.conll", "audit": "audit"}
    write_project_file(tmp_path, None, **{name: project_folder / place for name, place in places.items()})
    assert len(read_decided(tmp_path)) == 0
    assert not (tmp_path / "decisions.sqlite").exists()
    review = open_review(read_project_file(tmp_path), "ada")
    client, one = Client(review), review.data.by_rank[2]
    client.decide(1, "skip")
    client.decide(2)
    expected = {(one.sentence_number, one.start + t): label for t, label in enumerate(one.proposed)}
    assert read_decided(str(tmp_path)).labels == expected
    corpus = read_corpus(project_folder / "data/train.conll")
    (sentence,) = decided_sentences(tmp_path, corpus)
    assert sentence.tokens == corpus.sentences[one.sentence_number].tokens
    assert sentence.labels[one.start : one.stop] == one.proposed
    assert {*sentence.labels[: one.start], *sentence.labels[one.stop :]} <= {HIDDEN}
    with pytest.raises(DataError, match="its tokens are not those of the training data that was reviewed"):
        decided_sentences(tmp_path, corpus.with_sentences(corpus.sentences[1:]))
    unlabelled = read_corpus(project_folder / "data/train.conll", ReadOptions(labelled=False))
    with pytest.raises(DataError, match="its labels are not of the kind that was reviewed"):
        decided_sentences(tmp_path, unlabelled)
    client.post("undo")
    assert len(read_decided(tmp_path)) == 0
    assert decided_sentences(tmp_path, corpus) == []
    while review.is_busy:
        time.sleep(0.02)
    review.close()
