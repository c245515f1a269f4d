"""The device that computations run on."""

from __future__ import annotations

import torch

from tagtrace._checks import OptionError


def pick_device(name: str | torch.device = "auto") -> torch.device:
    """The device a user names: ``auto`` (a GPU if there is one), ``cpu``, ``cuda``, ``cuda:1``, ..."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError, ImportError) as error:
        raise OptionError(f"device {str(name)!r} is not available here; try cpu") from error
    return device
