"""Checkpoints of a training run: JSON and safetensors.

state.json   where the run stands, and the folder that holds its tensors
step-N/      weights, the best weights so far, the optimiser's state

``state.json`` is replaced last and in one stroke, so a run killed at any moment leaves a whole checkpoint.
"""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from tagtrace._checks import TrainingError
from tagtrace._files import file_moved_when_whole
from tagtrace.tagger.tagger import Tagger


@dataclass(frozen=True)
class CheckpointState:
    """Where a run stands, beside the weights and the optimiser's state."""

    step: int
    epoch_loss: float
    history: dict[str, Any]
    best: dict[str, Tensor]


class Checkpoint:
    """A folder that holds the newest checkpoint of one run and refuses to serve another."""

    def __init__(self, folder: Path, fingerprint: dict[str, object]) -> None:
        self.folder, self.fingerprint = folder, json.loads(json.dumps(fingerprint))

    def exists(self) -> bool:
        return (self.folder / "state.json").is_file()

    def save(self, tagger: Tagger, optimiser: torch.optim.Optimizer, state: CheckpointState) -> None:
        tensors = self._tensors(state.step)
        record = {
            "fingerprint": self.fingerprint,
            "step": state.step,
            "epoch_loss": state.epoch_loss,
            "history": state.history,
        }
        shutil.rmtree(tensors, ignore_errors=True)  # of a run killed while it wrote them
        tensors.mkdir(parents=True)
        save_file(_contiguous(tagger.state_dict()), tensors / "weights.safetensors")
        save_file(_contiguous(state.best), tensors / "best.safetensors")
        save_file(_optimiser_tensors(optimiser), tensors / "optimiser.safetensors")
        with file_moved_when_whole(self.folder / "state.json") as stream:
            stream.write(json.dumps(record).encode())
        for older in self.folder.glob("step-*"):
            if older != tensors:
                shutil.rmtree(older, ignore_errors=True)

    def _tensors(self, step: int) -> Path:
        return self.folder / f"step-{step}"

    def load(self, tagger: Tagger, optimiser: torch.optim.Optimizer) -> CheckpointState:
        """Put weights and optimiser state in place."""
        try:
            state = json.loads((self.folder / "state.json").read_text(encoding="utf-8"))
            self._check_owner(state["fingerprint"])
            tensors = self._tensors(state["step"])
            tagger.load_state_dict(load_file(tensors / "weights.safetensors"))
            _load_optimiser(optimiser, load_file(tensors / "optimiser.safetensors"))
            best = load_file(tensors / "best.safetensors")
            return CheckpointState(state["step"], state["epoch_loss"], state["history"], best)
        except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
            reason = " ".join(str(error).split())
            raise TrainingError(
                f"{self.folder}: the checkpoint is damaged ({reason}); pass --restart to begin again"
            ) from error

    def _check_owner(self, fingerprint: dict[str, object]) -> None:
        if fingerprint != self.fingerprint:
            changed = [k for k, v in self.fingerprint.items() if fingerprint.get(k) != v]
            raise TrainingError(
                f"{self.folder}: the checkpoint belongs to another run (different {', '.join(changed)}); "
                "repeat that run's options to resume it, or pass --restart to begin again"
            )


def remove_checkpoint(folder: Path) -> None:
    """Delete what checkpoints wrote, and the folder if nothing else is in it."""
    for tensors in folder.glob("step-*"):
        shutil.rmtree(tensors, ignore_errors=True)
    for state in (*folder.glob("state.json"), *folder.glob(".state.json.*")):
        state.unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()


def _contiguous(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}


def _parameters(optimiser: torch.optim.Optimizer) -> list[Tensor]:
    return [parameter for group in optimiser.param_groups for parameter in group["params"]]


def _optimiser_tensors(optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimiser's state by parameter number: ``12.exp_avg`` and so on."""
    return {
        f"{number}.{name}": value.detach().cpu().contiguous()
        for number, parameter in enumerate(_parameters(optimiser))
        for name, value in optimiser.state[parameter].items()
    }


def _load_optimiser(optimiser: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    parameters = _parameters(optimiser)
    for key, value in tensors.items():
        number, name = key.split(".", 1)
        parameter = parameters[int(number)]
        optimiser.state[parameter][name] = value.to(parameter.device)
