"""The conditional errors of tokens: what each label teaches the head, given all other labels.

    e_t = p(y_t = . | y outside t, x) - onehot(y_t),   (C,)

is the gradient of the conditional loss CL(z^[t,t]) in the emissions of t. Given its neighbours' labels a token
depends on nothing else, so there is no recursion:

    p(y_t = c | y outside t, x)  is proportional to  exp(emissions[t, c] + A[y_{t-1}, c] + A[c, y_{t+1}])

with start[c] for the first token of a sentence and end[c] for the last. Forbidden transitions are minus infinity in
A; a softmax head has A = 0.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tagtrace.tagger.head import Head
from tagtrace.tagger.rows import Rows, unpad_rows

_MAX_TOKENS = 8192
"""Features are converted to the head's dtype this many tokens at a time."""


@torch.no_grad()
def token_errors(head: Head, rows: Rows) -> Tensor:
    """e_t of every token, (n, C), in the head's dtype."""
    return torch.cat([_chunk_errors(head, chunk) for chunk in rows.chunks(_MAX_TOKENS)])


def _chunk_errors(head: Head, rows: Rows) -> Tensor:
    scores = head(rows.features.to(head.weight), rows.lengths)
    labels = rows.labels.to(head.weight.device).long().unsqueeze(1)  # (n, 1)
    last = rows.lengths.cumsum(0) - 1  # (B,)
    first = last - rows.lengths + 1  # (B,)
    into = scores.transitions[labels.roll(1, 0).squeeze(1)]  # (n, C): A[y_{t-1}, :]
    out = scores.transitions.T[labels.roll(-1, 0).squeeze(1)]  # (n, C): A[:, y_{t+1}]
    into[first], out[last] = scores.start, scores.end
    emissions = unpad_rows(scores.emissions, rows.lengths)  # (n, C)
    others = torch.softmax(emissions + into + out, 1).scatter(1, labels, 0.0)  # (n, C): zero at y_t
    # p(y_t) - 1 as the sum over all other labels: exact also where p(y_t) is so near 1 that 1 - p(y_t) would cancel.
    return others.scatter(1, labels, -others.sum(1, keepdim=True))
