"""``tagtrace fix``."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from tagtrace.data import read_corpus
from tagtrace.data.invented import generate, write_invented
from tagtrace.findings.finding import Finding, write_findings
from tagtrace.findings.fix import default_log
from tests.cli.command import refused, succeed, tagtrace


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Invented data, and its planted errors as findings: the systematic ones are pattern 1, every third of them 2."""
    folder = tmp_path_factory.mktemp("fix")
    corpus = generate(num_documents=20, random_share=0.05)
    write_invented(corpus, folder)
    lines = {s.id: s.lines for s in read_corpus(folder / "train.conll").sentences}
    findings = []
    for number, error in enumerate(corpus.errors):
        pattern = None if error.kind == "random" else 2 if number % 3 == 0 else 1
        findings.append(Finding(
            number + 1, error.sentence, error.document, number, error.start, error.stop,
            lines[error.sentence][error.start], error.tokens, (), (), error.planted_labels, error.true_labels,
            1.0, 1.0 - number / 100, pattern=pattern,
        ))  # fmt: skip
    write_findings(findings, folder / "findings.jsonl")
    assert len(findings) > 12
    assert {one.pattern for one in findings} == {None, 1, 2}
    return folder


def fix(made: Path, target: Path, *options: object, data: str = "train.conll", findings: str | Path = "") -> Result:
    return tagtrace("fix", made / data, findings or made / "findings.jsonl", target, *options)


def changes_of(target: Path) -> list[dict[str, Any]]:
    log = target.with_name(f"{target.name}.changes.jsonl")
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]


def test_all_findings_make_the_data_true(made: Path, tmp_path: Path) -> None:
    target = tmp_path / "fixed.conll"
    result = fix(made, target, "--all")
    assert result.exit_code == 0, result.output
    assert target.read_bytes() == (made / "train_true.conll").read_bytes()
    before, after = ((made / f"{name}.conll").read_text().splitlines() for name in ("train", "train_true"))
    different = {number for number, pair in enumerate(zip(before, after, strict=True), 1) if pair[0] != pair[1]}
    spans = [(change["line"], len(change["tokens"])) for change in changes_of(target)]
    logged = {line for first, length in spans for line in range(first, first + length)}
    assert different <= logged
    assert f"{len(different)} labels changed" in result.stdout
    assert "LOC" in result.stdout


def test_what_is_chosen_passes_every_option(made: Path, tmp_path: Path) -> None:
    findings = [json.loads(line) for line in (made / "findings.jsonl").read_text().splitlines()]

    def ranks(*options: object) -> set[object]:
        target = tmp_path / "fixed.conll"
        result = fix(made, target, *options, "--overwrite")
        assert result.exit_code == 0, result.output
        return {change["rank"] for change in changes_of(target)}

    in_pattern = {number: {one["rank"] for one in findings if one["pattern"] == number} for number in (1, 2)}
    top = max(in_pattern[1]) - 1
    assert ranks("--top", 3) == {1, 2, 3}
    assert ranks("--pattern", 1) == in_pattern[1]
    assert ranks("--pattern", 1, "--pattern", 2) == in_pattern[1] | in_pattern[2]
    assert ranks("--pattern", 1, "--top", top) == in_pattern[1] - {top + 1}
    assert ranks("--only", "1,3", "--only", 5) == {1, 3, 5}
    assert ranks("--only", "1,3", "--top", 2) == {1}
    assert ranks("--min-confidence", 0.98) == {1, 2, 3}
    assert ranks("--all") == {one["rank"] for one in findings}


def test_a_log_is_replayed(made: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first.conll", tmp_path / "second.conll"
    fix(made, first, "--top", 5, "--log", tmp_path / "log.jsonl")
    (tmp_path / "copy.conll").write_bytes((made / "train.conll").read_bytes())
    for data in (made / "train.conll", tmp_path / "copy.conll"):
        result = fix(made, second, "--replay", "--overwrite", data=str(data), findings=tmp_path / "log.jsonl")
        assert result.exit_code == 0, result.output
        assert second.read_bytes() == first.read_bytes()
        assert changes_of(second) == [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    again = fix(made, tmp_path / "third.conll", "--replay", data=str(first), findings=tmp_path / "log.jsonl")
    refused(again, "first.conll", "already")
    both = fix(made, tmp_path / "third.conll", "--replay", "--top", 1, findings=tmp_path / "log.jsonl")
    refused(both, "leave out --top")
    refused(fix(made, tmp_path / "third.conll", "--replay"), "findings.jsonl, line 1: ")


def test_notes_say_what_was_repaired_or_already_there(made: Path, tmp_path: Path) -> None:
    (tmp_path / "a.conll").write_text("Fox B-ORG\nLtd I-ORG\n")
    (sentence,) = read_corpus(tmp_path / "a.conll").sentences
    one = Finding(1, sentence.id, "", 0, 0, 1, 1, ("Fox",), (), (), ("B-ORG",), ("O",), 1.0, 1.0)
    same = replace(one, rank=2, start=1, stop=2, tokens=("Ltd",), given=("I-ORG",), proposed=("I-ORG",))
    write_findings([one], tmp_path / "f.jsonl")
    target = tmp_path / "b.conll"
    result = fix(made, target, "--all", data=str(tmp_path / "a.conll"), findings=tmp_path / "f.jsonl")
    assert re.search("note: 1 .*B- or I-", result.stdout)
    assert target.read_text() == "Fox O\nLtd B-ORG\n"
    write_findings([same], tmp_path / "f.jsonl")
    result = fix(made, target, "--all", "--overwrite", data=str(tmp_path / "a.conll"), findings=tmp_path / "f.jsonl")
    assert re.search("note: 1 .*already", result.stdout)
    assert target.read_bytes() == (tmp_path / "a.conll").read_bytes()


def test_unlikely_proposals_are_noted(made: Path, tmp_path: Path) -> None:
    lines = (made / "findings.jsonl").read_text().splitlines()
    doubtful = [json.dumps({**json.loads(line), "confidence": 0.5}) for line in lines[:2]]
    (tmp_path / "f.jsonl").write_text("\n".join([*doubtful, *lines[2:]]) + "\n")
    result = fix(made, tmp_path / "fixed.conll", "--all", findings=tmp_path / "f.jsonl")
    assert re.search("note: 2 .*confidence of at most 0.5", result.stdout)
    sure = fix(made, tmp_path / "sure.conll", "--min-confidence", 0.6, findings=tmp_path / "f.jsonl")
    assert sure.exit_code == 0
    assert "note: " not in sure.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "no finding is chosen; choose with --top, --pattern, --min-confidence, --only, --all or --auto"),
        (("--top", 0), "top 0: must be at least 1"),
        (("--pattern", 9), "pattern 9: no finding"),
        (("--only", 999), "rank 999: no finding"),
        (("--only", "1-3"), "--only '1-3': expected ranks"),
        (("--min-confidence", 2), "min_confidence 2.0: must be from 0 to 1"),
        (("--min-confidence", 1, "--only", 5), "no finding "),
    ],
    ids=["nothing", "top", "pattern", "rank", "text", "confidence", "none left"],
)
def test_bad_choices_are_refused(made: Path, tmp_path: Path, options: tuple[object, ...], message: str) -> None:
    refused(fix(made, tmp_path / "fixed.conll", *options), message)
    assert list(tmp_path.iterdir()) == []


def test_what_is_read_is_never_overwritten(made: Path, tmp_path: Path) -> None:
    before = (made / "train.conll").read_bytes()
    (tmp_path / "link.conll").symlink_to(made / "train.conll")
    for target in (made / "train.conll", tmp_path / "link.conll"):
        refused(fix(made, target, "--all", "--overwrite"), "is DATA, which is never overwritten")
    log = made / "findings.jsonl"
    refused(fix(made, tmp_path / "a", "--all", "--log", log, "--overwrite"), "is FINDINGS, which is never overwritten")
    refused(fix(made, tmp_path / "a", "--all", "--log", tmp_path / "a"), "OUT and --log")
    refused(fix(made, tmp_path, "--all"), "is a folder")
    (tmp_path / "a").write_text("mine")
    refused(fix(made, tmp_path / "a", "--all"), "exists already; choose another file for OUT")
    assert (tmp_path / "a").read_text() == "mine"
    assert (made / "train.conll").read_bytes() == before


def test_other_data_is_refused_and_nothing_written(made: Path, tmp_path: Path) -> None:
    result = fix(made, tmp_path / "fixed.conll", "--all", data="dev.conll")
    refused(result, "no sentence has the id")
    refused(fix(made, tmp_path / "fixed.conll", "--all", data="train_true.conll"), "train_true.conll", "already")
    doubled = tmp_path / "double.jsonl"
    doubled.write_text((made / "findings.jsonl").read_text() * 2)
    refused(fix(made, tmp_path / "fixed.conll", "--all", findings=doubled), "2 findings have the rank 1")
    assert [path.name for path in tmp_path.iterdir()] == ["double.jsonl"]


def test_private_data_stays_private(made: Path, tmp_path: Path) -> None:
    data = tmp_path / "private.conll"
    data.write_bytes((made / "train.conll").read_bytes())
    data.chmod(0o600)
    out = tmp_path / "out.conll"
    succeed("fix", data, made / "findings.jsonl", out, "--all")
    assert [path.stat().st_mode & 0o777 for path in (out, default_log(out))] == [0o600] * 2
    data.chmod(0o644)
    succeed("fix", data, made / "findings.jsonl", out, "--all", "--overwrite")
    assert [path.stat().st_mode & 0o777 for path in (out, default_log(out))] == [0o600] * 2
