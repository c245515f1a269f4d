"""spaCy's DocBin: read, relabelled, written, and read back by spaCy."""

from __future__ import annotations

import builtins
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest

from tagtrace._checks import DataError, NoLabelsError
from tagtrace.data import Corpus, read_corpus, write_corpus
from tagtrace.data.formats.docbin_sentences import sentence_starts
from tests.fuzz import tables

pytest.importorskip("spacy", reason="the spacy extra is not installed")

from spacy.tokens import Doc, DocBin, Span
from spacy.vocab import Vocab
from srsly import msgpack


def docs() -> list[Doc]:
    vocab = Vocab()
    words = ["Orla", "Venn", "sailed", ".", "Port", "Ilse", "waits"]
    ents = ["B-PERSON", "I-PERSON", "O", "O", "B-Harbour", "I-Harbour", ""]
    starts: list[bool | int | None] = [True, False, False, False, True, False, False]
    first = Doc(vocab, words=words, spaces=[True, True, False, True, True, True, False], ents=ents, sent_starts=starts)
    first.set_ents([_linked(one) for one in first.ents], default="unmodified")
    first.cats, first.user_data["by"] = {"sea": 0.25}, ("Orla", 7)
    first.spans["all"] = [Span(first, 0, 7, label="TEXT")]
    return [first, Doc(vocab, words=["Rain"], spaces=[False]), Doc(vocab, words=[])]


def _linked(one: Span) -> Span:
    return Span(one.doc, one.start, one.end, label=one.label, kb_id=f"Q{one.start}")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "sea.spacy"
    DocBin(docs=docs(), store_user_data=True).to_disk(path)
    return path


def read_back(path: Path) -> list[Doc]:
    return list(DocBin().from_disk(path).get_docs(Vocab()))


def with_labels(corpus: Corpus, number: int, *labels: str) -> Corpus:
    sentences = list(corpus.sentences)
    sentences[number] = sentences[number].with_labels(labels)
    return corpus.with_sentences(sentences)


def test_reading(path: Path) -> None:
    corpus = read_corpus(path)
    assert (corpus.format, corpus.scheme) == ("docbin", "iob2")
    assert [one.tokens for one in corpus.sentences] == [
        ("Orla", "Venn", "sailed", "."), ("Port", "Ilse", "waits"), ("Rain",)
    ]  # fmt: skip
    assert corpus.sentences[0].labels == ("B-PERSON", "I-PERSON", "O", "O")
    assert corpus.sentences[1].labels == ("B-Harbour", "I-Harbour", "O")
    assert [(one.id, one.document) for one in corpus.sentences] == [
        ("sea-0:0", "sea-0"), ("sea-0:1", "sea-0"), ("sea-1:0", "sea-1")
    ]  # fmt: skip
    assert corpus.doubts == (
        "2 of 8 tokens have no annotation of entities (missing); they were read as O, and stay missing unless their "
        "label changes",
    )
    assert corpus.skipped == ((4, "a document without tokens"),)


def test_only_the_entities_change(path: Path) -> None:
    corpus = with_labels(read_corpus(path), 1, "O", "B-Islet", "I-Islet")
    target = path.with_name("new.spacy")
    assert write_corpus(corpus, target) == 3
    before, after = read_back(path), read_back(target)
    assert [(one.text, one.label_, one.kb_id_) for one in after[0].ents] == [
        ("Orla Venn", "PERSON", "Q0"), ("Ilse waits", "Islet", "Q4")
    ]  # fmt: skip
    assert [token.ent_iob_ for token in after[1]] == [""], "missing stays missing"
    for old, new in zip(before, after, strict=True):
        assert {**old.to_json(), "ents": 0} == {**new.to_json(), "ents": 0}
        assert (old.cats, old.user_data) == (new.cats, new.user_data)
        assert old.spans.to_bytes() == new.spans.to_bytes()
    was, now = (msgpack.unpackb(zlib.decompress(one.read_bytes()), raw=False) for one in (path, target))
    assert {**was, "tokens": 0, "strings": 0} == {**now, "tokens": 0, "strings": 0}
    assert set(now["strings"]) - set(was["strings"]) == {"Islet"}


def test_what_becomes_o_has_no_link(path: Path) -> None:
    write_corpus(with_labels(read_corpus(path), 0, "O", "O", "O", "O"), path)
    (first, *_) = read_back(path)
    assert [(token.ent_iob_, token.ent_type_, token.ent_kb_id_) for token in first[:2]] == [("O", "", "")] * 2


def test_blocked_tokens_stay(path: Path) -> None:
    first, *_ = docs()
    first.set_ents([], blocked=[first[2:4]], default="unmodified")
    DocBin(docs=[first]).to_disk(path)
    corpus = read_corpus(path)
    assert corpus.sentences[0].labels == ("B-PERSON", "I-PERSON", "O", "O")
    assert any("2 tokens have an entity without a type (blocked)" in doubt for doubt in corpus.doubts)
    write_corpus(with_labels(corpus, 0, "O", "B-PERSON", "O", "O"), path)
    assert [token.ent_iob_ for token in read_back(path)[0][2:4]] == ["B", "B"]


def test_no_sentence_begins_inside_an_entity(path: Path) -> None:
    doc = Doc(Vocab(), words=["a", "b", "c"], ents=["B-X", "I-X", "O"], sent_starts=[True, True, True])
    DocBin(docs=[doc]).to_disk(path)
    assert [one.tokens for one in read_corpus(path).sentences] == [("a", "b"), ("c",)]


@pytest.mark.parametrize(
    ("columns", "starts"),
    [
        ({"HEAD": [1, 1, 0], "DEP": [1, 1, 1]}, [0]),
        ({"HEAD": [2, 0, 0], "DEP": [1, 1, 1]}, [0, 1]),  # crossing
        ({"HEAD": [1, -1, 0], "DEP": [1, 1, 1]}, [0, 2]),  # a circle
        ({"HEAD": [0, 9, 0], "DEP": [1, 1, 1], "SENT_START": [1, 0, 1]}, [0, 2]),  # a head that is not there
        ({"HEAD": [0, 0, 0], "DEP": [0, 0, 0], "SENT_START": [1, 1, -1]}, [0, 1]),  # no parse
    ],
)
def test_sentences(columns: dict[str, list[int]], starts: list[int]) -> None:
    assert sentence_starts(3, columns) == starts


def test_without_entities(path: Path) -> None:
    DocBin(attrs=["LEMMA"], docs=docs()).to_disk(path)
    with pytest.raises(NoLabelsError, match="ENT_IOB"):
        read_corpus(path)
    assert not read_corpus(path, require_labels=False).sentences[0].is_labelled


def test_a_name_is_not_needed(path: Path) -> None:
    other = path.with_name("sea")
    other.write_bytes(path.read_bytes())
    assert read_corpus(other).format == "docbin"


@pytest.mark.parametrize("first", ["x\tO", "x O", "x\u009cy O"])
def test_neighbours_are_not_taken_for_it(tmp_path: Path, first: str) -> None:
    path = tmp_path / "sea.txt"
    path.write_text(f"{first}\nsea O\n" if " " in first else f"{first}\nsea\tO\n")
    assert read_corpus(path).format == "conll"


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("attrs", [], "is no DocBin"),
        ("attrs", [1 << 40] * 13, "is no DocBin"),
        ("tokens", b"123", "is no DocBin"),
        ("strings", [1], "is no DocBin"),
        ("strings", [], "whose ORTH is not among its strings"),
        ("lengths", b"\xff\xff\xff\xff", "the lengths of the documents"),
        ("lengths", b"", "the lengths of the documents"),
    ],
)
def test_what_is_wrong_is_named(path: Path, key: str, value: object, message: str) -> None:
    found = msgpack.unpackb(zlib.decompress(path.read_bytes()), raw=False)
    path.write_bytes(zlib.compress(msgpack.packb({**found, key: value}, use_bin_type=True)))
    with pytest.raises(DataError, match=message):
        read_corpus(path)


@pytest.mark.parametrize(
    "data", [b"", b"x\x9c", b"sea O", zlib.compress(b""), zlib.compress(b"\x91" * 5000), zlib.compress(b"\xc1")]
)
def test_other_files(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    with pytest.raises(DataError):
        read_corpus(path)


def test_what_is_compressed_without_end_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"MANY_BYTES": 10, "MOST_EXPANSION": 1}.items():
        monkeypatch.setattr(f"tagtrace.data.formats.docbin.{name}", value)
    with pytest.raises(DataError, match=r"expands to more than .* bytes"):
        read_corpus(path)


def test_spacy_is_an_extra(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.split(".", maxsplit=1)[0] == "spacy":
            raise ModuleNotFoundError(name=name)
        return plain(name, *rest)

    monkeypatch.delitem(sys.modules, "tagtrace.data.formats.docbin", raising=False)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(DataError, match=r'pip install "tagtrace\[spacy\]"'):
        read_corpus(path)


def test_many_files_survive_relabelling(tmp_path: Path) -> None:
    tables.check_many("docbin", tmp_path, 60)
