"""Refine: the effect of editing training labels, with the edited sentences kept exact and all others quadratic.

J after an edit is the rest (the other chains' losses and the L2 term) plus the losses E of the edited chains over N.
Taking the rest to second order about the optimum theta,

    d = argmin  1/2 d^T (H - H_I/N) d - (grad L_I/N)^T d + E(theta + d)/N,

where H_I and L_I sum over the edited chains as they were. The optimum lies in the span of H^-1 B^T (``logits``). With
K = B H^-1 B^T / N = R R^T and a change of logits s = R v, N times the above is

    phi(v) = 1/2 |v|^2 - 1/2 s^T S s - g^T s + E(z + s),

S and g the Hessian and gradient of L_I in the logits z; where phi is least, d = H^-1 B^T (S s + g - grad E(z + s)) / N.
phi's Hessian is the identity plus something of low rank, so L-BFGS takes a few steps, and they only go downhill:
whatever the leverage of a label, there is nothing to diverge. The query's loss is evaluated exactly at theta + d.

**Corrections.** One pass over the training data tells the rest's true gradient at theta + d; with r what the quadratic
missed of it, the problem gains r^T d: the same phi with s = R v - B H^-1 r, and d gains -H^-1 r.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tagtrace._checks import OptionError
from tagtrace.influence.edits import EditedChains, Group
from tagtrace.influence.logits import LogitSpace
from tagtrace.influence.query import Query
from tagtrace.tagger.head import Head
from tagtrace.tagger.objective import Objective
from tagtrace.tagger.rows import Rows, pad_rows, unpad_rows
from tagtrace.tagger.scores import Scores

KEPT_BYTES = 2**28
"""How much is kept of the work on recent sentences, in case another of their segments is asked for."""


@dataclass(frozen=True)
class Effect:
    """What an edit does to a query's conditional loss."""

    before: float
    after: float

    @property
    def change(self) -> float:
        """Positive for a supporter that is taken away: without it the query's loss is higher."""
        return self.after - self.before


class Refiner:
    """Refines edits of ``rows``, at ``head``, the optimum of J (float64), with ``inverse`` = H^-1 (P, P).

    With ``objective``, each of ``num_corrections`` passes over the training data replaces the others' quadratic by one
    with their true gradient where the last estimate ended.
    """

    def __init__(
        self,
        head: Head,
        rows: Rows,
        inverse: Tensor,
        objective: Objective | None = None,
        num_corrections: int = 0,
    ) -> None:
        if num_corrections and objective is None:
            raise OptionError("corrections need the objective")
        self.head, self.rows, self.inverse = head, rows, inverse
        self.objective, self.num_corrections = objective, num_corrections
        self.theta = head.flat()
        self._known: OrderedDict[tuple[int, ...], _Chains] = OrderedDict()

    def change(self, group: Group) -> Tensor:
        """d: how the optimum moves when the edits are made, (P,)."""
        edited = EditedChains(self.rows, group)
        problem = _Problem(self._chains(edited), edited)
        step = problem.solve()
        for _ in range(self.num_corrections):
            step = problem.solve(self._residual(problem.chains, step))
        return step.change

    def effects(self, group: Group, queries: Sequence[Query]) -> list[Effect]:
        """The effect of the edits on each query."""
        moved = self.head.at(self.theta + self.change(group))
        with torch.no_grad():
            return [Effect(float(query.loss(self.head)), float(query.loss(moved))) for query in queries]

    def _chains(self, edited: EditedChains) -> _Chains:
        """What does not depend on the edit, kept for the last few sentences."""
        key = tuple(edited.chains)
        if key not in self._known:
            self._known[key] = _Chains(self.head, edited, self.inverse, len(self.rows.lengths))
        self._known.move_to_end(key)
        found = self._known[key]
        while sum(chains.num_bytes for chains in self._known.values()) > KEPT_BYTES:
            self._known.popitem(last=False)
        return found

    def _residual(self, chains: _Chains, step: _Step) -> Tensor:
        """r: the others' true gradient at theta + d, less what their quadratic says, (P,)."""
        assert self.objective is not None
        truth = self.objective.evaluate(self.theta + step.change).gradient - chains.own_gradient(step.change)
        return truth - (step.pull - chains.own_quadratic(step.change))


@dataclass(frozen=True)
class _Step:
    """d and H d, (P,)."""

    change: Tensor
    pull: Tensor


class _Chains:
    """The edited chains as they were: their logits, and what H^-1 makes of them."""

    @torch.no_grad()
    def __init__(self, head: Head, edited: EditedChains, inverse: Tensor, num_chains: int) -> None:
        self.head, self.edited, self.num_chains, self.inverse = head, edited, num_chains, inverse
        self.space = LogitSpace(head, edited.features, edited.lengths)
        self.mapped = self.space.through(inverse)  # B H^-1 (M, P)
        self.root = _root(self.space.seen_from(self.mapped) / num_chains)  # R (M, M)
        self.scores: Scores = head(edited.features, edited.lengths)
        self.curvature = self.space.curvature()  # S (M, M)
        self.gradient = logit_gradient(head, self.scores, edited.loss_before)[1]  # g (M,)

    @property
    def num_bytes(self) -> int:
        return 8 * (self.mapped.numel() + 2 * self.root.numel())

    def own_gradient(self, change: Tensor) -> Tensor:
        """grad L_I/N at theta + change, (P,)."""
        scores = self.head.at(self.head.flat() + change)(self.edited.features, self.edited.lengths)
        gradient = logit_gradient(self.head, scores, self.edited.loss_before)[1]
        return self.space.gathered(gradient) / self.num_chains

    def own_quadratic(self, change: Tensor) -> Tensor:
        """(H_I change + grad L_I)/N, (P,): what second order says of the same."""
        moved = self.space.seen_from(change.unsqueeze(0))[0]  # B change (M,)
        return self.space.gathered(self.curvature @ moved + self.gradient) / self.num_chains


class _Problem:
    """phi for one group of edits."""

    def __init__(self, chains: _Chains, edited: EditedChains) -> None:
        self.chains, self.edited = chains, edited
        self.head, self.space, self.root = chains.head, chains.space, chains.root
        self.scores, self.curvature, self.gradient = chains.scores, chains.curvature, chains.gradient

    def solve(self, residual: Tensor | None = None) -> _Step:
        """d at the least phi. A ``residual`` r (P,) of the others' gradient adds r^T d to it, and -H^-1 r to d."""
        if residual is None:
            residual = torch.zeros(self.head.num_parameters, dtype=torch.float64, device=self.root.device)
        extra = -(self.chains.inverse @ residual)  # (P,)
        offset = self.space.seen_from(extra.unsqueeze(0))[0]  # (M,)
        start = torch.zeros(self.space.size, dtype=torch.float64, device=self.root.device, requires_grad=True)
        optimiser = torch.optim.LBFGS(
            [start], max_iter=100, history_size=20, tolerance_grad=1e-9, tolerance_change=0.0,
            line_search_fn="strong_wolfe",
        )  # fmt: skip

        def closure() -> float:
            value, slope = self._phi(start.detach(), offset)
            start.grad = slope
            return value

        optimiser.step(closure)
        shift = self.root @ start.detach() + offset
        _, after = logit_gradient(self.head, self._moved(shift), self._loss_after)
        dual = (self.curvature @ shift + self.gradient - after) / self.chains.num_chains  # (M,)
        return _Step(dual @ self.chains.mapped + extra, self.space.gathered(dual) - residual)

    def _loss_after(self, scores: Scores) -> Tensor:
        return self.edited.losses_after(scores).sum()

    def _phi(self, v: Tensor, offset: Tensor) -> tuple[float, Tensor]:
        """phi(v) and its gradient."""
        shift = self.root @ v + offset
        bent = self.curvature @ shift
        loss, after = logit_gradient(self.head, self._moved(shift), self._loss_after)
        value = 0.5 * (v @ v) - 0.5 * (shift @ bent) - self.gradient @ shift + loss
        return float(value), v + self.root.T @ (after - self.gradient - bent)

    def _moved(self, shift: Tensor) -> Scores:
        """The chains' scores with logits changed by ``shift`` (M,)."""
        num_nodes, num_weights = self.space.num_nodes, self.space.num_weights
        nodes = shift[:num_nodes].view(-1, self.head.num_labels)  # (n, C)
        others = torch.cat([shift.new_zeros(num_weights), shift[num_nodes:]])
        parts = self.head.unflatten(others)
        scores = self.scores
        return Scores(
            scores.emissions + pad_rows(nodes, self.edited.lengths),
            scores.transitions + parts.get("transitions", 0.0),
            scores.start + parts.get("start", 0.0),
            scores.end + parts.get("end", 0.0),
            self.edited.lengths,
        )


def logit_gradient(head: Head, scores: Scores, loss_of: Callable[[Scores], Tensor]) -> tuple[float, Tensor]:
    """A loss of ``scores`` and its gradient in the logits, (M,), ordered as in ``LogitSpace``."""
    learned = ["emissions", *(name for name, _ in head.named_parameters() if name != "weight")]
    leaves = {name: getattr(scores, name).detach().requires_grad_() for name in learned}
    with torch.enable_grad():
        loss = loss_of(replace(scores, **leaves))
        parts = torch.autograd.grad(loss, list(leaves.values()))
    nodes = unpad_rows(parts[0], scores.lengths).flatten()
    return float(loss.detach()), torch.cat([nodes, *(part.flatten() for part in parts[1:])])


def _root(gram: Tensor) -> Tensor:
    """R with R R^T = gram, up to rounding; gram is singular where two tokens have the same features."""
    jitter = 1e-13 * float(gram.diagonal().amax())
    factor, failed = torch.linalg.cholesky_ex(
        gram + jitter * torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
    )
    if int(failed) == 0:
        return factor
    values, basis = torch.linalg.eigh(gram)
    return basis * values.clamp(min=0.0).sqrt()
