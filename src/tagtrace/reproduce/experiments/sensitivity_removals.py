"""Removing groups of training sentences: the changes that influence on the head predicts, and the actual ones.

Some groups most support, or oppose, all queries or one of them, by the influence of whole sentences on the query's
conditional loss; others are random. For each group the *whole* tagger, including the encoder, is trained again without
it, by the same recipe with the same seed, and its head is refitted. The change of each query's loss is compared with

- ``first order``: the sum of g_q^T H^-1 g_i / N over the removed sentences i,
- ``head retrained``: the exact optimum of the head without them, on unchanged features,

and with the noise: the change when nothing is removed but another seed is used. (Removal shuffles the batches too.)
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tagtrace.data import Corpus, LabelSet, Sentence
from tagtrace.index import Index
from tagtrace.influence import Edit, Retrainer, Screen, find_candidates
from tagtrace.influence.curvature.solvers import Solver
from tagtrace.reproduce.shared.experiment import SeedResult
from tagtrace.reproduce.shared.setting import Setting
from tagtrace.reproduce.shared.taggers import trained
from tagtrace.tagger import Rows, Tagger, crf
from tagtrace.tagger.convex.objective import Objective
from tagtrace.tagger.convex.refit import RefitOptions, refit_head
from tagtrace.tagger.head import Head
from tagtrace.tagger.rows import pad_rows

PREDICTIONS = ("first order", "head retrained")


@dataclass(frozen=True)
class Sizes:
    """How many groups are removed, how large they are, and how many other seeds are trained."""

    num_groups: int
    group_size: int
    """Number of sentences in a group."""
    other_seeds: int


@dataclass(frozen=True)
class TokenQueries:
    """Q tokens of validation sentences."""

    sentences: list[Sentence]
    segments: Tensor
    """(sentence number in ``sentences``, start, stop), (Q, 3)."""

    @torch.no_grad()
    def losses(self, tagger: Tagger, head: Head) -> Tensor:
        """The conditional losses of the gold labels under the tagger's features and a head on the CPU, (Q,)."""
        rows = stored(tagger.rows(self.sentences))
        scores = head(rows.features.to(head.weight), rows.lengths)
        return crf.conditional_loss(scores, pad_rows(rows.labels, rows.lengths), self.segments).double()


def stored(rows: Rows) -> Rows:
    """The rows with features rounded as an index stores them."""
    return Rows(rows.features.half(), rows.labels, rows.lengths)


@dataclass(frozen=True)
class Trainer:
    """Trains the whole tagger repeatedly and keeps every tagger."""

    setting: Setting
    train: Corpus
    seed: int
    changes: dict[str, Any]

    def tagger(self, name: str, removed: Sequence[int] = (), seed: int | None = None) -> Tagger:
        """The tagger trained without the sentences ``removed``, or with another seed."""
        labels = LabelSet.from_sentences(self.train.sentences, "iob2")
        full, seed = f"sensitivity-{self.seed}-{name}", self.seed if seed is None else seed
        return trained(self.setting, full, self.rest(removed), labels, seed, "sentence", **self.changes)

    def rest(self, removed: Sequence[int]) -> Corpus:
        gone = set(removed)
        return self.train.with_sentences([s for number, s in enumerate(self.train.sentences) if number not in gone])

    def losses(
        self, asked: TokenQueries, l2: float, name: str, removed: Sequence[int] = (), seed: int | None = None
    ) -> Tensor:
        """The losses (Q,) under a tagger trained like this, with its head refitted to its training sentences."""
        tagger = self.tagger(name, removed, seed)
        rows = stored(tagger.rows(self.rest(removed).sentences)).to(tagger.device)
        return asked.losses(tagger, refit_head(tagger.head, rows, RefitOptions(l2)).head.cpu())


@dataclass(frozen=True)
class Group:
    """Training sentences that are removed together."""

    name: str
    """``supporters``, ``opposers`` or ``random``."""
    sentences: list[int]
    targets: list[int]
    """The queries for which the group was chosen."""


def choose_groups(influence: Tensor, count: int, size: int, seed: int) -> list[Group]:
    """Groups by the influence of whole sentences on the queries (Q, B): for all queries together, then one at a time.

    Each pair of supporters and opposers is followed by a random group. Influences are scaled to the same norm for every
    query before they are summed.
    """
    together = (influence / influence.norm(dim=1, keepdim=True).clamp(min=1e-300)).sum(0)
    choices = [(together, list(range(len(influence)))), *((row, [q]) for q, row in enumerate(influence))]
    drawn, groups = random.Random(seed), list[Group]()
    for scores, targets in choices:
        groups.append(Group("supporters", scores.topk(size).indices.tolist(), targets))
        groups.append(Group("opposers", (-scores).topk(size).indices.tolist(), targets))
        groups.append(Group("random", drawn.sample(range(influence.shape[1]), size), []))
    return groups[:count]


def remove_groups(
    trainer: Trainer, index: Index, asked: TokenQueries, moved: Tensor, solver: Solver, sizes: Sizes
) -> SeedResult:
    """Predicted and actual changes of the queries' losses (Q,) for each group; ``moved`` is H^-1 g, (Q, P)."""
    report, l2, device = trainer.setting.report, index.manifest.fit.l2, trainer.setting.device
    whole, tagger = find_candidates(index, "sentence"), trainer.tagger("whole")
    influence = Screen(index.head, index.rows, whole.segments).influence(moved.cpu())  # (Q, B)
    rows = index.rows.to(device)
    objective = Objective(deepcopy(index.head).to(device), rows, l2)
    retrainer = Retrainer(objective, rows, index.head.flat().to(device), solver)
    before = asked.losses(tagger, index.head)
    groups: list[SeedResult] = []
    for number, group in enumerate(choose_groups(influence, sizes.num_groups, sizes.group_size, trainer.seed)):
        report(f"group {number + 1} of {sizes.num_groups}: {group.name}")
        edits = [Edit(*whole.segments[sentence_number].tolist()) for sentence_number in group.sentences]
        head = index.head.at(retrainer.retrain(edits).theta.cpu())
        changes = {
            "first order": influence[:, group.sentences].sum(1),
            "head retrained": asked.losses(tagger, head) - before,
            "actual": trainer.losses(asked, l2, f"group-{number}", group.sentences) - before,
        }
        lists = {name: values.tolist() for name, values in changes.items()}
        groups.append({"name": group.name, "size": len(group.sentences), "targets": group.targets, **lists})
    noise: list[list[float]] = []
    for other in range(sizes.other_seeds):
        report(f"another seed, {other + 1} of {sizes.other_seeds}")
        after = trainer.losses(asked, l2, f"seed-{other}", seed=trainer.seed + 1000 * (other + 1))
        noise.append((after - before).tolist())
    return {"before": before.tolist(), "groups": groups, "other seeds": noise}
