"""Auto: the findings to apply without asking, as far as that is expected to lower the number of wrong labels.

Applying a finding fixes its labels with probability r (the proposed labels are right) and breaks them with probability
b (the given labels are right); otherwise they are wrong before and after. Those with r > b are taken, the least b
first, as long as no more than a share ``risk`` of all changed labels is expected to be broken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from tagtrace._checks import OptionError
from tagtrace.findings.finding import Finding
from tagtrace.findings.fix import Change
from tagtrace.findings.teaching.asking import num_changed
from tagtrace.findings.teaching.teach import Taught

RISK = 0.2
"""Share of the changed labels that may be expected to be broken."""
LEAST = 0.5
"""Proposed labels must be at least this probable."""


@dataclass(frozen=True)
class Auto:
    """Findings to apply, and what is expected of that."""

    findings: list[Finding]
    num_labels: int
    """Labels that change."""
    num_fixed: float
    num_broken: float

    def changes(self) -> list[Change]:
        """As ``fix`` makes them."""
        return [Change.of(one) for one in self.findings]

    def __str__(self) -> str:
        if not self.findings:
            return "no finding is sure enough to be applied without asking"
        return (
            f"{len(self.findings):,} findings are applied: of {self.num_labels:,} changed labels about "
            f"{self.num_fixed:,.0f} should become right and about {self.num_broken:,.0f} wrong that were right"
        )


def choose_auto(taught: Taught, risk: float = RISK) -> Auto:
    """The findings to apply without asking; none with a token that was decided."""
    if not 0 <= risk < 1:
        raise OptionError(f"risk {risk}: must be at least 0 and below 1")
    broken, fixed = 1.0 - taught.wrong.probabilities, taught.wrong.probabilities * taught.right.probabilities
    sizes = num_changed(taught.findings)
    is_worth = (fixed > broken) & (fixed >= LEAST) & ~taught.is_touched & (sizes > 0)
    order = broken.argsort(stable=True)
    order = torch.tensor(_apart(taught.findings, order[is_worth[order]].tolist()), dtype=torch.long)
    labels = sizes[order].cumsum(0)
    share = (sizes * broken)[order].cumsum(0) / labels.clamp(min=1.0)  # rises
    order = order[share <= risk]
    chosen = [taught.findings[i] for i in order.tolist()]
    return Auto(
        chosen, int(sizes[order].sum()), float((sizes * fixed)[order].sum()), float((sizes * broken)[order].sum())
    )


def _apart(findings: Sequence[Finding], places: Sequence[int]) -> list[int]:
    """Of findings that share a token, only the first of ``places``."""
    taken, found = set[tuple[int, int]](), list[int]()
    for place in places:
        tokens = {(findings[place].sentence_number, t) for t in range(findings[place].start, findings[place].stop)}
        if taken.isdisjoint(tokens):
            taken |= tokens
            found.append(place)
    return found
