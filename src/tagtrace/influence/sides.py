"""The two sides of an explanation: the strongest supporters and opposers among all that were scored."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tagtrace.influence.explanation import TrainingSegment


def ranked_again(refined: Sequence[TrainingSegment]) -> list[list[TrainingSegment]]:
    """Supporters and opposers by their refined effect; those without one, by first order, come after them."""

    def rank(one: TrainingSegment) -> tuple[bool, float]:
        return one.refined is not None, abs(one.score if one.refined is None else one.refined.change)

    ordered = sorted(refined, key=rank, reverse=True)
    raises = [one for one in ordered if (one.score if one.refined is None else one.refined.change) > 0]
    lowers = [one for one in ordered if (one.score if one.refined is None else one.refined.change) < 0]
    return [raises, lowers]


def strongest(values: Tensor, which: Tensor, top: int, sign: float) -> list[tuple[int, float]]:
    """The numbers and values of the ``top`` candidates on one side of zero, strongest first, equal ones in order."""
    signed = sign * values
    if len(signed) > top:  # no full sort: there may be very many
        is_strong = signed >= signed.topk(top).values[-1]
    else:
        is_strong = torch.ones_like(signed, dtype=torch.bool)
    places = (is_strong & (signed > 0)).nonzero()[:, 0]
    places = places[signed[places].argsort(descending=True, stable=True)][:top]
    return list(zip(which[places].tolist(), values[places].tolist(), strict=True))
