"""Solvers of curvature systems, one per file, behind one interface: ``solve(right) -> Solution``."""

from tagtrace.influence.curvature.solvers.cholesky import Cholesky
from tagtrace.influence.curvature.solvers.conjugate_gradient import ConjugateGradient
from tagtrace.influence.curvature.solvers.direct import Direct
from tagtrace.influence.curvature.solvers.probes import Probes
from tagtrace.influence.curvature.solvers.solution import Solution, SolveError, Solver

__all__ = [
    "Cholesky",
    "ConjugateGradient",
    "Direct",
    "Probes",
    "Solution",
    "SolveError",
    "Solver",
]
