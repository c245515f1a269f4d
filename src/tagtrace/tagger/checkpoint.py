"""Checkpoints of a training run: JSON and safetensors.

state.json   the step that the run has reached, and its files (``_run_folder``)
step-N/      weights, the best weights so far, the optimiser's state
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from tagtrace._checks import TrainingError
from tagtrace._folders import Product
from tagtrace._run_folder import RunFolder
from tagtrace.tagger.tagger import Tagger

MARKER = "state.json"
PRODUCT = Product(MARKER, (MARKER, *(f"step-*/{part}.safetensors" for part in ("weights", "best", "optimiser"))))


@dataclass
class History:
    """The losses of a run so far; part of a checkpoint and of the saved tagger."""

    train_loss: list[float] = field(default_factory=list)
    dev_loss: list[float] = field(default_factory=list)
    best_epoch: int | None = None
    """Counted from 1; None until there is a dev loss."""


@dataclass(frozen=True)
class CheckpointState:
    """The progress of a run, apart from its weights and the optimiser's state."""

    step: int
    epoch_loss: float
    history: History
    best: dict[str, Tensor]


class Checkpoint:
    """A folder with the newest checkpoint of one run; any other run is refused."""

    run: RunFolder

    def __init__(self, folder: Path, fingerprint: dict[str, object]) -> None:
        remedy = "repeat the options of the run that began it, or restart to begin again"
        self.run = RunFolder(
            folder,
            MARKER,
            fingerprint,
            "a checkpoint",
            product=PRODUCT,
            error=TrainingError,
            remedy=remedy,
            is_unasked=True,
        )

    def exists(self) -> bool:
        """Whether there is a checkpoint; raises if it, or anything else in the folder, is of another run."""
        self.run.resume_or_check()
        return "step" in self.run.notes

    def save(self, tagger: Tagger, optimiser: torch.optim.Optimizer, state: CheckpointState) -> None:
        older = list(self.run.files)
        tensors = {"weights": tagger.state_dict(), "best": state.best, "optimiser": _optimiser_tensors(optimiser)}
        notes = {"step": state.step, "epoch_loss": state.epoch_loss, "history": asdict(state.history)}
        self.run.add({_name(state.step, part): each for part, each in tensors.items()}, **notes)
        self.run.forget(name for name in older if name not in {_name(state.step, part) for part in tensors})
        self.run.save()

    def load(self, tagger: Tagger, optimiser: torch.optim.Optimizer) -> CheckpointState:
        """Restore the weights and the optimiser's state."""
        self.run.resume()
        try:
            step, epoch_loss = self.run.note("step", int), self.run.note("epoch_loss", float)
            history = self.run.note("history", History)
            weights, best, state = (self._read(step, part) for part in ("weights", "best", "optimiser"))
            tagger.load_state_dict(weights)
            _load_optimiser(optimiser, state)
            return CheckpointState(step, epoch_loss, history, best)
        except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
            reason = " ".join(str(error).split())
            raise TrainingError(
                f"{self.run.folder}: the checkpoint is damaged ({reason}); restart to begin again"
            ) from error

    def _read(self, step: int, part: str) -> dict[str, Tensor]:
        tensors = self.run.read(_name(step, part))
        if tensors is None:
            raise ValueError(f"{part} of step {step} cannot be read")
        return tensors


def _name(step: int, part: str) -> str:
    return f"step-{step}/{part}.safetensors"


def remove_checkpoint(folder: str | Path) -> None:
    """Delete all checkpoint files, and the folder if nothing else is in it."""
    Checkpoint(Path(folder), {}).run.remove()


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
