"""Bad input gives one clear line and exit code 1, never a traceback or an incomplete file."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from tagtrace import read_corpus
from tagtrace.index.fingerprints import describe_corpus
from tests.cli.command import refused, succeed, tagtrace


def listing(folder: Path) -> dict[str, bytes | None]:
    """Every file and folder, hidden ones too, and the contents of files."""
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@pytest.fixture(scope="module")
def made(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data, arrays and a tagger fitted on them."""
    folder = tmp_path_factory.mktemp("made") / "data"
    shutil.copytree(data, folder)
    succeed("train", folder / "train.conll", folder / "tagger", "--encoder", f"precomputed:{folder}/arrays")
    return folder


@pytest.fixture
def here(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of that folder, which is the current folder."""
    folder = tmp_path / "here"
    shutil.copytree(made, folder)
    monkeypatch.chdir(folder)
    return folder


def fails(command: str, *words: str) -> str:
    """The one line that a failing command prints; it contains all ``words``, and every file is as it was."""
    folder = Path.cwd()
    before = listing(folder)
    result = tagtrace(*command.split())
    message = refused(result, *words)
    *progress, _ = result.stderr.splitlines()
    assert all(line.startswith(("epoch ", "step ", "training: ")) for line in progress), progress
    assert result.stderr.endswith(f"{message}\n")
    assert listing(folder) == before
    return message


READING = [
    "data check {}",
    "train {} out --epochs 1",
    "train train.conll out --dev {} --epochs 1",
    "predict tagger {} out",
    "evaluate tagger {}",
    "refit tagger {} out",
]


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("command", READING)
class TestFiles:
    """Every command that reads data refuses the same files in the same way."""

    def test_missing(self, command: str) -> None:
        fails(command.format("nowhere.conll"), "nowhere.conll", "No such file")

    def test_folder(self, command: str) -> None:
        fails(command.format("arrays"), "arrays", "Is a directory")

    @pytest.mark.parametrize("content", [b"", b"\n\n \n", b"-DOCSTART- O\n\n", b"\xef\xbb\xbf"])
    def test_empty(self, command: str, content: bytes) -> None:
        Path("bad.conll").write_bytes(content)
        fails(command.format("bad.conll"), "bad.conll: found no sentence")

    def test_wrong_encoding(self, command: str) -> None:
        Path("bad.conll").write_bytes("Varn B-LOC\nÖstrel B-LOC\n".encode("latin-1"))
        fails(command.format("bad.conll"), "bad.conll, line 2: byte 11 is not UTF-8", "convert")

    def test_damaged_gzip(self, command: str) -> None:
        Path("bad.conll").write_bytes(b"\x1f\x8b\x08\x00 not really")
        fails(command.format("bad.conll"), "bad.conll", "damaged gzip")

    def test_missing_columns(self, command: str) -> None:
        Path("bad.conll").write_text("Varn B-LOC\nbeat\nOstrel B-LOC\n")
        fails(command.format("bad.conll"), "bad.conll, line 2: found 1 columns", "expected 2")

    def test_no_labels(self, command: str) -> None:
        Path("bad.conll").write_text("Varn\nbeat\n")
        if command.startswith("predict"):  # needs no labels
            return
        fails(command.format("bad.conll"), "bad.conll, line 1: found 1 column", "unlabelled")

    def test_unknown_prefix(self, command: str) -> None:
        Path("bad.conll").write_text("Varn B-LOC\nbeat O\nOstrel X-LOC\n")
        fails(command.format("bad.conll"), "bad.conll, line 3: label 'X-LOC'", "expected O, B-TYPE, I-TYPE")

    def test_broken_json(self, command: str) -> None:
        Path("bad.jsonl").write_text('{"tokens": ["a"], "ner_tags": ["O"]}\n{"tokens": ["a"\n')
        fails(command.format("bad.jsonl"), "bad.jsonl, line 2: ", "JSON")

    def test_json_without_its_keys(self, command: str) -> None:
        Path("bad.jsonl").write_text('{"words": ["a"], "ner_tags": ["O"]}\n')
        fails(command.format("bad.jsonl"), "bad.jsonl, line 1: found no key 'tokens', only 'words, ner_tags'")

    def test_numbers_without_names(self, command: str) -> None:
        Path("bad.jsonl").write_text('{"tokens": ["a"], "ner_tags": [3]}\n')
        fails(command.format("bad.jsonl"), "bad.jsonl, line 1: found the label 3, a number")

    def test_bad_options(self, command: str) -> None:
        fails(f"{command.format('dev.conll')} --scheme runes", "unknown label scheme 'runes'", "iob1")
        fails(f"{command.format('dev.conll')} --label-column 7", "label in column 7")
        fails(f"{command.format('dev.conll')} --token-column 1 --label-column 1", "token_column and label_column")


# Labels that do not fit


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("encoder", ["lexical", "precomputed:arrays"])
def test_dev_labels_that_train_lacks(encoder: str) -> None:
    Path("dev.conll").write_text("Varn B-LOC\np53 B-GENE\n")
    message = fails(f"train train.conll out --dev dev.conll --encoder {encoder}", "dev.conll, line 2: unknown label")
    assert "'B-GENE'" in message


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("command", ["evaluate tagger {}", "refit tagger {} out"])
def test_labels_that_the_tagger_does_not_know(command: str) -> None:
    Path("new.conll").write_text("Varn B-LOC\np53 B-GENE\n")
    fails(command.format("new.conll"), "new.conll, line 2: unknown label 'B-GENE'")
    Path("pos.conll").write_text("the DET\ncat NOUN\n")
    fails(command.format("pos.conll"), "pos.conll: labels are plain", "trained on iob2", "scheme")


# Features


def spoil(row: int, value: float) -> None:
    array = np.load("arrays/train.conll.npy")
    array[row, 1] = value
    np.save("arrays/train.conll.npy", array)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_features_that_are_not_numbers(value: float) -> None:
    spoil(17, value)
    fails("train train.conll out --encoder precomputed:arrays", "arrays/train.conll.npy, row 17", "NaN")


@pytest.mark.usefixtures("here")
def test_features_that_do_not_fit() -> None:
    np.save("arrays/train.conll.npy", np.load("arrays/train.conll.npy")[:-1])
    fails("train train.conll out --encoder precomputed:arrays", "arrays/train.conll.npy", "one row for each token")
    Path("arrays/train.conll.npy").unlink()
    fails("train train.conll out --encoder precomputed:arrays", "no features for train.conll")


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("elmo", "expected lexical, vectors:FILE"),
        ("lexical:big", "expected lexical, vectors:FILE"),
        ("vectors", "for example vectors:PATH"),
        ("precomputed:", "for example precomputed:PATH"),
        ("precomputed:nowhere", "nowhere: no such folder"),
        ("precomputed:tagger/encoder", "has no .npy"),
        ("vectors:nowhere.txt", "nowhere.txt: no such file"),
        ("vectors:planted.jsonl", "planted.jsonl, line 1"),
        ("vectors:arrays", "arrays: cannot be read"),
        ("transformer:arrays", "arrays"),
    ],
)
def test_encoders_that_cannot_be_built(spec: str, words: str) -> None:
    fails(f"train train.conll out --encoder {spec}", words)


# Taggers and places


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("command", ["evaluate {} dev.conll", "predict {} dev.conll out", "refit {} train.conll out"])
def test_folders_that_are_not_taggers(command: str) -> None:
    for path in ("nowhere", "arrays", "train.conll"):
        fails(command.format(path), f"{path}: not a tagger (no tagger.json)")
    Path("tagger/tagger.json").write_text("{")
    fails(command.format("tagger"), "tagger/tagger.json: not valid JSON")


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("command", ["train train.conll {} --epochs 1", "refit other train.conll {}"])
def test_places_that_cannot_be_written(command: str) -> None:
    fails(command.format("tagger"), "tagger: exists already", "overwrite")
    fails(command.format("arrays") + " --overwrite", "arrays: has no tagger.json, so it is not replaced")
    fails(command.format(".") + " --overwrite", "is in this folder")
    fails(command.format("dev.conll") + " --overwrite", "dev.conll: has no tagger.json")
    fails(command.format("dev.conll/out"), "dev.conll/out", "not a folder that can be written to")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
@pytest.mark.parametrize("command", ["train train.conll locked/out", "refit tagger train.conll locked/out"])
def test_a_folder_without_permission(here: Path, command: str) -> None:
    (here / "locked").mkdir(mode=0o500)
    fails(command, "locked", "not a folder that can be written to")


NOT_UTF8 = os.fsdecode(b"\xff.conll")


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("command", ["train train.conll {} --epochs 1", "refit other train.conll {}"])
def test_folders_from_which_weights_could_not_be_read(command: str) -> None:
    fails(command.format(NOT_UTF8), r"\xff.conll: its full name is not UTF-8", "rename")


@pytest.mark.usefixtures("here")
def test_data_whose_name_is_not_utf8(tagger: Path) -> None:
    shutil.copy("train.conll", NOT_UTF8)
    succeed("refit", tagger, NOT_UTF8, "refitted")
    assert "\ufffd.conll" in json.loads(Path("refitted/tagger.json").read_text("utf-8"))["record"]["data"]["train"]
    succeed("predict", "refitted", NOT_UTF8, "predicted.conll")
    assert json.loads(succeed("data", "check", NOT_UTF8, "--json").stdout)[0]["path"] == "\ufffd.conll"
    corpus = read_corpus(NOT_UTF8)
    assert corpus.sentences[0].id == "\ufffd-0:0"
    json.dumps(asdict(describe_corpus(corpus, Path("index"))), ensure_ascii=False).encode()


@pytest.mark.usefixtures("here")
def test_predictions_that_cannot_be_written() -> None:
    fails("predict tagger dev.conll arrays", "arrays: is a folder")
    fails("predict tagger dev.conll dev.conll/out", "dev.conll")
    fails(f"predict tagger dev.conll {'x' * 300}", "File name too long")


# Options


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("device", ["cuda:99", "tpu", "meta", "hpu", "nonsense:"])
@pytest.mark.parametrize("command", ["train train.conll out --epochs 1", "evaluate tagger dev.conll"])
def test_devices_that_are_not_there(command: str, device: str) -> None:
    fails(f"{command} --device {device}", f"device '{device}' is not available", "cpu")


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--epochs 0", "epochs 0"),
        ("--batch-size -1", "batch_size -1"),
        ("--learning-rate 0", "learning_rate 0"),
        ("--learning-rate nan", "learning_rate nan"),
        ("--dropout 1", "dropout"),
        ("--max-norm 0", "max_norm"),
        ("--weight-decay nan", "weight_decay"),
        (f"--seed {10**30}", "seed"),
        ("--head softmax --constrained", "softmax"),
        ("--learning-rate 1e30", "lower the learning rate"),
        ("--l2 0", "l2 0.0"),
    ],
)
def test_options_that_cannot_work(option: str, words: str) -> None:
    fails(f"train train.conll out {option}", words)


@pytest.mark.usefixtures("here")
def test_refit_options_that_cannot_work() -> None:
    fails("refit tagger train.conll out --l2 -1", "l2 -1.0")
    fails("refit tagger train.conll out --tolerance 0", "tolerance")
    fails("refit tagger train.conll out --max-steps 1 --l2 0.001", "raise max_steps or l2")


# Full disks and Ctrl-C


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("function", ["fsync", "replace"])
def test_a_full_disk_while_predicting(monkeypatch: pytest.MonkeyPatch, function: str) -> None:
    Path("out").write_text("older predictions")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, function, full)
    fails("predict tagger dev.conll out --overwrite", "No space left on device; free some space")


@pytest.mark.usefixtures("here")
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_device_that_is_full() -> None:
    fails("predict tagger dev.conll /dev/full", "No space left on device; free some space")
    assert Path("/dev/full").is_char_device(), "a device is never replaced"


@contextmanager
def files_of_at_most(num_bytes: int) -> Iterator[None]:
    """The operating system itself refuses larger files, as a full disk would."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("checkpoint_seconds", [0, 60])
def test_weights_that_do_not_fit_on_the_disk(checkpoint_seconds: int) -> None:
    command = f"train train.conll tagger --overwrite --epochs 1 --checkpoint-seconds {checkpoint_seconds}"
    before = listing(Path())
    with files_of_at_most(1 << 20):
        result = tagtrace(*command.split())
    refused(result, "File too large")
    left = {name: data for name, data in listing(Path()).items() if not name.startswith("tagger.checkpoint")}
    assert left == before, "the older tagger is complete"
    assert json.loads(Path("tagger.checkpoint/state.json").read_text())["files"] == []
    assert tagtrace(*command.split()).exit_code == 0, "the run goes on when there is space again"


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("command", "function"),
    [
        ("data check train.conll", "tagtrace.cli.data.read_corpus"),
        ("train train.conll out", "tagtrace.cli.train.train_new"),
        ("refit tagger train.conll out", "tagtrace.cli.refit.refit_tagger"),
        ("predict tagger dev.conll out", "tagtrace.cli.predict.write_predictions"),
        ("evaluate tagger dev.conll", "tagtrace.tagger.tagger.score_labels"),
        ("index tagger train.conll out", "tagtrace.cli.index.build_index"),
        ("demo --out out", "tagtrace.cli.demo.run_demo"),
    ],
)
def test_ctrl_c(monkeypatch: pytest.MonkeyPatch, command: str, function: str) -> None:
    def interrupt(*_: object, **__: object) -> Callable:
        raise KeyboardInterrupt

    monkeypatch.setattr(function, interrupt)
    folder = Path.cwd()
    before = listing(folder)
    result = tagtrace(*command.split())
    refused(result, "interrupted; run the same command again to resume", status=130)
    assert "Traceback" not in result.output
    assert listing(folder) == before
