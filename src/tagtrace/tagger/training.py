"""Training: Adam on the mean joint loss, by default as in the paper's appendix.

Every step depends only on the weights, the optimiser's state and the step's number (its random numbers are drawn from
a seed made of the run's seed and that number), so a run that is killed and resumed from a checkpoint ends with the same
weights as an uninterrupted one.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn

from tagtrace._checks import OptionError, TrainingError, check_seed
from tagtrace.data.labels import HIDDEN
from tagtrace.data.sentence import Sentence
from tagtrace.tagger.checkpoint import Checkpoint, CheckpointState, History
from tagtrace.tagger.tagger import Example, Tagger, batch_losses

_CHOICES = {
    "schedule": ("constant", "linear"),
    "precision": ("auto", "float32", "bfloat16"),
    "keep": ("best", "last"),
}


MOST_EPOCHS = 100_000
"""More is a slip of the hand, and would never end."""


@dataclass(frozen=True)
class TrainOptions:
    """How to train. The defaults are the paper's: Adam, 2e-5, 15 epochs, dropout 0.3, clipping at 10."""

    epochs: int = 15
    batch_size: int = 16
    learning_rate: float | None = None
    """None: the encoder's default (2e-5 for a transformer)."""
    head_learning_rate: float | None = None
    """None: the same as the encoder's."""
    schedule: Literal["constant", "linear"] = "constant"
    """``linear`` falls to zero over the run, after a warm-up over its first tenth."""
    dropout: float = 0.3
    max_norm: float = 10.0
    """Gradients are clipped to this norm."""
    weight_decay: float = 0.0
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """auto: bfloat16 on a GPU, and for transformers on CPUs that multiply it; float32 elsewhere. The head is always
    float32 or better."""
    keep: Literal["best", "last"] = "best"
    """The epoch whose weights are kept: the one with the lowest dev loss, or the last (always, without dev data)."""
    seed: int = 0
    checkpoint_seconds: float = 60.0
    """Seconds between checkpoints (checked after each step)."""

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size"):
            if getattr(self, name) < 1:
                raise OptionError(f"{name} {getattr(self, name)}: must be at least 1")
        if self.epochs > MOST_EPOCHS:
            raise OptionError(f"epochs {self.epochs}: must be at most {MOST_EPOCHS:,}")
        for name in ("learning_rate", "head_learning_rate"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise OptionError(f"{name} {value}: must be above 0")
        if not 0 <= self.dropout < 1 or not self.max_norm > 0 or not self.weight_decay >= 0:
            raise OptionError("dropout must be in [0, 1), max_norm above 0, weight_decay at least 0")
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise OptionError(f"{name} {getattr(self, name)!r}: choose {' or '.join(choices)}")
        check_seed(self.seed)

    def to_json(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True)
class Step:
    """The progress of a run. ``dev_loss`` is given once per epoch."""

    epoch: int
    num_epochs: int
    step: int
    num_steps: int
    loss: float
    seconds_left: float
    dev_loss: float | None = None


@dataclass(frozen=True)
class Watch:
    """What to do after every epoch of a run, while the tagger is in training."""

    after_epoch: Callable[[int], None]
    """Called with the number of epochs so far, before a checkpoint of that epoch is written: a run that is killed in
    between and resumed calls it again, with the same weights."""
    sentences: Sequence[Sentence]
    """The sentences that the tagger is asked about then, besides those it is trained on."""


def train_tagger(
    tagger: Tagger,
    sentences: Sequence[Sentence],
    dev: Sequence[Sentence] = (),
    options: TrainOptions | None = None,
    *,
    checkpoint: Path | None = None,
    stop_after: int | None = None,
    watch: Watch | None = None,
    progress: Callable[[Step], None] | None = None,
) -> History:
    """Train ``tagger`` in place and keep the weights of the epoch that ``options.keep`` names.

    Nothing is learned from tokens with the label HIDDEN. ``stop_after`` ends the run after so many epochs, with the
    learning rates of the whole run. With ``checkpoint``, a folder, an interrupted run resumes when it is called again
    with the same arguments. The last checkpoint is kept in case saving the tagger fails: call ``remove_checkpoint``
    once the tagger is saved.
    """
    if not tagger.encoder.trainable:
        raise TrainingError(f"a {tagger.encoder.kind} encoder cannot be trained; refit the head instead")
    options = options or TrainOptions()
    tagger.head.float()  # a refitted head is float64
    examples, held_out = _examples(tagger, sentences, "training"), _examples(tagger, dev, "dev") if dev else []
    fork = torch.random.fork_rng()  # the caller's random state is not changed
    asked = [] if watch is None else [tagger.prepare(sentence) for sentence in tagger.joined(watch.sentences)]
    with fork, _narrowed(tagger, [*examples, *held_out, *asked], options):
        owner = _fingerprint(tagger, sentences, dev, options)
        if stop_after is not None:
            owner["stop_after"] = stop_after
        kept = None if checkpoint is None else Checkpoint(checkpoint, owner)
        run = _Run(tagger, examples, held_out, options, kept, watch)
        run.resume()
        tagger.train()
        run.num_epochs = options.epochs if stop_after is None else min(stop_after, options.epochs)
        while run.step < run.num_epochs * run.batches_per_epoch:
            run.advance(progress)
        return run.finish()


class _Run:
    """One training run: the tagger, the optimiser and the progress."""

    def __init__(
        self,
        tagger: Tagger,
        examples: Sequence[Example],
        dev: Sequence[Example],
        options: TrainOptions,
        checkpoint: Checkpoint | None,
        watch: Watch | None,
    ) -> None:
        self.tagger, self.options, self.watch = tagger, options, watch
        self.examples, self.dev, self.checkpoint = examples, dev, checkpoint
        self.batches_per_epoch = -(-len(self.examples) // options.batch_size)
        self.num_steps = options.epochs * self.batches_per_epoch
        """Of the whole run, which learning rates depend on."""
        self.num_epochs = options.epochs
        """After which it ends."""
        self.dropout = nn.Dropout(options.dropout)
        self.learning_rate = options.learning_rate or tagger.encoder.learning_rate
        self.optimiser = _optimiser(tagger, options, self.learning_rate)
        self.step = 0
        self.history = History()
        self.epoch_loss = 0.0
        self.best: dict[str, Tensor] = {}
        self.seconds = _Clock()

    def resume(self) -> None:
        """Continue from the checkpoint, if there is one."""
        if self.checkpoint is None or not self.checkpoint.exists():
            return
        state = self.checkpoint.load(self.tagger, self.optimiser)
        self.step, self.epoch_loss, self.best = state.step, state.epoch_loss, state.best
        self.history = state.history

    def advance(self, progress: Callable[[Step], None] | None) -> None:
        """One step, and at the end of an epoch the dev loss."""
        epoch, index = divmod(self.step, self.batches_per_epoch)
        loss = self._update(self._batch(epoch, index))
        self.step += 1
        self.epoch_loss += loss / self.batches_per_epoch
        dev_loss = self._end_epoch() if self.step % self.batches_per_epoch == 0 else None
        last_step = self.num_epochs * self.batches_per_epoch
        is_due = self.seconds.since_mark() >= self.options.checkpoint_seconds or self.step == last_step
        if is_due:
            self.tagger.check_finite(TrainingError, "lower the learning rate")
        if self.checkpoint is not None and is_due:
            state = CheckpointState(self.step, self.epoch_loss, self.history, self.best)
            self.checkpoint.save(self.tagger, self.optimiser, state)
            self.seconds.mark()
        if progress is not None:
            left = self.seconds.per_step(self.step) * (last_step - self.step)
            progress(Step(epoch + 1, self.num_epochs, self.step, last_step, loss, left, dev_loss))

    def _batch(self, epoch: int, index: int) -> list[Example]:
        """Batch ``index`` of an epoch: shuffled, with sentences of similar length together to save padding."""
        if getattr(self, "_shuffled_epoch", None) != epoch:
            self._shuffled_epoch, self._shuffled = epoch, self._shuffle(epoch)
        return [self.examples[i] for i in self._shuffled[index]]

    def _shuffle(self, epoch: int) -> list[list[int]]:
        generator = torch.Generator().manual_seed(_mix(self.options.seed, epoch))
        order = torch.randperm(len(self.examples), generator=generator).tolist()
        size = self.options.batch_size
        pool = 50 * size
        batches: list[list[int]] = []
        for start in range(0, len(order), pool):
            chunk = sorted(order[start : start + pool], key=lambda i: self.examples[i].length)
            batches += [chunk[k : k + size] for k in range(0, len(chunk), size)]
        return [batches[i] for i in torch.randperm(len(batches), generator=generator).tolist()]

    def _update(self, batch: Sequence[Example]) -> float:
        _seed(self.tagger.device, _mix(self.options.seed, self.step + 2**20))
        rate = _rate(self.options.schedule, self.step, self.num_steps)
        for group in self.optimiser.param_groups:
            group["lr"] = group["base"] * rate
        with _autocast(self.tagger, self.options.precision):
            features = self.tagger.encode(batch)
        features = self.dropout(features.float())
        lengths = torch.tensor([example.length for example in batch])
        loss = batch_losses(self.tagger.head(features, lengths).cpu(), batch).mean()
        self.optimiser.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.tagger.parameters(), self.options.max_norm)
        value = float(loss.detach())
        for what, number in (("loss", value), ("gradient", float(norm))):
            if not math.isfinite(number):
                raise TrainingError(f"the {what} became {number} at step {self.step}; lower the learning rate")
        self.optimiser.step()
        return value

    def _end_epoch(self) -> float | None:
        self.history.train_loss.append(self.epoch_loss)
        self.epoch_loss = 0.0
        if self.watch is not None:
            self.watch.after_epoch(len(self.history.train_loss))
        if not self.dev:
            return None
        with _autocast(self.tagger, self.options.precision):
            loss = self.tagger.mean_loss(self.dev)
        if not math.isfinite(loss):
            raise TrainingError(f"the dev loss became {loss} at step {self.step}; lower the learning rate")
        if loss < min(self.history.dev_loss, default=float("inf")):
            self.history.best_epoch = len(self.history.dev_loss) + 1
            if self.options.keep == "best":
                self.best = {k: v.detach().cpu().clone() for k, v in self.tagger.state_dict().items()}
        self.history.dev_loss.append(loss)
        return loss

    def finish(self) -> History:
        if self.best:
            self.tagger.load_state_dict(self.best)
        self.tagger.eval()
        self.tagger.folder = None  # what was saved before is another tagger
        self.tagger.record["training"] = {
            "options": self.options.to_json(),
            "learning_rate": self.learning_rate,
            "history": asdict(self.history),
        }
        return self.history


def _examples(tagger: Tagger, sentences: Sequence[Sentence], what: str) -> list[Example]:
    pairs = zip(tagger.joined(sentences), partly_labelled(tagger, sentences, what), strict=True)
    return [_with_hidden(tagger.prepare(labelled), given) for given, labelled in pairs]


def partly_labelled(tagger: Tagger, sentences: Sequence[Sentence], what: str) -> list[Sentence]:
    """As ``Tagger.labelled``, for sentences in which labels may be hidden: these become some label."""
    return tagger.labelled([_filled(sentence, tagger.labels.labels[0]) for sentence in sentences], what)


def _filled(sentence: Sentence, label: str) -> Sentence:
    """The sentence with some label where its own is hidden."""
    if HIDDEN not in sentence.labels:
        return sentence
    return sentence.with_labels([one if one != HIDDEN else label for one in sentence.labels])


def _with_hidden(example: Example, given: Sentence) -> Example:
    if HIDDEN not in given.labels:
        return example
    return replace(example, known=tuple(label != HIDDEN for label in given.labels))


def _narrowed(tagger: Tagger, examples: Sequence[Example], options: TrainOptions) -> AbstractContextManager[None]:
    """Leave weights that no example uses out of the training, unless weight decay shrinks them."""
    if options.weight_decay > 0:
        return nullcontext()
    return tagger.encoder.narrowed([example.prepared for example in examples])


def _fingerprint(
    tagger: Tagger, sentences: Sequence[Sentence], dev: Sequence[Sentence], options: TrainOptions
) -> dict[str, object]:
    """Everything that must be equal for a checkpoint to belong to a run."""
    sizes = {name: list(value.shape) for name, value in tagger.state_dict().items()}
    return {
        "options": {k: v for k, v in options.to_json().items() if k != "checkpoint_seconds"},
        "labels": list(tagger.labels.labels),
        "head": tagger.head.options.to_json(),
        "encoder": [tagger.encoder.kind, tagger.encoder.settings(), sizes],
        "device": tagger.device.type,
        "unit": tagger.unit,
        "data": [sentences_digest(sentences), sentences_digest(dev)],
    }


def sentences_digest(sentences: Sequence[Sentence]) -> str:
    """A checksum of tokens, labels and documents."""
    digest = hashlib.sha256()
    for sentence in sentences:
        digest.update(repr((sentence.document, sentence.tokens, sentence.labels)).encode())
    return digest.hexdigest()


def _optimiser(tagger: Tagger, options: TrainOptions, rate: float) -> torch.optim.AdamW:
    groups = [
        {"params": list(tagger.encoder.parameters()), "base": rate},
        {"params": list(tagger.head.parameters()), "base": options.head_learning_rate or rate},
    ]
    return torch.optim.AdamW(groups, lr=rate, weight_decay=options.weight_decay, fused=True)  # Adam at decay 0


def _rate(schedule: str, step: int, num_steps: int, warm_up: float = 0.1) -> float:
    """The share of the learning rate used at a step."""
    if schedule == "constant":
        return 1.0
    done = (step + 1) / num_steps
    return min(done / warm_up, max(1.0 - done, 0.0) / (1.0 - warm_up))


def _autocast(tagger: Tagger, precision: str) -> torch.autocast:
    is_fast = tagger.device.type == "cuda" or (tagger.encoder.kind == "transformer" and multiplies_bfloat16())
    enabled = precision == "bfloat16" or (precision == "auto" and is_fast)
    return torch.autocast(tagger.device.type, dtype=torch.bfloat16, enabled=enabled)


@cache
def multiplies_bfloat16() -> bool:
    """Whether this CPU has instructions for products of bfloat16, which are then several times as fast as float32."""
    capabilities = getattr(torch.cpu, "get_capabilities", dict[str, bool])()  # newer than the oldest torch we support
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))


def _seed(device: torch.device, seed: int) -> None:
    """As torch.manual_seed, which keeps a note of every call for devices that are not in use."""
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.manual_seed_all(seed)


def _mix(seed: int, number: int) -> int:
    """One seed made of two numbers."""
    return (seed * 1_000_003 + number) % 2**63


class _Clock:
    """Seconds since the last mark, and seconds per step since the clock was created."""

    def __init__(self) -> None:
        self.start = self.last = time.monotonic()
        self.first_step: int | None = None

    def since_mark(self) -> float:
        return time.monotonic() - self.last

    def mark(self) -> None:
        self.last = time.monotonic()

    def per_step(self, step: int) -> float:
        if self.first_step is None:
            self.first_step = step - 1
        return (time.monotonic() - self.start) / (step - self.first_step)
