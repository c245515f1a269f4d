"""What wrong labels add to the instance influence of documents."""

from __future__ import annotations

from pathlib import Path

import torch

from tagtrace.data import Sentence
from tagtrace.findings import read_trusted
from tagtrace.influence import find_candidates
from tagtrace.reproduce.experiments.noise import pulls_line
from tagtrace.reproduce.experiments.noise_pulls import pulls_by_type, token_pulls
from tagtrace.reproduce.shared.document_rankings import document_numbers, instance_influences
from tagtrace.tagger import HeadOptions
from tests.findings.made import make_index, make_sentences, make_tagger


def test_pulls_of_tokens_sum_to_the_score_of_documents(tmp_path: Path) -> None:
    """Without transitions there is no rest."""
    index = make_index(tmp_path, head=HeadOptions("softmax"))
    experts = sorted(make_sentences(9, seed=5), key=lambda one: one.document)
    trusted, numbers = read_trusted(index, make_tagger(HeadOptions("softmax")), experts), document_numbers(experts)
    found = token_pulls(index, trusted, numbers)
    owner = find_candidates(index, "document").owner
    assert owner is not None
    of_tokens = torch.repeat_interleave(owner, index.lengths)
    sums = torch.zeros(int(owner.max()) + 1, dtype=torch.float64).index_add(0, of_tokens, found)
    torch.testing.assert_close(sums, instance_influences(index, trusted, numbers)["identity"], rtol=1e-5, atol=1e-7)


def test_pulls_are_summed_by_change_of_type() -> None:
    true = [Sentence(("a", "b", "c"), ("B-LOC", "I-LOC", "O"), "x_0", "x"), Sentence(("d",), ("B-PER",), "y_0", "y")]
    given = [true[0].with_labels(["B-ORG", "I-ORG", "O"]), true[1].with_labels(["B-LOC"])]
    pulls = torch.tensor([-1.0, -2.0, 5.0, 0.5])
    assert pulls_by_type(pulls, given, true, ["x", "y"]) == {"LOC to ORG": -3.0, "PER to LOC": 0.5}
    assert pulls_by_type(pulls, given, true, ["y"]) == {"PER to LOC": 0.5}
    line = pulls_line([{"LOC to ORG": -3.0}, {"PER to LOC": 1.0}])
    assert line.endswith(": LOC to ORG -3.00, +0.00; PER to LOC +0.00, +1.00.\n")
