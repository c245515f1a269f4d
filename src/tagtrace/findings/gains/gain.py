"""Gain: how much F1 on held-out data changes when labels are fixed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Literal

import torch

from tagtrace._checks import OptionError, check_num_seeds, check_type
from tagtrace._documents import real_path
from tagtrace._progress import Progress
from tagtrace.data.corpus import Corpus
from tagtrace.data.sentence import Sentence
from tagtrace.findings.gains.compare import Gain
from tagtrace.findings.gains.retrained import full_gain, head_gain, num_changed
from tagtrace.index import Index, IndexFolderError
from tagtrace.tagger import RefitOptions, Rows, Step, Tagger, build_encoder, pick_device
from tagtrace.tagger.convex.refit import RefitProgress
from tagtrace.tagger.further import Trusted, check_held_out, sentences_of

Retrain = Literal["head", "everything"]


def gain(
    source: Index | Tagger,
    before: Corpus,
    after: Corpus,
    test: Corpus,
    retrain: Retrain = "head",
    *,
    dev: Corpus | None = None,
    trusted: Trusted = (),
    num_seeds: int = 1,
    encoder: str | None = None,
    l2: float | None = None,
    samples: int = 1000,
    tagger: str | Path | None = None,
    work: str | Path | None = None,
    device: str | torch.device = "auto",
    encoding: Progress | None = None,
    refitting: RefitProgress | None = None,
    training: Callable[[str, Step], None] | None = None,
) -> Gain:
    """Retrain on ``before`` and on ``after``, the same data with other labels, and compare F1 on ``test``.

    ``source`` is an index or a tagger. ``retrain="head"`` keeps the encoder and solves the head exactly, with strength
    ``l2`` (default: that of the index or of the tagger's refit, else 1). ``retrain="everything"`` also trains the
    encoder again by the tagger's recipe, for ``num_seeds`` seeds, from an untrained ``encoder`` (default: like the
    tagger's) and with ``dev`` to choose the epoch; training on ``after`` ends with a few steps on ``trusted``,
    sentences with labels that are known to be right, or HIDDEN (``decided_sentences``). Finished runs are kept in the
    folder ``work``. ``tagger`` is the folder of the index's tagger (default: where it was). The interval of the
    difference comes from ``samples`` paired bootstrap resamples of the documents of ``test`` (of sentences if it has no
    documents).
    """
    trusted = sentences_of(trusted)
    _check_options(before, after, test, retrain, dev, trusted, num_seeds, encoder, l2, samples, work)
    if tagger is not None and not isinstance(source, Index):
        raise OptionError("the folder of a tagger is only used with an index; leave it out")
    model = (source.tagger(tagger) if isinstance(source, Index) else deepcopy(source)).to(pick_device(device))
    if retrain == "head":
        index = source if isinstance(source, Index) else None
        options = RefitOptions(_l2(index, model) if l2 is None else l2)
        rows = None if index is None else _known_rows(index, before)
        found = head_gain(
            model, before, after, test, options, rows=rows, samples=samples, encoding=encoding, refitting=refitting
        )
    else:
        make = None if encoder is None else lambda seed: build_encoder(encoder, before.sentences, seed)
        found = full_gain(
            model, before, after, test, dev, trusted=trusted, num_seeds=num_seeds, encoder=make,
            work=None if work is None else Path(work), samples=samples, training=training,
        )  # fmt: skip
    return replace(found, retrained=retrain, num_changed=num_changed(before, after), num_trusted=len(trusted))


def _check_options(
    before: Corpus,
    after: Corpus,
    test: Corpus,
    retrain: Retrain,
    dev: Corpus | None,
    trusted: Sequence[Sentence],
    num_seeds: int,
    encoder: str | None,
    l2: float | None,
    samples: int,
    work: str | Path | None,
) -> None:
    """Raise, before any work is done, if options contradict each other."""
    for name, given in (("before", before), ("after", after), ("test", test)):
        check_type(name, given, Corpus, "give read_corpus(path)")
    for corpus, name in ((before, "before"), (after, "after")):
        if real_path(corpus.path) == real_path(test.path):
            raise OptionError(f"{test.path}: the test data is also the training data {name}; give held-out data")
    for held_out, what in ((test, "test"), (dev, "dev")):
        check_held_out(trusted, held_out, what)
    check_num_seeds(num_seeds)
    if samples < 1:
        raise OptionError(f"samples {samples}: must be at least 1")
    if retrain == "head":
        for name, value in (("dev", dev), ("trusted", trusted or None), ("encoder", encoder), ("work", work)):
            if value is not None:
                raise OptionError(f"{name} is only used if everything is retrained, not only the head")
        if num_seeds > 1:
            raise OptionError(
                "several seeds are only used if everything is retrained: the head has one optimum, whatever the seed"
            )
    elif retrain != "everything":
        raise OptionError(f"retrain {retrain!r}: expected head or everything")
    elif l2 is not None:
        raise OptionError("l2 is only used if only the head is retrained")


def _l2(index: Index | None, tagger: Tagger) -> float:
    """The L2 strength that the head was fitted with."""
    recorded = tagger.record.get("refit", {}).get("options", {}).get("l2", 1.0)
    return index.manifest.l2 if index is not None else recorded


def _known_rows(index: Index, before: Corpus) -> Rows | None:
    """The features in the index, if it was built from this data."""
    try:
        index.check_corpus(before)
    except IndexFolderError:
        return None
    return index.rows.joined()
