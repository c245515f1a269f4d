"""The head of a tagger: from features to the scores of a CRF.

    emissions_t = W (F_t, 1),   transitions A,   optional start and end scores

A softmax head is the same model with A = 0 and no A parameters. Forbidden transitions are constants, never
parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import asdict, dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tagtrace._checks import OptionError, TaggerError
from tagtrace.data.labels import LabelSet
from tagtrace.tagger import crf
from tagtrace.tagger.rows import Rows, pad_rows
from tagtrace.tagger.scores import Scores

MAX_DECODED = 8192
"""Maximum number of tokens decoded at a time (or one longer sentence)."""


@dataclass(frozen=True)
class HeadOptions:
    """The kind of head: ``crf`` or ``softmax``, with or without start and end scores and BIO constraints."""

    kind: Literal["crf", "softmax"] = "crf"
    start_end: bool = False
    """Learn scores for the first and the last label (crf only)."""
    constrained: bool = False
    """Forbid transitions that are invalid in IOB2 during training too (decoding has its own option)."""

    def __post_init__(self) -> None:
        if self.kind not in ("crf", "softmax"):
            raise OptionError(f"head {self.kind!r}: expected crf or softmax")
        if self.kind == "softmax" and (self.start_end or self.constrained):
            raise OptionError("a softmax head has no transitions: start_end and constrained need head crf")

    def __str__(self) -> str:
        more = {"with start and end scores": self.start_end, "trained with constraints": self.constrained}
        return ", ".join((self.kind, *(name for name, is_so in more.items() if is_so)))

    def to_json(self) -> dict[str, object]:
        return asdict(self)


def head_of(weights: Mapping[str, Tensor], dim: int, labels: LabelSet, options: HeadOptions) -> Head:
    """The head with these saved weights; raises TaggerError, before it takes any memory, if they do not fit."""
    shape = tuple(weights["weight"].shape) if "weight" in weights else ()
    if shape != (len(labels), dim + 1):
        raise TaggerError(f"size mismatch: W has shape {shape} for {len(labels)} labels and {dim} features")
    dtype = weights["weight"].dtype
    if dtype not in (torch.float32, torch.float64):
        raise TaggerError(f"the head is {str(dtype).removeprefix('torch.')}, expected float32 or float64")
    with torch.random.fork_rng(devices=[]):  # a new head draws random numbers, which are not used
        head = Head(dim, labels, options).to(dtype)
    try:
        head.load_state_dict(weights)
    except RuntimeError as error:
        raise TaggerError(" ".join(str(error).split())) from None
    return head


class Head(nn.Module):
    """W (C, D + 1), the bias last, and for a CRF A (C, C) and perhaps start and end (C,)."""

    options: HeadOptions
    dim: int
    num_labels: int

    weight: Tensor
    transitions: Tensor
    start: Tensor
    end: Tensor
    forbidden_transitions: Tensor
    forbidden_start: Tensor

    def __init__(self, dim: int, labels: LabelSet, options: HeadOptions | None = None) -> None:
        super().__init__()
        self.options = options or HeadOptions()
        self.dim, self.num_labels = dim, len(labels)
        C = self.num_labels
        self.weight = nn.Parameter(0.02 * torch.randn(C, dim + 1))
        has_edges, has_ends = self.options.kind == "crf", self.options.start_end
        self._register("transitions", torch.zeros(C, C), learned=has_edges)
        self._register("start", torch.zeros(C), learned=has_ends)
        self._register("end", torch.zeros(C), learned=has_ends)
        forbidden = torch.from_numpy(labels.forbidden_transitions())
        self.register_buffer("forbidden_transitions", forbidden, persistent=False)
        self.register_buffer("forbidden_start", torch.from_numpy(labels.forbidden_start()), persistent=False)

    def _register(self, name: str, value: Tensor, *, learned: bool) -> None:
        if learned:
            self.register_parameter(name, nn.Parameter(value))
        else:
            self.register_buffer(name, value, persistent=False)

    @property
    def num_parameters(self) -> int:
        """P = C (D + 1) + C^2 (+ 2 C)."""
        return sum(parameter.numel() for parameter in self.parameters())

    def flat(self) -> Tensor:
        """theta (P,): those of weight, transitions, start and end that are learned."""
        return torch.cat([parameter.detach().flatten() for parameter in self.parameters()])

    def unflatten(self, theta: Tensor) -> dict[str, Tensor]:
        """Vectors (..., P) as named parts, e.g. ``weight`` (..., C, D + 1)."""
        sizes = [parameter.numel() for parameter in self.parameters()]
        parts = theta.split(sizes, -1)
        named = zip(self.named_parameters(), parts, strict=True)
        return {name: part.unflatten(-1, parameter.shape) for (name, parameter), part in named}

    @torch.no_grad()
    def set_flat(self, theta: Tensor) -> None:
        """Set the parameters to theta (P,)."""
        for name, part in self.unflatten(theta).items():
            self.get_parameter(name).copy_(part)

    def at(self, theta: Tensor) -> Head:
        """A copy with the parameters theta (P,)."""
        moved = deepcopy(self)
        moved.set_flat(theta)
        return moved

    def forward(self, features: Tensor, lengths: Tensor, *, constrained: bool | None = None) -> Scores:
        """Scores of sentences whose tokens' features (N, D) are concatenated."""
        return self.scores(self.emissions(features), lengths, constrained=constrained)

    def emissions(self, features: Tensor) -> Tensor:
        """W (F, 1) of rows of features: (N, D) to (N, C)."""
        return F.linear(features, self.weight[:, :-1], self.weight[:, -1])

    def scores(self, emissions: Tensor, lengths: Tensor, *, constrained: bool | None = None) -> Scores:
        """Scores of sentences whose tokens' emissions (N, C) are concatenated."""
        return Scores(pad_rows(emissions, lengths), *self.edge_scores(constrained=constrained), lengths)

    def edge_scores(self, *, constrained: bool | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Transitions (C, C), start and end (C,); minus infinity for what is forbidden."""
        transitions, start = self.transitions, self.start
        if self.options.constrained if constrained is None else constrained:
            transitions = transitions.masked_fill(self.forbidden_transitions, -torch.inf)
            start = start.masked_fill(self.forbidden_start, -torch.inf)
        return transitions, start, self.end

    @torch.no_grad()
    def decode(self, features: Tensor, lengths: Tensor, *, constrained: bool = True) -> list[list[int]]:
        """The best label sequence of each sentence, from features (N, D); ``constrained``: only well-formed ones."""
        paths: list[list[int]] = []
        for chunk in Rows(features, lengths.new_empty(len(features)), lengths).chunks(MAX_DECODED):
            scores = self(chunk.features.to(self.weight), chunk.lengths, constrained=constrained)
            paths += crf.viterbi(scores)[0]
        return paths
