"""Freed memory goes back to the system."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from tagtrace.tagger.convex import memory

STATUS = Path("/proc/self/status")


def resident() -> float:
    """MB of this process."""
    line = next(line for line in STATUS.read_text(encoding="utf-8").splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1e3


@pytest.mark.skipif(sys.platform != "linux" or memory._trim() is None, reason="needs glibc")
def test_freed_memory_is_given_back() -> None:
    parts = [torch.ones(2_000) for _ in range(20_000)]  # 160 MB, in pieces that the C library keeps
    last, full = parts[-1], resident()
    del parts
    memory.give_back()
    assert resident() < full - 100
    assert float(last.sum()) == 2_000


def test_other_systems_do_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_trim", lambda: None)
    memory.give_back()
