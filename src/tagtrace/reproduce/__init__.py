"""The paper's experiments, run by name: one module and one configuration file each."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

from tagtrace._checks import OptionError, TagtraceError
from tagtrace.reproduce.experiments import artifact, dosage, errors, exact, noise, sensitivity
from tagtrace.reproduce.loop import loop
from tagtrace.reproduce.shared.experiment import Experiment, SeedResult, run_seed
from tagtrace.reproduce.shared.setting import INSTALL, Setting
from tagtrace.reproduce.whole_tagger import directed, lds

__all__ = ["EXPERIMENTS", "DirectionError", "Experiment", "Setting", "parse_seeds", "pick", "reproduce"]

EXPERIMENTS: dict[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT
    for module in (exact, artifact, errors, noise, dosage, sensitivity, lds, directed, loop)
}
"""In the order of the paper; the last four are not in the paper."""


class DirectionError(TagtraceError):
    """A quick run did not give the result that is expected from the paper."""


def reproduce(name: str, setting: Setting, seeds: Sequence[int]) -> str:
    """Run an experiment (or ``all`` of them), one seed after another, draw its figures, and return its table.

    A seed whose result is already in ``setting.out`` is not run again. If a quick run does not show the expected
    direction, DirectionError is raised; a full run reports it and continues.
    """
    return "\n".join(_reproduce(experiment, setting, seeds) for experiment in pick(name, setting))


def _reproduce(experiment: Experiment, setting: Setting, seeds: Sequence[int]) -> str:
    name = experiment.name
    results = [run_seed(experiment, setting, seed) for seed in seeds]
    _draw(experiment, setting, results)
    table = experiment.table(results)
    if complaints := experiment.check(results):
        if setting.quick:
            raise DirectionError(f"{name}: unexpected result: {'; '.join(complaints)}")
        for complaint in complaints:
            setting.report(f"{name}: unexpected result: {complaint}")
    elif setting.quick:
        setting.report(f"{name}: the result has the expected direction")
    seeds_named = ", ".join(map(str, seeds))
    warning = ", quick run (a smoke test, not evidence)" if setting.quick else ""
    return f"{name} ({experiment.section}), {results[0]['encoder']}, seeds {seeds_named}{warning}\n\n{table}"


def pick(name: str, setting: Setting) -> list[Experiment]:
    """The experiment of that name, or ``all`` of them, after a check that the setting has what they need."""
    if name != "all" and name not in EXPERIMENTS:
        raise OptionError(f"there is no experiment {name!r}; expected {', '.join(EXPERIMENTS)} or all")
    if not setting.data.is_dir():
        raise OptionError(f"{setting.data}: is not a folder; expected the folder that contains conll2003, glove, ...")
    picked = list(EXPERIMENTS.values()) if name == "all" else [EXPERIMENTS[name]]
    for experiment in picked:
        experiment.with_encoder(setting)
    return picked


def parse_seeds(text: str) -> tuple[int, ...]:
    """Whole numbers separated by commas, without repetitions.

    >>> parse_seeds("0, 2,2")
    (0, 2)
    """
    try:
        seeds = tuple(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        seeds = (-1,)
    if min(seeds) < 0:
        raise OptionError(f"seeds {text!r}: expected whole numbers separated by commas, such as 0,1,2")
    return seeds


def _draw(experiment: Experiment, setting: Setting, results: Sequence[SeedResult]) -> None:
    if find_spec("matplotlib") is None:
        setting.report(f"figures are not drawn because matplotlib is not installed; {INSTALL}")
        return
    for path in experiment.draw(results, setting.out):
        setting.report(f"wrote {path}")
