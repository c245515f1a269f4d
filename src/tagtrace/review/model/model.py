"""Explanations and what-ifs of one prediction, as JSON values for the page."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from tagtrace._checks import OptionError, TagtraceError
from tagtrace._progress import Progress
from tagtrace.findings.patterns.group_effect import pattern_edits
from tagtrace.index import Index
from tagtrace.influence import (
    Edit,
    Effect,
    Explanation,
    Query,
    RetrainOptions,
    Score,
    SegmentKind,
    TrainingSegment,
    make_edit,
    make_query,
)
from tagtrace.influence.curvature.choice import Curvature
from tagtrace.influence.curvature.inverse_file import load_inverse
from tagtrace.influence.edits.seed_effects import retrain_effects, usual_processes
from tagtrace.influence.edits.what_if import check_edits
from tagtrace.influence.scoring.scorer import SHORTLIST
from tagtrace.influence.whole.stored import has_whole
from tagtrace.review.decisions.decide import Decisions, NotFoundError
from tagtrace.review.decisions.ledger import Ledger
from tagtrace.review.model.explainers import Explainers
from tagtrace.review.model.jobs import step_back
from tagtrace.review.model.listings import place_json
from tagtrace.review.model.mispredictions import HeldOut
from tagtrace.tagger import Tagger
from tagtrace.tagger.recipe import Recipe
from tagtrace.tagger.retrainings import expected_seconds

Origin = Literal["dev", "train"]

SCORES: tuple[Score, ...] = get_args(Score)
CURVATURES: tuple[Curvature, ...] = get_args(Curvature)
KINDS: tuple[SegmentKind, ...] = get_args(SegmentKind)
QUICK_WORK = 2e10
"""Maximum number of multiply-adds of an explanation by default."""
SOON_WORK = 2e11
"""Approximate maximum number of multiply-adds for the Hessian before the first explanation."""
MIN_SHOWN = 0.0005
"""Labels with a smaller probability are not shown, except for the ``NUM_SHOWN`` most probable ones."""
NUM_SHOWN = 3
NUM_SEEDS = 3
"""Trainings with the edits, and without, of ``retrain``."""
MAX_KNOWN = 100
"""Maximum number of explanations by ``whole`` that are kept."""
MAX_TOP = 200
"""Maximum number of supporters, and of opposers."""


class Model:
    """The tagger and the index of a project."""

    index: Index
    tagger: Tagger
    decisions: Decisions
    held: HeldOut | None
    explainers: Explainers

    def __init__(
        self,
        index: Index,
        tagger: Tagger,
        decisions: Decisions,
        held: HeldOut | None = None,
        device: str | torch.device = "cpu",
    ) -> None:
        self.index, self.tagger, self.decisions, self.held = index, tagger, decisions, held
        self.explainers = Explainers(index, device)
        self._known: dict[object, Explanation] = {}
        self.questions = 0
        """How many explanations were asked to be prepared: only the last one is still wanted."""
        self._encoding = threading.Lock()
        self._thread = threading.Thread(target=self._work, name="predictions")
        self._is_stopped = False

    def start(self) -> None:
        """Predict the held-out data and prepare the default explanations, in a thread of its own."""
        _ = self.defaults  # so that no request has to compute it
        self._thread.start()

    def stop(self) -> None:
        """Start no more work in that thread."""
        self._is_stopped = True
        if self.held is not None:
            self.held.is_stopped = True

    @property
    def is_busy(self) -> bool:
        """Whether that thread is running."""
        return self._thread.is_alive()

    def _work(self) -> None:
        step_back()
        if self.held is not None:
            self.held.work()
        with suppress(TagtraceError, OSError):  # so that the first explanation of the user is fast too
            for curvature, score in (("identity", "cosine"), (self.defaults["curvature"], self.defaults["score"])):
                if not self._is_stopped:
                    self.prepare(curvature, score)

    @cached_property
    def defaults(self) -> dict[str, str]:
        """The default score and curvature.

        ``whole`` takes seconds and is computed by a job; the others answer within a second. ``relative`` with the exact
        Hessian needs P^2 multiply-adds for each segment on its shortlist, and N P^2 to prepare.
        """
        work = self.index.head.num_parameters**2
        is_quick = 2 * SHORTLIST * work <= QUICK_WORK
        is_exact = is_quick and (self.index.num_tokens * work <= SOON_WORK or load_inverse(self.index, 0.0) is not None)
        score: Score = "whole" if has_whole(self.index) else "relative"
        return {"score": score, "curvature": "auto" if is_exact else "kronecker"}

    def ask(
        self, sentence: str, start: int, stop: int, target: str = "predicted", data: str | None = None
    ) -> tuple[Query, Origin]:
        """The query for a segment of the sentence with an id, and the data that it is from.

        Held-out sentences come first; ``data`` (``dev`` or ``train``) restricts the search.
        """
        if self.held is not None and data != "train" and sentence in self.held.number_of:
            held = self.held.sentences[self.held.number_of[sentence]]
            with self._encoding:
                return make_query(self.tagger, held, start, stop, target), "dev"
        number = self.decisions.data.number_of.get(sentence)
        if number is None or data == "dev":
            raise NotFoundError(f"no sentence has the id {sentence[:80]!r}; choose a prediction in the list of errors")
        features = self.index.sentence_rows(number, torch.float64).features
        train = self.decisions.data.sentences[number]
        return make_query(self.tagger, train, start, stop, target, features=features), "train"

    def why(
        self, query: Query, origin: Origin = "dev", score: str = "cosine", curvature: str = "identity",
        kind: str = "token", top: int = 20, *, wait: bool = True,
    ) -> dict[str, Any]:  # fmt: skip
        """The training segments that support and oppose the labels of a query.

        If the curvature is not ready and ``wait`` is false, the identity is used instead; for an answer by ``whole``
        that has not been computed yet, the cosine.
        """
        begin = time.perf_counter()
        if not 1 <= top <= MAX_TOP:
            raise OptionError(f"top is {top}; expected 1 to {MAX_TOP}")
        how, of, wanted = named(score, SCORES, "score"), named(kind, KINDS, "kind"), named_curvature(curvature)
        if how == "whole":
            found, used, is_ready = self._by_whole(query, of, top, wait=wait)
        else:
            is_ready = wait or self.explainers.is_ready(wanted, how, of)
            used: Curvature = wanted if is_ready else "identity"
            with self.explainers.of(used) as explainer:
                found = explainer.explain(query, how, of, top)
            self.explainers.made_ready(used, how, of)
        with self.decisions.reading() as ledger:
            sides = {name: [self._segment(ledger, one) for one in side] for name, side in found.sides().items()}
        return {
            "query": self._query_json(query, origin),
            **sides,
            "score": found.score,
            "curvature": used,
            "is_ready": is_ready,
            "is_what_if_ready": self.explainers.is_ready_for_edits,
            "seconds": time.perf_counter() - begin,
        }

    def _by_whole(
        self, query: Query, kind: SegmentKind, top: int, *, wait: bool
    ) -> tuple[Explanation, Curvature, bool]:
        """The explanation by ``whole``, kept for later, and whether it is that: if not, it is one by cosine."""
        sentence = query.sentence
        assert sentence is not None
        key = (sentence.id, sentence.tokens, query.start, query.stop, tuple(query.labels.tolist()), kind, top)
        found = self._known.get(key)
        if found is None and not wait:
            with self.explainers.of("identity") as explainer:
                return explainer.explain(query, "cosine", kind, top), "identity", False
        if found is None:
            with self.explainers.of("auto") as explainer:  # one thread at a time
                found = self._known.get(key) or explainer.explain(query, "whole", kind, top)
                self._known[key] = found
                while len(self._known) > MAX_KNOWN:
                    self._known.pop(next(iter(self._known)), None)
        return found, "auto", True

    def _segment(self, ledger: Ledger, one: TrainingSegment) -> dict[str, Any]:
        shown = {**place_json(ledger, (one.sentence_number, one.start, one.stop)), "score": one.score}
        if one.document is not None:
            shown["sentence_numbers"] = [one.sentence_number, *(number for number, _, _ in one.rest)]
        return shown

    def _query_json(self, query: Query, origin: Origin) -> dict[str, Any]:
        sentence, p = query.sentence, query.probabilities(self.index.head)  # (tokens, C)
        assert sentence is not None
        return {
            "sentence": sentence.id,
            "document": sentence.document,
            "origin": origin,
            "start": query.start,
            "stop": query.stop,
            "tokens": list(sentence.tokens),
            "gold": list(sentence.labels) if sentence.is_labelled else None,
            "predicted": list(query.predicted),
            "explained": list(self.index.labels.decode(query.explained)),
            "probabilities": self._probabilities(query, p, _shown(p, p)),
        }

    def _probabilities(self, query: Query, p: Tensor, shown: Sequence[Sequence[int]]) -> list[dict[str, Any]]:
        names = self.index.labels.labels
        return [
            {"token": query.start + t, "label": names[c], "p": float(p[t, c])}
            for t, chosen in enumerate(shown)
            for c in chosen
        ]

    def edits(self, wanted: Sequence[tuple[int, int, int, Sequence[str] | None]], pattern: int | None) -> list[Edit]:
        """Edits from the names of labels, and the edits that fix all findings of a pattern."""
        edits = [make_edit(self.index, *one) for one in wanted]
        if pattern is not None:
            findings = [one for one in self.decisions.data.findings if one.pattern == pattern]
            if not findings:
                raise NotFoundError(f"there is no pattern {pattern}; reload the page")
            edits += pattern_edits(self.index, findings)
        if not edits:
            raise OptionError("a what-if needs edits or a pattern; give at least one edit")
        return edits

    def what_if(
        self, query: Query, edits: Sequence[Edit], *, verify: bool = False, progress: Progress | None = None
    ) -> dict[str, Any]:
        """The query's label probabilities before and after edits, predicted or (``verify``) by exact retraining."""
        with self.explainers.of("auto", progress, edits=True) as explainer:
            answer = explainer.what_if(query, edits, "verify" if verify else "refine")
        return {**self._effect_json(query, answer.best), "edits": len(edits), "rung": answer.rung}

    def retrain(self, query: Query, edits: Sequence[Edit], progress: Progress | None = None) -> dict[str, Any]:
        """The same after the whole tagger was trained again, with the edits and without, means over seeds."""
        with self.explainers.of("auto", edits=True) as explainer:
            check_edits(edits, explainer.optimum, explainer.rows)
        report = None if progress is None else lambda step: progress(step.done, step.total)
        options = RetrainOptions(NUM_SEEDS, usual_processes(self.explainers.device), tagger=self.tagger)
        (found,) = retrain_effects(self.index, query, [edits], options, device=self.explainers.device, progress=report)
        return {
            **self._effect_json(query, found.mean),
            "edits": len(edits),
            "rung": "retrain",
            "num_seeds": NUM_SEEDS,
            "num_flips": found.num_flips,
            "interval": found.interval,
        }

    @cached_property
    def retrain_seconds(self) -> float | None:
        """How long ``retrain`` takes, about, one after the other; None if the tagger cannot be trained again."""
        try:
            each = expected_seconds(Recipe.of(self.tagger), self.decisions.data.sentences, self.explainers.device)
        except TagtraceError:
            return None
        return 2 * NUM_SEEDS * each

    def _effect_json(self, query: Query, found: Effect) -> dict[str, Any]:
        shown = _shown(found.probabilities_before, found.probabilities_after)
        return {
            "before": {"p": self._probabilities(query, found.probabilities_before, shown)},
            "after": {"p": self._probabilities(query, found.probabilities_after, shown)},
            "loss_before": found.before,
            "loss_after": found.after,
        }

    def prepare(
        self, curvature: str, score: str = "influence", kind: str = "token", progress: Progress | None = None
    ) -> dict[str, Any]:
        """Compute what explanations with this curvature and score need."""
        name, how, of = named_curvature(curvature), named(score, SCORES, "score"), named(kind, KINDS, "kind")
        query, _ = self.ask(self.decisions.data.sentences[0].id, 0, 1, data="train")
        with self.explainers.of("auto" if how == "whole" else name, progress) as explainer:
            if how == "whole":
                explainer.prepare("whole")
            elif not self.explainers.is_ready(name, how, of) or name == "identity":
                explainer.explain(query, how, of)
        self.explainers.made_ready(name, how, of)
        return {"curvature": name}

    def prepare_edits(self, progress: Progress | None = None) -> dict[str, Any]:
        """Compute what what-ifs need."""
        with self.explainers.of("auto", progress, edits=True) as explainer:
            explainer.prepare("influence", "refine")
            _ = explainer.refiner, explainer.retrainer
        return {"curvature": "auto"}


def named(name: str, known: tuple[str, ...], what: str) -> Any:
    """Return a name from a request, or raise an error if it is unknown."""
    if name not in known:
        raise OptionError(f"unknown {what} {name!r}; expected one of {', '.join(known)}")
    return name


def named_curvature(name: str) -> Curvature:
    return named("auto" if name == "hessian" else name, CURVATURES, "curvature")


def _shown(before: Tensor, after: Tensor) -> list[list[int]]:
    """The labels to show for each token, by falling probability before; the arguments are (tokens, C)."""
    found: list[list[int]] = []
    for first, second in zip(before, after, strict=True):
        order = first.argsort(descending=True).tolist()
        found.append([
            c for place, c in enumerate(order)
            if place < NUM_SHOWN or max(float(first[c]), float(second[c])) >= MIN_SHOWN
        ])  # fmt: skip
    return found
