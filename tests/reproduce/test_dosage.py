"""The dosage experiment: its parts on made-up labels and a made-up index, and its quick form on real data."""

from __future__ import annotations

import copy
import os
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tagtrace.data import LabelSet, Sentence
from tagtrace.findings import Trusted, read_trusted
from tagtrace.index import Index
from tagtrace.influence.operators import Hessian
from tagtrace.reproduce import dosage, strongest
from tagtrace.reproduce.dosage import EXAMPLE, TOKEN, DosageOptions, Judge, queries, token_f1
from tagtrace.reproduce.dosages import PRINTED, DosageTokens
from tagtrace.reproduce.experiment import Found, run_seed
from tagtrace.reproduce.setting import Setting
from tagtrace.reproduce.strongest import (
    Retriever,
    Strongest,
    kronecker_solver,
    nearest_tokens,
    strongest_tokens,
    token_segments,
)
from tagtrace.tagger import HeadOptions
from tagtrace.tagger.objective import Objective
from tests.findings.made import double_rows, make_index, make_sentences, make_tagger
from tests.influence.dense import segment_gradients

DATA = Path(os.environ.get("TAGTRACE_DATA", Path(__file__).resolve().parents[2] / ".." / "shared" / "data"))
LABELS = LabelSet(("O", "INT", "POP"), "io")
OPTIONS = DosageOptions("", "", ["INT"], "INT", ["printed"], 0, 0, 0, 1e-6, True, {}, {})


@pytest.fixture(params=[HeadOptions(), HeadOptions("softmax")], ids=["crf", "softmax"], scope="module")
def index(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Index:
    return make_index(tmp_path_factory.mktemp("made"), head=request.param)


@pytest.fixture(scope="module")
def given(index: Index) -> Trusted:
    return read_trusted(index, make_tagger(index.manifest.head), make_sentences(9, seed=5))


def wholes(lengths: Tensor) -> Tensor:
    return torch.tensor([(chain, 0, length) for chain, length in enumerate(lengths.tolist())])


def test_every_method_finds_what_dense_gradients_say(index: Index, given: Trusted) -> None:
    asked = torch.tensor([0, 3, 4, len(given.rows.labels) - 1])
    found = Retriever(index, given.rows, asked, torch.device("cpu")).all(lambda _: None)
    head, rows = index.head, double_rows(index)
    inverse = torch.linalg.inv(Hessian(Objective(head, rows, index.manifest.fit.l2).hessian(head.flat())).dense())
    segments = token_segments(given.rows.lengths)[asked]
    trained = segment_gradients(head, rows, token_segments(rows.lengths))  # (N, P)
    of_tokens = segment_gradients(head, given.rows, segments)
    chains = wholes(given.rows.lengths)[segments[:, 0]]
    of_chains = segment_gradients(head, given.rows, chains)
    instances = segment_gradients(head, rows, wholes(rows.lengths))
    sizes = (trained * kronecker_solver(index).solve(trained).value).sum(1).sqrt()  # (N,)
    expected = {
        "segment influence, identity": of_tokens @ trained.T,
        "segment influence, cosine": of_tokens @ torch.nn.functional.normalize(trained, dim=1).T,
        "segment influence, curvature": of_tokens @ inverse @ trained.T,
        "segment influence, relative": of_tokens @ inverse @ trained.T / sizes,
        "instance influence, identity": of_chains @ instances.T,
        "instance influence, cosine": of_chains @ torch.nn.functional.normalize(instances, dim=1).T,
        "instance influence, curvature": of_chains @ inverse @ instances.T,
    }
    for name, values in expected.items():
        here = found[name]
        assert here.are_tokens == name.startswith("segment")
        best = values.gather(1, here.supporters.unsqueeze(1)).squeeze(1)
        worst = values.gather(1, here.opposers.unsqueeze(1)).squeeze(1)
        torch.testing.assert_close(best, values.max(1).values, rtol=1e-5, atol=1e-7)  # equal words tie
        torch.testing.assert_close(worst, values.min(1).values, rtol=1e-5, atol=1e-7)
    assert set(found) - set(expected) == {"segment NN, cosine", "segment NN, dot"}


def test_neighbours_have_the_label_of_the_query_and_another(index: Index, given: Trusted) -> None:
    features, labels = given.rows.features.float(), given.rows.labels
    rows = double_rows(index)
    for cosine in (False, True):
        found = nearest_tokens(index, features, labels, cosine=cosine)
        scale = rows.features.norm(dim=1) if cosine else torch.ones(len(rows.labels))
        values = features.double() @ (rows.features / scale.unsqueeze(1)).T
        same = labels.unsqueeze(1) == rows.labels
        assert torch.equal(rows.labels[found.supporters].long(), labels.long())
        assert not bool((rows.labels[found.opposers] == labels).any())
        for side, mask in ((found.supporters, same), (found.opposers, ~same)):
            best = values.masked_fill(~mask, -torch.inf).max(1).values
            torch.testing.assert_close(values.gather(1, side.unsqueeze(1)).squeeze(1), best, rtol=1e-5, atol=1e-6)


def test_blocks_of_queries_change_nothing(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    directions = torch.randn(7, index.head.num_parameters, dtype=torch.float64)
    whole = strongest_tokens(index, directions)
    monkeypatch.setattr(strongest, "TOGETHER", 2)
    parts = strongest_tokens(index, directions)
    assert torch.equal(whole.supporters, parts.supporters)
    assert torch.equal(whole.opposers, parts.opposers)
    assert not torch.equal(whole.supporters, whole.opposers)


def test_a_query_is_the_last_mispredicted_token_of_a_dosage_outside() -> None:
    first = Sentence(("drug", "5", "mg", "and", "6", "mg"), ("INT", "O", "O", "O", "O", "INT"))
    second = Sentence(("7", "mg", "8", "mg", "9", "mg"), ("O", "POP", "O", "O", "O", "O"))
    predicted = torch.tensor([1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 0, 0]).bool()
    # 5 mg: its last; 6 mg: partly an intervention in gold; 7 mg: its first; 8 mg: its last; 9 mg: predicted as it is
    assert queries([first, second], predicted, PRINTED, OPTIONS).tolist() == [2, 6, 9]
    assert queries([first, second], ~torch.ones(12).bool(), PRINTED, OPTIONS).tolist() == []


def test_token_f1() -> None:
    gold, predicted = torch.tensor([0, 1, 1, 2, 2, 0]), torch.tensor([1, 1, 0, 2, 2, 0])
    found = token_f1(gold, predicted, LABELS)
    assert found == pytest.approx({"INT": 0.5, "POP": 1.0, "mean": 0.75, "micro": 6 / 8})


def make_judge() -> Judge:
    """Three documents of 2, 3 and 1 tokens: a dosage outside in the first, one inside in the second."""
    outside, inside = torch.tensor([0, 1, 0, 0, 0, 0]).bool(), torch.tensor([0, 0, 0, 1, 1, 0]).bool()
    document = torch.tensor([0, 0, 1, 1, 1, 2])
    has = torch.tensor([[1, 0, 0], [0, 1, 0]]).bool()
    return Judge(DosageTokens(outside, inside), document, has[0], has[1])


def test_shares_at_both_levels() -> None:
    judge = make_judge()
    found = Strongest(torch.tensor([1, 0, 5, 1]), torch.tensor([3, 2, 4, 5]))
    assert judge.shares(found) == dict(zip((*EXAMPLE, *TOKEN), (0.75, 0.75, 0.5, 0.5, 0.5, 0.25), strict=True))
    documents = Strongest(torch.tensor([0, 0]), torch.tensor([0, 1]), are_tokens=False)
    assert judge.shares(documents) == dict(zip(EXAMPLE, (1.0, 0.5, 0.5), strict=True))
    none = Strongest(torch.zeros(0).long(), torch.zeros(0).long())
    assert set(judge.shares(none).values()) == {0.0}


def test_chance() -> None:
    chance = make_judge().chance(torch.tensor([0, 1, 1, 0, 1, 1]).bool())  # rows 1, 2, 4, 5 against 0 and 3
    assert chance["random documents"] == pytest.approx(dict(zip(EXAMPLE, (1 / 3, 1 / 3, 1 / 9), strict=True)))
    expected = (0.25, 0.5, 0.125, 0.25, 0.5, 0.125)
    assert chance["random tokens"] == pytest.approx(dict(zip((*EXAMPLE, *TOKEN), expected, strict=True)))


def test_documents_are_found_in_the_index(index: Index) -> None:
    outside = torch.zeros(index.num_tokens).bool()
    outside[int(index.starts[4])] = True
    judge = Judge.of(index, DosageTokens(outside, ~outside))
    assert judge.has_outside.nonzero().flatten().tolist() == [4]
    expected = torch.ones(index.num_chains).bool()
    expected[4] = bool(index.lengths[4] > 1)
    assert torch.equal(judge.has_inside, expected)


@pytest.mark.skipif(not (DATA / "ebmnlp").is_dir(), reason=f"no EBM-NLP in {DATA}; set TAGTRACE_DATA")
def test_the_quick_form_shows_the_direction(tmp_path: Path) -> None:
    found = run_seed(dosage.EXPERIMENT, Setting(DATA, tmp_path, quick=True, report=lambda _: None), 0)
    assert dosage.check([found]) == []
    text = dosage.table([found, found])
    assert "| segment influence, cosine | " in text
    assert "| *segment influence, paper* | 97.9 | 100.0 | 97.9 | 97.9 | 87.5 | 85.4 |" in text
    assert len(dosage.check([reversed_(found)])) == 3


def reversed_(found: Found) -> Found:
    """The same with the shares of segment and instance influence exchanged, and no tokens found."""
    changed = copy.deepcopy(found)
    methods = changed["readings"]["released"]["methods"]
    instance = methods["instance influence, cosine"]
    methods["instance influence, cosine"] = methods["segment influence, cosine"]
    methods["segment influence, cosine"] = {**dict.fromkeys(TOKEN, 0.0), **instance, EXAMPLE[2]: 0.0}
    return changed
