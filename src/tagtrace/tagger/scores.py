"""The scores of a linear-chain CRF.

Conventions
-----------
- B sentences, T positions, C labels. Sentences are ragged: ``lengths`` (B,), at least 1, kept on the CPU;
  positions after a sentence's length are never read.
- ``transitions`` (C, C) are shared by all sentences, or given for each, (B, C, C).
- The score of a label sequence is
  ``start[y_0] + sum_t emissions[t, y_t] + sum_t transitions[y_{t-1}, y_t] + end[y_{T-1}]``;
  ``transitions`` is indexed [from, to]. A score of minus infinity forbids a label or transition.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Scores:
    """Emissions (B, T, C), transitions (C, C) or (B, C, C), start (C,), end (C,), lengths (B,)."""

    emissions: Tensor
    transitions: Tensor
    start: Tensor
    end: Tensor
    lengths: Tensor

    @classmethod
    def of(
        cls,
        emissions: Tensor,
        transitions: Tensor,
        lengths: Tensor | None = None,
        start: Tensor | None = None,
        end: Tensor | None = None,
    ) -> Scores:
        """Scores with zeros for start and end, and full lengths, unless given."""
        num_sentences, num_steps, num_labels = emissions.shape
        zeros = emissions.new_zeros(num_labels)
        if lengths is None:
            lengths = torch.full((num_sentences,), num_steps)
        return cls(
            emissions,
            transitions,
            zeros if start is None else start,
            zeros if end is None else end,
            lengths.cpu(),
        )

    def __post_init__(self) -> None:
        B, T, C = self.emissions.shape
        if self.transitions.shape not in ((C, C), (B, C, C)) or self.start.shape != (C,) or self.end.shape != (C,):
            raise ValueError(
                f"emissions have {C} labels, but transitions are {tuple(self.transitions.shape)}, "
                f"start {tuple(self.start.shape)} and end {tuple(self.end.shape)}"
            )
        if self.lengths.shape != (B,) or (B > 0 and not int(self.lengths.min()) >= 1):
            raise ValueError(f"lengths must be ({B},) and at least 1, got {self.lengths.tolist()}")
        if B > 0 and int(self.lengths.max()) > T:
            raise ValueError(f"a length of {int(self.lengths.max())} exceeds the {T} positions given")

    def select(self, rows: Tensor) -> Scores:
        """The sentences ``rows`` (S,), which may repeat."""
        on_device = rows.to(self.emissions.device)
        transitions = self.transitions if self.transitions.dim() == 2 else self.transitions[on_device]
        return Scores(self.emissions[on_device], transitions, self.start, self.end, self.lengths[rows.cpu()])

    def cpu(self) -> Scores:
        """The same on the CPU, where the recursions, which are many small steps, take less time than on a GPU."""
        emissions, transitions, start, end = self.emissions, self.transitions, self.start, self.end
        return Scores(emissions.cpu(), transitions.cpu(), start.cpu(), end.cpu(), self.lengths)


def length_mask(lengths: Tensor, num_steps: int, device: torch.device | None = None) -> Tensor:
    """True at the positions within each sentence, (B, T)."""
    mask = torch.arange(num_steps) < lengths.cpu().unsqueeze(1)
    return mask if device is None else mask.to(device)
