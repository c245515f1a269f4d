"""The gradients of segments' conditional losses in factored form, a few sentences at a time.

For a segment a:b, with probabilities given the labels outside it and f_t = (F_t, 1),

    dCL/dW = sum_t e_t f_t^T,   e_t = p(y_t | outside) - onehot(y_t)
    dCL/dA = sum of the edge errors inside + y_{a-1} x e_a + e_{b-1} x y_b
    dCL/dstart = e_a where a is the first token of its sentence, dCL/dend = e_{b-1} where b - 1 is the last.

The edges of A are summed before they are squared, because two of them may be the same cell.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from tagtrace.tagger import crf
from tagtrace.tagger.convex.preconditioner import KroneckerFactors
from tagtrace.tagger.head import Head
from tagtrace.tagger.recursions import Run, run
from tagtrace.tagger.rows import RowParts, Rows, pad_rows

TrainingRows = Rows | RowParts
"""Features and labels of training sentences: in memory, or parts that stay on disk."""

CELLS = 2**22
"""Maximum size of tensors in memory: segments x longest segment x (features, or pairs of labels)."""
MAX_SEGMENTS = 1024
"""Maximum number of segments in one part."""
MAX_TOKENS = 8192
"""Maximum number of tokens in the sentences of one part (or one longer sentence)."""
MAX_PADDED = 4 * MAX_TOKENS
"""The same when every sentence is padded to the longest, as their scores are."""


@dataclass(frozen=True)
class Factors:
    """The gradients of S segments, the longest of M tokens."""

    head: Head
    features: Tensor
    """(n, D) of the tokens of their sentences, float64."""
    index: Tensor
    """(S, M): the row in ``features`` of each segment's tokens; any row past its end."""
    errors: Tensor
    """e_t, (S, M, C), zero past a segment's end."""
    others: dict[str, Tensor]
    """The gradients in ``transitions`` (S, C, C), ``start`` and ``end`` (S, C), if these are learned."""

    @classmethod
    @torch.no_grad()
    def of(cls, head: Head, rows: Rows, segments: Tensor) -> Factors:
        """Of segments (S, 3) of ``rows``, whose features are float64."""
        labels = pad_rows(rows.labels, rows.lengths)  # (B, T)
        window = crf.segment_scores(head(rows.features.to(head.weight), rows.lengths), labels, segments)
        inside = crf.segment_labels(labels, segments)  # (S, M)
        sentences = run(window)
        errors = _less_onehot(sentences.nodes(), inside)
        starts = (rows.lengths.cumsum(0) - rows.lengths)[segments[:, 0]] + segments[:, 1]  # (S,)
        within = torch.minimum(torch.arange(inside.shape[1]), (window.lengths - 1).unsqueeze(1))  # (S, M)
        ends = _Ends.of(errors, labels, rows.lengths, segments)
        learned = {name for name, _ in head.named_parameters()}
        others = {}
        if "transitions" in learned:
            others["transitions"] = ends.add_edges(_inner_edges(sentences, inside))
        if "start" in learned:
            others["start"] = ends.first * ends.starts_sentence.unsqueeze(1)
            others["end"] = ends.last * ends.ends_sentence.unsqueeze(1)
        return cls(head, rows.features, (starts.unsqueeze(1) + within).to(errors.device), errors, others)

    def squares(self) -> Tensor:
        """|g|^2 = sum_{t,t'} (e_t . e_t') (f_t . f_t') + the squares in the other parameters, (S,)."""
        inside = self.features[self.index]  # (S, M, D)
        grams = (inside @ inside.transpose(1, 2) + 1.0) * (self.errors @ self.errors.transpose(1, 2))  # (S, M, M)
        total = grams.sum((1, 2)).clamp(min=0.0)
        for gradient in self.others.values():
            total += gradient.square().flatten(1).sum(1)
        return total

    def squares_under(self, kronecker: KroneckerFactors) -> Tensor:
        """g^T K^-1 g for Kronecker factors K, (S,): sum_ij G~_ij^2 / (s_i m_j + shift) in the eigenbases, and so on."""
        features = torch.cat([self.features, self.features.new_ones(len(self.features), 1)], 1)
        turned = (features @ kronecker.feature_basis)[self.index]  # (S, M, D + 1)
        weight = (self.errors @ kronecker.label_basis).transpose(1, 2) @ turned  # (S, C, D + 1)
        total = (weight.square() / (kronecker.spectrum + kronecker.shift)).sum((1, 2))
        for name, gradient in self.others.items():
            total += (gradient.square() / kronecker.scales[name]).flatten(1).sum(1)
        return total

    def dense(self) -> Tensor:
        """The gradients as vectors of the size of theta, (S, P)."""
        inside = self.features[self.index]  # (S, M, D)
        errors = self.errors.transpose(1, 2)  # (S, C, M)
        weight = torch.cat([errors @ inside, errors.sum(2, keepdim=True)], 2)  # (S, C, D + 1)
        return torch.cat([weight.flatten(1), *(part.flatten(1) for part in self.others.values())], 1)


@dataclass(frozen=True)
class _Ends:
    """Where segments begin and end: their first and last errors (S, C), and the labels (S,) on either side."""

    first: Tensor
    last: Tensor
    before: Tensor
    after: Tensor
    starts_sentence: Tensor
    ends_sentence: Tensor

    @classmethod
    def of(cls, errors: Tensor, labels: Tensor, lengths: Tensor, segments: Tensor) -> _Ends:
        device = errors.device
        ends_sentence = (segments[:, 2] == lengths[segments[:, 0]]).to(device)
        number, start, stop = segments.to(device).unbind(1)
        last = errors[torch.arange(len(segments), device=device), stop - start - 1]
        before = labels[number, (start - 1).clamp(min=0)]
        after = labels[number, stop.clamp(max=labels.shape[1] - 1)]
        return cls(errors[:, 0], last, before, after, start == 0, ends_sentence)

    def add_edges(self, edges: Tensor) -> Tensor:
        """Edge errors inside the segments, (S, C, C), plus those of the edges into and out of them."""
        into, out = (~self.starts_sentence).nonzero().squeeze(1), (~self.ends_sentence).nonzero().squeeze(1)
        edges[into, self.before[into]] += self.first[into]
        edges[out, :, self.after[out]] += self.last[out]
        return edges


def _inner_edges(sentences: Run, inside: Tensor) -> Tensor:
    """Errors of the edges inside segments with labels (S, M), summed, (S, C, C)."""
    edges = sentences.edges()  # (S, M - 1, C, C)
    C = edges.shape[-1]
    pairs = inside[:, :-1] * C + inside[:, 1:]  # (S, M - 1)
    return _less_onehot(edges.flatten(2), pairs).sum(1).unflatten(1, (C, C))


def _less_onehot(marginals: Tensor, labels: Tensor) -> Tensor:
    """Marginals (S, M, K) minus 1 at each label (S, M); zero where the marginals are zero.

    p(y) - 1 is minus the sum over the other labels: exact even if p(y) is so close to 1 that 1 - p(y) would cancel.
    """
    place = labels.unsqueeze(2)
    others = marginals.scatter(2, place, 0.0)
    return others.scatter(2, place, -others.sum(2, keepdim=True))


def factor_parts(
    head: Head, training: TrainingRows, segments: Tensor, most: int = MAX_SEGMENTS
) -> Iterator[tuple[Tensor, Factors]]:
    """The factors of segments (S, 3) in parts, each with its places in ``segments``."""
    width = max(head.num_labels**2, head.dim + 1)
    for places, rows, local in sentence_parts(training, segments, width, most):
        yield places, Factors.of(head, rows, local)


def sentence_parts(
    training: TrainingRows, segments: Tensor, width: int, most: int = MAX_SEGMENTS
) -> Iterator[tuple[Tensor, Rows, Tensor]]:
    """Segments (S, 3) in parts: places in ``segments``, the sentences of these (features in float64), and the segments
    numbered by those sentences.
    """
    if len(segments) == 0:
        return
    order = segments[:, 0].argsort(stable=True)
    for places in order.split(_part_sizes(segments[order], training.lengths, width, most)):
        sentences, local = segments[places, 0].unique(return_inverse=True)
        yield places, _take(training, sentences), torch.cat([local.unsqueeze(1), segments[places, 1:]], 1)


def _part_sizes(segments: Tensor, lengths: Tensor, width: int, most: int) -> list[int]:
    """How many of the segments (S, 3), sorted by sentence, go into each part: as many as its own longest allows."""
    sizes: list[int] = []
    size = longest = num_sentences = longest_sentence = num_tokens = 0
    last = -1
    num_steps = (segments[:, 2] - segments[:, 1]).tolist()
    for number, steps, length in zip(segments[:, 0].tolist(), num_steps, lengths[segments[:, 0]].tolist(), strict=True):
        if number != last:
            num_sentences, num_tokens, last = num_sentences + 1, num_tokens + length, number
        longest, longest_sentence = max(longest, steps), max(longest_sentence, length)
        is_full = size == most or (size + 1) * longest * width > CELLS
        if size and (is_full or num_tokens > MAX_TOKENS or num_sentences * longest_sentence > MAX_PADDED):
            sizes.append(size)
            size, longest, num_sentences, longest_sentence, num_tokens = 0, steps, 1, length, length
        size += 1
    return [*sizes, size]


def _take(training: TrainingRows, sentences: Tensor) -> Rows:
    """Some training sentences, features in float64."""
    found = training.take(sentences)
    return Rows(found.features.double(), found.labels.long(), found.lengths)
