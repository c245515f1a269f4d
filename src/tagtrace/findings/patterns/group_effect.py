"""The effect on trusted data of fixing findings together: predicted by group influence, verified by retraining.

With N training sentences, theta the optimum of J and H its Hessian there, relabelling a group of segments moves the
optimum approximately by

    d = -H^-1 g,   g = (1/N) sum over the edited sentences of (grad L_i(new labels) - grad L_i(labels given))

H does not depend on labels, so d is the first Newton step of retraining. The step of a large group may overshoot: it is
halved until the objective with the new labels falls. *Predicted* is the exact loss of the trusted sentences after that
step, *verified* that at the optimum of the objective with the new labels (``Retrainer``). The loss is the mean joint
loss -log p(gold labels | x) of a trusted sentence; the number of trusted tokens that are predicted wrongly is reported
with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from tagtrace._checks import DataError, OptionError
from tagtrace.findings.finding import Finding
from tagtrace.findings.judges.probabilities import MAX_TOKENS
from tagtrace.index import Index
from tagtrace.influence import Edit, Explainer
from tagtrace.influence.edits.what_if import check_edits
from tagtrace.tagger import Rows, crf
from tagtrace.tagger.head import Head
from tagtrace.tagger.rows import pad_rows


@dataclass(frozen=True, slots=True)
class TrustedFit:
    """How well a head fits trusted sentences."""

    loss: float
    """The mean joint loss of a sentence."""
    num_wrong: int
    """Number of tokens that are predicted wrongly."""


@dataclass(frozen=True, slots=True)
class GroupEffect:
    """The fit of trusted data before and after a group of edits."""

    num_edits: int
    num_sentences: int
    """Number of trusted sentences."""
    num_tokens: int
    """Number of trusted tokens."""
    before: TrustedFit
    predicted: TrustedFit
    verified: TrustedFit | None = None
    """After exact retraining, if it was asked for."""

    @property
    def after(self) -> TrustedFit:
        """The verified fit, or else the predicted one."""
        return self.verified or self.predicted

    @property
    def change(self) -> float:
        """Change of the loss; below 0 if the edits help."""
        return self.after.loss - self.before.loss

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> GroupEffect:
        """Read what ``to_json`` wrote."""
        fits = {name: TrustedFit(**record[name]) for name in ("before", "predicted", "verified") if record[name]}
        return cls(**{**record, **fits})


def group_effect(explainer: Explainer, trusted_rows: Rows, edits: Sequence[Edit], verify: bool = False) -> GroupEffect:
    """The effect of all ``edits`` together on trusted sentences with features and gold labels ``trusted_rows``.

    Raises OptionError if edits overlap or have labels that the tagger's constraints forbid.
    """
    if len(trusted_rows.lengths) == 0:
        raise DataError("there are no trusted sentences to measure an effect on; give at least one")
    if not edits:
        raise OptionError("there are no edits to measure the effect of; give at least one finding")
    check_edits(edits, explainer.optimum, explainer.rows)
    head = explainer.optimum
    verified = None
    if verify:
        verified = trusted_fit(head.at(explainer.retrainer.retrain(edits).theta), trusted_rows)
    return GroupEffect(
        len(edits),
        len(trusted_rows.lengths),
        len(trusted_rows.labels),
        trusted_fit(head, trusted_rows),
        trusted_fit(head.at(explainer.retrainer.first_step(edits)), trusted_rows),
        verified,
    )


@torch.no_grad()
def trusted_fit(head: Head, rows: Rows) -> TrustedFit:
    """The mean joint loss of the sentences of ``rows``, and the tokens that ``head`` gets wrong."""
    loss, num_wrong = 0.0, 0
    for chunk in rows.chunks(MAX_TOKENS):
        features = chunk.features.to(head.weight)
        loss += float(crf.joint_loss(head(features, chunk.lengths), pad_rows(chunk.labels, chunk.lengths)).sum())
        predicted = torch.tensor([label for path in head.decode(features, chunk.lengths) for label in path])
        num_wrong += int((predicted != chunk.labels.cpu()).sum())
    return TrustedFit(loss / len(rows.lengths), num_wrong)


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
