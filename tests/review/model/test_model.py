"""Errors, explanations and what-ifs over HTTP, compared with the library; all responses, compared with their schema."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tagtrace import build_whole, open_index
from tagtrace.data import differences, read_corpus
from tagtrace.data.schemes import spelled
from tagtrace.findings.patterns.group_effect import pattern_edits
from tagtrace.influence import Edit, Explainer, Query, RetrainOptions
from tagtrace.influence.edits.seed_effects import retrain_effects
from tagtrace.review import ProjectFile, open_review
from tagtrace.review.http import answer_shapes as shapes
from tagtrace.review.model import model as model_module
from tagtrace.review.model.explainers import Explainers
from tagtrace.review.model.mispredictions import HeldOut
from tagtrace.review.model.model import Model
from tests.review.made import Client, make_project


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> ProjectFile:
    return make_project(tmp_path_factory.mktemp("project"))


@pytest.fixture(scope="module")
def ada(file: ProjectFile) -> Iterator[Client]:
    review = open_review(file, "ada")
    assert review.held is not None
    assert review.held.wait(60)
    yield Client(review)
    review.close()


@pytest.fixture(scope="module")
def error(ada: Client) -> dict[str, Any]:
    """A misprediction of a single token."""
    items = ada.get("errors", limit=1000)["items"]
    return next(one for one in items if one["stop"] == one["start"] + 1)


def query_of(ada: Client, file: ProjectFile, error: dict[str, Any]) -> Query:
    """The query for predicted labels, made without the code under test."""
    tagger, index = ada.review.the_model().tagger, ada.review.the_model().index
    assert file.dev is not None
    (sentence,) = [one for one in read_corpus(file.dev).sentences if one.id == error["sentence"]]
    features = tagger.encode([tagger.prepare(sentence)]).detach().double()
    (predicted,) = tagger.predict([sentence])
    return Query(features, torch.tensor(index.labels.encode(predicted)), error["start"], error["stop"])


def where(error: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**{name: error[name] for name in ("sentence", "start", "stop")}, **more}


def test_all_mispredictions_are_listed(ada: Client, file: ProjectFile) -> None:
    tagger = ada.review.the_model().tagger
    assert file.dev is not None
    dev = read_corpus(file.dev).sentences
    expected = [
        (sentence.id, start, stop, list(predicted[start:stop]))
        for sentence, predicted in zip(dev, tagger.predict(dev), strict=True)
        for start, stop in differences(sentence.labels, predicted, "iob2")
    ]
    found = ada.get("errors", sort="place", limit=1000)
    assert [(one["sentence"], one["start"], one["stop"], one["predicted"]) for one in found["items"]] == expected
    assert found["total"] == len(expected) == ada.get("project")["counts"]["errors"] > 10
    counts = Counter(f"{spelled(one['gold'])}:{spelled(one['predicted'])}" for one in found["items"])
    assert dict(found["pairs"]) == counts


def test_the_loss_of_an_error_is_that_of_its_gold_labels(ada: Client, file: ProjectFile, error: dict[str, Any]) -> None:
    query = query_of(ada, file, error)
    sentence = ada.review.held.sentences[ada.review.held.number_of[error["sentence"]]]  # type: ignore[union-attr]
    index = ada.review.the_model().index
    gold = Query(query.features, torch.tensor(index.labels.encode(sentence.labels)), query.start, query.stop)
    assert error["loss"] == pytest.approx(float(gold.loss(index.head).detach()), rel=1e-5)
    losses = [one["loss"] for one in ada.get("errors", limit=1000)["items"]]
    assert losses == sorted(losses, reverse=True)


def test_errors_are_filtered(ada: Client) -> None:
    everything = ada.get("errors", limit=1000)["items"]
    pair, count = ada.get("errors")["pairs"][0]
    assert ada.get("errors", pair=pair, limit=0)["total"] == count
    middle = everything[len(everything) // 2]["loss"]
    assert ada.get("errors", min_loss=middle)["total"] == sum(one["loss"] >= middle for one in everything)
    document = everything[0]["document"]
    kept = ada.get("errors", document=document.upper(), limit=1000)["items"]
    assert kept == [one for one in everything if document in one["document"]]
    word = everything[0]["tokens"][0].upper()
    assert everything[0] in ada.get("errors", text=word, limit=1000)["items"]
    assert ada.get("errors", text="no such words")["total"] == 0
    assert ada.get("errors", offset=3, limit=2)["items"] == everything[3:5]
    for bad in ({"sort": "x"}, {"limit": 5000}, {"offset": -1}, {"min_loss": "x"}, {"limit": "many"}):
        assert ada.http.get("/api/errors", params=bad).status_code == 400


@pytest.mark.parametrize(
    ("score", "curvature", "kind"),
    [("cosine", "identity", "token"), ("influence", "auto", "token"), ("influence", "identity", "entity"),
     ("relative", "kronecker", "token"), ("neighbour", "identity", "sentence"), ("cosine", "identity", "document")],
)  # fmt: skip
def test_why_agrees_with_the_explainer(
    ada: Client, file: ProjectFile, error: dict[str, Any], score: Any, curvature: Any, kind: Any
) -> None:
    found = ada.get("why", **where(error), score=score, curvature=curvature, kind=kind, top=5)
    index = ada.review.the_model().index
    expected = Explainer(index, curvature).explain(query_of(ada, file, error), score, kind, 5)
    for side in ("supporters", "opposers"):
        ranked = getattr(expected, side)
        assert [(one["sentence_number"], one["start"], one["stop"]) for one in found[side]] == [
            (one.sentence_number, one.start, one.stop) for one in ranked
        ]
        assert [one["score"] for one in found[side]] == pytest.approx([one.score for one in ranked], rel=1e-4)
        for one in found[side]:
            sentence = index.sentence(one["sentence_number"])
            assert tuple(one["tokens"]) == sentence.tokens[one["start"] : one["stop"]]
            assert tuple(one["labels"]) == sentence.labels[one["start"] : one["stop"]]
    assert found["query"]["explained"] == error["predicted"]
    assert found["query"]["gold"][error["start"] : error["stop"]] == error["gold"]


def test_probabilities_are_those_of_the_query(ada: Client, file: ProjectFile, error: dict[str, Any]) -> None:
    index = ada.review.the_model().index
    shown = ada.get("why", **where(error))["query"]["probabilities"]
    p = query_of(ada, file, error).probabilities(index.head)[0]
    for one in shown:
        assert one["token"] == error["start"]
        assert one["p"] == pytest.approx(float(p[index.labels.index(one["label"])]), abs=1e-6)
    assert [one["p"] for one in shown] == sorted((one["p"] for one in shown), reverse=True)
    assert sum(one["p"] for one in shown) > 0.99


def test_why_asks_for_other_labels_and_of_training_sentences(ada: Client, error: dict[str, Any]) -> None:
    assert ada.get("why", **where(error), target="gold")["query"]["explained"] == error["gold"]
    assert ada.get("why", **where(error), target="MISC")["query"]["explained"] == ["B-MISC"]
    assert ada.get("why", **where(error), target="O")["query"]["explained"] == ["O"]
    items = ada.get("findings", limit=1000)["items"]
    finding = next(one for one in items if one["given"][0] == "B-LOC" and one["stop"] == one["start"] + 1)
    found = ada.get("why", **where(finding), target="gold", data="train", kind="entity")
    assert found["query"]["origin"] == "train"
    assert found["query"]["explained"] == finding["given"]
    (own,) = [one for one in found["supporters"] if one["rank"] == finding["rank"]]
    assert own["score"] == pytest.approx(1.0)  # the gradient of a label and itself


@pytest.mark.parametrize(
    ("change", "status"),
    [({"sentence": "nowhere"}, 404), ({"stop": 999}, 400), ({"start": -1}, 400), ({"score": "x"}, 400),
     ({"curvature": "x"}, 400), ({"kind": "x"}, 400), ({"top": 0}, 400), ({"top": 10_000}, 400),
     ({"target": "CITY"}, 400), ({"target": "O,O"}, 400), ({"data": "x"}, 400), ({"start": "x"}, 400)],
)  # fmt: skip
def test_invalid_questions_are_refused(ada: Client, error: dict[str, Any], change: dict[str, Any], status: int) -> None:
    response = ada.http.get("/api/why", params=where(error, **change))
    assert response.status_code == status
    assert "\n" not in response.json()["error"]


def edits_of(ada: Client, error: dict[str, Any]) -> list[dict[str, Any]]:
    """The strongest supporter is removed, and the second one is relabelled O."""
    first, second = ada.get("why", **where(error), score="influence", curvature="auto")["supporters"][:2]
    names = ("sentence_number", "start", "stop")
    return [{**{name: first[name] for name in names}, "labels": None},
            {**{name: second[name] for name in names}, "labels": ["O"]}]  # fmt: skip


def test_what_if_agrees_with_the_library(ada: Client, file: ProjectFile, error: dict[str, Any]) -> None:
    edits, index = edits_of(ada, error), ada.review.the_model().index
    found = ada.post("what-if", where(error, edits=edits))
    same = [
        Edit(one["sentence_number"], one["start"], one["stop"], one["labels"] and tuple(index.labels.encode(["O"])))
        for one in edits
    ]
    expected = Explainer(index).what_if(query_of(ada, file, error), same, "verify").effects
    assert found["rung"] == "refine"
    assert found["edits"] == 2
    assert (found["loss_before"], found["loss_after"]) == pytest.approx(
        (expected["refine"].before, expected["refine"].after), rel=1e-4
    )
    assert found["loss_after"] > found["loss_before"]
    after = dict(zip(index.labels.labels, expected["refine"].probabilities_after[0].tolist(), strict=True))
    assert [one["p"] for one in found["after"]["p"]] == pytest.approx(
        [after[one["label"]] for one in found["after"]["p"]], abs=1e-5
    )
    pairs = [[(one["token"], one["label"]) for one in found[when]["p"]] for when in ("before", "after")]
    assert pairs[0] == pairs[1]
    verified = ada.finished(ada.post("jobs", where(error, edits=edits, kind="verify"))["job"])
    assert verified["state"] == "done"
    assert verified["progress"][0] > 0
    shapes.WhatIfAnswer.model_validate(verified["result"])
    assert verified["result"]["rung"] == "verify"
    assert verified["result"]["loss_after"] == pytest.approx(expected["verify"].after, rel=1e-4)


def test_training_again_agrees_with_the_library(
    ada: Client, file: ProjectFile, error: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_module, "NUM_SEEDS", 2)
    edits, index = edits_of(ada, error), ada.review.the_model().index
    expected = ada.finished(ada.post("jobs", {"kind": "expect"})["job"])["result"]["seconds"]
    assert 0.0 < expected < 600.0
    found = ada.finished(ada.post("jobs", where(error, edits=edits, kind="retrain"))["job"])
    assert found["progress"] == [4, 4]
    answer = found["result"]
    shapes.WhatIfAnswer.model_validate(answer)
    same = [
        Edit(one["sentence_number"], one["start"], one["stop"], one["labels"] and tuple(index.labels.encode(["O"])))
        for one in edits
    ]
    options = RetrainOptions(2, 1, tagger=ada.review.the_model().tagger)
    assert file.dev is not None
    (sentence,) = [one for one in read_corpus(file.dev).sentences if one.id == error["sentence"]]
    effects = retrain_effects(index, replace(query_of(ada, file, error), sentence=sentence), [same], options)[0]
    assert (answer["rung"], answer["num_seeds"], answer["num_flips"]) == ("retrain", 2, effects.num_flips)
    assert (answer["loss_before"], answer["loss_after"]) == pytest.approx(
        (effects.mean.before, effects.mean.after), rel=1e-4
    )
    twice = [{"sentence_number": 0, "start": 0, "stop": 1, "labels": None}] * 2
    failed = ada.finished(ada.post("jobs", where(error, kind="retrain", edits=twice))["job"])
    assert "overlap at token 0" in failed["error"]


def test_what_if_a_whole_pattern_is_fixed(ada: Client, error: dict[str, Any]) -> None:
    pattern = ada.get("patterns")["items"][0]
    members = [one for one in ada.review.data.findings if one.pattern == pattern["number"]]
    assert len(members) == sum(pattern["progress"].values())
    found = ada.post("what-if", where(error, pattern=pattern["number"]))
    assert found["edits"] == len(pattern_edits(ada.review.the_model().index, members))
    assert found["rung"] in ("refine", "step")
    assert ada.post("what-if", where(error, pattern=999), 404)["error"]


def test_jobs_that_fail_give_the_reason(ada: Client, error: dict[str, Any]) -> None:
    assert "a what-if needs edits or a pattern" in ada.post("jobs", where(error, kind="verify"), 400)["error"]
    assert "sentence" in ada.post("jobs", {"kind": "verify"}, 400)["error"]
    twice = [{"sentence_number": 0, "start": 0, "stop": 1, "labels": None}] * 2
    found = ada.finished(ada.post("jobs", where(error, kind="verify", edits=twice))["job"])
    assert found["state"] == "failed"
    assert "two edits of sentence 0 overlap at token 0" in found["error"]
    assert ada.http.get("/api/jobs/999").status_code == 404
    prepared = ada.finished(ada.post("jobs", {"kind": "prepare", "curvature": "auto", "what_if": True})["job"])
    assert prepared["state"] == "done"


def test_decisions_are_shown_beside_the_training_segments(ada: Client) -> None:
    finding = ada.get("findings/1")
    ada.decide(1)
    asked = where(finding, target="gold", data="train", kind="token", top=50)
    found = [one for one in ada.get("why", **asked)["supporters"] if one["rank"] == 1]
    assert [one["decision"]["status"] for one in found] == ["accepted"] * len(found)
    ada.post("undo")


def test_findings_are_filtered(ada: Client) -> None:
    everything = ada.get("findings", limit=1000)["items"]
    assert [one["rank"] for one in everything] == list(range(1, len(everything) + 1))
    change = everything[0]["change"]
    assert ada.get("findings", change=change, limit=1000)["items"] == [
        one for one in everything if one["change"] == change
    ]
    assert ada.get("findings", pattern="1", limit=1000)["items"] == [one for one in everything if one["pattern"] == 1]
    assert ada.get("findings", pattern="")["total"] == len(everything)
    word = everything[0]["tokens"][0]
    assert everything[0] in ada.get("findings", text=word.lower(), limit=1000)["items"]
    assert ada.get("findings", status="rejected")["total"] == 0
    assert ada.http.get("/api/findings?status=x").status_code == 400
    assert ada.http.get("/api/findings?pattern=x").status_code == 400


def test_every_answer_is_as_documented(ada: Client, error: dict[str, Any]) -> None:
    answers = {
        shapes.ProjectAnswer: ada.get("project"),
        shapes.ErrorsAnswer: ada.get("errors"),
        shapes.PatternsAnswer: ada.get("patterns"),
        shapes.WhyAnswer: ada.get("why", **where(error)),
        shapes.DecidedAnswer: ada.decide(1),
        shapes.BulkAnswer: ada.post("decisions/bulk", {"decisions": [
            {"sentence_number": 3, "start": 0, "stop": 1, "action": "skip"}]}),
        shapes.UndoAnswer: ada.post("undo"),
        shapes.RedoAnswer: ada.post("redo"),
        shapes.FindingsAnswer: ada.get("findings", limit=1000),
        shapes.FindingAnswer: ada.get("findings/1"),
        shapes.OccurrencesAnswer: ada.get("occurrences", rank=1),
        shapes.HistoryAnswer: ada.get("history"),
        shapes.ChangesAnswer: ada.get("changes"),
        shapes.TeachingAnswer: ada.get("teaching"),
        shapes.SentenceItem: ada.get("sentences/0"),
        shapes.QuestionsAnswer: ada.teach() and ada.get("questions"),
        shapes.ExportAnswer: ada.post("export"),
        shapes.ImportAnswer: ada.post("import", {"log": ""}),
        shapes.Error: ada.decide(1, "delete", status=400),
    }  # fmt: skip
    for shape, answer in answers.items():
        shape.model_validate(answer)
    paths = ada.http.get("/api/openapi.json").json()["paths"]
    assert {path for path in paths if "export/" not in path} == {
        f"/api/{name}" for name in (
            "project", "errors", "patterns", "findings", "findings/{rank}", "occurrences", "history", "changes",
            "decisions", "decisions/bulk", "undo", "redo", "export", "import", "why", "what-if", "jobs",
            "jobs/{number}", "teaching", "teach", "questions", "sentences/{number}",
        )
    }  # fmt: skip
    for path, methods in paths.items():
        for name, method in methods.items():
            assert ("security" in method) == (name == "post"), path
            good = next(iter(code for code in method["responses"] if code.startswith("2")))
            schema = method["responses"][good].get("content", {}).get("application/json", {}).get("schema", {})
            assert "$ref" in schema or "export/" in path, path


def test_an_answer_need_not_wait_for_the_curvature(file: ProjectFile, error: dict[str, Any]) -> None:
    """The first answer uses the identity, a job computes the curvature, and the second answer uses it."""
    review = open_review(file, "ada")
    model = review.the_model()
    assert review.held is not None
    assert review.held.wait(60)
    while review.is_busy:
        time.sleep(0.05)
    model.explainers = Explainers(model.index)
    client = Client(review)
    asked = where(error, score="relative", curvature="dense", wait=False)
    first = client.get("why", **asked)
    assert (first["curvature"], first["is_ready"], first["is_what_if_ready"]) == ("identity", False, False)
    assert first["supporters"] == client.get("why", **{**asked, "curvature": "identity"})["supporters"]
    job = client.post("jobs", {"kind": "prepare", "curvature": "dense", "score": "relative", "training": "token"})
    assert client.finished(job["job"])["state"] == "done"
    second = client.get("why", **asked)
    assert (second["curvature"], second["is_ready"]) == ("dense", True)
    assert second["supporters"] == client.get("why", **{**asked, "wait": True})["supporters"]
    assert second["supporters"] != first["supporters"]
    assert not client.get("why", **asked, kind="entity")["is_ready"]  # it has other self-influences
    assert client.get("why", **{**asked, "score": "influence"}, kind="entity")["is_ready"]
    assert client.finished(client.post("jobs", {"kind": "prepare", "what_if": True})["job"])["state"] == "done"
    assert client.get("why", **asked)["is_what_if_ready"]
    bad = client.post("jobs", {"kind": "prepare", "score": "guess"})["job"]
    assert "unknown score 'guess'; expected one of" in client.finished(bad)["error"]
    review.close()


def test_the_default_explanation_is_ready_when_the_server_is(ada: Client, error: dict[str, Any]) -> None:
    """The page uses it unless another score or curvature is chosen."""
    while ada.review.is_busy:
        time.sleep(0.05)
    usual = ada.get("project")["asking"]
    assert usual == {"score": "relative", "curvature": "auto"}
    assert ada.get("why", **where(error), **usual, wait=False)["is_ready"]


def test_a_file_that_cannot_be_read_stops_what_is_prepared_and_no_more(
    ada: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The default explanations and the held-out data are prepared in the background."""
    model = ada.review.the_model()

    def unreadable(*_: Any) -> None:
        raise PermissionError(13, "Permission denied", "seed-0.safetensors")

    monkeypatch.setattr(model, "prepare", unreadable)
    monkeypatch.setattr(model, "held", None)
    model._work()
    monkeypatch.setattr("tagtrace.review.model.mispredictions.predict_batches", unreadable)
    held = HeldOut(model.tagger, ada.review.data.corpus)
    held.work()
    assert held.problem == "seed-0.safetensors: Permission denied"


def test_the_default_for_a_large_head_is_kronecker_factors(ada: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exact self-influences of a shortlist would take longer than a second."""
    monkeypatch.setattr("tagtrace.review.model.model.QUICK_WORK", 1.0)
    model = ada.review.the_model()
    other = Model(model.index, model.tagger, ada.review.decisions)
    assert other.defaults == {"score": "relative", "curvature": "kronecker"}


def test_the_score_of_the_whole_tagger_is_computed_by_a_job(tmp_path: Path) -> None:
    file = make_project(tmp_path)
    build_whole(open_index(file.index), 1)
    review = open_review(file, "ada")
    try:
        assert review.held is not None
        assert review.held.wait(60)
        client = Client(review)
        assert client.get("project")["asking"]["score"] == "whole"
        error = client.get("errors", limit=1)["items"][0]
        asked = {**where(error), "score": "whole", "kind": "entity", "top": 5}
        quick = client.get("why", **asked, wait=False)
        assert (quick["score"], quick["is_ready"]) == ("cosine", False)
        body = {**where(error), "kind": "prepare", "score": "whole", "training": "entity", "top": 5}
        number = client.post("jobs", body, 201)["job"]
        while (job := client.get(f"jobs/{number}"))["state"] == "running":
            time.sleep(0.02)
        assert job["state"] == "done", job
        found = client.get("why", **asked, wait=False)
        assert (found["score"], found["is_ready"]) == ("whole", True)
        model = review.the_model()
        query, _ = model.ask(error["sentence"], error["start"], error["stop"])
        expected = Explainer(open_index(file.index)).explain(query, kind="entity", top=5)
        assert [one["score"] for one in found["supporters"]] == pytest.approx(
            [one.score for one in expected.supporters]
        )
        bad = client.post("jobs", {"kind": "prepare", "score": "whole"}, 201)["job"]
        while (job := client.get(f"jobs/{bad}"))["state"] == "running":
            time.sleep(0.02)
        assert job["state"] == "failed"
        assert "sentence" in job["error"]
    finally:
        review.close()
