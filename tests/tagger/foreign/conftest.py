"""A checkpoint that every test of a session reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tagger.foreign.planted import Planted, plant


@pytest.fixture(scope="session")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Planted:
    return plant(tmp_path_factory.mktemp("planted"))


@pytest.fixture(scope="session")
def checkpoint(planted: Planted) -> Path:
    return planted.checkpoint
