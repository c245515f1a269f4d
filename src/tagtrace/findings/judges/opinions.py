"""Opinions: what judges believe about every training label, after learning from trusted data if there is any.

An opinion is the probabilities p(y_t | x) of one judge. Two judges give one each, and the two are averaged, because
judges err in different places:

- *in sample*: the judge has learned from all training labels, so it knows what they have in common, but it may have
  memorised a wrong one;
- *out of sample*: the judge has not seen the sentence's document, so it cannot have memorised a label, but it makes
  mistakes of its own where a word is new.

Both have then learned from the trusted sentences, which undo what wrong training labels have taught, where these are
systematic. Without trusted sentences, taggers that are trained again say what they believe after every epoch, also
before they memorise wrong labels (``dynamics``). ``head_opinions`` refits the head on the features of the index:
cheap, but the encoder has seen every training label. ``encoder_opinions`` trains taggers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from pathlib import Path

import torch
from torch import Tensor

from tagtrace._checks import DataError
from tagtrace._progress import Progress
from tagtrace.data.corpus import Corpus
from tagtrace.data.sentence import Sentence
from tagtrace.findings.judges.dynamics import encoder_dynamics
from tagtrace.findings.judges.folds import (
    encoder_folds,
    folds_owner,
    kept_folds,
    load_fold,
    out_of_sample,
    save_fold,
    taught_head,
)
from tagtrace.findings.judges.probabilities import Probabilities, empty, fill_by, in_sample
from tagtrace.index import Index
from tagtrace.tagger import Encoder, Rows, Step, Tagger
from tagtrace.tagger.further import train_further
from tagtrace.tagger.recipe import Recipe, recorded_recipe


def head_opinions(
    index: Index,
    trusted: Rows | None = None,
    num_folds: int = 5,
    seed: int = 0,
    *,
    device: torch.device | None = None,
    progress: Progress | None = None,
) -> list[Probabilities]:
    """Opinions in sample and out of sample, of heads refitted with the features of ``trusted`` sentences added."""
    everything = torch.ones(index.num_sentences, dtype=torch.bool)
    head = index.head if trusted is None else taught_head(index, everything, trusted, device=device)
    outside = out_of_sample(index, num_folds, seed, trusted=trusted, device=device, progress=progress)
    return [in_sample(index, head=head), outside]


def encoder_opinions(
    tagger: Tagger,
    corpus: Corpus,
    folder: str | Path,
    trusted: Sequence[Sentence] = (),
    num_folds: int = 5,
    seed: int = 0,
    *,
    encoder: Encoder | None = None,
    training: Callable[[int, Step], None] | None = None,
    progress: Progress | None = None,
) -> list[Probabilities]:
    """Opinions in sample, of ``tagger`` as it was trained, and out of sample, of taggers trained again for each fold.

    Both are trained further on ``trusted`` sentences. Without any, both opinions are those of the taggers of the folds,
    averaged over their epochs (``dynamics``). ``encoder`` is untrained (default: as the tagger's was). Finished folds
    are kept in ``folder``. ``training`` is called with (fold, step), where fold ``num_folds`` means in sample.
    """
    recipe = Recipe.of(tagger, None if encoder is None else lambda _: encoder)
    fresh = recipe.untrained(seed).to(tagger.device)
    of_folds = (fresh, corpus, folder, recipe.options, num_folds, seed)
    if not trusted:
        return encoder_dynamics(*of_folds, training=training, progress=progress)
    out = encoder_folds(*of_folds, trusted=trusted, training=training, progress=progress)
    return [_in_sample(tagger, corpus, Path(folder) / "in-sample", trusted, out, num_folds, training), out]


def _in_sample(
    tagger: Tagger,
    corpus: Corpus,
    folder: Path,
    trusted: Sequence[Sentence],
    out: Probabilities,
    num_folds: int,
    training: Callable[[int, Step], None] | None,
) -> Probabilities:
    """The opinion of ``tagger`` trained further on ``trusted`` sentences; kept in ``folder`` as a single fold."""
    recipe = recorded_recipe(tagger)
    found = empty(out.lengths, out.labels, len(tagger.labels))
    everything = torch.arange(len(out.lengths))
    kept = kept_folds(folder, folds_owner(tagger, corpus, trusted, recipe, 1, recipe.seed))
    if not load_fold(kept, 0, found, everything):
        taught = deepcopy(tagger)
        taught.head = taught.head.float()
        train_further(taught, trusted, recipe, None if training is None else lambda step: training(num_folds, step))
        sentences = [sentence for sentence in taught.joined(corpus.sentences) if len(sentence)]
        fill_by(taught, found, everything, sentences)
        save_fold(kept, 0, found, everything)
    return found


def averaged(opinions: Sequence[Probabilities]) -> Tensor:
    """The mean of p(y_t = c | x) over the opinions, (N, C) float32."""
    if not opinions:
        raise DataError("there are no opinions to average; give at least one")
    first = opinions[0]
    for other in opinions[1:]:
        same_tokens = torch.equal(other.lengths, first.lengths) and torch.equal(other.labels, first.labels)
        if not same_tokens or other.marginals.shape != first.marginals.shape:
            raise DataError("the opinions were computed on different data; compute them for one index")
    total = first.marginals.clone()
    for other in opinions[1:]:
        total += other.marginals
    return total.div_(len(opinions))
