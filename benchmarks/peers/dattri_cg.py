"""dattri's IFAttributorCG: conjugate gradients on Hessian products, a fixed number of steps.

    python benchmarks/peers/dattri_cg.py FOLDER STEPS

dattri's default is 10 steps. It has no other criterion to stop: the tolerance that it takes is not used.
"""
# pyright: reportMissingImports=false

from __future__ import annotations

import sys

from dattri.algorithm.influence_function import IFAttributorCG
from dattri_task import attribute, make_task
from measure import report
from torch import Tensor
from workload import Workload

STEPS = int(sys.argv[2])


def answer(work: Workload) -> Tensor:
    attributor = IFAttributorCG(make_task(work), max_iter=STEPS, regularization=work.l2)
    return attribute(attributor, work)


if __name__ == "__main__":
    report(
        answer, ("dattri", "torch"), f"IFAttributorCG, {STEPS} steps, mode rev-rev, float32, all tokens in one batch"
    )
