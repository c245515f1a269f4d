"""captum's NaiveInfluenceFunction with all eigenvectors of the dense Hessian, which makes it exact."""
# pyright: reportMissingImports=false

from __future__ import annotations

from captum.influence._core.influence_function import NaiveInfluenceFunction
from measure import linear_head, query_tokens, report, training_tokens
from torch import Tensor, nn
from workload import Workload

BATCH = 5_000


def answer(work: Workload) -> Tensor:
    tokens, asked = training_tokens(work), query_tokens(work)
    influence = NaiveInfluenceFunction(
        nn.Sequential(linear_head(work)),
        tokens.loader(BATCH),
        checkpoint="",
        checkpoints_load_func=lambda *_: 1.0,  # the model has its weights already
        loss_fn=nn.CrossEntropyLoss(reduction="sum"),
        sample_wise_grads_per_batch=True,  # captum's fast way for linear layers
        projection_dim=work.head.size,
        hessian_reg=work.l2 * len(tokens),  # captum sums the Hessian over tokens
    )
    return influence.influence((asked.features, asked.labels)).detach()  # (Q, N)


if __name__ == "__main__":
    report(answer, ("captum", "torch"), f"NaiveInfluenceFunction, projection_dim P, float32, batches of {BATCH}")
