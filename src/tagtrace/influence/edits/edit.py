"""Edits of training labels: remove the labels of a segment, or replace them; alone or in groups.

If labels are removed, the sentence contributes its partial loss, -log p(remaining labels | x), to the objective (the
paper's equations 2 and 5); if they are replaced, it contributes the joint loss of the new labels.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, SupportsIndex

import torch
from torch import Tensor

from tagtrace._checks import DataError, OptionError, TagtraceError, at
from tagtrace._documents import Document, read_documents
from tagtrace._table import Table
from tagtrace.data.sentence import Sentence
from tagtrace.index import Index
from tagtrace.tagger import crf
from tagtrace.tagger.rows import RowParts, Rows, pad_rows
from tagtrace.tagger.scores import Scores


@dataclass(frozen=True)
class Edit:
    """New label numbers for tokens ``start:stop`` of a training sentence, or None to remove their labels."""

    sentence_number: int
    start: int
    stop: int
    labels: tuple[int, ...] | None = None


NUM_SHOWN = 20
"""Maximum number of edits in a table."""

Group = Sequence[Edit]
"""Edits made together."""


def make_edit(
    index: Index,
    sentence: str | SupportsIndex | Sentence,
    start: int,
    stop: int,
    labels: str | Sequence[str] | None = None,
) -> Edit:
    """An edit of tokens ``start:stop`` of a training sentence, which is given as such, or by its id or number.

    ``labels`` are the new ones: a type (``ORG``), a label, or one label for each token; None removes the labels.
    """
    sentence = sentence.id if isinstance(sentence, Sentence) else sentence
    number = index.sentence_number(sentence) if isinstance(sentence, str) else operator.index(sentence)
    check_sentence_number(number, index.num_sentences)
    check_segment(sentence, start, stop, int(index.lengths[number]))
    return Edit(number, start, stop, None if labels is None else tuple(index.labels.parse(labels, stop - start)))


def check_sentence_number(number: int, num_sentences: int) -> None:
    """Raise OptionError unless there is a training sentence with this number."""
    if not 0 <= number < num_sentences:
        raise OptionError(f"there is no training sentence {number}; numbers are 0 to {num_sentences - 1}")


def check_segment(sentence: str | SupportsIndex, start: int, stop: int, length: int) -> None:
    """Raise OptionError unless tokens ``start:stop`` are in a sentence of this length."""
    if not 0 <= start < stop <= length:
        raise OptionError(f"{start}:{stop} is not a segment of sentence {sentence}, which has tokens 0 to {length - 1}")


@dataclass(frozen=True)
class EditLine(Document):
    """An edit in a file; what ``edit_to_json`` says besides is ignored."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {**Document.__pydantic_config__, "extra": "ignore"}

    id: str | int
    start: int
    stop: int
    labels: tuple[str, ...] | None = None


EXAMPLE = '{"id": ..., "start": 2, "stop": 4, "labels": [...] or null}'


def read_edits(index: Index, path: str | Path) -> list[Edit]:
    """The edits in a file of JSON lines: ``{"id": ..., "start": 2, "stop": 4, "labels": [...] or null}``."""
    found: list[Edit] = []
    for number, line in read_documents(path, EditLine, remedy=f"give JSON lines such as {EXAMPLE}"):
        try:
            found.append(make_edit(index, str(line.id), line.start, line.stop, line.labels))
        except TagtraceError as error:
            raise DataError(f"{at(path, number)}: {error}") from None
    return found


def edit_table(index: Index, edits: Sequence[Edit], title: str) -> Table:
    """The first edits in their sentences, with the given and the new labels."""
    rows: list[tuple[str, ...]] = []
    for edit in edits[:NUM_SHOWN]:
        sentence = index.sentence(edit.sentence_number)
        given = " ".join(sentence.labels[edit.start : edit.stop])
        new = "(removed)" if edit.labels is None else " ".join(index.labels.decode(edit.labels))
        rows.append((given, new, f"{sentence.id} {edit.start}:{edit.stop}", sentence.in_context(edit.start, edit.stop)))
    more = f" ({len(edits) - NUM_SHOWN:,} more are not shown)" if len(edits) > NUM_SHOWN else ""
    return Table(title + more, ("given", "new", "where", "training sentence"), tuple(rows))


def edit_to_json(index: Index, edit: Edit) -> dict[str, Any]:
    """The edit as data, with the id of its sentence and the names of its labels."""
    sentence, inside = index.sentence(edit.sentence_number), slice(edit.start, edit.stop)
    return {
        "id": sentence.id,
        "start": edit.start,
        "stop": edit.stop,
        "labels": None if edit.labels is None else list(index.labels.decode(edit.labels)),
        "given": list(sentence.labels[inside]),
        "tokens": list(sentence.tokens[inside]),
        "line": sentence.lines[edit.start] if sentence.lines else None,
    }


class EditedSentences:
    """The training sentences that groups of edits change, group after group, before and after."""

    sizes: Tensor
    sentences: list[int]
    lengths: Tensor
    features: Tensor
    labels: Tensor
    new_labels: Tensor
    known: Tensor

    def __init__(self, rows: Rows | RowParts, *groups: Group) -> None:
        if not groups or not all(groups):
            raise OptionError("a group of edits must have at least one edit")
        touched = [sorted({edit.sentence_number for edit in group}) for group in groups]
        self.sizes = torch.tensor([len(sentences) for sentences in touched])  # sentences of each group, (G,)
        self.sentences = [number for sentences in touched for number in sentences]
        taken = rows.take(torch.tensor(self.sentences))
        self.lengths, self.features = taken.lengths, taken.features.double()  # (B,), (n, D)
        self.labels = pad_rows(taken.labels.long(), self.lengths)  # (B, T)
        self.new_labels, self.known = self.labels.clone(), torch.ones_like(self.labels, dtype=torch.bool)
        first = 0
        for group, sentences in zip(groups, touched, strict=True):
            for edit in group:
                self._apply(edit, first + sentences.index(edit.sentence_number))
            first += len(sentences)

    def _apply(self, edit: Edit, row: int) -> None:
        inside = slice(edit.start, edit.stop)
        check_segment(edit.sentence_number, edit.start, edit.stop, int(self.lengths[row]))
        if edit.labels is None:
            self.known[row, inside] = False
        elif len(edit.labels) != edit.stop - edit.start:
            raise OptionError(
                f"edit {edit.start}:{edit.stop} needs {edit.stop - edit.start} labels; it has {len(edit.labels)}"
            )
        else:
            self.new_labels[row, inside] = torch.tensor(edit.labels, device=self.labels.device)

    def loss_before(self, scores: Scores) -> Tensor:
        """The sum of the joint losses of the given labels."""
        return crf.joint_loss(scores, self.labels).sum()

    def losses_after(self, scores: Scores) -> Tensor:
        """Partial losses after the edits, (B,)."""
        return crf.partial_loss(scores, self.new_labels, self.known)

    def errors_before(self, scores: Scores) -> crf.Errors:
        """Joint losses of the given labels, and their derivatives in the scores."""
        return crf.partial_errors(scores, self.labels, torch.ones_like(self.known))

    def errors_after(self, scores: Scores) -> crf.Errors:
        """Partial losses after the edits, and their derivatives in the scores."""
        return crf.partial_errors(scores, self.new_labels, self.known)
