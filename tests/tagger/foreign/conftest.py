"""A checkpoint and two spaCy pipelines that every test of a session reads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.tagger.foreign.planted import Planted, plant

if TYPE_CHECKING:
    from tests.tagger.foreign.trained_pipeline import PlantedPipelines


@pytest.fixture(scope="session")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Planted:
    return plant(tmp_path_factory.mktemp("planted"))


@pytest.fixture(scope="session")
def checkpoint(planted: Planted) -> Path:
    return planted.checkpoint


@pytest.fixture(scope="session")
def pipelines(tmp_path_factory: pytest.TempPathFactory) -> PlantedPipelines:
    pytest.importorskip("spacy", reason="spaCy is not installed")
    from tests.tagger.foreign.trained_pipeline import plant_pipelines  # noqa: PLC0415

    return plant_pipelines(tmp_path_factory.mktemp("pipelines"))
