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
that the quadratic missed, the problem gains r^T d: the same phi with s = R v - B H^-1 r, and d gains -H^-1 r. Where the
other sentences are more certain than the quadratic assumes, these moves would grow, so no move is longer than half the
one before. All groups share each pass (``nearby``).

If H is too large to be inverted, nothing is taken to second order (``iterated``): every group takes a few quasi-Newton
steps of retraining, and all groups share their passes and solves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from tagtrace._checks import OptionError
from tagtrace.influence.curvature.solvers import Cholesky, Solver
from tagtrace.influence.edits.edit import EditedSentences, Group
from tagtrace.influence.edits.effect import Effect, effects_of
from tagtrace.influence.edits.iterated import NUM_ITERATED, EditedProblem, Iterated, Walk
from tagtrace.influence.edits.lbfgs import minimise
from tagtrace.influence.query import Query
from tagtrace.tagger.convex.nearby import nearby_gradients
from tagtrace.tagger.convex.objective import Evaluation, Objective
from tagtrace.tagger.head import Head
from tagtrace.tagger.rows import RowParts, Rows

TOGETHER, DEVICE_TOGETHER = 2**24, 2**28
"""Maximum size of tensors in memory: groups are solved together if their logits times (P + their logits) fit. On a GPU,
small problems take as long as large ones."""
MAX_LOGITS = 8_000
"""Maximum number of logits of a group (tokens times labels, and transitions); beyond it, retraining is as fast."""
KEPT = 2**27
"""Maximum number of values that groups keep between passes, which all of them share."""
TOLERANCE = 1e-6
"""Maximum of |grad phi|."""
CONTRACTION = 0.5
"""Maximum length of a move, as a share of the one before it, in the metric of H."""
SETTLED = 0.05
"""A group has arrived when a move is shorter than this share of the way so far: the next one would be shorter still."""


class Refiner:
    """Refines edits of ``rows``, at ``head``, the optimum of J (float64), with the H^-1 of ``solver``.

    Each of ``num_passes`` over the training data, which need the ``objective``, replaces the quadratic of the other
    sentences by one with their true gradient at the last estimate.
    """

    head: Head
    rows: Rows | RowParts
    solver: Solver
    objective: Objective | None
    num_passes: int
    theta: Tensor

    def __init__(
        self,
        head: Head,
        rows: Rows | RowParts,
        solver: Solver,
        objective: Objective | None = None,
        num_passes: int = 0,
    ) -> None:
        if objective is None and (num_passes or not isinstance(solver, Cholesky)):
            raise OptionError("passes over the training data need the objective")
        self.head, self.rows, self.solver = head, rows, solver
        self.objective, self.num_passes = objective, num_passes
        self.theta = head.flat()

    def effects(self, groups: Sequence[Group], query: Query) -> list[Effect]:
        """The effect of each group of edits on the query."""
        return effects_of(query, self.head, (self.head.at(self.theta + change) for change in self.changes(groups)))

    @torch.no_grad()
    def changes(self, groups: Sequence[Group]) -> Tensor:
        """d: the change of the optimum when each group's edits are made, (G, P)."""
        for group in groups:
            self._check(group)
        changes = torch.empty(len(groups), self.head.num_parameters, dtype=torch.float64, device=self.theta.device)
        for batch in self._batches(groups):
            walks = self._walks([[groups[i] for i in chosen] for chosen in batch])
            for _ in range(self.num_passes if isinstance(self.solver, Cholesky) else NUM_ITERATED):
                moves = [walk.change[walk.is_moving] for walk in walks]
                if not any(len(some) for some in moves):
                    break
                assert self.objective is not None
                truth = nearby_gradients(self.objective, self._here, torch.cat(moves))  # grad J (moving, P)
                for walk, part in zip(walks, truth.split([len(some) for some in moves]), strict=True):
                    walk.advance(part)
            changes[[number for chosen in batch for number in chosen]] = torch.cat([walk.change for walk in walks])
        return changes

    def _walks(self, batch: Sequence[Sequence[Group]]) -> list[Walk]:
        """The walks of groups that are solved together, in their order."""
        edited, N = [EditedSentences(self.rows, *groups) for groups in batch], len(self.rows.lengths)
        if isinstance(self.solver, Cholesky):
            inverse = self.solver.inverse
            return [_Quadratic([_Problem(self.head, one, inverse, N) for one in edited], inverse)]
        return [Iterated(EditedProblem(self.head, one, N), self.solver.approximate) for one in edited]

    @cached_property
    def _here(self) -> Evaluation:
        """J at the optimum."""
        assert self.objective is not None
        return self.objective.evaluate(self.theta)

    def can_refine(self, group: Group) -> bool:
        """Whether the group's sentences are short enough to refine."""
        return not isinstance(self.solver, Cholesky) or self._num_logits(group) <= MAX_LOGITS

    def _check(self, group: Group) -> None:
        if not self.can_refine(group):
            raise OptionError(
                f"the sentences of a group of edits have {self._num_logits(group):,} tokens times labels, too many to "
                "refine; verify the group by retraining, or edit fewer sentences at once"
            )

    def _num_logits(self, group: Group) -> int:
        """M: tokens of the edited sentences times labels, and transitions."""
        num_tokens = sum(int(self.rows.lengths[number]) for number in {edit.sentence_number for edit in group})
        return num_tokens * self.head.num_labels + self.head.num_parameters - self.head.weight.numel()

    def _batches(self, groups: Sequence[Group]) -> Iterator[list[list[int]]]:
        """Groups of similar size that are solved together, as many as fit in memory with what they keep."""
        batch, kept = list[list[int]](), 0
        for chosen in self._together(groups):
            size = max(self._num_logits(groups[i]) for i in chosen)
            needed = len(chosen) * (2 * size**2 if isinstance(self.solver, Cholesky) else self.head.num_parameters)
            if batch and kept + needed > KEPT:
                yield batch
                batch, kept = [], 0
            batch.append(chosen)
            kept += needed
        if batch:
            yield batch

    def _together(self, groups: Sequence[Group]) -> Iterator[list[int]]:
        """Groups of similar size, as many as fit in memory together."""
        sizes = [self._num_logits(group) for group in groups]
        P = self.head.num_parameters
        num_others = P - self.head.weight.numel()
        limit = DEVICE_TOGETHER if self.theta.is_cuda else TOGETHER
        chosen: list[int] = []
        for index in sorted(range(len(groups)), key=sizes.__getitem__):
            room = sizes[index] * (sizes[index] + P + num_others)
            if not isinstance(self.solver, Cholesky):
                room = P
            if chosen and (len(chosen) + 1) * room > limit:
                yield chosen
                chosen = []
            chosen.append(index)
        if chosen:
            yield chosen


@dataclass(frozen=True)
class _Step:
    """The minima of phi, v (G, M) of each problem, with d and H d, (G, P) of all of them."""

    where: list[Tensor]
    change: Tensor
    pull: Tensor

    def distance(self, other: _Step) -> Tensor:
        """The length of the difference of two steps, (G,)."""
        return _length(self.change - other.change, self.pull - other.pull)

    def towards(self, other: _Step, share: Tensor) -> _Step:
        """The step at a share (G,) of the way to the other; where the share is 0, the other does not matter."""
        shares = share.unsqueeze(1).split([len(one) for one in self.where])
        where = [_mixed(*parts) for parts in zip(self.where, other.where, shares, strict=True)]
        pairs = ((self.change, other.change), (self.pull, other.pull))
        return _Step(where, *(_mixed(mine, its, share.unsqueeze(1)) for mine, its in pairs))


def _mixed(mine: Tensor, its: Tensor, share: Tensor) -> Tensor:
    return torch.where(share > 0, torch.lerp(mine, its, share), mine)


def _length(change: Tensor, pull: Tensor) -> Tensor:
    """sqrt(d^T H d) from d and H d, (G, P) each."""
    return (change * pull).sum(1).clamp(min=0.0).sqrt()


class _Quadratic(Walk):
    """The others taken to second order, with what that misses added after each pass.

    The ``problems`` share products with H^-1, which take as long for one of them as for many.
    """

    def __init__(self, problems: list[_Problem], inverse: Tensor) -> None:
        self.problems, self.inverse = problems, inverse
        self.sizes = [len(problem.gradient) for problem in problems]
        nothing = torch.zeros(sum(self.sizes), len(inverse), dtype=torch.float64, device=inverse.device)
        self.moving = torch.ones(len(nothing), dtype=torch.bool, device=inverse.device)
        self.ahead = _Step([torch.zeros_like(problem.gradient) for problem in problems], nothing, nothing)
        self.ahead = self._solve(nothing)
        self.longest = CONTRACTION * _length(self.ahead.change, self.ahead.pull)  # (G,)

    @property
    def change(self) -> Tensor:
        return self.ahead.change

    @property
    def is_moving(self) -> Tensor:
        return self.moving

    def advance(self, truth: Tensor) -> None:
        changes = self.ahead.change.split(self.sizes)
        own = torch.cat([one.own_surprise(change) for one, change in zip(self.problems, changes, strict=True)])
        residual = torch.zeros_like(own)
        residual[self.moving] = truth - (self.ahead.pull + own)[self.moving]
        on = self._solve(residual)
        distance = on.distance(self.ahead)
        share = torch.where(self.moving, (self.longest / distance.clamp(min=1e-300)).clamp(max=1.0), 0.0)
        length = _length(self.ahead.change, self.ahead.pull).clamp(min=1e-7)  # some edits change nothing
        self.moving = self.moving & (distance > SETTLED * length)
        self.ahead, self.longest = self.ahead.towards(on, share), CONTRACTION * self.longest

    def _solve(self, residual: Tensor) -> _Step:
        """The minima of phi. A ``residual`` r (G, P) of the others' gradient adds r^T d, and -H^-1 r to d."""
        extra = -(residual @ self.inverse) if bool(residual.any()) else residual  # (G, P)
        places = torch.arange(len(residual)).split(self.sizes)
        found, pull = list(self.ahead.where), self.ahead.pull + residual
        for number, (problem, some) in enumerate(zip(self.problems, places, strict=True)):
            if bool(self.moving[some].any()):
                found[number], pull[some] = problem.solve(found[number], extra[some])
        return _Step(found, pull @ self.inverse + extra, pull - residual)


class _Problem(EditedProblem):
    """phi for several groups of edits."""

    def __init__(self, head: Head, edited: EditedSentences, inverse: Tensor, num_sentences: int) -> None:
        super().__init__(head, edited, num_sentences)
        self.root = _root(self.space.gram(inverse) / num_sentences)  # R (G, M, M)
        self.curvature = self.space.curvature()  # S (G, M, M)
        self.gradient = self.space.gradient(edited.errors_before(self.space.scores))  # g (G, M)

    def solve(self, start: Tensor, extra: Tensor) -> tuple[Tensor, Tensor]:
        """v at the minimum of phi (G, M), from a first guess, and H (d - ``extra``) there, both for d (G, P)."""
        offset = self.space.seen_from(extra)  # (G, M)
        where = minimise(lambda v: self._phi(v, offset), start, TOLERANCE)
        shift = _times(self.root, where) + offset
        after = self.space.gradient(self.edited.errors_after(self.space.moved(shift)))
        dual = (_times(self.curvature, shift) + self.gradient - after) / self.num_sentences  # (G, M)
        return where, self.space.gathered(dual)

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
