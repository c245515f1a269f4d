"""Solving with the exact Hessian: the dense inverse compared with conjugate gradients and several preconditioners.

    python benchmarks/solvers.py --out benchmarks/results/solvers.json

The data are invented newswire with the features of an untrained lexical encoder (D = 320) and a refitted head: 20,000
tokens with L2 strength 1, and 5,000 tokens with an L2 strength so small that the head memorises its training labels.
The 50 queries are the conditional losses of the first tokens of random training sentences. The influence of every
training token by each solver is compared with that by the dense inverse.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tagtrace.data import LabelSet
from tagtrace.data.invented import generate
from tagtrace.index import token_errors
from tagtrace.influence import Query
from tagtrace.influence.curvature.operators import Hessian, Kronecker
from tagtrace.influence.curvature.solvers import Cholesky, ConjugateGradient, Solver
from tagtrace.tagger import Head, Lexical, LexicalOptions, RefitOptions, Rows, new_tagger
from tagtrace.tagger.convex.block_cg import LinearMap
from tagtrace.tagger.convex.hessian_product import HessianProduct
from tagtrace.tagger.convex.objective import Objective
from tagtrace.tagger.convex.preconditioner import balanced_kronecker
from tagtrace.tagger.convex.refit import refit_head

PROBLEMS = [("well regularised", 1.0, 20_000), ("memorised", 1e-3, 5_000)]
TOLERANCE = 1e-6


@dataclass(frozen=True)
class Problem:
    """A head at its optimum, its Hessian, and the gradients of Q queries (Q, P)."""

    name: str
    head: Head
    rows: Rows
    hessian: Hessian
    gradients: Tensor


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hidden", type=int, default=192, help="D minus 128")
    parser.add_argument("--queries", type=int, default=50)
    parser.add_argument("--max-steps", type=int, default=120)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    results = []
    for name, l2, num_tokens in PROBLEMS:
        problem = make_problem(name, l2, num_tokens, arguments.hidden, arguments.queries)
        results.append(describe(problem) | compare(problem, arguments.max_steps))
        if arguments.out:
            arguments.out.parent.mkdir(parents=True, exist_ok=True)
            arguments.out.write_text(json.dumps(results, indent=1) + "\n")


def make_problem(name: str, l2: float, num_tokens: int, hidden: int, num_queries: int) -> Problem:
    """The problem on invented sentences with at least ``num_tokens`` tokens."""
    sentences, count = [], 0
    for sentence in generate(num_documents=num_tokens // 45).train:
        if count < num_tokens:
            sentences.append(sentence)
            count += len(sentence)
    torch.manual_seed(0)
    tagger = new_tagger(Lexical(LexicalOptions(hidden=hidden)), LabelSet.from_sentences(sentences, "iob2"))
    rows = tagger.rows(sentences)
    head = refit_head(tagger.head, rows, RefitOptions(l2=l2, tolerance=1e-5)).head
    hessian = Hessian(HessianProduct(Objective(head, rows, l2), head.flat()))
    return Problem(name, head, rows, hessian, query_gradients(head, rows, num_queries))


def query_gradients(head: Head, rows: Rows, num_queries: int) -> Tensor:
    """The gradients of the first tokens of random sentences, (Q, P)."""
    starts = rows.lengths.cumsum(0) - rows.lengths
    gradients = []
    for number in torch.randperm(len(starts), generator=torch.Generator().manual_seed(0))[:num_queries].tolist():
        part = slice(int(starts[number]), int(starts[number] + rows.lengths[number]))
        gradients.append(Query(rows.features[part].double(), rows.labels[part], 0, 1).gradient(head))
    return torch.stack(gradients)


def describe(problem: Problem) -> dict[str, Any]:
    objective = problem.hessian.product.objective
    return {
        "problem": problem.name,
        "l2": round(objective.l2 * objective.num_sentences, 6),
        "tokens": len(problem.rows.labels),
        "sentences": objective.num_sentences,
        "parameters": problem.head.num_parameters,
        "queries": len(problem.gradients),
        "threads": torch.get_num_threads(),
    }


def makers(problem: Problem, max_steps: int) -> dict[str, Callable[[], Solver]]:
    """A function for each solver, the dense one first."""
    hessian = problem.hessian
    preconditioners: dict[str, Callable[[], LinearMap | None]] = {
        "cg": lambda: None,
        "cg, kronecker": lambda: Kronecker(hessian.product).inverse,
        "cg, kronecker balanced": lambda: balanced_kronecker(hessian.fast_product),
        "cg, coarse matrix": lambda: hessian.preconditioner,
    }
    iterated = {
        name: lambda make=make: ConjugateGradient(hessian, make(), TOLERANCE, max_steps)
        for name, make in preconditioners.items()
    }
    return {"dense": lambda: Cholesky(hessian), **iterated}


def compare(problem: Problem, max_steps: int) -> dict[str, Any]:
    """Time and error of each solver."""
    truth, found = None, {}
    for name, make in makers(problem, max_steps).items():
        solver, prepare_seconds = timed(make)
        solution, solve_seconds = timed(lambda solver=solver: solver.try_solve(problem.gradients))
        scores = influence(problem, solution.value)  # (Q, N)
        truth = scores if truth is None else truth
        found[name] = {
            "status": solution.status,
            "steps": solution.num_steps,
            "prepare_s": round(prepare_seconds, 3),
            "solve_s": round(solve_seconds, 3),
            "largest_residual": float(solution.residual.max()),
            "largest_error": float(((scores - truth).norm(dim=1) / truth.norm(dim=1)).max()),
            "smallest_spearman": min(spearman(*pair) for pair in zip(scores, truth, strict=True)),
        }
        print(problem.name, name, json.dumps(found[name]), flush=True)
    totals = {name: values["prepare_s"] + values["solve_s"] for name, values in found.items()}
    return {
        "solvers": found,
        "times_dense": {name: round(total / totals["dense"], 3) for name, total in totals.items()},
    }


def timed(step: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    found = step()
    return found, time.perf_counter() - start


@torch.no_grad()
def influence(problem: Problem, directions: Tensor) -> Tensor:
    """N times the influence of every token without transitions, sum_c e_t(c) (V_W f_t)(c), (Q, N)."""
    errors = token_errors(problem.head, problem.rows)  # (N, C)
    weight = problem.head.unflatten(directions)["weight"]  # (Q, C, D + 1)
    features = problem.rows.features.double()
    features = torch.cat([features, features.new_ones(len(features), 1)], 1)  # (N, D + 1)
    return torch.stack([(errors * (features @ each.T)).sum(1) for each in weight])


def spearman(first: Tensor, second: Tensor) -> float:
    ranks = torch.stack([values.argsort().argsort().double() for values in (first, second)])
    return float(torch.corrcoef(ranks)[0, 1])


if __name__ == "__main__":
    main()
