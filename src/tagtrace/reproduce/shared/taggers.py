"""Taggers and indexes that an experiment needs, each made once and kept, so that an interrupted run resumes."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

from tagtrace.data import Corpus, LabelSet
from tagtrace.index import Index, IndexOptions, build_index, open_index
from tagtrace.reproduce.shared.setting import Setting
from tagtrace.tagger import Tagger, TrainOptions, build_encoder, load_tagger, new_tagger, save_tagger, train_tagger
from tagtrace.tagger.tagger import Unit

RECIPE = TrainOptions(
    epochs=4, batch_size=32, learning_rate=7e-5, head_learning_rate=1e-3, schedule="linear", dropout=0.1, keep="last"
)
"""For transformers. The paper's recipe (15 epochs at 2e-5, batch not stated) is no better: see docs/tagger.md."""


def trained(
    setting: Setting, name: str, corpus: Corpus, labels: LabelSet, seed: int, unit: Unit = "sentence", **changes: object
) -> Tagger:
    """A tagger trained on all of ``corpus``, kept under ``name`` (the experiment and the seed).

    With an encoder that cannot be trained (word vectors) nothing is trained here: building an index refits the head.
    ``changes`` replace training options of RECIPE, or of the defaults for encoders other than transformers.
    """
    folder = setting.work / name / "tagger"
    if folder.exists():
        return load_tagger(folder).to(setting.device)
    sentences = list(corpus.sentences)
    encoder = build_encoder(setting.encoder_spec, sentences, seed)
    tagger = new_tagger(encoder, labels, unit=unit, seed=seed).to(setting.device)
    if encoder.trainable:
        setting.report(f"training {name}: {len(sentences):,} sentences")
        recipe = RECIPE if encoder.kind == "transformer" else TrainOptions()
        train_tagger(tagger, sentences, (), replace(recipe, seed=seed, **changes))
    save_tagger(tagger, folder)
    return tagger


def indexed(setting: Setting, name: str, tagger: Tagger, corpus: Corpus, options: IndexOptions | None = None) -> Index:
    """The index of ``corpus`` with the tagger that ``trained`` kept under ``name``, head refitted, kept beside it."""
    folder = setting.work / name / "index"
    if not folder.exists():
        setting.report(f"indexing {name}: {corpus.num_tokens:,} tokens")
        build_index(tagger, corpus, folder, options, tagger_path=setting.work / name / "tagger")
    return open_index(folder)


def with_index_head(tagger: Tagger, index: Index) -> Tagger:
    """The tagger with the index's refitted head, which is the head that influence explains."""
    refitted = deepcopy(tagger)
    refitted.head = deepcopy(index.head).to(tagger.device)
    return refitted
