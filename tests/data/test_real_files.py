"""Every real file parses to the counts of its README and is written back as it was.

The files are looked for in ``$TAGTRACE_DATA``, or in ``../shared/data`` beside the repository.
"""

from __future__ import annotations

import csv
import filecmp
import gzip
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tagtrace.data import Corpus, ReadOptions, read_corpus, segments, summarise, write_corpus
from tests.places import DATA

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason=f"no real data in {DATA}; set TAGTRACE_DATA")


@dataclass(frozen=True)
class Expected:
    file: str
    scheme: str
    documents: int
    sentences: int
    tokens: int
    segments: int | tuple[int, ...]
    """Of each type in the order of ``types``, or in all."""
    types: str = ""
    column: int | None = None
    violations: int = 0
    comments: int = 0


CONLL = "LOC PER ORG MISC"
CORRECTED = "LOC ORG PER MISC"
WNUT = "person location group corporation product creative-work"
LENER = "ORGANIZACAO LEGISLACAO PESSOA TEMPO JURISPRUDENCIA LOCAL"
EBM = "INT POP OUT"

FILES = [
    Expected("conll2003/train.txt.gz", "iob1", 946, 14_041, 203_621, (7140, 6600, 6321, 3438), CONLL, violations=2),
    Expected("conll2003/dev.txt.gz", "iob1", 216, 3250, 51_362, (1837, 1842, 1341, 922), CONLL),
    Expected("conll2003/test.txt.gz", "iob1", 231, 3453, 46_435, (1668, 1617, 1661, 702), CONLL),
    *(
        Expected(f"conll2003_corrected/{name}.jsonl.gz", "iob2", documents, rows, tokens, per_type, CORRECTED)
        for name, rows, documents, tokens, per_type in [
            ("train_original", 12_528, 887, 189_983, (6308, 5678, 5416, 3229)),
            ("train_corrected", 12_528, 887, 189_983, (6162, 5831, 5407, 3183)),
            ("validation_original", 2775, 201, 46_231, (1500, 1236, 1406, 855)),
            ("validation_corrected", 2775, 201, 46_231, (1321, 1434, 1406, 832)),
            ("test_original", 2581, 194, 38_362, (1280, 1175, 1231, 613)),
            ("test_corrected", 2581, 194, 38_362, (1196, 1306, 1222, 596)),
            ("train_corrected_artifact", 12_528, 887, 191_558, (6162, 5831, 6982, 3183)),
            ("train_corrected_modified", 12_528, 887, 189_983, (6382, 5993, 5481, 2758)),
            ("train_corrected_modified_docs", 879, 879, 182_504, (6139, 5904, 4926, 2690)),
        ]
    ),
    Expected("ebmnlp/train_crowd.jsonl.gz", "io", 2323, 2323, 629_690, (15_103, 8791, 15_710), EBM),
    Expected("ebmnlp/test_gold.jsonl.gz", "io", 191, 191, 51_750, (1521, 621, 1403), EBM),
    Expected("ebmnlp/test_paper_sentences.jsonl.gz", "io", 191, 2076, 51_784, (1674, 663, 1853), EBM),
    Expected("wnut17/train.conll.gz", "iob2", 0, 3394, 62_730, (660, 548, 264, 221, 142, 140), WNUT),
    Expected("wnut17/dev.conll.gz", "iob2", 0, 1009, 15_733, (470, 74, 39, 34, 114, 105), WNUT, violations=1),
    Expected("wnut17/test.conll.gz", "iob2", 0, 1287, 23_394, (429, 150, 165, 66, 127, 142), WNUT),
    Expected("other/ncbi_disease/train.txt.gz", "iob2", 0, 5424, 135_701, (5134,), "Disease"),
    Expected("other/ncbi_disease/dev.txt.gz", "iob2", 0, 923, 23_969, (787,), "Disease"),
    Expected("other/ncbi_disease/test.txt.gz", "iob2", 0, 940, 24_497, (960,), "Disease"),
    Expected("other/lener_br/train.conll.gz", "iob2", 0, 7827, 229_277, (2400, 1920, 1525, 1334, 1104, 611), LENER),
    Expected("other/lener_br/dev.conll.gz", "iob2", 0, 1176, 41_166, (561, 397, 310, 234, 207, 109), LENER),
    Expected("other/lener_br/test.conll.gz", "iob2", 0, 1389, 47_630, (501, 378, 233, 192, 185, 47), LENER),
    *(
        Expected(f"other/germeval2014/{file}.tsv.gz", "iob2", 0, rows, tokens, n, column=column, comments=rows)
        for file, rows, tokens, outer, inner in [("dev", 2200, 41_653, 2674, 212), ("test", 5100, 96_499, 6178, 515)]
        for column, n in [(2, outer), (3, inner)]
    ),
    *(
        Expected(f"other/ud_english_ewt/{file}.tsv.gz", "plain", documents, rows, tokens, tokens, column=column)
        for file, documents, rows, tokens in [
            ("train", 540, 12_544, 204_577),
            ("dev", 318, 2001, 25_147),
            ("test", 316, 2077, 25_094),
        ]
        for column in (1, 2)
    ),
]


@cache
def read(file: str, column: int | None = None) -> Corpus:
    path = DATA / file
    if not path.exists():
        pytest.skip(f"{path} is absent")
    return read_corpus(path, ReadOptions(label_column=column))


@pytest.mark.parametrize("expected", FILES, ids=lambda e: e.file if e.column is None else f"{e.file}-{e.column}")
def test_counts_and_identity(expected: Expected, tmp_path: Path):
    corpus = read(expected.file, expected.column)
    summary = summarise(corpus)
    assert summary.scheme == expected.scheme
    assert (summary.documents, summary.sentences) == (expected.documents, expected.sentences)
    assert summary.tokens == expected.tokens
    if isinstance(expected.segments, tuple):
        assert summary.segments_per_type == dict(zip(expected.types.split(), expected.segments, strict=True))
    else:
        assert summary.segments == expected.segments
    assert len(summary.violations) == expected.violations
    assert summary.comments == expected.comments
    assert summary.skipped == ()
    assert len({sentence.id for sentence in corpus.sentences}) == expected.sentences

    assert write_corpus(corpus, tmp_path / "out") == 0
    assert filecmp.cmp(corpus.path, tmp_path / "out", shallow=False)


def test_label_types():
    assert len(summarise(read("other/ud_english_ewt/train.tsv.gz", 1)).labels) == 17
    assert len(summarise(read("other/ud_english_ewt/train.tsv.gz", 2)).labels) == 49
    types = {
        t for name in ("dev", "test") for t in summarise(read(f"other/germeval2014/{name}.tsv.gz", 2)).segments_per_type
    }
    assert len(types) == 12


@pytest.mark.parametrize(
    ("file", "column", "has_pos"),
    [
        ("conll2003/train.txt.gz", None, True),
        ("other/ud_english_ewt/train.tsv.gz", 2, True),
        ("other/ud_english_ewt/train.tsv.gz", 1, False),  # the column after the token is the label
        ("other/ncbi_disease/train.txt.gz", None, False),  # filler
        ("other/germeval2014/dev.tsv.gz", 3, False),  # segment labels
    ],
)
def test_parts_of_speech(file: str, column: int | None, has_pos: bool):
    assert all((sentence.pos is not None) == has_pos for sentence in read(file, column).sentences)


@pytest.mark.parametrize(("split", "conll"), [("train", "train"), ("validation", "dev"), ("test", "test")])
def test_original_labels_are_those_of_conll2003_normalised(split: str, conll: str):
    """``doc_map.tsv`` links the renumbered documents; labels and tokens then agree on every token."""
    original = read(f"conll2003_corrected/{split}_original.jsonl.gz")
    whole = read(f"conll2003/{conll}.txt.gz")
    with (DATA / "conll2003_corrected" / "doc_map.tsv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file, delimiter="\t") if row["split"] == split]
    conll_name = {row["doc_id"]: f"{conll}-{row['conll_doc_index']}" for row in rows}

    def by_document(corpus: Corpus) -> dict[str, list[tuple[tuple[str, ...], tuple[str, ...]]]]:
        found: dict[str, list[tuple[tuple[str, ...], tuple[str, ...]]]] = {}
        for sentence in corpus.sentences:
            found.setdefault(sentence.document, []).append((sentence.tokens, sentence.labels))
        return found

    theirs, ours = by_document(whole), by_document(original)
    assert set(ours) == set(conll_name)
    for document, sentences in ours.items():
        assert sentences == theirs[conll_name[document]]


@pytest.mark.parametrize("file", ["conll2003/dev.txt.gz", "wnut17/dev.conll.gz", "other/germeval2014/dev.tsv.gz"])
def test_one_relabelled_segment_is_one_line(file: str, tmp_path: Path):
    corpus = read(file)
    i, segment = next(
        (i, found[0])
        for i, sentence in enumerate(corpus.sentences)
        if len(found := segments(sentence.labels, "iob2")) == 1 and found[0].stop == found[0].start + 1
    )
    sentences = list(corpus.sentences)
    labels = list(sentences[i].labels)
    labels[segment.start] = "B-NEW"
    sentences[i] = sentences[i].with_labels(labels)
    assert write_corpus(corpus.with_sentences(sentences), tmp_path / "out") == 1
    before = gzip.decompress(corpus.path.read_bytes()).split(b"\n")
    after = gzip.decompress((tmp_path / "out").read_bytes()).split(b"\n")
    differ = [k for k, (a, b) in enumerate(zip(before, after, strict=True), start=1) if a != b]
    assert differ == [sentences[i].lines[segment.start]]
