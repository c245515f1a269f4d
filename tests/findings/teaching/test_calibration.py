"""Probabilities are corrected as far as answers say so."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tagtrace.findings.teaching.calibration import Calibration, calibrate
from tagtrace.findings.teaching.decided import Decided
from tagtrace.findings.teaching.teach import teach
from tests.findings.teaching.made import made


def drawn(slope: float, shift: float, count: int) -> tuple[Tensor, Tensor]:
    """What is believed, and answers whose true log odds are ``slope`` times those believed plus ``shift``."""
    generator = torch.Generator().manual_seed(2)
    latent = 1.5 * torch.randn(count, generator=generator, dtype=torch.float64)
    true = torch.sigmoid(slope * latent + shift)
    return torch.sigmoid(latent), (torch.rand(count, generator=generator, dtype=torch.float64) < true).double()


@pytest.mark.parametrize(("slope", "shift"), [(1.0, 0.0), (2.0, 0.5), (0.5, -1.0)])
def test_many_answers_find_how_far_off_the_probabilities_are(slope: float, shift: float) -> None:
    found = calibrate(*drawn(slope, shift, 20_000))
    assert found.slope == pytest.approx(slope, abs=0.1)
    assert found.shift == pytest.approx(shift, abs=0.1)


def test_few_answers_change_little_and_none_nothing() -> None:
    few, many = calibrate(*drawn(2.0, 0.5, 20)), calibrate(*drawn(2.0, 0.5, 2000))
    assert abs(few.slope - 1) < abs(many.slope - 1)
    nothing = calibrate(torch.zeros(0, dtype=torch.float64), torch.zeros(0, dtype=torch.float64))
    assert nothing == Calibration()
    same = torch.tensor([0.0, 0.2, 1.0], dtype=torch.float64)
    torch.testing.assert_close(nothing(same), same, rtol=0, atol=1e-8)


def test_the_maximum_is_where_the_gradient_vanishes() -> None:
    believed, answers = drawn(1.7, -0.4, 50)
    found = calibrate(believed, answers)
    at = torch.tensor([found.slope, found.shift], dtype=torch.float64, requires_grad=True)
    latent = at[0] * torch.logit(believed) + at[1]
    loss = (torch.nn.functional.softplus(latent) - answers * latent).sum() + 2 * ((at[0] - 1) ** 2 + at[1] ** 2)
    loss.backward()
    assert at.grad is not None
    assert float(at.grad.abs().max()) < 1e-6


def test_taught_confidences_are_calibrated() -> None:
    """Judges that doubt everything alike, of whom two changes in three are right: what is said is about what is."""
    findings = [made(n, f"w{n}", "B-LOC", "B-ORG", confidence=0.9, scores={"doubt": 0.95}) for n in range(400)]
    generator = torch.Generator().manual_seed(0)
    right = (torch.rand(400, generator=generator) < 0.3).tolist()
    chosen = Decided.of((n, 1, one.proposed if right[n] else one.given) for n, one in enumerate(findings[:150]))
    said = [one.confidence for one in teach(findings, chosen).findings[150:]]
    assert sum(said) / 250 == pytest.approx(sum(right[150:]) / 250, abs=0.06)
    before = [one.confidence for one in teach(findings, Decided()).findings[150:]]
    assert abs(sum(before) / 250 - sum(right[150:]) / 250) > 0.02


def test_what_is_believed_apart_can_be_wrong_about_what_was_decided() -> None:
    findings = [made(n) for n in range(6)]
    taught = teach(findings, Decided.of((n, 1, findings[n].proposed) for n in range(3)))
    assert taught.wrong.probabilities[:3].tolist() == [1.0] * 3
    assert bool((taught.wrong.apart[:3] < 0.95).all())
    torch.testing.assert_close(taught.wrong.apart[3:], taught.wrong.probabilities[3:])
