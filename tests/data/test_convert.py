"""Data in another format: every pair of formats keeps labels, as spans of tokens or of characters."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tagtrace import Converted, Corpus, Sentence, convert, read_corpus
from tagtrace._checks import DataError, OptionError
from tagtrace.data import ReadOptions, segments
from tagtrace.data.convert import FRESH_NAMES
from tagtrace.data.formats import FORMATS, doccano
from tagtrace.data.formats.fresh import FreshText, marked_texts
from tagtrace.data.invented import generate
from tagtrace.data.marked.marks import MarkedText
from tests.data.formats.brat_standoff import files_of, parse

NUM_CORPORA = 40
WORDS = (
    "Ada",
    "Lovelace",
    "Acme",
    "U.S.",
    "don't",
    "1,000",
    "naïve",
    "Zoë",
    "東京",
    "😀",
    "-",
    "(",
    "#",
    "{",
    "a/b",
    "7",
    "\u00a0x",
)
TYPES = ("PER", "ORG", "LOC-city")
TOKENS, TEXTS = ("conll", "jsonl"), ("doccano", "brat")
FORMAT_PAIRS = list(product(FRESH_NAMES, FRESH_NAMES))
FORMAT_IDS = ["-".join(pair) for pair in FORMAT_PAIRS]


def rows(rng: Random) -> list[dict[str, object]]:
    """Sentences with documents, or without."""
    made, has_documents = list[dict[str, object]](), rng.random() < 0.6
    for number in range(rng.randint(2, 7)):
        tokens = [rng.choice(WORDS) for _ in range(rng.randint(1, 9))]
        labels = list[str]()
        while len(labels) < len(tokens):
            type_, length = rng.choice(TYPES), min(rng.randint(1, 3), len(tokens) - len(labels))
            is_segment = rng.random() < 0.4
            labels += [f"B-{type_}", *[f"I-{type_}"] * (length - 1)] if is_segment else ["O"] * length
        row: dict[str, object] = {"id": f"s{number}", "tokens": tokens, "ner_tags": labels}
        made.append({**row, "document": f"doc {number // 3}"} if has_documents else row)
    made[0] |= {"tokens": ["Ada", "ran"], "ner_tags": ["B-PER", "O"]}
    made[1] |= {"tokens": ["Bo", "Li", "of", "Acme"], "ner_tags": ["B-PER", "I-PER", "O", "B-ORG"]}
    return made


def base(path: Path, rng: Random) -> Corpus:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows(rng)), encoding="utf-8")
    return read_corpus(path)


def made(corpus: Corpus, folder: Path, name: str) -> Corpus:
    """The corpus in a format, read back."""
    path = folder / f"{corpus.path.name}-{name}"
    convert(corpus, path, name)
    return read_corpus(path, ReadOptions(format=name, scheme=corpus.scheme if name in TOKENS else "auto"))


def joined(sentences: list[Sentence], scheme: str) -> tuple[str, set[tuple[int, int, str]]]:
    """Tokens as a text, the slow way."""
    text, marks = "", set[tuple[int, int, str]]()
    for sentence in sentences:
        text += "\n" * (text != "")
        places = []
        for number, token in enumerate(sentence.tokens):
            text += " " * (number > 0)
            places.append((len(text), len(text) + len(token)))
            text += token
        for one in segments(sentence.labels, scheme):
            marks.add((places[one.start][0], places[one.stop - 1][1], one.type))
    return text, marks


def texts_of(corpus: Corpus) -> list[tuple[str, list[tuple[int, int, str]]]]:
    """Each text with its spans: of the file itself, or of its tokens joined."""
    if corpus.format in TEXTS:
        found = [(one.text, {(m.start, m.stop, m.label) for m in one.marks}) for one in marked_texts(corpus)]
    else:
        groups: dict[str, list[Sentence]] = {}
        for sentence in corpus.sentences:
            groups.setdefault(sentence.document or sentence.id, []).append(sentence)
        found = [joined(members, corpus.normalised_scheme) for members in groups.values()]
    return sorted((text, sorted(marks)) for text, marks in found)


@pytest.mark.parametrize(("first", "second"), FORMAT_PAIRS, ids=FORMAT_IDS)
def test_every_pair(first: str, second: str, tmp_path: Path) -> None:
    for seed in range(NUM_CORPORA):
        here = tmp_path / str(seed)
        here.mkdir()
        one = made(base(here / "base.jsonl", Random(seed)), here, first)
        other = made(one, here, second)
        if second in TOKENS:
            assert [(s.tokens, s.labels) for s in other.sentences] == [(s.tokens, s.labels) for s in one.sentences]
        else:
            assert texts_of(other) == texts_of(one)


@pytest.mark.parametrize(("first", "second"), FORMAT_PAIRS, ids=FORMAT_IDS)
def test_nothing_is_lost_of_easy_tokens(first: str, second: str, tmp_path: Path) -> None:
    """With words that the rule for texts gives back, tokens and labels are the same in every format."""
    sentences = generate(num_documents=20).train
    easy = [one for one in sentences if "".join(one.tokens).removesuffix(".").isalpha()][:30]
    lines = (json.dumps({"id": s.id, "document": s.document, "tokens": s.tokens, "tags": s.labels}) for s in easy)
    (tmp_path / "base.jsonl").write_text("\n".join(lines))
    corpus = read_corpus(tmp_path / "base.jsonl")
    found = made(made(corpus, tmp_path, first), tmp_path, second)
    assert sorted((s.tokens, s.labels) for s in found.sentences) == sorted(
        (s.tokens, s.labels) for s in corpus.sentences
    )


def notes(corpus: Corpus, path: Path, name: str = "auto") -> str:
    found = convert(corpus, path, name)
    assert isinstance(found, Converted)
    return "\n".join(str(part) for part in found.describe())


@pytest.fixture
def conll(tmp_path: Path) -> Corpus:
    text = (
        "-DOCSTART- -X- O\n\nAda NNP B-PER\nisn't VBZ O\n\n# c\n-DOCSTART- -X- O\n\nIn IN O\nthe DT O\nU.S. NNP B-LOC\n"
    )
    (tmp_path / "train.conll").write_text(text)
    return read_corpus(tmp_path / "train.conll")


def test_what_is_lost_is_said(conll: Corpus, tmp_path: Path) -> None:
    said = notes(conll, tmp_path / "out", "jsonl")
    assert said.startswith(
        f"wrote {tmp_path / 'out'}: JSON lines with tokens and labels, 2 sentences, 5 tokens, 2 segm"
    )
    assert "parts of speech are left out" in said
    assert "comments are left out: 1" in said
    assert "names" not in said
    said = notes(conll, tmp_path / "o.conll")
    assert "parts of speech" not in said
    assert "documents have other names: 'train-0' is 'o-0'" in said
    said = notes(conll, tmp_path / "texts", "doccano")
    assert "tagtrace divides 2 of 5 tokens in another way (rule characters-1); all labels are there as spans" in said


def test_texts_stay_as_they_are(tmp_path: Path) -> None:
    """From one format with texts to another, also marks that fit no tokens are kept; to tokens, they are counted."""
    line = {"id": 7, "text": "Ada  Lovelace\tran.\nShe won", "label": [[1, 3, "X"], [0, 13, "PER"], [20, 23, "P"]]}
    (tmp_path / "a.jsonl").write_text(json.dumps({**line, "relations": [1]}))
    corpus = read_corpus(tmp_path / "a.jsonl")
    labels = (("O", "B-ORG", "O", "O"), ("O", "B-NEW"))
    sentences = zip(corpus.sentences, labels, strict=True)
    relabelled = corpus.with_sentences([one.with_labels(new) for one, new in sentences])
    said = notes(relabelled, tmp_path / "b", "brat")
    assert "annotations of other kinds are left out: 1 (the first is of 7: its relations are kept" in said
    files = files_of(tmp_path / "b")
    assert files["7.txt"].decode() == line["text"]
    entities, _ = parse(files["7.ann"], files["7.txt"])
    assert {(label, *pieces[0]) for label, pieces, _ in entities.values()} == {
        ("X", 1, 3), ("ORG", 5, 13), ("P", 20, 23), ("NEW", 23, 26)
    }  # fmt: skip
    assert "spans of characters that labels of tokens cannot spell are left out: 2" in notes(
        corpus, tmp_path / "c.conll"
    )


@pytest.mark.parametrize("name", FRESH_NAMES)
def test_a_format_that_loses_a_label_is_found_out(
    name: str, conll: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = FORMATS[name].load()
    fresh = module.fresh

    def careless(texts: list[FreshText]) -> object:
        last = texts[-1]
        rows = [replace(row, labels=("O",) * len(row.tokens)) for row in last.rows]
        return fresh([*texts[:-1], replace(last, marks=(), rows=tuple(rows))])

    monkeypatch.setattr(module, "fresh", careless)
    with pytest.raises(DataError, match=r"train\.conll, line 9: sentence 'train-1:0' would not be the same in"):
        convert(conll, tmp_path / "out", name)
    assert [path.name for path in tmp_path.iterdir()] == ["train.conll"]


@pytest.mark.parametrize(("pattern", "is_same"), [(r"\S+", True), (r"\w+", False)])
def test_a_format_with_texts_and_tokens_keeps_both(
    pattern: str, is_same: bool, conll: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def texts_with_tokens(*given: Any) -> Iterator[MarkedText]:
        for one in texts(*given):
            yield replace(one, tokens=tuple(found.span() for found in re.finditer(pattern, one.text)))

    texts = doccano.texts
    monkeypatch.setattr(doccano, "texts", texts_with_tokens)
    if is_same:
        assert "in another way" not in notes(conll, tmp_path / "out", "doccano")
    else:
        with pytest.raises(DataError, match="sentence 'train-0:0' would not be the same"):
            convert(conll, tmp_path / "out", "doccano")


def test_part_of_a_text_is_joined_from_its_tokens(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": "Ada  ran.\nBo  won", "label": [[0, 3, "PER"]]}))
    corpus = read_corpus(tmp_path / "a.jsonl")
    convert(corpus.with_sentences(corpus.sentences[:1]), tmp_path / "b", "doccano")
    assert json.loads((tmp_path / "b").read_text())["text"] == "Ada ran ."


@pytest.mark.parametrize(
    ("tokens", "labels", "name", "reason"),
    [
        (["New York"], ["B-LOC"], "conll", None),
        (["a\tb"], ["B-X"], "conll", "sentence 's': 'a\\tb' is no field"),
        ([""], ["B-X"], "conll", "'' is no field"),
        ([" a"], ["B-X"], "conll", "sentence 's' would not be the same in CoNLL columns"),
        (["-DOCSTART-", "a"], ["O", "B-X"], "conll", "would not be"),
        (["a"], ["B-x y"], "conll", "the label 'B-x y' contains spaces"),
        (["a"], ["B-x y"], "brat", "empty or contains spaces"),
        (["a"], ["B-x y"], "doccano", None),
        (["", "b"], ["B-X", "O"], "doccano", "cannot be converted"),
        (["\u200b"], ["B-X"], "brat", "cannot be converted"),
        (["a\nb", "c"], ["B-X", "O"], "brat", None),
    ],
)
def test_what_cannot_be_held_is_refused(
    tokens: list[str], labels: list[str], name: str, reason: str | None, tmp_path: Path
) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"id": "s", "tokens": tokens, "tags": labels}))
    corpus = read_corpus(tmp_path / "a.jsonl", ReadOptions(scheme="iob2"))
    if reason is None:
        convert(corpus, tmp_path / "out", name)
        return
    with pytest.raises(DataError) as caught:
        convert(corpus, tmp_path / "out", name)
    assert reason in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]


@pytest.mark.parametrize("name", FRESH_NAMES)
@pytest.mark.parametrize("scheme", ["io", "plain", "bioes", "iob1"])
def test_schemes(name: str, scheme: str, tmp_path: Path) -> None:
    labels = {"io": "PER PER O ORG", "plain": "N V D N", "bioes": "B-P E-P O S-P", "iob1": "I-P B-P O I-Q"}[scheme]
    text = "".join(f"{token} {label}\n" for token, label in zip("abcd", labels.split(), strict=True))
    (tmp_path / "a.conll").write_text(text)
    corpus = read_corpus(tmp_path / "a.conll", ReadOptions(scheme=scheme))
    said = notes(corpus, tmp_path / "out", name)
    back = read_corpus(tmp_path / "out", ReadOptions(format=name, scheme=scheme if name in TOKENS else "auto"))
    ours = segments(corpus.sentences[0].labels, corpus.normalised_scheme)
    assert segments(back.sentences[0].labels, back.normalised_scheme) == ours
    assert ("are marks of entities" in said) == (name in TEXTS and scheme in ("io", "plain"))


def test_data_without_labels(tmp_path: Path) -> None:
    (tmp_path / "a.conll").write_text("Ada\nran\n\nBo\n")
    corpus = read_corpus(tmp_path / "a.conll", require_labels=False)
    for name in FRESH_NAMES:
        said = notes(corpus, tmp_path / name, name)
        assert ("has no labels, which this format cannot say" in said) == (name in TEXTS)
        back = read_corpus(tmp_path / name, ReadOptions(labelled=False))
        assert sorted(one.tokens for one in back.sentences) == [("Ada", "ran"), ("Bo",)]


def test_names_that_files_cannot_have(tmp_path: Path) -> None:
    names = ["../x", "a:b", "a_b", "A_B", ".hidden", "/abs", "x" * 300, "", "a/b", "a.txt", "a\\b", "nul\0", "a//b"]
    rows = [
        {"document": name, "tokens": ["Ada", str(number)], "tags": ["B-P", "O"]} for number, name in enumerate(names)
    ]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    convert(read_corpus(tmp_path / "a.jsonl"), tmp_path / "out", "brat")
    back = read_corpus(tmp_path / "out")
    assert {one.tokens for one in back.sentences} == {("Ada", str(number)) for number in range(len(names))}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl", "out"]
    assert (tmp_path / "out" / "a" / "b.txt").read_text() == "Ada 8"


def test_the_format_follows_from_the_name(conll: Corpus, tmp_path: Path) -> None:
    assert convert(conll, tmp_path / "x.iob").format == "conll"
    with pytest.raises(OptionError, match=r"does not say its format; name one of jsonl, doccano"):
        convert(conll, tmp_path / "x.jsonl")
    with pytest.raises(OptionError, match="does not say its format"):
        convert(conll, tmp_path / "x")
    with pytest.raises(OptionError, match="cannot be converted to 'xml'"):
        convert(conll, tmp_path / "x", "xml")
    convert(conll, tmp_path / "x.conll.gz")
    assert gzip.decompress((tmp_path / "x.conll.gz").read_bytes()).startswith(
        b"-DOCSTART-\t-X-\tO\n\nAda\tNNP\tB-PER\n"
    )


def test_nothing_is_overwritten_unasked(conll: Corpus, tmp_path: Path) -> None:
    for name in FRESH_NAMES:
        with pytest.raises(OptionError, match="never overwritten"):
            convert(conll, conll.path, name, overwrite=True)
        convert(conll, tmp_path / name, name)
        with pytest.raises(OptionError, match="exists already"):
            convert(conll, tmp_path / name, name)
        convert(conll, tmp_path / name, name, overwrite=True)
    (tmp_path / "brat" / "mine").write_text("precious")
    with pytest.raises(OptionError, match="was not written by tagtrace"):
        convert(conll, tmp_path / "brat", "brat", overwrite=True)


def test_copies_are_as_private_as_the_data(conll: Corpus, tmp_path: Path) -> None:
    conll.path.chmod(0o600)
    for name in FRESH_NAMES:
        convert(conll, tmp_path / name, name)
        made_here = [tmp_path / name, *(tmp_path / name).rglob("*")] if name == "brat" else [tmp_path / name]
        assert {path.stat().st_mode & 0o077 for path in made_here} == {0}


def test_a_device_is_written_to(conll: Corpus) -> None:
    assert convert(conll, "/dev/null", "jsonl").num_tokens == 5


def test_formats_say_whether_they_make_new_files() -> None:
    for one in FORMATS.values():
        assert hasattr(one.load(), "fresh") == one.fresh, one.name
