"""Questions to an explainer: each rung against the definitions, and answers that do not depend on one another."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tagtrace._checks import OptionError
from tagtrace.data import read_corpus
from tagtrace.index import Index, open_index
from tagtrace.influence import Edit, Explainer, Explanation, Filter, Query, TrainingSegment, make_query
from tagtrace.influence.edits import refine
from tagtrace.influence.explain import strongest
from tagtrace.influence.explanation import Rung
from tests.influence.small_index import small_index


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with invented data, a small tagger and its index in several shards."""
    folder = tmp_path_factory.mktemp("made")
    small_index(folder, dtype="float32", shard_tokens=200)
    return folder


@pytest.fixture(scope="module")
def explainer(made: Path) -> Explainer:
    return Explainer(open_index(made / "index"))


def make(index: Index, sentence_number: int = 3, start: int = 0, stop: int = 2) -> Query:
    rows = index.sentence_rows(sentence_number, torch.float64)
    return Query(rows.features, rows.labels, start, stop)


def test_sides_are_sorted_and_signed(explainer: Explainer) -> None:
    found = explainer.explain(make(explainer.index), top=7)
    supporters, opposers = ([one.score for one in side] for side in (found.supporters, found.opposers))
    assert supporters == sorted(supporters, reverse=True)
    assert opposers == sorted(opposers)
    assert min(supporters) > 0 > max(opposers)


def test_the_rungs_agree_where_they_should(explainer: Explainer) -> None:
    query = make(explainer.index)
    for ranked in explainer.explain(query, top=3).supporters:
        refined, verified = explainer.refine(query, ranked), explainer.verify(query, ranked)
        assert (refined.rung, verified.rung) == ("refine", "verify")
        assert refined.change is not None
        assert verified.change is not None
        assert verified.change > 0, "a supporter: without it the loss is higher"
        assert refined.change == pytest.approx(verified.change, rel=0.5)


@pytest.mark.parametrize("kind", ["entity", "sentence", "document"])
def test_every_kind_can_be_refined_and_verified(explainer: Explainer, kind: str) -> None:
    query = make(explainer.index)
    best = explainer.explain(query, kind=kind, top=1).supporters[0]  # type: ignore[arg-type]
    refined, verified = explainer.refine(query, best), explainer.verify(query, best)
    assert refined.effect is not None
    assert verified.effect is not None
    assert (refined.edits(), refined.document, refined.score) == (best.edits(), best.document, best.score)
    moved = explainer.optimum.at(explainer.retrainer.retrain(best.edits()).theta)
    assert verified.change == pytest.approx(float((query.loss(moved) - query.loss(explainer.optimum)).detach()))
    torch.testing.assert_close(verified.effect.probabilities_after, query.probabilities(moved))
    torch.testing.assert_close(verified.effect.probabilities_before, query.probabilities(explainer.optimum))
    assert refined.change == pytest.approx(verified.change, rel=0.5)


def test_a_document_is_edited_in_all_its_sentences(explainer: Explainer) -> None:
    index = explainer.index
    best = explainer.explain(make(index), kind="document", top=1).supporters[0]
    expected = [c for c in range(index.num_sentences) if index.sentence(c).document == best.document]
    assert len(expected) > 1
    assert best.edits() == [Edit(number, 0, int(index.lengths[number])) for number in expected]


def test_curvatures_give_other_scores(made: Path) -> None:
    index = open_index(made / "index")
    best = {}
    for curvature in ("identity", "kronecker", "dense", "cg"):
        found = Explainer(index, curvature).explain(make(index), top=3).supporters  # type: ignore[arg-type]
        best[curvature] = [one.score for one in found]
    assert best["dense"] == pytest.approx(best["cg"], rel=1e-3)
    assert best["dense"] != pytest.approx(best["identity"], rel=0.1)


@pytest.mark.parametrize("rung", ["refine", "verify"])
@pytest.mark.parametrize("kind", ["token", "document"])
def test_a_rung_of_explain_is_each_segment_on_that_rung(explainer: Explainer, rung: Rung, kind: str) -> None:
    query = make(explainer.index)
    screened = explainer.explain(query, kind=kind, top=2)  # type: ignore[arg-type]
    found = explainer.explain(query, kind=kind, top=2, rung=rung)  # type: ignore[arg-type]
    assert (found.num_candidates, found.notes) == (screened.num_candidates, ())
    for segment, before in zip(both_sides(found), both_sides(screened), strict=True):
        expected = explainer.refine(query, before)
        if rung == "verify":
            expected = explainer.verify(query, expected)
        assert (segment.place, segment.score, segment.rung) == (before.place, before.score, rung)
        assert segment.change == pytest.approx(expected.change, rel=1e-5)
        assert (segment.refined is not None, segment.verified is not None) == (True, rung == "verify")


def both_sides(found: Explanation) -> list[TrainingSegment]:
    assert found.supporters
    assert found.opposers
    return [*found.supporters, *found.opposers]


def test_a_segment_too_long_to_refine_is_retrained(explainer: Explainer, monkeypatch: pytest.MonkeyPatch) -> None:
    query = make(explainer.index)
    monkeypatch.setattr(refine, "MAX_LOGITS", 10)
    (best,) = explainer.explain(query, kind="entity", top=1, rung="refine").supporters
    assert (best.rung, best.refined) == ("verify", None)
    assert explainer.refine(query, best) is best


def test_answers_do_not_depend_on_the_order_of_questions(made: Path) -> None:
    first, second = (Explainer(open_index(made / "index"), curvature="kronecker") for _ in range(2))
    query, edits = make(first.index), [Edit(3, 0, 2)]

    def ask(explainer: Explainer, order: list[str]) -> dict[str, object]:
        questions = {
            "verify": lambda: explainer.explain(query, top=1, rung="verify").to_json(),
            "relative": lambda: explainer.explain(query, "relative", "entity", top=2).to_json(),
            "what if": lambda: explainer.what_if(query, edits, "verify").to_json(),
            "flip": lambda: explainer.flip(query, most=2, max_retrainings=3).to_json(),
            "influence": lambda: explainer.explain(query, kind="segment", top=2).to_json(),
        }
        return {name: questions[name]() for name in order}

    names = ["influence", "relative", "what if", "verify", "flip"]
    assert ask(first, names) == ask(second, names[::-1])


def test_only_what_is_needed_is_computed(made: Path) -> None:
    index = open_index(made / "index")
    cosine, edited = Explainer(index), Explainer(index, "cg")
    cosine.explain(make(index), "cosine")
    assert not {"rows", "solver", "exact", "objective"} & vars(cosine).keys()
    edited.prepare("cosine", "refine")
    assert "exact" in vars(edited)
    assert "solver" not in vars(edited), "edits do not need the curvature of first-order scores"
    edited.prepare("influence")
    assert edited.solver is not edited.exact


def test_edits_need_a_head_at_its_optimum(tmp_path: Path) -> None:
    explainer = Explainer(small_index(tmp_path, width=2, refit=False))
    query = make(explainer.index)
    assert explainer.explain(query).supporters
    for ask in (
        lambda: explainer.explain(query, rung="refine"),
        lambda: explainer.what_if(query, [Edit(3, 0, 1)]),
        lambda: explainer.flip(query),
    ):
        with pytest.raises(OptionError, match=r"not at its optimum .* build the index with a refitted head"):
            ask()


def test_bad_options(explainer: Explainer) -> None:
    with pytest.raises(OptionError, match="rung 'climb': expected one of screen, refine, verify"):
        explainer.explain(make(explainer.index), rung="climb")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="num_passes -1: must be at least 0"):
        Explainer(explainer.index, num_passes=-1)
    with pytest.raises(OptionError, match="expected one of"):
        explainer.explain(make(explainer.index), "closeness")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="top 0: must be at least 1"):
        explainer.explain(make(explainer.index), top=0)
    with pytest.raises(OptionError, match="kind 'paragraph': expected one of"):
        explainer.explain(make(explainer.index), kind="paragraph")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="max_length 0: must be at least 1"):
        explainer.explain(make(explainer.index), kind="segment", max_length=0)
    with pytest.raises(OptionError, match="curvature 'round': expected one of auto, identity"):
        Explainer(explainer.index, "round").explain(make(explainer.index))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["token", "sentence", "document"])
def test_effects_are_shown_as_probabilities(made: Path, explainer: Explainer, kind: str) -> None:
    sentence = read_corpus(made / "dev.conll").sentences[1]
    query = make_query(explainer.index.tagger(), sentence, 0, 2, "ORG")
    found = explainer.explain(query, kind=kind, top=1, rung="refine")  # type: ignore[arg-type]
    case, printed = found.to_json(), str(found)
    assert case["explained"] == ["B-ORG", "I-ORG"]
    (best,) = case["supporters"]
    before, after = best["probabilities"]["before"], best["probabilities"]["after"]
    assert len(before) == len(after) == 2
    assert before[0].keys() == after[0].keys()
    assert sum(before[0].values()) == pytest.approx(1, abs=0.01)
    for token, label in enumerate(case["explained"]):
        assert f"p({label}) {before[token].get(label, 0.0):.3f} -> {after[token].get(label, 0.0):.3f}" in printed
    assert best["change"] > 0 if kind == "token" else best["change"] != 0
    assert ("sentence_numbers" in best) == (kind == "document")


def test_filters_hold_for_every_score_and_length(explainer: Explainer) -> None:
    query, where = make(explainer.index), Filter(label="PER", document="train-3")
    found = both_sides(explainer.explain(query, "relative", "segment", max_length=2, where=where))
    assert {one.sentence.document for one in found} == {"train-3"}
    assert all(label.endswith("-PER") for one in found for label in one.sentence.labels[one.start : one.stop])
    assert {one.stop - one.start for one in found} == {1, 2}
    where = Filter(label="PER", pair="LOC:ORG")
    nothing = explainer.explain(query, "relative", "segment", max_length=2, where=where)
    assert "no training segment passes the filters" in str(nothing)


def test_equal_scores_are_in_order_whatever_the_number_asked_for() -> None:
    which, values = torch.arange(100, 160), torch.tensor([1.0, 3.0, 3.0, -2.0, -2.0, 0.0] * 10)
    for top in range(1, 61):
        best = strongest(values, which, top, 1.0)
        assert [number for number, _ in best[:20]] == [100 + n for n in range(60) if n % 6 in (1, 2)][:top]
        assert len(best) == min(top, 30)
        worst = strongest(values, which, top, -1.0)
        assert worst == [(100 + n, -2.0) for n in range(60) if n % 6 in (3, 4)][:top]


def test_damping_is_for_screening_only(made: Path, explainer: Explainer) -> None:
    """Refine and verify ask what retraining does; a damped inverse would answer something else."""
    query = make(explainer.index)
    damped = Explainer(open_index(made / "index"), damping=0.5)
    (one,) = explainer.explain(query, top=1).supporters
    assert damped.explain(query, top=1).supporters[0].score != pytest.approx(one.score, rel=0.01)
    for rung in ("refine", "verify"):
        changes = [getattr(some, rung)(query, one).change for some in (explainer, damped)]
        assert changes[0] == pytest.approx(changes[1], rel=1e-6)
    ones = torch.ones_like(damped.head.flat()).unsqueeze(0)
    solved = [some.retrainer.solver.approximate(ones) for some in (explainer, damped)]
    assert torch.equal(solved[0], solved[1])


def test_edits_start_from_the_very_optimum(tmp_path: Path) -> None:
    """The optimum of a head that was fitted roughly is found first: an edit to the same labels changes nothing."""
    index = small_index(tmp_path, dtype="float32", tolerance=1e-3)
    explainer = Explainer(index)
    objective = explainer.objective
    assert objective.evaluate(index.head.flat()).max_gradient > 1e-5
    assert objective.evaluate(explainer.optimum.flat()).max_gradient < 1e-11
    rows = index.sentence_rows(2)
    same = Edit(2, 0, 1, (int(rows.labels[0]),))
    found = explainer.what_if(make(index), [same], "verify")
    for effect in found.effects.values():
        assert effect.change == pytest.approx(0.0, abs=1e-9)


def test_many_queries_are_answered_as_one_by_one(explainer: Explainer) -> None:
    queries = [make(explainer.index, number, 0, 1) for number in (1, 3, 5, 8)]
    for score in ("influence", "relative", "cosine"):
        together = list(explainer.explain_all(queries, score, top=4))  # type: ignore[arg-type]
        for query, found in zip(queries, together, strict=True):
            alone = explainer.explain(query, score, top=4)  # type: ignore[arg-type]
            assert [one.place for one in found.supporters] == [one.place for one in alone.supporters]
            scores = [one.score for one in found.opposers]
            assert scores == pytest.approx([one.score for one in alone.opposers], rel=1e-4)
