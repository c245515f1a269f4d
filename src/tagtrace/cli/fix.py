"""``tagtrace fix``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from tagtrace._checks import OptionError
from tagtrace.cli.options import Command, overwrite_option, read_options, reading_options
from tagtrace.cli.places import Input, OutputData, OutputFile, ProjectFolder
from tagtrace.cli.show import show
from tagtrace.data import Corpus, read_corpus
from tagtrace.findings import (
    RISK,
    Decided,
    Fixed,
    choose_auto,
    choose_findings,
    read_changes,
    read_findings,
    replay,
    teach,
)
from tagtrace.findings import fix as fix_corpus
from tagtrace.findings.fix import check_ranks, default_log
from tagtrace.review import teach_by_review

CHOOSING = "--top, --pattern, --min-confidence, --only, --all or --auto"


@click.command(cls=Command)
@click.argument("data_file", metavar="DATA", type=Input())
@click.argument("findings_file", metavar="FINDINGS", type=Input())
@click.argument("target", metavar="OUT",
                type=OutputData(lambda given: given["data_file"].is_dir()))  # fmt: skip
@click.option("--top", type=int, metavar="N", help="Apply the first N findings.")
@click.option("--pattern", "patterns", type=int, multiple=True, metavar="N",
              help="Apply the findings of this pattern. May be repeated.")  # fmt: skip
@click.option("--min-confidence", type=float, metavar="P",
              help="Apply findings whose proposed labels have at least this probability.")  # fmt: skip
@click.option("--only", "ranks", multiple=True, metavar="RANK,...",
              help="Apply the findings with these ranks. May be repeated.")  # fmt: skip
@click.option("--all", "everything", is_flag=True, help="Apply all findings.")
@click.option("--auto", is_flag=True,
              help="Apply the findings that are sure enough: see --risk and --decisions.")  # fmt: skip
@click.option("--risk", type=float, metavar="SHARE",
              help="With --auto: of the labels that change, the share that may be expected to become wrong. "
              f"[default: {RISK}]")  # fmt: skip
@click.option("--decisions", type=ProjectFolder(), metavar="PROJECT",
              help="With --auto: folder of a review. Its decisions are made in the copy too, and teach which findings "
              "are sure.")  # fmt: skip
@click.option("--replay", "is_log", is_flag=True,
              help="FINDINGS is the log of an earlier fix: make the same changes again.")  # fmt: skip
@click.option("--log", "log_file", type=OutputFile(("target", default_log)), metavar="FILE",
              help="File for the log of changes. [default: OUT.changes.jsonl]")  # fmt: skip
@overwrite_option
@reading_options
def fix(data_file: Path, findings_file: Path, target: Path, **values: Any) -> None:
    """Write a copy of DATA to OUT in which chosen FINDINGS are fixed, and log every change.

    FINDINGS is the findings.jsonl of an audit. Choose with one or several options; with several, a finding must meet
    all of them: --pattern 1 --top 50 chooses those of the first 50 findings that belong to pattern 1. Only labels
    change; everything else in the file stays the same, byte for byte. If DATA is a folder, so is OUT.
    """
    options = read_options(values)
    conditions = {name: values[name] for name in ("top", "patterns", "min_confidence")}
    conditions["ranks"] = _ranks(values["ranks"])
    is_choosing = values["everything"] or any(value not in (None, (), set()) for value in conditions.values())
    if values["auto"] and (is_choosing or values["is_log"]):
        raise OptionError(f"--auto chooses by itself; leave out --replay and the rest of {CHOOSING}")
    if not values["auto"] and (values["risk"] is not None or values["decisions"] is not None):
        raise OptionError("--risk and --decisions are about --auto; add it, or leave them out")
    if values["auto"]:
        fixed = _auto(read_corpus(data_file, options), findings_file, values["risk"], values["decisions"])
        _write(fixed, target, **values)
        return
    if values["is_log"] == is_choosing:
        wrong = f"--replay repeats all changes of a log; leave out {CHOOSING}"
        raise OptionError(wrong if is_choosing else f"no finding is chosen; choose with {CHOOSING}")
    if values["everything"] and conditions["min_confidence"] is None:
        conditions["min_confidence"] = 0.0
    corpus = read_corpus(data_file, options)
    if values["is_log"]:
        fixed = replay(corpus, read_changes(findings_file))
    else:
        fixed = fix_corpus(corpus, choose_findings(read_findings(findings_file), **conditions))
    _write(fixed, target, **values)


def _write(fixed: Fixed, target: Path, *, log_file: Path, overwrite: bool, **_: Any) -> None:
    num_labels = fixed.save(target, log_file, overwrite=overwrite)
    show(fixed)
    show(f"wrote {target}: {num_labels:,} labels changed for {len(fixed.changes):,} findings")
    show(f"wrote {log_file}: the log of changes, which --replay repeats")


def _auto(corpus: Corpus, findings_file: Path, risk: float | None, project: Path | None) -> Fixed:
    """The decisions of a review, and the findings that are sure enough."""
    findings = read_findings(findings_file)
    check_ranks(findings)
    made, taught = ([], teach(findings, Decided())) if project is None else teach_by_review(project, findings)
    found = choose_auto(taught, RISK if risk is None else risk)
    if project is not None:
        show(f"{len(made):,} changes were decided in {project}")
    show(str(found))
    return replay(corpus, [*made, *found.changes()])


def _ranks(texts: Sequence[str]) -> set[int]:
    """``3,7`` and ``12`` as numbers."""
    parts = [part.strip() for text in texts for part in text.split(",")]
    for part in parts:
        if not part.isdecimal():
            raise OptionError(f"--only {part!r}: expected ranks separated by commas, for example 1,2,5")
    return {int(part) for part in parts}
