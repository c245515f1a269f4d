"""Checkpoints of a training run: JSON and safetensors, written aside and moved when whole."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from tagtrace._checks import TrainingError
from tagtrace._files import folder_moved_when_whole
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
        record = {
            "fingerprint": self.fingerprint,
            "step": state.step,
            "epoch_loss": state.epoch_loss,
            "history": state.history,
        }
        with folder_moved_when_whole(self.folder, overwrite=True) as folder:
            save_file(_contiguous(tagger.state_dict()), folder / "weights.safetensors")
            save_file(_contiguous(state.best), folder / "best.safetensors")
            save_file(_optimiser_tensors(optimiser), folder / "optimiser.safetensors")
            (folder / "state.json").write_text(json.dumps(record), encoding="utf-8")

    def load(self, tagger: Tagger, optimiser: torch.optim.Optimizer) -> CheckpointState:
        """Put weights and optimiser state in place."""
        state = json.loads((self.folder / "state.json").read_text(encoding="utf-8"))
        if state["fingerprint"] != self.fingerprint:
            changed = [k for k, v in self.fingerprint.items() if state["fingerprint"].get(k) != v]
            raise TrainingError(
                f"{self.folder}: the checkpoint belongs to another run (different {', '.join(changed)}); "
                "repeat that run's options to resume it, or pass --restart to begin again"
            )
        tagger.load_state_dict(load_file(self.folder / "weights.safetensors"))
        _load_optimiser(optimiser, load_file(self.folder / "optimiser.safetensors"))
        best = load_file(self.folder / "best.safetensors")
        return CheckpointState(state["step"], state["epoch_loss"], state["history"], best)

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


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
