"""Options of an audit."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tagtrace._checks import OptionError
from tagtrace.findings import SCORES, AuditOptions


@pytest.mark.parametrize("score", SCORES)
def test_every_score_is_an_option_and_options_survive_json(score: str) -> None:
    options = AuditOptions(score, "ORG:LOC", 7, 3, 0, "encoder", 2, "lexical", 5)
    assert AuditOptions(**json.loads(json.dumps(options.to_json()))) == options


def test_defaults() -> None:
    options = AuditOptions()
    assert (options.score, options.query, options.judges, options.encoder) == ("combined", None, "auto", None)
    assert AuditOptions(num_effects=0, most=1, num_patterns=1, num_folds=2).num_effects == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"score": "loss"}, "^score 'loss': expected one of combined, joint-loss"),
        ({"judges": "opinions"}, "^judges 'opinions': expected one of auto, head, encoder$"),
        (
            {"judges": "head", "encoder": "lexical"},
            "only used by taggers .*; choose judges='encoder'$",
        ),
        ({"most": 0}, "^most 0: must be at least 1$"),
        ({"num_patterns": 0}, "^num_patterns 0: must be at least 1$"),
        ({"num_effects": -1}, "^num_effects -1: must be at least 0$"),
        ({"num_folds": 1}, "^num_folds 1: must be at least 2$"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_options_that_make_no_sense(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        AuditOptions(**options)
