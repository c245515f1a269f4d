"""The GitHub Action: its inputs reach its script, and the script audits data and writes the summary."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

import tagtrace
from tagtrace.data.invented import generate, write_invented
from tests.pages import ENVIRONMENT
from tests.places import REPOSITORY

ACTION: dict[str, Any] = yaml.safe_load((REPOSITORY / "action.yml").read_text(encoding="utf-8"))
SCRIPT = REPOSITORY / "action" / "audit.sh"


def audit(folder: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run the script as the action does, with a summary that has a line already."""
    given = {"TRAIN": "train.conll", "EPOCHS": "2", "OUT": "audit", "GITHUB_STEP_SUMMARY": "summary.md", **inputs}
    (folder / "summary.md").write_text("An earlier step.\n")
    environment = {**ENVIRONMENT, **given}
    return subprocess.run(
        ["bash", str(SCRIPT)], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny data set, in which one sentence would end a block of Markdown if it could."""
    folder = tmp_path_factory.mktemp("action")
    write_invented(generate(num_documents=20), folder)
    with (folder / "train.conll").open("a", encoding="utf-8") as file:
        for name in ("tagtrace", "json", "argparse"):  # what Python would import from the working folder
            (folder / f"{name}.py").write_text('open("run", "w").close()\n')
        file.write("```\tB-LOC\n</pre><h1>\tB-LOC\nVarnholt\tB-PER\n\n" * 5)
    return folder


def test_every_input_reaches_the_script() -> None:
    steps = [step for step in ACTION["runs"]["steps"] if "run" in step]
    given = " ".join(value for step in steps for value in step["env"].values())
    assert sorted(re.findall(r"\$\{\{ inputs\.([a-z-]+) \}\}", given)) == sorted(ACTION["inputs"])
    (step,) = [step for step in steps if "audit.sh" in step["run"]]
    assert all(re.search(rf"\b{name}\b", SCRIPT.read_text(encoding="utf-8")) for name in step["env"])
    assert not any("${{" in step.get("run", "") for step in ACTION["runs"]["steps"]), "an input would be run as code"


def test_the_inputs_are_documented() -> None:
    text = (REPOSITORY / "docs" / "elsewhere.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `([a-z-]+)` \|", text, re.MULTILINE) == list(ACTION["inputs"])


def test_the_summary_has_what_the_audit_says(folder: Path) -> None:
    ran = audit(folder, TRUSTED="dev.conll", OUT="with trusted", MOST_LIKELY_WRONG="99999")
    assert ran.returncode == 0, ran.stderr
    found = tagtrace.Audit.load(folder / "with trusted")
    assert "trusted" in str(found.summary)
    assert (folder / "with trusted" / "report.html").is_file()
    lines = (folder / "summary.md").read_text(encoding="utf-8").splitlines()
    assert lines[:2] == ["An earlier step.", "## Audit of training labels"]
    assert f"In {len(found.likely)} findings the proposed labels are likelier than the given ones." in lines
    said = lines[lines.index("", 4) + 1 :]
    assert f"    {len(found.findings):,} findings among " in "\n".join(said)
    assert all(line.startswith("    ") for line in said), "text of the data is outside of the block"
    assert not (folder / "run").exists()


def test_it_fails_where_more_labels_are_doubtful_than_allowed(folder: Path) -> None:
    ran = audit(folder, MOST_LIKELY_WRONG="0", OUT="strict")
    likely = len(tagtrace.Audit.load(folder / "strict").likely)
    assert likely > 0
    assert ran.returncode == 1
    assert ran.stderr.splitlines()[-1].startswith(f"{likely} findings whose proposed labels are likelier")
    assert "## Audit of training labels" in (folder / "summary.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("inputs", "line"),
    [({"MOST_LIKELY_WRONG": "1+a[$(touch run)]"}, "must be a whole number"), ({"TRAIN": "$(touch run)"}, "tagtrace: ")],
    ids=["number", "path"],
)
def test_bad_inputs_are_refused_and_never_run(folder: Path, inputs: dict[str, str], line: str) -> None:
    ran = audit(folder, **inputs)
    assert ran.returncode != 0
    assert line in ran.stderr
    assert not (folder / "run").exists()
    assert (folder / "summary.md").read_text() == "An earlier step.\n"


@pytest.mark.parametrize("name", ["TRAIN", "TRUSTED"])
@pytest.mark.parametrize("place", ["../elsewhere.conll", "link.conll", ".git/config"])
def test_no_file_of_the_machine_is_shown(folder: Path, name: str, place: str) -> None:
    """A pull request may contain links."""
    (folder.parent / "elsewhere.conll").write_text("secret\tB-LOC\n")
    (folder / "link.conll").unlink(missing_ok=True)
    (folder / "link.conll").symlink_to("../elsewhere.conll")
    (folder / ".git").mkdir(exist_ok=True)
    (folder / ".git" / "config").write_text("secret\tB-LOC\n")
    ran = audit(folder, **{name: place})
    assert ran.returncode == 2
    assert ran.stderr == f"{place}: is not in the checkout\n"
