"""Scores of training labels that need no trusted data: one number for each token, higher = more suspicious.

| scorer | formula |
|---|---|
| ``joint-loss`` | -log p(y given x) of the token's sentence |
| ``marginal-loss`` | -log p(y_t given x) |
| ``conditional-loss`` | -log p(y_t given all other labels, x) |
| ``entropy`` | -sum_c p(c) log p(c), p the marginals p(y_t given x): an uncertain tagger, regardless of the label |
| ``margin`` | p of the likeliest other label minus p(y_t) |
| ``gradient-norm`` | norm of the gradient of the token's conditional loss, in-sample |
| ``self-influence`` | g^T K^-1 g of that gradient, in-sample: how much the head relies on the label itself to fit it |

All but the last two take in-sample or out-of-sample ``Probabilities``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from tagtrace._checks import OptionError
from tagtrace.findings.judges.probabilities import Probabilities
from tagtrace.index import Index
from tagtrace.influence import Explainer, find_candidates
from tagtrace.influence import self_influence as _self_influence
from tagtrace.influence.curvature.choice import Curvature
from tagtrace.influence.scoring.token_pass import TokenPass

SMALLEST = 1e-45
"""The smallest probability in float32."""


def joint_loss(probabilities: Probabilities) -> Tensor:
    """The joint loss of each token's sentence, (N,)."""
    return torch.repeat_interleave(probabilities.joint_losses, probabilities.lengths)


def marginal_loss(probabilities: Probabilities) -> Tensor:
    """-log p(y_t | x), (N,); above p = 1/2 from the other labels' probabilities, which are not rounded to 0."""
    given, others = _split(probabilities)
    rest = others.sum(1)
    return torch.where(rest < 0.5, -torch.log1p(-rest.clamp(max=0.5)), -given.clamp(min=SMALLEST).log())


def conditional_loss(probabilities: Probabilities) -> Tensor:
    """-log p(y_t | labels of all other tokens, x), (N,)."""
    return probabilities.conditional_losses.clone()


def entropy(probabilities: Probabilities) -> Tensor:
    """-sum_c p(c) log p(c), (N,)."""
    return torch.special.entr(probabilities.marginals.double()).sum(1)


def margin(probabilities: Probabilities) -> Tensor:
    """max over other labels of p(c), minus p(y_t), (N,): above 0 where another label is likelier."""
    given, others = _split(probabilities)
    return others.amax(1) - given


@torch.no_grad()
def gradient_norm(index: Index) -> Tensor:
    """|g_t|, (N,), with g_t the gradient of the token's conditional loss in the head's parameters."""
    return torch.cat([TokenPass(index.head, shard).norms() for shard in index.shards])


def self_influence(index: Index, curvature: Curvature = "kronecker", damping: float = 0.0) -> Tensor:
    """g_t^T K^-1 g_t, (N,). ``kronecker`` has a formula; the exact Hessian needs a solve for each token."""
    explainer = Explainer(index, curvature, damping)
    return _self_influence(index.head, index.rows, find_candidates(index, "token"), explainer.solver)


def _split(probabilities: Probabilities) -> tuple[Tensor, Tensor]:
    """p of the given label, (N,), and of the others, (N, C) with 0 for the given one; in float64."""
    marginals, place = probabilities.marginals.double(), probabilities.labels.unsqueeze(1)
    return marginals.gather(1, place).squeeze(1), marginals.scatter(1, place, 0.0)


@dataclass(frozen=True)
class TokenScorer:
    """What a scorer measures, in a line, and how it is computed."""

    description: str
    of_probabilities: Callable[[Probabilities], Tensor] | None = None
    of_index: Callable[[Index], Tensor] | None = None

    @property
    def needs_probabilities(self) -> bool:
        """Whether its scores differ between in-sample and out-of-sample."""
        return self.of_probabilities is not None


SCORERS: dict[str, TokenScorer] = {
    "joint-loss": TokenScorer("how unlikely the labels of the token's whole sentence are", joint_loss),
    "marginal-loss": TokenScorer("how unlikely the token's label is, whatever the labels around it", marginal_loss),
    "conditional-loss": TokenScorer("how unlikely the token's label is, given the labels around it", conditional_loss),
    "entropy": TokenScorer("how uncertain the tagger is about the token's label", entropy),
    "margin": TokenScorer("how much likelier the best other label is than the given one", margin),
    "gradient-norm": TokenScorer("how hard the label pulls at the head", of_index=gradient_norm),
    "self-influence": TokenScorer("how much the head relies on the label itself to fit it", of_index=self_influence),
}


def token_scores(name: str, index: Index, probabilities: Probabilities) -> Tensor:
    """The scores of every token of an index by the scorer with this name, (N,)."""
    scorer = SCORERS.get(name)
    if scorer is None:
        raise OptionError(f"scorer {name!r}: expected one of {', '.join(SCORERS)}")
    if scorer.of_probabilities is not None:
        probabilities.check_index(index)
        return scorer.of_probabilities(probabilities)
    assert scorer.of_index is not None
    return scorer.of_index(index)
