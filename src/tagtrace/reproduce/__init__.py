"""The paper's experiments: one module and one configuration file for each, run by name."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

from tagtrace._checks import OptionError, TagtraceError
from tagtrace.reproduce.experiments import artifact, dosage, errors, exact, noise, sensitivity
from tagtrace.reproduce.shared.experiment import Experiment, Found, run_seed
from tagtrace.reproduce.shared.setting import INSTALL, Setting

__all__ = ["EXPERIMENTS", "DirectionError", "Experiment", "Setting", "parse_seeds", "pick", "reproduce"]

EXPERIMENTS: dict[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT for module in (exact, artifact, errors, noise, dosage, sensitivity)
}
"""In the paper's order; the last is not in the paper."""


class DirectionError(TagtraceError):
    """A quick run found something else than the paper did."""


def reproduce(name: str, setting: Setting, seeds: Sequence[int]) -> str:
    """Run an experiment (or ``all``), one seed after another, and draw its figures: what was run, and its table.

    A seed whose result is in ``setting.out`` is not run again. A quick run whose result does not have the direction
    that is expected raises DirectionError; a full one reports it.
    """
    return "\n".join(_reproduce(experiment, setting, seeds) for experiment in pick(name, setting))


def _reproduce(experiment: Experiment, setting: Setting, seeds: Sequence[int]) -> str:
    name = experiment.name
    founds = [run_seed(experiment, setting, seed) for seed in seeds]
    _draw(experiment, setting, founds)
    table = experiment.table(founds)
    if lines := experiment.check(founds):
        if setting.quick:
            raise DirectionError(f"{name}: not as expected: {'; '.join(lines)}")
        for line in lines:
            setting.report(f"{name}: not as expected: {line}")
    elif setting.quick:
        setting.report(f"{name}: has the direction that is expected")
    seeds_named = ", ".join(map(str, seeds))
    slice_ = ", a quick slice and no evidence" if setting.quick else ""
    return f"{name} ({experiment.section}), {founds[0]['encoder']}, seeds {seeds_named}{slice_}\n\n{table}"


def pick(name: str, setting: Setting) -> list[Experiment]:
    """The experiment of that name, or ``all`` of them, once it is clear that they can begin."""
    if name != "all" and name not in EXPERIMENTS:
        raise OptionError(f"there is no experiment {name!r}; expected {', '.join(EXPERIMENTS)} or all")
    if not setting.data.is_dir():
        raise OptionError(f"{setting.data}: is no folder; --data takes the one that holds conll2003, glove, ...")
    picked = list(EXPERIMENTS.values()) if name == "all" else [EXPERIMENTS[name]]
    for experiment in picked:
        experiment.fitted(setting)
    return picked


def parse_seeds(text: str) -> tuple[int, ...]:
    """Numbers separated by commas, each once.

    >>> parse_seeds("0, 2,2")
    (0, 2)
    """
    try:
        seeds = tuple(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        seeds = (-1,)
    if min(seeds) < 0:
        raise OptionError(f"--seeds {text!r}: expected whole numbers separated by commas, such as 0,1,2")
    return seeds


def _draw(experiment: Experiment, setting: Setting, founds: Sequence[Found]) -> None:
    if find_spec("matplotlib") is None:
        setting.report(f"figures are not drawn: they need matplotlib; {INSTALL}")
        return
    for path in experiment.draw(founds, setting.out):
        setting.report(f"wrote {path}")
