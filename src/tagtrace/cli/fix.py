"""``tagtrace fix``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from tagtrace._checks import OptionError
from tagtrace._files import check_outputs
from tagtrace.cli.options import overwrite_option, read_options, reading_options
from tagtrace.cli.show import note, show
from tagtrace.data import read_corpus
from tagtrace.findings import choose_findings, read_changes, read_findings, replay
from tagtrace.findings import fix as fix_corpus
from tagtrace.findings.fix import default_log

CHOOSING = "--top, --pattern, --min-confidence, --only or --all"


@click.command()
@click.argument("data_file", metavar="DATA", type=click.Path(path_type=Path))
@click.argument("findings_file", metavar="FINDINGS", type=click.Path(path_type=Path))
@click.argument("target", metavar="OUT", type=click.Path(path_type=Path))
@click.option("--top", type=int, metavar="N", help="The first N findings.")
@click.option("--pattern", "patterns", type=int, multiple=True, metavar="N",
              help="Findings of this pattern. May be repeated.")  # fmt: skip
@click.option("--min-confidence", type=float, metavar="P",
              help="Findings whose proposed labels have probability P or more.")  # fmt: skip
@click.option("--only", "ranks", multiple=True, metavar="RANK,...", help="Findings with these ranks. May be repeated.")
@click.option("--all", "everything", is_flag=True, help="All findings.")
@click.option("--replay", "is_log", is_flag=True,
              help="FINDINGS is the log of an earlier fix: make the same changes again.")  # fmt: skip
@click.option("--log", "log_file", type=click.Path(path_type=Path), metavar="FILE",
              help="Log of every change. [default: OUT.changes.jsonl]")  # fmt: skip
@overwrite_option
@reading_options
def fix(data_file: Path, findings_file: Path, target: Path, **values: Any) -> None:
    """Write DATA with the labels that chosen FINDINGS propose to OUT, in its own format, and log every change.

    Findings must pass every option that is given: --pattern 1 --top 50 are those of the first 50 findings that belong
    to pattern 1. Nothing else in the file changes, byte for byte.
    """
    options = read_options(values)
    log = values["log_file"] or default_log(target)
    check_outputs(
        {"OUT": target, "the log": log}, {"DATA": data_file, "FINDINGS": findings_file}, overwrite=values["overwrite"]
    )
    conditions = {name: values[name] for name in ("top", "patterns", "min_confidence")}
    conditions["ranks"] = _ranks(values["ranks"])
    is_choosing = values["everything"] or any(value not in (None, (), set()) for value in conditions.values())
    if values["is_log"] == is_choosing:
        wrong = f"--replay repeats all changes of a log; leave out {CHOOSING}"
        raise OptionError(wrong if is_choosing else f"no finding is chosen; choose with {CHOOSING}")
    corpus = read_corpus(data_file, options)
    if values["is_log"]:
        fixed = replay(corpus, read_changes(findings_file))
    else:
        chosen = choose_findings(read_findings(findings_file), **conditions)
        num_unlikely = sum(one.confidence <= 0.5 for one in chosen)
        if num_unlikely:
            note(f"note: {num_unlikely:,} of the proposals are not likelier than not; see --min-confidence")
        fixed = fix_corpus(corpus, chosen)
    num_labels = fixed.save(target, log, overwrite=values["overwrite"])
    show(fixed)
    show(f"wrote {target}: {num_labels:,} labels changed for {len(fixed.changes):,} findings")
    show(f"wrote {log}: every change; --replay makes them again")


def _ranks(texts: Sequence[str]) -> set[int]:
    """``3,7`` and ``12`` as numbers."""
    parts = [part.strip() for text in texts for part in text.split(",")]
    for part in parts:
        if not part.isdecimal():
            raise OptionError(f"--only {part!r}: expected ranks separated by commas, for example 1,2,5")
    return {int(part) for part in parts}
