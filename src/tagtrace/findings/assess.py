"""Assess: findings, patterns and the effect of fixing them, from the opinions of judges about the training labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from tagtrace._checks import DataError, OptionError, TagtraceError, TrainingError
from tagtrace._progress import Progress
from tagtrace.findings.finding import Finding
from tagtrace.findings.judges.opinions import averaged
from tagtrace.findings.judges.probabilities import Probabilities
from tagtrace.findings.options import TRUSTED_SCORES, AuditOptions
from tagtrace.findings.patterns.conditions import NumberedText
from tagtrace.findings.patterns.cross_fit import CrossFit
from tagtrace.findings.patterns.pattern import Pattern, find_patterns
from tagtrace.findings.ranking.evidence import Hurt, hurt_queries
from tagtrace.findings.ranking.proposals import propose
from tagtrace.findings.ranking.suspicion import mistaken_for, suspicion
from tagtrace.findings.ranking.token_scores import SCORERS, token_scores
from tagtrace.findings.ranking.trusted import Trusted, neighbour_scores, trusted_scores
from tagtrace.index import Index
from tagtrace.influence import Explainer

NUM_EVIDENCE = 500
"""Number of findings for which the trusted tokens that they hurt are computed."""
MAX_PARAMETERS = 8000
"""The exact Hessian of larger heads does not fit in memory: the effect of patterns is not computed for them."""


@dataclass(frozen=True)
class Assessment:
    """The ranked training labels, and what was found among them."""

    scores: Tensor
    """The score of every training token, (N,), higher = more suspicious."""
    believed: Tensor
    """The mean of the opinions, p(y_t = c | x), (N, C)."""
    findings: list[Finding]
    patterns: list[Pattern]
    hurt: dict[int, list[Hurt]] = field(default_factory=dict[int, list[Hurt]])
    """By rank of a finding, the trusted tokens that its labels hurt."""
    notes: list[str] = field(default_factory=list[str])
    """What could not be computed, and why."""


def assess(
    index: Index,
    opinions: Sequence[Probabilities],
    trusted: Trusted | None = None,
    options: AuditOptions | None = None,
    progress: Progress | None = None,
) -> Assessment:
    """Rank the labels of an index by ``opinions`` about them or, if the score says so, by their effect on ``trusted``.

    ``progress`` counts trusted tokens while these are scored, then patterns while their effect is computed.
    """
    options = options or AuditOptions()
    for opinion in opinions:
        opinion.check_index(index)
    check_request(index, trusted, options)
    believed, text = averaged(opinions), NumberedText(index)
    scores = _scores(text, opinions, believed, trusted, options, progress)
    findings = propose(index, believed, scores, options.most, doubts(opinions, believed, index))
    if options.query is not None:
        findings = _answers(index, findings, options.query)
    likely = [one for one in findings if one.is_likely]
    patterns, members = find_patterns(index, likely, options.num_patterns, text)
    owners = {one.rank: one.pattern for one in members}
    findings = [replace(one, pattern=owners.get(one.rank)) for one in findings]
    patterns, notes = _with_effects(text, patterns, trusted, options, progress)
    if trusted is None:
        notes.append("without trusted data, a mistake that is made throughout looks like the rule and is not found")
    hurt = {} if trusted is None else _hurt(index, trusted, findings[:NUM_EVIDENCE])
    return Assessment(scores, believed, findings, patterns, hurt, notes)


def check_request(index: Index, trusted: Trusted | None, options: AuditOptions) -> None:
    """Raise, before any work is done, if the request cannot be answered."""
    if options.score in (*TRUSTED_SCORES, "neighbour") and trusted is None:
        raise OptionError(f"score {options.score!r} needs trusted data; give some")
    if options.query is None:
        return
    if options.score not in ("combined", *TRUSTED_SCORES):
        raise OptionError(f"score {options.score!r} cannot answer a query; use combined or an influence score")
    index.labels.pair_masks(options.query)
    if trusted is not None and options.score in TRUSTED_SCORES:
        trusted.confused(index, options.query)


def _scores(
    text: NumberedText,
    opinions: Sequence[Probabilities],
    believed: Tensor,
    trusted: Trusted | None,
    options: AuditOptions,
    progress: Progress | None,
) -> Tensor:
    """The score of every token, (N,); minus infinity for tokens that a query rules out."""
    index = text.index
    if options.score == "combined":
        if options.query is None:
            return suspicion(text, believed)
        asked = mistaken_for(index, believed, options.query)
        return torch.where(asked > 0, asked, -torch.inf)
    if options.score in SCORERS:
        return token_scores(options.score, index, opinions[-1])
    assert trusted is not None
    if options.score == "neighbour":
        return neighbour_scores(index, trusted)
    asked_for = trusted if options.query is None else trusted.confused(index, options.query)
    method = TRUSTED_SCORES[options.score]
    explainer = Explainer(index, "auto" if method in ("curvature", "relative") else "identity")
    scores = trusted_scores(explainer, asked_for, method, progress=progress)  # pyright: ignore[reportArgumentType]
    if options.query is None:
        return scores
    _, predicted = map(torch.as_tensor, index.labels.pair_masks(options.query))
    return torch.where(predicted[torch.as_tensor(text.labels)], scores, -torch.inf)


def _answers(index: Index, findings: Sequence[Finding], query: str) -> list[Finding]:
    """The findings that propose GOLD for a token labelled PREDICTED, ranked again."""
    gold, predicted = index.labels.pair_masks(query)

    def answers(one: Finding) -> bool:
        pairs = zip(index.labels.encode(one.given), index.labels.encode(one.proposed), strict=True)
        return any(bool(predicted[given] & gold[proposed]) for given, proposed in pairs)

    kept = [one for one in findings if answers(one)]
    return [replace(one, rank=rank) for rank, one in enumerate(kept, start=1)]


def doubts(opinions: Sequence[Probabilities], believed: Tensor, index: Index) -> dict[str, Tensor]:
    """1 - p of the given label, (N,): by the mean opinion and by each opinion."""
    labels = index.label_ids.unsqueeze(1)
    doubts = {f"{one.sample} doubt": 1.0 - one.marginals.gather(1, labels).squeeze(1) for one in opinions}
    return {"doubt": 1.0 - believed.gather(1, labels).squeeze(1), **doubts}


def _with_effects(
    text: NumberedText,
    patterns: list[Pattern],
    trusted: Trusted | None,
    options: AuditOptions,
    progress: Progress | None,
) -> tuple[list[Pattern], list[str]]:
    """The patterns, the first of them with the effect of fixing them on trusted data, and notes on what failed."""
    index, first = text.index, patterns[: options.num_effects]
    if trusted is None or not first:
        return patterns, []
    if index.head.num_parameters > MAX_PARAMETERS:
        reason = f"the head has {index.head.num_parameters:,} parameters, more than {MAX_PARAMETERS:,}"
        return patterns, [f"the effect of fixing patterns was not computed: {reason}"]
    explainer, found, notes = Explainer(index), list[Pattern](), list[str]()
    crossed = CrossFit(text, trusted, options.most, options.seed)
    for number, pattern in enumerate(first, start=1):
        try:
            effect = crossed.effect(explainer, pattern, patterns[: number - 1])
            found.append(replace(pattern, effect=effect))
        except (TrainingError, OptionError, DataError) as error:
            found.append(pattern)
            notes.append(f"the effect of fixing pattern {pattern.number} was not computed: {error}")
        if progress is not None:
            progress(number, len(first))
    return found + patterns[len(first) :], notes


def _hurt(index: Index, trusted: Trusted, findings: Sequence[Finding]) -> dict[int, list[Hurt]]:
    try:
        wrong = trusted.mispredicted()
    except TagtraceError:  # every trusted token is predicted correctly
        return {}
    return hurt_queries(index, wrong, findings)
