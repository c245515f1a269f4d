"""Fixtures for the tests of the experiments."""

from __future__ import annotations

from pathlib import Path

import pytest

from tagtrace.data import Sentence
from tagtrace.findings import Trusted, read_trusted
from tagtrace.index import Index
from tagtrace.reproduce import EXPERIMENTS
from tagtrace.reproduce.shared.setting import Setting
from tests.findings.made import make_index, make_sentences, make_tagger
from tests.reproduce.made import Made


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Made:
    one = Made()
    monkeypatch.setitem(EXPERIMENTS, "made", one.experiment())
    return one


@pytest.fixture
def lines() -> list[str]:
    return []


@pytest.fixture
def setting(tmp_path: Path, lines: list[str]) -> Setting:
    return Setting(tmp_path, tmp_path / "out", "lexical", report=lines.append)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    return make_index(tmp_path_factory.mktemp("made"))


@pytest.fixture(scope="module")
def experts() -> list[Sentence]:
    return sorted(make_sentences(9, seed=5), key=lambda one: one.document)


@pytest.fixture(scope="module")
def given(index: Index, experts: list[Sentence]) -> Trusted:
    return read_trusted(index, make_tagger(), experts)
