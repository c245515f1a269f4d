"""dattri's IFAttributorCG: conjugate gradients on Hessian products, a fixed number of steps."""
# pyright: reportMissingImports=false

from __future__ import annotations

from dattri.algorithm.influence_function import IFAttributorCG
from dattri_task import attribute, make_task
from measure import report
from torch import Tensor
from workload import Workload

STEPS = 50
"""dattri's default, 10, is far from converged here; it has no other criterion to stop."""


def answer(work: Workload) -> Tensor:
    attributor = IFAttributorCG(make_task(work), max_iter=STEPS, mode="rev-fwd", regularization=work.l2)
    return attribute(attributor, work)


if __name__ == "__main__":
    report(answer, ("dattri", "torch"), f"IFAttributorCG, {STEPS} steps, float32, all tokens in one batch")
