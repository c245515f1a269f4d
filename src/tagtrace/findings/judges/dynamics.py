"""Training dynamics: what a tagger believes while it is trained, averaged over its epochs.

A tagger learns early what many labels have in common, and memorises single wrong labels late. After the last of E
epochs it repeats a wrong label that it doubted before; the mean over epochs remembers the doubt:

    p(y_t = c | x) = 1/E sum_e p_e(y_t = c | x),  where p_e is the tagger's belief after epoch e

The conditional and joint losses are means over epochs too: of the losses, not losses of mean probabilities.

One cross-validation gives two opinions. Out of sample, a sentence is judged by the tagger of its own fold, which is
trained without it; in sample, by the mean of the taggers of all other folds, which are trained on it.

fold-0.safetensors           the mean over epochs for every sentence (layout as in ``folds``)
epochs-0/E.safetensors       the sum over the first E epochs, while fold 0 is being trained
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from copy import deepcopy
from pathlib import Path

import torch
from torch import Tensor

from tagtrace._progress import Progress
from tagtrace._run_folder import RunFolder
from tagtrace.data.corpus import Corpus
from tagtrace.data.sentence import Sentence
from tagtrace.findings.judges.folds import FoldedSentences, folds_owner, kept_folds, load_fold, save_fold
from tagtrace.findings.judges.probabilities import Probabilities, fill_by
from tagtrace.tagger import Step, Tagger, TrainOptions, Watch, remove_checkpoint, train_tagger
from tagtrace.tagger.rows import token_places

_log = logging.getLogger(__name__)


def encoder_dynamics(
    tagger: Tagger,
    corpus: Corpus,
    folder: str | Path,
    options: TrainOptions | None = None,
    num_folds: int = 5,
    seed: int = 0,
    *,
    training: Callable[[int, Step], None] | None = None,
    progress: Progress | None = None,
) -> list[Probabilities]:
    """Opinions in sample and out of sample: means over the epochs of copies of ``tagger``, one trained for each fold.

    As ``encoder_folds``: ``tagger`` is untrained, and an interrupted run resumes from ``folder``.
    """
    options = options or TrainOptions()
    data = FoldedSentences.of(tagger, corpus, num_folds, seed)
    kept = kept_folds(folder, folds_owner(tagger, corpus, (), options, num_folds, seed, "mean over epochs"))
    inside, outside = data.empty("in-sample"), data.empty("out-of-sample")
    for each in (*_tensors(inside).values(), *_tensors(outside).values()):
        each.zero_()
    everything = torch.arange(len(data.sentences))
    done = 0
    for fold in range(num_folds):
        mean = data.empty("out-of-sample")
        if not load_fold(kept, fold, mean, everything):
            report = None if training is None else lambda step, fold=fold: training(fold, step)
            _train_fold(deepcopy(tagger), data, fold, kept, mean, options, report)
            save_fold(kept, fold, mean, everything)
        _forget_unfinished(kept, fold)
        held_out = data.folds == fold  # (B,)
        _add(mean, outside, held_out.nonzero().squeeze(1), 1.0)
        _add(mean, inside, (~held_out).nonzero().squeeze(1), 1 / (num_folds - 1))
        done += int(held_out.sum())
        if progress is not None:
            progress(done, len(data.sentences))
    return [inside, outside]


def _train_fold(
    tagger: Tagger,
    data: FoldedSentences,
    fold: int,
    kept: RunFolder,
    mean: Probabilities,
    options: TrainOptions,
    report: Callable[[Step], None] | None,
) -> None:
    """Train the fold's tagger on the other folds, and fill in ``mean`` for all sentences."""
    sums = EpochSums(kept, fold, tagger, data.sentences, mean)
    watch, checkpoint = Watch(sums.after_epoch, data.sentences), _checkpoint(kept, fold)
    train_tagger(tagger, data.others(fold), (), options, checkpoint=checkpoint, watch=watch, progress=report)
    sums.divide()


class EpochSums:
    """The sum over epochs of what ``tagger``, in training, believes about all sentences; kept after every epoch.

    It is kept before the checkpoint of the same epoch, so that a checkpoint never knows more epochs than the sum. An
    epoch that a resumed run repeats is not added again.
    """

    kept: RunFolder
    fold: int
    tagger: Tagger
    sentences: Sequence[Sentence]
    sums: dict[str, Tensor]
    now: Probabilities
    num_epochs: int

    def __init__(
        self, kept: RunFolder, fold: int, tagger: Tagger, sentences: Sequence[Sentence], total: Probabilities
    ) -> None:
        self.kept, self.fold, self.tagger, self.sentences = kept, fold, tagger, sentences
        self.sums = _tensors(total)
        for each in self.sums.values():
            each.zero_()
        self.now = deepcopy(total)
        self.num_epochs = self._resumed()

    def _resumed(self) -> int:
        """The number of epochs that are kept; if their sum is damaged, none, and the training begins again."""
        num_epochs = self.kept.note(_note(self.fold), int) if _note(self.fold) in self.kept.notes else 0
        if num_epochs == 0:
            return 0
        saved = self.kept.read(_name(self.fold, num_epochs))
        if saved is None:
            _log.warning("%s: damaged; trained again", self.kept.folder / _name(self.fold, num_epochs))
            remove_checkpoint(_checkpoint(self.kept, self.fold))
            return 0
        for name, each in self.sums.items():
            each.copy_(saved[name])
        return num_epochs

    def after_epoch(self, epoch: int) -> None:
        if epoch <= self.num_epochs:
            return
        fill_by(self.tagger, self.now, torch.arange(len(self.sentences)), self.sentences)
        for name, each in _tensors(self.now).items():
            self.sums[name].add_(each)
        older = _name(self.fold, self.num_epochs)
        self.num_epochs = epoch
        self.kept.add({_name(self.fold, epoch): self.sums}, **{_note(self.fold): epoch})
        self.kept.forget([older])
        self.kept.save()

    def divide(self) -> None:
        """Make means of the sums."""
        for each in self.sums.values():
            each.div_(self.num_epochs)


def _tensors(of: Probabilities) -> dict[str, Tensor]:
    return {"marginals": of.marginals, "conditional": of.conditional_losses, "joint": of.joint_losses}


def _add(source: Probabilities, target: Probabilities, sentences: Tensor, weight: float) -> None:
    """Add the values of ``sentences`` (b,) times ``weight``."""
    tokens = token_places(target.lengths, sentences)
    target.marginals[tokens] += weight * source.marginals[tokens]
    target.conditional_losses[tokens] += weight * source.conditional_losses[tokens]
    target.joint_losses[sentences] += weight * source.joint_losses[sentences]


def _checkpoint(kept: RunFolder, fold: int) -> Path:
    return kept.folder / f"training-{fold}"


def _note(fold: int) -> str:
    return f"epochs of fold {fold}"


def _name(fold: int, num_epochs: int) -> str:
    return f"epochs-{fold}/{num_epochs}.safetensors"


def _forget_unfinished(kept: RunFolder, fold: int) -> None:
    """Delete what only an unfinished training of the fold needs."""
    if _note(fold) in kept.notes:
        kept.forget([_name(fold, kept.note(_note(fold), int))])
        del kept.notes[_note(fold)]
    kept.save()
    remove_checkpoint(_checkpoint(kept, fold))
