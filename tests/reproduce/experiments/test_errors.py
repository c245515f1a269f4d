"""Rankings of documents: products and sums against dense gradients, curves on numbers, the quick form on real data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tagtrace._checks import OptionError
from tagtrace.data import Sentence
from tagtrace.findings import Trusted, read_trusted, trusted_scores
from tagtrace.index import Index, token_errors
from tagtrace.influence import Explainer, find_candidates
from tagtrace.reproduce.experiments.errors import (
    EXPERIMENT,
    check,
    document_numbers,
    draw,
    erroneous_corpus,
    mispredicted,
    table,
)
from tagtrace.reproduce.shared import conll
from tagtrace.reproduce.shared.document_rankings import PAPER, instance_influences, rank_documents, simple_scores
from tagtrace.reproduce.shared.experiment import Found, run_seed
from tagtrace.reproduce.shared.recall_curves import (
    area,
    chance_area,
    curve,
    curve_table,
    mean_curves,
    measures,
    not_above,
    ranks,
)
from tagtrace.reproduce.shared.setting import Setting
from tagtrace.reproduce.shared.token_gradients import TokenGradients, opposition
from tagtrace.tagger import HeadOptions, crf
from tagtrace.tagger.rows import pad_rows
from tests.findings.made import double_rows, make_index, make_sentences, make_tagger
from tests.influence.dense import segment_gradients
from tests.places import DATA


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    return make_index(tmp_path_factory.mktemp("made"))


@pytest.fixture(scope="module")
def experts() -> list[Sentence]:
    return sorted(make_sentences(9, seed=5), key=lambda one: one.document)


@pytest.fixture(scope="module")
def given(index: Index, experts: list[Sentence]) -> Trusted:
    return read_trusted(index, make_tagger(), experts)


def whole_gradients(index: Index) -> Tensor:
    """Of every training sentence, (B, P)."""
    rows = double_rows(index)
    wholes = torch.tensor([(number, 0, length) for number, length in enumerate(rows.lengths.tolist())])
    return segment_gradients(index.head, rows, wholes)


def document_sums(gradients: Tensor, owner: Tensor) -> Tensor:
    return gradients.new_zeros(int(owner.max()) + 1, gradients.shape[1]).index_add(0, owner, gradients)


def test_products_and_norms_of_token_gradients_are_those_of_dense_ones(index: Index, given: Trusted) -> None:
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
def test_opposition_is_what_trusted_scores_finds(index: Index, given: Trusted, top_k: int) -> None:
    explainer, few = Explainer(index, "identity"), replace(given, tokens=given.tokens[3:8])
    for trusted in (given, few):
        found = opposition(index, trusted, top_k)
        for method in ("identity", "cosine"):
            expected = trusted_scores(explainer, trusted, method, "top", top_k)
            torch.testing.assert_close(found[method], expected, rtol=1e-4, atol=1e-6)


def test_other_heads_are_refused(tmp_path: Path) -> None:
    index = make_index(tmp_path, head=HeadOptions(start_end=True))
    trusted = read_trusted(index, make_tagger(HeadOptions(start_end=True)), make_sentences(9, seed=5))
    with pytest.raises(OptionError, match="start and end"):
        opposition(index, trusted)


def test_instances_are_whole_documents(index: Index, given: Trusted, experts: list[Sentence]) -> None:
    owner = find_candidates(index, "document").owner
    assert owner is not None
    trained = document_sums(whole_gradients(index), owner)  # (K, P)
    wholes = torch.tensor([(number, 0, length) for number, length in enumerate(given.rows.lengths.tolist())])
    numbers = document_numbers(experts)
    assert numbers.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    trusted = document_sums(segment_gradients(index.head, given.rows, wholes), numbers)  # (3, P)
    found = instance_influences(index, given, numbers)
    torch.testing.assert_close(found["identity"], -(trusted @ trained.T).mean(0) / index.num_sentences)
    torch.testing.assert_close(found["cosine"], -(F.normalize(trusted) @ F.normalize(trained).T).mean(0))


def test_simple_scores_of_documents(index: Index) -> None:
    candidates, found = find_candidates(index, "document"), simple_scores(index)
    assert candidates.owner is not None
    rows, head = double_rows(index), index.head
    torch.testing.assert_close(found["instance loss"], candidates.total(joint_losses(index)))
    expected = document_sums(whole_gradients(index), candidates.owner).norm(dim=1)
    torch.testing.assert_close(found["instance gradient"], expected)
    errors = token_errors(head, rows).gather(1, rows.labels.long().unsqueeze(1)).squeeze(1)
    token_losses = -(1.0 + errors).log()  # p(y_t) = 1 + e_t(y_t)
    first = candidates.parts(0)
    inside = torch.cat([token_losses[index.starts[number] : index.starts[number] + stop] for number, _, stop in first])
    assert float(found["token loss, mean"][0]) == pytest.approx(float(inside.mean()), rel=1e-5)
    assert float(found["token loss, max"][0]) == pytest.approx(float(inside.max()), rel=1e-5)


def joint_losses(index: Index) -> Tensor:
    """Of every training sentence, (B,)."""
    rows = double_rows(index)
    return crf.joint_loss(index.head(rows.features, rows.lengths), pad_rows(rows.labels, rows.lengths)).detach()


def test_thirteen_methods_come_first(index: Index, given: Trusted, experts: list[Sentence]) -> None:
    found = rank_documents(index, given, document_numbers(experts), mispredicted(given))
    assert tuple(found)[:13] == PAPER
    assert "segment influence, mean (mispredicted, cosine)" in found
    assert {len(scores) for scores in found.values()} == {len(find_candidates(index, "document"))}
    perfect = replace(given, predicted=given.rows.labels)
    assert mispredicted(perfect) == {}


def test_curves_and_measures_on_numbers() -> None:
    wrong = torch.tensor([True, False, True, False, False])
    assert ranks(torch.tensor([3.0, 1.0, 2.0, 5.0, 4.0]), wrong) == [3, 4]
    assert ranks(torch.zeros(5), wrong) == [1, 3], "equal scores in the order of the data"
    assert curve([3, 4], 5) == [0.0, 0.0, 0.5, 1.0, 1.0]
    assert area([3, 4], 5) == pytest.approx(sum(curve([3, 4], 5)) / 5)
    found = measures([3, 4], 5)
    assert found["AP"] == pytest.approx((1 / 3 + 2 / 4) / 2)
    assert found["recall at 20"] == 1.0
    assert measures([1, 30, 60], 100)["recall at 50"] == pytest.approx(2 / 3)
    every_place = [area([rank], 7) for rank in range(1, 8)]
    assert chance_area(7) == pytest.approx(sum(every_place) / 7)


def test_a_curve_has_a_value_for_every_number_of_documents() -> None:
    for size in (1, 2, 3, 50, 879):
        found = curve([size], size)
        assert found == [0.0] * (size - 1) + [1.0]


def invented(first: int, *, seed: int = 0, num_documents: int = 40) -> Found:
    """Three wrong documents at ``first`` and the next places by all methods."""
    found_at = [first, first + 1, first + 2]
    return {
        "seed": seed, "num_documents": num_documents, "num_wrong": 3, "ranks": dict.fromkeys(PAPER, found_at)
    }  # fmt: skip


def test_check_reports_rankings_no_better_than_chance() -> None:
    assert check([invented(1)]) == []
    reversed_ = check([invented(38)])
    assert len(reversed_) == 2
    assert "token loss, mean" in reversed_[0]
    partial = invented(1)
    partial["ranks"] = {"instance loss": [1, 2, 3]}
    assert len(check([partial])) == 12
    assert not_above([invented(1)], "instance loss", "instance loss") != []


def test_table_and_mean_curves_are_over_seeds() -> None:
    founds = [invented(1), invented(3)]
    text = table(founds)
    assert "| instance loss | 0.950 ± 0.035 |" in text  # areas 0.975 and 0.925
    assert "| chance | 0.512 ± 0.000 |" in text
    assert "without numbers" in text
    curves = mean_curves(founds, ["instance loss"])
    assert curves["instance loss"][:5] == pytest.approx([1 / 6, 1 / 3, 2 / 3, 5 / 6, 1.0], abs=1e-4)
    assert curves["chance"][19] == 0.5
    assert "| at best | 0.975 ± 0.000 | 1.000 ± 0.000 | 1.000 ± 0.000 |" in text
    assert curve_table(founds).count("\n") == 2 + 13 + 2


def test_draw_writes_both_figures(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    assert [path.name for path in draw([invented(1)], tmp_path)] == [
        "errors.svg", "errors.png", "errors-all.svg", "errors-all.png"
    ]  # fmt: skip


def sentence(name: str, length: int, label: str = "O", first: str = "w") -> Sentence:
    return Sentence((first, *["w"] * (length - 1)), (label,) * length, name)


def test_documents_come_from_ids() -> None:
    sentences = conll.with_documents([sentence("conll_train_12_0", 2), sentence("conll_train_12_1", 3)])
    assert {one.document for one in sentences} == {"conll_train_12"}
    more = conll.with_documents([sentence("a_7_0", 400), sentence("a_7_1", 400), sentence("a_8_0", 799)])
    assert conll.short_documents([*sentences, *more]) == ["conll_train_12", "a_8"]


def test_ten_documents_are_drawn_among_short_ones_of_those_named() -> None:
    sentences = conll.with_documents([sentence(f"d_{number}_0", 900 if number == 3 else 2) for number in range(15)])
    names = {f"d_{number}" for number in range(12)}
    drawn = conll.ten_documents(sentences, names, 1)
    assert len({one.document for one in drawn}) == 10
    assert {one.document for one in drawn} <= names - {"d_3"}
    assert drawn == conll.ten_documents(sentences, names, 1)
    assert any(conll.ten_documents(sentences, names, seed) != drawn for seed in range(2, 6))
    assert len(conll.ten_documents(sentences, names, 1, count=2)) == 2


def test_soccer_documents_begin_with_the_word() -> None:
    sentences = conll.with_documents(
        [sentence("d_0_0", 2, first="SOCCER"), sentence("d_1_0", 2), sentence("d_1_1", 2, first="Soccer")]
    )
    assert conll.soccer_documents(sentences) == {"d_0"}


@pytest.mark.skipif(not DATA.is_dir(), reason=f"no real data in {DATA}; set TAGTRACE_DATA")
def test_the_papers_counts_of_documents() -> None:
    corpus, wrong = erroneous_corpus(DATA, 0, 0)
    assert (len(corpus.documents), len(wrong)) == (879, 122)


@pytest.mark.skipif(not DATA.is_dir(), reason=f"no real data in {DATA}; set TAGTRACE_DATA")
def test_quick_run_finds_wrong_documents_sooner_than_chance(tmp_path: Path) -> None:
    found = run_seed(EXPERIMENT, Setting(DATA, tmp_path, quick=True, report=lambda _: None), 0)
    assert check([found]) == []
    assert found["num_documents"] == 100
    assert tuple(found["ranks"])[:13] == PAPER
    turned = {name: sorted(101 - rank for rank in places) for name, places in found["ranks"].items()}
    assert len(check([found | {"ranks": turned}])) == 2, "the other way round is reported"
