"""The page's modules without a browser: ESLint, and unit tests run by node.

The packages are for development only: ``npm install --prefix tests/review`` (``.ci/run`` does it).
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent.relative_to(ROOT)
STATIC = Path("src/tagtrace/review/static")
ESLINT = HERE / "node_modules" / "eslint" / "bin" / "eslint.js"
NODE = shutil.which("node")
OLDEST = (18, 19)
"""The first version of node with ``module.register``."""
LOGIC = ("core/api", "core/decisions", "core/finding_store", "core/format", "core/jobs", "core/keys", "core/labels",
         "core/outbox", "core/paged_list", "core/project", "core/questions", "core/segment_draft", "core/state",
         "core/teaching")  # fmt: skip
"""Modules that must have a unit test."""


def node(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run node in the root of the repository; skip the test if node is missing or too old."""
    if NODE is None:
        pytest.skip("node is not installed")
    said = subprocess.run([NODE, "--version"], capture_output=True, text=True, check=True).stdout
    version = tuple(map(int, re.findall(r"\d+", said)[:2]))
    if version < OLDEST:
        pytest.skip(f"node {said.strip()} is older than {OLDEST[0]}.{OLDEST[1]}")
    command = [NODE, *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)


def test_eslint_has_no_complaint() -> None:
    if not (ROOT / ESLINT).is_file():
        pytest.skip("ESLint is not installed: npm install --prefix tests/review")
    config = HERE / "eslint.config.js"
    found = node(ESLINT, "--max-warnings=0", "--config", config, STATIC, HERE / "static", config)
    assert found.returncode == 0, found.stdout + found.stderr


def test_unit_tests_pass() -> None:
    paths = sorted(path.relative_to(ROOT) for path in (ROOT / HERE / "static").glob("*.test.js"))
    found = node("--import", f"./{HERE / 'static' / 'register_modules.js'}", "--test", *paths)
    assert found.returncode == 0, found.stdout + found.stderr
    passed = re.search(r"^\S* ?pass (\d+)$", found.stdout, re.MULTILINE)
    assert passed is not None, found.stdout
    assert int(passed[1]) >= 3 * len(paths)


@pytest.mark.parametrize("name", LOGIC)
def test_modules_have_unit_tests(name: str) -> None:
    assert (ROOT / STATIC / f"{name}.js").is_file()
    test = ROOT / HERE / "static" / f"{Path(name).name}.test.js"
    assert f"static/{name}.js" in test.read_text(encoding="utf-8")


def test_text_from_files_is_in_elements_of_its_own() -> None:
    """It may turn the direction of what follows in its element: labels and names stand beside words of the page.

    ``bdi``, ``code`` and ``strong`` keep that to themselves; an option and a message have nothing after them.
    """
    static = ROOT / STATIC
    lines = [line for path in sorted(static.rglob("*.js")) for line in path.read_text(encoding="utf-8").splitlines()]
    from_files = re.compile(r"\$\{[^}]*((labels|given|proposed)\.join|\.reviewer|\.change\b)")
    alone = re.compile(r'el\("(bdi|code|strong|option)"|say\(|const ')
    assert [line for line in lines if from_files.search(line) and not alone.search(line)] == []
    assert "code, strong { unicode-bidi: isolate; }" in (static / "style" / "base.css").read_text(encoding="utf-8")
