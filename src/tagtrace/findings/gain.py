"""The gain: F1 on held-out data of a tagger retrained on the data before and after its labels were fixed.

``head_gain`` keeps the encoder: features are computed once and the head is solved exactly on either labels, so there is
nothing random in it. ``full_gain`` trains encoder and head anew by the tagger's recorded recipe, on either labels with
the same seeds. Both compare predictions by the paired bootstrap (see ``bootstrap``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from tagtrace._checks import DataError, OptionError, at
from tagtrace._files import file_moved_when_whole
from tagtrace.data.corpus import Corpus
from tagtrace.data.schemes import normalise, segments
from tagtrace.data.sentence import Sentence
from tagtrace.findings.bootstrap import Difference, Floats, paired_bootstraps
from tagtrace.findings.judges.recipes import recorded_recipe, untrained_encoder, untrained_tagger
from tagtrace.index.fingerprints import content_fingerprint
from tagtrace.tagger import (
    Encoder,
    Head,
    RefitOptions,
    Rows,
    Scorecard,
    Step,
    Tagger,
    TrainOptions,
    crf,
    refit_head,
    refit_tagger,
    remove_checkpoint,
    score_labels,
    train_tagger,
)
from tagtrace.tagger.refit import RefitProgress
from tagtrace.tagger.tagger import Progress

FORMAT = 1
MARKER = "gain.json"
MAX_TOKENS = 32_768
"""Tokens labelled at a time."""

Predicted = Sequence[Sequence[str]]
"""The labels of every sentence."""
Counted = tuple[Literal["type", "segments", "tokens"], str]
"""What is counted: segments of a type, all segments, or tokens."""
SEGMENTS: Counted = ("segments", "")
TOKENS: Counted = ("tokens", "")


@dataclass(frozen=True)
class Gain:
    """Scores on held-out data before and after, one scorecard a run, and their differences with intervals."""

    before: tuple[Scorecard, ...]
    after: tuple[Scorecard, ...]
    f1: Difference
    """Of segments of all types; the mean over runs."""
    by_type: dict[str, Difference]
    accuracy: Difference
    """Of tokens, O included."""
    unit: str
    """What is resampled: ``document``, or ``sentence`` where the data has no documents."""
    num_units: int

    def to_json(self) -> dict[str, Any]:
        return {
            "f1": self.f1.to_json(),
            "by_type": {name: one.to_json() for name, one in self.by_type.items()},
            "accuracy": self.accuracy.to_json(),
            "unit": self.unit,
            "num_units": self.num_units,
            "before": [card.to_json() for card in self.before],
            "after": [card.to_json() for card in self.after],
        }


def compare(
    sentences: Sequence[Sentence],
    before: Sequence[Predicted],
    after: Sequence[Predicted],
    scheme: str,
    samples: int = 1000,
    seed: int = 0,
) -> Gain:
    """Compare predictions for labelled sentences, of one run or several before and after."""
    units = _units(sentences)
    gold = [sentence.labels for sentence in sentences]
    counts = [[_counts(units, gold, labels, scheme) for labels in runs] for runs in (before, after)]
    names = sorted({name for runs in counts for run in runs for name in run})
    zeros = np.zeros((len(set(units)), 3))
    stacked = [{name: np.stack([run.get(name, zeros) for run in runs]) for name in names} for runs in counts]
    found = paired_bootstraps(stacked[0], stacked[1], samples, seed)
    cards = [tuple(score_labels(gold, labels, scheme) for labels in runs) for runs in (before, after)]
    unit = "sentence" if len(zeros) == len(sentences) else "document"
    by_type = {name: one for (kind, name), one in found.items() if kind == "type"}
    return Gain(cards[0], cards[1], found[SEGMENTS], by_type, found[TOKENS], unit, len(zeros))


def head_gain(
    tagger: Tagger,
    before: Corpus,
    after: Corpus,
    test: Corpus,
    options: RefitOptions | None = None,
    *,
    rows: Rows | None = None,
    samples: int = 1000,
    seed: int = 0,
    encoding: Progress | None = None,
    refitting: RefitProgress | None = None,
) -> Gain:
    """With the encoder as it is and the head solved exactly before and after; ``tagger`` stays as it is.

    ``rows`` are the features of ``before`` where they are known already, those of an index for example.
    """
    sentences = paired_sentences(tagger, before, after)
    held_out = _held_out(tagger, test)
    if rows is None:
        rows = tagger.rows(sentences[0], progress=encoding)
    test_rows = tagger.rows(held_out, progress=encoding)
    head, predicted = tagger.head, list[Predicted]()
    for side in sentences:
        labels = [label for sentence in tagger.joined(side) for label in tagger.labels.encode(sentence.labels)]
        side_rows = Rows(rows.features, torch.tensor(labels), rows.lengths)
        head = refit_head(head, side_rows.to(tagger.device), options, refitting).head
        predicted.append(_predict(tagger, head.cpu(), test_rows, held_out))
    return compare(held_out, predicted[:1], predicted[1:], tagger.labels.scheme, samples, seed)


@torch.no_grad()
def _predict(tagger: Tagger, head: Head, rows: Rows, sentences: Sequence[Sentence]) -> Predicted:
    """The best well-formed labels of sentences whose features are known."""
    found: list[int] = []
    for chunk in rows.chunks(MAX_TOKENS):
        scores = head(chunk.features.to(head.weight), chunk.lengths, constrained=True)
        found += [label for path in crf.viterbi(scores)[0] for label in path]
    labels = iter(tagger.labels.decode(found))
    each = [tuple(next(labels) for _ in sentence.tokens) for sentence in sentences]
    return [normalise(one, tagger.labels.scheme) for one in each]


def full_gain(
    tagger: Tagger,
    before: Corpus,
    after: Corpus,
    test: Corpus,
    dev: Corpus | None = None,
    *,
    num_seeds: int = 1,
    encoder: Callable[[int], Encoder] | None = None,
    work: Path | None = None,
    samples: int = 1000,
    seed: int = 0,
    training: Callable[[str, Step], None] | None = None,
) -> Gain:
    """With encoder and head trained anew by the recipe in ``tagger``'s record, for ``num_seeds`` seeds from its own on.

    ``encoder`` makes an untrained encoder from a seed (default: of the tagger's kind and options). Finished runs and
    checkpoints are kept in the folder ``work``, so that a run which is killed goes on when called again. ``training``
    is called with the name of a run (``before-0``) and a step.
    """
    if num_seeds < 1:
        raise OptionError(f"seeds {num_seeds}: must be at least 1")
    recipe = recorded_recipe(tagger)
    _check_dev(tagger, recipe, dev)
    sides = dict(zip(("before", "after"), paired_sentences(tagger, before, after), strict=True))
    held_out = _held_out(tagger, test)
    make = encoder or (lambda seed: untrained_encoder(tagger, seed))
    kept = None
    if work is not None:
        corpora = {**{name: before.with_sentences(side) for name, side in sides.items()}, "test": test, "dev": dev}
        kept = _KeptRuns(work, _owner(tagger, recipe, make(recipe.seed), corpora))
    predicted: dict[str, list[Predicted]] = {name: [] for name in sides}
    for number in range(recipe.seed, recipe.seed + num_seeds):
        for name, side in sides.items():
            run = f"{name}-{number}"
            found = kept.load(run) if kept else None
            if found is None:
                fresh = untrained_tagger(tagger, make(number), number)
                report = None if training is None else lambda step, run=run: training(run, step)
                train_tagger(
                    fresh, side, dev.sentences if dev else (), replace(recipe, seed=number),
                    checkpoint=kept.folder / run if kept else None, progress=report,
                )  # fmt: skip
                if "refit" in tagger.record:
                    refit_tagger(fresh, side, RefitOptions(**tagger.record["refit"]["options"]))
                found = fresh.predict(held_out)
                if kept:
                    kept.save(run, found)
            predicted[name].append(found)
    return compare(held_out, predicted["before"], predicted["after"], tagger.labels.scheme, samples, seed)


def paired_sentences(tagger: Tagger, before: Corpus, after: Corpus) -> tuple[list[Sentence], list[Sentence]]:
    """The sentences of ``before`` with their own labels and with those of ``after``.

    Raises unless the tokens are the same, some labels are not, and the tagger knows all of them.
    """
    if len(before.sentences) != len(after.sentences):
        raise DataError(
            f"{before.path} has {len(before.sentences)} sentences, {after.path} {len(after.sentences)}; "
            "give two copies of one file that differ in labels alone"
        )
    for old, new in zip(before.sentences, after.sentences, strict=True):
        if old.tokens != new.tokens:
            places = " and ".join(at(one.path or one.id, one.lines[0] if one.lines else None) for one in (old, new))
            raise DataError(f"{places}: the tokens differ; give two copies of one file that differ in labels alone")
    tagger.check_corpus(before)
    tagger.labels.check(after.sentences)
    if num_changed(before, after) == 0:
        raise DataError(f"{before.path} and {after.path} have the same labels; there is no gain to measure")
    pairs = [(old, new) for old, new in zip(before.sentences, after.sentences, strict=True) if len(old)]
    return [old for old, _ in pairs], [old.with_labels(new.labels) for old, new in pairs]


def num_changed(before: Corpus, after: Corpus) -> int:
    """How many tokens have other labels."""
    pairs = zip(before.sentences, after.sentences, strict=True)
    return sum(a != b for old, new in pairs for a, b in zip(old.labels, new.labels, strict=True))


def _held_out(tagger: Tagger, test: Corpus) -> list[Sentence]:
    tagger.check_corpus(test)
    return [sentence for sentence in test.sentences if len(sentence)]


def _check_dev(tagger: Tagger, recipe: TrainOptions, dev: Corpus | None) -> None:
    if dev is not None:
        tagger.check_corpus(dev)
    elif recipe.keep == "best" and tagger.record["training"]["history"]["dev_loss"]:
        raise OptionError("the tagger kept the epoch with the lowest loss on dev data; give that data with --dev")


def _units(sentences: Sequence[Sentence]) -> list[int]:
    """The unit of each sentence: its document, or itself where there are no documents, or one alone."""
    names = {sentence.document for sentence in sentences}
    numbers: dict[str | int, int] = {}
    keys = [sentence.document or number if len(names) > 1 else number for number, sentence in enumerate(sentences)]
    return [numbers.setdefault(key, len(numbers)) for key in keys]


def _counts(units: Sequence[int], gold: Predicted, predicted: Predicted, scheme: str) -> dict[Counted, Floats]:
    """(true positives, predicted, gold) of each unit, (U, 3), by type, of all types and of tokens."""
    size = (max(units, default=-1) + 1, 3)
    found: dict[Counted, Floats] = {SEGMENTS: np.zeros(size), TOKENS: np.zeros(size)}
    for unit, wanted, labels in zip(units, gold, predicted, strict=True):
        right, guessed = set(segments(wanted, scheme)), set(segments(labels, scheme))
        for column, some in enumerate((right & guessed, guessed, right)):
            for segment in some:
                found.setdefault(("type", segment.type), np.zeros(size))[unit, column] += 1
            found[SEGMENTS][unit, column] += len(some)
        hits = sum(a == b for a, b in zip(wanted, labels, strict=True))
        found[TOKENS][unit] += (hits, len(wanted), len(wanted))
    return found


def _owner(tagger: Tagger, recipe: TrainOptions, encoder: Encoder, corpora: dict[str, Corpus | None]) -> dict[str, Any]:
    """All that the runs depend on, beside their seeds."""
    owner = {
        "format": FORMAT,
        "recipe": {name: value for name, value in recipe.to_json().items() if name != "checkpoint_seconds"},
        "refit": tagger.record.get("refit", {}).get("options"),
        "labels": tagger.labels.to_json(),
        "head": tagger.head.options.to_json(),
        "unit": tagger.unit,
        "encoder": [encoder.kind, encoder.settings()],
        "device": tagger.device.type,
        **{name: corpus and content_fingerprint(corpus) for name, corpus in corpora.items()},
    }
    return json.loads(json.dumps(owner))


class _KeptRuns:
    """The predictions of finished runs in a folder, beside the checkpoints of the others; refuses another gain's."""

    def __init__(self, folder: Path, owner: dict[str, Any]) -> None:
        self.folder = folder
        path = folder / MARKER
        if path.exists():
            saved = _read_json(path)
            changed = [name for name, value in owner.items() if not isinstance(saved, dict) or saved.get(name) != value]
            if changed:
                raise OptionError(f"{folder}: runs of another gain (different {', '.join(changed)}); choose another")
            return
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise OptionError(f"{folder}: holds no {MARKER}, so it is not used for runs; choose another folder")
        folder.mkdir(parents=True, exist_ok=True)
        _write_json(path, owner)

    def load(self, run: str) -> Predicted | None:
        """The predictions of a finished run."""
        path = self.folder / f"{run}.json"
        return [tuple(labels) for labels in _read_json(path)] if path.exists() else None

    def save(self, run: str, predicted: Predicted) -> None:
        _write_json(self.folder / f"{run}.json", predicted)
        remove_checkpoint(self.folder / run)


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise OptionError(f"{path}: damaged; delete it to train again") from error


def _write_json(path: Path, value: object) -> None:
    with file_moved_when_whole(path) as stream:
        stream.write(json.dumps(value, ensure_ascii=False).encode())
