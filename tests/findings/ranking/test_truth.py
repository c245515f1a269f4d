"""Truth: labels compared sentence by sentence, and metrics against enumeration of every order of ties."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise, permutations
from math import isnan
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tagtrace._checks import DataError, OptionError
from tagtrace.data import Corpus, LabelSet, ReadOptions, Sentence, join_documents, read_corpus
from tagtrace.data.invented import generate, write_invented
from tagtrace.findings.finding import Finding
from tagtrace.findings.ranking.truth import (
    average_precision,
    finding_is_wrong,
    measure,
    precision_at,
    read_truth,
    recall_at,
    recall_curve,
    wrong_tokens,
)
from tagtrace.index import Index, IndexOptions, build_index
from tagtrace.tagger import new_tagger
from tests.findings.made import LABELS, make_corpus, make_index
from tests.index.test_build import Spelt

small = st.lists(st.tuples(st.integers(0, 2), st.booleans()), min_size=1, max_size=6)
"""Scores with many ties, and whether each is wrong."""


def tensors(tokens: list[tuple[int, bool]]) -> tuple[torch.Tensor, torch.Tensor]:
    scores, wrong = zip(*tokens, strict=True)
    return torch.tensor(scores, dtype=torch.float64), torch.tensor(wrong)


def orders(tokens: list[tuple[int, bool]]) -> list[list[bool]]:
    """The truths in every order that the scores allow, the highest first."""
    every = [[tokens[place] for place in order] for order in permutations(range(len(tokens)))]
    return [[w for _, w in one] for one in every if all(a[0] >= b[0] for a, b in pairwise(one))]


@given(small)
def test_recall_and_precision_are_means_over_the_orders_of_ties(tokens: list[tuple[int, bool]]) -> None:
    scores, wrong = tensors(tokens)
    curve = dict(recall_curve(scores, wrong))
    for k in range(1, len(tokens) + 2):
        hits = [sum(order[:k]) for order in orders(tokens)]
        mean = sum(hits) / len(hits)
        assert precision_at(scores, wrong, k) == pytest.approx(mean / min(k, len(tokens)))
        if bool(wrong.any()):
            assert recall_at(scores, wrong, k) == pytest.approx(mean / int(wrong.sum()))
            if k <= len(tokens):
                assert curve[k] == pytest.approx(recall_at(scores, wrong, k))
        else:
            assert isnan(recall_at(scores, wrong, k))


@given(small)
def test_average_precision_takes_equal_scores_as_one_threshold(tokens: list[tuple[int, bool]]) -> None:
    scores, wrong = tensors(tokens)
    if not bool(wrong.any()):
        assert isnan(average_precision(scores, wrong))
        return
    total = before = 0.0
    for threshold in sorted({score for score, _ in tokens}, reverse=True):
        found = [is_wrong for score, is_wrong in tokens if score >= threshold]
        recall = sum(found) / int(wrong.sum())
        total += (recall - before) * sum(found) / len(found)
        before = recall
    assert average_precision(scores, wrong) == pytest.approx(total)


def test_average_precision_by_hand() -> None:
    wrong = torch.tensor([True, False, True, False, False])
    assert average_precision(torch.tensor([5.0, 4.0, 3.0, 2.0, 1.0]), wrong) == pytest.approx((1 / 1 + 2 / 3) / 2)
    assert average_precision(torch.tensor([5.0, 4.0, 4.0, 2.0, 1.0]), wrong) == pytest.approx((1 / 1 + 2 / 3) / 2)
    assert average_precision(torch.tensor([1.0, 4.0, 4.0, 2.0, 1.0]), wrong) == pytest.approx((1 / 2 + 2 / 5) / 2)
    assert average_precision(torch.zeros(5), wrong) == pytest.approx(2 / 5)
    assert average_precision(torch.tensor([1.0, -1.0, torch.inf, 0.0, -torch.inf]), wrong) == pytest.approx(1.0)


def test_metrics_are_those_of_scikit_learn() -> None:
    sklearn = pytest.importorskip("sklearn.metrics")
    generator = torch.Generator().manual_seed(0)
    scores = torch.randint(0, 40, (3000,), generator=generator).double() / 7
    wrong = torch.rand(3000, generator=generator) < 0.03 + 0.02 * scores
    assert average_precision(scores, wrong) == pytest.approx(sklearn.average_precision_score(wrong, scores))


def test_curve_rises_from_the_first_token_to_all() -> None:
    generator = torch.Generator().manual_seed(1)
    scores, wrong = torch.rand(5000, generator=generator), torch.rand(5000, generator=generator) < 0.1
    curve = recall_curve(scores, wrong, 50)
    counts, recall = zip(*curve, strict=True)
    assert counts[0] == 1
    assert counts[-1] == 5000
    assert recall[-1] == pytest.approx(1.0)
    assert 30 < len(curve) <= 50
    assert list(counts) == sorted(set(counts))
    assert list(recall) == sorted(recall)
    assert [recall_at(scores, wrong, k) for k in counts] == pytest.approx(list(recall))


def test_measured() -> None:
    scores = torch.arange(2000.0)
    wrong = scores >= 1800
    found = measure("loss", scores, wrong)
    assert (found.name, found.num_tokens, found.num_wrong) == ("loss", 2000, 200)
    assert found.average_precision == pytest.approx(1.0)
    assert found.recall == {100: pytest.approx(0.5), 500: pytest.approx(1.0), 1000: pytest.approx(1.0)}
    assert measure("none", scores, scores < 0).num_wrong == 0
    empty = measure("empty", torch.zeros(0), torch.zeros(0, dtype=torch.bool))
    assert empty.curve == ()
    assert isnan(empty.average_precision)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: average_precision(torch.tensor([1.0, torch.nan]), torch.tensor([True, False])), "1 of the scores are"),
        (lambda: average_precision(torch.zeros(3), torch.tensor([True, False])), "a boolean for each score"),
        (lambda: average_precision(torch.zeros(2), torch.tensor([1, 0])), "a boolean for each score"),
        (lambda: recall_at(torch.zeros(2), torch.tensor([True, False]), 0), "k 0: must be at least 1"),
        (lambda: recall_curve(torch.zeros(2), torch.tensor([True, False]), 1), "num_points 1"),
    ],
    ids=["nan", "shapes", "not-boolean", "k", "num-points"],
)
def test_metrics_refuse(call: Callable[[], object], message: str) -> None:
    with pytest.raises((DataError, OptionError), match=message):
        call()


def relabel(corpus: Corpus, places: set[tuple[int, int]]) -> Corpus:
    """The corpus with the type of these (sentence, token) labels changed; iob2 is not kept."""
    other = {"O": "B-X", "B-X": "B-Y", "I-X": "B-Y", "B-Y": "O", "I-Y": "O"}
    sentences = [
        sentence.with_labels([other[x] if (i, t) in places else x for t, x in enumerate(sentence.labels)])
        for i, sentence in enumerate(corpus.sentences)
    ]
    return replace(corpus, path=Path("true.conll"), sentences=tuple(sentences))


PLACES = {(0, 0), (4, 0), (9, 0), (17, 0)}


def expected(corpus: Corpus) -> list[bool]:
    return [(i, t) in PLACES for i, sentence in enumerate(corpus.sentences) for t in range(len(sentence))]


def other_ids(sentences: tuple[Sentence, ...]) -> tuple[Sentence, ...]:
    return tuple(replace(sentence, id=f"true:{number}") for number, sentence in enumerate(sentences))


@pytest.mark.parametrize(
    "arranged",
    [
        lambda sentences: sentences,
        lambda sentences: tuple(random.Random(0).sample(sentences, len(sentences))),
        lambda sentences: (Sentence(("more",), ("O",), "other:0"), *sentences),
        other_ids,
    ],
    ids=["as-is", "another-order", "more-sentences", "other-ids"],
)
def test_wrong_tokens_are_those_with_another_label(
    tmp_path: Path, arranged: Callable[..., tuple[Sentence, ...]]
) -> None:
    corpus = make_corpus()
    index = make_index(tmp_path, corpus)
    true = relabel(corpus, PLACES)
    true = true.with_sentences(arranged(true.sentences))
    assert wrong_tokens(index, true).tolist() == expected(corpus)
    labels = read_truth(index, true).labels
    assert labels[0] == LABELS.index(relabel(corpus, PLACES).sentences[0].labels[0])


def test_repeated_ids_are_taken_in_order(tmp_path: Path) -> None:
    corpus = make_corpus()
    corpus = corpus.with_sentences(replace(one, id=f"s{number // 2}") for number, one in enumerate(corpus.sentences))
    index = make_index(tmp_path, corpus)
    assert wrong_tokens(index, relabel(corpus, PLACES)).tolist() == expected(corpus)


def document_index(folder: Path, corpus: Corpus) -> Index:
    tagger = new_tagger(Spelt(dim=4), LABELS, unit="document")
    return build_index(tagger, corpus, folder / "index", IndexOptions(dtype="float32", l2=0.5))


def test_documents_are_joined_where_the_tagger_joined_them(tmp_path: Path) -> None:
    sentences = sorted(make_corpus().sentences, key=lambda sentence: sentence.document)
    corpus = make_corpus().with_sentences(sentences)
    index = document_index(tmp_path, corpus)
    assert index.num_sentences == 6 == len(join_documents(sentences))
    true = relabel(corpus, PLACES)
    assert wrong_tokens(index, true).tolist() == expected(corpus)
    with pytest.raises(DataError, match=r"has 5 documents but not 'doc-0', one of the 6 of the index"):
        wrong_tokens(index, true.with_sentences(true.sentences[3:]))


def test_invented_errors_are_found_in_the_files(tmp_path: Path) -> None:
    """Ids of CoNLL files begin with the file's name, so that sentences are found by their order."""
    made = generate(seed=3, num_documents=20)
    write_invented(made, tmp_path)
    train, true = (read_corpus(tmp_path / f"{name}.conll") for name in ("train", "train_true"))
    tagger = new_tagger(Spelt(dim=4), LabelSet.from_sentences(train.sentences, "iob2"))
    index = build_index(tagger, train, tmp_path / "index", IndexOptions(dtype="float32", l2=1.0))
    planted = {
        error.row + place
        for error in made.errors
        for place, (a, b) in enumerate(zip(error.true_labels, error.planted_labels, strict=True))
        if a != b
    }
    assert set(wrong_tokens(index, true).nonzero().squeeze(1).tolist()) == planted
    assert len(planted) > 10
    assert not wrong_tokens(index, train).any()


def damaged(name: str) -> Corpus:
    corpus = make_corpus()
    first, *rest = corpus.sentences
    longer = replace(first, tokens=(*first.tokens, "more"), labels=(*first.labels, "O"), lines=range(7, 8 + len(first)))
    sentences = {
        "missing": rest,
        "renamed": [replace(first, id="other"), *rest, first.with_labels(first.labels)][:-1],
        "token": [replace(first, tokens=("other", *first.tokens[1:]), lines=range(7, 7 + len(first))), *rest],
        "longer": [longer, *rest],
        "label": [first.with_labels(["B-Z"] * len(first)), *rest],
        "unlabelled": [first.with_labels(()), *rest],
        "scheme": corpus.sentences,
    }
    scheme = "plain" if name == "scheme" else "iob2"
    return Corpus(Path("true.conll"), tuple(sentences[name]), scheme, ReadOptions(), "made")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing", r"true.conll: has 17 sentences but not 's0:0', one of the 18 of the index; give the training data"),
        ("token", r"true.conll, line 7: token 0 of s0:0 differs from the index; give the training data"),
        ("longer", r"true.conll, line \d+: token \d of s0:0 differs from the index"),
        ("label", r"unknown label 'B-Z'; the known labels are O, B-X"),
        ("unlabelled", r"true.conll: has no labels here"),
        ("scheme", r"true.conll: the true labels are plain, those of the index iob2"),
    ],
)
def test_another_corpus_is_refused(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        wrong_tokens(make_index(tmp_path), damaged(name))
    assert "\n" not in str(caught.value)


def test_one_other_id_is_no_reason_to_refuse(tmp_path: Path) -> None:
    assert not wrong_tokens(make_index(tmp_path), damaged("renamed")).any()


def findings_of(index: Index, places: list[tuple[int, int, int]], proposed: list[tuple[str, ...]]) -> list[Finding]:
    found: list[Finding] = []
    for rank, ((number, start, stop), labels) in enumerate(zip(places, proposed, strict=True), start=1):
        one = index.sentence(number)
        found.append(
            Finding(
                rank,
                one.id,
                one.document,
                number,
                start,
                stop,
                1,
                one.tokens[start:stop],
                (),
                (),
                one.labels[start:stop],
                labels,
                1.0,
                0.5,
            )
        )
    return found


def test_findings_are_judged_token_by_token(tmp_path: Path) -> None:
    corpus = make_corpus()
    index = make_index(tmp_path, corpus)
    true = relabel(corpus, PLACES)
    longer = next(i for i, one in enumerate(corpus.sentences) if len(one) > 1 and (i, 0) in PLACES)
    places = [(longer, 0, 1), (longer, 0, 2), (longer, 1, 2), (1, 0, 1), (longer, 0, 1)]
    proposed = [true.sentences[number].labels[start:stop] for number, start, stop in places]
    proposed[3] = ("B-Y",) if proposed[3] != ("B-Y",) else ("O",)
    proposed[4] = corpus.sentences[longer].labels[:1]
    judged = finding_is_wrong(findings_of(index, places, proposed), index, read_truth(index, true))
    assert judged.is_wrong.tolist() == [True, True, False, False, True]
    assert judged.is_true.tolist() == [True, True, True, False, False]
    assert finding_is_wrong([], index, read_truth(index, true)).is_wrong.shape == (0,)


def test_findings_of_another_index_are_refused(tmp_path: Path) -> None:
    index = make_index(tmp_path)
    truth = read_truth(index, make_corpus())
    (one,) = findings_of(index, [(0, 0, 1)], [("O",)])
    for other in (replace(one, tokens=("other",)), replace(one, sentence_number=99)):
        with pytest.raises(DataError, match=r"finding 1 \(s0:0\) is not about .*; give the index that was audited"):
            finding_is_wrong([other], index, truth)
