"""What a head believes about the training labels: p(y_t | x) of every token, and the loss of each label and sentence.

*In-sample* probabilities come from the head that was fitted to these labels; an encoder that memorised a wrong label
hides it there. *Out-of-sample* ones come from a head, or a tagger, that has not seen the sentence's document
(``folds``).
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from tagtrace._checks import DataError
from tagtrace._progress import Progress
from tagtrace.data.sentence import Sentence
from tagtrace.index import Index
from tagtrace.tagger import crf
from tagtrace.tagger.head import Head
from tagtrace.tagger.recursions import run
from tagtrace.tagger.rows import Rows, pad_rows, positions, token_places, unpad_rows
from tagtrace.tagger.tagger import Tagger

Sample = Literal["in-sample", "out-of-sample"]

SENTENCES = 4096
"""Number of sentences that are encoded at a time."""
MAX_TOKENS = 8192
"""Features are converted to the head's dtype this many tokens at a time (or one longer sentence)."""


@dataclass(frozen=True)
class Probabilities:
    """The opinion of one judge: probabilities of N tokens in B sentences, in the order of the index.

    An opinion that is averaged over judges (the epochs and folds of ``dynamics``) has the mean of their probabilities
    as ``marginals`` and the means of their losses, not the losses of mean probabilities, as the two kinds of losses.
    """

    marginals: Tensor
    """p(y_t = c | x), (N, C) float32."""
    labels: Tensor
    """The labels given, (N,)."""
    lengths: Tensor
    """Number of tokens in each sentence, (B,)."""
    conditional_losses: Tensor
    """-log p(y_t | labels of all other tokens, x), (N,) float64."""
    joint_losses: Tensor
    """-log p(y | x) of each sentence, (B,) float64."""
    sample: Sample
    """Whether the judge has seen the labels."""

    def __post_init__(self) -> None:
        num_tokens, num_sentences = len(self.labels), len(self.lengths)
        shapes = [len(self.marginals), len(self.conditional_losses), len(self.joint_losses), int(self.lengths.sum())]
        if shapes != [num_tokens, num_tokens, num_sentences, num_tokens]:
            raise DataError(
                f"probabilities of {shapes[0]} tokens do not fit {num_tokens} labels in {num_sentences} sentences"
            )

    def check_index(self, index: Index) -> None:
        """Raise DataError unless the probabilities were computed for this index."""
        same_sentences = torch.equal(self.lengths, index.lengths) and self.marginals.shape[1] == len(index.labels)
        if not same_sentences or not torch.equal(self.labels, index.label_ids):
            raise different_data(index)


def different_data(index: Index) -> DataError:
    """The error that probabilities do not belong to an index."""
    problem = "the probabilities were computed on different data"
    return DataError(f"{index.folder}: {problem}; compute them for this index")


@torch.no_grad()
def in_sample(index: Index, progress: Progress | None = None, *, head: Head | None = None) -> Probabilities:
    """The probabilities of the index's own head, or of another ``head``, in one pass over the stored features."""
    probabilities = empty(index.lengths, index.label_ids, len(index.labels))
    head = index.head if head is None else head
    for shard in index.shards:
        sentences = torch.arange(shard.first_sentence, shard.first_sentence + len(shard.lengths))
        fill(probabilities, sentences, head, shard.rows())
        if progress is not None:
            progress(int(sentences[-1]) + 1, index.num_sentences)
    return probabilities


def empty(lengths: Tensor, labels: Tensor, num_labels: int, sample: Sample = "in-sample") -> Probabilities:
    """Probabilities to be filled in; NaN until then."""
    marginals = torch.full((len(labels), num_labels), torch.nan)
    losses = torch.full((len(labels),), torch.nan, dtype=torch.float64)
    return Probabilities(marginals, labels, lengths, losses, losses.new_full((len(lengths),), torch.nan), sample)


@torch.no_grad()
def fill(probabilities: Probabilities, sentences: Tensor, head: Head, rows: Rows) -> None:
    """Set the values of ``sentences`` (b,), whose features are ``rows`` in the same order, to those of ``head``."""
    places = token_places(probabilities.lengths, sentences)  # (n,)
    first_token = first_sentence = 0
    for chunk in rows.chunks(MAX_TOKENS):
        tokens = places[first_token : first_token + len(chunk.labels)]
        some = sentences[first_sentence : first_sentence + len(chunk.lengths)]
        nodes, conditional, joint = _believed(head, chunk)
        probabilities.marginals[tokens] = nodes.float().cpu()
        probabilities.conditional_losses[tokens] = conditional.cpu()
        probabilities.joint_losses[some] = joint.cpu()
        first_token, first_sentence = first_token + len(tokens), first_sentence + len(some)


def fill_by(tagger: Tagger, probabilities: Probabilities, numbers: Tensor, sentences: Sequence[Sentence]) -> None:
    """Set the values of the sentences ``numbers`` (b,) to what ``tagger`` believes; ``sentences`` are all of them."""
    head = deepcopy(tagger.head).double().cpu()
    for some in numbers.split(SENTENCES):
        fill(probabilities, some, head, tagger.rows([sentences[number] for number in some.tolist()]))


def _believed(head: Head, rows: Rows) -> tuple[Tensor, Tensor, Tensor]:
    """Node marginals (n, C), conditional losses (n,) and joint losses (b,) under ``head``."""
    scores = head(rows.features.to(head.weight), rows.lengths)
    labels = pad_rows(rows.labels, rows.lengths)  # (b, T)
    sentences = run(scores)
    joint = sentences.log_z() - crf.path_score(scores, labels)
    segments = token_segments(rows.lengths)  # (n, 3)
    return unpad_rows(sentences.nodes(), rows.lengths), crf.conditional_loss(scores, labels, segments), joint


def token_segments(lengths: Tensor) -> Tensor:
    """(sentence, start, stop) of every token, (n, 3)."""
    number, start = torch.repeat_interleave(torch.arange(len(lengths)), lengths), positions(lengths)
    return torch.stack([number, start, start + 1], 1)
