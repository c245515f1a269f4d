"""Write docs/fidelity.md from the points that exact_influence.py stored: ``python experiments/fidelity_table.py``."""

from __future__ import annotations

import json
from pathlib import Path

ROOT = Path(__file__).parent.parent
RUNS = {
    "exact_tokens": ("Tokens, linear model", ""),
    "exact_entities": ("Entities of two or more tokens, linear model", "--segments entity"),
    "exact_relabel": ("Relabelled tokens, linear model", "--edit relabel"),
    "exact_groups": ("Groups of ten tokens removed together, linear model", "--edit group --top 10"),
    "exact_distilbert": (
        "DistilBERT's refitted head, 12,528 sentences, on an H200",
        "--encoder DIR --draws 0 --segments token entity",
    ),
}
METHODS = ("identity", "first_order", "sentence_exact", "refine_once", "refine")
COLUMNS = ("pearson", "spearman", "slope", "largest_error")
INTRODUCTION = """# Fidelity

These tables compare the change of a query's loss that is predicted when training labels are edited with the change
after exact retraining (max |gradient| at most 1e-8). Every point is kept. The queries are 20 mispredicted validation
tokens, each with the 20 training segments of the largest first-order influence. The slope is that of actual on
predicted changes. `refine` is what `tagtrace explain --refine` shows: the sentence-exact estimate with up to three
passes over the training data; `refine_once` uses one pass, and `sentence_exact` none ([maths.md](maths.md)). The page
is written by `python experiments/fidelity_table.py` from the points in [experiments/results](../experiments/results).
Times are milliseconds per edit in that run: without compiled loops (the extra `fast`) on one core for tokens, entities
and relabelled tokens, twelve runs at once, on four cores for groups, and on a GPU shared by two runs for DistilBERT.

On the same points, with two passes for every segment, `refine` had lower or equal correlations and larger or equal
largest errors in every draw. Eight of its fourteen slopes were nearer to 1, by at most 0.0095, because a segment that
has settled now makes no more passes.
"""


def main() -> None:
    parts = [INTRODUCTION]
    for name, (title, options) in RUNS.items():
        results = json.loads((ROOT / f"experiments/results/{name}.json").read_text())
        command = f"python experiments/exact_influence.py --data DIR {options} --out FILE".replace("  ", " ")
        parts.append(f"## {title}\n\n    {command}\n")
        parts += [_table(result) for result in results]
    (ROOT / "docs/fidelity.md").write_text("\n".join(parts))


def _table(result: dict[str, object]) -> str:
    """The table of one draw."""
    times = result["milliseconds"]
    assert isinstance(times, dict)
    points, worst = result["points_kept"], result["retrain_worst_max_gradient"]
    lines = [
        f"Draw {result['draw']}, {result['segments']}: {points} points, P = {result['parameters']:,}, "
        f"retraining {times['retrain']:.0f} ms to max |gradient| {worst:.1e}\n",
        "| | Pearson | Spearman | slope | largest error | range | ms |",
        "|---|---|---|---|---|---|---|",
    ]
    for method in METHODS:
        found = result.get(method)
        if isinstance(found, dict):
            cells = [f"{found[column]:.4f}" for column in COLUMNS[:2]] + [
                f"{found[column]:.3f}" for column in COLUMNS[2:]
            ]
            cells += [f"{found['range']:.2f}", f"{times[method]:.0f}" if method in times else ""]
            lines.append(f"| {method} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
