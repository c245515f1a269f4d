"""Suspicion: the combined ranking of training labels by the opinions about them.

With p the mean of the opinions (``opinions``), the loss of a label is l_t = -log p(y_t | x). A wrong segment is wrong
as a whole, and an annotator who mislabels a word once does it again, so a token shares the suspicion of its region and
of other tokens like it:

    r_t = (l_t + mean of l over its region) / 2
    suspicion of t = 3/4 r_t + 1/4 mean of r over other tokens with the same word and the same label

(r_t if there are none). A region is a run of tokens that are one segment by the given labels or by the likeliest ones.
The weights were chosen on WNUT 2017 and NCBI disease with planted errors, never on the data they are reported for.

``mistaken_for`` asks about one kind of error instead: the probability that a label of one type should be of another.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from tagtrace.findings.judges.probabilities import different_data
from tagtrace.findings.patterns.conditions import NumberedText
from tagtrace.findings.ranking.token_scores import SMALLEST
from tagtrace.index import Index

SAME_WORD = 0.25
"""Weight of the other tokens with the same word and label."""


def suspicion(text: NumberedText, believed: Tensor) -> Tensor:
    """The combined score of every token, (N,), higher = more suspicious; ``believed`` (N, C) is p(y_t = c | x)."""
    check_believed(text.index, believed)
    labels = torch.as_tensor(text.labels)
    losses = -believed.gather(1, labels.unsqueeze(1)).squeeze(1).double().clamp(min=SMALLEST).log()  # (N,)
    shared = 0.5 * (losses + group_means(losses, regions(text, believed)))
    return (1.0 - SAME_WORD) * shared + SAME_WORD * others_mean(shared, _same_word_and_label(text))


def mistaken_for(index: Index, believed: Tensor, pair: str) -> Tensor:
    """p that a token labelled PREDICTED is GOLD, for ``pair`` GOLD:PREDICTED (types or labels), (N,); 0 for others."""
    check_believed(index, believed)
    gold, predicted = map(torch.as_tensor, index.labels.pair_masks(pair))
    return believed[:, gold].sum(1).double() * predicted[index.label_ids]


def check_believed(index: Index, believed: Tensor) -> None:
    if believed.shape != (index.num_tokens, len(index.labels)) or not bool(believed.isfinite().all()):
        raise different_data(index)


def regions(text: NumberedText, believed: Tensor) -> Tensor:
    """The region of every token, (N,): numbers from 0, each for neighbours in one sentence."""
    likeliest = believed.argmax(1).numpy()
    continues = _continues(text, text.labels) | _continues(text, likeliest)
    continues[text.firsts[text.lengths > 0]] = False
    return torch.as_tensor(np.cumsum(~continues) - 1)


def _continues(text: NumberedText, labels: np.ndarray) -> np.ndarray:
    """Whether a token continues the labelled segment of the token before it, if both are in one sentence, (N,).

    The likeliest labels of single tokens need not be well-formed: an I- continues whatever precedes it.
    """
    names = np.array(text.index.labels.labels)
    if text.index.labels.scheme == "iob2":
        return np.char.startswith(names, "I-")[labels]
    if text.index.labels.scheme == "io":
        return (labels == np.roll(labels, 1)) & (names != "O")[labels]
    return np.zeros(len(labels), dtype=bool)


def _same_word_and_label(text: NumberedText) -> Tensor:
    """The group of each token, (N,): its word, ignoring case, and its label."""
    numbers: dict[str, int] = {}
    lower = np.array([numbers.setdefault(word.lower(), len(numbers)) for word in text.vocabulary])  # (V,)
    pairs = lower[text.words] * len(text.index.labels) + text.labels
    return torch.as_tensor(np.unique(pairs, return_inverse=True)[1])


def group_means(values: Tensor, owner: Tensor) -> Tensor:
    """The mean of each token's group, (N,).

    >>> group_means(torch.tensor([1.0, 3.0, 5.0]), torch.tensor([0, 0, 1])).tolist()
    [2.0, 2.0, 5.0]
    """
    totals, counts = owner.bincount(values), owner.bincount()
    return (totals / counts.clamp(min=1))[owner]


def others_mean(values: Tensor, owner: Tensor) -> Tensor:
    """The mean of the other tokens of each token's group, (N,); a token that is alone has its own value.

    >>> others_mean(torch.tensor([1.0, 3.0, 5.0]), torch.tensor([0, 0, 1])).tolist()
    [3.0, 1.0, 5.0]
    """
    totals, counts = owner.bincount(values)[owner], owner.bincount()[owner]
    return torch.where(counts > 1, (totals - values) / (counts - 1).clamp(min=1), values)
