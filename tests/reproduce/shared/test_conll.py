"""Documents of the paper's CoNLL-2003 files."""

from __future__ import annotations

from collections import Counter

import pytest

from tagtrace.data import Sentence
from tagtrace.reproduce.shared import conll
from tests.places import DATA


def sentence(name: str, length: int, label: str = "O", first: str = "w") -> Sentence:
    return Sentence((first, *["w"] * (length - 1)), (label,) * length, name)


def test_documents_come_from_ids() -> None:
    sentences = conll.with_documents([sentence("conll_train_12_0", 2), sentence("conll_train_12_1", 3)])
    assert {one.document for one in sentences} == {"conll_train_12"}
    more = conll.with_documents([sentence("a_7_0", 400), sentence("a_7_1", 400), sentence("a_8_0", 799)])
    assert conll.short_documents([*sentences, *more]) == ["conll_train_12", "a_8"]


def test_documents_are_drawn_among_the_short_ones_of_those_named() -> None:
    sentences = conll.with_documents([sentence(f"d_{number}_0", 900 if number == 3 else 2) for number in range(15)])
    names = {f"d_{number}" for number in range(12)}
    drawn = conll.sample_documents(sentences, names, 1)
    assert len({one.document for one in drawn}) == 10
    assert {one.document for one in drawn} <= names - {"d_3"}
    assert drawn == conll.sample_documents(sentences, names, 1)
    assert any(conll.sample_documents(sentences, names, seed) != drawn for seed in range(2, 6))
    assert len(conll.sample_documents(sentences, names, 1, count=2)) == 2


def test_soccer_documents_begin_with_the_word() -> None:
    sentences = conll.with_documents(
        [sentence("d_0_0", 2, first="SOCCER"), sentence("d_1_0", 2), sentence("d_1_1", 2, first="Soccer")]
    )
    assert conll.soccer_documents(sentences) == {"d_0"}


@pytest.mark.skipif(not DATA.is_dir(), reason=f"no real data in {DATA}; set TAGTRACE_DATA")
def test_published_noise_has_the_counts_of_its_readme() -> None:
    corpus, kinds = conll.published_noise(DATA)
    assert Counter(kinds.values()) == {"org_to_loc": 20, "random": 100}
    true = conll.in_documents(conll.read_split(DATA, "train_corrected").sentences, corpus.documents)
    pairs = [
        (kinds.get(old.document), before, after)
        for old, new in zip(true, corpus.sentences, strict=True)
        for before, after in zip(old.labels, new.labels, strict=True)
        if before != after
    ]
    assert Counter(kind for kind, _, _ in pairs) == {"org_to_loc": 406, "random": 3599}
    assert len(corpus.documents) == 879
