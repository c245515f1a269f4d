"""The workload as dattri takes it, for both of its solvers."""
# pyright: reportMissingImports=false

from __future__ import annotations

from typing import Any

import torch
from dattri.task import AttributionTask
from measure import linear_head, query_tokens, training_tokens
from torch import Tensor
from torch.nn.functional import cross_entropy
from workload import Workload


def make_task(work: Workload) -> AttributionTask:
    head = linear_head(work)

    def loss(params: dict[str, Tensor], data_target_pair: tuple[Tensor, Tensor]) -> Tensor:
        features, labels = data_target_pair
        return cross_entropy(torch.func.functional_call(head, params, (features,)), labels)

    return AttributionTask(loss_func=loss, model=head, checkpoints=head.state_dict())


def attribute(attributor: Any, work: Workload) -> Tensor:
    """Influences (Q, N). All tokens are one batch, because dattri solves with the Hessian of each batch separately."""
    tokens = training_tokens(work).loader(len(work.labels))
    attributor.cache(tokens)
    with torch.no_grad():
        found = attributor.attribute(tokens, query_tokens(work).loader(len(work.queries)))  # (N, Q)
    return found.T / len(work.labels)
