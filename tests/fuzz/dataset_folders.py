"""Random saved datasets, whole or damaged, as one file each, and what must hold after one sentence was relabelled."""

from __future__ import annotations

import json
import shutil
import zlib
from pathlib import Path
from random import Random
from typing import Any

from tagtrace._checks import DataError
from tagtrace.data import ReadOptions, read_corpus, write_corpus
from tests.data.formats.brat_standoff import files_of
from tests.fuzz import pieces, tables
from tests.fuzz.brat_folders import packed, unpacked


def dataset_folder(rng: Random) -> bytes:
    """A folder as ``save_to_disk`` writes it, often damaged."""
    files = dataset_files(rng)
    for name in sorted(files):
        chance = rng.random()
        if chance < 0.1:
            files[name] = pieces.damaged(rng, files[name])
        elif chance < 0.12:
            del files[name]
    return packed(files)


def dataset_files(rng: Random) -> dict[str, bytes]:
    """A sound folder, sometimes with a file that is not read."""
    import pyarrow as pa  # noqa: PLC0415

    table = tables.dataset_table(rng)
    key = next(name for name in ("ner_tags", "labels", "tags") if name in table.column_names)
    about = json.loads(table.schema.metadata[b"huggingface"])
    num_shards, files = rng.randint(1, 3), dict[str, bytes]()
    names = [f"data-{number:05d}-of-{num_shards:05d}.arrow" for number in range(num_shards)]
    bounds = [round(number * table.num_rows / num_shards) for number in range(num_shards + 1)]
    for name, start, stop in zip(names, bounds, bounds[1:], strict=False):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table.slice(start, stop - start), max_chunksize=rng.choice((1, 2, 1000)))
        files[name] = sink.getvalue().to_pybytes()
    state: dict[str, Any] = {
        "_data_files": [{"filename": name} for name in names], "_fingerprint": f"{rng.getrandbits(64):016x}",
        "_format_columns": rng.choice((None, [key])), "_format_kwargs": {}, "_format_type": None,
        "_output_all_columns": False, "_split": rng.choice((None, "train")),
    }  # fmt: skip
    files["state.json"] = json.dumps(state, indent=rng.choice((2, 2, None))).encode()
    files["dataset_info.json"] = json.dumps(
        {"citation": "", "features": about.get("info", {}).get("features")}
    ).encode()
    return files | ({"cache-0.arrow": b"\0"} if rng.random() < 0.2 else {})


def relabelled(path: Path) -> None:
    """A folder is copied byte for byte; a new label changes its arrow file and the fingerprint, and nothing else."""
    folder, copy, fixed = (path.with_name(name) for name in ("folder", "folder copy", "folder fixed"))
    for each in (folder, copy, fixed):
        shutil.rmtree(each, ignore_errors=True)
    folder.mkdir()
    unpacked(path, folder)
    corpus = read_corpus(folder, ReadOptions(format="dataset"))
    write_corpus(corpus, copy)
    before = files_of(folder)
    assert files_of(copy) == before
    rng = Random(zlib.crc32(path.read_bytes()))
    place = rng.randrange(len(corpus.sentences))
    changed = tables.relabelled(rng, corpus, corpus.sentences[place])
    sentences = [*corpus.sentences[:place], changed, *corpus.sentences[place + 1 :]]
    try:
        num_changed = write_corpus(corpus.with_sentences(sentences), fixed)
    except DataError:  # a label that the dataset has no number for
        return
    assert [one.labels for one in read_corpus(fixed, corpus.options).sentences] == [one.labels for one in sentences]
    after = files_of(fixed)
    differ = {name for name in before if before[name] != after[name]}
    assert before.keys() == after.keys()
    assert len(differ) == (2 if num_changed else 0)
    if differ:
        check_files(before, after, differ)


def check_files(before: dict[str, bytes], after: dict[str, bytes], differ: set[str]) -> None:
    """Of two files that differ, one is the state, in its fingerprint only, and one an arrow file in its labels."""
    was, now = (json.loads(files["state.json"]) for files in (before, after))
    assert was.pop("_fingerprint") != now.pop("_fingerprint")
    assert was == now
    (shard,) = differ - {"state.json"}
    (old, old_rest), (new, new_rest) = (tables.parquet_apart(files[shard]) for files in (before, after))
    assert old_rest == new_rest
    assert sum(a != b for a, b in zip(old, new, strict=True)) == 1
