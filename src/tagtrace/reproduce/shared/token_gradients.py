"""Products of the gradients of tokens' conditional losses, for all training tokens at once, on any device.

A token has errors e (C,), features f (D,), and the one-hot labels P and N of its neighbours (zero if there is none, or
if the head learns no transitions). Its gradient is e f^T and e in W and the bias, and P x e + e x N in A. So with
x = (f, 1, P, N)

    g . g'  =  (e . e') (x . x')  +  (P . e') (e . N')  +  (e . P') (N . e')

takes D multiply-adds for a pair of tokens, and for any direction V in theta, V_c = (V_W[c], V_A[:, c], V_A[c, :]),

    V . g  =  sum_c e(c) (V_c . x)

takes C D.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from tagtrace._checks import OptionError
from tagtrace.findings import Trusted
from tagtrace.index import Index, token_errors
from tagtrace.tagger import Rows
from tagtrace.tagger.head import Head

CELLS = 2**23
"""Number of products in memory at once."""
MAX_TOKENS = 2**14
"""Number of training tokens whose float64 features are in memory at once (or one longer sentence)."""


@dataclass(frozen=True)
class TokenGradients:
    """The gradients of n tokens, as factors."""

    errors: Tensor
    """e, (n, C)"""
    vectors: Tensor
    """x = (f, 1, P, N), (n, D + 1 + 2 C)"""
    before: Tensor
    """P, (n, C)"""
    after: Tensor
    """N, (n, C)"""

    @classmethod
    def of(cls, head: Head, rows: Rows, errors: Tensor) -> TokenGradients:
        """The gradients of all tokens of ``rows`` with their errors (n, C), in float64 on the device of ``rows``."""
        C, device = errors.shape[1], rows.features.device
        before, after = (F.one_hot(rows.labels.long().roll(shift), C).double() for shift in (1, -1))
        if "transitions" in _learned(head):
            last = (rows.lengths.cumsum(0) - 1).to(device)
            before[last - rows.lengths.to(device) + 1] = 0.0
            after[last] = 0.0
        else:
            before, after = torch.zeros_like(before), torch.zeros_like(after)
        features = rows.features.double()
        vectors = torch.cat([features, features.new_ones(len(features), 1), before, after], 1)
        return cls(errors.to(device).double(), vectors, before, after)

    def __len__(self) -> int:
        return len(self.errors)

    def __getitem__(self, which: Tensor | slice) -> TokenGradients:
        return TokenGradients(self.errors[which], self.vectors[which], self.before[which], self.after[which])

    def norms(self) -> Tensor:
        """|g|, (n,)."""
        own = self.errors.square().sum(1) * self.vectors.square().sum(1)
        shared = (self.before * self.errors).sum(1) * (self.after * self.errors).sum(1)
        return (own + 2.0 * shared).clamp(min=0.0).sqrt()

    def unit(self) -> TokenGradients:
        """The same directions with norm 1; zero gradients stay zero."""
        norms = self.norms().unsqueeze(1)
        return TokenGradients(
            torch.where(norms > 0, self.errors / norms.clamp(min=1e-300), 0.0), self.vectors, self.before, self.after
        )

    def to(self, device: torch.device, dtype: torch.dtype = torch.float32) -> TokenGradients:
        parts = (self.errors, self.vectors, self.before, self.after)
        return TokenGradients(*(part.to(device, dtype) for part in parts))

    def products(self, other: TokenGradients) -> Tensor:
        """g . g' for all pairs, (n, n')."""
        found = (self.errors @ other.errors.T) * (self.vectors @ other.vectors.T)
        found += (self.before @ other.errors.T) * (self.errors @ other.after.T)
        found += (self.errors @ other.before.T) * (self.after @ other.errors.T)
        return found

    def along(self, directions: Tensor) -> Tensor:
        """V . g for all pairs, (Q, n), with directions V in the form of ``by_label``, (Q, C - 1, D + 1 + 2 C)."""
        moved = (self.vectors @ directions.flatten(0, 1).T).unflatten(1, directions.shape[:2])  # (n, Q, C - 1)
        return (moved @ self.errors[:, 1:].unsqueeze(2)).squeeze(2).T


def by_label(head: Head, directions: Tensor) -> Tensor:
    """V_c of directions V (Q, P) minus V_c of the first label, (Q, C - 1, D + 1 + 2 C), since errors sum to zero."""
    parts = head.unflatten(directions)
    weight = parts["weight"]  # (Q, C, D + 1)
    C = weight.shape[1]
    edges = parts.get("transitions", weight.new_zeros(len(weight), C, C))
    together = torch.cat([weight, edges.transpose(1, 2), edges], 2)
    return together[:, 1:] - together[:, :1]


@torch.no_grad()
def opposition(
    index: Index, trusted: Trusted, top_k: int = 10, device: torch.device | None = None
) -> dict[str, Tensor]:
    """How much each training token opposes the trusted query tokens, (N,), by ``identity`` and by ``cosine``.

    The mean of the ``top_k`` largest -g_q . g_k / N, or of the largest negative cosines. ``findings.trusted_scores``
    gives the same with these methods and the aggregate ``top``; this is faster for many queries.
    """
    check_head(index.head)
    device = device or torch.device("cpu")
    errors = token_errors(index.head, trusted.rows)
    asked = TokenGradients.of(index.head, trusted.rows, errors)[trusted.tokens]
    queries, sizes = asked.unit().to(device), asked.norms().to(device, torch.float32)  # (Q,)
    count = min(top_k, len(asked))
    found: dict[str, list[Tensor]] = {"identity": [], "cosine": []}
    for _, part in training_gradients(index, max(CELLS // len(asked), 1), device):
        opposed = -part.unit().to(device).products(queries)  # (n, Q): negative cosines
        found["cosine"].append(opposed.topk(count, 1, sorted=False).values.double().mean(1).cpu())
        best = (opposed * sizes).topk(count, 1, sorted=False).values  # (n, top_k), without the factor of each row
        found["identity"].append((best.double().mean(1) * part.norms()).cpu() / index.num_sentences)
    return {name: torch.cat(parts) for name, parts in found.items()}


def training_gradients(index: Index, count: int, device: torch.device) -> Iterator[tuple[slice, TokenGradients]]:
    """The gradients of all tokens of an index, at most ``count`` at a time, each with its slice of the index's rows."""
    for shard in index.shards:
        start = 0
        for rows in shard.rows().chunks(min(count, MAX_TOKENS)):
            here = slice(start, start + len(rows.labels))
            part = TokenGradients.of(index.head, rows.to(device), shard.errors[here])
            yield slice(shard.first_token + here.start, shard.first_token + here.stop), part
            start = here.stop


def check_head(head: Head) -> None:
    if not _learned(head) <= {"weight", "transitions"}:
        raise OptionError("products of token gradients are not implemented for a head with start and end scores")


def _learned(head: Head) -> set[str]:
    return {name for name, _ in head.named_parameters()}
