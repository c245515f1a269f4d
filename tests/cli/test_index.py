"""``tagtrace index``: what it prints, what it refuses, and that an interrupted run resumes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import Result

from tagtrace.data import LabelSet, read_corpus
from tagtrace.index import IndexOptions, open_index
from tagtrace.influence.whole.stored import has_whole
from tagtrace.tagger import Lexical, LexicalOptions, load_tagger, new_tagger, save_tagger
from tests.cli.command import refused, tagtrace

TRAIN = "-DOCSTART- O\n\nOslo B-LOC\nis O\ncold O\n\nAnna B-PER\nSmith I-PER\nin O\nZürich B-LOC\n\n" * 8


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with `train.conll` and an untrained `tagger`."""
    (tmp_path / "train.conll").write_text(TRAIN, encoding="utf-8")
    corpus = read_corpus(tmp_path / "train.conll")
    torch.manual_seed(0)
    labels = LabelSet.from_sentences(corpus.sentences, corpus.normalised_scheme)
    save_tagger(new_tagger(Lexical(LexicalOptions(64, 8, 8)), labels), tmp_path / "tagger")
    return tmp_path


def index(files: Path, *options: object) -> Result:
    arguments = [files / name for name in ("tagger", "train.conll", "index")]
    return tagtrace("index", *arguments, *options, "--device", "cpu")


def test_an_index_is_written_and_its_size_is_printed(files: Path) -> None:
    result = index(files)
    assert result.exit_code == 0, result.output
    first, *_, last = result.stdout.splitlines()
    assert first.startswith("56 tokens x (16 features + 5 errors): about 0.0 MB")
    assert any(line.startswith("step  1  objective") for line in result.stderr.splitlines())
    assert last.startswith(f"wrote {files / 'index'}: 56 tokens in 16 sentences")
    assert "max |gradient|" in last
    built = open_index(files / "index", verify=True)
    built.check_tagger(load_tagger(files / "tagger"))
    built.check_corpus(read_corpus(files / "train.conll"))
    assert built.manifest.fit.max_gradient <= 1e-6
    assert built.sentence(1).tokens == ("Anna", "Smith", "in", "Zürich")
    assert built.sentence(1).lines == (7, 8, 9, 10)
    assert built.manifest.tagger.path == str(files / "tagger")


def test_options_reach_the_index(files: Path) -> None:
    options = ["--dtype", "bfloat16", "--l2", 0.5, "--tolerance", 1e-9, "--max-steps", 50, "--shard-tokens", 20]
    assert index(files, *options).exit_code == 0
    built = open_index(files / "index")
    expected = {"dtype": "bfloat16", "refit": True, "l2": 0.5, "tolerance": 1e-9, "max_steps": 50, "shard_tokens": 20}
    assert built.manifest.options == IndexOptions(**expected)
    assert built.manifest.fit.max_gradient <= 1e-9
    assert len(built.shards) == 4


def test_no_refit_warns(files: Path) -> None:
    result = index(files, "--no-refit")
    assert result.exit_code == 0
    assert "warning: the head was not refitted" in result.stderr
    assert not open_index(files / "index").manifest.fit.refit


def test_an_index_is_only_replaced_when_asked(files: Path) -> None:
    assert index(files).exit_code == 0
    refused(index(files), f"{files / 'index'}: exists already")
    assert index(files, "--overwrite", "--l2", 2).exit_code == 0
    assert open_index(files / "index").manifest.l2 == 2.0


def test_an_interrupted_run_resumes_or_restarts(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    def interrupt() -> None:
        with monkeypatch.context() as patch:
            patch.setattr("tagtrace.index.build.refit_head", stop)
            refused(index(files, "--overwrite"), "interrupted", status=130)
        assert (files / "index.building").is_dir()

    interrupt()
    refused(index(files, "--l2", 2), "index.building", "restart")
    assert index(files).exit_code == 0
    assert not (files / "index.building").exists()
    interrupt()
    assert index(files, "--restart", "--overwrite", "--l2", 2).exit_code == 0
    assert not (files / "index.building").exists()
    assert open_index(files / "index").manifest.l2 == 2.0


@pytest.mark.parametrize(
    ("options", "expected"),
    [(("--l2", -1), "l2"), (("--shard-tokens", 0), "shard_tokens"), (("--scheme", "plain"), "labels are plain")],
)
def test_bad_input_is_one_line(files: Path, options: tuple[object, ...], expected: str) -> None:
    result = index(files, *options)
    refused(result, expected)
    assert result.stderr.count("\n") == 1
    assert sorted(path.name for path in files.iterdir()) == ["tagger", "train.conll"]


def test_seeds_are_added_to_a_finished_index(data: Path, tagger: Path, tmp_path: Path) -> None:
    arguments = ["index", tagger, data / "train.conll", tmp_path / "index", "--device", "cpu"]
    result = tagtrace(*arguments, "--seeds", 0)
    assert result.exit_code == 0, result.output
    assert "training" not in result.stdout
    result = tagtrace(*arguments, "--seeds", 1)  # as after an interruption
    assert result.exit_code == 0, result.output
    assert "the index is complete" in result.stdout
    assert re.search(
        r"training 1 tagger for a quarter of their epochs, for the score whole: about [\d.]+ MB", result.stdout
    )
    assert has_whole(open_index(tmp_path / "index"), 1)
    refused(tagtrace(*arguments, "--seeds", 1), "exists already")
    refused(tagtrace(*arguments, "--seeds", 2, "--l2", 2.0), "exists already")
    assert tagtrace(*arguments, "--seeds", -1).exit_code == 2
    found = tagtrace("explain", tmp_path / "index", "--data", data / "dev.conll", "--most", 1, "--device", "cpu")
    assert "by whole" in found.stdout
