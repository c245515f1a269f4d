"""Why, and what if: answers about one prediction, ready for JSON."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any, get_args

import torch
from torch import Tensor

from tagtrace._checks import OptionError
from tagtrace.findings.group_effect import pattern_edits
from tagtrace.index import Index
from tagtrace.influence import Edit, Effect, Kind, Query, Ranked, Score
from tagtrace.influence.curvature import Curvature
from tagtrace.influence.effect import effect
from tagtrace.influence.supposing import check_edits
from tagtrace.review.asking import Asked, likeliest, make_query
from tagtrace.review.decisions import Decisions, NotFoundError
from tagtrace.review.errors import Held
from tagtrace.review.explainers import Explainers, SharedExplainer
from tagtrace.review.findings import place_json
from tagtrace.review.ledger import Ledger
from tagtrace.tagger import Tagger
from tagtrace.tagger.tagger import Progress

SCORES: tuple[str, ...] = get_args(Score)
CURVATURES: tuple[str, ...] = get_args(Curvature)
KINDS: tuple[str, ...] = get_args(Kind)
MIN_SHOWN = 0.0005
"""Labels less likely than this are left out, but for the likeliest few."""
NUM_SHOWN = 3
MAX_TOP = 200


class Model:
    """The tagger and the index behind a project."""

    def __init__(self, index: Index, tagger: Tagger, decisions: Decisions, held: Held | None = None) -> None:
        self.index, self.tagger, self.decisions, self.held = index, tagger, decisions, held
        self.explainers = Explainers(index)
        self._encoding = threading.Lock()

    def start(self) -> None:
        """Predict the held-out data and make ready for questions, in a thread of its own."""
        threading.Thread(target=self._work, daemon=True, name="predictions").start()

    def _work(self) -> None:
        if self.held is not None:
            self.held.work()
        asked = self.ask(self.decisions.texts.chains[0].id, "train")
        with self.explainers.of("identity") as explainer:  # the first question takes longer: not the user's
            explainer.explain(self.query(asked, 0, 1, "predicted"), "cosine")

    def ask(self, sentence: str, data: str | None = None) -> Asked:
        """The sentence with an id, of the held-out data first unless ``data`` is ``train``."""
        if self.held is not None and data != "train" and sentence in self.held.number_of:
            chain = self.held.chains[self.held.number_of[sentence]]
            with self._encoding, torch.no_grad():
                features = self.tagger.encode([self.tagger.prepare(chain.with_labels(()))]).double().cpu()
            return Asked(chain, features, self._predict(features), "dev")
        number = self.decisions.texts.chain_of.get(sentence)
        if number is None or data == "dev":
            raise NotFoundError(f"no sentence has the id {sentence[:80]!r}")
        features = self.index.chain(number, torch.float64).features
        return Asked(self.decisions.texts.chains[number], features, self._predict(features), "train")

    def _predict(self, features: Tensor) -> tuple[str, ...]:
        return likeliest(self.index.head, self.index.labels, features, torch.tensor([len(features)]))[0]

    def query(self, asked: Asked, start: int, stop: int, target: str) -> Query:
        return make_query(asked, self.index.labels, self.index.head, start, stop, target)

    def why(
        self, asked: Asked, query: Query, score: str = "cosine", curvature: str = "identity", kind: str = "token",
        top: int = 20,
    ) -> dict[str, Any]:  # fmt: skip
        """The training segments that support and oppose the labels of a query."""
        begin = time.perf_counter()
        for name, value, known in (("score", score, SCORES), ("kind", kind, KINDS)):
            if value not in known:
                raise OptionError(f"{name} {value!r}: expected one of {', '.join(known)}")
        if not 1 <= top <= MAX_TOP:
            raise OptionError(f"top {top}: expected 1 to {MAX_TOP}")
        with self.explainers.of(named_curvature(curvature)) as explainer:
            found = explainer.explain(query, score, kind, top)  # pyright: ignore[reportArgumentType]
        with self.decisions.reading() as ledger:
            sides = {
                "supporters": [self._segment(ledger, one) for one in found.supporters],
                "opposers": [self._segment(ledger, one) for one in found.opposers],
            }
        return {"query": self._query_json(asked, query), **sides, "seconds": time.perf_counter() - begin}

    def _segment(self, ledger: Ledger, one: Ranked) -> dict[str, Any]:
        shown = {**place_json(ledger, (one.chain, one.start, one.stop)), "score": one.score}
        if one.document is not None:
            shown["chains"] = [one.chain, *(chain for chain, _, _ in one.rest)]
        return shown

    def _query_json(self, asked: Asked, query: Query) -> dict[str, Any]:
        sentence, labels = asked.sentence, self.index.labels
        p = query.probabilities(self.index.head)  # (tokens, C)
        return {
            "sentence": sentence.id,
            "document": sentence.document,
            "origin": asked.origin,
            "start": query.start,
            "stop": query.stop,
            "tokens": list(sentence.tokens),
            "gold": list(sentence.labels) if sentence.is_labelled else None,
            "predicted": list(asked.predicted),
            "explained": list(labels.decode(query.labels[query.start : query.stop].tolist())),
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
        """Edits by name of the labels, and those that fix all findings of a pattern."""
        texts, labels = self.decisions.texts, self.index.labels
        edits = [
            Edit(chain, start, stop, None if new is None else tuple(labels.encode(new)))
            for chain, start, stop, new in wanted
        ]
        if pattern is not None:
            findings = [one for one in texts.findings if one.pattern == pattern]
            if not findings:
                raise NotFoundError(f"there is no pattern {pattern} with findings")
            edits += pattern_edits(self.index, findings)
        if not edits:
            raise OptionError("nothing to suppose: give edits or a pattern")
        return edits

    def what_if(
        self, query: Query, edits: Sequence[Edit], *, verify: bool = False, progress: Progress | None = None
    ) -> dict[str, Any]:
        """The query's label probabilities before and after edits, predicted or (``verify``) after exact retraining.

        Edits of so many sentences that refining them would cost more than retraining are predicted by one Newton step.
        """
        with self.explainers.of("auto", progress, edits=True) as explainer:
            check_edits(edits, explainer.optimum, explainer.rows)
            rung, found = _supposed(explainer, query, edits, verify)
        shown = _shown(found.probabilities_before, found.probabilities_after)
        return {
            "edits": len(edits),
            "before": {"p": self._probabilities(query, found.probabilities_before, shown)},
            "after": {"p": self._probabilities(query, found.probabilities_after, shown)},
            "loss_before": found.before,
            "loss_after": found.after,
            "rung": rung,
        }

    def prepare(self, curvature: str, *, edits: bool, progress: Progress | None = None) -> dict[str, Any]:
        """Work out a curvature, and with ``edits`` what suppositions need, before they are asked for."""
        name: Curvature = "auto" if edits else named_curvature(curvature)
        with self.explainers.of(name, progress, edits=edits) as explainer:
            explainer.prepare("influence", "refine" if edits else "screen")
            if edits:
                _ = explainer.refiner, explainer.retrainer
        return {"curvature": name}


def named_curvature(name: str) -> Curvature:
    """The curvature that a page names."""
    name = "auto" if name == "hessian" else name
    if name not in CURVATURES:
        raise OptionError(f"curvature {name!r}: expected one of {', '.join(CURVATURES)}")
    return name  # pyright: ignore[reportReturnType]


def _supposed(explainer: SharedExplainer, query: Query, edits: Sequence[Edit], verify: bool) -> tuple[str, Effect]:
    """The rung and the effect."""
    head = explainer.optimum
    if verify:
        return "verify", effect(query, head, head.at(explainer.retrainer.retrain(edits).theta))
    if explainer.refiner.can_refine(edits):
        return "refine", explainer.refiner.effects([edits], query)[0]
    return "step", effect(query, head, head.at(explainer.retrainer.first_step(edits)))


def _shown(before: Tensor, after: Tensor) -> list[list[int]]:
    """The labels to show of each token, by falling probability before, from (tokens, C) twice."""
    found: list[list[int]] = []
    for first, second in zip(before, after, strict=True):
        order = first.argsort(descending=True).tolist()
        found.append([
            c for place, c in enumerate(order)
            if place < NUM_SHOWN or max(float(first[c]), float(second[c])) >= MIN_SHOWN
        ])  # fmt: skip
    return found
