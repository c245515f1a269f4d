"""Random files of the formats with one row per token or sentence, and what must hold after one was relabelled.

``KINDS`` has for each format a maker of files and a function that takes a file apart with the format's own library:
into the labels of each sentence, and everything else.
"""

from __future__ import annotations

import io
import json
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

from tagtrace._checks import DataError
from tagtrace.data import Corpus, ReadOptions, Sentence, read_corpus, write_corpus
from tests.fuzz import pieces

Parts = tuple[list[list[str]], tuple[Any, ...]]
"""The labels of each sentence (``-``: missing, which is read as O), and everything else in a file: the values first,
and then what it says about itself."""


@dataclass(frozen=True)
class Kind:
    """One format."""

    suffix: str
    make: Callable[[Random], bytes]
    """A sound file."""
    apart: Callable[[bytes], Parts]


def check_many(name: str, folder: Path, count: int) -> None:
    """Relabel one segment in each of so many sound files; nothing else may change."""
    kind = KINDS[name]
    path, num_relabelled = folder / f"file{kind.suffix}", 0
    for number in range(count):
        data = kind.make(Random(f"{name}-{number}"))
        path.write_bytes(data)
        before, _ = kind.apart(data)
        corpus = read_corpus(path, ReadOptions(scheme="iob2"))
        wanted = [["O" if label == "-" else label for label in row] for row in before if row]
        assert [list(sentence.labels) for sentence in corpus.sentences] == wanted, number
        num_relabelled += check_file(name, path, sound=True)
    assert num_relabelled > 0.8 * count


def check_file(name: str, path: Path, *, sound: bool = False) -> bool:
    """Write a file back unchanged and with one segment relabelled; whether the latter could be done.

    Raises DataError if it cannot be read. What a file that may not be sound says about itself may change.
    """
    corpus = read_corpus(path, ReadOptions(format=name), require_labels=False)
    target = path.with_name("copy")
    write_corpus(corpus, target)
    data = path.read_bytes()
    assert target.read_bytes() == data
    rng = Random(zlib.crc32(data))
    choices = [place for place, sentence in enumerate(corpus.sentences) if sentence.is_labelled]
    if corpus.format != name or not choices:
        return False
    place = rng.choice(choices)
    changed = relabelled(rng, corpus, corpus.sentences[place])
    sentences = [*corpus.sentences[:place], changed, *corpus.sentences[place + 1 :]]
    try:
        write_corpus(corpus.with_sentences(sentences), target)
    except DataError:  # a label that the format cannot write
        return False
    written = target.read_bytes()
    again = read_corpus(target, replace(corpus.options, format=name))
    assert [one.labels for one in again.sentences] == [one.labels for one in sentences]
    _check_the_rest(name, data, written, place, sound)
    return True


def relabelled(rng: Random, corpus: Corpus, sentence: Sentence) -> Sentence:
    """The sentence with one segment of another type, or none."""
    types = sorted({label[2:] for one in corpus.sentences for label in one.labels if label[1:2] == "-"} | {"PER"})
    first = rng.randrange(len(sentence))
    last = rng.randint(first + 1, min(len(sentence), first + 3))
    labels, chosen = list(sentence.labels), rng.choice([*types, ""])
    if corpus.normalised_scheme != "iob2":
        labels[first:last] = [rng.choice(sorted({*sentence.labels, "O"}))] * (last - first)
        return sentence.with_labels(labels)
    labels[first:last] = [f"B-{chosen}", *[f"I-{chosen}"] * (last - first - 1)] if chosen else ["O"] * (last - first)
    if last < len(labels) and labels[last].startswith("I-"):
        labels[last] = "B" + labels[last][1:]
    return sentence.with_labels(labels)


def _check_the_rest(name: str, before: bytes, after: bytes, changed: int, sound: bool) -> None:
    """All but the labels of one sentence is equal, by the format's own library where that can read the file."""
    try:
        old_labels, old_rest = KINDS[name].apart(before)
    except Exception:  # a damaged file, which tagtrace reads and the library does not
        return
    new_labels, new_rest = KINDS[name].apart(after)
    assert old_rest[: None if sound else 1] == new_rest[: None if sound else 1]
    pairs = zip([row for row in old_labels if row], [row for row in new_labels if row], strict=True)
    differing = [(place, old, new) for place, (old, new) in enumerate(pairs) if old != new]
    assert [place for place, _, _ in differing] in ([], [changed])
    assert ("-", "O") not in [pair for _, old, new in differing for pair in zip(old, new, strict=True)]


def file_of(name: str) -> Callable[[Random], bytes]:
    """A file of the format, often damaged, and where it is compressed, also inside."""

    def make(rng: Random) -> bytes:
        data = KINDS[name].make(rng)
        if name == "docbin" and rng.random() < 0.5:
            data = zlib.compress(pieces.damaged(rng, zlib.decompress(data)))
        while rng.random() < 0.4:
            data = pieces.damaged(rng, data)
        return data

    return make


def reader_of(name: str) -> Callable[[Path], object]:
    """Reads a file, and writes it back unchanged and with one segment relabelled."""
    return lambda path: check_file(name, path)


def sentence(rng: Random) -> tuple[list[str], list[str]]:
    """Tokens and sound IOB2 labels."""
    tokens = [rng.choice(WORDS) for _ in range(rng.randint(1, 6))]
    labels: list[str] = []
    for _ in tokens:
        inside = [f"I-{labels[-1][2:]}"] if labels and labels[-1] != "O" else []
        labels.append(rng.choice(("O", "O", "B-PER", "B-LOC", *inside * 2)))
    return tokens, labels


WORDS = tuple(word for word in pieces.TOKENS if word.strip() and not re.search(r"[\x00\ufeff]", word))
NAMES = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC", "B-X y", "I-X y")


# CoNLL-U -----------------------------------------------------------------------------------------------------


def conllu(rng: Random) -> bytes:
    """Sentences with names, ranges and empty nodes; the key is written for O in some files only."""
    writes_o, end, lines = rng.random() < 0.3, rng.choice(("\n", "\n", "\r\n")), list[str]()
    for number in range(rng.randint(1, 5)):
        tokens, labels = sentence(rng)
        labels = [*labels, "B-PER"] if number == 0 else labels  # so that the key is met
        tokens = [*tokens, "Orla"] if number == 0 else tokens
        lines += rng.sample(("# newdoc", "# newdoc id = d", "# sent_id = s", "# text = rain"), rng.randint(0, 3))
        for place, (token, label) in enumerate(zip(tokens, labels, strict=True), start=1):
            if rng.random() < 0.1:
                lines.append("\t".join([f"{place}-{place + 1}", token, *"_" * 7, "NER=B-LOC"]))
            ner = [f"NER={label}"] if label != "O" or writes_o else []
            misc = sorted(rng.sample(("Gloss=x", "SpaceAfter=No", "Align=1"), rng.randint(0, 3)) + ner)
            lines.append("\t".join([str(place), token, "_", rng.choice("_X"), *"_" * 5, "|".join(misc) or "_"]))
            if rng.random() < 0.1:
                lines.append("\t".join([f"{place}.1", token, *"_" * 7, "_"]))
        lines.append("")
    return end.join([*lines, ""]).encode()


def conllu_apart(data: bytes) -> Parts:
    """Without MISC all is equal byte for byte, and MISC as the package ``conllu`` reads it."""
    from conllu.parser import parse_dict_value  # noqa: PLC0415

    labels, rest, row = list[list[str]](), list[Any](), list[str]()
    for line in io.BytesIO(data):
        fields = line.rstrip(b"\r\n").split(b"\t")
        if len(fields) != 10 or not fields[0].isdigit():
            rest.append(line)
            if not line.strip():
                labels.append(row)
                row = []
            continue
        misc = parse_dict_value(fields[9].decode()) or {}
        row.append(misc.pop("NER", "O") or "O")
        rest.append((fields[:9], misc, line[len(line.rstrip(b"\r\n")) :]))
    return [*labels, row], (rest,)


# Parquet and arrow -------------------------------------------------------------------------------------------


def parquet(rng: Random) -> bytes:
    """A table with labels as numbers or strings, several row groups and other columns."""
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import parquet as pq  # noqa: PLC0415

    table, sink = dataset_table(rng), pa.BufferOutputStream()
    if rng.random() < 0.3:
        new = rng.choice((pa.ipc.new_stream, pa.ipc.new_file))
        with new(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=rng.choice((1, 3, 100)))
    else:
        codec = rng.choice(("NONE", "SNAPPY", "ZSTD", "GZIP", "BROTLI", "LZ4"))
        has_schema = rng.random() < 0.8
        with pq.ParquetWriter(
            sink, table.schema, compression=codec, use_dictionary=rng.random() < 0.5, store_schema=has_schema,
            write_statistics=rng.random() < 0.5, version=rng.choice(("1.0", "2.4", "2.6")),
            data_page_version=rng.choice(("1.0", "2.0")), write_page_index=rng.random() < 0.3,
            write_page_checksum=rng.random() < 0.3, use_compliant_nested_type=rng.random() < 0.7,
        ) as writer:  # fmt: skip
            writer.write_table(table, rng.choice((1, 3, 100)))
            writer.add_key_value_metadata({"further": "kept"} if has_schema else table.schema.metadata)
    return sink.getvalue().to_pybytes()


def dataset_table(rng: Random) -> Any:
    import pyarrow as pa  # noqa: PLC0415

    rows = [sentence(rng) for _ in range(rng.randint(1, 8))]
    rows = [*rows, ([], [])] if rng.random() < 0.2 else rows
    as_numbers, key = rng.random() < 0.7, rng.choice(("ner_tags", "labels", "tags"))
    lists, strings = rng.choice((pa.list_, pa.large_list)), rng.choice((pa.string(), pa.large_string()))
    numbers = rng.choice((pa.int64(), pa.int8(), pa.uint16()))
    labels = [[NAMES.index(one) if as_numbers else one for one in row] for _, row in rows]
    columns: dict[str, Any] = {
        "extra": pa.array([rng.choice((None, 0.5, -1e300)) for _ in rows], pa.float64()),
        "tokens": pa.array([row for row, _ in rows], lists(strings)),
        key: pa.array(labels, lists(numbers if as_numbers else strings)),
        "spans": pa.array([[{"a": 1, "b": None}] for _ in rows]),
    }
    if rng.random() < 0.6:
        columns["id"] = pa.array([rng.choice((str(number), f"d_{number}", "same")) for number in range(len(rows))])
    if rng.random() < 0.3:
        columns[rng.choice(("doc_id", "document"))] = pa.array([number // 2 for number in range(len(rows))])
    feature = {"feature": {"names": NAMES, "_type": "ClassLabel"}, "_type": rng.choice(("List", "Sequence"))}
    about = {"info": {"features": {key: feature}}} if as_numbers else {}
    return pa.table(columns).replace_schema_metadata({"huggingface": json.dumps(about), "more": "kept"})


def parquet_apart(data: bytes) -> Parts:
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import parquet as pq  # noqa: PLC0415

    facts: list[Any] = []
    if data.startswith(b"PAR1"):
        file = pq.ParquetFile(pa.BufferReader(data))
        table, about = file.read(), file.metadata
        metadata, in_schema = about.metadata or {}, table.schema.metadata or {}
        further = {key: value for key, value in metadata.items() if key not in (b"ARROW:schema", *in_schema)}
        facts += [about.format_version, sorted(metadata), further]
        for number in range(about.num_row_groups):
            group = about.row_group(number)
            columns = [group.column(one) for one in range(about.num_columns)]
            facts.append((group.num_rows, [(one.compression, one.is_stats_set) for one in columns]))
        facts.append([about.schema.column(one).path for one in range(about.num_columns)])
    elif data.startswith(b"ARROW1"):
        reader = pa.ipc.open_file(pa.BufferReader(data))
        table = reader.read_all()
        facts += [reader.get_batch(number).num_rows for number in range(reader.num_record_batches)]
    else:
        table = pa.ipc.open_stream(pa.BufferReader(data)).read_all()
        facts += [len(chunk) for chunk in table.column(0).chunks]
    table.validate(full=True)
    (key,) = {"ner_tags", "labels", "tags"} & set(table.column_names)
    values = table.column(key).to_pylist()
    facts += [table.schema.remove_metadata().to_string(), table.schema.metadata]
    rest = repr(table.drop_columns([key]).to_pydict())
    return [[NAMES[one] if isinstance(one, int) else one for one in row] for row in values], (rest, facts)


# DocBin ------------------------------------------------------------------------------------------------------


def docbin(rng: Random) -> bytes:
    """Documents with entities, missing annotation, sentences, parses, categories, spans and data of users."""
    attrs = ["ENT_IOB", "ENT_TYPE", *rng.sample(("ENT_KB_ID", "ENT_ID", "SENT_START", "HEAD", "DEP", "LEMMA"), 4)]
    found = _spacy().DocBin(attrs=attrs, store_user_data=rng.random() < 0.5)
    for number in range(rng.randint(1, 4)):
        sentences = [sentence(rng) for _ in range(rng.randint(0 if number else 1, 3))]
        found.add(_doc(rng, sentences))
    return found.to_bytes()


def _doc(rng: Random, sentences: list[tuple[list[str], list[str]]]) -> Any:
    spacy = _spacy()
    words = [word for tokens, _ in sentences for word in tokens]
    labels = ["" if label == "O" and rng.random() < 0.2 else label for _, row in sentences for label in row]
    sizes, has_parse = [len(tokens) for tokens, _ in sentences], rng.random() < 0.4
    heads = [sum(sizes[:number]) for number, size in enumerate(sizes) for _ in range(size)]
    more: dict[str, Any] = {"heads": heads, "deps": [rng.choice(("dep", "obj")) for _ in words]} if has_parse else {}
    if not has_parse and rng.random() < 0.6:
        more["sent_starts"] = [token == 0 for size in sizes for token in range(size)]
    spaces = [rng.random() < 0.7 for _ in words] if rng.random() < 0.9 else None
    doc = spacy.Doc(spacy.VOCAB, words=words, spaces=spaces, ents=labels, **more)
    doc.set_ents([_with_id(rng, one) for one in doc.ents], default="unmodified")
    if words:
        doc.cats = {"sea": rng.random()}
        doc.spans["some"] = [doc[0 : rng.randint(1, len(words))]]
        doc.user_data["by"] = rng.choice(("Orla", 7))
    return doc


def _with_id(rng: Random, entity: Any) -> Any:
    entity.kb_id_ = rng.choice(("", "Q1"))
    return entity


def docbin_apart(data: bytes) -> Parts:
    """As spaCy reads it: the sentences are its own."""
    spacy = _spacy()
    found, labels, rest = spacy.DocBin().from_bytes(data), list[list[str]](), list[Any]()
    for doc in found.get_docs(spacy.Vocab()):
        rest.append((doc.to_json(), doc.spans.to_bytes(), repr(doc.user_data), doc.has_unknown_spaces))
        rest[-1][0].pop("ents", None)
        kept = [one for one in found.attrs if one not in spacy.ENTITY]
        rest.append(doc.to_array(kept).tolist())
        parts = list(doc.sents) if doc.has_annotation("SENT_START") else [doc]
        for number, part in enumerate(parts):
            if number > 0 and part[0].ent_iob_ == "I":  # tagtrace begins no sentence inside an entity
                labels[-1] += map(_label, part)
            else:
                labels.append([_label(token) for token in part])
    return labels, ([*rest, found.attrs, found.version, len(found.user_data)],)


def _label(token: Any) -> str:
    if token.ent_iob_ in ("", "O"):
        return token.ent_iob_ or "-"
    return f"{token.ent_iob_}-{token.ent_type_}"


@cache
def _spacy() -> Any:
    """What is used of spaCy, which takes seconds to import."""
    from spacy.attrs import IDS  # noqa: PLC0415
    from spacy.tokens import Doc, DocBin  # noqa: PLC0415
    from spacy.vocab import Vocab  # noqa: PLC0415

    entity = {IDS[name] for name in ("ENT_IOB", "ENT_TYPE", "ENT_KB_ID", "ENT_ID")}
    return SimpleNamespace(Doc=Doc, DocBin=DocBin, Vocab=Vocab, VOCAB=Vocab(), ENTITY=entity)


KINDS = {
    "conllu": Kind(".conllu", conllu, conllu_apart),
    "parquet": Kind(".parquet", parquet, parquet_apart),
    "docbin": Kind(".spacy", docbin, docbin_apart),
}
