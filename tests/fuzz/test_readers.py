"""Random files are read, or refused with one line. ``make fuzz`` tries many more."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.readers import READERS, Reader, check

NUM_FILES = 150


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_random_files(reader: Reader, tmp_path: Path) -> None:
    """Some are read and some refused, so that both are tried."""
    path = tmp_path / f"file{reader.suffix}"
    num_read = sum(check(reader, reader.make(Random(f"{reader.name}-{number}")), path) for number in range(NUM_FILES))
    assert num_read < NUM_FILES
    assert num_read > 0 or reader.name.startswith("document")


@settings(
    max_examples=50,
    deadline=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.large_base_example,
    ],
)
@given(rng=st.randoms(use_true_random=False))
@pytest.mark.parametrize("reader", READERS[:3], ids=lambda reader: reader.name)
def test_files_that_hypothesis_chooses(reader: Reader, rng: Random, tmp_path: Path) -> None:
    check(reader, reader.make(rng), tmp_path / "file")


def test_a_reader_that_lies_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that changes a byte on writing back, and one that raises something else."""
    (reader,) = (one for one in READERS if one.name == "conll")
    assert check(reader, b"sea\tO\n", tmp_path / "file")

    def write_changed(_: object, target: Path) -> None:
        target.write_bytes(b"sea\tB\n")

    monkeypatch.setattr("tests.fuzz.readers.write_corpus", write_changed)
    with pytest.raises(AssertionError):
        check(reader, b"sea\tO\n", tmp_path / "file")
    with pytest.raises(RecursionError):
        check(Reader("x", lambda _: b"", _deep), b"", tmp_path / "file")


def _deep(_: Path) -> object:
    raise RecursionError
