"""Calibration: probabilities stretched or moved as far as answers say that they are too timid, too bold or too high.

    log odds of q = a (log odds of p) + b

a and b maximise the likelihood of the answers given what was believed of each without its own answer, with Gaussian
priors around a = 1 and b = 0: few answers change little.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

SPREAD = torch.tensor([0.5, 0.5], dtype=torch.float64)
"""Standard deviations of the priors of a and b."""
LEAST, MOST = 0.25, 4.0
"""Limits of a."""
NUM_STEPS = 30


@dataclass(frozen=True)
class Calibration:
    """a and b."""

    slope: float = 1.0
    shift: float = 0.0

    def __call__(self, probabilities: Tensor) -> Tensor:
        return torch.sigmoid(self.slope * torch.logit(probabilities, eps=1e-9) + self.shift)


@torch.no_grad()
def calibrate(believed: Tensor, answers: Tensor) -> Calibration:
    """From probabilities (n,) and answers (n,), 1 for yes and 0 for no; Newton steps, halved where they overshoot."""
    columns = torch.stack([torch.logit(believed, eps=1e-9), torch.ones_like(believed)], 1)  # (n, 2)
    start = torch.tensor([1.0, 0.0], dtype=torch.float64)
    precision = SPREAD**-2

    def value(at: Tensor) -> float:
        latent = columns @ at
        fit = (torch.nn.functional.softplus(latent) - answers * latent).sum()
        return float(fit + 0.5 * (precision * (at - start).square()).sum())

    now = start
    for _ in range(NUM_STEPS):
        p = torch.sigmoid(columns @ now)
        gradient = columns.T @ (p - answers) + precision * (now - start)
        hessian = (columns * (p * (1.0 - p)).unsqueeze(1)).T @ columns + torch.diag(precision)
        step, size = torch.linalg.solve(hessian, gradient), 1.0
        while value(now - size * step) > value(now) and size > 1e-6:
            size *= 0.5
        now = now - size * step
        if float((size * step).abs().max()) < 1e-9:
            break
    return Calibration(min(max(float(now[0]), LEAST), MOST), float(now[1]))
