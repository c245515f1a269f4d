"""Scores through the whole tagger, compared with the same formulas on dense gradients of every weight."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from tagtrace._checks import OptionError
from tagtrace.data import LabelSet, Sentence
from tagtrace.data.invented import generate
from tagtrace.influence import Query
from tagtrace.influence.whole import gradient_kernel
from tagtrace.influence.whole.gradient_kernel import sentence_kernel
from tagtrace.influence.whole.slopes import SegmentLosses
from tagtrace.influence.whole.weights import weights_of
from tagtrace.influence.whole.whole import EarlyTagger, WholeInfluence, train_early
from tagtrace.tagger import HeadOptions, Lexical, LexicalOptions, Tagger, TrainOptions, crf, new_tagger, train_tagger
from tagtrace.tagger.recipe import Recipe
from tagtrace.tagger.rows import pad_rows
from tagtrace.tagger.tagger import Example

CORPUS = generate(num_documents=20)
SENTENCES = CORPUS.train[:12]
LABELS = LabelSet.from_sentences(CORPUS.train, "iob2")
RECIPE = TrainOptions(epochs=4, batch_size=4, learning_rate=3e-3, head_learning_rate=1e-2)
HEADS = [HeadOptions(), HeadOptions("softmax"), HeadOptions(start_end=True), HeadOptions(constrained=True)]


def trained(head: HeadOptions | None = None, sentences: tuple[Sentence, ...] = SENTENCES) -> Tagger:
    torch.manual_seed(0)
    tagger = new_tagger(Lexical(LexicalOptions(buckets=64, width=6, hidden=5)), LABELS, head)
    train_tagger(tagger, sentences, options=RECIPE)
    return tagger


def early(tagger: Tagger) -> EarlyTagger:
    tagger = tagger.double()
    examples = [tagger.prepare(sentence) for sentence in SENTENCES]
    return EarlyTagger(tagger, examples, sentence_kernel(tagger, examples, RECIPE))


def several(num_seeds: int) -> WholeInfluence:
    recipe = Recipe.of(trained())
    examples = [recipe.untrained(0).prepare(sentence) for sentence in SENTENCES]
    return WholeInfluence(tuple(train_early(recipe, SENTENCES, examples, seed) for seed in range(num_seeds)))


def query(sentence: Sentence = CORPUS.dev[0], start: int = 0, stop: int = 2) -> Query:
    labels = torch.tensor(LABELS.encode(sentence.labels))
    return Query(torch.zeros(len(sentence), 11), labels, start, stop, sentence)


def gradient(tagger: Tagger, example: Example, segment: tuple[int, int]) -> Tensor:
    """The gradient of a conditional loss in the linear layers and the head, (P,)."""
    tagger.zero_grad()
    lengths = torch.tensor([example.length])
    labels = pad_rows(torch.tensor(example.labels), lengths)
    crf.conditional_loss(tagger.scores([example]), labels, torch.tensor([[0, *segment]])).sum().backward()
    found = {name: weight.grad for name, weight in weights_of(tagger).items()}
    return torch.cat([part.flatten() for _, part in head_first(found) if part is not None]).clone()


def head_first(parts: dict[str, Any]) -> list[tuple[str, Any]]:
    return sorted(parts.items(), key=lambda pair: not pair[0].startswith("head."))


def scale(tagger: Tagger, gradients: Tensor) -> Tensor:
    """S of every weight, (P,), from the gradients of all sentences (N, P)."""
    mean, variance = gradients.mean(0), gradients.var(0, correction=0)
    found = 1.0 / ((mean.square() + variance / RECIPE.batch_size).sqrt() + 1e-8)
    found[gradients.square().sum(0) == 0] = 0.0
    found[: tagger.head.num_parameters] *= 1e-2 / 3e-3
    sizes = [(name, part.numel()) for name, part in head_first(weights_of(tagger))]
    places = torch.cat([torch.full((size,), "table" in name) for name, size in sizes])
    squares, root = gradients.square().sum(0)[places], found[places].sqrt()
    found[places] = root * (squares * found[places]).sum() / (squares * root).sum()
    return found.bfloat16().double()


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
        member.sentence_scores([asked])[0], sentences, rtol=5e-3, atol=5e-3 * float(sentences.abs().max())
    )
    segments = torch.tensor([[0, 0, 1], [3, 1, 3], [5, 0, examples[5].length], [5, 2, 3]])
    expected = torch.stack([gradient(tagger, examples[i], (a, b)) @ direction for i, a, b in segments.tolist()])
    found = member.scores([asked], SegmentLosses(segments))[0]
    torch.testing.assert_close(found, expected, rtol=2e-2, atol=1e-2 * float(expected.abs().max()))
    assert float(found[2]) == pytest.approx(float(sentences[5]), rel=3e-2)
    other = torch.tensor([[LABELS.index("O")], [LABELS.index("B-ORG")]])
    tokens = torch.tensor([[0, 0, 1], [5, 2, 3]])
    changed = [gradient(tagger, relabelled(examples[i], t, int(label)), (t, t + 1)) @ direction
               for (i, t, _), label in zip(tokens.tolist(), other, strict=True)]  # fmt: skip
    found, close = member.scores([asked], SegmentLosses(tokens, other))[0], 5e-3 * float(expected.abs().max())
    allowed = found.isfinite()
    torch.testing.assert_close(found[allowed], torch.stack(changed)[allowed], rtol=5e-3, atol=close)
    given = member.scores([asked], SegmentLosses(tokens))[0]
    (edits,) = WholeInfluence((member,)).relabel_scores([asked], tokens, other)
    difference = (given - found).nan_to_num(nan=0.0)  # nan: forbidden
    torch.testing.assert_close(edits, difference / difference.norm())
    assert bool(allowed.all()) == (not head.constrained)


def test_scores_without_curvature_are_products_of_gradients() -> None:
    member = early(trained())
    every = torch.stack([gradient(member.tagger, one, (0, one.length)) for one in member.examples])  # (N, P)
    moved = scale(member.tagger, every) * gradient(member.tagger, member.tagger.prepare(CORPUS.dev[0]), (0, 2))
    (plain,) = WholeInfluence((member,)).without_curvature().members
    found = plain.sentence_scores([query()])[0]
    torch.testing.assert_close(found, every @ moved, rtol=5e-3, atol=5e-3 * float((every @ moved).abs().max()))
    segments = torch.tensor([[0, 0, 1], [3, 1, 3], [5, 2, 3]])
    expected = torch.stack(
        [gradient(member.tagger, member.examples[i], (a, b)) @ moved for i, a, b in segments.tolist()]
    )
    found = plain.scores([query()], SegmentLosses(segments))[0]
    torch.testing.assert_close(found, expected, rtol=2e-2, atol=1e-2 * float(expected.abs().max()))
    other = member.scores([query()], SegmentLosses(segments))[0]
    assert float(torch.cosine_similarity(other, found, dim=0)) < 0.999


def test_sentences_outside_the_fisher_matrix_have_scores_too(monkeypatch: pytest.MonkeyPatch) -> None:
    tagger = trained()
    all_in = early(tagger)
    monkeypatch.setattr(gradient_kernel, "MOST", 6)
    some = early(tagger)
    assert some.kernel.members.tolist() == [0, 2, 4, 6, 8, 10]
    found, expected = some.sentence_scores([query()])[0], all_in.sentence_scores([query()])[0]
    assert len(found) == len(SENTENCES)
    assert float(torch.corrcoef(torch.stack([found, expected]))[0, 1]) > 0.9
    dense = outside_fisher(some, query())
    torch.testing.assert_close(found, dense, rtol=2e-2, atol=1e-2 * float(dense.abs().max()))
    segments = torch.tensor([[i, 0, len(sentence)] for i, sentence in enumerate(SENTENCES)])
    torch.testing.assert_close(some.scores([query()], SegmentLosses(segments))[0], found, rtol=3e-2, atol=1e-4)
    assert some.kernel.shares[0] > 1.0 > some.kernel.shares[3]


def outside_fisher(member: EarlyTagger, asked: Query) -> Tensor:
    """The scores of all sentences if only some make up F, by dense matrices."""
    tagger, members = member.tagger, member.kernel.members
    every = torch.stack([gradient(tagger, example, (0, example.length)) for example in member.examples])  # (N, P)
    root = scale(tagger, every).sqrt()
    scaled = every * root
    sizes = scaled.square().sum(1)
    weights = (sizes / sizes[members].mean()).rsqrt()
    damping = float((weights * sizes)[members].mean())
    repeated = weights[members] * len(every) / len(members)
    fisher = (scaled[members].T * repeated) @ scaled[members] + damping * torch.eye(scaled.shape[1])
    assert asked.sentence is not None
    mine = gradient(tagger, tagger.prepare(asked.sentence), (asked.start, asked.stop)) * root
    repeats = torch.zeros(len(every))
    repeats[members] = len(every) / len(members)
    shares = 1.0 / (1.0 - (repeats - 1.0) * weights * (scaled * torch.linalg.solve(fisher, scaled.T).T).sum(1))
    return scaled @ torch.linalg.solve(fisher, mine) * shares


def relabelled(example: Example, token: int, label: int) -> Example:
    return replace(example, labels=[*example.labels[:token], label, *example.labels[token + 1 :]])


@pytest.mark.parametrize(("gib", "expected"), [(16, 2**28), (64, 2**30), (140, 2**30)])
def test_memory_is_a_part_of_a_small_gpu(monkeypatch: pytest.MonkeyPatch, gib: int, expected: int) -> None:
    properties = SimpleNamespace(total_memory=gib * 2**30)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
    assert gradient_kernel.memory_of(torch.device("cuda")) == expected
    assert gradient_kernel.memory_of(torch.device("cpu")) == gradient_kernel.CPU_BYTES


def test_a_sketch_keeps_products(monkeypatch: pytest.MonkeyPatch) -> None:
    tagger = trained()
    examples = [tagger.prepare(sentence) for sentence in SENTENCES]
    exact = sentence_kernel(tagger, examples, RECIPE).matrix
    monkeypatch.setattr(gradient_kernel, "SKETCH", 500)
    rough = sentence_kernel(tagger, examples, RECIPE).matrix
    sizes = exact.diagonal().sqrt()
    errors = ((rough - exact) / sizes / sizes.unsqueeze(1)).abs()
    assert 0 < float(errors.max()) < 6 / 500**0.5


def test_blocks_and_groups_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    tagger = trained()
    examples = [tagger.prepare(sentence) for sentence in SENTENCES]
    expected = sentence_kernel(tagger, examples, RECIPE)
    monkeypatch.setattr(gradient_kernel, "CPU_BYTES", 4000)
    found = sentence_kernel(tagger, examples, RECIPE)
    torch.testing.assert_close(found.matrix, expected.matrix, rtol=1e-4, atol=1e-4)
    assert found.scales.keys() == expected.scales.keys() == weights_of(tagger).keys()


def test_a_sentence_supports_its_own_labels() -> None:
    whole = several(2)
    assert len(whole.members) == 2
    asked = query(SENTENCES[4], 0, len(SENTENCES[4]))
    assert int(whole.sentence_scores([asked])[0].argmax()) == 4
    tokens = torch.tensor([[i, t, t + 1] for i, sentence in enumerate(SENTENCES) for t in range(len(sentence))])
    assert int(tokens[whole.segment_scores([asked], tokens)[0].argmax(), 0]) == 4


def test_a_query_needs_its_sentence() -> None:
    whole = several(1)
    with pytest.raises(OptionError, match="make_query"):
        whole.sentence_scores([replace(query(), sentence=None)])


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
    found = next(member._products([query(sentence, 0, 1)]))[1][0]
    error = float((found - expected).norm() / expected.norm())
    assert error < (5e-3 if dtype == torch.float64 else 3e-2)


def test_a_query_without_a_gradient_has_no_influence() -> None:
    member = early(trained())
    with torch.no_grad():
        member.tagger.head.weight.zero_()
        member.tagger.head.weight[LABELS.index("O"), -1] = 800.0
    sentence = CORPUS.dev[0]
    asked = query(sentence.with_labels(["O"] * len(sentence)), 0, 1)
    assert not member.sentence_scores([asked]).any()
    assert not member.scores([asked], SegmentLosses(torch.tensor([[0, 0, 1], [1, 0, 1]]))).any()


def test_many_queries_have_the_scores_of_one_at_a_time() -> None:
    member = early(trained())
    queries = [query(sentence, 0, 1) for sentence in CORPUS.dev[:5]]
    one_by_one = torch.cat([member.sentence_scores([one]) for one in queries])
    together = member.sentence_scores(queries)
    torch.testing.assert_close(together, one_by_one, rtol=5e-3, atol=5e-3 * float(together.abs().max()))


def test_a_question_of_several_queries_is_the_sum_of_their_losses() -> None:
    member = early(trained())
    first, second = query(CORPUS.dev[0], 0, 2), query(CORPUS.dev[1], 1, 2)
    segments = SegmentLosses(torch.tensor([[0, 0, 1], [3, 1, 3], [5, 2, 3]]))
    for scores in (member.sentence_scores, lambda asked: member.scores(asked, segments)):
        together, apart = scores([(first, second)])[0], scores([first]) + scores([second])
        torch.testing.assert_close(together, apart[0], rtol=2e-2, atol=2e-2 * float(together.abs().max()))
