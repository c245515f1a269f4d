"""The recursions of a batch of sentences in compiled loops, for training on the CPU (``convex.chains``)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from tagtrace.tagger.convex.chains import CompiledChain
from tagtrace.tagger.convex.products import compiled_loops
from tagtrace.tagger.recursions import SAFE_SCALE
from tagtrace.tagger.rows import pad_rows, unpad_rows
from tagtrace.tagger.scores import Scores


class CompiledRun:
    """What ``recursions.Run`` gives, from a chain over rows."""

    scores: Scores
    chain: CompiledChain

    def __init__(self, scores: Scores, chain: CompiledChain) -> None:
        self.scores, self.chain = scores, chain

    def log_z(self) -> Tensor:
        """log Z (B,)."""
        return self.chain.log_z

    def nodes(self) -> Tensor:
        """Node marginals (B, T, C), zero in the padding."""
        padded = pad_rows(self.chain.nodes, self.scores.lengths)
        short = self.scores.emissions.shape[1] - padded.shape[1]
        return torch.nn.functional.pad(padded, (0, 0, 0, short)) if short else padded

    def edge_sum(self, weights: Tensor) -> Tensor:
        """The edge marginals summed over all steps, each sentence times its weight (B,), (C, C)."""
        loops, chain = compiled_loops(), self.chain
        assert loops is not None
        weighted = chain.alpha * torch.repeat_interleave(weights.double(), chain.lengths).unsqueeze(1)
        out = np.zeros_like(chain.matrix)
        loops.edge_sum(weighted.numpy(), chain.right.numpy(), chain.starts, chain.lengths.numpy(), chain.matrix, out)
        return torch.from_numpy(out)


def compiled_run(scores: Scores) -> CompiledRun | None:
    """The run, or None if compiled loops cannot be used, or would not be safe, for these scores."""
    emissions = scores.emissions
    if (
        emissions.device.type != "cpu"
        or scores.transitions.dim() != 2
        or compiled_loops() is None
        or not len(emissions)
    ):
        return None
    tables = (scores.transitions.detach().double(), scores.start.detach().double(), scores.end.detach().double())
    chain = CompiledChain(tables, unpad_rows(emissions.detach(), scores.lengths).double(), scores.lengths)
    return CompiledRun(scores, chain) if chain.smallest > SAFE_SCALE else None
