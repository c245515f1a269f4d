"""Out-of-sample probabilities against refits and trainings made here, and folds that survive a kill."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tagtrace._checks import DataError, OptionError
from tagtrace.data import Corpus, Sentence
from tagtrace.findings import Probabilities, assign_folds, encoder_folds, in_sample, out_of_sample, taught_head
from tagtrace.findings.judges.folds import MAX_REPEATS
from tagtrace.index import Index
from tagtrace.tagger import Head, HeadOptions, Rows, Step, Tagger, TrainOptions, crf, train_tagger
from tagtrace.tagger.rows import pad_rows
from tests import oracles
from tests.findings.made import double_rows, make_corpus, make_index, make_sentences, make_tagger

RECIPE = TrainOptions(epochs=2, batch_size=4, learning_rate=0.05, dropout=0.0, checkpoint_seconds=0.0)


def test_documents_stay_together_and_folds_are_even() -> None:
    documents = [f"d{number % 11}" for number in range(50)]
    folds = assign_folds(documents, 4, seed=3)
    per_document = {name: {int(folds[i]) for i in range(50) if documents[i] == name} for name in documents}
    assert all(len(found) == 1 for found in per_document.values())
    sizes = torch.tensor([next(iter(found)) for found in per_document.values()]).bincount()
    assert sorted(sizes.tolist()) == [2, 3, 3, 3]
    assert folds.tolist() == assign_folds(documents, 4, seed=3).tolist()
    assert folds.tolist() != assign_folds(documents, 4, seed=4).tolist()


def test_without_documents_the_folds_are_over_sentences() -> None:
    folds = assign_folds([""] * 10, 5)
    assert folds.bincount().tolist() == [2] * 5
    assert assign_folds(["the only one"] * 10, 5).bincount().tolist() == [2] * 5
    mixed = assign_folds(["a", "", "a", "", "a"], 3)
    assert len(set(mixed.tolist())) == 3
    assert int(mixed[0]) == int(mixed[2]) == int(mixed[4])


@pytest.mark.parametrize(("num_folds", "message"), [(1, "at least 2"), (4, "the data has only 3 documents")])
def test_folds_that_cannot_be(num_folds: int, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        assign_folds(["a", "b", "", "a"], num_folds)


def minimise(head: Head, rows: Rows, l2: float) -> Head:
    """The optimum of mean loss + l2/(2N) |theta|^2 by L-BFGS and autograd, from zero."""
    head = deepcopy(head)
    head.set_flat(torch.zeros_like(head.flat()))
    labels, num_sentences = pad_rows(rows.labels, rows.lengths), len(rows.lengths)
    optimiser = torch.optim.LBFGS(
        head.parameters(), max_iter=2000, tolerance_grad=1e-9, tolerance_change=0, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        optimiser.zero_grad()
        size = sum(part.square().sum() for part in head.parameters())
        loss = (
            crf.joint_loss(head(rows.features.double(), rows.lengths), labels).mean() + l2 / (2 * num_sentences) * size
        )
        loss.backward()
        return loss

    optimiser.step(closure)  # type: ignore[arg-type]
    return head


@pytest.mark.parametrize("head", [HeadOptions(start_end=True), HeadOptions("softmax")], ids=["crf", "softmax"])
@pytest.mark.parametrize("documents", [True, False], ids=["documents", "sentence_numbers"])
def test_out_of_sample_is_what_a_refit_without_the_fold_gives(
    tmp_path: Path, head: HeadOptions, documents: bool
) -> None:
    index = make_index(tmp_path, make_corpus(documents=documents), head)
    calls: list[tuple[int, int]] = []
    found = out_of_sample(index, 3, seed=2, tolerance=1e-9, progress=lambda *counts: calls.append(counts))
    assert found.sample == "out-of-sample"
    assert len(calls) == 3
    assert calls[-1] == (index.num_sentences, index.num_sentences)
    folds = assign_folds(index.documents, 3, seed=2)
    assert (len(set(folds[::6].tolist())) == 1) == documents, "doc-0 has sentences 0, 6 and 12"
    for fold in range(3):
        sentences = [
            index.sentence_rows(number, torch.float64) for number in (folds != fold).nonzero().squeeze(1).tolist()
        ]
        rows = Rows(*(torch.cat([getattr(c, name) for c in sentences]) for name in ("features", "labels", "lengths")))
        refitted = minimise(index.head, rows, index.manifest.l2)
        check_fold(found, index, refitted, (folds == fold).nonzero().squeeze(1).tolist())
    difference = (found.marginals - in_sample(index).marginals).abs().max()
    assert float(difference) > 0.05, "the fold matters"


def check_fold(found: Probabilities, index: Index, head: Head, sentences: list[int]) -> None:
    rows = double_rows(index)
    with torch.no_grad():
        scores = head(rows.features, rows.lengths)
    for number in sentences:
        start, stop = (
            int(index.starts[number]),
            int(index.starts[number] + index.lengths[number]),
        )
        nodes = oracles.node_marginals(scores, number)[: stop - start]
        torch.testing.assert_close(found.marginals[start:stop].double(), nodes, rtol=0, atol=1e-5)
        joint = oracles.joint_loss(scores, number, tuple(rows.labels[start:stop].tolist()))
        assert float(found.joint_losses[number]) == pytest.approx(float(joint.detach()), abs=1e-5)


def chosen_rows(index: Index, sentences: Tensor) -> Rows:
    """Sentences of the index, one by one."""
    parts = [index.sentence_rows(number, torch.float64) for number in sentences.tolist()]
    return Rows(*(torch.cat([getattr(part, name) for part in parts]) for name in ("features", "labels", "lengths")))


def with_trusted(rows: Rows, trusted: Rows, repeats: int) -> Rows:
    features = [rows.features, *[trusted.features.double()] * repeats]
    labels, lengths = [rows.labels, *[trusted.labels] * repeats], [rows.lengths, *[trusted.lengths] * repeats]
    return Rows(torch.cat(features), torch.cat(labels), torch.cat(lengths))


@pytest.mark.parametrize(
    ("num_trusted", "num_kept", "repeats"),
    [(4, 18, 5), (6, 18, 3), (30, 18, 1), (4, 7, 2), (1, 60, MAX_REPEATS)],
)
def test_a_taught_head_has_learned_from_repeated_trusted_sentences(
    tmp_path: Path, num_trusted: int, num_kept: int, repeats: int
) -> None:
    index = make_index(tmp_path, make_corpus(max(num_kept, 18)))
    keep = (
        torch.arange(index.num_sentences) % 5 != 1
        if num_kept == 7
        else torch.ones(index.num_sentences, dtype=torch.bool)
    )
    keep[keep.nonzero().squeeze(1)[num_kept:]] = False
    assert int(keep.sum()) == num_kept
    trusted = make_tagger().rows(make_sentences(num_trusted, seed=7))
    found = taught_head(index, keep, trusted, tolerance=1e-9)
    kept = chosen_rows(index, keep.nonzero().squeeze(1))
    expected = minimise(index.head, with_trusted(kept, trusted, repeats), index.manifest.l2)
    torch.testing.assert_close(found.flat(), expected.flat(), rtol=0, atol=1e-5)
    less = minimise(index.head, with_trusted(kept, trusted, repeats - 1), index.manifest.l2)
    assert not torch.allclose(found.flat(), less.flat(), rtol=0, atol=1e-3), "how often matters"


def test_trusted_features_are_rounded_as_stored_ones_are(tmp_path: Path) -> None:
    index = make_index(tmp_path, dtype="bfloat16")
    keep, trusted = torch.ones(index.num_sentences, dtype=torch.bool), make_tagger().rows(make_sentences(9, seed=7))
    rounded = Rows(trusted.features.bfloat16().float(), trusted.labels, trusted.lengths)
    assert torch.equal(taught_head(index, keep, trusted).flat(), taught_head(index, keep, rounded).flat())
    nothing = Rows(trusted.features[:0], trusted.labels[:0], trusted.lengths[:0])
    with pytest.raises(DataError, match="no trusted sentences"):
        taught_head(index, keep, nothing)


def test_out_of_sample_with_trusted_sentences(tmp_path: Path) -> None:
    """Every fold learns from all of them, repeated as often as the fold's other sentences ask for."""
    index = make_index(tmp_path)
    trusted = make_tagger().rows(make_sentences(5, seed=7))
    found = out_of_sample(index, 3, seed=2, trusted=trusted, tolerance=1e-9)
    folds = assign_folds(index.documents, 3, seed=2)
    for fold in range(3):
        others = (folds != fold).nonzero().squeeze(1)
        rows = with_trusted(chosen_rows(index, others), trusted, math.ceil(len(others) / 5))
        refitted = minimise(index.head, rows, index.manifest.l2)
        check_fold(found, index, refitted, (folds == fold).nonzero().squeeze(1).tolist())
    difference = (found.marginals - out_of_sample(index, 3, seed=2).marginals).abs().max()
    assert float(difference) > 0.05, "the trusted sentences matter"


def test_rows_of_some_sentences_are_theirs(tmp_path: Path) -> None:
    index = make_index(tmp_path, dtype="float16")
    keep = torch.arange(index.num_sentences) % 3 == 1
    keep[:6] = False
    parts = list(index.rows_where(keep))
    assert torch.cat([sentences for sentences, _ in parts]).tolist() == keep.nonzero().squeeze(1).tolist()
    for sentences, rows in parts:
        assert rows.features.dtype == torch.float16
        expected = torch.cat([index.sentence_rows(number).features for number in sentences.tolist()])
        assert torch.equal(rows.features, expected)


def test_encoder_folds_train_without_the_fold(tmp_path: Path) -> None:
    corpus, tagger = make_corpus(), make_tagger()
    before = deepcopy(tagger.state_dict())
    found = encoder_folds(tagger, corpus, tmp_path / "folds", RECIPE, 3)
    assert all(torch.equal(before[name], value) for name, value in tagger.state_dict().items())
    folds = assign_folds([sentence.document for sentence in corpus.sentences], 3)
    places = torch.repeat_interleave(folds, found.lengths)
    for fold in range(3):
        trained = deepcopy(tagger)
        train_tagger(trained, [s for s, f in zip(corpus.sentences, folds, strict=True) if f != fold], (), RECIPE)
        held_out = [s for s, f in zip(corpus.sentences, folds, strict=True) if f == fold]
        rows = trained.rows(held_out)
        with torch.no_grad():
            scores = trained.head.double()(rows.features.double(), rows.lengths)
        expected = [oracles.node_marginals(scores, i)[: len(s)] for i, s in enumerate(held_out)]
        torch.testing.assert_close(found.marginals[places == fold].double(), torch.cat(expected), rtol=0, atol=1e-6)
    found.check_index(make_index(tmp_path, corpus))


def test_encoder_folds_learn_from_trusted_sentences_last(tmp_path: Path) -> None:
    """Each as if it had been trained once on the other folds and then, by another recipe, on the trusted sentences."""
    corpus, tagger, trusted = make_corpus(), make_tagger(), make_sentences(9, seed=7)
    further = replace(RECIPE, epochs=10, learning_rate=0.7 * 0.05, head_learning_rate=0.05, schedule="linear",
                      keep="last")  # 9 sentences are 3 batches of 4, and 30 steps are 10 epochs  # fmt: skip
    steps: dict[int, list[int]] = {}
    found = encoder_folds(
        tagger, corpus, tmp_path / "folds", RECIPE, 3, trusted=trusted,
        training=lambda fold, step: steps.setdefault(fold, []).append(step.step),
    )  # fmt: skip
    folds = assign_folds([sentence.document for sentence in corpus.sentences], 3)
    places = torch.repeat_interleave(folds, found.lengths)
    for fold in range(3):
        trained = deepcopy(tagger)
        train_tagger(trained, [s for s, f in zip(corpus.sentences, folds, strict=True) if f != fold], (), RECIPE)
        num_steps = len(steps[fold]) - 30
        assert steps[fold] == [*range(1, num_steps + 1), *range(1, 31)]
        train_tagger(trained, trusted, (), further)
        held_out = [s for s, f in zip(corpus.sentences, folds, strict=True) if f == fold]
        rows = trained.rows(held_out)
        with torch.no_grad():
            scores = trained.head.double()(rows.features.double(), rows.lengths)
        expected = [oracles.node_marginals(scores, i)[: len(s)] for i, s in enumerate(held_out)]
        torch.testing.assert_close(found.marginals[places == fold].double(), torch.cat(expected), rtol=0, atol=1e-6)


def test_a_run_that_is_interrupted_while_it_learns_from_trusted_sentences_resumes(tmp_path: Path) -> None:
    corpus, tagger, trusted, steps = make_corpus(), make_tagger(), make_sentences(9, seed=7), []

    def run(folder: str, training: Callable[[int, Step], None] | None = None) -> Probabilities:
        return encoder_folds(tagger, corpus, tmp_path / folder, RECIPE, 3, trusted=trusted, training=training)

    def kill(fold: int, step: Step) -> None:
        if fold == 1 and step.num_steps == 30 and step.step == 12:
            raise KilledError

    whole = run("whole")
    with pytest.raises(KilledError):
        run("folds", kill)
    found = run("folds", lambda fold, step: steps.append((fold, step.num_steps, step.step)))
    assert steps[0] == (1, 30, 1), "only what comes after the other folds is repeated"
    assert torch.equal(found.marginals, whole.marginals)


def test_trusted_sentences_that_cannot_be_used_are_refused_before_training(tmp_path: Path) -> None:
    corpus, tagger, good = make_corpus(), make_tagger(), make_sentences(9, seed=7)

    def run(trusted: Sequence[Sentence], folder: str = "folds") -> Probabilities:
        return encoder_folds(tagger, corpus, tmp_path / folder, RECIPE, 3, trusted=trusted, training=fail)

    def fail(fold: int, step: Step) -> None:
        raise AssertionError((fold, step))

    for trusted, message in (
        ([*good, Sentence(("w1",), ("B-Z",), "t:1")], "t:1: unknown label 'B-Z'"),
        ([*good, Sentence(("w1",), (), "t:2")], "t:2: the trusted data has no labels here"),
        ([Sentence((), (), "t:3")], "the trusted data is empty"),
    ):
        with pytest.raises(DataError, match=message):
            run(trusted)
    whole = encoder_folds(tagger, corpus, tmp_path / "whole", RECIPE, 3, trusted=good)
    with_empty = encoder_folds(tagger, corpus, tmp_path / "some", RECIPE, 3, trusted=[*good, Sentence((), (), "t:3")])
    assert torch.equal(whole.marginals, with_empty.marginals)
    with pytest.raises(OptionError, match=r"another run \(different trusted\)"):
        run(good[1:], "whole")
    with pytest.raises(OptionError, match=r"another run \(different trusted\)"):
        run((), "whole")


class KilledError(Exception):
    """Stands for a process that ends in the middle."""


@pytest.mark.parametrize("fold", [0, 1])
def test_an_interrupted_run_resumes(tmp_path: Path, fold: int) -> None:
    corpus, tagger, steps = make_corpus(), make_tagger(), []
    whole = encoder_folds(tagger, corpus, tmp_path / "whole", RECIPE, 3)

    def note(number: int, step: Step) -> None:
        steps.append((number, step.step))

    def kill(number: int, step: Step) -> None:
        if (number, step.step) == (fold, 2):
            raise KilledError

    with pytest.raises(KilledError):
        encoder_folds(tagger, corpus, tmp_path / "folds", RECIPE, 3, training=kill)
    found = encoder_folds(tagger, corpus, tmp_path / "folds", RECIPE, 3, training=note)
    assert steps[0] == (fold, 3), "finished folds, and finished steps, are not repeated"
    assert torch.equal(found.marginals, whole.marginals)
    assert torch.equal(found.joint_losses, whole.joint_losses)
    names = {path.name for path in (tmp_path / "folds").iterdir()}
    assert names == {"folds.json", "fold-0.safetensors", "fold-1.safetensors", "fold-2.safetensors"}


def test_damaged_folds_are_trained_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    corpus, tagger, trained = make_corpus(), make_tagger(), set()
    whole = encoder_folds(tagger, corpus, tmp_path / "folds", RECIPE, 3)
    path = tmp_path / "folds" / "fold-1.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    found = encoder_folds(tagger, corpus, tmp_path / "folds", RECIPE, 3, training=lambda fold, _: trained.add(fold))
    assert trained == {1}
    assert "damaged; trained again" in caplog.text
    assert torch.equal(found.marginals, whole.marginals)


def test_folds_of_another_run_are_refused(tmp_path: Path) -> None:
    corpus, tagger = make_corpus(), make_tagger()
    encoder_folds(tagger, corpus, tmp_path / "folds", RECIPE, 3)
    with pytest.raises(OptionError, match=r"another run \(different seed\)"):
        encoder_folds(tagger, corpus, tmp_path / "folds", RECIPE, 3, seed=1)
    with pytest.raises(OptionError, match=r"another run \(different data\)"):
        encoder_folds(tagger, make_corpus(seed=1), tmp_path / "folds", RECIPE, 3)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep")
    with pytest.raises(OptionError, match=r"has no folds\.json"):
        encoder_folds(tagger, corpus, tmp_path / "mine", RECIPE, 3)
    (tmp_path / "folds" / "folds.json").write_text("{")
    with pytest.raises(OptionError, match="not valid JSON"):
        encoder_folds(tagger, corpus, tmp_path / "folds", RECIPE, 3)


def test_taggers_that_leak_or_cannot_be_trained_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus, tagger = make_corpus(), make_tagger()
    train_tagger(tagger, corpus.sentences, (), RECIPE)
    with pytest.raises(OptionError, match="has seen the labels"):
        encoder_folds(tagger, corpus, tmp_path / "folds", RECIPE, 3)
    frozen = make_tagger()
    monkeypatch.setattr(type(frozen.encoder), "trainable", False)
    with pytest.raises(OptionError, match="a spelt encoder cannot be trained; refit only the head for each fold"):
        encoder_folds(frozen, corpus, tmp_path / "folds", RECIPE, 3)


def test_a_document_in_two_places_is_refused_where_documents_are_sentences(tmp_path: Path) -> None:
    tagger = make_tagger()
    documents = Tagger(tagger.encoder, tagger.head, tagger.labels, "document")
    corpus: Corpus = make_corpus()
    with pytest.raises(DataError, match="the sentences of a document are not next to each other"):
        encoder_folds(documents, corpus, tmp_path / "folds", RECIPE, 3)
    in_order: list[Sentence] = sorted(corpus.sentences, key=lambda sentence: sentence.document)
    found = encoder_folds(documents, corpus.with_sentences(in_order), tmp_path / "folds", RECIPE, 3)
    assert len(found.lengths) == len(corpus.documents)
    assert bool(found.marginals.isfinite().all())
