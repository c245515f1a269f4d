"""The head decodes features as Viterbi does, however they are cut into chunks, and keeps its parameters in order."""

from __future__ import annotations

import pytest
import torch

from tagtrace._checks import OptionError
from tagtrace.data.schemes import violations
from tagtrace.tagger import Head, HeadOptions, crf
from tagtrace.tagger import head as head_module
from tests.strategies import HEADS, LABELS, random_rows, random_theta

LENGTHS = (5, 1, 3, 8, 2, 6)


def random_head(options: HeadOptions, seed: int = 1) -> Head:
    head = Head(4, LABELS, options).double()
    head.set_flat(random_theta(head, seed))
    return head


@pytest.mark.parametrize("max_tokens", [1, 4, 9, 10_000])
@pytest.mark.parametrize("constrained", [False, True])
@pytest.mark.parametrize("options", HEADS, ids=str)
def test_decoding_in_chunks_is_viterbi(
    monkeypatch: pytest.MonkeyPatch, options: HeadOptions, constrained: bool, max_tokens: int
) -> None:
    head, rows = random_head(options), random_rows(lengths=LENGTHS)
    expected = crf.viterbi(head(rows.features.double(), rows.lengths, constrained=constrained))[0]
    monkeypatch.setattr(head_module, "MAX_DECODED", max_tokens)
    sizes: list[int] = []
    viterbi = crf.viterbi
    monkeypatch.setattr(crf, "viterbi", lambda scores: sizes.append(int(scores.lengths.sum())) or viterbi(scores))
    assert head.decode(rows.features, rows.lengths, constrained=constrained) == expected
    assert [len(path) for path in expected] == list(LENGTHS)
    assert sum(sizes) == sum(LENGTHS)
    assert all(size <= max(max_tokens, *LENGTHS) for size in sizes)
    assert (len(sizes) == 1) == (max_tokens == 10_000)
    assert max_tokens > 1 or len(sizes) == len(LENGTHS)


def test_decoding_is_constrained_unless_told_otherwise() -> None:
    rows, num_broken = random_rows(lengths=LENGTHS), 0
    for seed in range(5):
        head = random_head(HeadOptions(), seed)
        well_formed, free = head.decode(rows.features, rows.lengths), head.decode(
            rows.features, rows.lengths, constrained=False
        )  # fmt: skip
        assert not any(violations(LABELS.decode(path), "iob2") for path in well_formed)
        num_broken += sum(bool(violations(LABELS.decode(path), "iob2")) for path in free)
    assert num_broken > 0, "without the constraint such heads break the scheme"


def test_decoding_nothing() -> None:
    head = random_head(HeadOptions())
    assert head.decode(torch.zeros(0, 4), torch.zeros(0, dtype=torch.long)) == []


@pytest.mark.parametrize("options", HEADS, ids=str)
def test_parameters_go_to_one_vector_and_back(options: HeadOptions) -> None:
    head = random_head(options)
    theta = random_theta(head, seed=7)
    moved = head.at(theta)
    assert torch.equal(moved.flat(), theta)
    assert not torch.equal(head.flat(), theta), "the head itself is not changed"
    parts = head.unflatten(theta.expand(3, -1))
    assert list(parts) == [name for name, _ in head.named_parameters()]
    for name, part in parts.items():
        assert torch.equal(part[1], moved.get_parameter(name))
    ends = 2 * len(LABELS) if options.start_end else 0
    edges = len(LABELS) ** 2 if options.kind == "crf" else 0
    assert head.num_parameters == len(theta) == len(LABELS) * 5 + edges + ends


@pytest.mark.parametrize(
    "bad", [{"kind": "mlp"}, {"kind": "softmax", "constrained": True}, {"kind": "softmax", "start_end": True}]
)
def test_options_that_cannot_work_are_refused(bad: dict[str, object]) -> None:
    with pytest.raises(OptionError, match="softmax"):
        HeadOptions(**bad)  # pyright: ignore[reportArgumentType]
