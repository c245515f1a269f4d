"""Explanations from an index against the definitions, and the commands around them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from tagtrace._checks import OptionError
from tagtrace.cli import main
from tagtrace.cli.show import out
from tagtrace.data import LabelSet, read_corpus
from tagtrace.data.invented import generate, write_invented
from tagtrace.index import Index, IndexOptions, build_index
from tagtrace.influence import Edit, Explainer, Query
from tagtrace.tagger import Lexical, LexicalOptions, Tagger, new_tagger, save_tagger


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with invented data, a small tagger and its index in several shards."""
    folder = tmp_path_factory.mktemp("made")
    write_invented(generate(num_documents=20), folder)
    corpus = read_corpus(folder / "train.conll")
    torch.manual_seed(0)
    encoder = Lexical(LexicalOptions(buckets=64, width=4, hidden=4))
    tagger = new_tagger(encoder, LabelSet.from_sentences(corpus.sentences, "iob2"))
    save_tagger(tagger, folder / "tagger")
    options = IndexOptions(dtype="float32", shard_tokens=200)
    build_index(tagger, corpus, folder / "index", options, tagger_path=folder / "tagger")
    return folder


@pytest.fixture(scope="module")
def explainer(made: Path) -> Explainer:
    from tagtrace.index import open_index  # noqa: PLC0415

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
    from tagtrace.index import open_index  # noqa: PLC0415

    index = open_index(made / "index")
    best = {}
    for curvature in ("identity", "kronecker", "dense", "cg"):
        found = Explainer(index, curvature).explain(make(index), top=3).supporters  # type: ignore[arg-type]
        best[curvature] = [one.score for one in found]
    assert best["dense"] == pytest.approx(best["cg"], rel=1e-3)
    assert best["dense"] != pytest.approx(best["identity"], rel=0.1)


def test_bad_options(explainer: Explainer, made: Path) -> None:
    with pytest.raises(OptionError, match="expected one of"):
        explainer.explain(make(explainer.index), "closeness")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="top 0: must be at least 1"):
        explainer.explain(make(explainer.index), top=0)
    with pytest.raises(OptionError, match="kind 'paragraph': expected one of"):
        explainer.explain(make(explainer.index), kind="paragraph")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="curvature"):
        Explainer(explainer.index, "round").explain(make(explainer.index))  # type: ignore[arg-type]
    assert made.is_dir()


@pytest.mark.parametrize("command", ["explain", "verify"])
def test_commands(made: Path, tmp_path: Path, command: str) -> None:
    answer = tmp_path / "answer.json"
    arguments = [command, made / "index", "--data", made / "dev.conll", "--sentence", "dev-0:1", "--segment", "0:1"]
    arguments += ["--top", "2", "--json", answer]
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    assert "supporters: without these labels" in result.stdout
    (case,) = json.loads(answer.read_text())
    assert case["sentence"] == "dev-0:1"
    assert len(case["supporters"]) == 2
    assert case["supporters"][0]["id"].startswith("train-")
    assert (case["supporters"][0]["rung"] == "verify") == (command == "verify")
    assert (case["supporters"][0]["change"] is None) == (command == "explain")


@pytest.mark.parametrize("kind", ["token", "sentence", "document"])
def test_effects_are_shown_as_probabilities(
    made: Path, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(out, "width", 300)
    answer = tmp_path / "answer.json"
    arguments = ["explain", made / "index", "--data", made / "dev.conll", "--sentence", "dev-0:1", "--segment", "0:2"]
    arguments += ["--top", "1", "--kind", kind, "--target", "ORG", "--refine", "--json", answer]
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    (case,) = json.loads(answer.read_text())
    assert case["explained"] == ["B-ORG", "I-ORG"]
    (best,) = case["supporters"]
    before, after = best["probabilities"]["before"], best["probabilities"]["after"]
    assert len(before) == len(after) == 2
    assert before[0].keys() == after[0].keys()
    assert sum(before[0].values()) == pytest.approx(1, abs=0.01)
    for token, label in enumerate(case["explained"]):
        assert f"p({label}) {before[token].get(label, 0.0):.3f} -> {after[token].get(label, 0.0):.3f}" in result.stdout
    assert (best["change"] > 0) == (kind == "token") or best["change"] != 0
    assert ("sentence_numbers" in best) == (kind == "document")


def test_filters_from_the_command_line(made: Path, tmp_path: Path) -> None:
    answer = tmp_path / "answer.json"
    arguments = ["explain", made / "index", "--data", made / "dev.conll", "--sentence", "dev-0:1", "--segment", "0:1"]
    arguments += ["--kind", "segment", "--max-length", "2", "--score", "relative", "--label", "PER", "--json", answer]
    result = CliRunner().invoke(main, [str(argument) for argument in [*arguments, "--document", "train-3"]])
    assert result.exit_code == 0, result.output
    (case,) = json.loads(answer.read_text())
    found = case["supporters"] + case["opposers"]
    assert found
    assert {one["document"] for one in found} == {"train-3"}
    assert all(label.endswith("-PER") for one in found for label in one["labels"])
    assert {len(one["tokens"]) for one in found} == {1, 2}
    result = CliRunner().invoke(main, [str(argument) for argument in [*arguments, "--pair", "LOC:ORG"]])
    assert result.exit_code == 0, result.output
    assert "no supporters among" in result.stdout
    assert "no training segment passes the filters" in result.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--sentence", "nowhere"], "no sentence has the id 'nowhere'"),
        (["--segment", "0:1"], "a segment needs the id of its sentence"),
        (["--sentence", "dev-0:1", "--segment", "3"], "expected START:STOP"),
        (["--sentence", "dev-0:1", "--segment", "0:99"], "0:99 is not a segment of dev-0:1"),
        (["--sentence", "dev-0:1", "--segment", "0:1", "--target", "WINE"], "target 'WINE': unknown label 'WINE'"),
        (["--label", "WINE"], "unknown label 'WINE'; known are LOC, MISC, O, ORG, PER"),
        (["--pair", "LOC"], "expected GIVEN:LIKELY"),
        (["--document", "train-99"], "no document 'train-99'; it has train-0"),
        (["--top", "0"], "top 0: must be at least 1"),
        (["--kind", "segment", "--max-length", "0"], "max_length 0"),
    ],
)
def test_bad_questions_get_one_line(made: Path, options: list[str], message: str) -> None:
    arguments = ["explain", str(made / "index"), "--data", str(made / "dev.conll"), *options]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 1
    assert message in result.stderr
    assert result.stderr.strip().splitlines()[-1].startswith("tagtrace: ")


def test_another_tagger_is_refused(made: Path, tmp_path: Path) -> None:
    corpus = read_corpus(made / "train.conll")
    torch.manual_seed(1)
    other: Tagger = new_tagger(
        Lexical(LexicalOptions(buckets=64, width=4, hidden=4)), LabelSet.from_sentences(corpus.sentences, "iob2")
    )
    save_tagger(other, tmp_path / "other")
    arguments = ["explain", str(made / "index"), "--data", str(made / "dev.conll"), "--tagger", str(tmp_path / "other")]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 1
    assert "another tagger" in result.stderr
