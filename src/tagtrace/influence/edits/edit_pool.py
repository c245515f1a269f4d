"""Edits that could turn a prediction into its rival, and their first-order effect.

The joint loss is log Z - score(y) and log Z does not depend on the labels, so replacing y by y' changes the
gradient of J by (phi(y) - phi(y'))/N and to first order moves its minimum by H^-1 (phi(y') - phi(y))/N. With
V = H^-1 grad m, a function m of theta changes by

    V . (phi(y') - phi(y)) / N:   V's score of the new labels minus that of the old, without log Z.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor

from tagtrace.data.labels import LabelSet
from tagtrace.influence.edits.edit import Edit
from tagtrace.influence.edits.margin import Gap
from tagtrace.influence.scoring.candidates import SegmentKind, find_segments
from tagtrace.influence.scoring.factors import sentence_parts
from tagtrace.influence.scoring.screen import Screen
from tagtrace.tagger import crf
from tagtrace.tagger.head import Head
from tagtrace.tagger.rows import RowParts, Rows, pad_rows


@dataclass(frozen=True)
class Pool:
    """Edits to choose from: segments (S, 3) and their new labels (S, longest), or None to remove labels."""

    segments: Tensor
    labels: Tensor | None = None

    def edit(self, index: int) -> Edit:
        number, start, stop = self.segments[index].tolist()
        labels = None if self.labels is None else tuple(self.labels[index, : stop - start].tolist())
        return Edit(number, start, stop, labels)

    def take(self, index: Tensor) -> Pool:
        return Pool(self.segments[index], None if self.labels is None else self.labels[index])

    def effects(self, head: Head, rows: Rows | RowParts, direction: Tensor) -> Tensor:
        """The first-order change of a function of theta by each edit; direction V (P,) -> (S,)."""
        if self.labels is None:
            return Screen(head, rows, self.segments, torch.float32).influence(direction.unsqueeze(0))[0]
        return relabel_effects(head, rows, self.segments, self.labels, direction)


def removals(rows: Rows | RowParts, labels: LabelSet, kind: SegmentKind) -> Pool:
    """Remove the labels of any segment of a kind."""
    return Pool(find_segments(rows, labels, kind))


def relabellings(rows: Rows | RowParts, labels: LabelSet, gap: Gap) -> Pool:
    """Training labels equal to the predicted ones become the rival's, wherever the two differ, within the scheme.

    If the prediction has type X where the rival has type Y, or O, segments of type X become Y, or O. If the prediction
    has O, or differs from the rival only in B- and I-, single tokens with the predicted label get the rival's.
    """
    types, outside = labels.type_of, () if labels.scheme == "plain" else ("O",)
    pairs = [(p, r) for p, r in zip(gap.keep, gap.rival, strict=True) if p != r]
    changes = {(types[p], types[r]) for p, r in pairs if types[p] not in (*outside, types[r])}
    single = {(p, r) for p, r in pairs if types[p] in (*outside, types[r])}
    entities = find_segments(rows, labels, "entity")
    parts = [_tokens(rows, labels, p, r) for p, r in sorted(single)]
    parts += [_entities(rows, labels, entities, x, y) for x, y in sorted(changes)]
    longest = max(part[1].shape[1] for part in parts)
    wide = [torch.nn.functional.pad(new, (0, longest - new.shape[1])) for _, new in parts]
    return Pool(torch.cat([segments for segments, _ in parts]), torch.cat(wide))


def _entities(rows: Rows | RowParts, labels: LabelSet, entities: Tensor, old: str, new: str) -> tuple[Tensor, Tensor]:
    """Segments (S, 3) of type ``old`` and labels (S, longest) that make them ``new``."""
    first = (rows.lengths.cumsum(0) - rows.lengths)[entities[:, 0]] + entities[:, 1]  # (S,): the row of the first token
    is_old = torch.tensor([type_ == old for type_ in labels.type_of])
    segments = entities[is_old[rows.labels[first]]]
    longest = max([1, *(segments[:, 2] - segments[:, 1]).tolist()])
    return segments, torch.tensor(labels.spell(new, longest)).expand(len(segments), -1)


def _tokens(rows: Rows | RowParts, labels: LabelSet, predicted: int, rival: int) -> tuple[Tensor, Tensor]:
    """Tokens labelled ``predicted`` as segments (S, 3), and ``rival`` for each, (S, 1), as the scheme allows."""
    tokens, types = find_segments(rows, labels, "token"), labels.type_of  # (N, 3), one for each row
    chosen = rows.labels == predicted  # (N,)
    new = torch.full(chosen.shape, rival)
    if labels.scheme == "iob2" and labels.labels[rival].startswith("I-"):
        is_rival_type = torch.tensor([type_ == types[rival] for type_ in types])
        continues = is_rival_type[rows.labels.roll(1)] & (tokens[:, 1] > 0)  # (N,)
        if types[predicted] == "O":
            new = torch.where(continues, rival, labels.index(f"B-{types[rival]}"))
        else:
            chosen = chosen & continues
    return tokens[chosen], new[chosen].unsqueeze(1)


@torch.no_grad()
def relabel_effects(
    head: Head, rows: Rows | RowParts, segments: Tensor, new_labels: Tensor, direction: Tensor
) -> Tensor:
    """V . (phi(y') - phi(y)) / N for segments (S, 3) that get ``new_labels`` (S, longest); V (P,) -> (S,)."""
    moved = deepcopy(head).double()
    moved.set_flat(direction)
    out = torch.empty(len(segments), dtype=torch.float64)
    for places, part, local in sentence_parts(rows, segments, head.num_labels):
        labels = pad_rows(part.labels.long(), part.lengths)
        scores = moved(part.features, part.lengths, constrained=False)
        window = crf.segment_scores(scores, labels, local)  # (S, longest, C)
        old = crf.segment_labels(labels, local)  # (S, longest)
        change = crf.path_score(window, new_labels[places, : old.shape[1]]) - crf.path_score(window, old)
        out[places] = change.cpu()
    return out / len(rows.lengths)
