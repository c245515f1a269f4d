"""Training dynamics against trainings that were stopped after every epoch, and runs that are killed in the middle."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tagtrace._checks import OptionError
from tagtrace.data import Sentence
from tagtrace.findings import Probabilities, assign_folds, encoder_dynamics, encoder_folds
from tagtrace.findings.judges import dynamics
from tagtrace.tagger import Lexical, LexicalOptions, Step, Tagger, TrainOptions, new_tagger, train_tagger
from tests import oracles
from tests.findings.made import make_corpus, make_index, make_tagger

RECIPE = TrainOptions(epochs=3, batch_size=4, learning_rate=0.05, dropout=0.1, checkpoint_seconds=0.0)
"""Twelve sentences in each of three folds' trainings: three epochs of three steps."""
PARTS = ("marginals", "conditional_losses", "joint_losses")


def lexical_tagger() -> Tagger:
    """Its table is narrowed while it is trained."""
    torch.manual_seed(4)
    return new_tagger(Lexical(LexicalOptions(buckets=64, width=4, hidden=4)), make_tagger().labels)


TAGGERS = pytest.mark.parametrize("make", [make_tagger, lexical_tagger], ids=["spelt", "lexical"])


def equal(left: list[Probabilities], right: list[Probabilities]) -> bool:
    pairs = list(zip(left, right, strict=True))
    return all(torch.equal(getattr(one, part), getattr(other, part)) for one, other in pairs for part in PARTS)


def stopped_taggers(tagger: Tagger, train: list[Sentence]) -> list[Tagger]:
    """Trained for 1, 2 and 3 epochs, each from the start."""
    stopped = [deepcopy(tagger) for _ in range(RECIPE.epochs)]
    for epoch, one in enumerate(stopped, start=1):
        train_tagger(one, train, (), RECIPE, stop_after=epoch)
    return stopped


@torch.no_grad()
def mean_belief(taggers: list[Tagger], sentence: Sentence) -> tuple[Tensor, Tensor, Tensor]:
    """Means over the taggers, by enumeration: marginals (T, C), conditional losses (T,), joint loss."""
    labels, found = tuple(taggers[0].labels.encode(sentence.labels)), []
    for tagger in taggers:
        rows = tagger.rows([sentence])
        scores = deepcopy(tagger.head).double()(rows.features.double(), rows.lengths)
        joint = oracles.joint_loss(scores, 0, labels)
        others = [oracles.marginal_loss(scores, 0, labels, t, t + 1) for t in range(len(sentence))]
        found.append((oracles.node_marginals(scores, 0), joint - torch.stack(others), joint))
    nodes, conditional, joint = (torch.stack(parts).mean(0) for parts in zip(*found, strict=True))
    return nodes, conditional, joint


@TAGGERS
def test_opinions_are_means_over_epochs_and_over_the_folds_that_saw_the_sentence(
    tmp_path: Path, make: Callable[[], Tagger]
) -> None:
    corpus, tagger = make_corpus(), make()
    before = deepcopy(tagger.state_dict())
    inside, outside = encoder_dynamics(tagger, corpus, tmp_path / "folds", RECIPE, 3, seed=1)
    assert all(torch.equal(before[name], value) for name, value in tagger.state_dict().items())
    assert (inside.sample, outside.sample) == ("in-sample", "out-of-sample")
    sentences = list(corpus.sentences)
    folds = assign_folds([sentence.document for sentence in sentences], 3, seed=1).tolist()
    trains = [[one for one, number in zip(sentences, folds, strict=True) if number != fold] for fold in range(3)]
    taggers = [stopped_taggers(tagger, train) for train in trains]
    starts = [0, *inside.lengths.cumsum(0).tolist()]
    for number, sentence in list(enumerate(sentences))[::6]:
        seen = [one for fold in range(3) if fold != folds[number] for one in taggers[fold]]
        tokens = slice(starts[number], starts[number + 1])
        for opinion, judges in ((outside, taggers[folds[number]]), (inside, seen)):
            nodes, conditional, joint = mean_belief(judges, sentence)
            torch.testing.assert_close(opinion.marginals[tokens].double(), nodes, rtol=0, atol=1e-5)
            torch.testing.assert_close(opinion.conditional_losses[tokens], conditional, rtol=0, atol=1e-4)
            torch.testing.assert_close(opinion.joint_losses[number], joint, rtol=0, atol=1e-4)
    for opinion in (inside, outside):
        opinion.check_index(make_index(tmp_path / opinion.sample, corpus))
        torch.testing.assert_close(opinion.marginals.sum(1), torch.ones(len(opinion.labels)), rtol=0, atol=1e-5)


def test_out_of_sample_never_sees_the_label(tmp_path: Path) -> None:
    """Other labels of one document change every opinion but the one out of sample about that document."""
    corpus = make_corpus()
    name = corpus.sentences[0].document
    changed = corpus.with_sentences(
        [one.with_labels(["B-Y"] * len(one)) if one.document == name else one for one in corpus.sentences]
    )
    before = encoder_dynamics(make_tagger(), corpus, tmp_path / "before", RECIPE, 3)
    after = encoder_dynamics(make_tagger(), changed, tmp_path / "after", RECIPE, 3)
    own = torch.tensor([one.document == name for one in corpus.sentences])
    tokens = torch.repeat_interleave(own, before[0].lengths)
    assert torch.equal(before[1].marginals[tokens], after[1].marginals[tokens])
    assert not torch.isclose(before[0].marginals[tokens], after[0].marginals[tokens]).all(1).any()
    folds = assign_folds([one.document for one in corpus.sentences], 3)
    same_fold = torch.repeat_interleave(folds == folds[0], before[0].lengths)
    assert not torch.equal(before[1].marginals[~same_fold], after[1].marginals[~same_fold])


# Interruptions


class KilledError(Exception):
    """Stands for a process that ends in the middle."""


@TAGGERS
@pytest.mark.parametrize("seconds", [0.0, 60.0], ids=["every_step", "at_the_end"])
def test_a_run_killed_after_every_step_ends_with_the_same_opinions(
    tmp_path: Path, make: Callable[[], Tagger], seconds: float
) -> None:
    """With checkpoints after every step, and with one only at the end of a training: epochs are then repeated."""
    corpus, recipe = make_corpus(), replace(RECIPE, checkpoint_seconds=seconds)
    whole = encoder_dynamics(make(), corpus, tmp_path / "whole", recipe, 3)
    for fold in range(3):
        for step in (2, 3, 5, 9):

            def kill(number: int, now: Step, fold: int = fold, step: int = step) -> None:
                if (number, now.step) == (fold, step):
                    raise KilledError

            with pytest.raises(KilledError):
                encoder_dynamics(make(), corpus, tmp_path / "folds", recipe, 3, training=kill)
    found = encoder_dynamics(make(), corpus, tmp_path / "folds", recipe, 3)
    assert equal(found, whole)
    names = {path.name for path in (tmp_path / "folds").iterdir()}
    assert names == {"folds.json", "fold-0.safetensors", "fold-1.safetensors", "fold-2.safetensors"}


@pytest.mark.parametrize("call", [0, 2, 3])
def test_a_run_killed_while_it_keeps_an_epoch_ends_with_the_same_opinions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    """Before or after the sum is written, before the checkpoint is."""
    corpus, add, calls = make_corpus(), dynamics.RunFolder.add, list[int]()
    whole = encoder_dynamics(make_tagger(), corpus, tmp_path / "whole", RECIPE, 3)

    def interrupted(self: dynamics.RunFolder, *args: object, **notes: object) -> None:
        if self.marker != "folds.json":
            return add(self, *args, **notes)  # type: ignore[arg-type]
        calls.append(0)
        if len(calls) == call // 2 + 1 and call % 2 == 0:
            raise KilledError
        add(self, *args, **notes)  # type: ignore[arg-type]
        if len(calls) == call // 2 + 1:
            raise KilledError
        return None

    monkeypatch.setattr(dynamics.RunFolder, "add", interrupted)
    with pytest.raises(KilledError):
        encoder_dynamics(make_tagger(), corpus, tmp_path / "folds", RECIPE, 3)
    monkeypatch.setattr(dynamics.RunFolder, "add", add)
    assert equal(encoder_dynamics(make_tagger(), corpus, tmp_path / "folds", RECIPE, 3), whole)


def test_a_damaged_sum_is_computed_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    corpus, steps = make_corpus(), list[int]()
    whole = encoder_dynamics(make_tagger(), corpus, tmp_path / "whole", RECIPE, 3)

    def kill(_: int, now: Step) -> None:
        if now.step == 5:
            raise KilledError

    with pytest.raises(KilledError):
        encoder_dynamics(make_tagger(), corpus, tmp_path / "folds", RECIPE, 3, training=kill)
    (path,) = (tmp_path / "folds" / "epochs-0").iterdir()
    path.write_bytes(path.read_bytes()[:-1])
    found = encoder_dynamics(
        make_tagger(), corpus, tmp_path / "folds", RECIPE, 3, training=lambda _, now: steps.append(now.step)
    )
    assert steps[0] == 1
    assert "damaged; trained again" in caplog.text
    assert equal(found, whole)


def test_finished_folds_are_kept_and_belong_to_their_kind_of_opinion(tmp_path: Path) -> None:
    corpus, trained, counts = make_corpus(), list[int](), list[tuple[int, int]]()

    def ask() -> list[Probabilities]:
        return encoder_dynamics(
            make_tagger(), corpus, tmp_path / "folds", RECIPE, 3,
            training=lambda fold, _: trained.append(fold), progress=lambda *count: counts.append(count),
        )  # fmt: skip

    first = ask()
    assert set(trained) == {0, 1, 2}
    assert counts == [(6, 18), (12, 18), (18, 18)]
    trained.clear()
    assert equal(ask(), first)
    assert not trained
    with pytest.raises(OptionError, match=r"another run \(different opinions\)"):
        encoder_folds(make_tagger(), corpus, tmp_path / "folds", RECIPE, 3)
