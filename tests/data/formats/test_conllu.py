"""CoNLL-U with entities in MISC: read, relabelled, written, and read back by the package ``conllu``."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tagtrace._checks import DataError, NoLabelsError
from tagtrace.data import ReadOptions, read_corpus, summarise, write_corpus
from tests.fuzz import tables

conllu = pytest.importorskip("conllu", reason="the package conllu is not installed")

ROWS = """\
# newdoc id = harbour
# sent_id = h1
# text = Orla Venn sailed from Port Ilse.
1\tOrla\tOrla\tPROPN\t_\t_\t3\tnsubj\t_\tNER=B-PER
2\tVenn\tVenn\tPROPN\t_\t_\t1\tflat\t_\tNER=I-PER|Gloss=V
3\tsailed\tsail\tVERB\t_\t_\t0\troot\t_\t_
4\tfrom\tfrom\tADP\t_\t_\t5\tcase\t_\tGloss=from|SpaceAfter=No
5-6\tPort-Ilse\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No
5\tPort\tPort\tPROPN\t_\t_\t3\tobl\t_\tGloss=P|NER=B-LOC|SpaceAfter=No
5.1\tof\t_\t_\t_\t_\t_\t_\t_\tNER=B-LOC
6\tIlse\tIlse\tPROPN\t_\t_\t5\tflat\t_\tNER=I-LOC

# newdoc
# sent_id = h1
1\tRain\train\tNOUN\t_\t_\t0\troot\t_\t_

"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "sea.conllu"
    path.write_bytes(ROWS.encode())
    return path


def test_reading(path: Path) -> None:
    corpus = read_corpus(path)
    first, second = corpus.sentences
    assert (corpus.format, corpus.scheme, corpus.num_comments) == ("conllu", "iob2", 5)
    assert first.tokens == ("Orla", "Venn", "sailed", "from", "Port", "Ilse")
    assert first.labels == ("B-PER", "I-PER", "O", "O", "B-LOC", "I-LOC")
    assert first.pos == ("PROPN", "PROPN", "VERB", "ADP", "PROPN", "PROPN")
    assert tuple(first.lines) == (4, 5, 6, 7, 9, 11)
    assert [(one.id, one.document) for one in (first, second)] == [("h1", "harbour"), ("h1#2", "sea-1")]
    assert [line for line, _ in corpus.skipped] == [8, 10]
    summary = summarise(corpus)
    assert (summary.tokens_from, summary.labels_from) == ("column 1", "key NER")


@pytest.mark.parametrize(
    ("labels", "changed"),
    [
        (("B-ORG", "I-ORG", "O", "O", "B-LOC", "I-LOC"), {4: "NER=B-ORG", 5: "NER=I-ORG|Gloss=V"}),
        (("O", "O", "O", "O", "B-LOC", "I-LOC"), {4: "_", 5: "Gloss=V"}),
        (("B-PER", "I-PER", "O", "O", "O", "O"), {9: "Gloss=P|SpaceAfter=No", 11: "_"}),
        (("B-PER", "I-PER", "O", "B-X", "B-LOC", "I-LOC"), {7: "Gloss=from|NER=B-X|SpaceAfter=No"}),
        (("B-PER", "I-PER", "B-X", "O", "B-LOC", "I-LOC"), {6: "NER=B-X"}),
    ],
)
def test_only_the_labels_change(path: Path, labels: tuple[str, ...], changed: dict[int, str]) -> None:
    corpus = read_corpus(path)
    first, second = corpus.sentences
    target = path.with_name("new.conllu")
    assert write_corpus(corpus.with_sentences([first.with_labels(labels), second]), target) == len(changed)
    lines = list[str](ROWS.splitlines(keepends=True))
    for number, misc in changed.items():
        lines[number - 1] = "\t".join([*lines[number - 1].split("\t")[:9], misc + "\n"])
    assert target.read_bytes() == "".join(lines).encode()
    assert read_corpus(target).sentences[0].labels == labels
    read_back = [token["misc"] or {} for token in conllu.parse(target.read_text())[0] if isinstance(token["id"], int)]
    assert tuple(misc.get("NER", "O") for misc in read_back) == labels


def test_a_file_that_writes_o_gets_o(path: Path) -> None:
    path.write_bytes(ROWS.replace("\troot\t_\t_\n", "\troot\t_\tNER=O\r\n").encode())
    corpus = read_corpus(path)
    first, second = corpus.sentences
    relabelled = first.with_labels(["O", "O", *first.labels[2:]])
    write_corpus(corpus.with_sentences([relabelled, second]), path)
    text = path.read_bytes().decode()
    assert "flat\t_\tNER=O|Gloss=V\n" in text
    assert text.count("NER=O\r\n") == 2, "line ends stay"


def test_the_last_entity_leaves_its_key(path: Path) -> None:
    """Without it the file would be read by columns from then on."""
    corpus = read_corpus(path)
    first, second = corpus.sentences
    write_corpus(corpus.with_sentences([first.with_labels(["O"] * 6), second]), path)
    assert path.read_text().count("NER=O") == 4
    assert read_corpus(path).sentences[0].labels == ("O",) * 6


def test_compressed(path: Path) -> None:
    packed = path.with_name("sea.conllu.gz")
    packed.write_bytes(gzip.compress(ROWS.encode()))
    assert read_corpus(packed).sentences[0].labels == read_corpus(path).sentences[0].labels


def test_a_file_without_entities_is_read_by_columns(path: Path) -> None:
    path.write_bytes(ROWS.replace("NER=", "Ent=").encode())
    for options in (ReadOptions(), ReadOptions(format="conllu")):
        corpus = read_corpus(path, options)
        assert (corpus.format, corpus.scheme, corpus.options.label_column) == ("conll", "plain", 3)
    corpus = read_corpus(path, ReadOptions(labels_key="Ent"))
    assert corpus.sentences[0].labels[:2] == ("B-PER", "I-PER")
    with pytest.raises(NoLabelsError, match="'Person'"):
        read_corpus(path, ReadOptions(labels_key="Person"))


def test_a_column_can_be_chosen(path: Path) -> None:
    corpus = read_corpus(path, ReadOptions(label_column=3))
    assert (corpus.format, corpus.sentences[0].labels[:3]) == ("conll", ("PROPN", "PROPN", "VERB"))


def test_other_names_are_read_by_columns_with_a_doubt(path: Path) -> None:
    other = path.with_name("sea.txt")
    other.write_bytes(ROWS.encode())
    corpus = read_corpus(other)
    assert corpus.format == "conll"
    assert any("choose the format conllu" in doubt for doubt in corpus.doubts)
    assert read_corpus(other, ReadOptions(format="conllu")).sentences[0].labels[0] == "B-PER"


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        ("1\tOrla\tO", "conll"),
        ("# sent_id = a\nOrla\tNER=B-PER", "conll"),
        ('{"tokens": ["NER=O"], "labels": ["O"]}', "jsonl"),
        ('{"text": "NER=O", "label": []}', "doccano"),
    ],
)
def test_neighbours_are_not_taken_for_it(tmp_path: Path, first: str, expected: str) -> None:
    path = tmp_path / "sea.txt"
    path.write_text(f"{first}\n")
    assert read_corpus(path).format == expected


def test_unlabelled(path: Path) -> None:
    corpus = read_corpus(path, ReadOptions(labelled=False))
    assert not corpus.sentences[0].is_labelled
    assert corpus.sentences[0].id == "h1"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("NER=I-PER|Gloss=V", "NER=I-PER|NER=O", "line 5: found 'NER' 2 times"),
        ("3\tsailed", "3\t", "line 6: .*ten columns"),
        ("3\tsailed", "x\tsailed", "line 6: .*ten columns"),
        ("3\tsailed\tsail", "3\tsailed", "line 6: .*ten columns"),
        ("sailed\tsail", "sai\rled\tsail", "line 6: .*ten columns"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(path: Path, old: str, new: str, message: str) -> None:
    path.write_bytes(ROWS.replace(old, new).encode())
    with pytest.raises(DataError, match=message):
        read_corpus(path)


@pytest.mark.parametrize("label", ["B-a|b", "B-a b", "_"])
def test_labels_that_misc_cannot_hold(path: Path, label: str) -> None:
    corpus = read_corpus(path, ReadOptions(scheme="plain"))
    first, second = corpus.sentences
    wrong = corpus.with_sentences([first.with_labels([label, *first.labels[1:]]), second])
    with pytest.raises(DataError, match="line 4: the new label"):
        write_corpus(wrong, path.with_name("new"))


def test_many_files_survive_relabelling(tmp_path: Path) -> None:
    tables.check_many("conllu", tmp_path, 200)


def test_spaces_in_misc_are_looked_at_once(tmp_path: Path) -> None:
    """What backtracks takes minutes here."""
    path = tmp_path / "x.conllu"
    path.write_text("1\ta\t_\t_\t_\t_\t_\t_\t_\t" + " " * 300_000 + "\n")
    assert read_corpus(path, ReadOptions(labelled=False)).num_tokens == 1
