"""``tagtrace gain``: F1 on held-out data before and after labels were fixed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from tagtrace._checks import OptionError, TaggerError
from tagtrace._files import file_moved_when_whole
from tagtrace.cli.device import device_option, pick_device
from tagtrace.cli.options import read_options, reading_options
from tagtrace.cli.show import TrainingDisplay, counting, err, out, refit_line
from tagtrace.data import Corpus, read_corpus
from tagtrace.findings.bootstrap import Difference
from tagtrace.findings.gain import Gain, full_gain, head_gain, num_changed
from tagtrace.index import Index, open_index, tagger_of
from tagtrace.index.files import IndexFolderError
from tagtrace.index.manifest import MARKER as INDEX_MARKER
from tagtrace.tagger import RefitOptions, Step, Tagger, build_encoder, load_tagger
from tagtrace.tagger.folder import MARKER as TAGGER_MARKER

FEW_UNITS = 20
"""With fewer, an interval says little."""


@click.command()
@click.argument("folder", metavar="INDEX_OR_TAGGER", type=click.Path(path_type=Path))
@click.argument("before_file", metavar="BEFORE", type=click.Path(path_type=Path))
@click.argument("after_file", metavar="AFTER", type=click.Path(path_type=Path))
@click.option("--test", "test_file", required=True, metavar="FILE", type=click.Path(path_type=Path),
              help="Held-out data with labels that are right.")  # fmt: skip
@click.option("--retrain", type=click.Choice(["head", "everything"]), default="head", show_default=True,
              help="The head alone, exactly; or the encoder too, by the tagger's recipe.")  # fmt: skip
@click.option("--seeds", type=int, default=1, show_default=True, help="Everything: runs before and after, averaged.")
@click.option("--dev", "dev_file", metavar="FILE", type=click.Path(path_type=Path),
              help="Everything: data that choose the epoch, as in training.")  # fmt: skip
@click.option("--encoder", help="Everything: the untrained encoder, as for train. [default: the tagger's]")
@click.option("--work", type=click.Path(path_type=Path), metavar="FOLDER",
              help="Everything: keep runs here, so that a killed command goes on.")  # fmt: skip
@click.option("--l2", type=float, help="Head: strength against the sum of losses. [default: as recorded, else 1]")
@click.option("--samples", type=int, default=1000, show_default=True, help="Resamples of the held-out data.")
@click.option(
    "--json", "json_file", type=click.Path(path_type=Path), metavar="FILE", help="Also write the result here."
)
@click.option("--tagger", "tagger_folder", type=click.Path(path_type=Path),
              help="The index's tagger. [default: where it was when the index was built]")  # fmt: skip
@device_option
@reading_options
def gain(folder: Path, before_file: Path, after_file: Path, **values: Any) -> None:
    """Retrain on BEFORE and on AFTER, the same data with other labels, and compare F1 on held-out data.

    The interval of the difference is a paired bootstrap over documents (sentences where the data has no documents).
    """
    _check_options(values, before_file, after_file)
    options = read_options(values)
    index, tagger = _open(folder, values)
    before, after, test = (read_corpus(path, options) for path in (before_file, after_file, values["test_file"]))
    if values["retrain"] == "head":
        found = _head_gain(index, tagger, before, after, test, values)
    else:
        dev = read_corpus(values["dev_file"], options) if values["dev_file"] else None
        found = _full_gain(tagger, before, after, test, dev, values)
    _show(found, values, num_changed(before, after))
    if values["json_file"] is not None:
        whole = {
            "retrained": values["retrain"], "seeds": values["seeds"], "samples": values["samples"],
            "before_file": str(before_file), "after_file": str(after_file), "test_file": str(values["test_file"]),
            "num_changed": num_changed(before, after), "verdict": verdict(found, num_changed(before, after)),
            **found.to_json(),
        }  # fmt: skip
        with file_moved_when_whole(values["json_file"]) as stream:
            stream.write(json.dumps(whole, ensure_ascii=False, indent=1).encode())


def _check_options(values: dict[str, Any], before_file: Path, after_file: Path) -> None:
    """Refuse, before any work is done, what cannot be measured."""
    for path, name in ((before_file, "BEFORE"), (after_file, "AFTER")):
        if path.resolve() == values["test_file"].resolve():
            raise OptionError(f"--test {path}: is {name}, which the tagger is trained on; give held-out data")
    if values["samples"] < 1 or values["seeds"] < 1:
        raise OptionError("--samples and --seeds must be at least 1")
    if values["retrain"] == "head":
        for name in ("dev_file", "encoder", "work"):
            if values[name] is not None:
                raise OptionError(f"--{name.removesuffix('_file')} needs --retrain everything")
        if values["seeds"] > 1:
            raise OptionError("--seeds needs --retrain everything: the head has one optimum, whatever the seed")
    elif values["l2"] is not None:
        raise OptionError("--l2 needs --retrain head")


def _open(folder: Path, values: dict[str, Any]) -> tuple[Index | None, Tagger]:
    """The index, if that is what was given, and the tagger."""
    device = pick_device(values["device"])
    if (folder / INDEX_MARKER).is_file():
        index = open_index(folder, verify=True)
        return index, tagger_of(index, values["tagger_folder"]).to(device)
    if values["tagger_folder"] is not None:
        raise OptionError(f"--tagger is for an index, but {folder} is none")
    if not (folder / TAGGER_MARKER).is_file():
        raise TaggerError(f"{folder}: neither an index nor a tagger; give what `tagtrace index` or `train` wrote")
    return None, load_tagger(folder).to(device)


def _head_gain(
    index: Index | None, tagger: Tagger, before: Corpus, after: Corpus, test: Corpus, values: dict[str, Any]
) -> Gain:
    recorded = tagger.record.get("refit", {}).get("options", {}).get("l2", 1.0)
    l2 = values["l2"] if values["l2"] is not None else index.manifest.l2 if index else recorded
    rows = None
    if index is not None:
        try:
            index.check_corpus(before)
            rows = index.rows()
        except IndexFolderError:
            err.print(f"{before.path} is not what the index was built from: encoding it", soft_wrap=True)
    with counting("encoding") as encoding:
        return head_gain(
            tagger, before, after, test, RefitOptions(l2),
            rows=rows, samples=values["samples"], encoding=encoding, refitting=refit_line,
        )  # fmt: skip


def _full_gain(
    tagger: Tagger, before: Corpus, after: Corpus, test: Corpus, dev: Corpus | None, values: dict[str, Any]
) -> Gain:
    spec = values["encoder"]
    with runs_display() as training:
        return full_gain(
            tagger, before, after, test, dev,
            num_seeds=values["seeds"], work=values["work"], samples=values["samples"], training=training,
            encoder=None if spec is None else lambda seed: build_encoder(spec, before.sentences, seed),
        )  # fmt: skip


@contextmanager
def runs_display() -> Iterator[Callable[[str, Step], None]]:
    """A bar and a line an epoch for one run after the other."""
    with ExitStack() as stack:
        shown: dict[str, TrainingDisplay] = {}

        def show(run: str, step: Step) -> None:
            if run not in shown:
                stack.close()
                shown.clear()
                err.print(f"training {' with seed '.join(run.rsplit('-', 1))}")
                shown[run] = stack.enter_context(TrainingDisplay())
            shown[run](step)

        yield show


def _show(found: Gain, values: dict[str, Any], changed: int) -> None:
    times = "" if values["seeds"] == 1 else f", the mean of {values['seeds']} seeds"
    table = Table("segment F1", title=f"{values['test_file']}{times}", title_justify="left")
    for name in ("before", "after", "difference", "95 % interval"):
        table.add_column(name, justify="right")
    for name, one in found.by_type.items():
        table.add_row(name, *_cells(one))
    table.add_section()
    table.add_row("all segments", *_cells(found.f1))
    table.add_row("token accuracy", *_cells(found.accuracy))
    out.print(table)
    if found.num_units < FEW_UNITS:
        err.print(f"note: with {_units(found)} the interval says little; give more held-out data", soft_wrap=True)
    out.print(verdict(found, changed), soft_wrap=True)


def _cells(one: Difference) -> list[str]:
    interval = f"{100 * one.low:+.2f} to {100 * one.high:+.2f}"
    return [f"{100 * one.before:.2f}", f"{100 * one.after:.2f}", f"{100 * one.difference:+.2f}", interval]


def _units(found: Gain) -> str:
    return f"{found.num_units:,} {found.unit}{'' if found.num_units == 1 else 's'}"


def verdict(found: Gain, changed: int) -> str:
    """The result in one sentence."""
    one = found.f1
    interval = f"95 % interval {100 * one.low:+.2f} to {100 * one.high:+.2f}, over {_units(found)}"
    labels = f"{changed:,} changed label{'' if changed == 1 else 's'}"
    if one.low > 0:
        return f"better: {labels} raise segment F1 by {100 * one.difference:.2f} points ({interval})"
    if one.high < 0:
        return f"worse: {labels} lower segment F1 by {-100 * one.difference:.2f} points ({interval})"
    return f"no clear difference: {labels} move segment F1 by {100 * one.difference:+.2f} points ({interval})"
