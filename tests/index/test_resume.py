"""An interrupted build resumes where it stopped; one that belongs to another run is refused."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from tagtrace._checks import TrainingError
from tagtrace.data import Corpus
from tagtrace.index import Index, IndexFolderError, IndexOptions, build_index, open_index
from tagtrace.tagger import Tagger
from tests.index.test_build import Spelt, make_corpus, make_tagger

OPTIONS = IndexOptions(shard_tokens=20)


class StopError(Exception):
    """Raised by a progress callback."""


def stop_at(num_done: int) -> Callable[[int, int], None]:
    def progress(done: int, _: int) -> None:
        if done >= num_done:
            raise StopError

    return progress


def encoded(tagger: Tagger) -> int:
    assert isinstance(tagger.encoder, Spelt)
    return tagger.encoder.num_encoded


def half_built(tmp_path: Path, num_done: int = 4) -> Path:
    with pytest.raises(StopError):
        build_index(make_tagger(), make_corpus(), tmp_path / "index", OPTIONS, stop_at(num_done))
    return tmp_path / "index.building"


def assert_same(left: Index, right: Index) -> None:
    for ours, theirs in zip(left.shards, right.shards, strict=True):
        for name in ("features", "errors", "labels", "lengths"):
            assert torch.equal(getattr(ours, name), getattr(theirs, name))
    assert [file.sha256 for file in left.manifest.files()] == [file.sha256 for file in right.manifest.files()]


def test_whole_shards_are_not_encoded_again(tmp_path: Path) -> None:
    building = half_built(tmp_path)
    assert not (tmp_path / "index").exists()
    whole = [file["name"] for file in json.loads((building / "progress.json").read_text())["files"]]
    assert whole == ["shard-00000.safetensors", "text-00000.safetensors"]
    assert sorted(path.name for path in building.iterdir()) == ["progress.json", *whole]
    tagger = make_tagger()
    index = build_index(tagger, make_corpus(), tmp_path / "index", OPTIONS)
    assert encoded(tagger) == len(make_corpus().sentences) - len(index.shards[0].lengths)
    assert [path.name for path in tmp_path.iterdir()] == ["index"]
    assert_same(index, build_index(make_tagger(), make_corpus(), tmp_path / "fresh", OPTIONS))
    index.verify()


KILLED = """
import os, signal
from tests.index.test_resume import *
def kill(done, total):
    if done >= 8:
        (Path({folder!r}) / "index.building" / ".shard-00002.safetensors.tagtrace-part").write_bytes(b"half")
        (Path({folder!r}) / "index.building" / ".progress.json.x1y2z3w4.tagtrace-part").write_bytes(b"half")
        os.kill(os.getpid(), signal.SIGKILL)
build_index(make_tagger(), make_corpus(), Path({folder!r}) / "index", OPTIONS, kill)
"""


def test_a_build_resumes_after_sigkill(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}  # noqa: PTH109
    killed = subprocess.run(
        [sys.executable, "-c", KILLED.format(folder=str(tmp_path))], env=environment, capture_output=True, check=False
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    with pytest.raises(IndexFolderError, match="half built"):
        open_index(tmp_path / "index")
    tagger = make_tagger()
    index = build_index(tagger, make_corpus(), tmp_path / "index", OPTIONS)
    assert 0 < encoded(tagger) < len(make_corpus().sentences)
    assert_same(index, build_index(make_tagger(), make_corpus(), tmp_path / "fresh", OPTIONS))
    names = {path.name for path in (tmp_path / "index").iterdir()}
    assert names == {"manifest.json", *(file.name for file in index.manifest.files())}


def test_a_refit_that_is_done_is_not_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> None:
        raise StopError

    with monkeypatch.context() as patch:
        patch.setattr("tagtrace.index.build.token_errors", stop)
        with pytest.raises(StopError):
            build_index(make_tagger(), make_corpus(), tmp_path / "index", OPTIONS)
    tagger = make_tagger()
    with monkeypatch.context() as patch:
        patch.setattr("tagtrace.index.build.refit_head", stop)
        index = build_index(tagger, make_corpus(), tmp_path / "index", OPTIONS)
    assert encoded(tagger) == 0
    assert_same(index, build_index(make_tagger(), make_corpus(), tmp_path / "fresh", OPTIONS))


def test_a_shard_cut_short_meanwhile_is_encoded_again(tmp_path: Path) -> None:
    building = half_built(tmp_path)
    os.truncate(building / "shard-00000.safetensors", 100)
    tagger = make_tagger()
    build_index(tagger, make_corpus(), tmp_path / "index", OPTIONS).verify()
    assert encoded(tagger) == len(make_corpus().sentences)


def relabelled(corpus: Corpus) -> Corpus:
    """The same file with one label changed."""
    first = corpus.sentences[0]
    return corpus.with_sentences([first.with_labels(["O"] * len(first)), *corpus.sentences[1:]])


OTHERS = {
    "tagger": (make_tagger(seed=1), make_corpus(), OPTIONS),
    "data": (make_tagger(), make_corpus(seed=1), OPTIONS),
    "data ": (make_tagger(), relabelled(make_corpus()), OPTIONS),
    "dtype": (make_tagger(), make_corpus(), replace(OPTIONS, dtype="float32")),
    "l2": (make_tagger(), make_corpus(), replace(OPTIONS, l2=2.0)),
    "shard_tokens": (make_tagger(), make_corpus(), replace(OPTIONS, shard_tokens=21)),
}


OTHER_SHARDS: dict[str, Callable[[dict[str, torch.Tensor]], object]] = {
    "width": lambda shard: shard.update(features=torch.cat([shard["features"]] * 2, dim=1)),
    "dtype": lambda shard: shard.update(features=shard["features"].float()),
    "lengths": lambda shard: shard.update(lengths=shard["lengths"].flip(0).sort().values),
}


@pytest.mark.parametrize("change", OTHER_SHARDS.values(), ids=OTHER_SHARDS)
def test_a_shard_of_other_shape_is_refused(tmp_path: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    """A half-built index may have been received: its record fits, and its shards do not."""
    building = half_built(tmp_path)
    path = building / "shard-00000.safetensors"
    shard = load_file(path)
    change(shard)
    save_file(shard, path)
    progress = json.loads((building / "progress.json").read_text())
    progress["files"][0] |= {"num_bytes": path.stat().st_size}
    (building / "progress.json").write_text(json.dumps(progress))
    with pytest.raises(IndexFolderError, match=r"shard-00000.* not a shard of this tagger and data; restart"):
        build_index(make_tagger(), make_corpus(), tmp_path / "index", OPTIONS)


@pytest.mark.parametrize("fit", [None, {}, {"l2": "x"}, [1]])
def test_a_damaged_record_of_the_refit_is_refused(tmp_path: Path, fit: object) -> None:
    building = half_built(tmp_path)
    build_index(make_tagger(), make_corpus(), tmp_path / "whole", OPTIONS)
    shutil.copy(tmp_path / "whole" / "head.safetensors", building)
    progress = json.loads((building / "progress.json").read_text())
    record = {"name": "head.safetensors", "num_bytes": (building / "head.safetensors").stat().st_size, "sha256": "0"}
    progress |= {"files": [*progress["files"], {**progress["files"][0], **record}], "notes": {"fit": fit}}
    (building / "progress.json").write_text(json.dumps(progress))
    with pytest.raises(IndexFolderError, match="restart to begin again"):
        build_index(make_tagger(), make_corpus(), tmp_path / "index", OPTIONS)


@pytest.mark.parametrize("what", OTHERS)
def test_another_run_is_refused(tmp_path: Path, what: str) -> None:
    half_built(tmp_path)
    tagger, corpus, options = OTHERS[what]
    with pytest.raises(
        IndexFolderError, match=rf"half-built index of another run \(different {what.strip()}\); .*restart"
    ):
        build_index(tagger, corpus, tmp_path / "index", options)
    before = encoded(tagger)
    index = build_index(tagger, corpus, tmp_path / "index", options, restart=True)
    assert encoded(tagger) - before == len(corpus.sentences)
    index.check_tagger(tagger)
    index.check_corpus(corpus)
    assert [path.name for path in tmp_path.iterdir()] == ["index"]


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "index.building").mkdir()
    (tmp_path / "index.building" / "plan.dwg").write_text("x")
    for restart in (False, True):
        with pytest.raises(IndexFolderError, match=r"exists and has no progress.json; move it"):
            build_index(make_tagger(), make_corpus(), tmp_path / "index", restart=restart)
    assert (tmp_path / "index.building" / "plan.dwg").read_text() == "x"


def test_damaged_progress_asks_for_restart(tmp_path: Path) -> None:
    building = half_built(tmp_path)
    for rubbish in ("{", "[]", '{"owner": {}}', "null"):
        (building / "progress.json").write_text(rubbish)
        with pytest.raises(IndexFolderError, match=r"progress\.json: .*restart"):
            build_index(make_tagger(), make_corpus(), tmp_path / "index", OPTIONS)
    build_index(make_tagger(), make_corpus(), tmp_path / "index", OPTIONS, restart=True).verify()


def test_nothing_is_left_where_nothing_was_done(tmp_path: Path) -> None:
    with pytest.raises(StopError):
        build_index(make_tagger(), make_corpus(), tmp_path / "index", progress=stop_at(1))
    assert not list(tmp_path.iterdir())


def test_a_failure_never_harms_an_older_index(tmp_path: Path) -> None:
    old = build_index(make_tagger(), make_corpus(), tmp_path / "index", OPTIONS)
    with pytest.raises(TrainingError):
        build_index(
            make_tagger(), make_corpus(seed=1), tmp_path / "index", IndexOptions(max_steps=1), overwrite=True
        )  # fmt: skip
    again = open_index(tmp_path / "index", verify=True)
    assert again.manifest == old.manifest


def test_a_file_that_cannot_be_written_leaves_no_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    building = half_built(tmp_path)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tagtrace._tensor_files.os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        build_index(make_tagger(), make_corpus(), tmp_path / "index", OPTIONS)
    assert not list(building.glob(".*"))
