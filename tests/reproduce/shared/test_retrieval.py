"""The strongest supporters and opposers, compared with dense gradients, a dense inverse, and the explainer."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tagtrace.findings import Queries, read_trusted
from tagtrace.findings.judges.probabilities import token_segments
from tagtrace.index import Index
from tagtrace.influence import Explainer, Query, Score, SegmentKind
from tagtrace.influence.curvature.choice import Curvature
from tagtrace.influence.curvature.operators import Hessian
from tagtrace.reproduce.shared import retrieval
from tagtrace.reproduce.shared.device_curvature import DeviceCurvature
from tagtrace.reproduce.shared.retrieval import COSINE, CURVATURE, IDENTITY, RELATIVE, Retriever, Strongest
from tagtrace.tagger import HeadOptions
from tagtrace.tagger.convex.hessian_product import HessianProduct
from tagtrace.tagger.convex.objective import Objective
from tests.findings.made import double_rows, make_index, make_sentences, make_tagger
from tests.influence.dense import segment_gradients

CPU = torch.device("cpu")


@pytest.fixture(params=[HeadOptions(), HeadOptions("softmax")], ids=["crf", "softmax"], scope="module")
def index(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Index:
    return make_index(tmp_path_factory.mktemp("made"), head=request.param)


@pytest.fixture(scope="module")
def asked(index: Index) -> Queries:
    rows = read_trusted(index, make_tagger(index.manifest.head), make_sentences(9, seed=5)).rows
    return Queries(rows, torch.tensor([0, 3, 4, 7, len(rows.labels) - 1]))


def everything(index: Index, asked: Queries) -> dict[str, dict[str, Strongest]]:
    retriever, curved = Retriever(index), DeviceCurvature(index)
    return {
        "token": retriever.tokens(asked) | retriever.tokens(asked, curved),
        "sentence": retriever.sentences(asked) | retriever.sentences(asked, curved),
    }


def wholes(lengths: Tensor) -> Tensor:
    return torch.tensor([(number, 0, length) for number, length in enumerate(lengths.tolist())])


def dense_scores(queries: Tensor, trained: Tensor, inverse: Tensor) -> dict[str, Tensor]:
    """From gradients (Q, P) and (K, P) and K^-1, (Q, K) each."""
    moved = queries @ inverse @ trained.T
    return {
        IDENTITY: queries @ trained.T,
        COSINE: queries @ torch.nn.functional.normalize(trained, dim=1).T,
        CURVATURE: moved,
        RELATIVE: moved / (trained @ inverse * trained).sum(1).sqrt(),
    }


def test_every_score_finds_what_dense_gradients_and_a_dense_inverse_say(index: Index, asked: Queries) -> None:
    head, rows = index.head, double_rows(index)
    inverse = torch.linalg.inv(
        Hessian(HessianProduct(Objective(head, rows, index.manifest.fit.l2), head.flat())).dense()
    )
    sentences = wholes(asked.rows.lengths)[asked.segments[:, 0]]
    expected = {
        "token": dense_scores(
            segment_gradients(head, asked.rows, asked.segments),
            segment_gradients(head, rows, token_segments(rows.lengths)),
            inverse,
        ),
        "sentence": dense_scores(
            segment_gradients(head, asked.rows, sentences), segment_gradients(head, rows, wholes(rows.lengths)), inverse
        ),
    }
    for kind, found in everything(index, asked).items():
        assert found.keys() == expected[kind].keys()
        for name, values in expected[kind].items():
            assert found[name].are_tokens == (kind == "token")
            for places, best in ((found[name].supporters, values.max(1)), (found[name].opposers, values.min(1))):
                there = values.gather(1, places.unsqueeze(1)).squeeze(1)
                torch.testing.assert_close(there, best.values, rtol=1e-5, atol=1e-7)  # equal words tie
    assert len({tuple(one.supporters.tolist()) for one in everything(index, asked)["token"].values()}) > 1


def below_the_best(
    index: Index, asked: Queries, found: Tensor, score: Score, kind: SegmentKind, curvature: Curvature
) -> float:
    """The largest relative difference between the explainer's best score and its score of the supporter found here.

    Zero if they are the same or tie: some invented words occur twice between the same labels.
    """
    explainer, worst = Explainer(index, curvature), 0.0
    starts = asked.rows.lengths.cumsum(0) - asked.rows.lengths
    for (sentence_number, start, stop), number in zip(asked.segments.tolist(), found.tolist(), strict=True):
        length = int(asked.rows.lengths[sentence_number])
        part = slice(int(starts[sentence_number]), int(starts[sentence_number]) + length)
        span = (0, length) if kind == "sentence" else (start, stop)
        query = Query(asked.rows.features[part], asked.rows.labels[part], *span)
        ranked = explainer.explain(query, score, kind, top=1000).supporters
        scores = {
            int(index.starts[one.sentence_number]) + one.start if kind == "token" else one.sentence_number: one.score
            for one in ranked
        }
        worst = max(worst, 1.0 - scores.get(number, 0.0) / ranked[0].score)
    return worst


SCORES: dict[str, tuple[Score, Curvature]] = {
    IDENTITY: ("influence", "identity"), CURVATURE: ("influence", "dense"), COSINE: ("cosine", "dense"),
    RELATIVE: ("relative", "dense"),
}  # fmt: skip


def test_first_supporters_are_those_of_the_explainer(index: Index, asked: Queries) -> None:
    found = everything(index, asked)
    for kind in ("token", "sentence"):
        for name, (score, curvature) in SCORES.items():
            assert below_the_best(index, asked, found[kind][name].supporters, score, kind, curvature) < 1e-5, name
    plain = found["token"][IDENTITY].supporters
    assert below_the_best(index, asked, plain, "relative", "token", "dense") > 0.01, "and the comparison can fail"


def test_neighbours_are_those_of_the_explainer_with_and_without_labels(index: Index, asked: Queries) -> None:
    found, rows = Retriever(index).neighbours(asked), double_rows(index)
    for name, score in {"dot": "neighbour-dot", "cosine": "neighbour"}.items():
        assert below_the_best(index, asked, found[name].supporters, score, "token", "identity") < 1e-5, name  # pyright: ignore[reportArgumentType]
    names = [label.split("-")[-1] for label in index.labels.labels]
    types = torch.tensor([names.index(name) for name in names])
    same = types[asked.rows.labels[asked.tokens]].unsqueeze(1) == types[rows.labels]
    for name in ("dot", "cosine"):
        scale = rows.features.norm(dim=1) if name == "cosine" else torch.ones(len(rows.labels))
        values = asked.rows.features[asked.tokens].double() @ (rows.features / scale.unsqueeze(1)).T
        strongest_ones = found[f"{name}, labels"]
        for side, mask in ((strongest_ones.supporters, same), (strongest_ones.opposers, ~same)):
            assert bool(mask.gather(1, side.unsqueeze(1)).all())
            best = values.masked_fill(~mask, -torch.inf).max(1).values
            torch.testing.assert_close(values.gather(1, side.unsqueeze(1)).squeeze(1), best, rtol=1e-5, atol=1e-6)


def test_results_do_not_depend_on_the_size_of_parts(
    index: Index, asked: Queries, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = {**everything(index, asked), "near": Retriever(index).neighbours(asked)}
    monkeypatch.setattr(retrieval, "CELLS", 40)
    parts = {**everything(index, asked), "near": Retriever(index).neighbours(asked)}
    features = double_rows(index).features
    for kind, found in whole.items():
        for name, one in found.items():
            other = parts[kind][name]
            for ours, theirs in ((one.supporters, other.supporters), (one.opposers, other.opposers)):
                same = (features[ours] == features[theirs]).all(1) if one.are_tokens else ours == theirs
                assert bool(same.all()), (kind, name)  # or a tie: the same word twice
            assert not torch.equal(one.supporters, one.opposers)


def test_sizes_are_rough_without_an_inverse_or_on_demand(index: Index, asked: Queries) -> None:
    retriever, iterated, curved = Retriever(index), DeviceCurvature(index, curvature="cg"), DeviceCurvature(index)
    assert retriever.sentences(asked, iterated).keys() == {CURVATURE}
    found, rough = retriever.tokens(asked, iterated), retriever.tokens(asked, curved, exact_sizes=False)
    rows = double_rows(index)
    trained = segment_gradients(index.head, rows, token_segments(rows.lengths))  # (N, P)
    sizes = (trained * curved.solve(trained, curved.kronecker)).sum(1).sqrt()
    torch.testing.assert_close(curved.rough_sizes, sizes)
    moved = curved.solve(segment_gradients(index.head, asked.rows, asked.segments)) @ trained.T
    for one in (found, rough):
        for name, values in {CURVATURE: moved, RELATIVE: moved / sizes}.items():
            best = values.gather(1, one[name].supporters.unsqueeze(1)).squeeze(1)
            torch.testing.assert_close(best, values.max(1).values, rtol=1e-5, atol=1e-7)
    everyone = Queries(asked.rows, torch.arange(len(asked.rows.labels)))
    rough, exact = (retriever.tokens(everyone, curved, exact_sizes=is_exact)[RELATIVE] for is_exact in (False, True))
    assert not torch.equal(rough.supporters, exact.supporters), "exact sizes change something"


def test_start_and_end_scores_count(tmp_path_factory: pytest.TempPathFactory) -> None:
    head = HeadOptions(start_end=True)
    index = make_index(tmp_path_factory.mktemp("ends"), head=head)
    trusted = read_trusted(index, make_tagger(head), make_sentences(4, seed=5))
    rows = double_rows(index)
    trained = segment_gradients(index.head, rows, token_segments(rows.lengths))
    values = segment_gradients(index.head, trusted.rows, trusted.segments) @ trained.T
    found = Retriever(index).tokens(trusted)[IDENTITY].supporters
    best = values.gather(1, found.unsqueeze(1)).squeeze(1)
    torch.testing.assert_close(best, values.max(1).values, rtol=1e-5, atol=1e-7)
