"""Predictors of what training on a subset does: the influence of each sentence or entity on each query.

- ``head, identity``, ``head, exact``: the head's gradients, without curvature and with the exact Hessian, on the tagger
  trained to the end with its head refitted, as an index stores it; ``head, early`` with the exact Hessian on a tagger
  trained for a quarter of its epochs, head refitted;
- ``whole tagger``: the gradients of all layers on such early taggers (``WholeInfluence``), one of them or averaged; and
  one without curvature, without embeddings, or after all epochs;
- other libraries, for sentences only (``lds_peers``).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from shutil import rmtree

import torch
from torch import Tensor

from tagtrace.index import build_index
from tagtrace.index.index import Index
from tagtrace.influence import Query, Screen, WholeInfluence, find_candidates, make_query
from tagtrace.influence.edits.edit_pool import relabel_effects
from tagtrace.influence.whole.gradient_kernel import sentence_kernel
from tagtrace.influence.whole.slopes import SegmentLosses
from tagtrace.influence.whole.stored import FOLDER, build_whole
from tagtrace.influence.whole.weights import layers_of
from tagtrace.influence.whole.whole import EarlyTagger, mean_scores
from tagtrace.reproduce.shared.device_curvature import DeviceCurvature
from tagtrace.reproduce.shared.setting import Setting
from tagtrace.reproduce.shared.taggers import indexed, with_index_head
from tagtrace.reproduce.whole_tagger.lds_peers import peer_scores
from tagtrace.reproduce.whole_tagger.lds_subsets import Draw, Kind
from tagtrace.tagger import Tagger
from tagtrace.tagger.encoders.base import Table
from tagtrace.tagger.recipe import recorded_recipe

Scores = dict[Kind, dict[str, Tensor]]
"""By kind and predictor, (Q, units): positive if without the unit, or with it changed, the query's loss should rise."""


@dataclass(frozen=True)
class Predictors:
    """Everything that predicts one draw."""

    setting: Setting
    name: str
    tagger: Tagger
    draw: Draw
    kinds: Sequence[Kind]
    segment_queries: Tensor
    """Numbers of the queries that are asked about segments."""

    def run(self, num_early: int) -> tuple[Scores, dict[str, float]]:
        """The scores, and what the whole tagger's cost, in seconds."""
        found: Scores = {kind: {} for kind in self.kinds}
        index = indexed(self.setting, self.name, self.tagger, self.draw.train)
        self._add_head(found, self.tagger, index, {"head, identity": False, "head, exact": True})
        self.setting.report("influence through the whole tagger")
        start = time.monotonic()
        rmtree(index.folder / FOLDER, ignore_errors=True)  # its cost is measured
        whole = build_whole(index, num_early, tagger=self.tagger, device=self.setting.device)
        cost = {"build": time.monotonic() - start}
        early = whole.members[0].tagger
        folder = self.setting.work / self.name / "early"
        self._add_head(found, early, build_index(early, self.draw.train, folder, overwrite=True), {"head, early": True})
        queries = self._queries(self.tagger)
        cost |= self._add_whole(found, whole, queries)
        if "sentences" in self.kinds:
            asked = self.draw.asked
            found["sentences"] |= peer_scores(
                self.tagger, self.draw.train.sentences, asked.sentences, asked.segments, self.setting.report
            )
        return found, cost

    def _queries(self, tagger: Tagger) -> list[Query]:
        sentences, places = self.draw.asked.sentences, self.draw.asked.segments.tolist()
        return [make_query(tagger, sentences[i], start, stop, "gold") for i, start, stop in places]

    def _add_head(self, found: Scores, tagger: Tagger, index: Index, names: dict[str, bool]) -> None:
        """Influence on the head of an index, with the exact Hessian or without curvature."""
        self.setting.report(f"influence on the head: {', '.join(names)}")
        queries = self._queries(with_index_head(tagger, index))
        gradients = torch.stack([query.gradient(index.head) for query in queries])  # (Q, P)
        for name, is_exact in names.items():
            moved = gradients
            if is_exact:
                moved = DeviceCurvature(index, self.setting.device, "dense").solve(gradients).cpu()
            for kind in self.kinds:
                found[kind][name] = self._head_scores(index, kind, moved)

    def _head_scores(self, index: Index, kind: Kind, directions: Tensor) -> Tensor:
        """For directions (Q, P), the effects on all queries, or on those that are asked about segments."""
        if kind == "sentences":
            every = find_candidates(index, "sentence").segments
            return Screen(index.head, index.rows, every).influence(directions)
        entities, some = self.draw.entities, directions[self.segment_queries]
        if kind == "hidden":
            return Screen(index.head, index.rows, entities).influence(some)
        labels = self.draw.new_labels()
        return torch.stack([relabel_effects(index.head, index.rows, entities, labels, one) for one in some])

    def _add_whole(self, found: Scores, whole: WholeInfluence, queries: Sequence[Query]) -> dict[str, float]:
        """Scores of each early tagger; the cost of the first query, and of all of them."""
        start = time.monotonic()
        whole.sentence_scores(queries[:1])
        cost = {"query": time.monotonic() - start}
        count, cost["tokens"] = len(whole.members), self._token_cost(whole, queries)
        if "sentences" in self.kinds:
            each = [member.sentence_scores(queries) for member in whole.members]
            found["sentences"] |= _one_and_mean(each)
            found["sentences"] |= self._without_parts(whole.members[0], queries)
        if "hidden" in self.kinds or "relabelled" in self.kinds:
            some = [queries[i] for i in self.segment_queries.tolist()]
            asked = SegmentLosses(self.draw.entities), SegmentLosses(self.draw.entities, self.draw.new_labels())
            both = [member.scores(some, *asked).chunk(2, 1) for member in whole.members]
            parts: dict[Kind, list[Tensor]] = {
                "hidden": [given for given, _ in both],
                "relabelled": [given - other for given, other in both],
            }
            for kind, each in parts.items():
                if kind in self.kinds:
                    found[kind] |= _one_and_mean(each)
        return {key: round(value, 3) for key, value in cost.items()} | {"num_early": count}

    def _without_parts(self, member: EarlyTagger, queries: Sequence[Query]) -> dict[str, Tensor]:
        """The scores of one early tagger without one of its parts."""
        options, tagger, examples = recorded_recipe(self.tagger), member.tagger, member.examples
        tables = [f"{name}.weight" for name, layer in layers_of(tagger).items() if isinstance(layer, Table)]
        each = {
            "without curvature": replace(member, has_curvature=False),
            "without embeddings": replace(member, kernel=sentence_kernel(tagger, examples, options, left_out=tables)),
            "after all epochs": EarlyTagger(self.tagger, examples, sentence_kernel(self.tagger, examples, options)),
        }
        return {f"whole tagger, one seed, {name}": one.sentence_scores(queries) for name, one in each.items()}

    def _token_cost(self, whole: WholeInfluence, queries: Sequence[Query]) -> float:
        """Seconds for the scores of all training tokens for one query."""
        lengths = [len(sentence) for sentence in self.draw.train.sentences]
        tokens = torch.tensor([[i, t, t + 1] for i, length in enumerate(lengths) for t in range(length)])
        start = time.monotonic()
        whole.segment_scores(queries[:1], tokens)
        return time.monotonic() - start


def _one_and_mean(each: Sequence[Tensor]) -> dict[str, Tensor]:
    return {"whole tagger, one seed": each[0], f"whole tagger, mean of {len(each)}": mean_scores(each)}
