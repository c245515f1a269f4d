"""Products of token gradients, compared with dense gradients and with the audit's scores."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from tagtrace._checks import OptionError
from tagtrace.findings import Trusted, read_trusted, trusted_scores
from tagtrace.index import Index, token_errors
from tagtrace.influence import Explainer
from tagtrace.reproduce.shared.token_gradients import TokenGradients, opposition
from tagtrace.tagger import HeadOptions
from tests.findings.made import double_rows, make_index, make_sentences, make_tagger
from tests.influence.dense import segment_gradients


def test_products_and_norms_equal_those_of_dense_gradients(index: Index, given: Trusted) -> None:
    rows = double_rows(index)
    tokens = torch.tensor([(i, t, t + 1) for i, n in enumerate(rows.lengths.tolist()) for t in range(n)])
    dense = segment_gradients(index.head, rows, tokens)
    ours = TokenGradients.of(index.head, rows, token_errors(index.head, rows))
    theirs = TokenGradients.of(index.head, given.rows, token_errors(index.head, given.rows))
    dense_theirs = segment_gradients(index.head, given.rows, given.segments)
    torch.testing.assert_close(ours.products(theirs), dense @ dense_theirs.T)
    torch.testing.assert_close(ours.norms(), dense.norm(dim=1))
    torch.testing.assert_close(ours.unit().products(theirs.unit()), F.normalize(dense) @ F.normalize(dense_theirs).T)


@pytest.mark.parametrize("top_k", [1, 10])
def test_opposition_equals_trusted_scores(index: Index, given: Trusted, top_k: int) -> None:
    explainer, few = Explainer(index, "identity"), replace(given, tokens=given.tokens[3:8])
    for trusted in (given, few):
        found = opposition(index, trusted, top_k)
        for method in ("identity", "cosine"):
            expected = trusted_scores(explainer, trusted, method, "top", top_k)
            torch.testing.assert_close(found[method], expected, rtol=1e-4, atol=1e-6)


def test_heads_with_start_and_end_scores_are_refused(tmp_path: Path) -> None:
    index = make_index(tmp_path, head=HeadOptions(start_end=True))
    trusted = read_trusted(index, make_tagger(HeadOptions(start_end=True)), make_sentences(9, seed=5))
    with pytest.raises(OptionError, match="start and end"):
        opposition(index, trusted)
