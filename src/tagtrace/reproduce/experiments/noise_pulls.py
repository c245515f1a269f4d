"""How much the wrong labels of a document contribute to its instance influence, by true and given type.

That influence is linear in the document's gradient, the sum over its tokens of e_t f_t^T (e_t: marginals minus the
label) and the errors of its edges. So with V = -(mean gradient of the trusted documents) / N it is the sum over tokens
of e_t . (V_W f_t), the token's pull, and a rest for transitions. Positive pulls oppose the trusted documents, negative
ones support them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from itertools import islice

import torch
from torch import Tensor
from torch.nn import functional as F

from tagtrace.data import Sentence
from tagtrace.findings import Trusted, in_sample
from tagtrace.index import Index
from tagtrace.reproduce.shared.document_rankings import document_gradients


@torch.no_grad()
def token_pulls(index: Index, trusted: Trusted, documents: Tensor) -> Tensor:
    """e_t . (V_W f_t) of every training token, (N,); ``documents`` (b,) has the document of each trusted sentence."""
    direction = -document_gradients(index, trusted, documents).mean(0) / index.num_sentences  # (P,)
    weight = index.head.unflatten(direction)["weight"]  # (C, D + 1)
    believed = in_sample(index)
    errors = believed.marginals.double() - F.one_hot(believed.labels, len(index.labels))  # (N, C)
    parts = [part.double() @ weight[:, :-1].T for shard in index.shards for part in shard.features.split(2**14)]
    return (errors * (torch.cat(parts) + weight[:, -1])).sum(1)


def pulls_by_type(
    pulls: Tensor, given: Sequence[Sentence], true: Sequence[Sentence], names: Collection[str]
) -> dict[str, float]:
    """Sums over the tokens of the documents ``names`` whose type changed, by true and given type: ``LOC to ORG``.

    ``given`` are the index's sentences, ``true`` the same with true labels, and ``pulls`` (N,) belong to ``given``.
    """
    wanted, sums = set(names), defaultdict[str, float](float)
    values = iter(pulls.tolist())
    for one, other in zip(given, true, strict=True):
        for before, after, value in zip(other.labels, one.labels, islice(values, len(one)), strict=True):
            types = before.rpartition("-")[2], after.rpartition("-")[2]
            if one.document in wanted and types[0] != types[1]:
                sums[" to ".join(types)] += value
    return {name: round(value, 4) for name, value in sorted(sums.items(), key=lambda pair: pair[1])}
