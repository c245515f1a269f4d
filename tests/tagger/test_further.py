"""Training a tagger again, and a little further."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tagtrace._checks import DataError, EncoderError, OptionError, TaggerError
from tagtrace.data import Sentence
from tagtrace.data.labels import HIDDEN
from tagtrace.tagger import (
    HeadOptions,
    Lexical,
    LexicalOptions,
    RefitOptions,
    Step,
    Tagger,
    TrainOptions,
    Transformer,
    Vectors,
    new_tagger,
    refit_tagger,
    train_tagger,
)
from tagtrace.tagger.further import train_further
from tagtrace.tagger.recipe import Recipe, encoder_maker, recorded_recipe
from tests.findings.made import LABELS, make_sentences, make_tagger

RECIPE = TrainOptions(epochs=2, batch_size=4, learning_rate=0.05, head_learning_rate=0.01, dropout=0.1, seed=3,
                      weight_decay=0.1, keep="best", max_norm=5.0)  # fmt: skip
TINY = LexicalOptions(buckets=64, width=4, hidden=4)


def lexical_tagger(seed: int = 0, unit: str = "sentence") -> Tagger:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        encoder = Lexical(TINY)
    return new_tagger(encoder, LABELS, HeadOptions(start_end=True), unit, seed)  # type: ignore[arg-type]


def same_weights(one: torch.nn.Module, other: torch.nn.Module) -> bool:
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


def test_a_tagger_trained_again_is_the_same() -> None:
    """From its own seed, by its own recipe."""
    tagger, sentences = lexical_tagger(3, "document"), make_sentences(12)
    sentences = [replace(one, document=f"d{n // 2}") for n, one in enumerate(sentences)]
    train_tagger(tagger, sentences, (), RECIPE)
    state = torch.random.get_rng_state()
    fresh = Recipe.of(tagger).untrained(3)
    assert torch.equal(torch.random.get_rng_state(), state), "the caller's random numbers stay as they were"
    assert same_weights(fresh, lexical_tagger(3, "document"))
    assert (fresh.unit, fresh.labels, fresh.head.options) == ("document", LABELS, tagger.head.options)
    assert fresh.record == {}
    train_tagger(fresh, sentences, (), recorded_recipe(tagger))
    assert same_weights(fresh, tagger)
    other = Recipe.of(tagger).untrained(4)
    assert not same_weights(other.encoder, lexical_tagger(3).encoder)
    assert not same_weights(other.head, lexical_tagger(3).head)


def test_the_recipe_is_the_one_in_the_record() -> None:
    tagger = make_tagger()
    with pytest.raises(TaggerError, match="does not record how it was trained; retrain only the head"):
        recorded_recipe(tagger)
    train_tagger(tagger, make_sentences(6), (), RECIPE)
    refit_tagger(tagger, make_sentences(6), RefitOptions(tolerance=1e-3))
    assert recorded_recipe(tagger) == RECIPE
    tagger.record["training"]["options"]["momentum"] = 0.9  # of another version
    with pytest.raises(TaggerError, match="does not record how it was trained"):
        recorded_recipe(tagger)


def test_encoders_that_are_not_trained_are_refused() -> None:
    fixed = new_tagger(Vectors(["a"], torch.zeros(1, 2)), LABELS)
    with pytest.raises(OptionError, match="a vectors encoder cannot be trained; retrain only the head"):
        recorded_recipe(fixed)
    with pytest.raises(OptionError, match="cannot make an untrained vectors encoder; give one as the encoder"):
        encoder_maker(fixed)


def test_a_transformer_is_loaded_again_from_where_it_was(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from tests.tagger.tiny_models import bert  # noqa: PLC0415  (transformers is an optional dependency)

    folder = bert(tmp_path / "bert")
    tagger = new_tagger(Transformer(folder, max_pieces=32), LABELS)
    fresh = encoder_maker(tagger)(0)
    assert fresh.settings() == tagger.encoder.settings()
    for old, new in zip(tagger.encoder.parameters(), fresh.parameters(), strict=True):
        assert torch.equal(old, new)
    tagger.encoder.name = str(tmp_path / "gone")  # type: ignore[assignment]
    with pytest.raises(EncoderError, match=r"cannot be loaded .*; give it as the encoder transformer:NAME_OR_DIR"):
        encoder_maker(tagger)(0)


@pytest.mark.parametrize(
    ("num_trusted", "epochs", "num_steps"),
    [(1, 30, 30), (5, 15, 30), (40, 3, 30), (41, 3, 33), (60, 3, 45)],
)
def test_three_epochs_and_at_least_thirty_steps(num_trusted: int, epochs: int, num_steps: int) -> None:
    tagger, steps = make_tagger(), list[Step]()
    train_further(tagger, make_sentences(num_trusted, seed=5), RECIPE, steps.append)
    assert (steps[-1].num_epochs, len(steps)) == (epochs, num_steps)
    expected = replace(RECIPE, epochs=epochs, learning_rate=0.7 * 0.05, schedule="linear", keep="last")
    assert recorded_recipe(tagger) == expected


def test_rates_that_the_recipe_leaves_to_the_encoder() -> None:
    tagger = make_tagger()
    train_further(tagger, make_sentences(5, seed=5), replace(RECIPE, learning_rate=None, head_learning_rate=None))
    found = recorded_recipe(tagger)
    assert found.learning_rate == pytest.approx(0.7 * tagger.encoder.learning_rate)
    assert found.head_learning_rate == tagger.encoder.learning_rate


def test_documents_are_counted_where_they_are_sentences() -> None:
    """Three documents of four sentences are one batch."""
    sentences = [replace(one, document=f"d{n // 4}") for n, one in enumerate(make_sentences(12, seed=5))]
    made, steps = make_tagger(), list[Step]()
    train_further(Tagger(made.encoder, made.head, LABELS, "document"), sentences, RECIPE, steps.append)
    assert steps[-1].num_epochs == len(steps) == 30


def test_it_learns_what_is_trusted() -> None:
    """Labels that training had wrong, where the trusted sentences have them right."""
    wrong = [Sentence((f"w{n % 4}",), ("B-X",), f"s:{n}") for n in range(16)]
    right = [one.with_labels(["B-Y" if one.tokens[0] == "w1" else "B-X"]) for one in wrong[:4]]
    tagger = make_tagger()
    train_tagger(tagger, wrong, (), RECIPE)
    examples = [tagger.prepare(one) for one in right]
    before = tagger.mean_loss(examples)
    train_further(tagger, right, RECIPE)
    assert tagger.mean_loss(examples) < 0.7 * before


def test_trusted_sentences_that_cannot_be_used() -> None:
    tagger, good = make_tagger(), make_sentences(5, seed=5)
    for trusted, message in (
        ([], "the trusted data is empty"),
        ([Sentence((), ())], "the trusted data is empty"),
        ([*good, Sentence(("w1",), ("B-Z",), "t:1")], "t:1: unknown label 'B-Z'"),
        ([*good, Sentence(("w1",), (), "t:2")], "t:2: the trusted data has no labels"),
    ):
        with pytest.raises(DataError, match=message):
            train_further(tagger, trusted, RECIPE)
    other = make_tagger()
    train_further(tagger, good, RECIPE)
    train_further(other, [Sentence((), ()), *good, Sentence((), ())], RECIPE)
    assert same_weights(tagger, other)


def test_trusted_sentences_may_hide_labels() -> None:
    """Nothing is learned from hidden labels: training on one token of each sentence is not training on all."""
    good = make_sentences(5, seed=5)
    partly = [one.with_labels([one.labels[0], *[HIDDEN] * (len(one) - 1)]) for one in good]
    heads = []
    for trusted in (good, partly, [one.with_labels([one.labels[0], *["O"] * (len(one) - 1)]) for one in good]):
        tagger = lexical_tagger()
        train_further(tagger, trusted, TrainOptions(epochs=1))
        heads.append(tagger.head.flat())
    assert not torch.equal(heads[0], heads[1])
    assert not torch.equal(heads[1], heads[2])
