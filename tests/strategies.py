"""Small random CRFs and heads, and Hypothesis strategies for them."""

from __future__ import annotations

import torch
from hypothesis import strategies as st
from torch import Tensor

from tagtrace.data import LabelSet
from tagtrace.tagger import Head, HeadOptions, Rows
from tagtrace.tagger.scores import Scores

Case = tuple[Scores, Tensor]

LABELS = LabelSet(("O", "B-X", "I-X"), "iob2")
HEADS = [
    HeadOptions(),
    HeadOptions(start_end=True),
    HeadOptions(constrained=True),
    HeadOptions(start_end=True, constrained=True),
    HeadOptions("softmax"),
]


def random_scores(
    seed: int, lengths: list[int], num_labels: int, *, scale: float = 2.0, forbid: bool = False
) -> tuple[Scores, Tensor]:
    """Scores in float64 and labels (B, T) that are allowed under them; rubbish in the padding."""
    generator = torch.Generator().manual_seed(seed)
    B, T, C = len(lengths), max(lengths), num_labels

    def normal(*shape: int) -> Tensor:
        return scale * torch.randn(*shape, generator=generator, dtype=torch.float64)

    emissions, transitions, start, end = normal(B, T, C), normal(C, C), normal(C), normal(C)
    if forbid and C > 1:
        transitions[0, C - 1] = start[C - 1] = -torch.inf
    labels = torch.randint(0, C - 1 if forbid and C > 1 else C, (B, T), generator=generator)
    for row, length in enumerate(lengths):
        emissions[row, length:] = torch.nan
    return Scores.of(emissions, transitions, torch.tensor(lengths), start, end), labels


@st.composite
def small_scores(draw: st.DrawFn, *, forbid: bool | None = None) -> tuple[Scores, Tensor]:
    """C <= 3, T <= 4, up to three ragged sentences; mild and wild scores (wild ones need log space)."""
    lengths = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    return random_scores(
        draw(st.integers(0, 10_000)),
        lengths,
        draw(st.integers(1, 3)),
        scale=draw(st.sampled_from([0.0, 1.0, 5.0, 400.0])),
        forbid=draw(st.booleans()) if forbid is None else forbid,
    )


def all_segments(scores: Scores) -> Tensor:
    """Every segment of every sentence, (S, 3)."""
    return torch.tensor(
        [
            (row, start, stop)
            for row, length in enumerate(scores.lengths.tolist())
            for start in range(length)
            for stop in range(start + 1, length + 1)
        ]
    )


def random_rows(seed: int = 0, lengths: tuple[int, ...] = (5, 1, 3, 8, 2), dim: int = 4) -> Rows:
    """Features and labels that are allowed in IOB2."""
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(sum(lengths), dim, generator=generator)
    labels: list[int] = []
    for length in lengths:
        previous = 0
        for _ in range(length):
            allowed = [0, 1] if previous == 0 else [0, 1, 2]
            previous = allowed[int(torch.randint(len(allowed), (1,), generator=generator))]
            labels.append(previous)
    return Rows(features, torch.tensor(labels), torch.tensor(lengths))


def random_theta(head: Head, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(head.num_parameters, generator=generator, dtype=torch.float64)
