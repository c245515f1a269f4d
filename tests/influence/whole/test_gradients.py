"""Gradients of sentences in every layer, compared with autograd, one sentence at a time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tagtrace._checks import OptionError
from tagtrace.data import LabelSet
from tagtrace.data.invented import generate
from tagtrace.influence.whole import gradients as gradients_module
from tagtrace.influence.whole.gradients import Looked, Part, batch_gradients, weighted_gradient
from tagtrace.influence.whole.weights import moved_along, weights_of
from tagtrace.tagger import HeadOptions, Lexical, LexicalOptions, Tagger, Transformer, new_tagger
from tagtrace.tagger.tagger import Example, batch_losses
from tests.tagger import tiny_models

SENTENCES = generate(num_documents=20).train[:7]
LABELS = LabelSet.from_sentences(SENTENCES, "iob2")
HEADS = [HeadOptions(), HeadOptions("softmax"), HeadOptions(start_end=True)]


def lexical(head: HeadOptions | None = None) -> Tagger:
    torch.manual_seed(0)
    tagger = new_tagger(Lexical(LexicalOptions(buckets=64, width=6, hidden=5)), LABELS, head).double().eval()
    torch.nn.init.normal_(tagger.head.weight, std=0.5)
    return tagger


def transformer(folder: Path, kind: str) -> Tagger:
    torch.manual_seed(0)
    build = getattr(tiny_models, kind)
    tagger = new_tagger(Transformer(build(folder), max_pieces=24, overlap=4), LABELS).eval()  # several windows
    torch.nn.init.normal_(tagger.head.weight, std=0.5)
    return tagger


def examples_of(tagger: Tagger) -> list[Example]:
    found = [tagger.prepare(sentence) for sentence in SENTENCES]
    hidden = tuple(t != 1 for t in range(found[2].length))
    return [*found[:2], replace(found[2], known=hidden), *found[3:]]


def by_autograd(tagger: Tagger, example: Example) -> dict[str, Tensor]:
    """The gradient of one loss in each layer, as one vector."""
    tagger.zero_grad()
    batch_losses(tagger.scores([example]), [example]).sum().backward()

    return {
        name: (torch.zeros_like(weight) if weight.grad is None else weight.grad).flatten().clone()
        for name, weight in weights_of(tagger).items()
    }


def in_full(part: Part, count: int, size: int) -> Tensor:
    """(count, size)"""
    if not isinstance(part, Looked):
        return torch.cat([part.dense(slice(0, 3)), part.dense(slice(3, count))])
    found = part.values.new_zeros(count, size // part.values.shape[1], part.values.shape[1])
    found[part.sentences, part.rows] = part.values
    return found.flatten(1)


def check(tagger: Tagger, tolerance: float) -> None:
    examples = examples_of(tagger)
    expected = [by_autograd(tagger, example) for example in examples]
    sizes = {name: weight.numel() for name, weight in weights_of(tagger).items()}
    found = batch_gradients(tagger, examples)
    used = [name for name in sizes if any(bool(one[name].any()) for one in expected)]
    assert set(used) <= set(found)
    assert any(isinstance(part, Looked) for part in found.values())
    for name, part in found.items():
        every = torch.stack([one[name] for one in expected])
        assert sizes[name] == every.shape[1]
        dense = in_full(part, len(examples), sizes[name])
        torch.testing.assert_close(dense.double(), every.double(), rtol=tolerance, atol=tolerance)
    weights = torch.tensor([0.5, 0.0, -2.0, 1.0, 0.0, 0.3, 1.0])
    summed = weighted_gradient(tagger, examples, weights)
    for name, part in summed.items():
        every = sum(float(weight) * one[name] for weight, one in zip(weights, expected, strict=True))
        torch.testing.assert_close(part.double(), torch.as_tensor(every).double(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("head", HEADS, ids=str)
def test_gradients_of_a_lexical_tagger(head: HeadOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gradients_module, "MAX_TOKENS", 40)
    check(lexical(head), 1e-6)  # products are in float32


@pytest.mark.parametrize("kind", ["distilbert", "bert", "roberta"])
def test_gradients_of_a_transformer(kind: str, tmp_path: Path) -> None:
    check(transformer(tmp_path / kind, kind), 2e-5)


def test_weights_move_and_come_back() -> None:
    tagger = lexical(HeadOptions(start_end=True))
    examples = examples_of(tagger)
    before = {name: value.clone() for name, value in tagger.state_dict().items()}
    direction = weighted_gradient(tagger, examples, torch.ones(len(examples)))
    size = sum(float(part.square().sum()) for part in direction.values())

    @torch.no_grad()
    def total() -> float:
        return float(sum(batch_losses(tagger.scores([one]), [one]).sum() for one in examples))

    losses: list[float] = []
    for sign in (1.0, -1.0):
        with moved_along(tagger, direction, sign * 1e-6):
            losses.append(total())
    assert (losses[0] - losses[1]) / 2e-6 == pytest.approx(size, rel=1e-5)
    with pytest.raises(KeyError), moved_along(tagger, direction, 1.0):
        raise KeyError
    assert all(torch.equal(value, before[name]) for name, value in tagger.state_dict().items())


def test_a_layer_that_is_not_used_once_for_each_row_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    tagger = lexical()
    monkeypatch.setattr(Lexical, "layer_rows", lambda _, batch: [torch.arange(len(batch))])
    with pytest.raises(OptionError, match=r"table is used several times"):
        batch_gradients(tagger, examples_of(tagger))


def test_a_layer_that_is_never_called_is_left_out() -> None:
    tagger = lexical()
    tagger.encoder.add_module("unused", torch.nn.Linear(3, 3))
    used = [name for name in weights_of(tagger) if not name.startswith("encoder.unused")]
    assert set(batch_gradients(tagger, examples_of(tagger))) == set(used)
