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
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tagtrace.influence.edits import EditedChains, Group
from tagtrace.influence.logits import LogitSpace
from tagtrace.influence.query import Query
from tagtrace.tagger.head import Head
from tagtrace.tagger.rows import Rows, pad_rows, unpad_rows
from tagtrace.tagger.scores import Scores


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
    """Refines edits of ``rows``, at ``head``, the optimum of J (float64), with ``inverse`` = H^-1 (P, P)."""

    def __init__(self, head: Head, rows: Rows, inverse: Tensor) -> None:
        self.head, self.rows, self.inverse = head, rows, inverse
        self.num_chains = len(rows.lengths)

    def change(self, group: Group) -> Tensor:
        """d: how the optimum moves when the edits are made, (P,)."""
        return _Problem(self.head, EditedChains(self.rows, group), self.inverse, self.num_chains).solve()

    def effects(self, group: Group, queries: Sequence[Query]) -> list[Effect]:
        """The effect of the edits on each query."""
        moved = self.head.at(self.head.flat() + self.change(group))
        with torch.no_grad():
            return [Effect(float(query.loss(self.head)), float(query.loss(moved))) for query in queries]


class _Problem:
    """phi for one group of edits."""

    @torch.no_grad()
    def __init__(self, head: Head, edited: EditedChains, inverse: Tensor, num_chains: int) -> None:
        self.head, self.edited, self.num_chains = head, edited, num_chains
        self.space = LogitSpace(head, edited.features, edited.lengths)
        self.mapped = self.space.through(inverse)  # B H^-1 (M, P)
        self.root = _root(self.space.seen_from(self.mapped) / num_chains)  # R (M, M)
        self.scores: Scores = head(edited.features, edited.lengths)
        self.curvature = self.space.curvature()  # S (M, M)
        self.gradient = self._logit_gradient(self.scores, before=True)[1]  # g (M,)

    def solve(self) -> Tensor:
        """d at the least phi, (P,)."""
        start = torch.zeros(self.space.size, dtype=torch.float64, device=self.root.device, requires_grad=True)
        optimiser = torch.optim.LBFGS(
            [start], max_iter=100, history_size=20, tolerance_grad=1e-9, tolerance_change=0.0,
            line_search_fn="strong_wolfe",
        )  # fmt: skip

        def closure() -> float:
            value, slope = self._phi(start.detach())
            start.grad = slope
            return value

        optimiser.step(closure)
        shift = self.root @ start.detach()
        _, after = self._logit_gradient(self._moved(shift))
        dual = (self.curvature @ shift + self.gradient - after) / self.num_chains  # (M,)
        return dual @ self.mapped

    def _phi(self, v: Tensor) -> tuple[float, Tensor]:
        """phi(v) and its gradient."""
        shift = self.root @ v
        bent = self.curvature @ shift
        loss, after = self._logit_gradient(self._moved(shift))
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

    def _logit_gradient(self, scores: Scores, *, before: bool = False) -> tuple[float, Tensor]:
        """E (or L_I, as the labels were) and its gradient in the logits, (M,)."""
        learned = ["emissions", *(name for name, _ in self.head.named_parameters() if name != "weight")]
        leaves = {name: getattr(scores, name).detach().requires_grad_() for name in learned}
        with torch.enable_grad():
            own = replace(scores, **leaves)
            loss = self.edited.loss_before(own) if before else self.edited.losses_after(own).sum()
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
