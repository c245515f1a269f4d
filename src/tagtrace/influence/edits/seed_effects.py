"""Retrain: the whole tagger trained again with edited labels and without, several times, by its own recipe.

Each seed trains twice, on the labels as they are and with the edits made: the runs begin alike, but small differences
grow while training goes on, so a few seeds are needed to tell an effect of the edits from noise. Where an edit removes
labels, nothing is learned from these tokens.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch
from torch import Tensor

from tagtrace._checks import OptionError, check_num_seeds
from tagtrace.data.labels import HIDDEN, LabelSet
from tagtrace.data.sentence import Sentence
from tagtrace.index import Index
from tagtrace.influence.edits.edit import Edit
from tagtrace.influence.edits.effect import Effect
from tagtrace.influence.options import check_at_least
from tagtrace.influence.query import Query
from tagtrace.tagger.recipe import EncoderMaker, Recipe
from tagtrace.tagger.retrainings import RetrainingProgress, Variant, retrain_all
from tagtrace.tagger.tagger import Tagger, pick_device

_QUANTILES = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
"""Of Student's t with 1, 2, ... degrees of freedom, 97.5 %."""


@dataclass(frozen=True)
class RetrainOptions:
    """How the whole tagger is trained again."""

    num_seeds: int = 3
    num_processes: int = 1
    """Trainings at the same time. With more than one, a script needs ``if __name__ == "__main__":``."""
    work: Path | None = None
    """Folder that keeps finished trainings, in a folder for each query, so that an interrupted call resumes."""
    tagger: Tagger | str | Path | None = None
    """The tagger, or its folder if it has been moved."""
    encoder: EncoderMaker | None = None
    """Makes the untrained encoder; None: as the tagger's was."""

    def __post_init__(self) -> None:
        check_num_seeds(self.num_seeds)
        check_at_least(1, num_processes=self.num_processes)


@dataclass(frozen=True)
class SeedEffects:
    """The effect of edits on a query for each seed."""

    effects: tuple[Effect, ...]

    @property
    def mean(self) -> Effect:
        """Losses and probabilities, means over the seeds."""
        numbers = [fmean(getattr(one, name) for one in self.effects) for name in ("before", "after")]
        tables = [
            torch.stack([getattr(one, f"probabilities_{when}") for one in self.effects]).mean(0)
            for when in ("before", "after")
        ]
        return Effect(numbers[0], numbers[1], tables[0], tables[1])

    @property
    def num_flips(self) -> int:
        """In how many seeds the likeliest label of a token of the segment changes."""
        return sum(one.flips for one in self.effects)

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 % interval of the mean change of the loss, from the seeds' paired changes; None for one seed."""
        changes = [one.change for one in self.effects]
        if len(changes) < 2:
            return None
        degrees = len(changes) - 1
        large = 1.96 + 2.37 / degrees + 2.82 / degrees**2  # within 0.001 of Student's t above 10
        quantile = _QUANTILES[degrees - 1] if degrees <= len(_QUANTILES) else large
        width = quantile * stdev(changes) / len(changes) ** 0.5
        return fmean(changes) - width, fmean(changes) + width


def seed_effects_to_json(found: SeedEffects) -> dict[str, Any]:
    """The change of the loss for each seed, and what they amount to."""
    return {
        "changes": [one.change for one in found.effects],
        "change": found.mean.change,
        "interval": found.interval,
        "num_seeds": len(found.effects),
        "num_flips": found.num_flips,
    }


@dataclass(frozen=True)
class _Asked:
    """The query as it is asked of a tagger that was trained again."""

    sentence: Sentence
    labels: tuple[int, ...]
    start: int
    stop: int

    def work(self, folder: Path, owner: dict[str, object]) -> tuple[Path, dict[str, object]]:
        """Where the runs for this query are kept, and what they depend on."""
        return folder / hashlib.sha256(json.dumps(owner["query"]).encode()).hexdigest()[:16], owner

    def __call__(self, tagger: Tagger) -> Tensor:
        """The loss, and the probabilities of the segment's tokens, in one row."""
        head = deepcopy(tagger.head).cpu().double()
        query = Query(tagger.features(self.sentence).double().cpu(), torch.tensor(self.labels), self.start, self.stop)
        with torch.no_grad():
            return torch.cat([query.loss(head).view(1), query.probabilities(head).flatten()])


def retrain_effects(
    index: Index,
    query: Query,
    groups: Sequence[Sequence[Edit]],
    options: RetrainOptions | None = None,
    *,
    device: str | torch.device = "cpu",
    progress: Callable[[RetrainingProgress], None] | None = None,
) -> list[SeedEffects]:
    """The effect on ``query`` of each group of edits, after the whole tagger is trained again by its recipe."""
    options = options or RetrainOptions()
    if query.sentence is None:
        raise OptionError("this query has no sentence to encode; make it with make_query")
    recipe = retrain_recipe(index, options)
    sentences = [index.sentence(number) for number in range(index.num_sentences)]
    names = [f"after-{_digest(edits)}" for edits in groups]
    sides = {"before": sentences}
    edited = [edited_sentences(index.labels, sentences, edits) for edits in groups]
    sides |= dict(zip(names, edited, strict=True))
    seeds = range(recipe.options.seed, recipe.options.seed + options.num_seeds)
    variants = [Variant(f"{name}-{seed}", side, seed) for seed in seeds for name, side in sides.items()]
    asked = _Asked(query.sentence, tuple(query.labels.tolist()), query.start, query.stop)
    found = retrain_all(
        recipe, variants, asked, device=device, num_processes=options.num_processes,
        work=None if options.work is None else asked.work(options.work, _owner(index, recipe, asked, device)),
        progress=progress,
    )  # fmt: skip
    rows = {variant.name: row for variant, row in zip(variants, found, strict=True)}
    size = query.stop - query.start
    return [
        SeedEffects(tuple(_effect(rows[f"before-{seed}"], rows[f"{name}-{seed}"], size) for seed in seeds))
        for name in names
    ]


def retrain_recipe(index: Index, options: RetrainOptions | None = None) -> Recipe:
    """The recipe that the index's tagger is trained again by."""
    options = options or RetrainOptions()
    tagger = options.tagger if isinstance(options.tagger, Tagger) else index.trained_tagger(options.tagger)
    return Recipe.of(tagger, options.encoder)


def edited_sentences(labels: LabelSet, sentences: Sequence[Sentence], edits: Sequence[Edit]) -> list[Sentence]:
    """The training sentences with the edits made; removed labels are HIDDEN."""
    found = list(sentences)
    for edit in edits:
        old = found[edit.sentence_number]
        removed = (HIDDEN,) * (edit.stop - edit.start)
        new = removed if edit.labels is None else labels.decode(edit.labels)
        found[edit.sentence_number] = old.with_labels((*old.labels[: edit.start], *new, *old.labels[edit.stop :]))
    return found


def _effect(before: Tensor, after: Tensor, num_tokens: int) -> Effect:
    tables = [row[1:].view(num_tokens, -1) for row in (before, after)]
    return Effect(float(before[0]), float(after[0]), tables[0], tables[1])


def usual_processes(device: str | torch.device) -> int:
    """Trainings at the same time that suit a machine: one for each core, and on a GPU four."""
    return 4 if pick_device(device).type == "cuda" else os.cpu_count() or 1


def _digest(edits: Sequence[Edit]) -> str:
    rows = sorted((edit.sentence_number, edit.start, edit.stop, edit.labels or ()) for edit in edits)
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:16]


def _owner(index: Index, recipe: Recipe, asked: _Asked, device: str | torch.device) -> dict[str, object]:
    """Everything that the runs depend on, apart from edits and seeds."""
    return {
        **recipe.to_json(),
        "data": index.manifest.data.content,
        "device": pick_device(device).type,
        "query": [list(asked.sentence.tokens), list(asked.labels), asked.start, asked.stop],
    }
