"""The inverse stored in the index's folder: used if it is complete and belongs to the index, else computed again."""

from __future__ import annotations

import json
import logging
import math
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tagtrace import _tensor_files
from tagtrace._checks import OptionError
from tagtrace.data import LabelSet
from tagtrace.index import Index, IndexFolderError, open_index
from tagtrace.influence import Explainer, Query
from tagtrace.influence.curvature import choice, inverse_file
from tagtrace.influence.curvature.solvers import Cholesky
from tests.influence.curvature.systems import exact_solver, expected, right_of
from tests.influence.small_index import small_index


def never(*_: object, **__: object) -> Index:
    raise AssertionError("nothing should be computed here")


def test_the_stored_inverse_is_used_as_it_is_without_rows(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    first = exact_solver(index)
    monkeypatch.setattr(choice, "Cholesky", never)
    monkeypatch.setattr(Index, "rows", property(never))
    again = exact_solver(open_index(index.folder))
    assert torch.equal(again.inverse, first.inverse)
    assert torch.equal(again.solve(right_of(index)).value, first.solve(right_of(index)).value)
    explainer = Explainer(index)
    assert explainer.exact is explainer.solver


def test_one_undamped_and_one_damped_inverse_are_kept(index: Index, caplog: pytest.LogCaptureFixture) -> None:
    for damping in (0.0, 0.1, 0.2):
        exact_solver(index, damping)
    assert "different damping" in caplog.text
    assert sorted(path.name for path in index.folder.glob("curvature*")) == ["curvature", "curvature-damped"]
    for damping in (0.0, 0.2):
        stored_solver = inverse_file.load_inverse(index, damping)
        assert stored_solver is not None
        scale = float(expected(index, damping).abs().max())
        value = stored_solver.solve(right_of(index)).value
        torch.testing.assert_close(value, expected(index, damping), rtol=0, atol=1e-8 * scale)
    assert inverse_file.load_inverse(index, 0.1) is None


def flip_a_bit(folder: Path) -> None:
    with (folder / inverse_file.INVERSE).open("rb+") as stream:
        stream.seek(-8, os.SEEK_END)
        last = stream.read(1)
        stream.seek(-8, os.SEEK_END)
        stream.write(bytes([last[0] ^ 1]))


def cut_short(folder: Path) -> None:
    os.truncate(folder / inverse_file.INVERSE, 1000)


def of_other_features(folder: Path) -> None:
    saved = json.loads((folder / inverse_file.MARKER).read_text())
    saved["owner"]["features"][0] = "0" * 64
    (folder / inverse_file.MARKER).write_text(json.dumps(saved))


def of_half_a_record(folder: Path) -> None:
    (folder / inverse_file.MARKER).write_text('{"owner": ')


def without_record(folder: Path) -> None:
    (folder / inverse_file.MARKER).unlink()


def without_inverse(folder: Path) -> None:
    (folder / inverse_file.INVERSE).unlink()


@pytest.mark.parametrize(
    "harm", [flip_a_bit, cut_short, of_other_features, of_half_a_record, without_record, without_inverse]
)
def test_a_damaged_or_foreign_inverse_is_not_used(
    index: Index, harm: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    exact_solver(index)
    harm(index.folder / "curvature")
    with caplog.at_level(logging.WARNING):
        assert inverse_file.load_inverse(index, 0.0) is None
    assert ("computed again" in caplog.text) == (harm is not without_record)
    solver = exact_solver(index)
    scale = float(expected(index).abs().max())
    torch.testing.assert_close(solver.solve(right_of(index)).value, expected(index), rtol=0, atol=1e-8 * scale)
    assert inverse_file.load_inverse(index, 0.0) is not None


def test_other_files_in_the_folder_stay(index: Index) -> None:
    exact_solver(index)
    without_record(index.folder / "curvature")
    (index.folder / "curvature" / "notes.txt").write_text("mine")
    assert isinstance(exact_solver(index), Cholesky)
    assert (index.folder / "curvature" / "notes.txt").read_text() == "mine"
    assert inverse_file.load_inverse(index, 0.0) is not None


@pytest.mark.parametrize("damping", [math.nan, math.inf, -1.0])
def test_a_damping_that_is_not_a_number_leaves_no_folder(index: Index, damping: float) -> None:
    with pytest.raises(OptionError, match="must be a number"):
        exact_solver(index, damping)
    assert not list(index.folder.glob("*curvature*"))


def test_a_new_index_does_not_inherit_the_old_ones_curvature(made: Path, index: Index) -> None:
    exact_solver(index)
    assert (index.folder / "curvature").is_dir()
    size = index.num_bytes
    assert open_index(index.folder, verify=True).num_bytes == size
    shutil.copy(made / "train.conll", index.folder.parent)
    new = small_index(index.folder.parent, width=2, shard_tokens=400, l2=5.0, overwrite=True)
    assert not (new.folder / "curvature").exists()
    scale = float(expected(new).abs().max())
    found = exact_solver(new).solve(right_of(new)).value
    torch.testing.assert_close(found, expected(new), rtol=0, atol=1e-8 * scale)


def test_an_inverse_copied_from_another_index_is_refused(index: Index, tmp_path: Path) -> None:
    other = small_index(tmp_path, "other", width=2, shard_tokens=400, l2=5.0)
    exact_solver(other)
    shutil.copytree(other.folder / "curvature", index.folder / "curvature")
    assert inverse_file.load_inverse(index, 0.0) is None
    scale = float(expected(index).abs().max())
    found = exact_solver(index).solve(right_of(index)).value
    torch.testing.assert_close(found, expected(index), rtol=0, atol=1e-8 * scale)


def test_another_l2_on_the_same_head_is_another_curvature(index: Index) -> None:
    exact_solver(index)
    fit = replace(index.manifest.fit, l2=3.0)  # as an index that was not refitted may have
    other = Index(index.folder, replace(index.manifest, fit=fit), index.head)
    assert inverse_file.load_inverse(other, 0.0) is None


@pytest.mark.parametrize("change", ["constraints", "label order", "scheme"])
def test_other_constraints_or_labels_on_the_same_head_are_another_curvature(index: Index, change: str) -> None:
    """The head file has only numbers; what is forbidden follows from the options and the labels."""
    exact_solver(index)
    manifest = index.manifest
    if change == "constraints":
        manifest = replace(manifest, head=replace(manifest.head, constrained=True))
    elif change == "label order":
        manifest = replace(manifest, labels=LabelSet(manifest.labels.labels[::-1], "iob2"))
    else:
        manifest = replace(manifest, labels=LabelSet(manifest.labels.labels, "plain"))
    assert inverse_file.load_inverse(index, 0.0) is not None
    assert inverse_file.load_inverse(Index(index.folder, manifest, index.head), 0.0) is None


def test_a_kill_while_writing_leaves_nothing_that_is_read(index: Index) -> None:
    solver = exact_solver(index)
    shutil.rmtree(index.folder / "curvature")

    def killed(tensors: dict[str, Tensor], path: Path, *_: object) -> None:
        path.write_bytes(bytes(tensors["inverse"].numpy())[:100])
        os._exit(9)

    child = os.fork()
    if child == 0:
        try:
            _tensor_files.save_file = killed
            inverse_file.save_inverse(index, 0.0, solver)
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert inverse_file.load_inverse(index, 0.0) is None
    inverse_file.save_inverse(open_index(index.folder), 0.0, solver)
    assert inverse_file.load_inverse(index, 0.0) is not None


def test_an_interrupted_write_leaves_the_old_one_and_no_rubbish(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    solver = exact_solver(index)
    before = sorted(path.name for path in index.folder.rglob("*"))

    def interrupted(_: dict[str, Tensor], path: Path, *_more: object) -> None:
        path.write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(_tensor_files, "save_file", interrupted)
    with pytest.raises(KeyboardInterrupt):
        inverse_file.save_inverse(index, 0.0, solver)
    assert sorted(path.name for path in index.folder.rglob("*")) == before
    assert inverse_file.load_inverse(index, 0.0) is not None


@pytest.mark.parametrize(
    "error", [PermissionError("read-only"), OSError(28, "No space left on device")], ids=["ro", "full"]
)
def test_an_index_that_cannot_be_written_to_still_answers(
    index: Index, error: OSError, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(_tensor_files, "save_file", refuse)
    before = sorted(path.name for path in index.folder.iterdir())
    rows = index.sentence_rows(1, torch.float64)
    found = Explainer(index).explain(Query(rows.features, rows.labels, 0, 1), top=2)
    assert found.supporters
    assert "could not be stored" in caplog.text
    assert sorted(path.name for path in index.folder.iterdir()) == before


@pytest.mark.parametrize("damping", [0.0, 0.1])
def test_a_link_in_its_place_leads_nowhere(index: Index, tmp_path: Path, damping: float) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / inverse_file.MARKER).write_text("precious")
    (index.folder / ("curvature-damped" if damping else "curvature")).symlink_to(victim)
    with pytest.raises(IndexFolderError, match=r"curvature.*: a link, where the index should have .*; remove the link"):
        exact_solver(index, damping)
    assert [(path.name, path.read_text()) for path in victim.iterdir()] == [(inverse_file.MARKER, "precious")]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_still_answers(index: Index) -> None:
    index.folder.chmod(0o555)
    try:
        assert isinstance(exact_solver(index), Cholesky)
        assert not (index.folder / "curvature").exists()
    finally:
        index.folder.chmod(0o755)
