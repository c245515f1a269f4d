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

        ``about`` is everything that the answers depend on apart from the recipe and the training data.
        """
        owner = {
            **self.recipe.to_json(), "encoder": _encoder_digest(self.recipe),  # wherever its folder is
            "data": content_fingerprint(self.train), **about,
        }  # fmt: skip
        name, digest = f"{self.name}-{kind}.safetensors", _digest([owner, [one.name for one in variants]])
        path = self.setting.out / name
        if path.exists():
            kept = map_tensors(path)
            if "answers" not in kept or not torch.equal(kept.get("owner", digest[:0]), digest):
                raise DataError(f"{path}: holds the answers of other trainings; use another folder for the results")
            return kept["answers"]
        work = self.setting.work / self.name / kind, {**owner, "device": self.setting.device.type}
        found = retrain_all(
            self.recipe, variants, measure, device=self.setting.device, num_processes=self.setting.jobs, work=work,
            progress=_reporting(self.setting.report),
        )  # fmt: skip
        answers = torch.stack(found).float()
        write_tensors(self.setting.out, name, {"answers": answers, "owner": digest})
        return answers


def _encoder_digest(recipe: Recipe) -> str:
    """The sha256 of the untrained encoder's weights and of its settings, without its name."""
    kind, settings = recipe.settings
    about = json.dumps([kind, {key: value for key, value in settings.items() if key != "name"}], sort_keys=True)
    digest = hashlib.sha256(about.encode())
    for name, value in sorted(recipe.encoder(0).state_dict().items()):
        digest.update(name.encode())
        digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _digest(value: object) -> Tensor:
    """The sha256 of a value as JSON, (32,)."""
    return torch.tensor(list(hashlib.sha256(json.dumps(value, sort_keys=True).encode()).digest()), dtype=torch.uint8)


def _reporting(report: Callable[[str], None]) -> Callable[[RetrainingProgress], None]:
    """A line now and then."""

    def line(progress: RetrainingProgress) -> None:
        if progress.done % 8 == 0 or progress.done == progress.total:
            report(f"{progress.done} of {progress.total} trainings, about {progress.seconds_left:.0f} s left")

    return line
