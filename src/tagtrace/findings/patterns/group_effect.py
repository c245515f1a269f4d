"""The effect on trusted data of fixing findings together: predicted by group influence, verified by retraining.

With N training sentences, theta the optimum of J and H its Hessian there, relabelling a group of segments moves the
optimum approximately by

    d = -H^-1 g,   g = (1/N) sum over the edited sentences of (grad L_i(new labels) - grad L_i(labels given))

H does not depend on labels, so d is the first Newton step of retraining. The step of a large group may overshoot: it is
halved until the objective with the new labels falls. *Predicted* is the exact loss of the trusted sentences after that
step, *verified* that at the optimum of the objective with the new labels (``Retrainer``). The loss is the mean joint
loss -log p(gold labels | x) of a trusted sentence; the number of trusted tokens that are predicted wrongly is reported
with it. Both changes have an interval by the paired bootstrap over trusted documents: with n_d the number of times that
document d was drawn, the change of the loss is sum_d n_d (sum of changes in d) / sum_d n_d (sentences in d).

Trusted sentences may be judged in parts, each with edits of its own (``cross_fit``): then the fits are those of all
parts together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from tagtrace._checks import DataError, OptionError
from tagtrace._documents import Document
from tagtrace.findings.finding import Finding
from tagtrace.findings.gains.bootstrap import LEVEL, draw_weights
from tagtrace.findings.judges.folds import document_numbers
from tagtrace.findings.judges.probabilities import MAX_TOKENS
from tagtrace.index import Index
from tagtrace.influence import Edit, Explainer
from tagtrace.influence.edits.what_if import check_edits
from tagtrace.tagger import Rows, crf
from tagtrace.tagger.head import Head
from tagtrace.tagger.rows import pad_rows

SAMPLES = 1000
"""Number of bootstrap resamples."""
MIN_DOCUMENTS = 6
"""An interval from fewer trusted documents is not trusted: that all change in one direction is not rare enough."""

Interval = tuple[float, float]
"""The middle 95 % of a change over resamples of the trusted documents."""


@dataclass(frozen=True, slots=True)
class TrustedFit:
    """How well a head fits trusted sentences."""

    loss: float
    """The mean joint loss of a sentence."""
    num_wrong: int
    """Number of tokens that are predicted wrongly."""


@dataclass(frozen=True, slots=True)
class GroupEffect(Document):
    """The fit of trusted data before and after a group of edits; a loss may be infinite."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"strict": True, "extra": "ignore", "allow_inf_nan": True}

    num_edits: int
    num_sentences: int
    """Number of trusted sentences."""
    num_tokens: int
    """Number of trusted tokens."""
    before: TrustedFit
    predicted: TrustedFit
    verified: TrustedFit | None = None
    """After exact retraining, if it was asked for."""
    num_documents: int = 0
    """Number of trusted documents (of sentences, if they have none)."""
    loss_interval: Interval | None = None
    """Of the change of the loss."""
    wrong_interval: Interval | None = None
    """Of the change of the number of tokens that are predicted wrongly."""

    @property
    def after(self) -> TrustedFit:
        """The verified fit, or else the predicted one."""
        return self.verified or self.predicted

    @property
    def change(self) -> float:
        """Change of the loss; below 0 if the edits help."""
        return self.after.loss - self.before.loss

    @property
    def verdict(self) -> str:
        """``helps`` or ``hurts`` if all of the interval says so, otherwise ``no clear difference``."""
        low, high = self.loss_interval or (-np.inf, np.inf)
        if self.num_documents >= MIN_DOCUMENTS and (high < 0 or low > 0):
            return "helps" if high < 0 else "hurts"
        return "no clear difference"

    def to_json(self) -> dict[str, Any]:
        intervals = {"loss_interval": self.loss_interval, "wrong_interval": self.wrong_interval}
        lists = {name: value and list(value) for name, value in intervals.items()}
        return {**asdict(self), **lists, "verdict": self.verdict}


@dataclass(frozen=True)
class TrustedPart:
    """Trusted sentences, and the edits whose effect on them is measured."""

    rows: Rows
    documents: Tensor
    """The number of each sentence's document, (B,)."""
    edits: Sequence[Edit]


def group_effect(
    explainer: Explainer,
    trusted_rows: Rows,
    edits: Sequence[Edit],
    verify: bool = False,
    documents: Sequence[str] = (),
) -> GroupEffect:
    """The effect of all ``edits`` together on trusted sentences with features and gold labels ``trusted_rows``.

    ``documents`` has the name of each trusted sentence's document. Raises OptionError if edits overlap or have labels
    that the tagger's constraints forbid.
    """
    numbers = document_numbers(documents or [""] * len(trusted_rows.lengths))
    return joint_effect(explainer, [TrustedPart(trusted_rows, numbers, edits)], verify)


def joint_effect(explainer: Explainer, parts: Sequence[TrustedPart], verify: bool = False) -> GroupEffect:
    """The effect on trusted sentences in parts, each of the edits of its own part."""
    if not any(len(part.rows.lengths) for part in parts):
        raise DataError("there are no trusted sentences to measure an effect on; give at least one")
    if not any(part.edits for part in parts):
        raise OptionError("there are no edits to measure the effect of; give at least one finding")
    stages = [_stages(explainer, part, verify) for part in parts]
    before, predicted, *verified = (torch.cat(fits, 1) for fits in zip(*stages, strict=True))  # (2, B) each
    changes = (verified or [predicted])[0] - before
    documents = torch.cat([part.documents for part in parts])
    loss_interval, wrong_interval = _intervals(changes, documents)
    return GroupEffect(
        len({edit for part in parts for edit in part.edits}),
        before.shape[1],
        sum(len(part.rows.labels) for part in parts),
        _fit(before),
        _fit(predicted),
        _fit(verified[0]) if verified else None,
        len(documents.unique()),
        loss_interval,
        wrong_interval,
    )


def _stages(explainer: Explainer, part: TrustedPart, verify: bool) -> list[Tensor]:
    """The fit of each sentence before the edits, as predicted and, if it is asked for, as verified; (2, B) each."""
    head = explainer.optimum
    before = sentence_fits(head, part.rows)
    if not part.edits:
        return [before] * (3 if verify else 2)
    check_edits(part.edits, head, explainer.rows)
    moved = [explainer.retrainer.first_step(part.edits)]
    moved += [explainer.retrainer.retrain(part.edits).theta] if verify else []
    return [before, *(sentence_fits(head.at(theta), part.rows) for theta in moved)]


def _intervals(changes: Tensor, documents: Tensor) -> tuple[Interval, Interval]:
    """Of the mean change of the loss and of the change of wrong tokens, from the changes of each sentence (2, B)."""
    _, place = documents.unique(return_inverse=True)
    per_document = torch.zeros(3, int(place.max()) + 1, dtype=torch.float64)  # loss, wrong tokens, sentences
    per_document.index_add_(1, place, torch.cat([changes.double(), torch.ones(1, len(place), dtype=torch.float64)]))
    weights = draw_weights(per_document.shape[1], SAMPLES, np.random.default_rng(0))  # (R, U)
    loss, wrong, count = per_document.numpy() @ weights.T
    tail = 50 * (1 - LEVEL)
    (low, high), (fewest, most) = (np.percentile(values, [tail, 100 - tail]) for values in (loss / count, wrong))
    return (float(low), float(high)), (float(fewest), float(most))


def _fit(fits: Tensor) -> TrustedFit:
    return TrustedFit(float(fits[0].mean()), int(fits[1].sum()))


def trusted_fit(head: Head, rows: Rows) -> TrustedFit:
    """The mean joint loss of the sentences of ``rows``, and the tokens that ``head`` gets wrong."""
    return _fit(sentence_fits(head, rows))


@torch.no_grad()
def sentence_fits(head: Head, rows: Rows) -> Tensor:
    """The joint loss of each sentence and the number of its tokens that ``head`` gets wrong, (2, B)."""
    found: list[Tensor] = []
    for chunk in rows.chunks(MAX_TOKENS):
        features = chunk.features.to(head.weight)
        losses = crf.joint_loss(head(features, chunk.lengths), pad_rows(chunk.labels, chunk.lengths))
        predicted = torch.tensor([label for path in head.decode(features, chunk.lengths) for label in path])
        is_wrong = (predicted != chunk.labels.cpu()).double().split(chunk.lengths.tolist())
        found.append(torch.stack([losses.double().cpu(), torch.stack([some.sum() for some in is_wrong])]))
    return torch.cat(found, 1)


def pattern_edits(index: Index, findings: Sequence[Finding]) -> list[Edit]:
    """The edits that fix all ``findings``: their proposed labels in place of the given ones.

    Raises OptionError if two findings overlap, or if the new labels are not well formed.
    """
    edits = [
        Edit(one.sentence_number, one.start, one.stop, tuple(index.labels.encode(one.proposed))) for one in findings
    ]
    owners: dict[tuple[int, int], int] = {}
    labels: dict[int, list[int]] = {}
    for one, edit in zip(findings, edits, strict=True):
        check_place(index, one)
        for t in range(one.start, one.stop):
            if (other := owners.get((one.sentence_number, t))) is not None:
                raise OptionError(f"findings {other} and {one.rank} overlap in sentence {one.sentence}; fix only one")
            owners[one.sentence_number, t] = one.rank
        whole = labels.setdefault(one.sentence_number, index.sentence_rows(one.sentence_number).labels.tolist())
        whole[one.start : one.stop] = edit.labels or ()
    for one in findings:
        _check_spelling(index, one, labels[one.sentence_number])
    return edits


def check_place(index: Index, finding: Finding) -> None:
    """Raise DataError unless the index has the given labels of a finding at its place."""
    found: tuple[str, ...] = ()
    if (
        0 <= finding.sentence_number < index.num_sentences
        and 0 <= finding.start < finding.stop <= index.lengths[finding.sentence_number]
    ):
        labels = index.sentence_rows(finding.sentence_number).labels[finding.start : finding.stop]
        found = index.labels.decode(labels.tolist())
    if found != finding.given or len(finding.proposed) != len(finding.given):
        raise DataError(
            f"finding {finding.rank}: {index.folder} does not have its labels at {finding.start}:{finding.stop} of "
            f"sentence {finding.sentence}; give the index that was audited"
        )


def _check_spelling(index: Index, finding: Finding, labels: Sequence[int]) -> None:
    """Raise if a label in the finding, or right after it, cannot follow the one before it."""
    start, transitions = index.labels.forbidden_start(), index.labels.forbidden_transitions()
    for t in range(finding.start, min(finding.stop + 1, len(labels))):
        if transitions[labels[t - 1], labels[t]] if t else start[labels[t]]:
            after = f"after {index.labels.labels[labels[t - 1]]}" if t else "at the start"
            raise OptionError(
                f"finding {finding.rank}: {index.labels.labels[labels[t]]} is not possible {after} (token {t} of "
                f"sentence {finding.sentence}); leave the finding out, or propose labels for the whole segment"
            )
