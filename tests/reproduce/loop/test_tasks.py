"""Tasks: noisy and true labels of the same sentences, drawn by seed in whole documents."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tagtrace._checks import OptionError
from tagtrace.data import Sentence
from tagtrace.data.invented import generate, write_invented
from tagtrace.reproduce.loop.noise_kinds import NOISES
from tagtrace.reproduce.loop.tasks import TASKS, in_fives, read_task, sample_sentences
from tests.places import DATA
from tests.reproduce.loop.made_noise import true_sentences


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder in which invented text takes the place of the corpora."""
    for name in ("wnut17", "other/ncbi_disease"):
        write_invented(generate(2, 40), tmp_path / name)
        (tmp_path / name / "train_true.conll").unlink()
    return tmp_path


def test_every_source_is_combined_with_every_noise() -> None:
    assert len(TASKS) == 3 * len(NOISES) + 2
    assert {"wnut17/missed", "ncbi/gazetteer", "demo/eager", "reiss", "demo"} < set(TASKS)


@pytest.mark.parametrize("name", ["wnut17/missed", "ncbi/rules", "demo/eager", "demo"])
def test_a_task_has_wrong_labels_in_some_sentences(name: str, folder: Path) -> None:
    task = read_task(folder, name, 1, size=60)
    assert 60 <= len(task.true) < 90
    assert [one.tokens for one in task.corpus.sentences] == [one.tokens for one in task.true]
    assert 0.002 < task.share_wrong < 0.12
    assert task.test
    assert not {one.tokens for one in task.test if len(one) > 8} & {one.tokens for one in task.true}
    task.labels.check([*task.corpus.sentences, *task.true, *task.test])
    assert task.corpus.sentences == read_task(folder, name, 1, size=60).corpus.sentences
    assert task.true != read_task(folder, name, 2, size=60).true


def test_the_share_of_wrong_tokens_can_be_chosen(folder: Path) -> None:
    assert read_task(folder, "wnut17/boundaries", 0, share=0.05).share_wrong == pytest.approx(0.05, abs=0.003)


def test_samples_keep_documents_whole() -> None:
    true = true_sentences()
    kept = [true[number] for number in sample_sentences(true, 50, 0)]
    assert kept == [one for one in true if one in kept], "in the order of the data"
    sizes = Counter(one.document for one in true)
    assert Counter(one.document for one in kept) == {name: sizes[name] for name in {one.document for one in kept}}
    assert 50 <= len(kept) < 50 + max(sizes.values())
    assert sample_sentences(true, 0, 0) == list(range(len(true)))
    assert sample_sentences(true, 50, 0) != sample_sentences(true, 50, 1)


def test_five_sentences_are_a_document() -> None:
    found = in_fives([Sentence((f"w{number}",), ("O",)) for number in range(12)])
    assert Counter(one.document for one in found) == {"0": 5, "1": 5, "2": 2}


def test_an_unknown_task_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="no task 'wnut17'; expected one of wnut17/missed"):
        read_task(tmp_path, "wnut17", 0)


@pytest.mark.skipif(not (DATA / "conll2003_corrected").is_dir(), reason="no CoNLL-2003 here")
def test_reiss_has_the_published_number_of_wrong_tokens() -> None:
    task = read_task(DATA, "reiss", 0)
    assert round(task.share_wrong * task.corpus.num_tokens) == 519
