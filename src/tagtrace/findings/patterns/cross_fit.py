"""Cross-fitting: a pattern is judged on trusted documents that its proposals were not learned from.

Judges that have learned from trusted sentences propose what these say, so the effect of their proposals on the same
sentences is always good. The trusted documents are therefore split into two halves. For each half, a head is refitted
with the other half only; those of its proposals that make the pattern's change under the pattern's condition are the
edits whose effect on this half is measured. Nothing in them was learned from the sentences that judge them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from tagtrace._checks import OptionError
from tagtrace.findings.finding import Finding
from tagtrace.findings.judges.folds import assign_folds, document_numbers, taught_head
from tagtrace.findings.judges.probabilities import in_sample
from tagtrace.findings.patterns.changes import meeting
from tagtrace.findings.patterns.conditions import NumberedText
from tagtrace.findings.patterns.group_effect import GroupEffect, TrustedPart, joint_effect, pattern_edits
from tagtrace.findings.patterns.pattern import Pattern
from tagtrace.findings.ranking.proposals import propose
from tagtrace.findings.ranking.suspicion import suspicion
from tagtrace.findings.ranking.trusted import Trusted
from tagtrace.influence import Explainer

TOLERANCE = 1e-2
"""For max |gradient| of the refitted heads: their proposals are the same at 1e-4."""


@dataclass(frozen=True)
class CrossFit:
    """Two halves of the trusted data, each to be judged by what was learned from the other."""

    text: NumberedText
    trusted: Trusted
    most: int = 1000
    """Maximum number of findings of each head."""
    seed: int = 0

    def effect(self, explainer: Explainer, pattern: Pattern, earlier: Sequence[Pattern] = ()) -> GroupEffect:
        """The effect of fixing a pattern, verified by retraining.

        ``earlier`` are the patterns with lower numbers: what they explain belongs to them. Raises OptionError if
        neither head proposes the pattern.
        """
        parts = [self._judged(half, pattern, earlier) for half in (0, 1)]
        if not any(part.edits for part in parts):
            raise OptionError("heads that learned from one half of the trusted data do not propose it; give more of it")
        return joint_effect(explainer, parts, verify=True)

    def _judged(self, half: int, pattern: Pattern, earlier: Sequence[Pattern]) -> TrustedPart:
        """One half, with the proposals for a pattern that were learned from the other half."""
        found = [one for one in self._findings[half] if one.change == pattern.change]
        for other in earlier:
            if other.change == pattern.change and other.condition is not None:
                gone = {one.rank for one in meeting(self.text, found, other.condition)}
                found = [one for one in found if one.rank not in gone]
        if pattern.condition is not None:
            found = meeting(self.text, found, pattern.condition)
        numbers = (self._half == half).nonzero().squeeze(1)
        documents = document_numbers(self._documents)[numbers]
        return TrustedPart(self.trusted.rows.take(numbers), documents, pattern_edits(self.text.index, found))

    @property
    def _documents(self) -> Sequence[str]:
        return self.trusted.documents or [""] * len(self.trusted.rows.lengths)

    @cached_property
    def _half(self) -> Tensor:
        """The half of each trusted sentence, (B,)."""
        return assign_folds(self._documents, 2, self.seed)

    @cached_property
    def _findings(self) -> list[list[Finding]]:
        """For each half, the likely findings of a head that learned from the other half."""
        return [self._learned_from(self._half != half) for half in (0, 1)]

    def _learned_from(self, is_known: Tensor) -> list[Finding]:
        index = self.text.index
        known = self.trusted.rows.take(is_known.nonzero().squeeze(1))
        everything = torch.ones(index.num_sentences, dtype=torch.bool)
        head = taught_head(index, everything, known, tolerance=TOLERANCE)
        believed = in_sample(index, head=head).marginals
        return [one for one in propose(index, believed, suspicion(self.text, believed), self.most) if one.is_likely]
