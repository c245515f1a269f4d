"""Solvers of curvature systems, one per file, behind one interface: ``solve(right) -> Solution``."""

from tagtrace.influence.solvers.balanced import Balanced
from tagtrace.influence.solvers.cholesky import Cholesky
from tagtrace.influence.solvers.conjugate_gradient import ConjugateGradient
from tagtrace.influence.solvers.direct import Direct
from tagtrace.influence.solvers.probes import Probes
from tagtrace.influence.solvers.solution import Solution, SolveError, Solver

__all__ = [
    "Balanced",
    "Cholesky",
    "ConjugateGradient",
    "Direct",
    "Probes",
    "Solution",
    "SolveError",
    "Solver",
]
