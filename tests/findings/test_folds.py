"""Out-of-sample probabilities against refits and trainings made here, and folds that survive a kill."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tagtrace._checks import DataError, OptionError
from tagtrace.data import Corpus, Sentence
from tagtrace.findings import Probabilities, assign_folds, encoder_folds, in_sample, out_of_sample
from tagtrace.findings.probabilities import chain_rows
from tagtrace.index import Index
from tagtrace.influence.candidates import chain_documents
from tagtrace.tagger import Head, HeadOptions, Rows, Step, Tagger, TrainOptions, crf, train_tagger
from tagtrace.tagger.rows import pad_rows
from tests import oracles
from tests.findings.made import double_rows, make_corpus, make_index, make_tagger

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


def test_without_documents_the_folds_are_over_chains() -> None:
    folds = assign_folds([""] * 10, 5)
    assert folds.bincount().tolist() == [2] * 5
    mixed = assign_folds(["a", "", "a", "", "a"], 3)
    assert len(set(mixed.tolist())) == 3
    assert int(mixed[0]) == int(mixed[2]) == int(mixed[4])


@pytest.mark.parametrize(("num_folds", "message"), [(1, "at least 2"), (4, "the data has 3 documents")])
def test_folds_that_cannot_be(num_folds: int, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        assign_folds(["a", "b", "", "a"], num_folds)


def minimise(head: Head, rows: Rows, l2: float) -> Head:
    """The optimum of mean loss + l2/(2N) |theta|^2 by L-BFGS and autograd, from zero."""
    head = deepcopy(head)
    head.set_flat(torch.zeros_like(head.flat()))
    labels, num_chains = pad_rows(rows.labels, rows.lengths), len(rows.lengths)
    optimiser = torch.optim.LBFGS(
        head.parameters(), max_iter=2000, tolerance_grad=1e-9, tolerance_change=0, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        optimiser.zero_grad()
        size = sum(part.square().sum() for part in head.parameters())
        loss = crf.joint_loss(head(rows.features.double(), rows.lengths), labels).mean() + l2 / (2 * num_chains) * size
        loss.backward()
        return loss

    optimiser.step(closure)  # type: ignore[arg-type]
    return head


@pytest.mark.parametrize("head", [HeadOptions(start_end=True), HeadOptions("softmax")], ids=["crf", "softmax"])
@pytest.mark.parametrize("documents", [True, False], ids=["documents", "chains"])
def test_out_of_sample_is_what_a_refit_without_the_fold_gives(
    tmp_path: Path, head: HeadOptions, documents: bool
) -> None:
    index = make_index(tmp_path, make_corpus(documents=documents), head)
    calls: list[tuple[int, int]] = []
    found = out_of_sample(index, 3, seed=2, tolerance=1e-9, progress=lambda *counts: calls.append(counts))
    assert found.source == "out-of-sample"
    assert len(calls) == 3
    assert calls[-1] == (index.num_chains, index.num_chains)
    folds = assign_folds(chain_documents(index), 3, seed=2)
    assert (len(set(folds[::6].tolist())) == 1) == documents, "doc-0 has chains 0, 6 and 12"
    for fold in range(3):
        chains = [index.chain(chain, torch.float64) for chain in (folds != fold).nonzero().squeeze(1).tolist()]
        rows = Rows(*(torch.cat([getattr(c, name) for c in chains]) for name in ("features", "labels", "lengths")))
        refitted = minimise(index.head, rows, index.manifest.l2)
        check_fold(found, index, refitted, (folds == fold).nonzero().squeeze(1).tolist())
    difference = (found.marginals - in_sample(index).marginals).abs().max()
    assert float(difference) > 0.05, "the fold matters"


def check_fold(found: Probabilities, index: Index, head: Head, chains: list[int]) -> None:
    rows = double_rows(index)
    with torch.no_grad():
        scores = head(rows.features, rows.lengths)
    for chain in chains:
        start, stop = int(index.starts[chain]), int(index.starts[chain] + index.lengths[chain])
        nodes = oracles.node_marginals(scores, chain)[: stop - start]
        torch.testing.assert_close(found.marginals[start:stop].double(), nodes, rtol=0, atol=1e-5)
        joint = oracles.joint_loss(scores, chain, tuple(rows.labels[start:stop].tolist()))
        assert float(found.joint_losses[chain]) == pytest.approx(float(joint.detach()), abs=1e-5)


def test_rows_of_some_chains_are_theirs(tmp_path: Path) -> None:
    index = make_index(tmp_path, dtype="float16")
    keep = torch.arange(index.num_chains) % 3 == 1
    keep[:6] = False
    parts = list(chain_rows(index, keep))
    assert torch.cat([chains for chains, _ in parts]).tolist() == keep.nonzero().squeeze(1).tolist()
    for chains, rows in parts:
        assert rows.features.dtype == torch.float16
        expected = torch.cat([index.chain(chain).features for chain in chains.tolist()])
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


class KilledError(Exception):
    """Stands for a process that ends in the middle."""


@pytest.mark.parametrize("fold", [0, 1])
def test_a_killed_run_goes_on(tmp_path: Path, fold: int) -> None:
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
    with pytest.raises(OptionError, match=r"holds no folds\.json"):
        encoder_folds(tagger, corpus, tmp_path / "mine", RECIPE, 3)
    (tmp_path / "folds" / "folds.json").write_text("{")
    with pytest.raises(OptionError, match="damaged"):
        encoder_folds(tagger, corpus, tmp_path / "folds", RECIPE, 3)


def test_taggers_that_leak_or_cannot_be_trained_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus, tagger = make_corpus(), make_tagger()
    train_tagger(tagger, corpus.sentences, (), RECIPE)
    with pytest.raises(OptionError, match="has seen the labels"):
        encoder_folds(tagger, corpus, tmp_path / "folds", RECIPE, 3)
    frozen = make_tagger()
    monkeypatch.setattr(type(frozen.encoder), "trainable", False)
    with pytest.raises(OptionError, match="refit the head alone"):
        encoder_folds(frozen, corpus, tmp_path / "folds", RECIPE, 3)


def test_a_document_in_two_places_is_refused_where_documents_are_chains(tmp_path: Path) -> None:
    tagger = make_tagger()
    documents = Tagger(tagger.encoder, tagger.head, tagger.labels, "document")
    corpus: Corpus = make_corpus()
    with pytest.raises(DataError, match="stands in two places"):
        encoder_folds(documents, corpus, tmp_path / "folds", RECIPE, 3)
    in_order: list[Sentence] = sorted(corpus.sentences, key=lambda sentence: sentence.document)
    found = encoder_folds(documents, corpus.with_sentences(in_order), tmp_path / "folds", RECIPE, 3)
    assert len(found.lengths) == len(corpus.documents)
    assert bool(found.marginals.isfinite().all())
