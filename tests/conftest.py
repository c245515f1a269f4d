"""Settings shared by all tests."""

from __future__ import annotations

import torch
from hypothesis import settings

from tagtrace.tagger.convex import products

settings.register_profile("tagtrace", deadline=None, max_examples=60, derandomize=True)
settings.load_profile("tagtrace")
torch.set_num_threads(1)  # pytest-xdist gives each core a process of its own
products.SMALL = 0  # compiled loops read even the few features of a test
