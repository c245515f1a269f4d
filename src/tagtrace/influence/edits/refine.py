"""Refine: the effect of editing training labels, with the edited sentences kept exact and all others quadratic.

After an edit, J is the rest (the other sentences' losses and the L2 term) plus the losses E of the edited sentences
over N. With the rest taken to second order about the optimum theta,

    d = argmin  1/2 d^T (H - H_I/N) d - (grad L_I/N)^T d + E(theta + d)/N,

where H_I and L_I sum over the edited sentences before the edit. The optimum is in the span of H^-1 B^T
(``logit_space``).
With K = B H^-1 B^T / N = R R^T and a change of logits s = R v, N times the above is

    phi(v) = 1/2 |v|^2 - 1/2 s^T S s - g^T s + E(z + s),

S and g being the Hessian and gradient of L_I in the logits z; at the minimum of phi,
d = H^-1 B^T (S s + g - grad E(z + s)) / N. The Hessian of phi is the identity plus a matrix of low rank, so L-BFGS
takes a few steps. They only go downhill, so the estimate cannot diverge, whatever the leverage of a label. The query's
loss is evaluated exactly at theta + d.

**Passes.** One pass over the training data computes the true gradient of the rest at theta + d. With r the part of it
that the quadratic missed, the problem gains r^T d: the same phi with s = R v - B H^-1 r, and d gains -H^-1 r. If the
other sentences are more certain than the quadratic assumes, d went too far: the true slope along the move is then
positive at its end, and d is moved back to where a straight line between the slopes at both ends is zero. No move is
longer than half the one before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tagtrace._checks import OptionError
from tagtrace.influence.edits.edit import EditedSentences, Group
from tagtrace.influence.edits.effect import Effect, effect
from tagtrace.influence.edits.lbfgs import minimise
from tagtrace.influence.edits.logit_space import LogitSpace
from tagtrace.influence.query import Query
from tagtrace.tagger.head import Head
from tagtrace.tagger.objective import Objective
from tagtrace.tagger.rows import Rows

TOGETHER = 2**24
"""Maximum size of tensors in memory: groups are solved together if their logits times (P + their logits) fit."""
MAX_LOGITS = 8_000
"""Maximum number of logits of a group (tokens times labels, and transitions); beyond it, retraining is as fast."""
TOLERANCE = 1e-6
"""Maximum of |grad phi|."""
CONTRACTION = 0.5
"""Maximum length of a move, as a share of the one before it, in the metric of H."""
OVERSHOT = 0.5
"""A move went too far if the slope at its end is more than this share of minus the slope at its start."""


class Refiner:
    """Refines edits of ``rows``, at ``head``, the optimum of J (float64), with ``inverse`` = H^-1 (P, P).

    Each of ``num_passes`` over the training data, which need the ``objective``, replaces the quadratic of the other
    sentences by one with their true gradient at the last estimate.
    """

    head: Head
    rows: Rows
    inverse: Tensor
    objective: Objective | None
    num_passes: int
    theta: Tensor

    def __init__(
        self,
        head: Head,
        rows: Rows,
        inverse: Tensor,
        objective: Objective | None = None,
        num_passes: int = 0,
    ) -> None:
        if num_passes and objective is None:
            raise OptionError("passes over the training data need the objective")
        self.head, self.rows, self.inverse = head, rows, inverse
        self.objective, self.num_passes = objective, num_passes
        self.theta = head.flat()

    def effects(self, groups: Sequence[Group], query: Query) -> list[Effect]:
        """The effect of each group of edits on the query."""
        return [effect(query, self.head, self.head.at(self.theta + change)) for change in self.changes(groups)]

    def changes(self, groups: Sequence[Group]) -> Tensor:
        """d: the change of the optimum when each group's edits are made, (G, P)."""
        changes = torch.empty(len(groups), self.head.num_parameters, dtype=torch.float64, device=self.inverse.device)
        for chosen in self._together(groups):
            changes[chosen] = self._solve([groups[i] for i in chosen])
        return changes

    @torch.no_grad()
    def _solve(self, groups: Sequence[Group]) -> Tensor:
        """(G, P)"""
        problem = _Problem(self.head, EditedSentences(self.rows, *groups), self.inverse, len(self.rows.lengths))
        ahead = problem.solve()
        if self.num_passes == 0:
            return ahead.change
        here, slope = ahead.scaled(0.0), problem.edit_gradient(torch.zeros_like(ahead.change))  # grad F at d = 0 (G, P)
        longest = CONTRACTION * ahead.length()  # (G,)
        for _ in range(self.num_passes):
            assert self.objective is not None
            truth = self.objective.gradients(self.theta + ahead.change)  # grad J (G, P)
            gradient = truth + problem.edit_gradient(ahead.change)  # grad F (G, P)
            move = ahead.change - here.change
            down, up = -(slope * move).sum(1), (gradient * move).sum(1)  # (G,)
            is_past = up > OVERSHOT * down
            back = here.towards(ahead, down / (down + up).clamp(min=1e-300))
            on = problem.solve(ahead, truth - ahead.pull - problem.own_surprise(ahead.change))
            on = ahead.towards(on, (longest / on.distance(ahead).clamp(min=1e-300)).clamp(max=1.0))
            here, slope = ahead.chosen(is_past, here), torch.where(is_past.unsqueeze(1), slope, gradient)
            ahead, longest = on.chosen(is_past, back), torch.where(is_past, longest, CONTRACTION * longest)
        return ahead.change

    def can_refine(self, group: Group) -> bool:
        """Whether the group's sentences are short enough to refine."""
        return self._num_logits(group) <= MAX_LOGITS

    def _num_logits(self, group: Group) -> int:
        """M: tokens of the edited sentences times labels, and transitions."""
        num_tokens = sum(int(self.rows.lengths[number]) for number in {edit.sentence_number for edit in group})
        return num_tokens * self.head.num_labels + self.head.num_parameters - self.head.weight.numel()

    def _together(self, groups: Sequence[Group]) -> Iterator[list[int]]:
        """Groups of similar size, as many as fit in memory together."""
        sizes = [self._num_logits(group) for group in groups]
        P = self.head.num_parameters
        num_others = P - self.head.weight.numel()
        chosen: list[int] = []
        for index in sorted(range(len(groups)), key=sizes.__getitem__):
            size = sizes[index]
            if size > MAX_LOGITS:
                raise OptionError(
                    f"the sentences of a group of edits have {size:,} tokens times labels, too many to refine; "
                    "verify the group by retraining, or edit fewer sentences at once"
                )
            room = size * (size + P + num_others)
            if chosen and (len(chosen) + 1) * room > TOGETHER:
                yield chosen
                chosen = []
            chosen.append(index)
        if chosen:
            yield chosen


@dataclass(frozen=True)
class _Step:
    """The minimum of phi, v (G, M), with d and H d, (G, P)."""

    where: Tensor
    change: Tensor
    pull: Tensor

    def length(self) -> Tensor:
        """sqrt(d^T H d), (G,)."""
        return (self.change * self.pull).sum(1).clamp(min=0.0).sqrt()

    def distance(self, other: _Step) -> Tensor:
        """The length of the difference of two steps, (G,)."""
        return _Step(self.where, self.change - other.change, self.pull - other.pull).length()

    def scaled(self, share: float) -> _Step:
        return _Step(share * self.where, share * self.change, share * self.pull)

    def towards(self, other: _Step, share: Tensor) -> _Step:
        """The step at a share (G,) of the way to the other."""
        return _Step(*(torch.lerp(mine, its, share.unsqueeze(1)) for mine, its in self._pairs(other)))

    def chosen(self, which: Tensor, other: _Step) -> _Step:
        """This step, or the other where ``which`` (G,) is True."""
        return _Step(*(torch.where(which.unsqueeze(1), its, mine) for mine, its in self._pairs(other)))

    def _pairs(self, other: _Step) -> tuple[tuple[Tensor, Tensor], ...]:
        return (self.where, other.where), (self.change, other.change), (self.pull, other.pull)


class _Problem:
    """phi for several groups of edits."""

    def __init__(self, head: Head, edited: EditedSentences, inverse: Tensor, num_sentences: int) -> None:
        self.edited, self.inverse, self.num_sentences = edited, inverse, num_sentences
        self.space = LogitSpace(head, edited.features, edited.lengths, edited.sizes)
        self.root = _root(self.space.gram(inverse) / num_sentences)  # R (G, M, M)
        self.curvature = self.space.curvature()  # S (G, M, M)
        self.gradient = self.space.gradient(edited.errors_before(self.space.scores))  # g (G, M)

    def solve(self, last: _Step | None = None, residual: Tensor | None = None) -> _Step:
        """d at the minimum of phi. A ``residual`` r (G, P) of the others' gradient adds r^T d, and -H^-1 r to d."""
        where = torch.zeros_like(self.gradient) if last is None else last.where
        extra = offset = torch.zeros((), dtype=torch.float64, device=where.device)
        if residual is not None:
            extra = -(residual @ self.inverse)  # (G, P)
            offset = self.space.seen_from(extra)  # (G, M)
        where = minimise(lambda v: self._phi(v, offset), where, TOLERANCE)
        shift = _times(self.root, where) + offset
        after = self.space.gradient(self.edited.errors_after(self.space.moved(shift)))
        dual = (_times(self.curvature, shift) + self.gradient - after) / self.num_sentences  # (G, M)
        pull = self.space.gathered(dual)
        change = pull @ self.inverse + extra
        return _Step(where, change, pull if residual is None else pull - residual)

    def edit_gradient(self, change: Tensor) -> Tensor:
        """(grad E - grad L_I)(theta + d) / N, (G, P): the change of the gradient of J by the edits."""
        scores = self.space.moved(self.space.seen_from(change))
        after, before = self.edited.errors_after(scores), self.edited.errors_before(scores)
        return self.space.gathered(self.space.gradient(after) - self.space.gradient(before)) / self.num_sentences

    def own_surprise(self, change: Tensor) -> Tensor:
        """The part of the groups' losses that second order misses: (grad L(theta + d) - grad L - H d) / N, (G, P)."""
        shift = self.space.seen_from(change)  # B d (G, M)
        truth = self.space.gradient(self.edited.errors_before(self.space.moved(shift)))
        return self.space.gathered(truth - self.gradient - _times(self.curvature, shift)) / self.num_sentences

    def _phi(self, v: Tensor, offset: Tensor) -> tuple[Tensor, Tensor]:
        """phi(v) (G,) and its gradient (G, M)."""
        shift = _times(self.root, v) + offset
        bent = _times(self.curvature, shift)
        errors = self.edited.errors_after(self.space.moved(shift))
        losses = torch.zeros_like(v[:, 0]).index_add(0, self.space.owner, errors.losses)  # (G,)
        value = 0.5 * (v * v).sum(1) - 0.5 * (shift * bent).sum(1) - (self.gradient * shift).sum(1) + losses
        slope = self.space.gradient(errors) - self.gradient - bent
        return value, v + _times(self.root.mT, slope)


def _times(matrices: Tensor, vectors: Tensor) -> Tensor:
    """Each matrix (G, M, K) times its vector (G, K)."""
    return (matrices @ vectors.unsqueeze(2)).squeeze(2)


def _root(gram: Tensor) -> Tensor:
    """R (G, M, M) with R R^T = gram, up to rounding; gram is singular if two tokens have the same features."""
    jitter = 1e-13 * gram.diagonal(dim1=1, dim2=2).amax(1)  # (G,)
    eye = torch.eye(gram.shape[1], dtype=gram.dtype, device=gram.device)
    factor, failed = torch.linalg.cholesky_ex(gram + jitter.view(-1, 1, 1) * eye)
    for group in failed.nonzero().flatten().tolist():
        values, basis = torch.linalg.eigh(gram[group])
        factor[group] = basis * values.clamp(min=0.0).sqrt()
    return factor
