"""``tagtrace fix``: chosen findings applied to a copy of the data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from tagtrace._checks import DataError, OptionError
from tagtrace.cli.options import read_options, reading_options
from tagtrace.cli.show import err, out
from tagtrace.data import read_corpus, write_corpus
from tagtrace.findings.finding import Finding, read_findings, spelled
from tagtrace.findings.fix import Change, Fixed, read_changes, replay, write_changes
from tagtrace.findings.fix import fix as make_fixes

NUM_SHOWN = 12
"""Kinds of change that are printed."""
CHOOSING = "--top, --pattern, --min-confidence, --only or --all"


@click.command()
@click.argument("data_file", metavar="DATA", type=click.Path(path_type=Path))
@click.argument("findings_file", metavar="FINDINGS", type=click.Path(path_type=Path))
@click.argument("target", metavar="OUT", type=click.Path(path_type=Path))
@click.option("--top", type=int, metavar="N", help="The first N findings of the file's ranking.")
@click.option("--pattern", "patterns", type=int, multiple=True, metavar="N",
              help="Findings of this pattern. May be repeated.")  # fmt: skip
@click.option(
    "--min-confidence", type=float, metavar="P", help="Findings whose proposed labels have probability P or more."
)
@click.option("--only", "ranks", multiple=True, metavar="RANK,...", help="Findings with these ranks. May be repeated.")
@click.option("--all", "everything", is_flag=True, help="Every finding.")
@click.option("--replay", "is_log", is_flag=True,
              help="FINDINGS is the log of an earlier fix: make the same changes again.")  # fmt: skip
@click.option("--log", "log_file", type=click.Path(path_type=Path), metavar="FILE",
              help="Where every change is noted. [default: OUT.changes.jsonl]")  # fmt: skip
@click.option("--overwrite", is_flag=True, help="Replace OUT and the log if they exist; never DATA.")
@reading_options
def fix(data_file: Path, findings_file: Path, target: Path, **values: Any) -> None:
    """Write DATA with the labels that chosen FINDINGS propose to OUT, in its own format, and log every change.

    What is chosen must pass every option that is given: --pattern 1 --top 50 are those of the first 50 findings that
    belong to pattern 1. Nothing else in the file changes, byte for byte.
    """
    options = read_options(values)
    log = values["log_file"] or target.with_name(f"{target.name}.changes.jsonl")
    _check_targets(data_file, findings_file, target, log, overwrite=values["overwrite"])
    is_choosing = values["everything"] or any(
        values[name] not in (None, ()) for name in ("top", "patterns", "min_confidence", "ranks")
    )
    if values["is_log"]:
        if is_choosing:
            raise OptionError(f"--replay makes all changes of a log again; leave out {CHOOSING}")
        changes = read_changes(findings_file)
        fixed = replay(read_corpus(data_file, options), changes)
        num_asked = len(changes)
    else:
        if not is_choosing:
            raise OptionError(f"no finding is chosen; choose with {CHOOSING}")
        chosen = choose(read_findings(findings_file), values)
        fixed = make_fixes(read_corpus(data_file, options), chosen)
        num_asked = len(chosen)
        num_unlikely = sum(one.confidence <= 0.5 for one in chosen)
        if num_unlikely:
            err.print(f"note: {num_unlikely:,} of the proposals are not likelier than not; see --min-confidence")
    num_labels = write_corpus(fixed.corpus, target)
    write_changes(fixed.changes, log)
    _show(fixed, num_asked, num_labels, target, log)


def _check_targets(data_file: Path, findings_file: Path, target: Path, log: Path, *, overwrite: bool) -> None:
    """Refuse, before any work is done, to write over what is read."""
    if target.resolve() == log.resolve():
        raise OptionError(f"{target}: is OUT and --log too; give the log another name")
    for path, what in ((target, "OUT"), (log, "the log")):
        for source, name in ((data_file, "DATA"), (findings_file, "FINDINGS")):
            if path.resolve() == source.resolve() or (path.exists() and source.exists() and path.samefile(source)):
                raise OptionError(f"{path}: is {name}, which is never overwritten; choose another name for {what}")
        if path.is_dir():
            raise OptionError(f"{path}: is a folder; give the name of a file for {what}")
        if path.is_file() and not overwrite:
            raise OptionError(f"{path}: exists already; choose another file for {what} or pass --overwrite")


def choose(findings: Sequence[Finding], values: dict[str, Any]) -> list[Finding]:
    """The findings that pass all the options given."""
    found = sorted(findings, key=lambda one: one.rank)
    known = Counter(one.rank for one in found)
    for rank, times in known.items():
        if times > 1:
            raise DataError(f"{times} findings have the rank {rank}; give findings of one audit")
    if values["top"] is not None:
        if values["top"] < 1:
            raise OptionError(f"--top {values['top']}: must be at least 1")
        found = found[: values["top"]]
    if values["patterns"]:
        _check_known("--pattern", values["patterns"], {one.pattern for one in findings}, "no finding belongs to it")
        found = [one for one in found if one.pattern in values["patterns"]]
    if values["min_confidence"] is not None:
        if not 0 <= values["min_confidence"] <= 1:
            raise OptionError(f"--min-confidence {values['min_confidence']}: must be from 0 to 1")
        found = [one for one in found if one.confidence >= values["min_confidence"]]
    if values["ranks"]:
        ranks = _numbers(values["ranks"])
        _check_known("--only", ranks, set(known), "no finding has this rank")
        found = [one for one in found if one.rank in ranks]
    if not found:
        raise OptionError("no finding passes all the options given; leave one out, or choose --all")
    return found


def _numbers(texts: Sequence[str]) -> set[int]:
    """``3,7`` and ``12`` as numbers."""
    parts = [part.strip() for text in texts for part in text.split(",")]
    for part in parts:
        if not part.isdecimal():
            raise OptionError(f"--only {part!r}: expected ranks separated by commas, for example 1,2,5")
    return {int(part) for part in parts}


def _check_known(option: str, asked: Sequence[int] | set[int], known: set[int] | set[int | None], reason: str) -> None:
    for number in sorted(asked):
        if number not in known:
            raise OptionError(f"{option} {number}: {reason}; see the findings that audit wrote")


def _show(fixed: Fixed, num_asked: int, num_labels: int, target: Path, log: Path) -> None:
    kinds = Counter(_kind(change) for change in fixed.changes)
    table = Table("given", "new", title="changes", title_justify="left")
    table.add_column("count", justify="right")
    for (given, new), count in kinds.most_common(NUM_SHOWN):
        table.add_row(given, new, f"{count:,}")
    if len(kinds) > NUM_SHOWN:
        table.add_row("others", "", f"{sum(count for _, count in kinds.most_common()[NUM_SHOWN:]):,}")
    if kinds:
        out.print(table)
    if num_asked > len(fixed.changes):
        err.print(f"note: {num_asked - len(fixed.changes):,} propose the labels that are there already")
    repaired = [change for change in fixed.changes if change.repaired]
    if repaired:
        err.print(
            f"note: {len(repaired):,} also changed a B- or I- beside the labels proposed, to keep segments well formed "
            f"(the first: rank {repaired[0].rank}, line {repaired[0].line})",
            soft_wrap=True,
        )
    out.print(f"wrote {target}: {num_labels:,} labels changed for {len(fixed.changes):,} findings", soft_wrap=True)
    out.print(f"wrote {log}: every change; --replay makes them again", soft_wrap=True)


def _kind(change: Change) -> tuple[str, str]:
    return spelled(change.given), spelled(change.new)
