"""train() is new_tagger and train_tagger in one call; encoders that are not trained get the exact head."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tagtrace._checks import DataError, EncoderError, OptionError
from tagtrace.data import Corpus, LabelSet, read_corpus
from tagtrace.data.invented import generate, write_invented
from tagtrace.data.labels import HIDDEN
from tagtrace.tagger import (
    Encoder,
    HeadOptions,
    Lexical,
    LexicalOptions,
    RefitOptions,
    Step,
    TrainOptions,
    Vectors,
    build_encoder,
    new_tagger,
    refit_tagger,
    remove_checkpoint,
    train,
    train_tagger,
)
from tagtrace.tagger.further import train_further
from tests.tagger.test_training import same, weights

OPTIONS = TrainOptions(epochs=2, batch_size=8, seed=3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    write_invented(generate(num_documents=20), folder)
    return folder


@pytest.fixture(scope="module")
def corpus(folder: Path) -> Corpus:
    found = read_corpus(folder / "train.conll")
    return found.with_sentences(found.sentences[:24])


@pytest.fixture(scope="module")
def dev(folder: Path) -> Corpus:
    found = read_corpus(folder / "dev.conll")
    return found.with_sentences(found.sentences[:8])


def small(seed: int = 0) -> Lexical:
    torch.manual_seed(seed)
    return Lexical(LexicalOptions(buckets=512, width=16, hidden=16))


def vectors(corpus: Corpus) -> Vectors:
    words = sorted({token for sentence in corpus.sentences for token in sentence.tokens})
    torch.manual_seed(0)
    return Vectors(words, torch.randn(len(words), 8))


@pytest.mark.parametrize("with_dev", [False, True])
@pytest.mark.parametrize("head", [None, HeadOptions(start_end=True, constrained=True)])
def test_it_equals_the_steps_with_the_same_seeds(
    corpus: Corpus, dev: Corpus, with_dev: bool, head: HeadOptions | None
) -> None:
    torch.manual_seed(int(with_dev))  # the caller's random numbers must not matter
    found = train(corpus, dev if with_dev else None, head=head, options=OPTIONS, device="cpu")
    labels = LabelSet.from_sentences(corpus.sentences, "iob2")
    expected = new_tagger(build_encoder("lexical", corpus.sentences, OPTIONS.seed), labels, head, seed=OPTIONS.seed)
    history = train_tagger(expected, corpus.sentences, dev.sentences if with_dev else (), OPTIONS)
    assert found.labels == labels
    assert same(weights(found), weights(expected))
    assert len(history.dev_loss) == (2 if with_dev else 0)
    assert found.record["training"] == expected.record["training"]


def test_an_encoder_may_be_given(corpus: Corpus) -> None:
    found = train(corpus, encoder=small(), unit="document", options=OPTIONS, device="cpu")
    labels = LabelSet.from_sentences(corpus.sentences, "iob2")
    expected = new_tagger(small(), labels, unit="document", seed=OPTIONS.seed)
    train_tagger(expected, corpus.sentences, options=OPTIONS)
    assert found.unit == "document"
    assert same(weights(found), weights(expected))


def test_an_encoder_that_is_not_trained_gets_the_exact_head(corpus: Corpus, dev: Corpus) -> None:
    steps: list[int] = []
    found = train(
        corpus, dev, encoder=vectors(corpus), options=OPTIONS, refit=RefitOptions(l2=2.0), device="cpu",
        progress=lambda _: pytest.fail("nothing is trained"), refit_progress=lambda step, *_: steps.append(step),
    )  # fmt: skip
    labels = LabelSet.from_sentences(corpus.sentences, "iob2")
    expected = new_tagger(vectors(corpus), labels, seed=OPTIONS.seed)
    result = refit_tagger(expected, corpus.sentences, RefitOptions(l2=2.0))
    assert torch.equal(found.head.flat(), expected.head.flat())
    assert found.head.weight.dtype == torch.float64
    assert result.max_gradient <= 1e-6
    assert steps == list(range(1, result.num_steps + 1))
    assert "training" not in found.record
    assert found.record["refit"] == expected.record["refit"]


def test_the_record_names_the_data(corpus: Corpus) -> None:
    for encoder in (small(), vectors(corpus)):
        found = train(corpus, encoder=encoder, options=OPTIONS, device="cpu")
        assert found.record["data"] == {"train": str(corpus.path), "fingerprint": corpus.fingerprint}


@pytest.mark.parametrize("trainable", [True, False])
def test_dev_labels_are_checked_before_any_work(corpus: Corpus, dev: Corpus, trainable: bool) -> None:
    first = dev.sentences[0]
    odd = dev.with_sentences([first.with_labels(["B-GENE"] * len(first)), *dev.sentences[1:]])
    encoder: Encoder = small() if trainable else vectors(corpus)
    fail: Any = lambda *_: pytest.fail("no work may be done")  # noqa: E731
    with pytest.raises(DataError, match=r"dev\.conll, line \d+: unknown label 'B-GENE'"):
        train(corpus, odd, encoder=encoder, options=OPTIONS, progress=fail, refit_progress=fail)


def test_both_files_are_shown_to_the_encoder(corpus: Corpus, dev: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Corpus] = []

    def check(file: Corpus) -> None:
        seen.append(file)
        if file is dev:
            raise EncoderError("too few rows")

    encoder = small()
    monkeypatch.setattr(encoder, "check_corpus", check)
    with pytest.raises(EncoderError, match="too few rows"):
        train(corpus, dev, encoder=encoder, options=OPTIONS)
    assert seen == [corpus, dev]


def test_an_interrupted_run_resumes(corpus: Corpus, dev: Corpus, tmp_path: Path) -> None:
    options = TrainOptions(epochs=2, batch_size=8, checkpoint_seconds=0)

    def stop(now: Step) -> None:
        if now.step == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(corpus, dev, encoder=small(), options=options, device="cpu", checkpoint=tmp_path / "c", progress=stop)
    steps: list[int] = []
    resumed = train(
        corpus, dev, encoder=small(), options=options, device="cpu", checkpoint=tmp_path / "c",
        progress=lambda now: steps.append(now.step),
    )  # fmt: skip
    assert steps == [4, 5, 6]
    assert same(weights(resumed), weights(train(corpus, dev, encoder=small(), options=options, device="cpu")))
    remove_checkpoint(tmp_path / "c")
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize("encoder", ["vectors", "magic", "lexical:x"])
def test_an_unknown_encoder_is_refused(corpus: Corpus, encoder: str) -> None:
    with pytest.raises(OptionError, match=f"encoder '{encoder}'"):
        train(corpus, encoder=encoder, options=OPTIONS)


def test_training_ends_with_trusted_sentences(corpus: Corpus) -> None:
    """As ``train_further`` after training without them; the recipe that is recorded is that of the training."""
    hidden = [one.with_labels([label if t else HIDDEN for t, label in enumerate(one.labels)])
              for one in corpus.sentences[:5] if len(one)]  # fmt: skip
    found = train(corpus, trusted=hidden, encoder=small(), options=OPTIONS, device="cpu")
    expected = train(corpus, encoder=small(), options=OPTIONS, device="cpu")
    assert not same(weights(found), weights(expected))
    train_further(expected, hidden, OPTIONS)
    assert same(weights(found), weights(expected))
    assert found.record["training"]["options"] == OPTIONS.to_json()
    assert found.record["further"] == {"num_sentences": len(hidden)}


def test_trusted_sentences_are_checked_before_training(corpus: Corpus) -> None:
    steps: list[Step] = []
    one = next(one for one in corpus.sentences if len(one) > 1)
    with pytest.raises(DataError, match="unknown label 'B-GOD'"):
        train(corpus, trusted=[one.with_labels(["B-GOD"] * len(one))], encoder=small(), progress=steps.append)
    constrained = HeadOptions(constrained=True)
    ill_formed = one.with_labels(["O", "I-LOC", *[HIDDEN] * (len(one) - 2)])
    with pytest.raises(DataError, match="the trusted label I-LOC of token 1 cannot stand there"):
        train(corpus, trusted=[ill_formed], encoder=small(), head=constrained, progress=steps.append)
    copied = [replace(other, document="copy", id=f"copy:{n}") for n, other in enumerate(corpus.sentences)]
    with pytest.raises(OptionError, match="of the 24 sentences of the dev data are also trusted"):
        train(corpus, corpus, trusted=[*copied, one], encoder=small(), progress=steps.append)
    with pytest.raises(OptionError, match="trusted: expected sentences"):
        train(corpus, trusted="dev.conll", encoder=small(), progress=steps.append)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="a vectors encoder cannot be trained further on trusted sentences"):
        train(corpus, trusted=[one], encoder=vectors(corpus))
    assert steps == []
