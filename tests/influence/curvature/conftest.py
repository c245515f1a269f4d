"""A small index that has no stored curvature."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tagtrace.index import Index, open_index
from tests.influence.small_index import small_index


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small index."""
    folder = tmp_path_factory.mktemp("made")
    small_index(folder, width=2, shard_tokens=400)
    return folder


@pytest.fixture
def index(made: Path, tmp_path: Path) -> Index:
    shutil.copytree(made / "index", tmp_path / "index")
    return open_index(tmp_path / "index")
