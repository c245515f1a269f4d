"""Explanations from an index against the definitions, and the commands around them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from tagtrace._checks import OptionError
from tagtrace.cli import main
from tagtrace.cli.explain import mispredicted_segments
from tagtrace.data import LabelSet, Sentence, read_corpus
from tagtrace.data.invented import generate, write_invented
from tagtrace.index import Index, IndexOptions, build_index
from tagtrace.influence import Explainer, Query, candidates
from tagtrace.tagger import Lexical, LexicalOptions, Tagger, crf, new_tagger, save_tagger
from tagtrace.tagger.rows import pad_rows


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


def make(index: Index, chain: int = 3, start: int = 0, stop: int = 2) -> Query:
    rows = index.chain(chain, torch.float64)
    return Query(rows.features, rows.labels, start, stop)


def gradients(explainer: Explainer, segments: torch.Tensor) -> torch.Tensor:
    """Dense gradients (S, P) by autograd, the twin of every fast path."""
    rows, head = explainer.rows, explainer.head
    scores = head(rows.features.double(), rows.lengths)
    losses = crf.conditional_loss(scores, pad_rows(rows.labels, rows.lengths), segments)
    parts = [torch.autograd.grad(loss, list(head.parameters()), retain_graph=True) for loss in losses]
    return torch.stack([torch.cat([part.flatten() for part in each]) for each in parts])


@pytest.mark.parametrize("kind", ["token", "entity", "segment", "chain"])
def test_influence_is_g_h_inverse_g_over_n(explainer: Explainer, kind: str) -> None:
    query = make(explainer.index)
    segments = candidates(explainer.rows, explainer.index.labels, kind)[:60]  # type: ignore[arg-type]
    expected = gradients(explainer, segments) @ explainer.solver.solve(query.gradient(explainer.head)[None]).value[0]
    expected /= explainer.index.num_chains
    found = explainer.explain(query, kind=kind, top=10**6)  # type: ignore[arg-type]
    scores = {(one.chain, one.start, one.stop): one.score for one in (*found.supporters, *found.opposers)}
    for segment, value in zip(segments.tolist(), expected.tolist(), strict=True):
        assert scores.get(tuple(segment), 0.0) == pytest.approx(value, rel=1e-3, abs=1e-7)


def test_cosine_is_that_of_gradients(explainer: Explainer) -> None:
    query = make(explainer.index)
    segments = candidates(explainer.rows, explainer.index.labels, "token")[:80]
    dense = gradients(explainer, segments)
    expected = torch.cosine_similarity(dense, query.gradient(explainer.head)[None])
    found = explainer.explain(query, "cosine", top=10**6)
    scores = {(one.chain, one.start): one.score for one in (*found.supporters, *found.opposers)}
    for (chain, start, _), value in zip(segments.tolist(), expected.tolist(), strict=True):
        assert scores.get((chain, start), 0.0) == pytest.approx(value, abs=1e-4)
    assert all(-1.0001 <= score <= 1.0001 for score in scores.values())


def test_neighbours_are_nearest_features(explainer: Explainer) -> None:
    query = make(explainer.index, start=1, stop=2)
    best = explainer.explain(query, "neighbour", top=1).supporters[0]
    assert best.score == pytest.approx(1.0, abs=1e-5)  # the token itself is in the index
    features = explainer.index.chain(best.chain, torch.float64).features[best.start]
    torch.testing.assert_close(features, query.features[1])


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
    with pytest.raises(OptionError, match="there for tokens"):
        explainer.explain(make(explainer.index), "cosine", "entity")
    with pytest.raises(OptionError, match="curvature"):
        Explainer(explainer.index, "round").explain(make(explainer.index))  # type: ignore[arg-type]
    assert made.is_dir()


def test_mispredicted_segments_are_joined_where_they_overlap() -> None:
    sentence = Sentence(tuple("abcde"), ("B-ORG", "I-ORG", "O", "B-PER", "O"))
    predicted = ("B-LOC", "O", "O", "B-PER", "B-PER")
    assert mispredicted_segments(sentence, predicted, "iob2") == [(0, 2), (4, 5)]
    assert mispredicted_segments(sentence, sentence.labels, "iob2") == []


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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--sentence", "nowhere"], "no sentence has the id 'nowhere'"),
        (["--segment", "0:1"], "--segment needs --sentence"),
        (["--sentence", "dev-0:1", "--segment", "3"], "expected START:STOP"),
        (["--sentence", "dev-0:1", "--segment", "0:99"], "the sentence has tokens 0 to"),
        (["--sentence", "dev-0:1", "--segment", "0:1", "--target", "WINE"], "B-WINE"),
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
