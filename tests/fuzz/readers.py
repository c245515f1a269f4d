"""Every reader of files: how to make one for it, and what must hold of what it reads."""

from __future__ import annotations

import gzip
import shutil
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tagtrace._checks import DataError, TagtraceError
from tagtrace.data import Corpus, ReadOptions, read_corpus, segments, write_corpus
from tagtrace.findings.finding import Finding, read_findings
from tagtrace.findings.fix import Change, read_changes
from tagtrace.findings.spreadsheet import read_csv
from tagtrace.index.files import map_tensors
from tagtrace.tagger.encoders.vectors import Vectors
from tests.data.formats.brat_standoff import check_relabelled, files_of
from tests.fuzz import annotated, cas, dataset_folders, dynamics, pieces, pipelines, tables, webanno
from tests.fuzz.brat_folders import brat_folder, unpacked
from tests.fuzz.documents import document, example, parse, schemas

MAX_MESSAGE = 2000


@dataclass(frozen=True)
class Reader:
    """One reader."""

    name: str
    make: Callable[[Random], bytes]
    """A file, mostly of the kind that it reads."""
    read: Callable[[Path], object]
    """Reads it; AssertionError if what was read is wrong."""
    suffix: str = ""
    errors: tuple[type[Exception], ...] = (TagtraceError,)
    """What it may raise."""


def check(reader: Reader, data: bytes, path: Path) -> bool:
    """Whether the reader took the file; raises if it did anything but read it or refuse it with one line."""
    path.write_bytes(data)
    refusal = _refusal(reader, path)
    if refusal is not None:
        assert 0 < len(refusal) < MAX_MESSAGE, refusal[:300]
    return refusal is None


def _refusal(reader: Reader, path: Path) -> str | None:
    try:
        reader.read(path)
    except reader.errors as error:
        return str(error)
    return None


def _data(file_format: str) -> Callable[[Path], object]:
    options = ReadOptions(format=file_format)

    def read(path: Path) -> None:
        """What was read can be written back, byte for byte."""
        corpus = read_corpus(path, options, require_labels=False)
        for sentence in corpus.sentences:
            assert len(sentence.tokens) > 0
            assert len(sentence.labels) in (0, len(sentence.tokens))
            assert all(isinstance(token, str) for token in sentence.tokens)
        copy = path.with_name("copy")
        write_corpus(corpus, copy)
        assert copy.read_bytes() == path.read_bytes()

    return read


def _brat(path: Path) -> None:
    """A corpus is written back byte for byte; a new label changes nothing but its lines."""
    folder, copy, fixed = (path.with_name(name) for name in ("folder", "folder copy", "folder fixed"))
    for each in (folder, copy, fixed):
        shutil.rmtree(each, ignore_errors=True)
    folder.mkdir()
    unpacked(path, folder)
    corpus = read_corpus(folder, ReadOptions(format="brat"))
    write_corpus(corpus, copy)
    before = files_of(folder)
    assert files_of(copy) == before
    relabelled, old = _relabelled(corpus)
    if old:
        try:
            write_corpus(relabelled, fixed)
        except DataError as error:
            assert "trigger" in str(error), str(error)  # noqa: PT017
            assert not fixed.exists()
        else:
            assert check_relabelled(before, files_of(fixed), old, "NEW") == 1


def _relabelled(corpus: Corpus) -> tuple[Corpus, str]:
    """The corpus with another type for one segment, in the middle of all, and its type before; "" if there is none."""
    found = [
        (n, one) for n, s in enumerate(corpus.sentences) for one in segments(s.labels, "iob2") if one.type != "NEW"
    ]
    if not found:
        return corpus, ""
    number, segment = found[len(found) // 2]
    sentences = list(corpus.sentences)
    labels = list(sentences[number].labels)
    labels[segment.start : segment.stop] = ["B-NEW", *["I-NEW"] * (segment.stop - segment.start - 1)]
    sentences[number] = sentences[number].with_labels(labels)
    return corpus.with_sentences(sentences), segment.type


def _text(make: Callable[[Random], str]) -> Callable[[Random], bytes]:
    return lambda rng: pieces.bytes_of(rng, make(rng))


def _either(rng: Random) -> bytes:
    data = pieces.bytes_of(rng, rng.choice((pieces.conll, pieces.jsonl))(rng))
    if rng.random() < 0.3:
        packed = gzip.compress(data, 1, mtime=0)
        return pieces.damaged(rng, packed) if rng.random() < 0.3 else packed
    return data


def _lines(kind: type) -> Callable[[Random], str]:
    """JSON lines of a dataclass, damaged here and there."""

    def make(rng: Random) -> str:
        share = rng.choice((0.0, 0.3, 1.0))
        return "\n".join(pieces.damaged_json(rng, example(rng, kind), share) for _ in range(rng.randint(0, 4)))

    return make


def _csv(rng: Random) -> str:
    cells = ('"', '""', "'=1", ",", "\r\n", "\n", '"a,b"', "=1+1", "\x00", "a", '"unclosed')
    return "".join(rng.choice((*cells, ",", ",", "\n")) for _ in range(rng.randint(0, 30)))


def _vectors(rng: Random) -> str:
    dim, end = rng.randint(1, 4), rng.choice(("\n", "\r\n"))
    lines = [f"{rng.choice(pieces.TOKENS)} " + " ".join("0.5" for _ in range(dim)) for _ in range(rng.randint(0, 5))]
    if rng.random() < 0.5:
        lines.append(f"{rng.choice(pieces.TOKENS)} " + " ".join(rng.choice(pieces.NUMBERS) for _ in range(dim)))
    if rng.random() < 0.3:
        lines.insert(0, f"{len(lines)} {dim}")
    return end.join(lines)


def _tensors(rng: Random) -> bytes:
    about = {"a": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}}
    header = pieces.bytes_of(rng, pieces.damaged_json(rng, about, rng.choice((0.0, 1.0))))
    size = rng.choice((len(header), len(header), rng.randrange(1 << 12), (1 << 64) - 1))
    return struct.pack("<Q", size) + header + bytes(rng.choice((16, 16, 0, 7)))


READERS = (
    Reader("conll", _text(pieces.conll), _data("conll")),
    Reader("jsonl", _text(pieces.jsonl), _data("jsonl")),
    Reader("brat", brat_folder, _brat),
    Reader("either", _either, _data("auto")),
    Reader("xmi", cas.xmi, cas.checked("xmi", cas.load_xmi), ".xmi"),
    Reader("cas-json", cas.cas_json, cas.checked("cas-json", cas.load_json)),
    *(Reader(name, tables.file_of(name), tables.reader_of(name), kind.suffix) for name, kind in tables.KINDS.items()),
    Reader("prodigy", annotated.either(annotated.prodigy), annotated.prodigy_relabelled),
    Reader("label-studio", annotated.either(annotated.label_studio), annotated.label_studio_relabelled),
    Reader("webanno-tsv", webanno.webanno, webanno.relabelled, ".tsv"),
    Reader("dataset", dataset_folders.dataset_folder, dataset_folders.relabelled),
    Reader("findings", _text(_lines(Finding)), read_findings),
    Reader("changes", _text(_lines(Change)), read_changes),
    Reader("csv", _text(_csv), read_csv, errors=(ValueError,)),
    Reader("vectors", _text(_vectors), lambda path: Vectors.fit(path, ())),
    Reader("tensors", _tensors, map_tensors),
    Reader("spacy", pipelines.pipeline, pipelines.read_pipeline),
    Reader("dynamics", dynamics.file_of_dynamics, dynamics.read_and_rank),
    *(
        Reader(
            f"document {kind.__name__}", lambda rng, kind=kind: document(rng, kind),
            lambda path, kind=kind: parse(path.read_bytes(), kind),
        )
        for kind in schemas()
    ),
)  # fmt: skip
