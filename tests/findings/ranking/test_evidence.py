"""What findings hurt, against cosines of dense gradients taken one by one."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tagtrace.findings import Finding, Hurt, Trusted, hurt_queries, read_trusted
from tagtrace.index import Index
from tagtrace.tagger import HeadOptions
from tests.findings.made import double_rows, make_index, make_sentences, make_tagger
from tests.influence.dense import segment_gradients


@pytest.fixture(params=[HeadOptions(start_end=True), HeadOptions("softmax")], ids=["crf", "softmax"], scope="module")
def index(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Index:
    return make_index(tmp_path_factory.mktemp("made"), head=request.param)


@pytest.fixture(scope="module")
def trusted(index: Index) -> Trusted:
    return read_trusted(index, make_tagger(index.manifest.head), make_sentences(12, seed=5)).mispredicted()


def finding(index: Index, rank: int, sentence_number: int, start: int, stop: int) -> Finding:
    one = index.sentence(sentence_number)
    return Finding(rank, one.id, one.document, sentence_number, start, stop, 0, one.tokens[start:stop], (), (),
                   one.labels[start:stop], ("O",) * (stop - start), 1.0, 1.0)  # fmt: skip


def findings_of(index: Index) -> list[Finding]:
    """Of one, two and all tokens, from every shard, in no order; ranks are no places."""
    spans = [(sentence_number, 0, int(n)) for sentence_number, n in enumerate(index.lengths)]
    spans += [(sentence_number, int(n) - 1, int(n)) for sentence_number, n in enumerate(index.lengths)]
    spans += [(sentence_number, 1, 3) for sentence_number, n in enumerate(index.lengths) if n > 2]
    return [finding(index, 100 - 2 * number, *span) for number, span in enumerate(spans[::-1])]


def cosine(one: Tensor, other: Tensor) -> float:
    return float(one @ other / (one.norm() * other.norm()))


def all_hurt(index: Index, trusted: Trusted, one: Finding) -> list[Hurt]:
    """Every trusted token asked about that a token of the finding opposes, the most opposed first."""
    found = []
    for token, segment in zip(trusted.tokens.tolist(), trusted.segments.tolist(), strict=True):
        query = segment_gradients(index.head, trusted.rows, torch.tensor([segment]))[0]
        places = torch.tensor([(one.sentence_number, t, t + 1) for t in range(one.start, one.stop)])
        own = segment_gradients(index.head, double_rows(index), places)
        least = min(cosine(query, gradient) for gradient in own)
        gold, predicted = int(trusted.rows.labels[token]), int(trusted.predicted[token])
        assert gold != predicted
        found.append(Hurt(segment[0], segment[1], gold, predicted, least))
    return sorted((each for each in found if each.cosine < 0), key=lambda each: each.cosine)


@pytest.mark.parametrize("together", [64, 2])
def test_the_trusted_tokens_that_oppose_most(
    index: Index, trusted: Trusted, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_module("tagtrace.findings.ranking.evidence"), "MAX_QUERIES", together)
    some = findings_of(index)[::3]
    found = hurt_queries(index, trusted, some, most=4)
    assert sorted(found) == sorted(one.rank for one in some)
    assert len(trusted) > 4
    sizes = set()
    for one in some:
        everything = all_hurt(index, trusted, one)
        expected = everything[:4]
        assert [each.cosine for each in found[one.rank]] == pytest.approx([e.cosine for e in expected], abs=1e-5)
        for each, wanted in zip(found[one.rank], expected, strict=True):  # repeated words have equal gradients
            ties = [other for other in everything if abs(other.cosine - wanted.cosine) < 1e-5]
            assert replace(each, cosine=0.0) in [replace(other, cosine=0.0) for other in ties]
        sizes.add(len(expected))
    assert 4 in sizes


def test_at_most_as_many_as_asked_for(index: Index, trusted: Trusted) -> None:
    some = findings_of(index)[:4]
    one = hurt_queries(index, trusted, some, most=1)
    everything = hurt_queries(index, trusted, some, most=1000)
    for each in some:
        assert one[each.rank] == everything[each.rank][:1]
        assert len(everything[each.rank]) == len(all_hurt(index, trusted, each))
        assert all(hurt.cosine < 0 for hurt in everything[each.rank])


def test_nothing_to_tell(index: Index, trusted: Trusted) -> None:
    assert hurt_queries(index, trusted, []) == {}
    nobody = Trusted(trusted.rows, trusted.tokens[:0], trusted.predicted)
    assert hurt_queries(index, nobody, findings_of(index)) == {}


def test_a_wrong_label_hurts_the_same_word(tmp_path: Path) -> None:
    """The sign: a training label opposes the trusted token with the same word and another label."""
    index = make_index(tmp_path)
    tagger = make_tagger()
    number = next(c for c in range(index.num_sentences) if len(index.sentence(c)) == 1)
    one = index.sentence(number)
    other = "B-Y" if one.labels[0] != "B-Y" else "B-X"
    same, opposed = one.with_labels(one.labels), one.with_labels([other])
    given = read_trusted(index, tagger, [same, opposed])
    found = hurt_queries(index, given, [finding(index, 1, number, 0, 1)])[1]
    assert [(hurt.sentence_number, hurt.place, hurt.gold) for hurt in found] == [(1, 0, index.labels.index(other))]
