"""An open index answers by sentence and by token, and gives back the tagger that it was built with."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tagtrace._checks import DataError, OptionError, TaggerError
from tagtrace._table import Table
from tagtrace.data import Corpus
from tagtrace.index import Index, IndexFolderError, IndexOptions, build_index, open_index, open_index_or_tagger
from tagtrace.tagger import Lexical, LexicalOptions, Tagger, load_tagger, new_tagger, save_tagger
from tests.index.test_build import make_corpus, make_tagger
from tests.strategies import LABELS

OPTIONS = IndexOptions(shard_tokens=20)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    found = build_index(make_tagger(), make_corpus(), tmp_path_factory.mktemp("index") / "index", OPTIONS)
    assert len(found.shards) > 1
    return found


def lexical(seed: int = 0) -> Tagger:
    """A tagger that can be saved."""
    torch.manual_seed(seed)
    return new_tagger(Lexical(LexicalOptions(buckets=64, width=4, hidden=4)), LABELS, seed=seed)


# Columns


def test_columns_of_sentences(index: Index) -> None:
    sentences = make_corpus().sentences
    assert index.ids == [sentence.id for sentence in sentences]
    assert index.documents == [sentence.document for sentence in sentences]
    assert index.label_ids.tolist() == [label for sentence in sentences for label in LABELS.encode(sentence.labels)]


def test_documents_are_empty_if_there_are_none(tmp_path: Path) -> None:
    corpus = make_corpus()
    sentences = [replace(s, document="" if number % 2 else s.document) for number, s in enumerate(corpus.sentences)]
    found = build_index(make_tagger(), corpus.with_sentences(sentences), tmp_path / "index", OPTIONS)
    assert found.documents == [sentence.document for sentence in sentences]


def test_words_have_one_number_in_all_shards(index: Index) -> None:
    numbers, words = index.words()
    tokens = [token for sentence in make_corpus().sentences for token in sentence.tokens]
    assert [words[number] for number in numbers] == tokens
    assert len(words) == len(set(words)) == len(set(tokens))
    assert words == list(dict.fromkeys(tokens))


def test_the_number_of_a_sentence(index: Index) -> None:
    for number in range(index.num_sentences):
        assert index.sentence_number(index.sentence(number).id) == number
    with pytest.raises(DataError, match=r"index: no training sentence has the id 's:99'; check the id"):
        index.sentence_number("s:99")


def test_an_id_that_occurs_twice_is_refused(tmp_path: Path) -> None:
    corpus = make_corpus()
    first, *rest = corpus.sentences
    twice = corpus.with_sentences([first, *rest[:-1], replace(rest[-1], id=first.id)])
    found = build_index(make_tagger(), twice, tmp_path / "index", OPTIONS)
    with pytest.raises(DataError, match=r"index: several training sentences have the id 's:0'"):
        found.sentence_number(first.id)
    assert found.sentence_number(rest[0].id) == 1


@pytest.mark.parametrize("kept", [[0], [11], [0, 1, 5, 11], list(range(12)), list(range(0, 12, 2)), []])
def test_rows_of_some_sentences(index: Index, kept: list[int]) -> None:
    keep = torch.zeros(index.num_sentences, dtype=torch.bool)
    keep[kept] = True
    parts = list(index.rows_where(keep))
    assert [number for numbers, _ in parts for number in numbers.tolist()] == kept
    assert all(len(numbers) for numbers, _ in parts), "shards without such sentences are left out"
    for numbers, rows in parts:
        assert rows.features.dtype == torch.float16
        assert len(rows.lengths) == len(numbers)
        for place, number in enumerate(numbers.tolist()):
            ours, theirs = rows.sentence(place), index.sentence_rows(number)
            assert torch.equal(ours.features, theirs.features)
            assert torch.equal(ours.labels, theirs.labels)


def test_an_index_prints_its_size(index: Index) -> None:
    assert f"{index.num_tokens:,} tokens in 12 sentences, " in str(index)
    assert " KB per token, max |gradient| " in str(index)


def test_an_index_shows_itself_as_a_table(tmp_path: Path) -> None:
    save_tagger(lexical(), tmp_path / "<b>tagger")
    corpus = replace(make_corpus(), path=tmp_path / "<i>.conll")
    found = build_index(load_tagger(tmp_path / "<b>tagger"), corpus, tmp_path / "index", OPTIONS)
    (table,) = found.describe()
    assert isinstance(table, Table)
    facts = {str(name): str(value) for name, value in table.rows}
    assert facts["training data"] == f"{tmp_path}/<i>.conll: 12 sentences, {corpus.num_tokens:,} tokens"
    assert facts["labels"] == f"{len(LABELS)}, iob2: {' '.join(LABELS.labels)}"
    assert facts["tagger"] == f"{tmp_path}/<b>tagger: lexical, {found.manifest.dim} features"
    assert facts["head"] == f"crf, refitted, max |gradient| {found.manifest.fit.max_gradient:.1e}"
    assert facts["size"].endswith(f", float16, {len(found.shards)} shards")
    page = found._repr_html_()
    assert "<b>" not in page
    assert "&lt;b&gt;tagger: lexical" in page


# The tagger


def built(tmp_path: Path, tagger: Tagger, corpus: Corpus | None = None) -> Index:
    return build_index(tagger, corpus or make_corpus(), tmp_path / "index", OPTIONS)


def test_the_tagger_in_memory_is_used(tmp_path: Path) -> None:
    tagger = make_tagger()  # of an encoder that cannot be saved
    index = built(tmp_path, tagger)
    trained, refitted = index.trained_tagger(), index.tagger()
    assert torch.equal(trained.head.flat(), tagger.head.flat())
    assert torch.equal(refitted.head.flat(), index.head.flat())
    assert refitted.head.weight.dtype == torch.float64
    assert len({id(each) for each in (tagger, trained, refitted, index.tagger())}) == 4, "a new object at every call"
    with torch.no_grad():
        refitted.head.weight.zero_()
        trained.head.weight.zero_()
    assert bool(index.head.weight.any())
    assert bool(tagger.head.weight.any())


def test_a_tagger_in_memory_that_has_changed_is_not_used(tmp_path: Path) -> None:
    tagger = lexical()
    save_tagger(tagger, tmp_path / "tagger")
    index = built(tmp_path, tagger)
    expected = tagger.head.flat()
    with torch.no_grad():
        tagger.head.weight.add_(1.0)
    trained = index.trained_tagger()
    assert torch.equal(trained.head.flat(), expected), "loaded from its folder"
    assert trained.folder is not None
    unsaved = make_tagger()
    other = build_index(unsaved, make_corpus(), tmp_path / "other", OPTIONS)
    with torch.no_grad():
        unsaved.head.weight.add_(1.0)
    with pytest.raises(OptionError, match=r"other: has no record of where its tagger is; give the tagger's folder"):
        other.tagger()


def test_the_tagger_is_found_from_an_index_that_was_opened(tmp_path: Path) -> None:
    tagger = lexical()
    save_tagger(tagger, tmp_path / "work" / "tagger")
    built(tmp_path / "work", tagger)
    opened = open_index(tmp_path / "work" / "index")
    assert torch.equal(opened.trained_tagger().head.flat(), tagger.head.flat())
    assert torch.equal(opened.tagger().head.flat(), opened.head.flat())
    (tmp_path / "work").rename(tmp_path / "moved")
    moved = open_index(tmp_path / "moved" / "index")
    assert torch.equal(moved.trained_tagger().head.flat(), tagger.head.flat()), "both moved together"


def test_a_tagger_from_another_folder(tmp_path: Path) -> None:
    tagger = lexical()
    save_tagger(tagger, tmp_path / "tagger")
    index = built(tmp_path, tagger)
    (tmp_path / "tagger").rename(tmp_path / "elsewhere")
    opened = open_index(index.folder)
    with pytest.raises(OptionError, match=r"index: its tagger is no longer at .*tagger; give the tagger's folder"):
        opened.tagger()
    assert torch.equal(opened.trained_tagger(tmp_path / "elsewhere").head.flat(), tagger.head.flat())
    assert torch.equal(opened.tagger(tmp_path / "elsewhere").head.flat(), index.head.flat())
    save_tagger(lexical(seed=1), tmp_path / "stranger")
    for found in (opened, index):
        with pytest.raises(IndexFolderError, match="built with another tagger"):
            found.tagger(tmp_path / "stranger")
    with pytest.raises(TaggerError, match="not a tagger"):
        index.tagger(tmp_path / "nowhere")


def test_an_index_or_a_tagger(tmp_path: Path) -> None:
    tagger = lexical()
    save_tagger(tagger, tmp_path / "tagger")
    index = built(tmp_path, tagger)
    assert isinstance(open_index_or_tagger(index.folder), Index)
    found = open_index_or_tagger(tmp_path / "tagger")
    assert isinstance(found, Tagger)
    assert torch.equal(found.head.flat(), load_tagger(tmp_path / "tagger").head.flat())
    with pytest.raises(TaggerError, match="neither an index nor a tagger"):
        open_index_or_tagger(tmp_path)
    shutil.copy(index.folder / "errors-00000.safetensors", index.folder / "errors-00001.safetensors")
    with pytest.raises(IndexFolderError, match="errors-00001"):
        open_index_or_tagger(index.folder)
