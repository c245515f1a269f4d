"""Not in the paper: how far a reviewer gets with so many decisions, and how good a tagger becomes.

A simulated reviewer, who knows the true labels, decides on the training labels of a task (``tasks``) in the order of
each contender: this loop, in which decisions teach; the audit without teaching; cleanlab; the highest loss; random
sentences. Reported are the wrong labels left, with what is applied without asking (only the loop does that), the
average precision and calibration error of what is believed, and segment F1 on test data after training on the labels
that result. Beside it: training on the noisy labels and then briefly on the decided ones, and training on true labels.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from multiprocessing import get_context
from typing import Any

import torch

from tagtrace._files import write_json
from tagtrace.data import Sentence
from tagtrace.findings.assess import doubts
from tagtrace.findings.judges.opinions import averaged, encoder_opinions, head_opinions
from tagtrace.findings.judges.probabilities import Probabilities
from tagtrace.findings.patterns.conditions import NumberedText
from tagtrace.findings.ranking.proposals import propose
from tagtrace.findings.ranking.suspicion import suspicion
from tagtrace.findings.ranking.truth import average_precision
from tagtrace.findings.teaching.teach import finding_features, first_tokens
from tagtrace.index import Index
from tagtrace.reproduce.loop.curves import follow, head_f1, whole_f1
from tagtrace.reproduce.loop.loop_tables import ERRING, LOOP, check, draw, headlines, table
from tagtrace.reproduce.loop.orders import order_places
from tagtrace.reproduce.loop.reviewers import Reviewer
from tagtrace.reproduce.loop.tasks import Task, read_task
from tagtrace.reproduce.loop.taught_review import TaughtState, calibration_error, taught_states, token_ap
from tagtrace.reproduce.shared.experiment import Experiment, SeedResult, encoder_name
from tagtrace.reproduce.shared.setting import Setting
from tagtrace.reproduce.shared.taggers import RECIPE, indexed, trained
from tagtrace.tagger import Tagger, TrainOptions

ORDERS = {
    "audit": "audit without teaching",
    "cleanlab": "cleanlab",
    "loss": "highest loss",
    "sentences": "random sentences",
}


@dataclass(frozen=True)
class LoopOptions:
    """See loop.toml."""

    tasks: list[str]
    other_tasks: list[str]
    size: int
    sizes: dict[str, int]
    other_size: int
    counts: list[int]
    most: int
    num_folds: int
    error_rate: float
    transformer: dict[str, Any]
    other: dict[str, Any]


def run(setting: Setting, seed: int) -> SeedResult:
    """All tasks with one seed; finished tasks are kept by their taggers and indexes."""
    options = setting.options("loop", LoopOptions)
    is_transformer = setting.encoder_spec.startswith("transformer:")
    changes = options.transformer if is_transformer else options.other
    names = options.tasks if is_transformer else options.other_tasks
    sizes = [
        options.sizes.get(name.partition("/")[0], options.size) if is_transformer else options.other_size
        for name in names
    ]
    if setting.jobs == 1:
        found = list(map(partial(_run_task, setting, options, changes, seed), names, sizes))
    else:
        quiet = replace(setting, report=_report, jobs=1)  # can be sent to the processes
        with ProcessPoolExecutor(setting.jobs, get_context("spawn")) as processes:
            found = list(processes.map(partial(_run_task, quiet, options, changes, seed), names, sizes))
    return {"options": asdict(options), "tasks": dict(zip(names, found, strict=True))}


def _run_task(
    setting: Setting, options: LoopOptions, changes: Mapping[str, Any], seed: int, name: str, size: int
) -> SeedResult:
    task = read_task(setting.data, name, seed, size)
    return TaskRun(setting, options, task, seed, changes).kept()


def _report(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class TaskRun:
    """One task with one seed."""

    setting: Setting
    options: LoopOptions
    task: Task
    seed: int
    changes: Mapping[str, Any]

    @property
    def name(self) -> str:
        return f"loop-{self.task.name.replace('/', '-')}-{self.seed}"

    def kept(self) -> SeedResult:
        """The result, from the file of an earlier run with the same options if there is one."""
        path, owner = self.setting.work / self.name / "result.json", [asdict(self.options), encoder_name(self.setting)]
        with suppress(OSError, ValueError, KeyError, TypeError):
            saved = json.loads(path.read_text("utf-8"))
            if saved["owner"] == owner:
                return saved["result"]
        result = self.run()
        write_json(path, {"owner": owner, "result": result})
        return result

    def run(self) -> SeedResult:
        task, setting = self.task, self.setting
        tagger = trained(setting, self.name, task.corpus, task.labels, self.seed, **self.changes)
        index = indexed(setting, self.name, tagger, task.corpus)
        setting.report(f"{self.name}: judges")
        opinions = self._opinions(index, tagger)
        setting.report(f"{self.name}: reviewing")
        believed = averaged(opinions)
        scores = suspicion(NumberedText(index), believed)
        findings = propose(index, believed, scores, self.options.most, doubts(opinions, believed, index))
        wrong = self._wrong(index)
        f1 = self._f1(index, tagger)
        given, true = list(task.corpus.sentences), list(task.true)
        outside = 1.0 - opinions[-1].marginals.gather(1, index.label_ids.unsqueeze(1)).squeeze(1).double()
        found: SeedResult = {
            "num_tokens": index.num_tokens, "num_wrong": int(wrong.sum()), "num_findings": len(findings),
            "ap": {"combined": average_precision(scores, wrong), "self-confidence": average_precision(outside, wrong)},
            "f1": {"noisy": f1(given), "true": f1(true)},
            "contenders": {},
        }  # fmt: skip
        features, openings = finding_features(index, findings), first_tokens(given)
        for who, rate in ((LOOP, 0.0), (ERRING, self.options.error_rate)):
            states = taught_states(
                given, findings, self._reviewer(rate), self.options.counts, seed=self.seed, openings=openings,
                features=features,
            )  # fmt: skip
            trains = f1 if who == LOOP else None  # trainings take longest
            found["contenders"][who] = [self._taught(one, index, scores, wrong, trains) for one in states]
        for order, who in ORDERS.items():
            places = order_places(order, index, opinions, 4 * max(self.options.counts), self.seed)
            states = follow(given, places, self._reviewer(0.0), self.options.counts)
            found["contenders"][who] = [
                {"left": one.num_wrong, "read": one.num_read, "f1": f1(one.sentences)} for one in states
            ]
        return found

    def _opinions(self, index: Index, tagger: Tagger) -> list[Probabilities]:
        if not tagger.encoder.trainable:
            return head_opinions(index, None, self.options.num_folds, self.seed, device=self.setting.device)
        folder = self.setting.work / self.name / "folds"
        return encoder_opinions(tagger, self.task.corpus, folder, (), self.options.num_folds, self.seed)

    def _wrong(self, index: Index) -> torch.Tensor:
        """Whether the given label of each token is wrong, (N,)."""
        labels = [label for one in self.task.true if len(one) for label in index.labels.encode(one.labels)]
        return torch.tensor(labels) != index.label_ids

    def _reviewer(self, error_rate: float) -> Reviewer:
        return Reviewer(self.task.true, self.task.labels.types, error_rate, self.seed)

    def _f1(self, index: Index, tagger: Tagger) -> Callable[..., float | None]:
        """Segment F1 in percent after training on sentences, and then briefly on ``trusted`` ones.

        None for the latter if only the head is trained.
        """
        if not tagger.encoder.trainable:
            refit = head_f1(index, tagger, self.task.test)
            return lambda sentences, trusted=None: 100 * refit(sentences) if trusted is None else None
        recipe = RECIPE if tagger.encoder.kind == "transformer" else TrainOptions(keep="last")
        encoder, recipe = self.setting.encoder_spec, replace(recipe, **self.changes)
        train = whole_f1(encoder, self.task.labels, self.task.test, recipe, self.seed)
        return lambda sentences, trusted=(): 100 * train(sentences, trusted)

    def _taught(
        self,
        one: TaughtState,
        index: Index,
        scores: torch.Tensor,
        wrong: torch.Tensor,
        f1: Callable[..., float | None] | None,
    ) -> SeedResult:
        fixed, trusted, given = one.fixed(), one.trusted(), list(self.task.corpus.sentences)
        found: SeedResult = {
            "left_by_decisions": one.state.num_wrong,
            "read": one.state.num_read,
            "left": num_wrong(fixed, self.task.true),
            "auto": {"labels": one.auto.num_labels, "fixed": one.auto.num_fixed, "broken": one.auto.num_broken},
            "estimate": [one.left.count, one.left.margin],
            "ap": token_ap(one, scores, index.starts, wrong),
            "calibration_error": calibration_error(one, self.task.true),
        }
        if f1 is None:
            return found
        ends = {"f1_fixed_then_trusted": f1(fixed, trusted), "f1_noisy_then_trusted": f1(given, trusted)}
        return {**found, "f1": f1(fixed), **ends}


def num_wrong(sentences: Sequence[Sentence], true: Sequence[Sentence]) -> int:
    """The number of tokens with another label than the true one."""
    pairs = zip(sentences, true, strict=True)
    return sum(a != b for one, right in pairs for a, b in zip(one.labels, right.labels, strict=True))


EXPERIMENT = Experiment(
    "loop", "not in the paper: a reviewer whose decisions teach", run, table, headlines, draw, check,
    default_encoder="lexical",
)  # fmt: skip
