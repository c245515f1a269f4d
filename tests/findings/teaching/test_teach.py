"""What decisions say about findings."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from tagtrace.data import Sentence
from tagtrace.data.labels import HIDDEN
from tagtrace.findings.finding import Finding
from tagtrace.findings.teaching.alike import Alike
from tagtrace.findings.teaching.decided import Decided
from tagtrace.findings.teaching.teach import WRONG, teach
from tests.findings.teaching.made import made


def accept(*findings: Finding) -> Decided:
    return Decided.of((one.sentence_number, one.start, one.proposed) for one in findings)


def reject(*findings: Finding) -> Decided:
    return Decided.of((one.sentence_number, one.start, one.given) for one in findings)


@pytest.mark.parametrize(
    ("labels", "outcome"),
    [
        ({}, (None, None)),
        ({(0, 1): "B-LOC"}, (None, False)),
        ({(0, 1): "B-ORG"}, (True, None)),
        ({(0, 1): "B-ORG", (0, 2): "B-ORG"}, (True, True)),
        ({(0, 1): "B-LOC", (0, 2): "B-LOC"}, (False, False)),
        ({(0, 1): "O", (0, 2): "B-LOC"}, (True, False)),
        ({(1, 1): "B-ORG", (0, 3): "B-ORG"}, (None, None)),
    ],
)
def test_outcomes_follow_from_known_labels(
    labels: dict[tuple[int, int], str], outcome: tuple[bool | None, bool | None]
) -> None:
    assert Decided(labels).outcome(made(0, "Varn Holt")) == outcome


def test_covariances_are_those_of_explicit_parts() -> None:
    """One coordinate for the constant, for each number and for each group of each kind."""
    findings = [
        made(0, "Varn"), made(1, "varn", before=("At",)), made(2, "Holt", given="B-PER"), made(3, "Holt Varn"),
        made(4, "Varn", confidence=0.9, document="d"), made(5, "Varn", document="d", after=()),
    ]  # fmt: skip
    alike = Alike.of(findings, {4: "HANDBALL"})
    parts = [torch.full((6, 1), WRONG.constant, dtype=torch.float64), WRONG.slopes * alike.numbers]
    for kind, size in WRONG.groups.items():
        parts.append(size * torch.nn.functional.one_hot(alike.codes[kind]).double())
    features = torch.cat(parts, 1)
    torch.testing.assert_close(alike.covariance(WRONG, torch.arange(6)), features @ features.T)
    torch.testing.assert_close(alike.variance(WRONG), features.square().sum(1))
    assert alike.codes["text"][:2].tolist() == [0, 0]
    assert alike.codes["change"][2] != alike.codes["change"][0]


def test_decisions_move_findings_that_are_alike_and_others_less() -> None:
    findings = [made(n, "Varn" if n < 6 else "Holt", "B-LOC" if n < 9 else "B-PER") for n in range(12)]
    before, after = teach(findings, Decided()), teach(findings, accept(*findings[:3]))
    gained = [b.confidence - a.confidence for a, b in zip(before.findings, after.findings, strict=True)]
    assert [one.confidence for one in after.findings[:3]] == [1.0] * 3
    assert gained[4] > gained[7] > gained[10] > 0
    lost = [
        b.confidence - a.confidence
        for a, b in zip(before.findings, teach(findings, reject(*findings[:3])).findings, strict=True)
    ]
    assert lost[4] < lost[7] < lost[10] < 0


def test_ranked_leaves_out_what_is_decided_and_keeps_identities() -> None:
    findings = [made(n, scores={"doubt": p}) for n, p in enumerate((0.2, 0.9, 0.5))]
    taught = teach(findings, accept(findings[1]))
    assert [one.rank for one in taught.ranked()] == [3, 1]
    assert [one.rank for one in taught.findings] == [1, 2, 3]
    assert teach(findings, Decided()).ranked()[0].rank == 2


def test_a_wrong_label_with_another_correction_teaches_that_it_was_wrong_but_not_the_proposal() -> None:
    findings = [made(n) for n in range(8)]
    other = Decided.of((one.sentence_number, one.start, ("B-MISC",)) for one in findings[:4])
    plain, taught = teach(findings, Decided()), teach(findings, other)
    assert taught.findings[5].score > plain.findings[5].score
    assert taught.findings[5].confidence < taught.findings[5].score
    assert float(taught.right.probabilities[5]) < float(plain.right.probabilities[5])
    assert taught.findings[0].confidence == 0.0


def test_findings_without_further_scores_can_be_taught() -> None:
    findings = [replace(made(n), scores={}) for n in range(3)]
    assert all(0 < one.confidence < 1 for one in teach(findings, Decided()).findings)
    assert teach([], Decided()).findings == []


def test_of_very_many_decisions_those_of_every_rank_are_learned_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tagtrace.findings.teaching.teach.MAX_LEARNED", 60)
    good, bad = [made(n) for n in range(40)], [made(n, "Holt", "O", "B-PER") for n in range(40, 140)]
    decided = Decided({**accept(*good[:30]).labels, **reject(*bad).labels})
    taught = teach([*good, *bad], decided)
    assert len(taught.wrong.learned) == 60
    assert min(one.score for one in taught.findings[30:40]) > 0.7


def test_the_token_after_a_finding_touches_it() -> None:
    """It may continue a segment that the finding ends."""
    one = made(0, "Varn")
    touched = [Decided({(0, t): "I-LOC"}).touches(one) for t in range(4)]
    assert touched == [False, True, True, False]


def test_decided_sentences_are_well_formed() -> None:
    """Rejecting a change of I-LOC and then making the token before it O leaves a segment of its own."""
    given = [Sentence(("a", "b", "c"), ("B-LOC", "I-LOC", "O"), "s:0"), Sentence(("d",), ("O",), "s:1")]
    decided = Decided({(0, 0): "O", (0, 1): "I-LOC"})
    (found,) = decided.sentences(given, "iob2")
    assert found.labels == ("O", "B-LOC", HIDDEN)
    assert Decided({(0, 1): "I-LOC"}).sentences(given, "iob2")[0].labels == (HIDDEN, "I-LOC", HIDDEN)
    plain = [Sentence(("a", "b"), ("NN", "I-X"), "s:0")]
    assert Decided({(0, 1): "I-X"}).sentences(plain, "plain")[0].labels == (HIDDEN, "I-X")
