"""Training segments and explanations as text, as HTML and as data."""

from __future__ import annotations

import json
import math
from math import exp
from pathlib import Path

import pytest
import torch

from tagtrace._checks import TrainingError
from tagtrace._table import Table
from tagtrace.data import read_corpus
from tagtrace.data.invented import generate, write_invented
from tagtrace.influence import (
    Edit,
    Effect,
    Explainer,
    Explanation,
    Filter,
    Query,
    Retrainer,
    TrainingSegment,
    make_query,
)
from tagtrace.influence.explanation import probability_lines
from tests.influence.small_index import small_index

HOSTILE = "<script>alert(1)</script>"
LONG = ["Ost", "Gam", HOSTILE, *(f"word{n}" for n in range(20))]
LABELS = ["B-LOC", "I-LOC", "B-ORG", *["O"] * 20]


@pytest.fixture(scope="module")
def explainer(tmp_path_factory: pytest.TempPathFactory) -> Explainer:
    """An index of invented data with one more document, of two sentences, that has markup for words."""
    folder: Path = tmp_path_factory.mktemp("explanation")
    write_invented(generate(num_documents=20), folder)
    with (folder / "train.conll").open("a", encoding="utf-8") as stream:
        lines = [f"{token} {label}" for token, label in zip(LONG, LABELS, strict=True)]
        stream.write("\n".join(["", "-DOCSTART- O", "", *lines, "", f"{HOSTILE} B-PER", "slept O", "", ""]))
    return Explainer(small_index(folder, dtype="float32", shard_tokens=300))


@pytest.fixture(scope="module")
def query(explainer: Explainer) -> Query:
    dev = read_corpus(explainer.index.folder.parent / "dev.conll")
    return make_query(explainer.index.tagger(), dev.sentences[1], 0, 2, "ORG")


@pytest.fixture(scope="module")
def verified(explainer: Explainer, query: Query) -> Explanation:
    return explainer.explain(query, top=2, rung="verify")


def last(explainer: Explainer) -> tuple[int, str]:
    """The number of the long sentence, and the name of its document."""
    number = explainer.index.num_sentences - 2
    sentence = explainer.index.sentence(number)
    assert sentence.tokens == tuple(LONG)
    return number, sentence.document


# Training segments


def test_a_token_is_shown_in_its_context(explainer: Explainer) -> None:
    number, _ = last(explainer)
    token = TrainingSegment(number, 1, 2, 0.5, explainer.index)
    assert token.text == f"Ost [Gam] {HOSTILE} word0 word1 word2 word3 word4 word5 word6 ..."
    assert token.labels == "I-LOC"
    assert token.place == f"{explainer.index.ids[number]} 1:2"
    assert token.edits() == [Edit(number, 1, 2)]
    assert (token.effect, token.change, token.rung) == (None, None, "screen")


def test_a_long_segment_is_shown_by_its_types(explainer: Explainer) -> None:
    number, _ = last(explainer)
    short, long = (TrainingSegment(number, 0, stop, 0.5, explainer.index) for stop in (4, 5))
    assert short.labels == "B-LOC I-LOC B-ORG O"
    assert long.labels == "LOC, ORG"
    assert TrainingSegment(number, 5, 15, 0.5, explainer.index).labels == "O"


def test_a_sentence_is_shown_from_its_beginning(explainer: Explainer) -> None:
    number, _ = last(explainer)
    long = TrainingSegment(number, 0, len(LONG), 0.5, explainer.index)
    assert long.text == " ".join(LONG[:16]) + " ..."
    assert (long.labels, long.place) == ("LOC, ORG", f"{explainer.index.ids[number]} 0:{len(LONG)}")
    short = TrainingSegment(number + 1, 0, 2, 0.5, explainer.index)
    assert (short.text, short.labels) == (f"{HOSTILE} slept", "B-PER O")


def test_a_document_is_shown_by_its_name(explainer: Explainer) -> None:
    number, name = last(explainer)
    rest = ((number + 1, 0, 2),)
    document = TrainingSegment(number, 0, len(LONG), 0.5, explainer.index, name, rest)
    assert document.place == f"{name} (2 sentences)"
    assert document.labels == "LOC, ORG, PER"
    assert document.text == " ".join(LONG[:16]) + " ..."
    assert document.edits() == [Edit(number, 0, len(LONG)), Edit(number + 1, 0, 2)]
    alone = TrainingSegment(number + 1, 0, 2, 0.5, explainer.index, "")
    assert alone.place == f"{explainer.index.ids[number + 1]} (1 sentence)", "a sentence that has no document"
    assert alone.text == f"{HOSTILE} slept"


def test_a_segment_as_data(explainer: Explainer) -> None:
    number, name = last(explainer)
    sentence = explainer.index.sentence(number)
    found = TrainingSegment(number, 1, 3, -0.5, explainer.index).to_json()
    assert found == {
        "score": -0.5,
        "rung": "screen",
        "change": None,
        "refined_change": None,
        "verified_change": None,
        "retrained": None,
        "probabilities": None,
        "document": name,
        "id": sentence.id,
        "sentence_number": number,
        "start": 1,
        "stop": 3,
        "line": sentence.lines[1],
        "tokens": ["Gam", HOSTILE],
        "labels": ["I-LOC", "B-ORG"],
    }
    document = TrainingSegment(number, 0, len(LONG), -0.5, explainer.index, name, ((number + 1, 0, 2),)).to_json()
    assert document["sentence_numbers"] == [number, number + 1]
    assert document["ids"] == explainer.index.ids[-2:]
    assert "tokens" not in document


# Explanations


def test_it_describes_the_query_and_both_sides(explainer: Explainer, query: Query, verified: Explanation) -> None:
    blank, *lines, explained, supporters, opposers = verified.describe()
    assert (blank, lines, explained) == ("", query.describe(), "explained: B-ORG I-ORG, by influence")
    assert isinstance(supporters, Table)
    assert isinstance(opposers, Table)
    assert supporters.title.startswith("supporters: without these labels the explained labels would be less likely")
    assert opposers.title.startswith("opposers: without these labels the explained labels would be more likely")
    assert supporters.columns == ("score", "change of loss", "labels", "training segment")
    for row, one in zip(supporters.rows, verified.supporters, strict=True):
        assert one.refined is not None
        assert one.verified is not None
        probabilities = probability_lines(one.verified, ("B-ORG", "I-ORG"), explainer.index.labels)
        changes = [f"{one.refined.change:+.4f} refined", f"{one.verified.change:+.4f} verified", *probabilities]
        assert row == (f"{one.score:+.4g}", tuple(changes), one.labels, (one.place, one.text))
    assert len(supporters.rows) == len(opposers.rows) == 2


def test_only_rungs_with_effects_have_a_column_for_them(explainer: Explainer, query: Query) -> None:
    tables = [part for part in explainer.explain(query, top=2).describe() if isinstance(part, Table)]
    assert [table.columns for table in tables] == [("score", "labels", "training segment")] * 2


def test_it_prints_as_its_description(verified: Explanation) -> None:
    printed = str(verified)
    assert "explained: B-ORG I-ORG, by influence" in printed
    for one in (*verified.supporters, *verified.opposers):
        assert one.place in printed
    assert max(map(len, printed.splitlines()[3:])) <= 120


def test_markup_in_training_text_is_escaped(explainer: Explainer, query: Query) -> None:
    _, name = last(explainer)
    for kind in ("token", "sentence", "document"):
        found = explainer.explain(query, kind=kind, top=50, where=Filter(document=name))  # type: ignore[arg-type]
        page = found._repr_html_()
        assert HOSTILE in str(found)
        assert "<script" not in page
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
        assert page.startswith('<div class="tagtrace">')
        assert page.count("<table") == sum(bool(side) for side in found.sides().values())


def test_empty_sides_are_named(explainer: Explainer, query: Query) -> None:
    nothing = Filter("other", "ORG")
    lines = explainer.explain(query, where=nothing).describe()
    assert lines[-3:] == [
        "no training segment passes the filters; choose another kind or fewer filters",
        "no supporters among the training segments scored",
        "no opposers among the training segments scored",
    ]


def test_records_are_flat(verified: Explanation) -> None:
    records = verified.to_records()
    assert [record["side"] for record in records] == ["supporter"] * 2 + ["opposer"] * 2
    for record, one in zip(records, [*verified.supporters, *verified.opposers], strict=True):
        assert record == {
            "side": record["side"],
            "score": one.score,
            "rung": "verify",
            "change": one.change,
            "refined_change": one.refined and one.refined.change,
            "verified_change": one.verified and one.verified.change,
            "retrained_change": None,
            "p_before": one.effect and math.exp(-one.effect.before),
            "p_after": one.effect and math.exp(-one.effect.after),
            "sentence": one.sentence.id,
            "sentence_number": one.sentence_number,
            "start": one.start,
            "stop": one.stop,
            "document": one.sentence.document,
            "labels": one.labels,
            "text": one.text,
        }
    assert all(isinstance(value, str | int | float | None) for record in records for value in record.values())


def test_an_explanation_as_data(query: Query, verified: Explanation) -> None:
    found = json.loads(json.dumps(verified.to_json()))
    assert found == {
        **query.to_json(),
        "explained": ["B-ORG", "I-ORG"],
        "score": verified.score,
        "notes": list(verified.notes),
        "num_candidates": verified.num_candidates,
        "supporters": [one.to_json() for one in verified.supporters],
        "opposers": [one.to_json() for one in verified.opposers],
    }
    best, segment = found["supporters"][0], verified.supporters[0]
    assert segment.refined is not None
    assert segment.verified is not None
    assert best["change"] == best["verified_change"] == segment.verified.change
    assert best["refined_change"] == segment.refined.change
    before = best["probabilities"]["before"]
    assert len(before) == 2
    assert before[0]["B-ORG"] == pytest.approx(float(segment.verified.probabilities_before[0, 5]), abs=1e-12)


def test_retraining_that_fails_is_a_note(explainer: Explainer, query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    screened = explainer.explain(query, top=2)
    failing, fine = screened.supporters
    retrain = Retrainer.retrain

    def fails_once(self: Retrainer, group: list[Edit], *arguments: float) -> object:
        if group == failing.edits():
            raise TrainingError("retraining stopped early")
        return retrain(self, group, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Retrainer, "retrain", fails_once)
    found = explainer.explain(query, top=2, rung="verify")
    assert found.notes == (f"{failing.place}: retraining did not converge: retraining stopped early",)
    assert found.describe()[-1] == found.notes[0]
    assert found.notes[0] in found._repr_html_()
    assert [one.rung for one in found.supporters] == ["refine", "verify"]
    assert found.supporters[1].place == fine.place
    assert [one.rung for one in found.opposers] == ["verify", "verify"]


# Probabilities


def test_a_long_segment_has_one_probability(explainer: Explainer) -> None:
    labels = explainer.index.labels
    tables = torch.full((5, len(labels)), 0.1), torch.full((5, len(labels)), 0.2)
    effect = Effect(1.0, 2.0, *tables)
    together = [f"p {exp(-1):.3f} -> {exp(-2):.3f}"]
    assert probability_lines(effect, ("O",) * 5, labels) == together
    assert probability_lines(effect, ("O", "B-PER"), labels) == ["p(O) 0.100 -> 0.200", "p(B-PER) 0.100 -> 0.200"]
