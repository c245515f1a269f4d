"""Bad input gets one clear line and exit code 1; never a traceback, never a half-written file."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from tagtrace.cli import main
from tagtrace.data.invented import generate, write_invented


def listing(folder: Path) -> dict[str, bytes | None]:
    """Every file and folder, hidden ones too, with what the files hold."""
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data, arrays and a tagger fitted on them."""
    folder = tmp_path_factory.mktemp("made")
    write_invented(generate(num_documents=20), folder)
    (folder / "arrays").mkdir()
    for split in ("train", "dev", "test"):
        lines = (folder / f"{split}.conll").read_text().splitlines()
        num_tokens = sum(bool(line) and not line.startswith("-DOCSTART-") for line in lines)
        array = np.random.default_rng(0).normal(size=(num_tokens, 3))
        np.save(folder / "arrays" / f"{split}.conll.npy", array.astype(np.float32))
    command = [
        "train",
        str(folder / "train.conll"),
        str(folder / "tagger"),
        "--encoder",
        f"precomputed:{folder}/arrays",
    ]
    assert CliRunner().invoke(main, command).exit_code == 0
    return folder


@pytest.fixture
def here(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of that folder, which is also the current one."""
    folder = tmp_path / "here"
    shutil.copytree(made, folder)
    monkeypatch.chdir(folder)
    return folder


def fails(command: str, *words: str) -> str:
    """The one line that a failing command prints; it holds all ``words`` and leaves every file as it was."""
    folder = Path.cwd()
    before = listing(folder)
    result = CliRunner().invoke(main, command.split())
    assert result.exit_code == 1, result.output
    assert isinstance(result.exception, SystemExit), "a traceback"
    *progress, message = result.stderr.splitlines()
    assert all(line.startswith(("epoch ", "step ", "precomputed features are not")) for line in progress), progress
    assert message.startswith("tagtrace: ")
    assert result.stderr.endswith(f"{message}\n")
    for word in words:
        assert word in message
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

    @pytest.mark.parametrize("data", [b"", b"\n\n \n", b"-DOCSTART- O\n\n", b"\xef\xbb\xbf"])
    def test_empty(self, command: str, data: bytes) -> None:
        Path("bad.conll").write_bytes(data)
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
        fails(command.format("bad.jsonl"), "bad.jsonl, line 2: found no JSON")

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
    fails(command.format("pos.conll"), "pos.conll: labels are plain", "trained on iob2", "--scheme")


# Features


def spoil(row: int, value: float) -> None:
    array = np.load("arrays/train.conll.npy")
    array[row, 1] = value
    np.save("arrays/train.conll.npy", array)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_features_that_are_no_numbers(value: float) -> None:
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
        ("vectors", "say where it is, for example vectors:PATH"),
        ("precomputed:", "say where it is, for example precomputed:PATH"),
        ("precomputed:nowhere", "nowhere: no such folder"),
        ("precomputed:tagger/encoder", "holds no .npy"),
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
def test_what_is_no_tagger(command: str) -> None:
    for path in ("nowhere", "arrays", "train.conll"):
        fails(command.format(path), f"{path}: not a tagger (no tagger.json)", "tagtrace train")
    Path("tagger/tagger.json").write_text("{")
    fails(command.format("tagger"), "tagger/tagger.json: not valid JSON")


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("command", ["train train.conll {} --epochs 1", "refit tagger train.conll {}"])
def test_places_that_cannot_be_written(command: str) -> None:
    fails(command.format("tagger"), "tagger: exists already", "--overwrite")
    fails(command.format("arrays") + " --overwrite", "arrays: holds no tagger.json, so it is not replaced")
    fails(command.format(".") + " --overwrite", "holds no tagger.json")
    fails(command.format("dev.conll") + " --overwrite", "dev.conll: holds no tagger.json")
    fails(command.format("dev.conll/out"), "dev.conll/out", "no folder that can be written to")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
@pytest.mark.parametrize("command", ["train train.conll locked/out", "refit tagger train.conll locked/out"])
def test_a_folder_without_permission(here: Path, command: str) -> None:
    (here / "locked").mkdir(mode=0o500)
    fails(command, "locked", "no folder that can be written to")


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
    fails(f"{command} --device {device}", f"device '{device}' is not available here; try --device cpu")


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


def test_the_wrong_way_to_call_a_command_shows_its_usage() -> None:
    for command in ("train", "predict only", "data check", "train a b --head mlp", "fly", "evaluate a b --epochs 3"):
        result = CliRunner().invoke(main, command.split())
        assert result.exit_code == 2
        assert result.stderr.startswith("Usage:")


# Disks and hands


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
        result = CliRunner().invoke(main, command.split())
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    message = result.stderr.splitlines()[-1]
    assert message.startswith("tagtrace: ")
    assert "File too large" in message
    left = {name: data for name, data in listing(Path()).items() if not name.startswith("tagger.checkpoint")}
    assert left == before, "the older tagger is whole"
    assert not Path("tagger.checkpoint/state.json").exists()


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("command", "function"),
    [
        ("data check train.conll", "tagtrace.cli.data.read_corpus"),
        ("train train.conll out", "tagtrace.cli.tagger.train_tagger"),
        ("refit tagger train.conll out", "tagtrace.cli.tagger.refit_tagger"),
        ("predict tagger dev.conll out", "tagtrace.cli.tagger.write_predictions"),
        ("evaluate tagger dev.conll", "tagtrace.cli.tagger.score_labels"),
        ("demo --out out", "tagtrace.cli.demo.train_tagger"),
    ],
)
def test_ctrl_c(monkeypatch: pytest.MonkeyPatch, command: str, function: str) -> None:
    def interrupt(*_: object, **__: object) -> Callable:
        raise KeyboardInterrupt

    monkeypatch.setattr(function, interrupt)
    folder = Path.cwd()
    before = listing(folder)
    result = CliRunner().invoke(main, command.split())
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1].startswith("tagtrace: stopped; what was written is whole, ")
    assert "Traceback" not in result.output
    assert listing(folder) == before
