"""The option --device."""

from __future__ import annotations

import click
import torch

from tagtrace._checks import OptionError

device_option = click.option(
    "--device", default="auto", show_default=True, help="auto (a GPU if there is one), cpu, cuda, cuda:1, ..."
)


def pick_device(name: str) -> torch.device:
    """The device a user names."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError, ImportError) as error:
        raise OptionError(f"device {name!r} is not available here; try --device cpu") from error
    return device
