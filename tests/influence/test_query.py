"""Queries from a tagger, and the gradient of their loss against autograd, also where p rounds to 1."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from tagtrace._checks import DataError, OptionError
from tagtrace.data import Corpus, ReadOptions, Sentence, read_corpus
from tagtrace.index import Index, Shard, token_errors
from tagtrace.influence import Candidates, Query, make_queries, make_query
from tagtrace.influence.scoring.scorer import Scorer
from tagtrace.influence.scoring.token_pass import TokenPass
from tagtrace.tagger import Head, HeadOptions, Rows, Tagger, mispredictions
from tests.influence.fitted import Fitted
from tests.influence.small_index import small_index
from tests.strategies import HEADS, LABELS, random_rows, random_theta


def certain_head(margin: float) -> Head:
    """A softmax head under which every token is label 0, by ``margin`` and ``margin + 1``."""
    head = Head(4, LABELS, HeadOptions("softmax")).double()
    head.set_flat(torch.zeros_like(head.flat()))
    with torch.no_grad():
        head.weight[:, -1] = torch.tensor([0.0, -margin, -margin - 1.0], dtype=torch.float64)
    return head


def certain_rows() -> Rows:
    rows = random_rows(3, (4,))
    return Rows(rows.features.double(), torch.zeros_like(rows.labels), rows.lengths)


@pytest.mark.parametrize("options", HEADS)
@pytest.mark.parametrize(("start", "stop"), [(0, 1), (3, 4), (2, 5), (0, 8), (6, 8)])
def test_the_gradient_is_that_of_the_loss(options: HeadOptions, start: int, stop: int) -> None:
    head = Head(4, LABELS, options).double()
    head.set_flat(random_theta(head))
    rows = random_rows(2, (8,))
    query = Query(rows.features, rows.labels, start, stop)
    expected = torch.cat([part.flatten() for part in torch.autograd.grad(query.loss(head), list(head.parameters()))])
    torch.testing.assert_close(query.gradient(head), expected, rtol=0, atol=1e-12)
    assert float(expected.norm()) > 1e-3
    single = query.gradient(head.float())
    assert single.dtype == torch.float64
    torch.testing.assert_close(single, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("margin", [5.0, 37.0, 100.0, 290.0])
def test_a_certain_query_keeps_its_direction(margin: float) -> None:
    rows = certain_rows()
    found = Query(rows.features, rows.labels, 1, 2).gradient(certain_head(margin))
    others = torch.tensor([-margin, -margin - 1.0], dtype=torch.float64).exp()
    errors = torch.cat([-others.sum().unsqueeze(0), others]) / (1.0 + others.sum())
    expected = torch.outer(errors, torch.cat([rows.features[1], rows.features.new_ones(1)])).flatten()
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=0)


@pytest.mark.parametrize("margin", [20.0, 37.0, 60.0])
def test_a_certain_token_is_most_similar_to_itself(margin: float) -> None:
    """The product of two gradients of 1e-26 underflows in float32."""
    rows, head = certain_rows(), certain_head(margin)
    shard = Shard(rows.features, token_errors(head, rows).float(), rows.labels, rows.lengths, 0, 0)
    segments = torch.tensor([(0, t, t + 1) for t in range(4)])

    def never() -> object:
        raise AssertionError("a cosine needs no curvature")

    index = SimpleNamespace(head=head, num_sentences=1)
    scorer = Scorer(index, Candidates(segments, "token"), [TokenPass(head, shard)], never, never)  # type: ignore[arg-type]
    _, values = scorer.score(Query(rows.features, rows.labels, 1, 2), "cosine", torch.arange(4), 4)
    torch.testing.assert_close(values, _cosines(rows.features), rtol=0, atol=1e-5)


def _cosines(features: Tensor) -> Tensor:
    """All errors are the same, so the cosines are those of the features with a 1 appended."""
    extended = torch.cat([features, features.new_ones(len(features), 1)], 1)
    return torch.cosine_similarity(extended, extended[1:2])


@pytest.mark.parametrize("options", HEADS)
def test_a_query_is_differentiated_exactly(options: HeadOptions) -> None:
    fitted = Fitted(options, random_rows())
    query = fitted.query(stop=3)
    gradient = query.gradient(fitted.head)
    for index in range(len(gradient)):
        moved = torch.zeros_like(gradient)
        moved[index] = 1e-6
        up, down = (float(query.loss(fitted.head.at(fitted.theta + sign * moved)).detach()) for sign in (1, -1))
        assert float(gradient[index]) == pytest.approx((up - down) / 2e-6, abs=1e-7)
    probabilities = query.probabilities(fitted.head)
    torch.testing.assert_close(probabilities.sum(1), torch.ones(2, dtype=torch.float64))


def test_a_query_needs_as_many_features_as_labels() -> None:
    rows = random_rows(0, (4,))
    with pytest.raises(OptionError, match="features and labels of the same tokens; got 3 and 4"):
        Query(rows.features[:3], rows.labels, 0, 1)
    with pytest.raises(OptionError, match=r"2:2 is not a segment of a sentence of 4 tokens; segments are start:stop"):
        Query(rows.features, rows.labels, 2, 2)


# make_query


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    return small_index(tmp_path_factory.mktemp("query"), dtype="float32")


@pytest.fixture(scope="module")
def tagger(index: Index) -> Tagger:
    return index.tagger()


@pytest.fixture(scope="module")
def dev(index: Index) -> Corpus:
    return read_corpus(index.folder.parent / "dev.conll")


@pytest.fixture(scope="module")
def sentence(dev: Corpus) -> Sentence:
    """A sentence of some length with an entity in it."""
    return next(s for s in dev.sentences if len(s) > 6 and any(label != "O" for label in s.labels))


@pytest.mark.parametrize(
    ("target", "explained"),
    [
        ("predicted", None),
        ("gold", None),
        ("ORG", ("B-ORG", "I-ORG")),
        ("O", ("O", "O")),
        ("B-LOC", ("B-LOC", "B-LOC")),
        ("B-PER,O", ("B-PER", "O")),
    ],
)
def test_targets(tagger: Tagger, sentence: Sentence, target: str, explained: tuple[str, ...] | None) -> None:
    query = make_query(tagger, sentence, 2, 4, target)
    labels = tagger.labels.decode(query.labels.tolist())
    (predicted,) = tagger.predict([sentence], constrained=tagger.head.options.constrained)
    around = sentence.labels if target == "gold" else predicted
    assert labels[:2] + labels[4:] == around[:2] + around[4:], "the labels outside are those of the target"
    assert labels[2:4] == (explained or around[2:4])
    assert (query.start, query.stop, query.sentence, query.predicted) == (2, 4, sentence, predicted)
    assert query.features.dtype == torch.float64
    assert query.describe() == [
        sentence.in_context(2, 4),
        f"{sentence.id}  tokens 2:4   predicted: {' '.join(predicted[2:4])}   gold: {' '.join(sentence.labels[2:4])}",
    ]
    assert query.to_json() == {
        "sentence": sentence.id,
        "start": 2,
        "stop": 4,
        "tokens": list(sentence.tokens[2:4]),
        "predicted": list(predicted[2:4]),
        "gold": list(sentence.labels[2:4]),
    }


def test_known_features_are_not_computed_again(
    tagger: Tagger, sentence: Sentence, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, features = make_query(tagger, sentence, 0, 1), tagger.features(sentence)

    def never(*_: object) -> Tensor:
        raise AssertionError("the features are known")

    monkeypatch.setattr(tagger, "features", never)
    found = make_query(tagger, sentence, 0, 1, features=features)
    assert torch.equal(found.features, expected.features)
    assert torch.equal(found.labels, expected.labels)
    with pytest.raises(
        OptionError, match=rf"features have the shape \({len(sentence) - 1}, .*need \({len(sentence)}, "
    ):
        make_query(tagger, sentence, 0, 1, features=features[1:])


def test_unlabelled_sentences_have_predictions_alone(tagger: Tagger, sentence: Sentence) -> None:
    bare = replace(sentence, labels=(), id="")
    query = make_query(tagger, bare, 0, 1)
    assert query.to_json()["gold"] is None
    assert "gold" not in query.describe()[1]
    with pytest.raises(DataError, match="the sentence has no gold labels to explain; name a label instead"):
        make_query(tagger, bare, 0, 1, "gold")


def test_a_query_without_a_sentence_is_data_too() -> None:
    rows = random_rows(0, (4,))
    query = Query(rows.features, rows.labels, 1, 3)
    assert query.describe() == []
    assert query.to_json() == {
        "sentence": None, "start": 1, "stop": 3, "tokens": None, "predicted": [], "gold": None
    }  # fmt: skip


def test_bad_queries(tagger: Tagger, sentence: Sentence) -> None:
    for start, stop in ((0, 0), (3, 2), (-1, 1), (0, len(sentence) + 1)):
        with pytest.raises(OptionError, match=f"^{start}:{stop} is not a segment of {sentence.id}, which has"):
            make_query(tagger, sentence, start, stop)
    for target, message in (
        ("WINE", "target 'WINE': unknown label 'WINE'"),
        ("O,O,O", "target 'O,O,O': 3 labels for 2 tokens"),
    ):
        with pytest.raises(OptionError, match=message):
            make_query(tagger, sentence, 0, 2, target)
    other = sentence.with_labels(["B-WINE", *sentence.labels[1:]])
    with pytest.raises(DataError, match="unknown label 'B-WINE'"):
        make_query(tagger, other, 0, 2, "gold")


def test_labels_that_the_constraints_forbid_are_refused(tmp_path: Path, sentence: Sentence) -> None:
    constrained = small_index(tmp_path, head=HeadOptions(constrained=True), width=2).tagger()
    with pytest.raises(
        OptionError, match="target 'I-LOC': the tagger's constraints forbid I-LOC there; explain a whole"
    ):
        make_query(constrained, sentence, 0, 1, "I-LOC")
    assert make_query(constrained, sentence, 0, 1, "B-LOC").labels[0] == constrained.labels.index("B-LOC")


# make_queries


def places(queries: list[Query]) -> list[tuple[str, int, int]]:
    return [(query.sentence.id, query.start, query.stop) for query in queries if query.sentence]


def test_queries_of_a_corpus_are_its_mispredictions(tagger: Tagger, dev: Corpus) -> None:
    wrong = [(one.sentence.id, one.start, one.stop) for one in mispredictions(tagger, dev)]
    assert len(wrong) > 3
    assert places(make_queries(tagger, dev)) == wrong
    assert places(make_queries(tagger, dev, most=2)) == wrong[:2]
    id_ = wrong[2][0]
    assert places(make_queries(tagger, dev, id_, target="gold")) == [place for place in wrong if place[0] == id_]


def test_a_segment_of_a_sentence_is_one_query(tagger: Tagger, dev: Corpus, sentence: Sentence) -> None:
    (found,) = make_queries(tagger, dev, sentence.id, (1, 3), "ORG")
    expected = make_query(tagger, sentence, 1, 3, "ORG")
    assert found.sentence == sentence
    assert torch.equal(found.labels, expected.labels)


def test_bad_questions_about_a_corpus(tagger: Tagger, dev: Corpus, sentence: Sentence) -> None:
    first, second, last = (dev.sentences[place].id for place in (0, 1, -1))
    twice = replace(dev, sentences=(*dev.sentences, sentence))
    bare = replace(dev, sentences=tuple(one.with_labels(()) for one in dev.sentences))
    for arguments, error, message in (
        ((dev, None, (0, 1)), OptionError, "a segment needs the id of its sentence"),
        (
            (dev, "nowhere"),
            DataError,
            rf"no sentence has the id 'nowhere'; its ids are '{first}', '{second}' ... '{last}'",
        ),
        ((twice, sentence.id), DataError, f"several sentences have the id '{sentence.id}'; make the ids unique"),
        ((bare,), DataError, "has no labels, so mispredictions cannot be found; name a sentence and a segment of it"),
        ((dev, None, None, "predicted", 0), OptionError, "most 0: must be at least 1"),
    ):
        with pytest.raises(error, match=message):
            make_queries(tagger, *arguments)  # type: ignore[arg-type]
    assert places(make_queries(tagger, bare, sentence.id, (0, 1))) == [(sentence.id, 0, 1)]


def test_a_tagger_of_documents_is_asked_about_documents(tmp_path: Path) -> None:
    index = small_index(tmp_path, unit="document", width=2)
    dev, tagger = read_corpus(tmp_path / "dev.conll", ReadOptions()), index.tagger()
    document = dev.sentences[0].document
    tokens = tuple(token for one in dev.sentences if one.document == document for token in one.tokens)
    start = len(dev.sentences[0]) - 1  # the segment reaches into the second sentence
    (query,) = make_queries(tagger, dev, document, (start, start + 2), "O")
    assert query.sentence is not None
    assert (query.sentence.id, query.sentence.tokens) == (document, tokens)
    assert len(query.labels) == len(query.predicted) == len(tokens)
    assert {place[0] for place in places(make_queries(tagger, dev))} <= {one.document for one in dev.sentences}
    with pytest.raises(DataError, match=f"no sentence has the id '{dev.sentences[1].id}'"):
        make_queries(tagger, dev, dev.sentences[1].id)
