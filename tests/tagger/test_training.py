"""Training: what it learns, that it depends on its seed alone, and that a killed run ends where it would have."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import load_file
from torch import Tensor, nn

from tagtrace._checks import DataError, EncoderError, OptionError, TrainingError
from tagtrace.cli import main
from tagtrace.data import LabelSet, Sentence
from tagtrace.data.invented import generate, write_invented
from tagtrace.tagger import (
    HeadOptions,
    Lexical,
    LexicalOptions,
    Step,
    Tagger,
    TrainOptions,
    Vectors,
    new_tagger,
    score_labels,
    train_tagger,
)
from tagtrace.tagger.checkpoint import remove_checkpoint
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


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


class Killed(Exception):  # noqa: N818
    pass


def kill_at(step: int) -> Callable[[Step], None]:
    def progress(now: Step) -> None:
        if now.step == step:
            raise Killed

    return progress


@pytest.fixture(scope="module")
def uninterrupted() -> Tagger:
    tagger = fresh()
    train_tagger(tagger, TRAIN, DEV, SHORT)
    return tagger


# Resuming


@pytest.mark.parametrize("step", [1, 3, 5, 6, NUM_STEPS])  # inside an epoch, at the end of one, at the very end
def test_a_killed_run_ends_with_the_same_weights(uninterrupted: Tagger, tmp_path: Path, step: int) -> None:
    folder = tmp_path / "checkpoint"
    with pytest.raises(Killed):
        train_tagger(fresh(), TRAIN, DEV, SHORT, checkpoint=folder, progress=kill_at(step))
    resumed = fresh(seed=99)  # its own weights must not matter
    seen: list[int] = []
    train_tagger(resumed, TRAIN, DEV, SHORT, checkpoint=folder, progress=lambda now: seen.append(now.step))
    assert seen == list(range(step + 1, NUM_STEPS + 1)), "it must go on, not begin again"
    assert same(weights(resumed), weights(uninterrupted))
    assert resumed.record == uninterrupted.record


def test_a_run_killed_after_every_step_ends_with_the_same_weights(tmp_path: Path) -> None:
    options = replace(SHORT, schedule="linear", weight_decay=0.1, keep="last")
    whole = fresh()
    train_tagger(whole, TRAIN, DEV, options)
    for step in range(1, NUM_STEPS + 1):
        with pytest.raises(Killed):
            train_tagger(fresh(), TRAIN, DEV, options, checkpoint=tmp_path / "c", progress=kill_at(step))
    resumed = fresh()
    train_tagger(resumed, TRAIN, DEV, options, checkpoint=tmp_path / "c")
    assert same(weights(resumed), weights(whole))


def test_a_run_killed_after_its_best_epoch_still_ends_with_it(tmp_path: Path) -> None:
    whole, resumed = fresh(), fresh()
    history = train_tagger(whole, TRAIN, NOTHING, WORSE_AT_LAST)
    assert history.best_epoch is not None
    stop = kill_at(3 * history.best_epoch + 4)
    with pytest.raises(Killed):
        train_tagger(fresh(), TRAIN, NOTHING, WORSE_AT_LAST, checkpoint=tmp_path / "c", progress=stop)
    train_tagger(resumed, TRAIN, NOTHING, WORSE_AT_LAST, checkpoint=tmp_path / "c")
    assert same(weights(resumed), weights(whole))


def test_a_run_killed_while_it_writes_a_checkpoint_goes_on_from_the_one_before(
    uninterrupted: Tagger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "checkpoint"
    with pytest.raises(Killed):
        train_tagger(fresh(), TRAIN, DEV, SHORT, checkpoint=folder, progress=kill_at(4))

    def half_written(_tensors: dict[str, Tensor], path: Path) -> None:
        path.write_bytes(b"half")
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("tagtrace.tagger.checkpoint.save_file", half_written)
        with pytest.raises(Killed):
            train_tagger(fresh(), TRAIN, DEV, SHORT, checkpoint=folder)
    resumed = fresh()
    seen: list[int] = []
    train_tagger(resumed, TRAIN, DEV, SHORT, checkpoint=folder, progress=lambda now: seen.append(now.step))
    assert seen[0] == 5
    assert same(weights(resumed), weights(uninterrupted))
    assert names(folder) == ["state.json", f"step-{NUM_STEPS}"]


def test_a_run_that_gets_sigkill_ends_with_the_same_weights(tmp_path: Path) -> None:
    write_invented(CORPUS, tmp_path / "data")
    command = ["train", str(tmp_path / "data" / "train.conll"), "--dev", str(tmp_path / "data" / "dev.conll")]
    command += ["--epochs", "2", "--device", "cpu"]
    killed = tmp_path / "killed"
    state = tmp_path / "killed.checkpoint" / "state.json"
    program = [sys.executable, "-c", "import torch; torch.set_num_threads(1); from tagtrace.cli import main; main()"]
    process = subprocess.Popen(
        [*program, *command, str(killed), "--checkpoint-seconds", "0"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        give_up = time.monotonic() + 60
        while not state.exists() and process.poll() is None and time.monotonic() < give_up:
            time.sleep(0.01)
    finally:
        process.send_signal(signal.SIGKILL)
        _, stderr = process.communicate()
    assert process.returncode == -signal.SIGKILL, stderr.decode()
    step = json.loads(state.read_text())["step"]
    assert 0 < step < 16
    assert not killed.exists()
    resumed = CliRunner().invoke(main, [*command, str(killed)])
    assert resumed.exit_code == 0, resumed.output
    assert "going on from" in resumed.stderr
    whole = CliRunner().invoke(main, [*command, str(tmp_path / "whole")])
    assert "going on from" not in whole.stderr
    for file in ("head.safetensors", "encoder/encoder.safetensors"):
        assert same(load_file(killed / file), load_file(tmp_path / "whole" / file))
    assert names(tmp_path) == ["data", "killed", "whole"]


def test_the_last_checkpoint_stays_until_it_is_removed_and_nothing_else_is(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    seen: list[list[str]] = []
    train_tagger(fresh(), TRAIN, DEV, SHORT, checkpoint=folder, progress=lambda _: seen.append(names(folder)))
    assert seen == [["state.json", f"step-{step}"] for step in range(1, NUM_STEPS + 1)], "older tensors must go"
    again = fresh()
    train_tagger(again, TRAIN, DEV, SHORT, checkpoint=folder, progress=lambda _: pytest.fail("all steps were taken"))
    (folder / "notes.txt").write_text("mine")
    remove_checkpoint(folder)
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]


def test_checkpoints_are_as_rare_as_asked_for(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    options = replace(SHORT, checkpoint_seconds=1000)
    seen: list[int] = []
    train_tagger(
        fresh(), TRAIN, DEV, options, checkpoint=folder,
        progress=lambda now: seen.append(now.step) if folder.exists() else None,
    )  # fmt: skip
    assert seen == [NUM_STEPS], "only the last"


def relabelled(sentences: tuple[Sentence, ...]) -> tuple[Sentence, ...]:
    first = sentences[0]
    labels = ["O" if label != "O" else "B-PER" for label in first.labels[:1]] + list(first.labels[1:])
    return (first.with_labels(labels), *sentences[1:])


@pytest.mark.parametrize(
    ("what", "changes"),
    [
        ("options", {"options": replace(SHORT, seed=5)}),
        ("data", {"train": relabelled(TRAIN)}),
        ("data", {"dev": DEV[:-1]}),
        ("head", {"tagger": {"head": HeadOptions(constrained=True)}}),
        ("unit", {"tagger": {"unit": "document"}}),
    ],
)
def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path, what: str, changes: dict[str, Any]) -> None:
    folder = tmp_path / "checkpoint"
    with pytest.raises(Killed):
        train_tagger(fresh(), TRAIN, DEV, SHORT, checkpoint=folder, progress=kill_at(2))
    arguments = {"train": TRAIN, "dev": DEV, "options": SHORT, "tagger": {}} | changes
    other = fresh(**arguments["tagger"])
    before = weights(other)
    with pytest.raises(TrainingError, match=rf"another run \(different .*{what}.*--restart"):
        train_tagger(other, arguments["train"], arguments["dev"], arguments["options"], checkpoint=folder)
    assert same(weights(other), before)
    remove_checkpoint(folder)
    train_tagger(other, arguments["train"], arguments["dev"], arguments["options"], checkpoint=folder)


@pytest.mark.parametrize("damage", ["state", "tensors", "missing"])
def test_a_damaged_checkpoint_is_refused(tmp_path: Path, damage: str) -> None:
    folder = tmp_path / "checkpoint"
    with pytest.raises(Killed):
        train_tagger(fresh(), TRAIN, DEV, SHORT, checkpoint=folder, progress=kill_at(2))
    tensors = folder / "step-2" / "weights.safetensors"
    if damage == "state":
        (folder / "state.json").write_text('{"step": 2')
    elif damage == "tensors":
        tensors.write_bytes(tensors.read_bytes()[:-10])
    else:
        tensors.unlink()
    with pytest.raises(TrainingError, match=r"damaged.*--restart") as error:
        train_tagger(fresh(), TRAIN, DEV, SHORT, checkpoint=folder)
    assert "\n" not in str(error.value)


# What is learned, and what is kept


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


def test_progress_tells_where_the_run_stands() -> None:
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
    tagger = fresh()
    train_tagger(tagger, TRAIN, options=TrainOptions(epochs=1, batch_size=24, max_norm=max_norm))
    norm = nn.utils.get_total_norm([p.grad for p in tagger.parameters() if p.grad is not None])
    assert (float(norm) == pytest.approx(max_norm, rel=1e-3)) == clips
    assert (float(norm) > 1e-2) != clips


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
    with _autocast(tagger.device, "bfloat16"):
        assert tagger.scores(batch).emissions.dtype == torch.float32


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


def test_a_loss_that_is_no_number_stops_the_run() -> None:
    with pytest.raises((TrainingError, EncoderError), match="lower the learning rate"):
        train_tagger(fresh(), TRAIN, options=replace(SHORT, learning_rate=1e30))


@pytest.mark.parametrize(
    "bad",
    [
        {"epochs": 0},
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
