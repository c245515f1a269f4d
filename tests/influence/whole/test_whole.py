"""Scores through the whole tagger, compared with the same formulas on dense gradients of every weight."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from tagtrace._checks import OptionError
from tagtrace.data import LabelSet, Sentence
from tagtrace.data.invented import generate
from tagtrace.influence import Query
from tagtrace.influence.whole import gradient_kernel
from tagtrace.influence.whole.gradient_kernel import sentence_kernel
from tagtrace.influence.whole.layers import HEAD, linear_layers
from tagtrace.influence.whole.whole import EarlyTagger, WholeInfluence
from tagtrace.tagger import HeadOptions, Lexical, LexicalOptions, Tagger, TrainOptions, crf, new_tagger, train_tagger
from tagtrace.tagger.rows import pad_rows
from tagtrace.tagger.tagger import Example

CORPUS = generate(num_documents=20)
SENTENCES = CORPUS.train[:12]
LABELS = LabelSet.from_sentences(CORPUS.train, "iob2")
RECIPE = TrainOptions(epochs=4, batch_size=4, learning_rate=3e-3, head_learning_rate=1e-2)
HEADS = [HeadOptions(), HeadOptions("softmax"), HeadOptions(start_end=True)]


def trained(head: HeadOptions | None = None, sentences: tuple[Sentence, ...] = SENTENCES) -> Tagger:
    torch.manual_seed(0)
    tagger = new_tagger(Lexical(LexicalOptions(buckets=64, width=6, hidden=5)), LABELS, head)
    train_tagger(tagger, sentences, options=RECIPE)
    return tagger


def early(tagger: Tagger) -> EarlyTagger:
    tagger = tagger.double()
    examples = [tagger.prepare(sentence) for sentence in SENTENCES]
    return EarlyTagger(tagger, examples, sentence_kernel(tagger, examples, RECIPE))


def query(sentence: Sentence = CORPUS.dev[0], start: int = 0, stop: int = 2) -> Query:
    labels = torch.tensor(LABELS.encode(sentence.labels))
    return Query(torch.zeros(len(sentence), 11), labels, start, stop, sentence)


def gradient(tagger: Tagger, example: Example, segment: tuple[int, int]) -> Tensor:
    """The gradient of a conditional loss in the linear layers and the head, (P,)."""
    tagger.zero_grad()
    lengths = torch.tensor([example.length])
    labels = pad_rows(torch.tensor(example.labels), lengths)
    crf.conditional_loss(tagger.scores([example]), labels, torch.tensor([[0, *segment]])).sum().backward()
    parts = [tagger.head.weight.grad, *(p.grad for name, p in tagger.head.named_parameters() if name != "weight")]
    flat = [part.flatten() for part in parts if part is not None]
    for layer in linear_layers(tagger).values():
        parts = [part.grad for part in (layer.weight, layer.bias)]
        flat.append(torch.cat([part.view(len(layer.weight), -1) for part in parts if part is not None], 1).flatten())
    return torch.cat(flat).clone()


def scale(tagger: Tagger, gradients: Tensor) -> Tensor:
    """S of every weight, (P,), from the gradients of all sentences (N, P)."""
    mean, variance = gradients.mean(0), gradients.var(0, correction=0)
    found = 1.0 / ((mean.square() + variance / RECIPE.batch_size).sqrt() + 1e-8)
    found[: tagger.head.num_parameters] *= 1e-2 / 3e-3
    return found


@pytest.mark.parametrize("head", HEADS, ids=str)
def test_scores_are_those_of_dense_matrices(head: HeadOptions) -> None:
    member = early(trained(head))
    tagger, examples = member.tagger, member.examples
    every = torch.stack([gradient(tagger, example, (0, example.length)) for example in examples])  # (N, P)
    root = scale(tagger, every).sqrt()
    scaled = every * root
    torch.testing.assert_close(member.kernel.matrix.double(), scaled @ scaled.T, rtol=1e-4, atol=1e-4)
    sizes = scaled.square().sum(1)
    weights = (sizes / sizes.mean()).rsqrt()
    damping = float((weights * sizes).mean())
    fisher = (scaled.T * weights) @ scaled + damping * torch.eye(scaled.shape[1])
    asked = query()
    mine = gradient(tagger, tagger.prepare(CORPUS.dev[0]), (0, 2))
    direction = torch.linalg.solve(fisher, mine * root) * root  # V
    sentences = every @ direction
    torch.testing.assert_close(
        member.sentence_scores(asked), sentences, rtol=1e-3, atol=1e-3 * float(sentences.abs().max())
    )
    segments = torch.tensor([[0, 0, 1], [3, 1, 3], [5, 0, examples[5].length], [5, 2, 3]])
    expected = torch.stack([gradient(tagger, examples[i], (a, b)) @ direction for i, a, b in segments.tolist()])
    found = member.segment_scores(asked, segments)
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3 * float(expected.abs().max()))
    assert float(found[2]) == pytest.approx(float(sentences[5]), rel=1e-2)


def test_blocks_and_groups_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    tagger = trained()
    examples = [tagger.prepare(sentence) for sentence in SENTENCES]
    expected = sentence_kernel(tagger, examples, RECIPE)
    monkeypatch.setattr(gradient_kernel, "CPU_BYTES", 4000)
    found = sentence_kernel(tagger, examples, RECIPE)
    torch.testing.assert_close(found.matrix, expected.matrix, rtol=1e-4, atol=1e-4)
    assert found.scales.keys() == expected.scales.keys() == {HEAD, "near.linear", "far.linear"}


def test_a_sentence_supports_its_own_labels() -> None:
    whole = WholeInfluence.build(trained(), SENTENCES, num_seeds=2)
    assert len(whole.members) == 2
    asked = query(SENTENCES[4], 0, len(SENTENCES[4]))
    assert int(whole.sentence_scores(asked).argmax()) == 4
    tokens = torch.tensor([[i, t, t + 1] for i, sentence in enumerate(SENTENCES) for t in range(len(sentence))])
    assert int(tokens[whole.segment_scores(asked, tokens).argmax(), 0]) == 4


def test_a_query_needs_its_sentence_and_a_seed() -> None:
    whole = WholeInfluence.build(trained(), SENTENCES, num_seeds=1)
    with pytest.raises(OptionError, match="make_query"):
        whole.sentence_scores(replace(query(), sentence=None))
    with pytest.raises(OptionError, match="num_seeds 0"):
        WholeInfluence.build(trained(), SENTENCES, num_seeds=0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("certain", [4.0, 12.0, 20.0])
def test_scores_of_confident_queries_are_right_too(certain: float, dtype: torch.dtype) -> None:
    """However certain the labels are, a step stays where the losses are nearly straight."""
    tagger = trained()
    with torch.no_grad():
        tagger.head.weight[LABELS.index("O"), -1] += certain
    sentence = next(one for one in CORPUS.dev if one.labels[0] == "O")
    member = early(tagger)
    every = torch.stack([gradient(member.tagger, one, (0, one.length)) for one in member.examples])
    mine = gradient(member.tagger, member.tagger.prepare(sentence), (0, 1))
    expected = every @ (scale(member.tagger, every) * mine)
    member = EarlyTagger(member.tagger.to(dtype), member.examples, member.kernel)
    found = member.products(member.gradient(query(sentence, 0, 1)))
    error = float((found - expected).norm() / expected.norm())
    assert error < (2e-3 if dtype == torch.float64 else 3e-2)


def test_a_query_without_a_gradient_has_no_influence() -> None:
    member = early(trained())
    with torch.no_grad():
        member.tagger.head.weight.zero_()
        member.tagger.head.weight[LABELS.index("O"), -1] = 800.0
    sentence = CORPUS.dev[0]
    asked = query(sentence.with_labels(["O"] * len(sentence)), 0, 1)
    assert not member.sentence_scores(asked).any()
    assert not member.segment_scores(asked, torch.tensor([[0, 0, 1], [1, 0, 1]])).any()
