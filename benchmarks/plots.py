"""Draw the figures, and write the table, of docs/benchmarks.md from benchmarks/results/peers.json.

    python benchmarks/plots.py

writes docs/benchmark-fidelity.svg and docs/benchmark-cost.svg, and the lines between the two markers in the page.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

ROOT = Path(__file__).parents[1]
START, END = "<!-- peers: written by benchmarks/plots.py -->", "<!-- end of peers -->"
NAMES = {
    "tagtrace_built": "tagtrace, index built",
    "tagtrace_refitted": "tagtrace, index built and head refit",
    "tagtrace_given": "tagtrace, index given",
    "kronfluence_ekfac": "kronfluence EK-FAC",
    "pydvl_direct": "pyDVL direct",
    "dattri_cg_10": "dattri CG, 10 steps",
    "dattri_cg_50": "dattri CG, 50 steps",
    "dattri_explicit": "dattri explicit",
    "captum_naive": "captum naive",
}
COLOURS = dict(
    zip(
        NAMES,
        ("#000000", "#000000", "#7a7a7a", "#0072b2", "#d55e00", "#56b4e9", "#009e73", "#cc79a7", "#e69f00"),
        strict=True,
    )
)
MARKERS = dict(zip(NAMES, "oosD^<vPx", strict=True))
NOT_DRAWN = ("tagtrace_refitted",)
"""Its points lie on those of ``tagtrace_built``."""
STYLE: dict[Any, Any] = {
    "font.size": 9, "axes.titlesize": 9, "legend.fontsize": 8, "axes.spines.top": False, "axes.spines.right": False,
    "svg.fonttype": "none", "svg.hashsalt": "tagtrace",
}  # fmt: skip
SHOWN = (20_000, 200_000)

Sizes = dict[int, dict[str, Any]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results" / "peers.json")
    parser.add_argument("--docs", type=Path, default=ROOT / "docs")
    arguments = parser.parse_args()
    results = json.loads(arguments.results.read_text(encoding="utf-8"))
    sizes: Sizes = {int(size): found for size, found in sorted(results["sizes"].items(), key=lambda one: int(one[0]))}
    with rc_context(STYLE):
        draw_fidelity(sizes, arguments.docs / "benchmark-fidelity.svg")
        draw_cost(sizes, arguments.docs / "benchmark-cost.svg")
    page = arguments.docs / "benchmarks.md"
    text = page.read_text(encoding="utf-8")
    before, after = text[: text.index(START)], text[text.index(END) :]
    page.write_text(f"{before}{START}\n\n{table(sizes)}\n{where(results, sizes)}\n\n{after}", encoding="utf-8")


# Figures


def draw_fidelity(sizes: Sizes, path: Path) -> None:
    """Spearman with the exact formula against CPU seconds: the mean as a marker, a line down to the smallest query."""
    shown = [size for size in SHOWN if size in sizes]
    figure = Figure(figsize=(7.8, 3.4), layout="constrained")
    axes = figure.subplots(1, len(shown), sharey=True, squeeze=False)[0]
    for one, size in zip(axes, shown, strict=True):
        for name, row in measured(sizes[size]).items():
            mean, smallest = row["mean_spearman"], row["smallest_spearman"]
            one.plot([row["cpu_seconds"]] * 2, [smallest, mean], color=COLOURS[name], linewidth=0.8)
            mark(one, name, [row["cpu_seconds"]], [mean])
        one.set(xscale="log", xlabel="CPU seconds, one thread", title=f"{size:,} tokens, 50 queries")
        plain_numbers(one.xaxis)
        one.margins(x=0.1)
    axes[0].set_ylabel("Spearman with the exact formula\n(mean; line: to the smallest query)")
    save(figure, path)


def draw_cost(sizes: Sizes, path: Path) -> None:
    """CPU seconds and memory against the number of tokens, for libraries that ran at two sizes or more."""
    figure = Figure(figsize=(7.8, 3.4), layout="constrained")
    axes = figure.subplots(1, 2)
    for one, key, label in zip(
        axes, ("cpu_seconds", "memory_mb"), ("CPU seconds, one thread", "peak memory, MB"), strict=True
    ):
        for name in NAMES:
            points = [(size, rows[name][key]) for size in sizes if name in (rows := measured(sizes[size]))]
            if len(points) > 1:
                mark(one, name, [size for size, _ in points], [value for _, value in points])
        one.set(xscale="log", yscale="log", xlabel="training tokens", ylabel=label)
        one.set_xticks(list(sizes), [f"{size:,}" for size in sizes])
        one.xaxis.minorticks_off()
        plain_numbers(one.yaxis)
    save(figure, path)


def measured(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The rows that have figures and are drawn."""
    rows = found["libraries"]
    return {name: rows[name] for name in NAMES if name not in NOT_DRAWN and "seconds" in rows.get(name, {})}


def mark(axes: Axes, name: str, x: list[float], y: list[float]) -> None:
    axes.plot(x, y, color=COLOURS[name], marker=MARKERS[name], markersize=5, linewidth=1.0, label=NAMES[name])


def plain_numbers(axis: Axis) -> None:
    """1, 2, 5, 10, ... instead of powers of ten."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(StrMethodFormatter("{x:,g}"))
    axis.set_minor_formatter(NullFormatter())


def save(figure: Figure, path: Path) -> None:
    handles = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.legend(handles.values(), handles, loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(path, metadata={"Date": None, "Creator": None})
    text = "\n".join(line.rstrip() for line in path.read_text(encoding="utf-8").splitlines())
    path.write_text(text + "\n", encoding="utf-8")


# Table


def table(sizes: Sizes) -> str:
    """Both sizes, one library per row."""
    lines = [
        "| tokens | library | seconds (CPU) | ratio | peak memory | ratio | Spearman: mean, smallest |",
        "|--:|---|--:|--:|--:|--:|---|",
    ]
    for size in (size for size in SHOWN if size in sizes):
        rows = sizes[size]["libraries"]
        lines += [f"| {size:,} | {NAMES[name]} | {cells(rows[name])} |" for name in NAMES if name in rows]
    return "\n".join(lines) + "\n"


def cells(row: dict[str, Any]) -> str:
    if "seconds" not in row:
        return f"{row['skipped']} | | | |"
    ratio = row.get("times_tagtrace", {})
    spearman = f"{row['mean_spearman']:.4f}, {row['smallest_spearman']:.4f}"
    times = [f"{ratio[key]:.2f}" if key in ratio else "" for key in ("cpu_seconds", "memory")]
    seconds = f"{row['seconds']:,.1f} ({row['cpu_seconds']:,.1f})"
    return f"{seconds} | {times[0]} | {row['memory_mb']:,.0f} MB | {times[1]} | {spearman}"


def where(results: dict[str, Any], sizes: Sizes) -> str:
    """The machine, how busy it was, and the versions."""
    shown = [found for size, found in sizes.items() if size in SHOWN]
    rows = [row for found in shown for row in found["libraries"].values()]
    loads = [row["load_average"] for row in rows if "load_average" in row]
    versions = {package: number for row in rows for package, number in row.get("versions", {}).items()}
    times = sorted(row["started_utc"] for row in rows if "started_utc" in row)
    accuracy = " and ".join(f"{found['workload']['train_accuracy']:.1%}" for found in shown)
    return (
        f"{results['machine']['cpu']}, one thread; load average before each run {min(loads):.1f} to {max(loads):.1f}; "
        f"runs started from {times[0]} to {times[-1]} UTC. "
        f"Versions: {', '.join(f'{package} {number}' for package, number in sorted(versions.items()))}. "
        f"Accuracy of the head on its training tokens: {accuracy}."
    )


if __name__ == "__main__":
    main()
