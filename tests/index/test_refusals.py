"""A damaged index, or one that belongs to something else, is refused in one line that says what to do."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tagtrace.data import LabelSet, ReadOptions, read_corpus
from tagtrace.index import Index, IndexFolderError, IndexOptions, build_index, open_index
from tagtrace.index.fingerprints import tagger_fingerprint
from tagtrace.tagger import HeadOptions, Lexical, LexicalOptions, Vectors, load_tagger, new_tagger, save_tagger
from tests.index.test_build import make_corpus, make_tagger
from tests.strategies import LABELS

FILES = ("shard-00001", "errors-00001", "text-00001", "head")


@pytest.fixture
def index(tmp_path: Path) -> Index:
    return build_index(make_tagger(), make_corpus(), tmp_path / "index", IndexOptions(shard_tokens=20))


def refused(index: Index, message: str, *, verify: bool = False) -> None:
    with pytest.raises(IndexFolderError, match=message) as caught:
        open_index(index.folder, verify=verify)
    assert "\n" not in str(caught.value)
    assert str(index.folder) in str(caught.value)


@pytest.mark.parametrize("name", FILES)
def test_missing_file(index: Index, name: str) -> None:
    (index.folder / f"{name}.safetensors").unlink()
    refused(index, f"{name}.safetensors: missing")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("num_bytes", [-1, 1])
def test_file_of_another_size(index: Index, name: str, num_bytes: int) -> None:
    path = index.folder / f"{name}.safetensors"
    os.truncate(path, path.stat().st_size + num_bytes)
    refused(index, f"{name}.safetensors: has .* bytes, but .* were written")


@pytest.mark.parametrize("name", FILES)
def test_one_byte_flipped(index: Index, name: str) -> None:
    flip_last_byte(index.folder / f"{name}.safetensors")
    refused(index, f"{name}.safetensors: its checksum differs", verify=True)
    with pytest.raises(IndexFolderError, match="checksum"):
        index.verify()
    if name == "head":
        refused(index, "checksum")  # small, so it is always compared
    else:
        open_index(index.folder)


def flip_last_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("name", ["shard-00001", "errors-00001"])
def test_damaged_header(index: Index, name: str) -> None:
    path = index.folder / f"{name}.safetensors"
    path.write_bytes(b"\xff" * 16 + path.read_bytes()[16:])
    with pytest.raises(IndexFolderError, match="cannot be read"):
        len(open_index(index.folder).shards)


@pytest.mark.parametrize("name", ["shard", "errors"])
def test_shards_of_another_index(index: Index, tmp_path: Path, name: str) -> None:
    """Of the right size, so that only the contents differ."""
    other = build_index(make_tagger(), make_corpus(13), tmp_path / "other", IndexOptions(shard_tokens=1))
    stranger, own = other.folder / f"{name}-00000.safetensors", index.folder / f"{name}-00001.safetensors"
    own.write_bytes(stranger.read_bytes())
    manifest = json.loads((index.folder / "manifest.json").read_text())
    for file in manifest["shards"][1]["files"]:
        file["num_bytes"] = (index.folder / file["name"]).stat().st_size
    (index.folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(IndexFolderError, match=r"does not match the manifest|not a valid shard"):
        len(open_index(index.folder).shards)


MANIFESTS: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "format": (lambda m: m.update(format=99), "format 99, but this tagtrace reads format 2"),
    "no format": (lambda m: m.pop("format"), "format None"),
    "no labels": (lambda m: m.pop("labels"), "damaged .*labels"),
    "labels": (lambda m: m.update(labels={"labels": ["A", "A"], "scheme": "plain"}), "damaged .*distinct"),
    "shards": (lambda m: m.update(shards=3), "damaged"),
    "fit": (lambda m: m["fit"].pop("max_gradient"), "damaged"),
    "dim": (lambda m: m.update(dim=5), "head does not fit"),
    "more": (lambda m: m.update(extra=1), "damaged"),
}


@pytest.mark.parametrize("what", MANIFESTS)
def test_manifest_that_makes_no_sense(index: Index, what: str) -> None:
    change, message = MANIFESTS[what]
    manifest = json.loads((index.folder / "manifest.json").read_text())
    change(manifest)
    (index.folder / "manifest.json").write_text(json.dumps(manifest))
    refused(index, message)


def test_not_an_index(index: Index, tmp_path: Path) -> None:
    (index.folder / "manifest.json").write_text("{")
    refused(index, "not valid JSON")
    for folder in (tmp_path, Path("/dev/null")):
        with pytest.raises(IndexFolderError, match=r"not an index \(no manifest.json\)"):
            open_index(folder)


def test_another_tagger(index: Index) -> None:
    index.check_tagger(make_tagger())
    for other in (
        make_tagger(seed=1),
        make_tagger(head=HeadOptions(constrained=True)),
        make_tagger(unit="document"),
        make_tagger(scale=1.001),
        make_tagger().double(),
    ):
        with pytest.raises(IndexFolderError, match="another tagger"):
            index.check_tagger(other)
    labels = LabelSet(("O", "B-Y", "I-Y"), "iob2")
    with pytest.raises(IndexFolderError, match="labels"):
        index.check_tagger(new_tagger(make_tagger().encoder, labels))


def test_a_tagger_is_known_wherever_it_is_kept(tmp_path: Path) -> None:
    torch.manual_seed(0)
    lexical = new_tagger(Lexical(LexicalOptions(64, 4, 4)), LABELS)
    vectors = new_tagger(Vectors(["a", "b"], torch.randn(2, 3)), LABELS)
    for tagger in (lexical, vectors):
        for name in ("first", "second"):
            save_tagger(tagger, tmp_path / name, overwrite=True)
            assert tagger_fingerprint(load_tagger(tmp_path / name)) == tagger_fingerprint(tagger)


def test_other_vectors_are_another_tagger() -> None:
    def fingerprint(words: list[str], scale: float, pos: tuple[str, ...] = ("N",)) -> str:
        torch.manual_seed(0)
        return tagger_fingerprint(new_tagger(Vectors(words, scale * torch.ones(2, 3), pos), LABELS))

    same = fingerprint(["a", "b"], 1.0)
    assert same == fingerprint(["a", "b"], 1.0)
    assert same not in (
        fingerprint(["a", "c"], 1.0),
        fingerprint(["a", "b"], 2.0),
        fingerprint(["a", "b"], 1.0, ("V",)),
    )


def test_other_data(index: Index) -> None:
    corpus = make_corpus()
    index.check_corpus(corpus)
    with pytest.raises(
        IndexFolderError,
        match=r"built from other data \(train\.conll\), not from train\.conll; give the one it was built with",
    ):
        index.check_corpus(make_corpus(seed=1))
    changed = corpus.sentences[0].with_labels(["O"] * len(corpus.sentences[0]))
    for sentences in (corpus.sentences[1:], [changed, *corpus.sentences[1:]]):
        with pytest.raises(IndexFolderError, match=r"the sentences or labels of .* differ from the index's"):
            index.check_corpus(corpus.with_sentences(sentences))


def test_other_columns_of_the_same_file(tmp_path: Path) -> None:
    file = tmp_path / "train.conll"
    file.write_text("Oslo B-X O\nis O O\n\nhere O B-X\nnow O I-X\n")
    last = read_corpus(file)
    index = build_index(make_tagger(), last, tmp_path / "index")
    index.check_corpus(read_corpus(file))
    assert index.manifest.data["options"]["label_column"] is not None
    with pytest.raises(IndexFolderError, match=r"the sentences or labels of .* differ from the index's"):
        index.check_corpus(read_corpus(file, ReadOptions(label_column=1)))


def test_opening_draws_no_random_numbers(index: Index) -> None:
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    open_index(index.folder)
    assert torch.equal(torch.rand(1), expected)
