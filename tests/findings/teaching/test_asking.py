"""Which questions are asked, and which findings are applied without asking."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from tagtrace._checks import OptionError
from tagtrace.findings.teaching.asking import CYCLE, next_questions, num_changed
from tagtrace.findings.teaching.auto import choose_auto
from tagtrace.findings.teaching.decided import Decided
from tagtrace.findings.teaching.errors_left import Draws
from tagtrace.findings.teaching.process import learn
from tagtrace.findings.teaching.teach import WRONG, Taught, teach
from tests.findings.teaching.made import made

WORDS = ("Varn", "Holt", "Orsk", "Lind")


def many(count: int = 40) -> list:
    return [
        made(n, WORDS[n % 4], "B-LOC" if n % 3 else "O", scores={"doubt": 0.05 + 0.9 * ((7 * n) % count) / count})
        for n in range(count)
    ]


def test_ten_questions_have_their_kinds_and_nothing_is_asked_twice() -> None:
    findings, asked, decided, checked = many(), list[tuple[str, int]](), dict[tuple[int, int], str](), set[int]()
    draws = Draws.of([5] * 60, {}, 0)
    for _ in range(3):
        taught = teach(findings, Decided(decided))
        for one in next_questions(taught, draws, checked, 10, len(asked)):
            asked.append((one.reason, one.sentence_number if one.finding is None else 1000 + one.finding.rank))
            if one.finding is None:
                checked.add(one.sentence_number)
            else:
                decided |= {(one.sentence_number, one.finding.start): one.finding.proposed[0]}
    assert Counter(reason for reason, _ in asked) == Counter(CYCLE * 3)
    assert len({number for _, number in asked}) == 30


def test_likely_ones_are_those_with_the_highest_probability() -> None:
    taught = teach(many(), Decided())
    asked = [one for one in next_questions(taught, Draws.of([5] * 60, {}, 0), (), 10) if one.reason == "likely"]
    best = [one.rank for one in taught.ranked()]
    chosen = [one.finding.rank for one in asked if one.finding is not None]
    assert chosen == [rank for rank in best if rank in chosen]
    assert chosen[0] == best[0]


def test_the_finding_that_teaches_most_changes_the_others_most() -> None:
    """By trying both answers for each finding and learning again."""
    findings = many(12)
    decided = Decided.of((n, 1, ("B-ORG",)) for n in (0, 5))
    taught = teach(findings, decided)
    asked = next_questions(taught, Draws.of([5] * 12, {}, 0), (), 10)
    first = next(one.finding for one in asked if one.reason == "teaches")
    assert first is not None
    gains = {one.rank: _mean_change(taught, place) for place, one in enumerate(findings) if place not in (0, 5)}
    ranked = sorted(gains, key=lambda rank: -gains[rank])
    assert first.rank in ranked[:2]  # the formula is a linear approximation
    assert gains[first.rank] > 1.5 * min(gains.values())


def _mean_change(taught: Taught, place: int) -> float:
    """The expected sum of squared changes of all other probabilities, in latent values times p (1 - p)."""
    alike, answer = taught.alike, taught.wrong
    p, sizes, total = answer.probabilities, num_changed(taught.findings), 0.0
    for value in (0.0, 1.0):
        learned = torch.cat([answer.learned, torch.tensor([place])])
        answers = torch.cat([p[answer.learned], torch.tensor([value], dtype=torch.float64)])
        covariance, mean = alike.covariance(WRONG, learned), alike.mean(WRONG)
        before = learn(mean[learned[:-1]], covariance[:-1][:, learned[:-1]], answers[:-1])
        after = learn(mean[learned], covariance[:, learned], answers)
        moved = covariance.T @ after.slope - covariance[:-1].T @ before.slope
        chance = float(p[place]) if value else 1 - float(p[place])
        total += chance * float((sizes * p * (1 - p) * moved).square().sum())
    return total


def test_auto_takes_what_is_expected_to_help_within_the_risk() -> None:
    findings = many()
    taught = teach(findings, Decided.of((one.sentence_number, 1, one.proposed) for one in findings[::2]))
    for risk in (0.02, 0.1, 0.3):
        found = choose_auto(taught, risk)
        numbers = [findings.index(next(a for a in findings if a.rank == one.rank)) for one in found.findings]
        broken = 1 - taught.wrong.probabilities[numbers]
        assert found.num_broken == pytest.approx(float(broken.sum()))
        assert found.num_broken <= risk * found.num_labels + 1e-9
        assert all(number % 2 for number in numbers)  # not those that are decided
    few, more = choose_auto(taught, 0.02), choose_auto(taught, 0.3)
    assert len(few.findings) < len(more.findings)
    assert "about" in str(more)
    with pytest.raises(OptionError, match="risk 1"):
        choose_auto(taught, 1.0)


def test_auto_applies_nothing_that_is_rather_right() -> None:
    findings = many()
    rejected = teach(findings, Decided.of((one.sentence_number, 1, one.given) for one in findings[::2]))
    assert choose_auto(rejected, 0.9).findings == []
    assert str(choose_auto(rejected)) == "no finding is sure enough to be applied without asking"


def test_of_findings_that_share_a_token_auto_takes_the_surer_one() -> None:
    findings = many()
    other = made(3, "Lind", "B-LOC", "B-MISC", rank=99, scores={"doubt": 0.6})
    decided = Decided.of((one.sentence_number, 1, one.proposed) for one in findings[::2])
    chosen = choose_auto(teach([*findings, other], decided), 0.5).findings
    places = [one.sentence_number for one in chosen]
    assert 3 in places
    assert len(places) == len(set(places))
