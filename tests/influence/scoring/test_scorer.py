"""Every score of every kind of candidate against its formula on dense gradients, for all heads."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
import torch
from torch import Tensor

from tagtrace._checks import DataError
from tagtrace.data import LabelSet, ReadOptions, read_corpus
from tagtrace.index import Index, IndexOptions, build_index
from tagtrace.influence import Candidates, Explainer, Query, find_candidates
from tagtrace.influence.curvature.operators import Hessian
from tagtrace.influence.scoring import scorer as scores
from tagtrace.influence.scoring.scorer import shortlist
from tagtrace.tagger import HeadOptions, Lexical, LexicalOptions, Rows, new_tagger
from tagtrace.tagger.convex.hessian_product import HessianProduct
from tagtrace.tagger.convex.objective import Objective
from tests.influence.dense import segment_gradients
from tests.strategies import HEADS

KINDS = ["token", "entity", "segment", "sentence", "document"]


@pytest.fixture(scope="module")
def corpus_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four documents of made-up words with chance labels."""
    random = Random(0)
    lines = []
    for _ in range(4):
        lines += ["-DOCSTART- O", ""]
        for _ in range(4):
            previous = "O"
            for _ in range(random.randint(1, 7)):
                allowed = ["O", "B-LOC", "B-ORG", *([f"I-{previous[2:]}"] if previous != "O" else [])]
                previous = random.choice(allowed)
                lines.append(f"{random.choice(('blar', 'Fomb', 'Zilk', 'TREN', 'vup', 'Oxal'))} {previous}")
            lines.append("")
    path = tmp_path_factory.mktemp("corpus") / "train.conll"
    path.write_text("\n".join(lines))
    return path


@pytest.fixture(scope="module", params=HEADS, ids=lambda o: f"{o.kind}-{o.start_end}-{o.constrained}")
def explainer(request: pytest.FixtureRequest, corpus_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Explainer:
    return Explainer(make_index(corpus_file, tmp_path_factory.mktemp("index"), request.param))


def make_index(corpus_file: Path, folder: Path, options: HeadOptions) -> Index:
    """A small index of several shards; a document may lie in two."""
    corpus = read_corpus(corpus_file)
    torch.manual_seed(0)
    encoder = Lexical(LexicalOptions(buckets=64, width=3, hidden=3))
    tagger = new_tagger(encoder, LabelSet.from_sentences(corpus.sentences, "iob2"), options)
    return build_index(tagger, corpus, folder / "index", IndexOptions(dtype="float32", shard_tokens=20))


def query_of(index: Index) -> Query:
    rows = index.sentence_rows(2, torch.float64)
    return Query(rows.features.flip(0), rows.labels, 0, 2)


class Dense:
    """Gradients (K, P), mean features (K, D) and types of every candidate, without anything factored."""

    def __init__(self, explainer: Explainer, candidates: Candidates) -> None:
        index = explainer.index
        rows = Rows(
            explainer.rows.joined().features.double(), explainer.rows.joined().labels, explainer.rows.joined().lengths
        )
        self.head, self.candidates = index.head, candidates
        gradients = segment_gradients(self.head, rows, candidates.segments)
        types = index.labels.type_of
        totals, means, self.types = [], [], []
        owner = torch.arange(len(candidates)) if candidates.owner is None else candidates.owner
        for number in range(len(candidates)):
            totals.append(gradients[owner == number].sum(0))
            tokens, labels = [], []
            for sentence_number, start, stop in candidates.parts(number):
                inside = slice(int(index.starts[sentence_number]) + start, int(index.starts[sentence_number]) + stop)
                tokens.append(rows.features[inside])
                labels += rows.labels[inside].tolist()
            means.append(torch.cat(tokens).mean(0))
            self.types.append({types[label] for label in labels})
        self.gradients, self.means = torch.stack(totals), torch.stack(means)
        # constraints leave a token between its neighbours no choice: its gradient is zero but for rounding
        self.gradients[self.gradients.norm(dim=1) < 1e-13] = 0.0

    def expected(self, score: str, query: Query, inverse: Tensor, num_sentences: int) -> Tensor:
        g = query.gradient(self.head)
        mean = query.features[query.start : query.stop].mean(0)
        if score == "influence":
            return self.gradients @ inverse @ g / num_sentences
        if score == "cosine":
            return torch.cosine_similarity(self.gradients, g.unsqueeze(0))
        if score == "relative":
            own = ((self.gradients @ inverse) * self.gradients).sum(1)
            return (self.gradients @ inverse @ g / own.sqrt()).nan_to_num(0.0)
        if score == "neighbour-dot":
            return self.means @ mean
        return torch.cosine_similarity(self.means, mean.unsqueeze(0))


def scored(explainer: Explainer, query: Query, score: str, kind: str) -> Tensor:
    """Every candidate's score as ``explain`` gives it, (K,), zero where it is on neither side."""
    candidates = find_candidates(explainer.index, kind, 2)  # type: ignore[arg-type]
    found = explainer.explain(query, score, kind, 10**6, max_length=2)  # type: ignore[arg-type]
    assert found.num_candidates == len(candidates)
    numbers = {tuple(candidates.parts(number)): number for number in range(len(candidates))}
    values = torch.zeros(len(candidates), dtype=torch.float64)
    for one in (*found.supporters, *found.opposers):
        values[numbers[(one.sentence_number, one.start, one.stop), *one.rest]] = one.score
    return values


@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_their_formulas(explainer: Explainer, kind: str) -> None:
    index = explainer.index
    assert len(index.shards) > 1
    query = query_of(index)
    dense = Dense(explainer, find_candidates(index, kind, 2))  # type: ignore[arg-type]
    identity = torch.eye(index.head.num_parameters, dtype=torch.float64)
    objective = Objective(index.head, explainer.rows.joined(), index.manifest.fit.l2)
    inverse = torch.linalg.solve(Hessian(HessianProduct(objective, index.head.flat())).dense(), identity)
    for score in ("influence", "cosine", "relative", "neighbour", "neighbour-dot"):
        expected = dense.expected(score, query, inverse, index.num_sentences)
        found = scored(explainer, query, score, kind)
        largest = float(expected.abs().max())
        torch.testing.assert_close(found / largest, expected / largest, rtol=0, atol=1e-5)  # products are in float32
        assert largest > 1e-4
    assert kind != "document" or len(dense.candidates) == 4


@pytest.mark.parametrize("kind", KINDS)
def test_the_label_turns_the_sign_of_a_neighbour(explainer: Explainer, kind: str) -> None:
    index = explainer.index
    query = query_of(index)
    types = index.labels.type_of
    wanted = {types[label] for label in query.labels[query.start : query.stop].tolist()}
    dense = Dense(explainer, find_candidates(index, kind, 2))  # type: ignore[arg-type]
    is_whole = kind in ("sentence", "document")
    same = torch.tensor([types_ >= wanted if is_whole else types_ == wanted for types_ in dense.types])
    cosines = scored(explainer, query, "neighbour", kind)
    torch.testing.assert_close(scored(explainer, query, "neighbour-label", kind), torch.where(same, cosines, -cosines))
    assert bool(same.any())


@pytest.mark.parametrize("curvature", ["identity", "kronecker", "cg"])
@pytest.mark.parametrize("kind", ["token", "segment", "document"])
def test_relative_under_each_curvature(explainer: Explainer, curvature: str, kind: str) -> None:
    other = Explainer(explainer.index, curvature, 0.1)  # type: ignore[arg-type]
    query = query_of(explainer.index)
    dense = Dense(explainer, find_candidates(explainer.index, kind, 2))  # type: ignore[arg-type]
    assert other.solver.operator is not None
    inverse = torch.linalg.inv(other.solver.operator.dense())
    expected = dense.expected("relative", query, inverse, explainer.index.num_sentences)
    found = scored(other, query, "relative", kind)
    largest = float(expected.abs().max())
    precision = 1e-3 if curvature == "cg" else 1e-5  # products are in float32
    torch.testing.assert_close(found / largest, expected / largest, rtol=0, atol=precision)


@pytest.mark.parametrize("kind", ["token", "segment", "document"])
@pytest.mark.parametrize("curvature", ["dense", "cg"])
def test_a_shortlist_shows_exact_values(
    explainer: Explainer, kind: str, curvature: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where exact self-influences cost too much, those shown are exact all the same."""
    query = query_of(explainer.index)
    whole = explainer.explain(query, "relative", kind, 2, max_length=2)  # type: ignore[arg-type]
    monkeypatch.setattr(scores, "MAX_WORK", 1.0)
    monkeypatch.setattr(scores, "SHORTLIST", 5)
    monkeypatch.setattr(scores, "SHORTLIST_ITERATED", 5)
    asked: list[int] = []
    true_self_influence = scores.self_influence

    def counting(head: object, index: object, candidates: Candidates, solver: object) -> Tensor:
        asked.append(len(candidates))
        return true_self_influence(head, index, candidates, solver)  # type: ignore[arg-type]

    monkeypatch.setattr(scores, "self_influence", counting)
    other = Explainer(explainer.index, curvature)  # type: ignore[arg-type]
    found = other.explain(query, "relative", kind, 2, max_length=2)  # type: ignore[arg-type]
    assert asked[0] == found.num_candidates  # by Kronecker factors
    assert asked[1] <= 40  # 10 times the top of each side
    for side, expected in ((found.supporters, whole.supporters), (found.opposers, whole.opposers)):
        assert [one.edits() for one in side] == [one.edits() for one in expected]
        assert [one.score for one in side] == pytest.approx([one.score for one in expected], rel=2e-3)


def test_the_shortlist_holds_both_ends() -> None:
    assert shortlist(torch.tensor([3.0, -5.0, 0.0, 9.0, -7.0, 1.0]), 2).tolist() == [0, 1, 3, 4]
    assert shortlist(torch.tensor([1.0]), 2).tolist() == [0]


@pytest.mark.parametrize("kind", KINDS)
def test_no_score_copies_all_features(explainer: Explainer, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only solvers, refine and verify do; the rest goes through the index a part at a time."""
    other = Explainer(explainer.index)
    vars(other)["solver"] = explainer.solver

    def refuse(*_: object) -> Rows:
        raise AssertionError("all features at once")

    monkeypatch.setattr(Index, "rows", refuse)
    for score in ("influence", "cosine", "relative", "neighbour", "neighbour-dot", "neighbour-label"):
        assert other.explain(query_of(other.index), score, kind).supporters  # type: ignore[arg-type]


@pytest.mark.parametrize("curvature", ["dense", "cg", "kronecker", "identity"])
def test_one_label_teaches_nothing(tmp_path: Path, curvature: str) -> None:
    (tmp_path / "one.conll").write_text("blar N\nFomb N\nvup N\n\nZilk N\nTREN N\n")
    corpus = read_corpus(tmp_path / "one.conll", ReadOptions(scheme="plain"))
    encoder = Lexical(LexicalOptions(buckets=64, width=2, hidden=2))
    tagger = new_tagger(encoder, LabelSet.from_sentences(corpus.sentences, "plain"))
    index = build_index(tagger, corpus, tmp_path / "index")
    query = query_of_sentence(index, 0)
    explainer = Explainer(index, curvature)  # type: ignore[arg-type]
    for kind in ("token", "segment", "sentence"):
        for score in ("influence", "cosine", "relative"):
            found = explainer.explain(query, score, kind)  # type: ignore[arg-type]
            assert not found.supporters, (kind, score)
            assert not found.opposers, (kind, score)
        assert explainer.explain(query, "neighbour", kind).supporters  # type: ignore[arg-type]


def query_of_sentence(index: Index, sentence_number: int) -> Query:
    rows = index.sentence_rows(sentence_number, torch.float64)
    return Query(rows.features, rows.labels, 0, 1)


def test_a_corpus_without_documents_is_refused(tmp_path: Path) -> None:
    (tmp_path / "alone.conll").write_text("Ada B-PER\ncame O\n\nBo B-PER\nleft O\n\nCy B-PER\ncame O\n")
    index = make_index(tmp_path / "alone.conll", tmp_path, HeadOptions())
    with pytest.raises(DataError, match="names no documents; ask for whole sentences"):
        Explainer(index).explain(query_of(index), kind="document")
