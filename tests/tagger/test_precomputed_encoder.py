"""The user's own arrays: the right rows of the right file, and clear words when they do not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from tagtrace._checks import EncoderError, OptionError
from tagtrace.data.sentence import Sentence
from tagtrace.tagger.encoders.precomputed import Precomputed

ROWS = np.arange(30, dtype=np.float32).reshape(10, 3) / 4


def sentence(length: int, offset: int, path: str = "data/train.conll") -> Sentence:
    return Sentence(("word",) * length, (), path=path, offset=offset)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "features"
    folder.mkdir()
    np.save(folder / "train.conll.npy", ROWS)
    return folder


def test_a_sentence_is_its_rows(folder: Path) -> None:
    encoder = Precomputed(folder)
    assert encoder.dim == 3
    prepared = [encoder.prepare(s) for s in (sentence(4, 0), sentence(0, 4), sentence(6, 4))]
    assert [len(rows) for rows in prepared] == [4, 0, 6]
    assert torch.equal(encoder(prepared), torch.from_numpy(ROWS))
    assert encoder([]).shape == (0, 3)
    assert not list(encoder.parameters())


def test_compressed_data_shares_the_array(folder: Path) -> None:
    encoder = Precomputed(folder)
    assert torch.equal(encoder.prepare(sentence(2, 3, "elsewhere/train.conll.gz")), torch.from_numpy(ROWS[3:5].copy()))


def test_each_file_has_its_own_array(folder: Path) -> None:
    save_file({"features": torch.from_numpy(-ROWS)}, folder / "dev.conll.safetensors")
    encoder = Precomputed(folder)
    assert encoder.prepare(sentence(1, 1)).tolist() == ROWS[1:2].tolist()
    assert encoder.prepare(sentence(1, 1, "dev.conll")).tolist() == (-ROWS[1:2]).tolist()


@pytest.mark.parametrize("dtype", ["<f2", "<f4", "<f8", ">f4"])
def test_numpy_floats_are_widened_or_narrowed(folder: Path, dtype: str) -> None:
    np.save(folder / "train.conll.npy", np.asfortranarray(ROWS.astype(dtype)))
    found = Precomputed(folder).prepare(sentence(10, 0))
    assert found.dtype == torch.float32
    assert torch.equal(found, torch.from_numpy(ROWS))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_safetensors_floats_are_widened_or_narrowed(folder: Path, dtype: torch.dtype) -> None:
    save_file({"features": torch.from_numpy(ROWS).to(dtype)}, folder / "dev.conll.safetensors")
    found = Precomputed(folder).prepare(sentence(4, 2, "dev.conll"))
    assert found.dtype == torch.float32
    assert torch.equal(found, torch.from_numpy(ROWS[2:6].copy()).to(dtype).float())


def test_features_can_be_changed_without_touching_the_file(folder: Path) -> None:
    save_file({"features": torch.from_numpy(ROWS)}, folder / "dev.conll.safetensors")
    encoder = Precomputed(folder)
    for path in ("train.conll", "dev.conll"):
        encoder.prepare(sentence(10, 0, path)).fill_(7)
        assert encoder.prepare(sentence(1, 0, path)).tolist() == [[0, 0.25, 0.5]]


def test_a_file_without_an_array_is_refused(folder: Path) -> None:
    np.save(folder / "dev.conll.npy", ROWS)
    with pytest.raises(EncoderError) as error:
        Precomputed(folder).prepare(sentence(1, 0, "data/test.conll.gz"))
    message = str(error.value)
    assert "expected test.conll.npy or test.conll.safetensors" in message
    assert "found dev.conll.npy, train.conll.npy" in message
    assert "\n" not in message


def test_a_sentence_from_no_file_is_refused(folder: Path) -> None:
    with pytest.raises(EncoderError, match="does not come from a file"):
        Precomputed(folder).prepare(sentence(1, 0, ""))


def test_rows_out_of_range_are_refused(folder: Path) -> None:
    encoder = Precomputed(folder)
    assert encoder.prepare(sentence(2, 8)).shape == (2, 3)
    with pytest.raises(EncoderError, match=r"has 10 rows, but .* needs rows 9\.\.10"):
        encoder.prepare(sentence(2, 9))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (ROWS[0], r"shape \(3,\)"),
        (ROWS[None], r"shape \(1, 10, 3\)"),
        (ROWS[:, :0], r"shape \(10, 0\)"),
        (ROWS.astype(np.int64), "has dtype int64"),
        (ROWS.astype(complex), "has dtype complex128"),
        (ROWS.astype(object), "cannot be read as an array of floats"),
    ],
)
def test_other_arrays_are_refused(folder: Path, rows: Any, message: str) -> None:
    np.save(folder / "train.conll.npy", rows)
    refuse(folder, message)


def test_other_tensors_are_refused(folder: Path) -> None:
    path = folder / "dev.conll.safetensors"
    save_file({"features": torch.ones(3, 2, dtype=torch.int32)}, path)
    refuse(folder, "has dtype I32")
    save_file({"features": torch.ones(3)}, path)
    refuse(folder, r"shape \(3,\)")
    save_file({"embeddings": torch.ones(3, 3)}, path)
    refuse(folder, "cannot be read.*features")
    path.write_bytes(b"broken")
    refuse(folder, "cannot be read")


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300])
def test_rows_that_are_not_finite_are_refused_when_used(folder: Path, bad: float) -> None:
    rows = ROWS.astype(np.float64)
    rows[6, 1] = bad
    np.save(folder / "train.conll.npy", rows)
    encoder = Precomputed(folder)
    encoder.prepare(sentence(6, 0))
    with pytest.raises(EncoderError, match=r"train\.conll\.npy, row 6: contains NaN"):
        encoder.prepare(sentence(4, 5))


def test_arrays_of_different_width_are_refused(folder: Path) -> None:
    np.save(folder / "dev.conll.npy", ROWS[:, :2])
    refuse(folder, "3 features per token, but dev.conll.npy has 2")


def test_two_arrays_for_one_file_are_refused(folder: Path) -> None:
    save_file({"features": torch.ones(10, 3)}, folder / "train.conll.safetensors")
    refuse(folder, "both train.conll.npy and train.conll.safetensors")


def test_a_folder_without_arrays_is_refused(folder: Path) -> None:
    (folder / "train.conll.npy").unlink()
    (folder / "notes.txt").write_text("none yet")
    refuse(folder, "has no .npy")
    refuse(folder / "nowhere", "no such folder")


def refuse(folder: Path, message: str) -> None:
    with pytest.raises(EncoderError, match=message) as error:
        Precomputed(folder)
    assert "\n" not in str(error.value)
    assert str(error.value).startswith(str(folder))


@pytest.fixture
def saved(folder: Path, tmp_path: Path) -> Path:
    (tmp_path / "saved").mkdir()
    Precomputed(folder).save(tmp_path / "saved")
    return tmp_path / "saved"


def test_saved_and_loaded_it_gives_the_same_features(folder: Path, saved: Path) -> None:
    np.save(folder / "test.conll.npy", ROWS + 1)  # an array added later is welcome
    encoder = Precomputed.load(saved)
    assert torch.equal(encoder.prepare(sentence(10, 0)), torch.from_numpy(ROWS))
    assert encoder.prepare(sentence(1, 0, "test.conll"))[0, 0] == 1


def test_a_relative_folder_is_found_from_elsewhere(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)
    Precomputed("features").save(tmp_path)
    monkeypatch.chdir("/")
    assert Precomputed.load(tmp_path).dim == 3


def test_arrays_that_moved_together_with_the_tagger_are_found(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    folder.rename(tmp_path / "work" / "features")
    (tmp_path / "work" / "saved").mkdir()
    Precomputed(tmp_path / "work" / "features").save(tmp_path / "work" / "saved")
    (tmp_path / "work").rename(tmp_path / "moved")
    assert Precomputed.load(tmp_path / "moved" / "saved").dim == 3


def test_arrays_that_are_gone_or_changed_are_refused(folder: Path, saved: Path) -> None:
    path = folder / "train.conll.npy"
    for rows, what in [(ROWS[:9], "shape"), (ROWS.astype(np.float16), "dtype"), (ROWS + 1, "checksum")]:
        np.save(path, rows)
        with pytest.raises(EncoderError, match=f"its {what} was"):
            Precomputed.load(saved)
    np.save(folder / "dev.conll.npy", ROWS)
    path.unlink()
    with pytest.raises(EncoderError, match="it is gone"):
        Precomputed.load(saved)
    (folder / "dev.conll.npy").unlink()
    folder.rmdir()
    with pytest.raises(OptionError, match=r"its folder of arrays is no longer at .*; put it back"):
        Precomputed.load(saved)


def test_loading_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match=r"encoder\.json: cannot be read"):
        Precomputed.load(tmp_path)


@pytest.mark.parametrize("shape", [(10**30, 2), (10**9, 10**9), (2**62, 4), (-1, 2)])
def test_a_shape_larger_than_its_file_is_refused(tmp_path: Path, shape: tuple[int, int]) -> None:
    with (tmp_path / "a.conll.npy").open("wb") as stream:
        np.lib.format.write_array_header_1_0(stream, {"shape": shape, "fortran_order": False, "descr": "<f4"})
        stream.write(bytes(64))
    with pytest.raises(EncoderError, match=r"a\.conll\.npy: cannot be read as an array") as error:
        Precomputed(tmp_path)
    assert "\n" not in str(error.value)


def test_an_archive_by_the_name_of_an_array(tmp_path: Path) -> None:
    with (tmp_path / "train.conll.npy").open("wb") as stream:
        np.savez(stream, rows=ROWS)
    with pytest.raises(EncoderError, match=r"is an archive of arrays; write one array with numpy\.save"):
        Precomputed(tmp_path)
