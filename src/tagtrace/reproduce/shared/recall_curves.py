"""How soon a ranking of documents finds the wrong ones: ranks, curves, and the measures of a table."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from statistics import mean

import torch
from torch import Tensor

from tagtrace.findings import average_precision, recall_at
from tagtrace.reproduce.shared.experiment import SeedResult
from tagtrace.reproduce.shared.tables import markdown, spread

COUNTS = (20, 50, 100, 122)
"""The numbers of documents at which recall is reported; 122 documents have errors in section 6.1."""

CHANCE = "chance"


def ranks(scores: Tensor, wrong: Tensor) -> list[int]:
    """The ranks, from 1, of the wrong documents (K,) by ``scores`` (K,); equal scores keep the order of the data.

    Everything below is computed from these ranks, so that a curve of K numbers is kept as one number for each wrong
    document.

    >>> ranks(torch.tensor([0.1, 0.9, 0.5]), torch.tensor([True, True, False]))
    [1, 3]
    """
    order = scores.argsort(descending=True, stable=True)
    return (wrong[order].nonzero().squeeze(1) + 1).tolist()


def curve(found_at: Sequence[int], num_documents: int) -> list[float]:
    """The fraction of the wrong documents that are among the first x, for x = 1..num_documents.

    >>> curve([1, 3], 4)
    [0.5, 0.5, 1.0, 1.0]
    """
    return [round(bisect_right(found_at, x) / len(found_at), 4) for x in range(1, num_documents + 1)]


def area(found_at: Sequence[int], num_documents: int) -> float:
    """The mean of the curve: almost 1 at best (``best``), about 1/2 by chance (``chance_area``).

    >>> area([1, 3], 4)
    0.75
    """
    return mean((num_documents - rank + 1) / num_documents for rank in found_at)


def chance_area(num_documents: int) -> float:
    """The area of the curve x / K."""
    return (num_documents + 1) / (2 * num_documents)


def measures(found_at: Sequence[int], num_documents: int) -> dict[str, float]:
    """The measures of one ranking."""
    scores, wrong = _ranking(found_at, num_documents)
    recalls = {f"recall at {count}": recall_at(scores, wrong, count) for count in COUNTS}
    return {"area": area(found_at, num_documents), "AP": average_precision(scores, wrong), **recalls}


def chance(num_wrong: int, num_documents: int) -> dict[str, float]:
    """The expected measures of a random order (for AP, approximately)."""
    recalls = {f"recall at {count}": min(count / num_documents, 1.0) for count in COUNTS}
    return {"area": chance_area(num_documents), "AP": num_wrong / num_documents, **recalls}


def best(num_wrong: int, num_documents: int) -> dict[str, float]:
    """The measures of an order with all wrong documents first."""
    return measures(range(1, num_wrong + 1), num_documents)


def curve_table(results: Sequence[SeedResult]) -> str:
    """A table of methods by measures, mean and spread over ``results``, which have ``num_documents`` and ``ranks``."""
    rows = {name: [measures(one["ranks"][name], one["num_documents"]) for one in results] for name in methods(results)}
    rows["at best"] = [best(num_wrong(one), one["num_documents"]) for one in results]
    rows[CHANCE] = [chance(num_wrong(one), one["num_documents"]) for one in results]
    header = ["method", *next(iter(rows.values()))[0]]
    return markdown(header, [[name, *_cells(values)] for name, values in rows.items()])


def mean_curves(results: Sequence[SeedResult], names: Sequence[str]) -> dict[str, list[float]]:
    """The curves of some methods and of chance, averaged over ``results``."""
    size = min(one["num_documents"] for one in results)
    found = dict[str, list[float]]()
    for name in names:
        each = [curve(one["ranks"][name], one["num_documents"])[:size] for one in results]
        found[name] = [round(mean(values), 4) for values in zip(*each, strict=True)]
    return found | {CHANCE: [round(x / size, 4) for x in range(1, size + 1)]}


def mean_area(results: Sequence[SeedResult], name: str) -> float:
    """The area of a method, or of ``chance``, averaged over ``results``."""
    if name == CHANCE:
        return mean(chance_area(one["num_documents"]) for one in results)
    return mean(area(one["ranks"][name], one["num_documents"]) for one in results)


def mean_precisions(results: Sequence[SeedResult], names: Sequence[str]) -> str:
    """AP of some methods and of chance, mean and spread over ``results``: "token loss, mean 0.343 ± 0.015; ..."."""
    precisions = [
        f"{name} {spread(measures(one['ranks'][name], one['num_documents'])['AP'] for one in results)}"
        for name in names
    ]
    by_chance = mean(chance(num_wrong(one), one["num_documents"])["AP"] for one in results)
    return "; ".join([*precisions, f"{CHANCE} {by_chance:.3f}"])


def not_above(
    results: Sequence[SeedResult], better: str, worse: str, margin: float = 0.0, where: str = ""
) -> list[str]:
    """One line if the area of ``better`` is not above that of ``worse`` by more than ``margin``, otherwise none."""
    above, below = mean_area(results, better), mean_area(results, worse)
    if above > below + margin:
        return []
    by = f" by more than {margin:.2f}" if margin else ""
    return [f"{where}the area of {better} ({above:.3f}) is not above that of {worse} ({below:.3f}){by}"]


def methods(results: Sequence[SeedResult]) -> list[str]:
    """The methods that all ``results`` have, in the order of the first."""
    return [name for name in results[0]["ranks"] if all(name in one["ranks"] for one in results)]


def num_wrong(found: Mapping[str, dict[str, list[int]]]) -> int:
    return len(next(iter(found["ranks"].values())))


def _cells(values: Sequence[Mapping[str, float]]) -> list[str]:
    return [spread(one[name] for one in values) for name in values[0]]


def _ranking(found_at: Sequence[int], num_documents: int) -> tuple[Tensor, Tensor]:
    """Descending scores (K,), and whether the document of each is wrong, (K,)."""
    wrong = torch.zeros(num_documents, dtype=torch.bool)
    wrong[torch.tensor(found_at) - 1] = True
    return -torch.arange(num_documents, dtype=torch.float64), wrong
