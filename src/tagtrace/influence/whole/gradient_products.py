"""The products of many vectors of weights with the gradient of every sentence: one pass over the data for all of them.

A few vectors are faster as derivatives along them (``slopes``), which need no gradients of single sentences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from tagtrace.influence.whole.gradient_kernel import blocks, fast_products, sentence_gradients
from tagtrace.influence.whole.gradients import Looked
from tagtrace.tagger.tagger import Example, Tagger


@torch.no_grad()
def gradient_products(tagger: Tagger, examples: Sequence[Example], vectors: Sequence[Mapping[str, Tensor]]) -> Tensor:
    """v_q . g_i for vectors q and sentences i, (Q, N) in float64."""
    found = torch.zeros(len(vectors), len(examples), dtype=torch.float64)
    names = {name for vector in vectors for name in vector}
    stacked = {name: torch.stack([vector[name] for vector in vectors]).float() for name in names}  # (Q, size)
    with fast_products():
        for indices, gradients in sentence_gradients(tagger, examples):
            total = torch.zeros(len(vectors), len(indices), device=tagger.device)
            for name in names & gradients.keys():
                part = gradients[name]
                if isinstance(part, Looked):
                    _add_looked(total, stacked[name], part)
                    continue
                for some, dense in blocks(part, len(indices)):
                    total[:, some] += stacked[name] @ dense.T
            found[:, indices] = total.double().cpu()
    return found


def _add_looked(total: Tensor, stacked: Tensor, part: Looked) -> None:
    for number, table in enumerate(stacked.view(len(stacked), -1, part.values.shape[1])):  # (rows, width)
        total[number].index_add_(0, part.sentences, (table[part.rows] * part.values).sum(1).float())
