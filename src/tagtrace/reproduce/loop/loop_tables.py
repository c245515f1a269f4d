"""Tables and figures of ``loop``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import exp, log
from pathlib import Path
from statistics import fmean

from tagtrace.reproduce.shared.experiment import Headline, SeedResult
from tagtrace.reproduce.shared.figures import draw_bars
from tagtrace.reproduce.shared.tables import markdown

LOOP, ERRING = "this loop", "this loop, a reviewer who errs"


def table(results: Sequence[SeedResult]) -> str:
    """For each number of decisions, wrong labels left and F1 by contender; then what is believed."""
    counts, first = results[0]["options"]["counts"], results[0]["tasks"]
    text = ""
    for place, count in enumerate(counts):
        for what, key, digits in (
            ("Wrong labels left, as a share of those there were", "left", 2),
            ("Test F1", "f1", 1),
        ):
            names = ["noisy labels", *next(iter(first.values()))["contenders"], "noisy, then trusted",
                     "this loop, fixed, then trusted", "true labels"]  # fmt: skip
            rows = [
                [
                    name,
                    *(
                        _cell([_value(one["tasks"][task], name, key, place) for one in results], digits)
                        for task in first
                    ),
                ]
                for name in names
            ]
            rows = [row for row in rows if any(cell != "-" for cell in row[1:])]
            text += f"\n{what} after {count} decisions:\n\n{markdown(('', *first), rows)}"
    rows = []
    for what, of in BELIEFS.items():
        cells = [_cell([of(one["tasks"][task]) for one in results], 3) for task in first]
        rows.append([what, *cells])
    return text + f"\nWhat is believed:\n\n{markdown(('', *first), rows)}"


BELIEFS: dict[str, Callable[[SeedResult], float]] = {
    "AP, out-of-sample self-confidence": lambda one: one["ap"]["self-confidence"],
    "AP, combined": lambda one: one["ap"]["combined"],
    "AP after the first count, of what is not decided": lambda one: one["contenders"][LOOP][0]["ap"],
    "AP after the last count, of what is not decided": lambda one: one["contenders"][LOOP][-1]["ap"],
    "calibration error after the last count": lambda one: one["contenders"][LOOP][-1]["calibration_error"],
    "share of wrong labels left by decisions alone": lambda one: (
        one["contenders"][LOOP][-1]["left_by_decisions"] / max(one["num_wrong"], 1)
    ),
    "estimate of wrong labels left / true": lambda one: (
        one["contenders"][LOOP][-1]["estimate"][0] / max(one["contenders"][LOOP][-1]["left_by_decisions"], 1)
    ),
    "labels broken without asking, expected": lambda one: one["contenders"][LOOP][-1]["auto"]["broken"],
}


def _value(task: SeedResult, name: str, key: str, place: int) -> float | None:
    loop, number = task["contenders"][LOOP][place], task["num_wrong"]
    if key == "left":
        if name in ("noisy labels", "true labels"):
            return 1.0 if name == "noisy labels" else 0.0
        found = task["contenders"].get(name)
        return None if found is None else found[place]["left"] / max(number, 1)
    if key == "read":
        return task["contenders"][name][place]["read"] if name in task["contenders"] else None
    ends = {"noisy labels": task["f1"]["noisy"], "true labels": task["f1"]["true"],
            "noisy, then trusted": loop["f1_noisy_then_trusted"],
            "this loop, fixed, then trusted": loop["f1_fixed_then_trusted"]}  # fmt: skip
    return ends[name] if name in ends else task["contenders"][name][place].get("f1")


def _cell(values: Sequence[float | None], digits: int) -> str:
    known = [value for value in values if value is not None]
    return f"{fmean(known):.{digits}f}" if known else "-"


def headlines(results: Sequence[SeedResult]) -> list[Headline]:
    """Labels removed, relative to cleanlab's order; AP relative to self-confidence, geometric means over tasks."""
    tasks = [one for result in results for one in result["tasks"].values()]
    removed = [
        max(one["num_wrong"] - one["contenders"][LOOP][-1]["left"], 1)
        / max(one["num_wrong"] - one["contenders"]["cleanlab"][-1]["left"], 1)
        for one in tasks
    ]
    precision = [one["ap"]["combined"] / max(one["ap"]["self-confidence"], 1e-9) for one in tasks]
    errors = [one["contenders"][LOOP][-1]["calibration_error"] for one in tasks]
    return [
        Headline("wrong labels removed, times cleanlab's order", "-", f"{_geometric(removed):.2f}"),
        Headline("AP without a decision, times self-confidence", "-", f"{_geometric(precision):.2f}"),
        Headline("largest calibration error", "-", f"{max(errors):.3f}"),
    ]


def _geometric(values: Sequence[float]) -> float:
    return exp(fmean(log(max(value, 1e-9)) for value in values))


def draw(results: Sequence[SeedResult], folder: Path) -> list[Path]:
    """The share of wrong labels left for each contender and task, after the last count."""
    first = results[0]["tasks"]
    names = list(next(iter(first.values()))["contenders"])
    bars = {
        task: {
            name: [_value(one["tasks"][task], name, "left", -1) or 0.0 for one in results] for name in names
        }
        for task in first
    }  # fmt: skip
    title = f"Wrong labels left after {results[0]['options']['counts'][-1]} decisions"
    return draw_bars(folder / "loop", bars, title=title, y="share of the wrong labels", digits=2)


def check(results: Sequence[SeedResult]) -> list[str]:
    """The loop must leave no more wrong labels than there were, nor than random sentences leave."""
    lines: list[str] = []
    for result in results:
        for name, one in result["tasks"].items():
            left = one["contenders"][LOOP][-1]["left"]
            if left > min(one["num_wrong"], one["contenders"]["random sentences"][-1]["left"]):
                lines.append(f"{name}, seed {result['seed']}: {left} wrong labels left of {one['num_wrong']}")
    return lines
