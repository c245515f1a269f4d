"""The options of an experiment."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tagtrace._checks import OptionError
from tagtrace.reproduce.shared.setting import Setting


def test_unknown_options_are_refused(setting: Setting) -> None:
    @dataclass(frozen=True)
    class Few:
        queries: int

    with pytest.raises(OptionError, match=r"exact.toml: unknown option .*removals"):
        setting.options("exact", Few)
