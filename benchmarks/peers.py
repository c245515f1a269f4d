"""tagtrace compared with other libraries: time, memory and fidelity of the influence of all tokens on 50 queries.

    python benchmarks/peers.py --peers-python .venv-peers/bin/python
    python benchmarks/peers.py --peers-python .venv-peers/bin/python --only pydvl_direct tagtrace_given --sizes 20000

The second command runs a part again and keeps the other results. ``make bench`` also installs the libraries and draws
the figures. Each library runs in a process of its own with one thread and gets the same softmax workload
(``peers/workload.py``); its influences are compared with the exact formula in float64. Seconds include the curvature
and the scores, not imports or reading the inputs; memory is the peak on top of the inputs. A library that needs more
than 10 CPU minutes or 16 GB is stopped, and the results say so. docs/benchmarks.md explains the figures.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "peers"))

import workload as softmax  # noqa: E402  # pyright: ignore[reportMissingImports]

LIBRARIES: dict[str, list[str]] = {
    "tagtrace_built": ["tagtrace_engine.py", "built"],
    "tagtrace_refitted": ["tagtrace_engine.py", "refitted"],
    "tagtrace_given": ["tagtrace_engine.py", "given"],
    "kronfluence_ekfac": ["kronfluence_ekfac.py"],
    "pydvl_direct": ["pydvl_direct.py"],
    "dattri_cg_10": ["dattri_cg.py", "10"],
    "dattri_cg_50": ["dattri_cg.py", "50"],
    "dattri_explicit": ["dattri_explicit.py"],
    "captum_naive": ["captum_naive.py"],
}
"""The script and its arguments; ``tagtrace_given`` uses the index that the two rows before it leave."""
BASIS = "tagtrace_built"
"""What ratios are relative to: like the other libraries, it starts from features, labels and a head."""
MAX_SECONDS, MAX_BYTES = 600, 16 * 10**9
SIZES = (2_000, 20_000, 60_000, 200_000)
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")

Row = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers-python", default=".venv-peers/bin/python", help="Python that has the other libraries")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="numbers of tokens, multiples of 20")
    parser.add_argument("--only", nargs="+", choices=LIBRARIES, default=list(LIBRARIES), metavar="LIBRARY")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "peers.json")
    parser.add_argument("--not-run", metavar="REASON", help="do not run these libraries, and say why in the results")
    arguments = parser.parse_args()
    results = json.loads(arguments.out.read_text()) if arguments.out.exists() else {"sizes": {}}
    results |= {"machine": machine(), "limits": {"cpu_seconds": MAX_SECONDS, "memory_mb": MAX_BYTES / 1e6}}
    for size in sorted(arguments.sizes):
        found = results["sizes"].setdefault(str(size), {"libraries": {}})
        failing = {name: expected_to_fail(name, size, results["sizes"]) for name in needed(arguments.only)}
        if arguments.not_run:
            failing = {name: {"skipped": f"not run: {arguments.not_run}"} for name in arguments.only}
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            if None in failing.values():
                found["workload"] = prepare(folder, size)
            for name, failed in failing.items():
                found["libraries"][name] = failed or run(name, folder, arguments.peers_python)
                print(size, name, json.dumps(found["libraries"][name]), flush=True)
                add_ratios(found["libraries"])
                arguments.out.parent.mkdir(parents=True, exist_ok=True)
                arguments.out.write_text(json.dumps(results, indent=1) + "\n")


def needed(names: list[str]) -> list[str]:
    """The libraries in order, with the one that makes the index for ``tagtrace_given``."""
    both = {*names, BASIS} if "tagtrace_given" in names else {*names}
    return [name for name in LIBRARIES if name in both]


def machine() -> Row:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")
    return {"cpu": model, "cores": os.cpu_count(), "python": platform.python_version(), "threads": 1}


def prepare(folder: Path, size: int) -> Row:
    """Write the workload and the exact influences (Q, N) to ``folder``."""
    work = softmax.make_workload(size)
    work.save(folder)
    np.save(folder / "exact.npy", softmax.exact_influences(work))
    return softmax.describe(work)


def expected_to_fail(name: str, size: int, sizes: dict[str, Any]) -> Row | None:
    """Why a library is not run: it was stopped at a smaller size, or two smaller sizes show that it takes too long."""
    rows = {int(one): found["libraries"][name] for one, found in sizes.items() if name in found["libraries"]}
    for smaller in sorted(one for one in rows if one < size):
        if "seconds" not in rows[smaller]:
            return {"skipped": f"not run; at {smaller:,} tokens: {rows[smaller]['skipped']}"}
    last = sorted(one for one in rows if one < size)[-2:]
    limits = {"cpu_seconds": (1.2 * MAX_SECONDS, "CPU seconds"), "memory_mb": (1.2 * MAX_BYTES / 1e6, "MB")}
    too_much = []
    for key, (most, unit) in limits.items() if len(last) == 2 else ():
        (n, m), (before, after) = last, (rows[one][key] for one in last)
        expected = after + (after - before) * (size - m) / (m - n)  # a constant part and one linear in N
        if expected > most:
            too_much.append(f"about {expected:,.0f} {unit}")
    if not too_much:
        return None
    return {"skipped": f"not run: {' and '.join(too_much)} expected from smaller sizes"}


def run(name: str, folder: Path, peers_python: str) -> Row:
    """The figures of one library in a process of its own, and its fidelity."""
    script, *rest = LIBRARIES[name]
    python = sys.executable if name.startswith("tagtrace") else peers_python
    command = [python, str(HERE / "peers" / script), str(folder), *rest]
    load, started = os.getloadavg()[0], time.strftime("%Y-%m-%d %H:%M", time.gmtime())
    row: Row = {"load_average": round(load, 2), "started_utc": started}
    try:
        done = subprocess.run(
            command,
            check=False,
            capture_output=True,
            text=True,
            env={**os.environ, **ONE_THREAD},
            timeout=3 * MAX_SECONDS,  # for a process that waits
            preexec_fn=limit,
        )
    except subprocess.TimeoutExpired:
        return {**row, "skipped": f"stopped after {3 * MAX_SECONDS} s, with other load on the machine"}
    if done.returncode == -signal.SIGXCPU:
        return {**row, "skipped": f"stopped after {MAX_SECONDS} CPU seconds"}
    if done.returncode != 0:
        return {**row, "skipped": reason(done.stderr)}
    row |= json.loads(done.stdout.splitlines()[-1])
    scores = folder / f"scores-{name}.npy"
    fidelity = softmax.spearman(np.load(scores, allow_pickle=False), np.load(folder / "exact.npy", allow_pickle=False))
    scores.unlink()
    row |= {"mean_spearman": round(float(fidelity.mean()), 6), "smallest_spearman": round(float(fidelity.min()), 6)}
    return row


def limit() -> None:
    """Limit this process; 30 s are for imports and reading the inputs, which are not counted."""
    resource.setrlimit(resource.RLIMIT_DATA, (MAX_BYTES, MAX_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_SECONDS + 30, MAX_SECONDS + 60))


def reason(stderr: str) -> str:
    """Why a library failed, without paths of this machine."""
    memory = ("allocate memory", "MemoryError", "bad_alloc", "Cannot allocate")
    if any(words in stderr for words in memory):
        return f"needs more than {MAX_BYTES / 1e9:.0f} GB"
    last = next((line for line in reversed(stderr.splitlines()) if line.strip()), "it failed without a message")
    return re.sub(r"/\S+", "...", last)[:200]


def add_ratios(rows: dict[str, Row]) -> None:
    """Time and memory relative to tagtrace."""
    basis = rows.get(BASIS, {})
    for row in rows.values():
        if "seconds" in row and "seconds" in basis:
            row["times_tagtrace"] = {
                "seconds": round(row["seconds"] / basis["seconds"], 3),
                "cpu_seconds": round(row["cpu_seconds"] / basis["cpu_seconds"], 3),
                "memory": round(row["memory_mb"] / basis["memory_mb"], 3),
            }


if __name__ == "__main__":
    main()
