"""What the files of the page may contain, and that a wheel contains them and the experiments' configurations."""

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
STATIC = Path(str(files("tagtrace.review") / "static"))
IMPORTS = {"core": {"core"}, "parts": {"core", "parts"}, "views": {"core", "parts", "views"}}
"""The folders that the modules of a folder may import from."""


def imported(module: Path) -> list[Path]:
    """The modules that a module imports."""
    named = re.findall(r'^import .* from "([^"]+)";$', module.read_text(encoding="utf-8"), re.MULTILINE)
    return [(module.parent / name).resolve() for name in named]


def test_the_page_finds_all_its_files() -> None:
    """Every file that the page or a module names exists, and every file is named by the page."""
    paths = {path.relative_to(STATIC).as_posix() for path in STATIC.rglob("*") if path.is_file()}
    named = re.findall(r'"/static/([\w./]+)"', (STATIC / "index.html").read_text(encoding="utf-8"))
    assert set(named) == paths - {"index.html"}
    found = [path for module in STATIC.rglob("*.js") for path in imported(module)]
    assert len(found) > 100
    assert all(path.is_file() for path in found)


def test_modules_import_from_their_own_layer_or_below() -> None:
    for module in STATIC.glob("*/*.js"):
        allowed = IMPORTS[module.parent.name]
        assert {path.parent.name for path in imported(module)} <= allowed, module.name


def test_nothing_is_inline_and_text_is_only_set_as_text() -> None:
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=", page)
    assert not re.search(r"(src|href)=\"(https?:)?//", page)
    for module in sorted(STATIC.rglob("*.js")):
        text = module.read_text(encoding="utf-8")
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text)
        assert not re.search(r"https?://", text)
        name = module.relative_to(STATIC).as_posix()
        assert name == "main.js" or f'rel="modulepreload" href="/static/{name}"' in page, f"{name} is not preloaded"


def test_modules_are_short() -> None:
    for module in sorted(STATIC.rglob("*.js")):
        assert len(module.read_text(encoding="utf-8").splitlines()) <= 330, module.name


@pytest.mark.skipif(find_spec("hatchling") is None, reason="hatchling is not installed: no wheel can be built offline")
def test_a_wheel_contains_the_files_that_are_not_code(tmp_path: Path) -> None:
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
        paths = sorted(path for path in (ROOT / "src/tagtrace" / folder).rglob(kind) if path.is_file())
        assert paths
        assert {path.relative_to(ROOT / "src").as_posix() for path in paths} <= inside
