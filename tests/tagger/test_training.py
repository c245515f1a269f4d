"""Training: what is learned, that it depends on its seed alone, and what is refused."""

from __future__ import annotations

import time
from copy import deepcopy
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tagtrace._checks import DataError, EncoderError, OptionError, TrainingError
from tagtrace.data import LabelSet, Sentence
from tagtrace.data.invented import generate
from tagtrace.data.labels import HIDDEN
from tagtrace.tagger import (
    Encoder,
    HeadOptions,
    Lexical,
    LexicalOptions,
    Scores,
    Step,
    Tagger,
    TrainOptions,
    Vectors,
    Watch,
    new_tagger,
    score_labels,
    train_tagger,
    training,
)
from tagtrace.tagger.training import _autocast, _rate

CORPUS = generate(num_documents=20)
TRAIN, DEV = CORPUS.train[:24], CORPUS.dev[:8]
LABELS = LabelSet.from_sentences(CORPUS.train, "iob2")
SHORT = TrainOptions(epochs=3, batch_size=8, checkpoint_seconds=0)  # 3 epochs of 3 steps
NUM_STEPS = 9
NOTHING = [sentence.with_labels(["O"] * len(sentence)) for sentence in TRAIN]
"""Dev data whose loss first falls and then rises."""
WORSE_AT_LAST = TrainOptions(epochs=12, batch_size=8, learning_rate=1e-2, checkpoint_seconds=0)


def fresh(seed: int = 1, head: HeadOptions | None = None, unit: Any = "sentence") -> Tagger:
    torch.manual_seed(seed)
    return new_tagger(Lexical(LexicalOptions(buckets=512, width=16, hidden=16)), LABELS, head, unit)


def weights(tagger: Tagger) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in tagger.state_dict().items()}


def same(left: dict[str, Tensor], right: dict[str, Tensor]) -> bool:
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


# What is learned and kept


@pytest.mark.parametrize("unit", ["sentence", "document"])
def test_nothing_is_learned_from_hidden_labels(unit: str) -> None:
    """The loss of the first step is that of the other labels, summed over every label of the hidden token."""
    options = TrainOptions(epochs=1, batch_size=100, dropout=0.0)
    encoder = Lexical(LexicalOptions(buckets=512, width=16, hidden=16, dropout=0.0, form_dropout=0.0))
    tagger = new_tagger(encoder, LABELS, HeadOptions(start_end=True), unit)  # pyright: ignore[reportArgumentType]
    first = TRAIN[0]

    def with_label(label: str) -> list[Sentence]:
        return [first.with_labels([label, *first.labels[1:]]), *TRAIN[1:3]]

    each = [
        tagger.mean_loss([tagger.prepare(one) for one in tagger.joined(with_label(label))]) for label in LABELS.labels
    ]
    count = len(tagger.joined(with_label("O")))
    expected = -(-torch.tensor(each, dtype=torch.float64) * count).logsumexp(0) / count
    history = train_tagger(deepcopy(tagger), with_label(HIDDEN), options=options)
    assert history.train_loss[0] == pytest.approx(float(expected), rel=1e-5)
    train_tagger(tagger, with_label(HIDDEN), options=options)
    other = new_tagger(encoder, LABELS)
    with pytest.raises(DataError):
        other.rows(with_label(HIDDEN))


def test_a_run_can_be_stopped_after_some_epochs() -> None:
    tagger, kept = fresh(), dict[int, dict[str, Tensor]]()

    def keep(step: Step) -> None:
        if step.step == 3:  # the end of the first epoch
            kept[step.epoch] = {name: value.clone() for name, value in tagger.head.state_dict().items()}

    train_tagger(tagger, TRAIN, options=SHORT, progress=keep)
    stopped = fresh()
    history = train_tagger(stopped, TRAIN, options=SHORT, stop_after=1)
    assert len(history.train_loss) == 1
    assert same(dict(stopped.head.state_dict()), kept[1])


def test_an_invented_corpus_is_learned() -> None:
    tagger = fresh()
    train = CORPUS.train_true
    history = train_tagger(tagger, train, options=TrainOptions(epochs=25, learning_rate=1e-2, dropout=0.1))
    assert history.train_loss[-1] < 0.2 * history.train_loss[0]
    assert len(history.train_loss) == 25
    assert history.dev_loss == []
    assert history.best_epoch is None
    card = score_labels([s.labels for s in train], tagger.predict(train), "iob2")
    assert card.segments.f1 > 0.9
    assert not tagger.training


@pytest.mark.parametrize("keep", ["best", "last"])
def test_the_epoch_with_the_lowest_dev_loss_is_kept(keep: Any) -> None:
    tagger = fresh()
    history = train_tagger(tagger, TRAIN, NOTHING, replace(WORSE_AT_LAST, keep=keep))
    best = min(history.dev_loss)
    assert history.best_epoch == history.dev_loss.index(best) + 1
    assert best < min(history.dev_loss[0], history.dev_loss[-1]), "the test needs a best epoch in the middle"
    kept = best if keep == "best" else history.dev_loss[-1]
    assert tagger.mean_loss([tagger.prepare(sentence) for sentence in NOTHING]) == pytest.approx(kept, abs=1e-6)
    assert tagger.record["training"]["history"] == asdict(history)
    assert tagger.record["training"]["learning_rate"] == 1e-2


def test_the_seed_alone_decides() -> None:
    def trained(seed: int) -> dict[str, Tensor]:
        tagger = fresh()
        torch.manual_seed(time.time_ns() % 2**31)  # what was drawn before must not matter
        train_tagger(tagger, TRAIN, DEV, replace(SHORT, seed=seed))
        return weights(tagger)

    first = trained(0)
    assert same(first, trained(0))
    assert not same(first, trained(1))


def test_progress_reports_every_step() -> None:
    steps: list[Step] = []
    history = train_tagger(fresh(), TRAIN, DEV, SHORT, progress=steps.append)
    assert [now.step for now in steps] == list(range(1, NUM_STEPS + 1))
    assert [now.epoch for now in steps] == [1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert {(now.num_steps, now.num_epochs) for now in steps} == {(NUM_STEPS, 3)}
    assert [now.dev_loss for now in steps if now.dev_loss is not None] == history.dev_loss
    assert [now.dev_loss is None for now in steps] == [True, True, False] * 3
    assert steps[-1].seconds_left == 0 < steps[0].seconds_left
    for epoch in range(3):
        losses = [now.loss for now in steps[3 * epoch : 3 * epoch + 3]]
        assert history.train_loss[epoch] == pytest.approx(sum(losses) / 3)


def test_every_sentence_is_seen_once_an_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    def batches(seed: int) -> list[list[int]]:
        tagger, seen = fresh(), []
        encode, number = tagger.encode, {sentence.tokens: k for k, sentence in enumerate(TRAIN)}
        prepare = tagger.prepare
        numbered: dict[int, int] = {}

        def prepare_and_number(sentence: Sentence) -> Any:
            example = prepare(sentence)
            numbered[id(example)] = number[sentence.tokens]
            return example

        monkeypatch.setattr(tagger, "prepare", prepare_and_number)
        monkeypatch.setattr(
            tagger, "encode", lambda batch: seen.append([numbered[id(e)] for e in batch]) or encode(batch)
        )
        train_tagger(tagger, TRAIN[:20], options=replace(SHORT, epochs=2, seed=seed))
        return seen

    seen = batches(seed=0)
    assert [len(batch) for batch in seen].count(4) == 2, "the last, smaller batch counts too"
    first, second = (sorted(e for batch in seen[k : k + 3] for e in batch) for k in (0, 3))
    assert first == second
    assert first == list(range(20))
    assert seen[:3] != seen[3:], "each epoch has an order of its own"
    assert seen == batches(seed=0) != batches(seed=1), "and so has each seed"


@pytest.mark.parametrize("head", [HeadOptions("softmax"), HeadOptions(start_end=True, constrained=True)])
def test_other_heads_train(head: HeadOptions) -> None:
    tagger = fresh(head=head)
    history = train_tagger(tagger, TRAIN, DEV, TrainOptions(epochs=6, batch_size=8, learning_rate=1e-2))
    assert history.train_loss[-1] < 0.7 * history.train_loss[0]
    assert bool(tagger.head.transitions.any()) == (head.kind == "crf")
    assert bool(tagger.head.start.any()) == head.start_end


def test_documents_train_as_one_sentence() -> None:
    tagger = fresh(unit="document")
    num_documents = len({sentence.document for sentence in TRAIN})
    steps: list[Step] = []
    options = TrainOptions(epochs=8, batch_size=1, learning_rate=1e-2)
    history = train_tagger(tagger, TRAIN, DEV, options, progress=steps.append)
    assert steps[-1].num_steps == 8 * num_documents < 8 * len(TRAIN)
    assert history.train_loss[-1] < 0.7 * history.train_loss[0]


# The recipe


@pytest.mark.parametrize(("max_norm", "clips"), [(1e-3, True), (1e6, False)])
def test_gradients_are_clipped(max_norm: float, clips: bool) -> None:
    tagger, norms = fresh(), list[float]()

    def keep_norm(_: Step) -> None:
        gradients = [p.grad for p in tagger.parameters() if p.grad is not None]
        norms.append(float(nn.utils.get_total_norm(gradients)))

    options = TrainOptions(epochs=1, batch_size=24, max_norm=max_norm)
    train_tagger(tagger, TRAIN, options=options, progress=keep_norm)
    assert (norms[-1] == pytest.approx(max_norm, rel=1e-3)) == clips
    assert (norms[-1] > 1e-2) != clips


def test_schedules() -> None:
    assert [_rate("constant", step, 20) for step in (0, 7, 19)] == [1, 1, 1]
    rates = [_rate("linear", step, 20) for step in range(20)]
    assert rates[:3] == pytest.approx([0.5, 1.0, 0.85 / 0.9])
    assert rates[10] == pytest.approx(0.45 / 0.9)
    assert rates[-1] == 0
    assert rates[1:] == sorted(rates[1:], reverse=True)


def test_the_schedule_scales_the_learning_rate() -> None:
    options = TrainOptions(epochs=1, batch_size=1, learning_rate=1e-2)
    before = weights(fresh())
    moved = {}
    for schedule in ("constant", "linear"):
        tagger = fresh()  # one sentence, one step: the linear schedule is at its end, zero
        train_tagger(tagger, TRAIN[:1], options=replace(options, schedule=schedule))
        moved[schedule] = not same(weights(tagger), before)
    assert moved == {"constant": True, "linear": False}


def test_the_head_has_a_learning_rate_of_its_own() -> None:
    tagger, before = fresh(), weights(fresh())
    train_tagger(tagger, TRAIN, options=replace(SHORT, learning_rate=1e-12, head_learning_rate=1e-1))
    moved = {name: float((value - before[name]).abs().max()) for name, value in weights(tagger).items()}
    assert all(distance < 1e-6 for name, distance in moved.items() if name.startswith("encoder."))
    assert moved["head.weight"] > 0.1
    untold = fresh()
    train_tagger(untold, TRAIN, options=SHORT)
    assert untold.record["training"]["learning_rate"] == Lexical.learning_rate


def test_weight_decay_shrinks_what_has_no_gradient() -> None:
    tagger, before = fresh(), weights(fresh())["encoder.table.weight"]
    options = TrainOptions(epochs=1, batch_size=1, learning_rate=0.1, weight_decay=0.5)
    train_tagger(tagger, TRAIN[:1], options=options)
    after = tagger.state_dict()["encoder.table.weight"]
    used = {i for ids, _ in tagger.encoder.prepare(TRAIN[0]) for i in ids}
    unused = sorted(set(range(512)) - used)
    torch.testing.assert_close(after[unused], before[unused] * (1 - 0.1 * 0.5))
    plain = fresh()
    train_tagger(plain, TRAIN[:1], options=replace(options, weight_decay=0.0))
    assert torch.equal(plain.state_dict()["encoder.table.weight"][unused], before[unused])


def test_leaving_out_weights_that_no_word_uses_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def trained() -> dict[str, Tensor]:
        tagger = fresh()
        trainable = tagger.encoder.get_parameter
        train_tagger(tagger, TRAIN, DEV, SHORT, progress=lambda _: sizes.append(len(trainable("table.weight"))))
        return weights(tagger)

    narrow = trained()
    assert max(sizes) < 512
    monkeypatch.setattr(Lexical, "narrowed", Encoder.narrowed)
    whole = trained()
    assert sizes[-1] == 512
    assert narrow.keys() == whole.keys()
    for name, value in whole.items():
        torch.testing.assert_close(narrow[name], value, rtol=1e-5, atol=1e-6)


def test_a_watched_tagger_is_asked_after_every_epoch() -> None:
    """About sentences that it is not trained on too, whose words have rows in the narrowed table."""
    tagger, plain, features = fresh(), fresh(), dict[int, Tensor]()
    train_tagger(plain, TRAIN[:6], (), SHORT)
    watch = Watch(lambda epoch: features.update({epoch: tagger.features(DEV[0])}), DEV)
    train_tagger(tagger, TRAIN[:6], (), SHORT, watch=watch)
    assert list(features) == [1, 2, 3]
    for epoch, found in features.items():
        stopped = fresh()
        train_tagger(stopped, TRAIN[:6], (), SHORT, stop_after=epoch)
        torch.testing.assert_close(found, stopped.features(DEV[0]), rtol=1e-4, atol=1e-5)
    for name, value in weights(plain).items():
        torch.testing.assert_close(weights(tagger)[name], value, rtol=1e-5, atol=1e-6)
    with pytest.raises(RuntimeError):  # the table has no rows for these words
        train_tagger(tagger, TRAIN[:6], (), SHORT, watch=replace(watch, sentences=()))


def test_dropout_is_the_one_asked_for() -> None:
    def trained(dropout: float) -> dict[str, Tensor]:
        tagger = fresh()
        train_tagger(tagger, TRAIN, options=replace(SHORT, dropout=dropout))
        return weights(tagger)

    assert not same(trained(0.0), trained(0.5))


def test_bfloat16_runs_the_encoder_but_not_the_head() -> None:
    tagger, wide = fresh(), fresh()
    history = train_tagger(tagger, TRAIN, DEV, replace(SHORT, precision="bfloat16"))
    expected = train_tagger(wide, TRAIN, DEV, replace(SHORT, precision="float32"))
    assert all(value.dtype == torch.float32 for value in tagger.state_dict().values())
    assert history.dev_loss == pytest.approx(expected.dev_loss, rel=0.02)
    assert history.dev_loss != expected.dev_loss
    batch = [tagger.prepare(sentence) for sentence in DEV]
    with _autocast(tagger, "bfloat16"):
        assert tagger.scores(batch).emissions.dtype == torch.float32


@pytest.mark.parametrize(("is_fast", "kind"), [(True, "transformer"), (True, "lexical"), (False, "transformer")])
def test_transformers_train_in_bfloat16_where_the_cpu_multiplies_it(
    monkeypatch: pytest.MonkeyPatch, is_fast: bool, kind: str
) -> None:
    monkeypatch.setattr(training, "multiplies_bfloat16", lambda: is_fast)
    tagger = fresh()
    monkeypatch.setattr(type(tagger.encoder), "kind", kind)
    with _autocast(tagger, "auto"):
        product = torch.ones(2, 2) @ torch.ones(2, 2)
    assert (product.dtype == torch.bfloat16) is (is_fast and kind == "transformer")


# What is refused


def test_an_encoder_that_is_not_trained_is_refused() -> None:
    tagger = new_tagger(Vectors(["a"], torch.ones(1, 2)), LABELS)
    with pytest.raises(TrainingError, match=r"vectors.*refit"):
        train_tagger(tagger, TRAIN)


def test_data_without_labels_is_refused() -> None:
    unlabelled = replace(TRAIN[3], labels=(), path="new.conll", lines=range(7, 7 + len(TRAIN[3])))
    with pytest.raises(DataError, match=r"new\.conll, line 7: the training data has no labels"):
        train_tagger(fresh(), [*TRAIN, unlabelled])
    with pytest.raises(DataError, match="the dev data has no labels"):
        train_tagger(fresh(), TRAIN, [unlabelled])
    with pytest.raises(DataError, match="the training data is empty"):
        train_tagger(fresh(), [])


@pytest.mark.parametrize("unit", ["sentence", "document"])
def test_unknown_labels_are_refused_with_their_place(unit: Any) -> None:
    odd = Sentence(("a", "b"), ("O", "B-GENE"), document="d", path="dev.conll", lines=(40, 41))
    with pytest.raises(DataError, match=r"dev\.conll, line 41: unknown label 'B-GENE'"):
        train_tagger(fresh(unit=unit), TRAIN, [*DEV, odd])


def test_weights_that_stop_being_numbers_in_the_last_step_stop_the_run(tmp_path: Path) -> None:
    tagger, every_step = fresh(), replace(SHORT, learning_rate=1e39, epochs=1, batch_size=len(TRAIN))
    with pytest.raises(TrainingError, match=r"are not finite numbers; lower the learning rate"):
        train_tagger(tagger, TRAIN, options=every_step, checkpoint=tmp_path / "checkpoint")
    assert list(tmp_path.iterdir()) == []


def test_a_dev_loss_that_is_not_finite_stops_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tagger, "mean_loss", lambda *_: float("nan"))
    with pytest.raises(TrainingError, match=r"the dev loss became nan at step 3; lower the learning rate"):
        train_tagger(fresh(), TRAIN, DEV, options=SHORT)


def test_a_loss_that_is_not_finite_stops_the_run() -> None:
    with pytest.raises((TrainingError, EncoderError), match="lower the learning rate"):
        train_tagger(fresh(), TRAIN, options=replace(SHORT, learning_rate=1e30))


@pytest.mark.parametrize(
    "bad",
    [
        {"epochs": 0},
        {"epochs": 10**30},
        {"batch_size": 0},
        {"learning_rate": 0.0},
        {"learning_rate": float("nan")},
        {"head_learning_rate": -1.0},
        {"dropout": 1.0},
        {"dropout": -0.1},
        {"max_norm": 0.0},
        {"weight_decay": -1.0},
        {"weight_decay": float("nan")},
        {"schedule": "cosine"},
        {"precision": "float16"},
        {"keep": "first"},
        {"seed": -1},
        {"seed": 2**63},
    ],
)
def test_options_validate_themselves(bad: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=next(iter(bad))):
        TrainOptions(**bad)


def test_the_recursions_of_a_training_step_run_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where they take less time than on a GPU: the loss is that of ``Scores.cpu``."""
    calls, on_cpu = list[Scores](), Scores.cpu

    def noted(scores: Scores) -> Scores:
        calls.append(scores)
        return on_cpu(scores)

    monkeypatch.setattr(Scores, "cpu", noted)
    train_tagger(fresh(), TRAIN, (), SHORT)
    assert len(calls) == NUM_STEPS
