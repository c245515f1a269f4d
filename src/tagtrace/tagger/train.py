"""Training a tagger on a labelled corpus in one call."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

from tagtrace._checks import check_type
from tagtrace._documents import recorded_path
from tagtrace.data.corpus import Corpus
from tagtrace.data.labels import LabelSet
from tagtrace.tagger.convex.refit import RefitOptions, RefitProgress, refit_tagger
from tagtrace.tagger.encoders import Encoder, build_encoder
from tagtrace.tagger.further import Trusted, check_held_out, check_trusted, sentences_of, train_further
from tagtrace.tagger.head import HeadOptions
from tagtrace.tagger.tagger import Tagger, Unit, new_tagger, pick_device
from tagtrace.tagger.training import Step, TrainOptions, train_tagger


def train(
    corpus: Corpus,
    dev: Corpus | None = None,
    *,
    trusted: Trusted = (),
    encoder: str | Encoder = "lexical",
    head: HeadOptions | None = None,
    unit: Unit = "sentence",
    options: TrainOptions | None = None,
    refit: RefitOptions | None = None,
    device: str | torch.device = "auto",
    checkpoint: str | Path | None = None,
    progress: Callable[[Step], None] | None = None,
    refit_progress: RefitProgress | None = None,
) -> Tagger:
    """Train a tagger on ``corpus``.

    ``encoder`` is ``lexical``, ``vectors:FILE``, ``precomputed:DIR``, ``transformer:NAME_OR_DIR``, ``spacy:DIR``, or
    an encoder. If the encoder is not trainable (vectors, precomputed, spacy), only the head is fitted, exactly
    (``refit``). With ``dev``, the epoch with the lowest loss on it is kept. Training ends with a few steps on
    ``trusted``, sentences whose labels are known to be right, or HIDDEN (``decided_sentences``). With ``checkpoint``, a
    folder, a run that was interrupted resumes when it is called again with the same arguments; call
    ``remove_checkpoint`` once the tagger is saved.
    """
    options = options or TrainOptions()
    check_type("corpus", corpus, Corpus, "give read_corpus(path)")
    trusted = sentences_of(trusted)
    check_held_out(trusted, dev, "dev")
    labels = LabelSet.from_sentences(corpus.sentences, corpus.normalised_scheme)
    if dev is not None:
        labels.check(dev.sentences)
    if isinstance(encoder, str):
        encoder = build_encoder(encoder, corpus.sentences, options.seed)
    for file in (corpus, dev):
        if file is not None:
            encoder.check_corpus(file)
    tagger = new_tagger(encoder, labels, head, unit, options.seed).to(pick_device(device))
    check_trusted(tagger, trusted)
    if encoder.trainable:
        held_out = dev.sentences if dev else ()
        train_tagger(
            tagger,
            corpus.sentences,
            held_out,
            options,
            checkpoint=None if checkpoint is None else Path(checkpoint),
            progress=progress,
        )
        if trusted:
            train_further(tagger, trusted, options, progress)
    else:
        refit_tagger(tagger, corpus.sentences, refit, progress=refit_progress)
    tagger.record["data"] = {"train": recorded_path(corpus.path), "fingerprint": corpus.fingerprint}
    return tagger
