"""Walks of several groups of edits to their optima, which share the passes over the training data.

``Iterated`` needs no matrix of the size of H: with F = J + (1/N) (E - L_I), the objective after a group's edits, it
takes quasi-Newton steps (L-BFGS with H^-1 as its first guess), whose gradients at all groups come from one pass.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor

from tagtrace.influence.edits.edit import EditedSentences
from tagtrace.influence.edits.lbfgs import pair, two_loops
from tagtrace.influence.edits.logit_space import LogitSpace
from tagtrace.tagger.head import Head

NUM_ITERATED = 6
"""Number of quasi-Newton steps, and of passes."""
OVERSHOT = 0.5
"""A move went too far if the slope at its end is more than this share of minus the slope at its start."""


class Walk(ABC):
    """The way of G groups from theta to the optima after their edits."""

    @property
    @abstractmethod
    def change(self) -> Tensor:
        """d so far, (G, P)."""

    @property
    def is_moving(self) -> Tensor:
        """The groups that have yet to arrive, (G,)."""
        return torch.ones(len(self.change), dtype=torch.bool, device=self.change.device)

    @abstractmethod
    def advance(self, truth: Tensor) -> None:
        """Let these go on, given their gradients of J at theta + d, (moving, P)."""


class EditedProblem:
    """The edited sentences of several groups, among ``num_sentences``."""

    edited: EditedSentences
    num_sentences: int
    space: LogitSpace

    def __init__(self, head: Head, edited: EditedSentences, num_sentences: int) -> None:
        self.edited, self.num_sentences = edited, num_sentences
        self.space = LogitSpace(head, edited.features, edited.lengths, edited.sizes)

    def edit_gradient(self, change: Tensor) -> Tensor:
        """(grad E - grad L_I)(theta + d) / N, (G, P): the change of the gradient of J by the edits."""
        scores = self.space.moved(self.space.seen_from(change))
        after, before = self.edited.errors_after(scores), self.edited.errors_before(scores)
        return self.space.gathered(self.space.gradient(after) - self.space.gradient(before)) / self.num_sentences


class Iterated(Walk):
    """Quasi-Newton steps with ``inverse``, rows v (G, P) -> about H^-1 v."""

    problem: EditedProblem
    inverse: Callable[[Tensor], Tensor]
    here: Tensor
    slope: Tensor
    ahead: Tensor
    memory: list[tuple[Tensor, Tensor, Tensor]]

    def __init__(self, problem: EditedProblem, inverse: Callable[[Tensor], Tensor]) -> None:
        self.problem, self.inverse = problem, inverse
        P = problem.space.head.num_parameters
        self.here = problem.space.features.new_zeros(len(problem.edited.sizes), P)
        self.slope = problem.edit_gradient(self.here)  # grad F, (G, P)
        self.ahead = self.here - inverse(self.slope)
        self.memory = []

    @property
    def change(self) -> Tensor:
        return self.ahead

    def advance(self, truth: Tensor) -> None:
        gradient, move = truth + self.problem.edit_gradient(self.ahead), self.ahead - self.here
        down, up = -(self.slope * move).sum(1), (gradient * move).sum(1)  # (G,)
        is_past = up > OVERSHOT * down
        share = torch.where(is_past, down / (down + up).clamp(min=1e-300), 0.0)
        step, bent, weight = pair(move, gradient - self.slope)
        self.memory.append((step, bent, torch.where(is_past, 0.0, weight)))
        self.here = torch.where(is_past.unsqueeze(1), self.here, self.ahead)
        self.slope = torch.where(is_past.unsqueeze(1), self.slope, gradient)
        on = self.here - two_loops(self.slope, self.memory, self.inverse)
        self.ahead = torch.where(is_past.unsqueeze(1), self.here + share.unsqueeze(1) * move, on)
