"""Explain: questions about predictions, answered from one index.

An ``Explainer`` finds the training segments that support and oppose a prediction (``explain``), estimates what happens
to it when training labels are edited (``what_if``), and finds a small set of edits that changes it (``flip``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor

from tagtrace._checks import OptionError, TrainingError, check_type
from tagtrace._progress import Progress
from tagtrace.index import Index, Shard
from tagtrace.index.shards import join_shards
from tagtrace.influence.curvature.choice import Curvature, index_solver, make_solver, resolve_curvature
from tagtrace.influence.curvature.operators import check_damping
from tagtrace.influence.curvature.solvers import Cholesky, Solver
from tagtrace.influence.edits.edit import Edit
from tagtrace.influence.edits.effect import effect
from tagtrace.influence.edits.flip import Flip, Flipper, FlipProgress, HowToEdit, WhatToEdit
from tagtrace.influence.edits.refine import Refiner
from tagtrace.influence.edits.retrain import Retrainer, settled
from tagtrace.influence.edits.seed_effects import RetrainOptions, retrain_effects, retrain_recipe
from tagtrace.influence.edits.what_if import WhatIf, check_edits
from tagtrace.influence.explanation import Explanation, Rung, TrainingSegment
from tagtrace.influence.options import check_at_least, check_choice
from tagtrace.influence.query import Query
from tagtrace.influence.scoring.candidates import Candidates, SegmentKind, find_candidates
from tagtrace.influence.scoring.filters import Filter
from tagtrace.influence.scoring.scorer import Score, Scorer
from tagtrace.influence.scoring.token_pass import TokenPass
from tagtrace.influence.sides import ranked_again, strongest
from tagtrace.influence.whole.flip_whole import WholeFlip
from tagtrace.influence.whole.slopes import SegmentLosses
from tagtrace.influence.whole.stored import has_whole, open_whole
from tagtrace.influence.whole.whole import WholeInfluence
from tagtrace.tagger.convex.objective import Objective
from tagtrace.tagger.convex.products import by_loops
from tagtrace.tagger.head import Head
from tagtrace.tagger.retrainings import RetrainingProgress, check_can_hide
from tagtrace.tagger.rows import RowParts
from tagtrace.tagger.tagger import pick_device

MAKE_QUERY = "make one with make_query or make_queries"
Retraining = Callable[[RetrainingProgress], None]
"""Called after each training of the whole tagger."""
POOL = 4
"""How many times as many segments are refined as are shown."""
EditRung = Literal["refine", "verify", "retrain"]
"""The rungs on which the effect of edits is computed."""


class Explainer:
    """Answers questions from one index. Each part is computed when it is first needed, and kept."""

    index: Index
    damping: float
    num_passes: int
    progress: Progress | None
    device: torch.device
    head: Head

    def __init__(
        self,
        index: Index,
        curvature: Curvature = "auto",
        damping: float = 0.0,
        num_passes: int = 3,
        progress: Progress | None = None,
        device: str | torch.device = "cpu",
    ) -> None:
        """``num_passes`` is how many passes over the training data refine makes at most, for all edits of a question.

        ``progress`` is called with the number of sentences that have gone into a dense Hessian, which takes longest.
        On a GPU (``device``) the features of the index are copied to it.
        """
        check_type("index", index, Index, "give open_index(folder)")
        resolve_curvature(curvature, index.head)
        check_damping(damping)
        check_at_least(0, num_passes=num_passes)
        self.index, self.damping, self.num_passes, self.progress = index, damping, num_passes, progress
        self.curvature: Curvature = curvature
        self.device = pick_device(device)
        self.head = deepcopy(index.head).to(self.device)
        self._scorers: dict[tuple[SegmentKind, int], Scorer] = {}
        self._asked: dict[int, SegmentLosses] = {}

    # Questions

    def explain(
        self,
        query: Query,
        score: Score | None = None,
        kind: SegmentKind = "token",
        top: int = 10,
        *,
        rung: Rung = "screen",
        max_length: int = 3,
        where: Filter | None = None,
        retrain: RetrainOptions | None = None,
        progress: Retraining | None = None,
    ) -> Explanation:
        """The strongest supporters and opposers of a query among all training segments of a kind.

        ``score`` is ``default_score`` unless it is named. ``screen`` scores every segment to first order. ``refine``
        also estimates what happens to the query without each of the strongest, for the head, and with the score
        ``influence`` ranks ``POOL`` times as many by that. ``verify`` also retrains the head without each of
        those shown, and ``retrain`` instead trains the whole tagger again without each (``retrain`` says how).
        ``where`` filters training segments; ``max_length`` is for the kind ``segment``.
        """
        check_type("query", query, Query, MAKE_QUERY)
        (found,) = self.explain_all(
            [query], score, kind, top, rung=rung, max_length=max_length, where=where, retrain=retrain, progress=progress
        )
        return found

    def explain_all(
        self,
        queries: Sequence[Query],
        score: Score | None = None,
        kind: SegmentKind = "token",
        top: int = 10,
        *,
        rung: Rung = "screen",
        max_length: int = 3,
        where: Filter | None = None,
        retrain: RetrainOptions | None = None,
        progress: Retraining | None = None,
    ) -> Iterator[Explanation]:
        """As ``explain`` for many queries, one after the other; their curvature systems are solved together."""
        check_choice("rung", rung, Rung)
        score = score or self.default_score
        check_choice("score", score, Score)
        check_at_least(1, top=top)
        if rung == "retrain":
            check_can_hide(retrain_recipe(self.index, retrain))
        scorer = self._scorer(kind, max_length)
        num_wanted = POOL * top if rung in ("refine", "verify") and score == "influence" else top
        for query, direction in zip(queries, self._directions(queries, score), strict=True):
            which = scorer.every
            if where is not None:
                which = which[where.keep(self.index, scorer.candidates, query)]
            if score == "whole":
                found = which, self._whole_scores(query, scorer.candidates)[which]
            else:
                found = scorer.score(query, score, which, num_wanted, direction)
            sides = self._sides(scorer.candidates, found, num_wanted)
            found = self._explanation(query, score, sides, len(which), top, rung)
            yield self._train_again(found, retrain, progress) if rung == "retrain" else found

    @property
    def default_score(self) -> Score:
        """The score that best foretells what training again does: ``whole`` if the index has it."""
        return "whole" if has_whole(self.index) else "influence"

    def _whole_scores(self, query: Query, candidates: Candidates) -> Tensor:
        """The scores of all candidates through the whole tagger, (K,)."""
        asked = self._asked.setdefault(id(candidates), SegmentLosses(candidates.segments))  # scorers keep candidates
        return candidates.total(self.whole.segment_scores([query], asked)[0])

    def _directions(self, queries: Sequence[Query], score: Score) -> Sequence[Tensor | None]:
        """K^-1 g of each query, (P,), if the score needs it."""
        if score not in ("influence", "relative") or not queries:
            return [None] * len(queries)
        gradients = by_loops(lambda: torch.stack([query.gradient(self.head) for query in queries]))
        return list(self.solver.solve(gradients).value)

    def _sides(self, candidates: Candidates, scored: tuple[Tensor, Tensor], top: int) -> list[list[TrainingSegment]]:
        """The strongest supporters and opposers."""
        which, values = scored
        return [
            [self._segment(candidates, *one) for one in strongest(values, which, top, sign)] for sign in (1.0, -1.0)
        ]

    def _explanation(
        self,
        query: Query,
        score: Score,
        sides: list[list[TrainingSegment]],
        num_candidates: int,
        top: int,
        rung: Rung,
    ) -> Explanation:
        notes: list[str] = []
        if rung in ("refine", "verify"):
            refined = self._refine_all(query, [*sides[0], *sides[1]])
            sides = [refined[: len(sides[0])], refined[len(sides[0]) :]]
            if score == "influence":
                sides = ranked_again(refined)
            sides = [[self._verify_if(query, one, rung == "verify", notes) for one in side[:top]] for side in sides]
        return Explanation(self.index, query, score, sides[0], sides[1], num_candidates, tuple(notes))

    def _train_again(
        self, found: Explanation, options: RetrainOptions | None, progress: Retraining | None
    ) -> Explanation:
        """The explanation with the effect of each segment on the whole tagger."""
        shown = [*found.supporters, *found.opposers]
        groups = [one.edits() for one in shown]
        effects = retrain_effects(self.index, found.query, groups, options, device=self.device, progress=progress)
        done = [replace(one, retrained=effect) for one, effect in zip(shown, effects, strict=True)]
        count = len(found.supporters)
        return replace(found, supporters=done[:count], opposers=done[count:])

    def refine(self, query: Query, segment: TrainingSegment) -> TrainingSegment:
        """The segment with an estimate of its effect on the query; unchanged if it is too long to refine."""
        return self._refine_all(query, [segment])[0]

    def verify(self, query: Query, segment: TrainingSegment) -> TrainingSegment:
        """The segment with its effect on the query after exact retraining."""
        moved = self.optimum.at(self.retrainer.retrain(segment.edits()).theta)
        return replace(segment, verified=effect(query, self.optimum, moved))

    def what_if(
        self,
        query: Query,
        edits: Edit | Sequence[Edit],
        rung: EditRung = "refine",
        *,
        retrain: RetrainOptions | None = None,
        progress: Retraining | None = None,
    ) -> WhatIf:
        """What happens to the query when all ``edits`` of training labels are made together.

        The effect is estimated by ``refine``, or by one Newton step (``step``) if the edits touch too many sentences
        for that; with the rung ``verify`` the head is also retrained. With ``retrain`` the whole tagger is trained
        again, with the edits and without, for several seeds: the only answer that is not about the head alone.
        """
        check_type("query", query, Query, MAKE_QUERY)
        check_choice("rung", rung, EditRung)
        edits = [edits] if isinstance(edits, Edit) else edits
        head = self.optimum
        check_edits(edits, head, self.rows)
        found = WhatIf(self.index, query, tuple(edits))
        if self.refiner.can_refine(edits):
            found.effects["refine"] = self.refiner.effects([edits], query)[0]
        else:
            found.effects["step"] = effect(query, head, head.at(self.retrainer.first_step(edits)))
        if rung == "verify":
            found.effects["verify"] = effect(query, head, head.at(self.retrainer.retrain(edits).theta))
        if rung == "retrain":
            (retrained,) = retrain_effects(self.index, query, [edits], retrain, device=self.device, progress=progress)
            found.effects["retrain"] = retrained.mean
            found = replace(found, retrained=retrained)
        return found

    def flip(
        self,
        query: Query,
        edit: HowToEdit = "remove",
        kind: WhatToEdit = "token",
        most: int = 100,
        to: str | Sequence[str] | None = None,
        max_retrainings: int = 100,
        progress: FlipProgress | None = None,
        *,
        retrain: RetrainOptions | None = None,
        retraining: Retraining | None = None,
    ) -> Flip:
        """A small set of at most ``most`` training labels whose edit changes the prediction, checked by retraining.

        The prediction is the most likely labelling of the query's segment given the labels around it. ``edit`` says
        whether labels are removed or changed into those they compete with, ``kind`` what is removed at once (ignored
        when relabelling), ``to`` what the prediction should become (by default, any other labels). With ``retrain``
        the edits are chosen by the score ``whole`` and checked by training the whole tagger again, not the head.
        """
        check_type("query", query, Query, MAKE_QUERY)
        if retrain is not None:
            asked = WholeFlip(self.index, self.whole, self.head, self.rows, retrain, self.device)
            return asked.flip(query, edit, kind, most, to, retraining)
        flipper = Flipper(self.index, self.refiner, self.retrainer)
        return flipper.flip(query, edit, kind, most, to, max_retrainings, progress)

    def prepare(self, score: Score | None = None, rung: Rung = "screen") -> None:
        """Compute now what questions with this score and rung need: the curvature, or the taggers of ``whole``."""
        score = score or self.default_score
        if score in ("influence", "relative"):
            _ = self.solver
        if score == "whole":
            _ = self.whole
        if rung in ("refine", "verify"):
            _ = self.exact

    # Steps of explain

    def _scorer(self, kind: SegmentKind, max_length: int) -> Scorer:
        key = (kind, max_length if kind == "segment" else 1)
        if key not in self._scorers:
            found = find_candidates(self.index, kind, max_length)
            self._scorers[key] = Scorer(self.index, found, self._passes, lambda: self.solver, lambda: self._kronecker)
        return self._scorers[key]

    def _segment(self, candidates: Candidates, number: int, score: float) -> TrainingSegment:
        (sentence_number, start, stop), *rest = candidates.parts(number)
        name = candidates.documents[number] if candidates.documents else None
        return TrainingSegment(sentence_number, start, stop, score, self.index, name, tuple(rest))

    def _refine_all(self, query: Query, segments: Sequence[TrainingSegment]) -> list[TrainingSegment]:
        """As ``refine``, for many segments at once."""
        if not segments:
            return []
        groups = [one.edits() for one in segments]
        fits = [self.refiner.can_refine(group) for group in groups]
        short = [group for group, fit in zip(groups, fits, strict=True) if fit]
        effects = iter(self.refiner.effects(short, query))
        return [replace(one, refined=next(effects)) if fit else one for one, fit in zip(segments, fits, strict=True)]

    def _verify_if(self, query: Query, segment: TrainingSegment, asked: bool, notes: list[str]) -> TrainingSegment:
        """The segment, verified if that was asked for or if it could not be refined; failures are added to notes."""
        if not asked and segment.effect is not None:
            return segment
        try:
            return self.verify(query, segment)
        except TrainingError as error:
            notes.append(f"{segment.place}: retraining did not converge: {error}")
            return segment

    # Parts, each computed when it is first needed

    @cached_property
    def shards(self) -> tuple[Shard, ...]:
        """The shards of the index, memory-mapped; on a GPU, all of them joined into one."""
        if self.device.type == "cpu":
            return self.index.shards
        return (join_shards([shard.to(self.device) for shard in self.index.shards]),)

    @cached_property
    def rows(self) -> RowParts:
        """Features and labels of all training sentences, as they are stored."""
        return RowParts(tuple(shard.rows() for shard in self.shards))

    @cached_property
    def objective(self) -> Objective:
        """J on the training data."""
        return Objective(self.head, self.rows, self.index.manifest.fit.l2)

    @cached_property
    def solver(self) -> Solver:
        """Solves with the chosen curvature, for first-order scores."""
        if self.damping == 0 and resolve_curvature(self.curvature, self.head) in ("dense", _exact_kind(self.head)):
            return self.exact
        return self._solver(self.curvature, self.damping)

    @cached_property
    def exact(self) -> Solver:
        """Solves with the Hessian, for refine and verify: inverted and stored in the index's folder, if it is small."""
        return self._solver(_exact_kind(self.head), 0.0)

    def _solver(self, curvature: Curvature, damping: float) -> Solver:
        found = index_solver(self.index, curvature, damping, lambda: self.objective, self.progress)
        return found.to(self.device) if isinstance(found, Cholesky) else found

    @cached_property
    def whole(self) -> WholeInfluence:
        """What the index stores for scores through the whole tagger."""
        return open_whole(self.index, self.device)

    @cached_property
    def optimum(self) -> Head:
        """The index's head with its gradient brought down to rounding: the head that edits are compared with.

        A refit leaves a small gradient of the mean loss; among very many sentences, that of one label is smaller still.
        """
        fit = self.index.manifest.fit
        if not fit.refit:
            raise OptionError(
                f"{self.index.folder}: its head is not at its optimum (max |gradient| {fit.max_gradient:.1e}), so the "
                "effect of edits cannot be computed; build the index with a refitted head"
            )
        return self.head.at(settled(self.objective, self.head.flat(), self.exact))

    @cached_property
    def refiner(self) -> Refiner:
        """Estimates the effect of edits."""
        return Refiner(self.optimum, self.rows, self.exact, self.objective, self.num_passes)

    @cached_property
    def retrainer(self) -> Retrainer:
        """Retrains the head with edits made."""
        return Retrainer(self.objective, self.rows, self.optimum.flat(), self.exact)

    @cached_property
    def _kronecker(self) -> Solver:
        """A curvature with cheap self-influences, to find the segments worth an exact one."""
        return make_solver("kronecker", self.objective, self.head, self.damping)

    @cached_property
    def _passes(self) -> list[TokenPass]:
        return [TokenPass(self.head, shard) for shard in self.shards]


def _exact_kind(head: Head) -> Curvature:
    """How the Hessian is solved with, without damping: ``dense`` or ``cg``."""
    return resolve_curvature("auto", head)
