"""Influence by other libraries on tiny taggers: signs, shapes, and what happens without the libraries."""

from __future__ import annotations

import sys
from copy import deepcopy

import pytest
import torch
from torch import Tensor

from tagtrace._checks import OptionError
from tagtrace.data import LabelSet, Sentence
from tagtrace.data.invented import generate
from tagtrace.reproduce.whole_tagger import lds_peers
from tagtrace.reproduce.whole_tagger.lds_peers import PEERS, Linears, peer_scores, sample_labels
from tagtrace.tagger import Lexical, LexicalOptions, Tagger, TrainOptions, crf, new_tagger, train_tagger
from tagtrace.tagger.encoders import Encoder
from tagtrace.tagger.rows import unpad_rows
from tagtrace.tagger.scores import Scores

CORPUS = generate(num_documents=20)
SENTENCES = CORPUS.train[:24]
LABELS = LabelSet.from_sentences(CORPUS.train, "iob2")
MODULES = {"kronfluence, EK-FAC": "kronfluence", "TRAK": "trak"}
LEXICAL = LexicalOptions(buckets=256, width=12, hidden=10)


def trained(encoder: Encoder, learning_rate: float) -> Tagger:
    torch.manual_seed(0)
    tagger = new_tagger(encoder, LABELS)
    options = TrainOptions(epochs=6, batch_size=4, learning_rate=learning_rate, head_learning_rate=1e-2)
    train_tagger(tagger, SENTENCES, options=options)
    return tagger


def entity_tokens(sentences: tuple[Sentence, ...]) -> Tensor:
    """The first token of each sentence that is in an entity, as segments (Q, 3)."""
    places = [[t for t, label in enumerate(one.labels) if label != "O"][:1] for one in sentences]
    return torch.tensor([[i, t, t + 1] for i, found in enumerate(places) for t in found])


def own_and_others(scores: Tensor, segments: Tensor) -> tuple[Tensor, Tensor]:
    """The scores of each query's own sentence (Q,), and the highest of another (Q,)."""
    own = torch.zeros_like(scores, dtype=torch.bool).scatter(1, segments[:, :1], True)
    return scores[own], scores.masked_fill(own, -torch.inf).amax(1)


@pytest.fixture(scope="module")
def lexical() -> Tagger:
    return trained(Lexical(LEXICAL), 3e-3)


@pytest.fixture(scope="module")
def distilbert(tmp_path_factory: pytest.TempPathFactory) -> Tagger:
    pytest.importorskip("transformers", reason="transformers is not installed")
    from tagtrace.tagger import Transformer  # noqa: PLC0415
    from tests.tagger import tiny_models  # noqa: PLC0415

    return trained(Transformer(tiny_models.distilbert(tmp_path_factory.mktemp("model"), max_positions=256)), 1e-3)


@pytest.mark.parametrize("name", PEERS)
@pytest.mark.parametrize("kind", ["lexical", "distilbert"])
def test_a_sentence_supports_its_own_labels(name: str, kind: str, request: pytest.FixtureRequest) -> None:
    pytest.importorskip(MODULES[name], reason=f"{MODULES[name]} is not installed")
    tagger = request.getfixturevalue(kind)
    before = {key: value.clone() for key, value in tagger.state_dict().items()}
    tokens = entity_tokens(SENTENCES)
    wholes = torch.tensor([[i, 0, len(sentence)] for i, sentence in enumerate(SENTENCES)])
    found = peer_scores(tagger, SENTENCES, SENTENCES, torch.cat([tokens, wholes]), list[str]().append)[name]
    assert found.shape == (len(tokens) + len(wholes), len(SENTENCES))
    assert found.dtype == torch.float64
    own, others = own_and_others(found[len(tokens) :], wholes)  # the query's loss is the sentence's
    assert bool((own > 0).all())
    assert float((own > others).double().mean()) > 0.9
    own, _ = own_and_others(found[: len(tokens)], tokens)  # a part of it, which other parts may oppose
    assert float(own.mean()) > max(2 * float(found[: len(tokens)].mean()), 0.0)
    assert all(bool(value.equal(before[key])) for key, value in tagger.state_dict().items())


@pytest.mark.parametrize("name", PEERS)
def test_the_order_of_sentences_does_not_matter(name: str, lexical: Tagger, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip(MODULES[name], reason=f"{MODULES[name]} is not installed")
    segments = entity_tokens(CORPUS.dev[:6])
    expected = peer_scores(lexical, SENTENCES, CORPUS.dev[:6], segments, print)[name]
    monkeypatch.setattr(lds_peers, "BYTES", {"cpu": 100_000})  # small batches and blocks
    monkeypatch.setattr(lds_peers, "BATCH", 5)
    found = peer_scores(lexical, SENTENCES[::-1], CORPUS.dev[:6], segments, print)[name].flip(1)
    assert float(torch.corrcoef(torch.stack([found.flatten(), expected.flatten()]))[0, 1]) > 0.9


def test_libraries_that_are_absent_are_reported(lexical: Tagger, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("kronfluence.analyzer", "trak"):
        monkeypatch.setitem(sys.modules, module, None)
    lines: list[str] = []
    assert peer_scores(lexical, SENTENCES, SENTENCES, entity_tokens(SENTENCES), lines.append) == {}
    assert sum("left out" in line for line in lines) == 2


@pytest.mark.parametrize("kind", ["lexical", "distilbert"])
def test_linear_layers_give_the_scores_of_the_tagger(kind: str, request: pytest.FixtureRequest) -> None:
    tagger = request.getfixturevalue(kind)
    batch = [tagger.prepare(sentence) for sentence in SENTENCES[:5]]
    expected = tagger.eval().scores(batch)
    found = Linears(deepcopy(tagger)).eval()(batch)
    rows, others = (unpad_rows(scores.emissions, scores.lengths) for scores in (found, expected))
    torch.testing.assert_close(rows, others, rtol=1e-4, atol=1e-5)
    assert found.transitions.equal(expected.transitions)


def test_sampled_labels_have_the_probabilities_of_the_crf() -> None:
    torch.manual_seed(0)
    one = Scores.of(torch.randn(1, 3, 3), torch.randn(3, 3))
    scores = one.select(torch.zeros(4000, dtype=torch.long))
    labels = sample_labels(scores, torch.Generator().manual_seed(0))  # (4000, 3)
    pairs = torch.nn.functional.one_hot(3 * labels[:, 1] + labels[:, 2], 9).double().mean(0)
    torch.testing.assert_close(pairs.view(3, 3), crf.edge_marginals(one)[0, 1].double(), rtol=0.0, atol=0.03)


def test_sentences_in_several_windows_are_refused(distilbert: Tagger) -> None:
    sentence = SENTENCES[0]
    long = Sentence(sentence.tokens * 40, sentence.labels * 40)
    with pytest.raises(OptionError, match="several parts"):
        Linears(deepcopy(distilbert)).eval()([distilbert.prepare(long)])
