"""What is installed has the page, and the configurations of experiments, in it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STATIC = files("tagtrace.review") / "static"


def test_the_page_finds_all_its_files() -> None:
    """Every file that the page or a module names is there, and every file is named."""
    texts = {path.name: path.read_text(encoding="utf-8") for path in STATIC.iterdir()}
    named = set(re.findall(r'"/static/([\w.]+)"', texts["index.html"]))
    for text in texts.values():
        named |= set(re.findall(r'from "\./([\w.]+)"', text))
    assert named == texts.keys() - {"index.html"}


@pytest.mark.skipif(find_spec("hatchling") is None, reason="hatchling is not installed: no wheel can be built offline")
def test_a_wheel_has_files_that_are_no_code_in_it(tmp_path: Path) -> None:
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=ignored)
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        inside = set(archive.namelist())
    for folder, kind in (("review/static", "*"), ("reproduce/experiments", "*.toml"), ("findings/report", "report.*")):
        paths = sorted((ROOT / "src/tagtrace" / folder).glob(kind))
        assert paths
        assert {f"tagtrace/{folder}/{path.name}" for path in paths} <= inside
