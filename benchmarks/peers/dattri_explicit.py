"""dattri's IFAttributorExplicit: the dense Hessian by automatic differentiation, and one direct solve."""
# pyright: reportMissingImports=false

from __future__ import annotations

from dattri.algorithm.influence_function import IFAttributorExplicit
from dattri_task import attribute, make_task
from measure import report
from torch import Tensor
from workload import Workload


def answer(work: Workload) -> Tensor:
    return attribute(IFAttributorExplicit(make_task(work), regularization=work.l2), work)


if __name__ == "__main__":
    report(answer, ("dattri", "torch"), "IFAttributorExplicit, float32, all tokens in one batch")
