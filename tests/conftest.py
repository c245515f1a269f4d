"""Settings shared by all tests."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import torch
from hypothesis import settings

from tagtrace.tagger.convex import products

settings.register_profile("tagtrace", deadline=None, max_examples=60, derandomize=True)
settings.load_profile("tagtrace")
torch.set_num_threads(1)  # pytest-xdist gives each core a process of its own
products.SMALL = 0  # compiled loops read even the few features of a test


@pytest.fixture(params=[0o022, 0o077, 0o002, 0o027])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)
