"""A training by the Trainer of transformers leaves an index that answers at once, and is not disturbed by it."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor
from transformers import BertConfig, BertForTokenClassification, TrainerCallback, TrainerState

pytest.importorskip("accelerate", reason="accelerate, which the Trainer needs, is not installed")

import tagtrace as tt
from tagtrace.index.manifest import MARKER
from tagtrace.integrations.transformers import TagtraceCallback
from tests.cli.command import succeed
from tests.integrations.trained import EPOCHS, SIZES, SLIP, Made, make, new_bert, new_trainer
from tests.tagger.foreign.planted import NAMES, WORD
from tests.tagger.foreign.trained import library_scores

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Trained:
    """What a training with the callback left in a folder."""

    made: Made
    callback: TagtraceCallback
    model: Any

    @property
    def folder(self) -> Path:
        return self.callback.folder


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make(tmp_path_factory.mktemp("made"))


@pytest.fixture(scope="module")
def trained(made: Made) -> Trained:
    callback = TagtraceCallback(made.folder / "train.conll", made.folder / "out", dynamics=True)
    trainer = new_trainer(made, callback, tokenizer=made.tokenizer)
    trainer.train()
    return Trained(made, callback, trainer.model)


@torch.no_grad()
def scores(trained: Trained, tokens: tuple[str, ...]) -> Tensor:
    """What the model in memory computes for the first piece of each word, (T, C)."""
    given = trained.made.tokenizer(list(tokens), is_split_into_words=True, return_tensors="pt")
    words = given.word_ids()
    logits = trained.model.eval()(**given.to(trained.model.device)).logits[0]
    return logits[[words.index(word) for word in range(len(tokens))]].cpu()


def weights_of(model: Any) -> list[Tensor]:
    return [value.detach().clone() for value in model.state_dict().values()]


# What is written


def test_predictions_are_those_of_the_model(trained: Trained) -> None:
    tagger = tt.load_tagger(trained.folder / "checkpoint")
    dev = tt.read_corpus(trained.made.dev).sentences
    expected = [tuple(NAMES[i] for i in scores(trained, one.tokens).argmax(1)) for one in dev]
    assert tagger.predict(dev, constrained=False) == expected
    assert sum(label != "O" for labels in expected for label in labels) > 20, "it has learned something"
    assert torch.equal(library_scores(trained.folder / "checkpoint", dev[0].tokens), scores(trained, dev[0].tokens))


def test_the_index_opens_and_answers(trained: Trained) -> None:
    index = tt.open_index(trained.folder / "index", verify=True)
    corpus = trained.made.corpus
    index.check_corpus(corpus)
    assert (index.num_sentences, index.num_tokens) == (len(corpus.sentences), corpus.num_tokens)
    assert index.manifest.tagger.from_index == "../checkpoint"
    assert trained.callback.index is not None
    assert trained.callback.index.folder == index.folder
    shown = succeed("explain", index.folder, "--data", trained.made.dev, "--most", 1, "--top", 1)
    assert "supporters: " in shown.stdout
    assert tt.examine(trained.folder).is_sound


def test_the_first_supporter_of_what_a_planted_error_taught_is_one_of_its_copies(trained: Trained) -> None:
    index = tt.open_index(trained.folder / "index")
    own, explainer, num_asked = index.tagger(), tt.Explainer(index), 0
    for sentence, labels in zip(dev := tt.read_corpus(trained.made.dev).sentences, own.predict(dev), strict=True):
        for place, (token, label) in enumerate(zip(sentence.tokens, labels, strict=True)):
            if (token, label) == (WORD, "B-MISC"):
                query = tt.make_query(own, sentence, place, place + 1)
                first = explainer.explain(query, "relative", top=1).supporters[0]
                assert index.sentence(first.sentence_number).tokens[first.start] == WORD
                num_asked += 1
    assert num_asked >= 3


def test_dynamics_rank_planted_errors_high(trained: Trained) -> None:
    dynamics = tt.read_dynamics(trained.folder / "dynamics.safetensors")
    ranked = [(one.sentence_number, one.position) for one in dynamics.rank()]
    lengths = map(len, trained.made.corpus.sentences)
    assert sorted(ranked) == [(number, place) for number, length in enumerate(lengths) for place in range(length)]
    ranks = [ranked.index(place) for place in trained.made.single]
    assert len(ranks) > 5
    assert max(ranks) < 0.02 * len(ranked)
    first = dynamics.rank(max(ranks) + 1)[-1]
    assert (first.label, first.sentence.tokens[first.position]) == (SLIP, ".")
    assert first.mean < 0.1
    assert float(dynamics.mean.median()) > 0.8


def test_dynamics_are_the_probabilities_of_the_given_labels(trained: Trained) -> None:
    dynamics = tt.read_dynamics(trained.folder / "dynamics.safetensors")
    assert dynamics.epochs == tuple(range(1, EPOCHS + 1))
    expected = [
        scores(trained, sentence.tokens).softmax(1)[range(len(sentence)), dynamics.labels.encode(sentence.labels)]
        for sentence in trained.made.corpus.sentences
    ]
    torch.testing.assert_close(dynamics.probabilities[-1], torch.cat(expected), atol=1e-5, rtol=1e-4)
    means = dynamics.probabilities.double().mean(1)
    assert bool((means[1:] > means[:-1]).all()), "labels are learned, epoch by epoch"


def test_the_training_is_not_disturbed(made: Made, tmp_path: Path) -> None:
    models: list[Any] = []
    for callbacks in ((), (TagtraceCallback(made.corpus, tmp_path / "out", dynamics=True),)):
        trainer = new_trainer(made, *callbacks, tokenizer=made.tokenizer, num_train_epochs=2)
        trainer.train()
        models.append(trainer.model)
    for alone, watched in zip(*map(weights_of, models), strict=True):
        assert torch.equal(alone, watched)
    assert models[1].training == models[0].training


def test_without_dynamics_there_is_no_file(made: Made, tmp_path: Path) -> None:
    callback = TagtraceCallback(made.corpus, tmp_path / "out", tokenizer=made.tokenizer, pooling="last")
    new_trainer(made, callback, max_steps=1).train()
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["checkpoint", "index"]
    assert tt.open_index(tmp_path / "out" / "index").manifest.tagger.pooling == "last"


# Trainings that are interrupted, repeated, or run in several processes


class StopError(Exception):
    """Ends a training."""


class Stopping(TrainerCallback):
    """Ends a training after two epochs, once its checkpoint is saved."""

    def on_save(self, *given: Any, **_: Any) -> None:
        state = given[1]
        if state.epoch == 2:
            raise StopError


def test_a_resumed_training_goes_on_with_its_dynamics(made: Made, tmp_path: Path) -> None:
    def begin(name: str, *others: TrainerCallback) -> transformers.Trainer:
        callback = TagtraceCallback(made.corpus, tmp_path / name, dynamics=True)
        runs = {"output_dir": str(tmp_path / f"{name}-runs"), "num_train_epochs": 3, "save_strategy": "epoch"}
        return new_trainer(made, callback, *others, tokenizer=made.tokenizer, **runs)

    begin("whole").train()
    with pytest.raises(StopError):
        begin("resumed", Stopping()).train()
    assert tt.read_dynamics(tmp_path / "resumed" / "dynamics.safetensors").epochs == (1, 2)
    checkpoints = (tmp_path / "resumed-runs").iterdir()
    first = min(checkpoints, key=lambda path: int(path.name.rpartition("-")[2]))  # epoch 2 is repeated
    begin("resumed").train(resume_from_checkpoint=str(first))
    whole, resumed = (tt.read_dynamics(tmp_path / name / "dynamics.safetensors") for name in ("whole", "resumed"))
    assert resumed.epochs == whole.epochs == (1, 2, 3)
    torch.testing.assert_close(resumed.probabilities, whole.probabilities)


def test_a_second_training_is_refused_unless_it_may_overwrite(made: Made, tmp_path: Path) -> None:
    def train(**options: Any) -> None:
        callback = TagtraceCallback(made.corpus, tmp_path / "out", dynamics=True, **options)
        new_trainer(made, callback, tokenizer=made.tokenizer, max_steps=1).train()

    train()
    before = (tmp_path / "out" / "index" / MARKER).read_bytes()
    with pytest.raises(tt.TagtraceError, match="checkpoint: exists already"):
        train()
    assert (tmp_path / "out" / "index" / MARKER).read_bytes() == before
    train(overwrite=True)
    assert tt.examine(tmp_path / "out").is_sound


def test_dynamics_of_other_data_are_not_continued(trained: Trained, tmp_path: Path) -> None:
    sentences = trained.made.corpus.sentences[1:]
    callback = TagtraceCallback(trained.made.corpus.with_sentences(sentences), tmp_path, dynamics=True)
    path = trained.folder / "dynamics.safetensors"
    (tmp_path / path.name).write_bytes(path.read_bytes())
    given = {"model": trained.model, "processing_class": trained.made.tokenizer}
    state = TrainerState(epoch=2.0, global_step=40)
    with pytest.raises(tt.TagtraceError, match="training on other data or labels"):
        callback.on_train_begin(None, state, None, **given)


def test_only_the_first_process_writes(trained: Trained, tmp_path: Path) -> None:
    callback = TagtraceCallback(trained.made.corpus, tmp_path / "out", dynamics=True)
    state = TrainerState(epoch=1.0, is_world_process_zero=False)
    given = {"model": trained.model, "processing_class": trained.made.tokenizer}
    for event in (callback.on_train_begin, callback.on_epoch_end, callback.on_train_end):
        event(None, state, None, **given)
    assert not (tmp_path / "out").exists()
    assert callback.index is None


def test_a_run_in_two_processes(made: Made, tmp_path: Path) -> None:
    """Each says how many there are, and whether it has an index."""
    made.tokenizer.save_pretrained(tmp_path / "tokenizer")
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2")
    arguments = ("-m", "tests.integrations.one_process", made.folder / "train.conll", tmp_path)
    subprocess.run([sys.executable, *launcher, *map(str, arguments)], check=True, capture_output=True, cwd=ROOT)
    assert {path.name: path.read_text() for path in tmp_path.glob("rank-*")} == {
        "rank-0": "2 processes, index: True", "rank-1": "2 processes, index: False",
    }  # fmt: skip
    assert tt.examine(tmp_path / "out").is_sound
    assert len(tt.read_dynamics(tmp_path / "out" / "dynamics.safetensors").epochs) == 1


# What is refused before the training begins


class Unstarted(TrainerCallback):
    """Fails if a training begins."""

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        raise AssertionError("a step was taken")


def unknown_label(made: Made) -> dict[str, Any]:
    return {"model": new_bert(made.tokenizer, [name for name in NAMES if name != "B-MISC"])}


def unnamed(made: Made) -> dict[str, Any]:
    sizes = {**SIZES, "num_labels": len(NAMES)}
    return {"model": BertForTokenClassification(BertConfig(vocab_size=len(made.tokenizer), **sizes))}


def plain(made: Made) -> dict[str, Any]:
    return {"model": new_bert(made.tokenizer, [f"X{number}" for number in range(len(NAMES))])}


def other_model(made: Made) -> dict[str, Any]:
    return {"model": transformers.BertForMaskedLM(BertConfig(vocab_size=len(made.tokenizer), **SIZES))}


REFUSALS: dict[str, tuple[Callable[[Made], dict[str, Any]], str]] = {
    "no tokenizer": (lambda _: {"tokenizer": None}, "the Trainer has no tokenizer; give one as processing_class"),
    "a processor": (lambda _: {"tokenizer": transformers.ViTImageProcessor()}, "not a tokenizer; give one to"),
    "unknown label": (unknown_label, r"train\.conll, line \d+: unknown label 'B-MISC'"),
    "unnamed labels": (unnamed, r"the model in training: its labels have no names \(LABEL_0"),
    "other scheme": (plain, "labels are iob2, but the tagger was trained on plain"),
    "other model": (other_model, "a BertForMaskedLM, not a token classifier of transformers"),
}


@pytest.mark.parametrize(("given", "message"), REFUSALS.values(), ids=REFUSALS)
def test_what_cannot_work_is_refused_before_the_training(
    made: Made, tmp_path: Path, given: Callable[[Made], dict[str, Any]], message: str
) -> None:
    callback = TagtraceCallback(made.corpus, tmp_path / "out")
    trainer = new_trainer(made, callback, Unstarted(), **{"tokenizer": made.tokenizer, **given(made)})
    with pytest.raises(tt.TagtraceError, match=message) as error:
        trainer.train()
    assert "\n" not in str(error.value)
    assert "tagtrace-new" not in str(error.value)
    assert not any((tmp_path / "out").glob("*"))


@pytest.mark.parametrize("launched", [True, False])
def test_sharded_training_is_refused(
    trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, launched: bool
) -> None:
    callback = TagtraceCallback(trained.made.corpus, tmp_path / "out")
    given = {"model": trained.model, "processing_class": trained.made.tokenizer}
    arguments = transformers.TrainingArguments(str(tmp_path / "runs"), use_cpu=True, report_to=[])
    if launched:
        monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    else:
        arguments.deepspeed = {"zero_optimization": {"stage": 3}}
    with pytest.raises(tt.TagtraceError, match="FSDP or DeepSpeed"):
        callback.on_train_begin(arguments, TrainerState(), None, **given)


def test_the_training_data_are_never_in_a_folder_that_is_replaced(made: Made, tmp_path: Path) -> None:
    data = tmp_path / "out" / "index" / "train.conll"
    data.parent.mkdir(parents=True)
    data.write_bytes((made.folder / "train.conll").read_bytes())
    callback = TagtraceCallback(data, tmp_path / "out", overwrite=True)
    with pytest.raises(tt.TagtraceError, match=r"\(the training data\) is in this folder"):
        new_trainer(made, callback, Unstarted(), tokenizer=made.tokenizer).train()


# Imports


def test_nothing_heavy_is_imported_before_it_is_asked_for() -> None:
    code = (
        "import sys, tagtrace; assert not {'torch', 'transformers', 'pandas'} & set(sys.modules); "
        "tagtrace.read_dynamics; assert not {'transformers', 'accelerate', 'pandas'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_transformers_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    monkeypatch.delitem(sys.modules, "tagtrace.integrations.transformers")
    with pytest.raises(tt.TagtraceError, match=r'pip install "tagtrace\[transformers\]"'):
        importlib.import_module("tagtrace.integrations.transformers")
