"""The invented corpus: its labels, its names and the errors planted in it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tagtrace import TagtraceError, read_corpus
from tagtrace.data.invented import (
    SYSTEMATIC_KIND,
    TYPES,
    InventedCorpus,
    PlantedError,
    generate,
    write_invented,
)
from tagtrace.data.invented.words import CITIES
from tagtrace.data.sentence import Segment, Sentence

SPLITS = ("train", "train_true", "dev", "test")
CITY_TOKENS = {tuple(city.lower().split()) for city in CITIES}


@pytest.fixture(scope="module")
def corpus() -> InventedCorpus:
    return generate(seed=0)


def segments(labels: tuple[str, ...]) -> list[Segment]:
    """The segments of IOB2 labels; an I- that continues nothing is an error."""
    found: list[Segment] = []
    for t, label in enumerate(labels):
        prefix, _, type_ = label.partition("-")
        if prefix == "B":
            found.append(Segment(t, t + 1, type_))
        elif prefix == "I":
            assert found, labels
            assert (found[-1].stop, found[-1].type) == (t, type_), labels
            found[-1] = replace(found[-1], stop=t + 1)
        else:
            assert label == "O"
    return found


def names(sentences: tuple[Sentence, ...], type_: str | None = None) -> Counter[tuple[str, ...]]:
    """How often each name occurs, in lower case, with one type or any."""
    return Counter(
        tuple(token.lower() for token in s.tokens[g.start : g.stop])
        for s in sentences
        for g in segments(s.labels)
        if type_ in (None, g.type)
    )


def documents_of(sentences: tuple[Sentence, ...], kind: str) -> set[str]:
    """The documents whose headline begins with the kind in capitals."""
    first = {s.document: s for s in reversed(sentences)}
    return {document for document, s in first.items() if s.tokens[:2] == (kind.upper(), "-")}


def is_bare_club(error: PlantedError) -> bool:
    return tuple(token.lower() for token in error.tokens) in CITY_TOKENS


def test_the_same_seed_gives_the_same_corpus_and_another_seed_another(corpus: InventedCorpus) -> None:
    assert generate(seed=0) == corpus
    assert generate(seed=1).train != corpus.train


def test_the_text_does_not_depend_on_the_errors_asked_for(corpus: InventedCorpus) -> None:
    clean = generate(seed=0, systematic_share=0, random_share=0)
    assert clean.errors == ()
    assert clean.train == clean.train_true == corpus.train_true


def test_default_sizes(corpus: InventedCorpus) -> None:
    num_documents = {split: len({s.document for s in getattr(corpus, split)}) for split in SPLITS}
    assert num_documents == {"train": 280, "train_true": 280, "dev": 60, "test": 60}
    assert 2_000 <= len(corpus.train) <= 2_800
    assert 22_000 <= sum(map(len, corpus.train)) <= 35_000
    per_document = Counter(s.document for s in corpus.train)
    assert min(per_document.values()) >= 4
    assert max(per_document.values()) <= 15


@pytest.mark.parametrize("split", SPLITS)
def test_sentences_are_complete_and_labels_are_iob2(corpus: InventedCorpus, split: str) -> None:
    sentences: tuple[Sentence, ...] = getattr(corpus, split)
    assert len({s.id for s in sentences}) == len(sentences)
    offset = 0
    for sentence in sentences:
        assert sentence.tokens
        assert sentence.is_labelled
        assert all(token and token.split() == [token] for token in sentence.tokens)
        assert not any(set(token) & set("<>{}|") for token in sentence.tokens), "a template was left unfilled"
        assert {g.type for g in segments(sentence.labels)} <= set(TYPES)
        assert sentence.offset == offset
        offset += len(sentence)


def test_a_city_is_a_place_and_a_club(corpus: InventedCorpus) -> None:
    for split in (corpus.train_true, corpus.dev, corpus.test):
        both = set(names(split, "LOC")) & set(names(split, "ORG")) & CITY_TOKENS
        assert len(both) > 20


def test_a_surname_is_a_person_and_a_company(corpus: InventedCorpus) -> None:
    both = set(names(corpus.train_true, "PER")) & set(names(corpus.train_true, "ORG")) - CITY_TOKENS
    assert len(both) > 20


@pytest.mark.parametrize("split", ["dev", "test"])
def test_some_names_are_seen_in_training_and_some_are_not(corpus: InventedCorpus, split: str) -> None:
    known = names(corpus.train_true)
    for type_ in TYPES:
        held_out = names(getattr(corpus, split), type_)
        share_unseen = sum(n for name, n in held_out.items() if name not in known) / held_out.total()
        assert 0.02 < share_unseen < 0.8, type_


@pytest.mark.parametrize("seed", range(5))
def test_train_is_wrong_where_the_errors_say_and_nowhere_else(seed: int) -> None:
    corpus = generate(seed, num_documents=200, random_share=0.2)
    labels = {s.id: list(s.labels) for s in corpus.train_true}
    for error in corpus.errors:
        place = slice(error.start, error.stop)
        assert tuple(labels[error.sentence][place]) == error.true_labels, "two errors overlap"
        assert error.planted_labels != error.true_labels
        labels[error.sentence][place] = list(error.planted_labels)
    assert [tuple(labels[s.id]) for s in corpus.train] == [s.labels for s in corpus.train]
    for sentence in corpus.train:
        segments(sentence.labels)


def test_errors_say_where_they_are(corpus: InventedCorpus) -> None:
    tokens = [token for s in corpus.train for token in s.tokens]
    documents = {s.id: s.document for s in corpus.train}
    for error in corpus.errors:
        assert documents[error.sentence] == error.document
        assert tuple(tokens[error.row : error.row + error.stop - error.start]) == error.tokens
        assert len(error.true_labels) == len(error.planted_labels) == len(error.tokens)
        assert {g.type for g in segments(error.true_labels)} == {error.true_type}
        assert {g.type for g in segments(error.planted_labels)} | {"O"} == {error.planted_type, "O"}
        assert PlantedError.from_json(error.to_json()) == error


def test_systematic_errors_are_the_bare_clubs_of_most_handball_reports(corpus: InventedCorpus) -> None:
    systematic = [e for e in corpus.errors if e.kind == "systematic"]
    assert {(e.true_type, e.planted_type) for e in systematic} == {("ORG", "LOC")}
    assert all(is_bare_club(e) for e in systematic)
    reports = documents_of(corpus.train, SYSTEMATIC_KIND)
    wrong = {e.document for e in systematic}
    assert wrong < reports
    assert 0.6 * len(reports) < len(wrong) <= 0.8 * len(reports) + 1
    left = [s for s in corpus.train if s.document in wrong]
    right = tuple(s for s in corpus.train_true if s.document in wrong)
    num_clubs = sum(n for name, n in names(right, "ORG").items() if name in CITY_TOKENS)
    assert len(systematic) == num_clubs > 200
    assert any(label == "B-ORG" for s in left for label in s.labels), "clubs with longer names keep ORG"


def test_random_errors_are_as_many_as_asked_for_and_of_all_sorts(corpus: InventedCorpus) -> None:
    num_segments = sum(len(segments(s.labels)) for s in corpus.train_true)
    random = [e for e in corpus.errors if e.kind == "random"]
    others = num_segments - sum(e.kind == "systematic" for e in corpus.errors)
    assert {e.kind for e in corpus.errors} == {"systematic", "random"}
    assert 0.01 < len(random) / others < 0.02
    sorts = Counter(
        "dropped" if e.planted_type == "O" else "boundary" if e.planted_type == e.true_type else "type" for e in random
    )
    assert min(sorts[sort] for sort in ("dropped", "boundary", "type")) >= 5
    assert generate(seed=0, random_share=0).errors == tuple(e for e in corpus.errors if e.kind == "systematic")


def test_files_read_back_as_they_were(corpus: InventedCorpus, tmp_path: Path) -> None:
    write_invented(corpus, tmp_path / "demo")
    assert sorted(path.name for path in (tmp_path / "demo").iterdir()) == sorted(
        [f"{split}.conll" for split in SPLITS] + ["planted.jsonl"]
    )
    for split in SPLITS:
        sentences: tuple[Sentence, ...] = getattr(corpus, split)
        text = (tmp_path / "demo" / f"{split}.conll").read_bytes().decode("utf-8")
        lines = text.split("\n")
        assert lines[:2] == ["-DOCSTART-\tO", ""]
        assert lines[2] == f"{sentences[0].tokens[0]}\t{sentences[0].labels[0]}"
        num_documents = len({s.document for s in sentences})
        assert lines.count("-DOCSTART-\tO") == num_documents
        assert lines.count("") == num_documents + len(sentences) + 1
        read = read_corpus(tmp_path / "demo" / f"{split}.conll").sentences
        assert [(s.tokens, s.labels, s.offset) for s in read] == [(s.tokens, s.labels, s.offset) for s in sentences]
        if split != "train_true":  # it shares its names with train
            assert [(s.id, s.document) for s in read] == [(s.id, s.document) for s in sentences]
    planted = (tmp_path / "demo" / "planted.jsonl").read_text(encoding="utf-8").splitlines()
    assert tuple(map(PlantedError.from_json, planted)) == corpus.errors


@pytest.mark.parametrize(
    "options",
    [{"num_documents": 19}, {"systematic_share": 1.5}, {"random_share": -0.1}, {"random_share": float("nan")}],
)
def test_impossible_options_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(TagtraceError, match=next(iter(options))):
        generate(**options)  # pyright: ignore[reportArgumentType]
