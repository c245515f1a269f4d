"""Edits of training labels: take a segment's labels away, or put others in their place; alone or in groups.

Without its labels a segment's sentence counts with its partial loss, -log p(labels left | x) (the paper's equations 2
and 5); with other labels it counts with their joint loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tagtrace._checks import OptionError
from tagtrace.influence.query import sentence_rows
from tagtrace.tagger import crf
from tagtrace.tagger.rows import Rows, pad_rows
from tagtrace.tagger.scores import Scores


@dataclass(frozen=True)
class Edit:
    """Tokens ``start:stop`` of training sentence ``sentence``: new label numbers, or None to take the labels away."""

    sentence_number: int
    start: int
    stop: int
    labels: tuple[int, ...] | None = None


Group = Sequence[Edit]
"""Edits made together."""


class EditedSentences:
    """The training sentences that groups of edits touch, group after group, before and after."""

    def __init__(self, rows: Rows, *groups: Group) -> None:
        if not groups or not all(groups):
            raise OptionError("a group of edits must hold at least one")
        touched = [sorted({edit.sentence_number for edit in group}) for group in groups]
        self.sizes = torch.tensor([len(sentences) for sentences in touched])  # sentences of each group, (G,)
        self.sentences = [number for sentences in touched for number in sentences]
        parts = [sentence_rows(rows, number) for number in self.sentences]
        self.lengths = torch.cat([part.lengths for part in parts])
        self.features = torch.cat([part.features for part in parts]).double()  # (n, D)
        self.labels = pad_rows(torch.cat([part.labels for part in parts]), self.lengths)  # (B, T)
        self.new_labels, self.known = self.labels.clone(), torch.ones_like(self.labels, dtype=torch.bool)
        first = 0
        for group, sentences in zip(groups, touched, strict=True):
            for edit in group:
                self._apply(edit, first + sentences.index(edit.sentence_number))
            first += len(sentences)

    def _apply(self, edit: Edit, row: int) -> None:
        inside = slice(edit.start, edit.stop)
        if not 0 <= edit.start < edit.stop <= int(self.lengths[row]):
            raise OptionError(
                f"edit {edit.start}:{edit.stop} does not lie in its sentence of {self.lengths[row]} tokens"
            )
        if edit.labels is None:
            self.known[row, inside] = False
        elif len(edit.labels) != edit.stop - edit.start:
            raise OptionError(f"edit {edit.start}:{edit.stop} needs {edit.stop - edit.start} labels")
        else:
            self.new_labels[row, inside] = torch.tensor(edit.labels, device=self.labels.device)

    def loss_before(self, scores: Scores) -> Tensor:
        """sum of joint losses of the labels as they are."""
        return crf.joint_loss(scores, self.labels).sum()

    def losses_after(self, scores: Scores) -> Tensor:
        """Partial losses once edited, (B,)."""
        return crf.partial_loss(scores, self.new_labels, self.known)

    def errors_before(self, scores: Scores) -> crf.Errors:
        """Joint losses of the labels as they are, and their derivatives in the scores."""
        return crf.partial_errors(scores, self.labels, torch.ones_like(self.known))

    def errors_after(self, scores: Scores) -> crf.Errors:
        """Partial losses once edited, and their derivatives in the scores."""
        return crf.partial_errors(scores, self.new_labels, self.known)
