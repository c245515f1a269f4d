"""Retrain a tagger on data before and after its labels were fixed, and compare the two on held-out data.

``head_gain`` keeps the encoder: features are computed once, and the head is solved exactly on the labels before and
after, so nothing is random. ``full_gain`` trains encoder and head again by the tagger's recorded recipe, on both labels
with the same seeds. Both compare predictions by the paired bootstrap (``bootstrap``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from tagtrace._checks import DataError, OptionError, at
from tagtrace._progress import Progress
from tagtrace._run_folder import RunFolder
from tagtrace.data.corpus import Corpus
from tagtrace.data.schemes import normalise
from tagtrace.data.sentence import Sentence
from tagtrace.findings.gains.compare import Gain, Predicted, compare
from tagtrace.index.fingerprints import content_fingerprint
from tagtrace.tagger import (
    Head,
    RefitOptions,
    Rows,
    Step,
    Tagger,
    TrainOptions,
    refit_head,
    refit_tagger,
    remove_checkpoint,
    train_tagger,
)
from tagtrace.tagger.convex.refit import RefitProgress
from tagtrace.tagger.further import check_trusted, train_further
from tagtrace.tagger.recipe import EncoderMaker, Recipe
from tagtrace.tagger.training import sentences_digest

FORMAT = 4
MARKER = "gain.json"


def head_gain(
    tagger: Tagger,
    before: Corpus,
    after: Corpus,
    test: Corpus,
    options: RefitOptions | None = None,
    *,
    rows: Rows | None = None,
    samples: int = 1000,
    seed: int = 0,
    encoding: Progress | None = None,
    refitting: RefitProgress | None = None,
) -> Gain:
    """The gain with the encoder as it is and the head solved exactly; ``tagger`` itself is not changed.

    ``rows`` are the features of ``before`` if they are already known, for example from an index.
    """
    sentences = paired_sentences(tagger, before, after)
    held_out = _held_out(tagger, test)
    if rows is None:
        rows = tagger.rows(sentences[0], progress=encoding)
    test_rows = tagger.rows(held_out, progress=encoding)
    head, predicted = tagger.head, list[Predicted]()
    for side in sentences:
        labels = [label for sentence in tagger.joined(side) for label in tagger.labels.encode(sentence.labels)]
        side_rows = Rows(rows.features, torch.tensor(labels), rows.lengths)
        head = refit_head(head, side_rows.to(tagger.device), options, refitting).head
        predicted.append(predict_rows(tagger, head.cpu(), test_rows, held_out))
    return compare(held_out, predicted[:1], predicted[1:], tagger.labels.scheme, samples, seed)


@torch.no_grad()
def predict_rows(tagger: Tagger, head: Head, rows: Rows, sentences: Sequence[Sentence]) -> Predicted:
    """The best well-formed labels of sentences whose features are known."""
    paths = head.decode(rows.features, rows.lengths)
    labels = iter(tagger.labels.decode([label for path in paths for label in path]))
    each = [tuple(next(labels) for _ in sentence.tokens) for sentence in sentences]
    return [normalise(one, tagger.labels.scheme) for one in each]


def full_gain(
    tagger: Tagger,
    before: Corpus,
    after: Corpus,
    test: Corpus,
    dev: Corpus | None = None,
    *,
    trusted: Sequence[Sentence] = (),
    num_seeds: int = 1,
    encoder: EncoderMaker | None = None,
    work: Path | None = None,
    samples: int = 1000,
    seed: int = 0,
    training: Callable[[str, Step], None] | None = None,
) -> Gain:
    """The gain with encoder and head trained again by the tagger's recorded recipe, for ``num_seeds`` seeds.

    After training on ``after``, the tagger is trained a little further on ``trusted``, sentences with labels that are
    known to be right, or HIDDEN.
    ``encoder`` makes an untrained encoder from a seed (default: of the tagger's kind and options). Finished runs and
    checkpoints are kept in the folder ``work``, so that an interrupted call resumes when repeated. ``training`` is
    called with the name of a run (``before-0``) and a step.
    """
    if num_seeds < 1:
        raise OptionError(f"num_seeds {num_seeds}: must be at least 1")
    recipe = Recipe.of(tagger, encoder)
    options = recipe.options
    _check_dev(tagger, options, dev)
    check_trusted(tagger, trusted)
    if trusted and recipe.refit is not None:
        raise OptionError(
            "the tagger's head was refitted after training, which would undo what trusted sentences teach; leave them "
            "out, or use a tagger that was not refitted"
        )
    sides = dict(zip(("before", "after"), paired_sentences(tagger, before, after, not trusted), strict=True))
    held_out = _held_out(tagger, test)
    kept = None
    if work is not None:
        corpora = {**{name: before.with_sentences(side) for name, side in sides.items()}, "test": test, "dev": dev}
        kept = RunFolder(work, MARKER, _owner(tagger, recipe, corpora, trusted), "runs").open()
    predicted: dict[str, list[Predicted]] = {name: [] for name in sides}
    for number in range(options.seed, options.seed + num_seeds):
        for name, side in sides.items():
            run = f"{name}-{number}"
            found = _load_run(kept, run, tagger, held_out) if kept else None
            if found is None:
                fresh = recipe.untrained(number).to(tagger.device)
                report = None if training is None else lambda step, run=run: training(run, step)
                train_tagger(
                    fresh, side, dev.sentences if dev else (), replace(options, seed=number),
                    checkpoint=kept.folder / run if kept else None, progress=report,
                )  # fmt: skip
                if trusted and name == "after":
                    train_further(fresh, trusted, options, report)
                if recipe.refit is not None:
                    refit_tagger(fresh, side, recipe.refit)
                found = fresh.predict(held_out)
                if kept:
                    _save_run(kept, run, tagger, found)
            predicted[name].append(found)
    return compare(held_out, predicted["before"], predicted["after"], tagger.labels.scheme, samples, seed)


def paired_sentences(
    tagger: Tagger, before: Corpus, after: Corpus, must_differ: bool = True
) -> tuple[list[Sentence], list[Sentence]]:
    """The sentences of ``before`` with their own labels, and with those of ``after``.

    Raises unless the tokens are the same, some labels differ (if they must), and the tagger knows all labels.
    """
    if len(before.sentences) != len(after.sentences):
        raise DataError(
            f"{before.path} has {len(before.sentences)} sentences, {after.path} {len(after.sentences)}; "
            "give two copies of one file that differ only in labels"
        )
    for old, new in zip(before.sentences, after.sentences, strict=True):
        if old.tokens != new.tokens:
            places = " and ".join(at(one.path or one.id, one.lines[0] if one.lines else None) for one in (old, new))
            raise DataError(f"{places}: the tokens differ; give two copies of one file that differ only in labels")
    tagger.check_corpus(before)
    tagger.labels.check(after.sentences)
    if must_differ and num_changed(before, after) == 0:
        raise DataError(f"{before.path} and {after.path} have the same labels; there is no gain to measure")
    pairs = [(old, new) for old, new in zip(before.sentences, after.sentences, strict=True) if len(old)]
    return [old for old, _ in pairs], [old.with_labels(new.labels) for old, new in pairs]


def num_changed(before: Corpus, after: Corpus) -> int:
    """Number of tokens whose labels differ."""
    pairs = zip(before.sentences, after.sentences, strict=True)
    return sum(a != b for old, new in pairs for a, b in zip(old.labels, new.labels, strict=True))


def _held_out(tagger: Tagger, test: Corpus) -> list[Sentence]:
    tagger.check_corpus(test)
    return [sentence for sentence in test.sentences if len(sentence)]


def _check_dev(tagger: Tagger, options: TrainOptions, dev: Corpus | None) -> None:
    if dev is not None:
        tagger.check_corpus(dev)
    elif options.keep == "best" and tagger.record["training"]["history"]["dev_loss"]:
        raise OptionError("the tagger kept the epoch with the lowest loss on dev data; give that dev data")


def _owner(
    tagger: Tagger, recipe: Recipe, corpora: dict[str, Corpus | None], trusted: Sequence[Sentence]
) -> dict[str, Any]:
    """Everything that the runs depend on, except their seeds."""
    return {
        "format": FORMAT,
        **recipe.to_json(),
        "device": tagger.device.type,
        **{name: corpus and content_fingerprint(corpus) for name, corpus in corpora.items()},
        "trusted": sentences_digest(trusted),
    }


def _load_run(kept: RunFolder, run: str, tagger: Tagger, sentences: Sequence[Sentence]) -> Predicted | None:
    """The predictions of a finished run, or None."""
    saved = kept.read(f"{run}.safetensors")
    if saved is None:
        return None
    labels = iter(tagger.labels.decode(saved["labels"].tolist()))
    return [tuple(next(labels) for _ in sentence.tokens) for sentence in sentences]


def _save_run(kept: RunFolder, run: str, tagger: Tagger, predicted: Predicted) -> None:
    ids = torch.tensor([label for labels in predicted for label in tagger.labels.encode(labels)])
    kept.add({f"{run}.safetensors": {"labels": ids}})
    remove_checkpoint(kept.folder / run)
