"""The answers of many trainings: each is kept in the work folder, and all of them in one file beside the results.

The file, OUT/NAME.safetensors, is enough to compare other predictions with the same trainings later, and elsewhere.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tagtrace._checks import DataError
from tagtrace._tensor_files import map_tensors, write_tensors
from tagtrace.data import Corpus
from tagtrace.index.fingerprints import content_fingerprint
from tagtrace.reproduce.shared.experiment import encoder_name
from tagtrace.reproduce.shared.setting import Setting
from tagtrace.tagger.recipe import Recipe
from tagtrace.tagger.retrainings import Measure, RetrainingProgress, Variant, retrain_all


@dataclass(frozen=True)
class Trainings:
    """Trains a tagger like that of an experiment again and again, and keeps every answer."""

    setting: Setting
    name: str
    """The experiment and its seed."""
    recipe: Recipe
    train: Corpus

    def answers(self, kind: str, variants: Sequence[Variant], measure: Measure, about: Mapping[str, object]) -> Tensor:
        """What ``measure`` finds after each training, (variants, ...) float32.

        ``about`` is everything that the answers depend on apart from the recipe, the training data and the device.
        """
        owner = {
            **self.recipe.to_json(), "encoder": encoder_name(self.setting),  # without the folder it is in
            "data": content_fingerprint(self.train), "device": self.setting.device.type, **about,
        }  # fmt: skip
        name, digest = f"{self.name}-{kind}.safetensors", _digest([owner, [one.name for one in variants]])
        path = self.setting.out / name
        if path.exists():
            kept = map_tensors(path)
            if "answers" not in kept or not torch.equal(kept.get("owner", digest[:0]), digest):
                raise DataError(f"{path}: holds the answers of other trainings; use another folder for the results")
            return kept["answers"]
        found = retrain_all(
            self.recipe, variants, measure, device=self.setting.device, num_processes=self.setting.jobs,
            work=(self.setting.work / self.name / kind, owner), progress=_reporting(self.setting.report),
        )  # fmt: skip
        answers = torch.stack(found).float()
        write_tensors(self.setting.out, name, {"answers": answers, "owner": digest})
        return answers


def _digest(value: object) -> Tensor:
    """The sha256 of a value as JSON, (32,)."""
    return torch.tensor(list(hashlib.sha256(json.dumps(value, sort_keys=True).encode()).digest()), dtype=torch.uint8)


def _reporting(report: Callable[[str], None]) -> Callable[[RetrainingProgress], None]:
    """A line now and then."""

    def line(progress: RetrainingProgress) -> None:
        if progress.done % 8 == 0 or progress.done == progress.total:
            report(f"{progress.done} of {progress.total} trainings, about {progress.seconds_left:.0f} s left")

    return line
