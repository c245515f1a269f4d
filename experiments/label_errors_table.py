"""Write docs/label_errors.md from the results of ``label_errors.py``.

    python experiments/label_errors_table.py experiments/results/label_errors

Reads TASK-SEED.json, fix-SEED-BY.json and, if present, TASK-SEED.safetensors (probabilities, too large for the
repository). From the probabilities cleanlab computes its own scores, which are kept in TASK-SEED.cleanlab.json.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from safetensors.torch import load_file

from tagtrace.findings import average_precision, recall_at
from tagtrace.reproduce.loop.orders import cleanlab_scores
from tagtrace.reproduce.shared.tables import spread

PAGE = Path(__file__).parent.parent / "docs/label_errors.md"
METHODS = ("self_confidence", "normalized_margin")
COUNTS = (100, 500, 1000)
INTRODUCTION = """# Label errors found

The tables show how well each ranking finds label errors: mean and standard deviation over seeds (of training, folds and
trusted documents), for DistilBERT with a CRF and five folds. The page is written by
`python experiments/label_errors_table.py experiments/results/label_errors` from the results of
`experiments/label_errors.sh`. The tasks are described in
[experiments/error_tasks.py](../experiments/error_tasks.py), the rankings in [findings.md](findings.md).

- `base`: taggers that have seen training labels only; `taught`: taggers that have also learned from all trusted
  sentences; `taught10`: from ten trusted documents.
- `in` and `out`: in sample and out of sample.
- `mean`, `max` and `top`: the score of a document is the mean, the largest, or the mean of the ten largest scores of
  its tokens. Documents of 800 tokens or more are left out, as in the paper.
- `cleanlab`: scores computed by cleanlab from the out-of-sample probabilities of taggers that have seen training labels
  only (`out`), and from the probabilities that the combined ranking is based on (`mean`).
- `query`: the probability that a token labelled LOC is ORG.
- The documents of a pattern are ordered by the sum of the confidence of its findings in each document.

In the table of gains, a reviewer who knows the corrected labels looks at 200 places (`all`: everywhere) and corrects
the errors there; then the tagger is trained again. The gain is relative to the training with the same seed on
uncorrected labels, as mean and standard error. `combined` uses taggers taught by the validation set, `cleanlab` taggers
that have seen training labels only, and `cleanlab-taught` cleanlab's score on the out-of-sample probabilities of
taggers taught by the validation set.
"""
HEADINGS = {
    "reiss tokens": "Reiss et al.'s errors: tokens",
    "reiss documents": "Reiss et al.'s errors: documents",
    "reiss findings": "Reiss et al.'s errors: findings",
    "noise tokens": "The paper's noise: tokens",
    "noise documents": "The paper's noise: documents",
    "noise findings": "The paper's noise: findings",
    "fix": "What fixing 200 places gains",
    "wnut17 tokens": "WNUT 2017 with planted errors (design): tokens",
    "wnut17 documents": "WNUT 2017 with planted errors (design): runs of five sentences",
    "wnut17 findings": "WNUT 2017 with planted errors (design): findings",
    "ncbi tokens": "NCBI disease with planted errors (design): tokens",
    "ncbi documents": "NCBI disease with planted errors (design): runs of five sentences",
    "ncbi findings": "NCBI disease with planted errors (design): findings",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    for path in sorted(folder.glob("*.safetensors")):
        path.with_suffix(".cleanlab.json").write_text(json.dumps(run_cleanlab(path), indent=1) + "\n")
    found = tables(folder)
    parts = [f"## {heading}\n\n{found[name]}" for name, heading in HEADINGS.items() if name in found]
    PAGE.write_text("\n".join([INTRODUCTION, *parts]), encoding="utf-8")


def run_cleanlab(path: Path) -> dict[str, dict[str, float]]:
    """How well cleanlab's token scores find wrong tokens, on out-of-sample probabilities and on the mean opinion."""
    arrays = load_file(path)
    found: dict[str, dict[str, float]] = {}
    for kind in ("out", "mean"):
        for method in METHODS:
            values = -cleanlab_scores(arrays["given"], arrays[kind], arrays["lengths"], method)
            recalls = {f"recall@{k}": recall_at(values, arrays["wrong"], k) for k in COUNTS}
            found[f"{method}, {kind}"] = {"ap": average_precision(values, arrays["wrong"]), **recalls}
    return found


def tables(folder: Path) -> dict[str, str]:
    """All tables of the page, by name."""
    found: dict[str, str] = {}
    for task in ("wnut17", "ncbi", "reiss", "noise"):
        runs = [json.loads(path.read_text()) for path in sorted(folder.glob(f"{task}-[0-9]*.json")) if _is_run(path)]
        labs = [json.loads(path.read_text()) for path in sorted(folder.glob(f"{task}-*.cleanlab.json"))]
        if runs:
            found |= {f"{task} tokens": token_table(runs, labs), f"{task} documents": document_table(runs)}
            found |= {f"{task} findings": findings_table(runs)}
    fixes = [json.loads(path.read_text()) for path in sorted(folder.glob("fix-*.json"))]
    return found | ({"fix": fix_table(fixes)} if fixes else {})


def _is_run(path: Path) -> bool:
    return ".cleanlab" not in path.name


def token_table(runs: Sequence[dict[str, Any]], labs: Sequence[dict[str, Any]]) -> str:
    lines = ["| ranking | AP | recall at 100 | 500 | 1,000 |", "|---|---|---|---|---|"]
    rows = {name: [run["scores"][name]["tokens"] for run in runs] for name in runs[0]["scores"]}
    rows |= {f"cleanlab {name}": [lab[name] for lab in labs] for name in (labs[0] if labs else ())}
    for name, values in rows.items():
        cells = [spread(one[key] for one in values) for key in ("ap", *(f"recall@{k}" for k in COUNTS))]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def document_table(runs: Sequence[dict[str, Any]]) -> str:
    first = next(iter(runs[0]["scores"].values()))["documents"]
    counts = [key for key in next(iter(first.values())) if key != "ap"]
    lines = [f"| ranking | documents | AP | {' | '.join(counts)} |", "|---|---|---|" + "---|" * len(counts)]
    for name in runs[0]["scores"]:
        for kind in first:
            values = [run["scores"][name]["documents"][kind] for run in runs]
            lines.append(
                f"| {name} | {kind} | {' | '.join(spread(one[key] for one in values) for key in ('ap', *counts))} |"
            )
    return "\n".join(lines) + "\n"


def findings_table(runs: Sequence[dict[str, Any]]) -> str:
    lines = [
        "| seed | asked for | findings wrong in the first 50, 100, 200, 500, 1,000 | first pattern "
        "| wrong of its segments | of its first 20 documents | of all its documents |",
        "|---|---|---|---|---|---|---|",
    ]
    for run in runs:
        lines.append(f"| {run['seed']} | everything | {findings_cells(run)} |")
        if "query" in run:
            lines.append(f"| {run['seed']} | the query | {findings_cells(run['query'])} |")
    return "\n".join(lines) + "\n"


def findings_cells(found: dict[str, Any]) -> str:
    counts = ", ".join(map(str, found["findings_wrong"].values()))
    if not found["patterns"]:
        return f"{counts} | none | | |"
    first, documents = found["patterns"][0], found.get("first_pattern_documents", {})
    described = f"{first['change']}, {' '.join(first['condition'] or ['anywhere'])}"
    shares = [
        ", ".join(f"{number} {kind}" for kind, number in sorted(documents.get(part, {}).items()))
        for part in ("of_first_20", "of_all")
    ]
    if not documents.get("planted"):  # of a document it is only known that some of its tokens are wrong
        shares = ["", f"{first['documents']}"]
    return f"{counts} | {described} | {first['wrong']} of {first['segments']} | {' | '.join(shares)}"


def fix_table(fixes: Sequence[dict[str, Any]]) -> str:
    """F1, and the gain over the training with the same seed on uncorrected labels: mean and its standard error."""
    before = {(fix["seed"], fix["again"]): fix for fix in fixes if fix["by"] == "none"}
    lines = [
        "| places chosen by | trainings | labels changed | F1 validation_corrected | gain | F1 test_corrected | gain |",
        "|---|---|---|---|---|---|---|",
    ]
    for by in ("none", "random", "cleanlab", "cleanlab-taught", "combined", "all"):
        some = [fix for fix in fixes if fix["by"] == by]
        if not some:
            continue
        cells = [by, str(len(some)), spread((fix["changed"] for fix in some), 0)]
        for split in ("validation", "test"):
            gains = [100 * (fix[split] - before[fix["seed"], fix["again"]][split]) for fix in some]
            cells.append(spread((100 * fix[split] for fix in some), 2))
            cells.append("" if by == "none" else f"{mean(gains):+.2f} ± {stdev(gains) / len(gains) ** 0.5:.2f}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
