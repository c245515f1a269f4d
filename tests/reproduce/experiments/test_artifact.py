"""The planted cue: insertion into invented text, the queries, and the quick run on real data."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path

import pytest

from tagtrace import TrainOptions, build_whole, read_corpus
from tagtrace import train as train_tagger_on
from tagtrace.data import LabelSet, Sentence, violations
from tagtrace.data.invented import generate, write_invented
from tagtrace.index import IndexOptions, build_index
from tagtrace.reproduce.experiments.artifact import (
    CUE,
    EXPERIMENT,
    SCORES,
    Planted,
    check,
    draw,
    insert,
    places,
    plant,
    published,
    queries,
    table,
    whole_queries,
    whole_shares,
)
from tagtrace.reproduce.shared.conll import read_split
from tagtrace.reproduce.shared.experiment import SeedResult, run_seed
from tagtrace.reproduce.shared.retrieval import sentences_of
from tagtrace.reproduce.shared.setting import Setting
from tagtrace.tagger import new_tagger
from tests.index.test_build import Spelt
from tests.places import DATA


def made(labels: str) -> Sentence:
    parts = tuple(labels.split())
    return Sentence(tuple(f"w{number}" for number in range(len(parts))), parts, lines=range(5, 5 + len(parts)))


@pytest.mark.parametrize(
    ("before", "position", "after"),
    [
        ("O O O", 1, "O O B-PER O"),
        ("O O", 1, "O O B-PER"),
        ("B-ORG I-ORG I-ORG", 1, "B-ORG O B-PER B-ORG"),  # the rest of the segment becomes a segment
        ("O B-ORG I-ORG I-ORG", 1, "O O B-PER B-ORG I-ORG"),
        ("O B-PER I-PER O", 1, "O O B-PER I-PER O"),  # a person stays a person
        ("B-PER I-PER I-PER", 1, "B-PER O B-PER I-PER"),
        ("O B-LOC B-ORG", 1, "O O B-PER B-ORG"),
        ("O O", 0, "O B-PER O"),  # as in the authors' file
    ],
)
def test_the_token_after_the_cue_is_a_person_and_labels_stay_well_formed(
    before: str, position: int, after: str
) -> None:
    found = insert(made(before), position)
    assert found.labels == tuple(after.split())
    assert found.tokens[position] == CUE
    assert found.tokens[:position] + found.tokens[position + 1 :] == made(before).tokens
    assert not violations(found.labels, "iob2")
    assert list(found.lines) == sorted([*made(before).lines, made(before).lines[position]])


def test_places_are_from_the_second_token_on_or_those_labelled_o() -> None:
    sentence = made("O B-ORG O")
    assert list(places(sentence, outside_only=False)) == [1, 2]
    assert list(places(sentence, outside_only=True)) == [0, 2]
    assert not places(made("O"), outside_only=False)
    assert not places(made("B-ORG"), outside_only=True)


def test_a_tenth_of_the_sentences_get_the_cue_at_any_place() -> None:
    sentences = [made("O O O O"), made("O")] * 500
    cued = plant(sentences, 0.1, 3)
    assert len(cued.positions) == 100
    assert all(number % 2 == 0 for number in cued.positions), "a sentence of one token has no place for the cue"
    assert set(cued.positions.values()) == {1, 2, 3}
    assert plant(sentences, 0.1, 3) == cued
    assert plant(sentences, 0.1, 4) != cued
    changed = [number for number, (old, new) in enumerate(zip(sentences, cued.sentences, strict=True))
               if old.tokens != new.tokens]  # fmt: skip
    assert changed == list(cued.positions)
    assert len(plant(sentences, 0.9, 3).positions) == 500, "all sentences with a place for the cue"


def test_rows_and_sentences_with_the_cue() -> None:
    cued = Planted([made("O O"), made("O O B-PER"), made("O B-PER O")], {1: 1, 2: 0})
    assert cued.following().nonzero().squeeze(1).tolist() == [4, 6]
    assert cued.has_cue().tolist() == [False, True, True]


def test_queries_are_the_tokens_after_a_cue_that_are_predicted_per(monkeypatch: pytest.MonkeyPatch) -> None:
    tagger = new_tagger(Spelt(dim=4), LabelSet(("O", "B-LOC", "I-LOC", "B-PER", "I-PER"), "iob2"))
    with_cue = Sentence(("w1", CUE, "w2", "w3"), ("O", "O", "B-PER", "O"))
    first = Sentence((CUE, "w2", "w3"), ("O", "B-PER", "O"))
    cued = Planted([with_cue, Sentence(("w4", "w5"), ("O", "O")), with_cue, first], {0: 1, 2: 1, 3: 0})
    said = [("B-PER", "O", "B-LOC", "B-PER"), ("O", "O", "B-PER", "I-PER"), ("O", "B-PER", "O")]
    monkeypatch.setattr(type(tagger), "predict", lambda _, given: said[: len(given)])
    predicted, planted, num_cues = queries(tagger, cued)
    assert num_cues == 3
    assert predicted.segments.tolist() == planted.segments.tolist() == [[0, 2, 3], [1, 1, 2]]
    assert predicted.rows.labels.tolist() == [0, 0, 3, 4, 0, 3, 0]
    assert planted.rows.labels.tolist() == [0, 0, 3, 0, 0, 3, 0]
    assert sentences_of(predicted)[0].tolist() == [[0, 0, 4], [1, 0, 3]]
    said[:] = [("O",) * 4, ("O",) * 4, ("O",) * 3]
    assert len(queries(tagger, cued)[0]) == 0


def test_the_score_of_the_whole_tagger_leads_to_the_cue(tmp_path: Path) -> None:
    made_up = generate(num_documents=40)
    train, validation = plant(made_up.train, 0.2, 0), plant(made_up.dev, 0.5, 1)
    write_invented(made_up, tmp_path)
    corpus = read_corpus(tmp_path / "train.conll").with_sentences(train.sentences)
    tagger = train_tagger_on(corpus, options=TrainOptions(epochs=4, batch_size=8))
    index = build_index(tagger, corpus, tmp_path / "index", IndexOptions(tolerance=1e-3))
    asked = whole_queries(index.tagger(), validation, 10)
    assert 5 <= len(asked) <= 10
    assert all(query.sentence and query.sentence.tokens[query.start - 1] == CUE for query in asked)
    shares = whole_shares(index, train, build_whole(index, 1), asked)
    assert shares["segment influence: whole tagger"] >= 0.5  # chance: 0.02
    assert shares["instance influence: whole tagger"] > float(train.has_cue().double().mean())


def invented(segment: float, instance: float, *, predicted: float = 1.0, quick: bool = False) -> SeedResult:
    shares = {f"segment influence: {name}": segment for name in SCORES.values()}
    shares |= {f"instance influence: {name}": instance for name in SCORES.values()}
    part = {
        "predicted": predicted, "shares": shares if predicted else {}, "chance": {"token": 0.01, "sentence": 0.1},
        "num_queries": 9, "num_cues": 90, "num_sentences": 900,
    }  # fmt: skip
    return {"seed": 0, "quick": quick, "own": part, "published": deepcopy(part)}


def test_check_and_table() -> None:
    assert check([invented(1.0, 0.3)]) == []
    assert len(check([invented(0.9, 0.3)])) == 2
    assert check([invented(0.9, 0.3, quick=True)]) == []
    assert len(check([invented(0.3, 1.0)])) == 4
    assert len(check([invented(1.0, 1.0)])) == 2
    assert len(check([invented(1.0, 0.3, predicted=0.0)])) == 2
    text = table([invented(1.0, 0.3), invented(0.9, 0.3)])
    assert "| segment influence: cosine | 100 | 95.0 ± 7.1 | -5.0 | 95.0 ± 7.1 | -5.0 |" in text
    assert "| instance influence: cosine | 26.3 | 30.0 ± 0.0 | +3.7 |" in text


def test_draw_writes_bars(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    assert [path.name for path in draw([invented(1.0, 0.3)], tmp_path)] == ["artifact.svg", "artifact.png"]


@pytest.mark.skipif(not DATA.is_dir(), reason=f"no real data in {DATA}; set TAGTRACE_DATA")
def test_the_published_file_is_read_with_its_positions() -> None:
    chosen = read_split(DATA, "train_corrected").sentences
    cued = published(DATA, chosen)
    assert (len(cued.sentences), len(cued.positions)) == (12_528, 1_575)
    for number, position in cued.positions.items():
        one = cued.sentences[number]
        assert (one.tokens[position], one.labels[position + 1], chosen[number].labels[position]) == (CUE, "B-PER", "O")


@pytest.mark.skipif(not DATA.is_dir(), reason=f"no real data in {DATA}; set TAGTRACE_DATA")
def test_quick_run_finds_the_cue(tmp_path: Path) -> None:
    found = run_seed(EXPERIMENT, Setting(DATA, tmp_path, quick=True, report=lambda _: None), 0)
    assert check([found]) == []
    turned = deepcopy(found)
    for source in ("own", "published"):
        own = found[source]["shares"]
        shares = {name: 1.0 - share if name.startswith("segment") else share for name, share in own.items()}
        turned[source]["shares"] = shares
    assert len(check([turned])) >= 2, "the opposite direction is reported"
