"""A damaged index, or one that belongs to something else, is refused in one line that says what to do."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from tagtrace._tensor_files import write_tensors
from tagtrace.data import LabelSet, ReadOptions, read_corpus
from tagtrace.index import Index, IndexFolderError, IndexOptions, build_index, open_index
from tagtrace.index.checksums import CLOCK_NS
from tagtrace.index.fingerprints import tagger_fingerprint
from tagtrace.tagger import HeadOptions, Lexical, LexicalOptions, Vectors, load_tagger, new_tagger, save_tagger
from tests.damage import DAMAGES, damage, unseal
from tests.index.test_build import make_corpus, make_tagger
from tests.strategies import LABELS

FILES = ("shard-00001", "errors-00001", "text-00001", "head")


@pytest.fixture
def index(tmp_path: Path) -> Index:
    return build_index(make_tagger(), make_corpus(), tmp_path / "index", IndexOptions(shard_tokens=20))


def read_manifest(index: Index) -> dict[str, Any]:
    """Without its seal, so that a changed one is not refused for being changed at all."""
    manifest = json.loads((index.folder / "manifest.json").read_text())
    del manifest["seal"]
    return manifest


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
def test_a_link_that_leads_out_of_the_index(index: Index, tmp_path: Path, name: str) -> None:
    path = index.folder / f"{name}.safetensors"
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    refused(index, f"{name}.safetensors: Is a link that leads out of its folder")


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


def test_a_head_that_is_not_of_numbers(index: Index) -> None:
    """Even if its checksum is the recorded one."""
    weights = load_file(index.folder / "head.safetensors")
    weights["weight"][0, 0] = torch.nan
    record = write_tensors(index.folder, "head.safetensors", weights)
    manifest = read_manifest(index)
    manifest["head_file"] = asdict(record)
    (index.folder / "manifest.json").write_text(json.dumps(manifest))
    refused(index, r"head.safetensors: the weights are not finite numbers; build the index again")


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
    manifest = read_manifest(index)
    for file in manifest["shards"][1]["files"]:
        file["num_bytes"] = (index.folder / file["name"]).stat().st_size
    (index.folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(IndexFolderError, match=r"does not match the manifest|not a valid shard"):
        len(open_index(index.folder).shards)


MANIFESTS: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "format": (lambda m: m.update(format=99), "format 99, but this tagtrace reads format 2"),
    "no format": (lambda m: m.pop("format"), "format None"),
    "no labels": (lambda m: m.pop("labels"), "labels is missing"),
    "labels": (lambda m: m.update(labels={"labels": ["A", "A"], "scheme": "plain"}), "distinct labels"),
    "shards": (lambda m: m.update(shards=3), "shards should be a valid (tuple|array)"),
    "fit": (lambda m: m["fit"].pop("max_gradient"), "fit.max_gradient is missing"),
    "a shard of text": (lambda m: m["shards"].append("x"), "shards.4 should be an object"),
    "a path of numbers": (lambda m: m["data"].update(path=[1]), "data.path should be a valid string"),
    "an option": (lambda m: m["data"]["options"].update(format="runes"), "unknown format 'runes'"),
    "true": (lambda m: m.update(num_tokens=True), "num_tokens should be a valid integer"),
    "less than nothing": (lambda m: m.update(num_tokens=-1), "num_tokens is -1, but the shards have 64"),
    "elsewhere": (lambda m: m["head_file"].update(name="../head.safetensors"), "file name .* not inside its folder"),
    "dim": (lambda m: m.update(dim=5), "head does not fit"),
    "dim beyond memory": (lambda m: m.update(dim=10**15), "head does not fit"),
    "negative": (lambda m: m["shards"][0].update(num_sentences=-3), "num_sentences is 12, but the shards have"),
    "no files of a shard": (lambda m: m["shards"][0].update(files=[]), "files are not those of an index"),
    "other files": (lambda m: m["shards"].reverse(), "files are not those of an index"),
    "no shards": (lambda m: m.update(shards=[], num_tokens=0, num_sentences=0), "files are not those of an index"),
    "l2": (lambda m: m["fit"].update(l2=-1.0), "fit.l2 is -1.0, but cannot be negative"),
    "more": (lambda m: m.update(extra=1), "extra is unknown"),
}


@pytest.mark.parametrize("what", MANIFESTS)
def test_manifest_that_makes_no_sense(index: Index, what: str) -> None:
    change, message = MANIFESTS[what]
    manifest = read_manifest(index)
    change(manifest)
    (index.folder / "manifest.json").write_text(json.dumps(manifest))
    refused(index, message)


def test_not_an_index(index: Index, tmp_path: Path) -> None:
    (index.folder / "manifest.json").write_text("{")
    refused(index, "not valid JSON")
    (index.folder / "manifest.json").write_text("[" * 100_000)
    refused(index, "not valid JSON")
    (index.folder / "manifest.json").unlink()
    os.mkfifo(index.folder / "manifest.json")
    refused(index, "Not an ordinary file")
    (index.folder / "manifest.json").unlink()
    (index.folder / "manifest.json").mkdir()
    refused(index, "directory")
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
        match=r"built from other data \(.*train\.conll\), not from train\.conll; give the one it was built with",
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
    assert index.manifest.data.options.label_column is not None
    with pytest.raises(IndexFolderError, match=r"the sentences or labels of .* differ from the index's"):
        index.check_corpus(read_corpus(file, ReadOptions(label_column=1)))


def test_opening_draws_no_random_numbers(index: Index) -> None:
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    open_index(index.folder)
    assert torch.equal(torch.rand(1), expected)


FOLDER_FILES = ("manifest.json", *(f"{name}.safetensors" for name in FILES))


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Index, Index]:
    """An index, and one of other data with another strength."""
    folder, options = tmp_path_factory.mktemp("two"), IndexOptions(shard_tokens=20)
    own = build_index(make_tagger(), make_corpus(), folder / "index", options)
    return own, build_index(make_tagger(1), make_corpus(13, seed=1), folder / "other", replace(options, l2=7.0))


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("name", FOLDER_FILES)
def test_every_damage_is_found(two: tuple[Index, Index], tmp_path: Path, name: str, how: str) -> None:
    shutil.copytree(two[0].folder, tmp_path / "index")
    open_index(tmp_path / "index", verify=True)
    damage(tmp_path / "index" / name, how, two[1].folder / name)
    with pytest.raises(IndexFolderError, match="build the index again") as caught:
        open_index(tmp_path / "index", verify=True)
    assert str(tmp_path / "index") in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("how", DAMAGES)
def test_no_damage_to_what_was_noted_matters(two: tuple[Index, Index], tmp_path: Path, how: str) -> None:
    folder, noted = tmp_path / "index", tmp_path / "index" / "verified.json"
    shutil.copytree(two[0].folder, folder)
    noted.write_text(json.dumps({file.name: [file.sha256, 1, 2, 3, 4] for file in two[0].manifest.files()}))
    (tmp_path / "other.json").write_text("{}")
    damage(noted, how, tmp_path / "other.json")
    assert open_index(folder, verify=True).manifest == two[0].manifest
    damage(folder / "errors-00001.safetensors", "middle", tmp_path)
    with pytest.raises(IndexFolderError, match=r"errors-00001.safetensors: its checksum differs"):
        open_index(folder, verify=True)


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m["fit"].update(l2=2.0),
        lambda m: m["head"].update(constrained=True),
        lambda m: m["data"].update(content="0" * 64),
        lambda m: m["labels"]["labels"].reverse(),
        lambda m: m["head_file"].update(sha256="0" * 64),
    ],
)
def test_every_value_of_the_manifest_is_covered(index: Index, change: Callable[[dict[str, Any]], object]) -> None:
    manifest = json.loads((index.folder / "manifest.json").read_bytes())
    change(manifest)
    (index.folder / "manifest.json").write_text(json.dumps(manifest))
    refused(index, r"manifest.json: was changed after it was written .*; restore a copy or build the index again")


def test_an_index_of_a_version_without_seals_is_read(index: Index) -> None:
    unseal(index.folder / "manifest.json")
    assert open_index(index.folder, verify=True).manifest == index.manifest


# Indexes whose author made the checksums of what is wrong


def resealed(index: Index, name: str, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    tensors = {key: value.clone() for key, value in load_file(index.folder / name).items()}
    change(tensors)
    record = asdict(write_tensors(index.folder, name, tensors))
    manifest = read_manifest(index)
    for shard in manifest["shards"]:
        shard["files"] = [record if file["name"] == name else file for file in shard["files"]]
    (index.folder / "manifest.json").write_text(json.dumps(manifest))


def longer(tensors: dict[str, torch.Tensor], by: int) -> None:
    tensors["lengths"][0] += by
    tensors["lengths"][1] -= by


SHARDS: dict[str, Callable[[dict[str, torch.Tensor]], object]] = {
    "a label beyond": lambda t: t["labels"].fill_(9),
    "a label far beyond": lambda t: t["labels"].fill_(30_000),
    "a label below": lambda t: t["labels"].fill_(-1),
    "labels of numbers": lambda t: t.update(labels=t["labels"].float() / 2),
    "labels in rows": lambda t: t.update(labels=t["labels"].unsqueeze(1)),
    "a length below": lambda t: longer(t, 5_000_000),
    "a length beyond": lambda t: longer(t, -5_000_000),
    "a sentence of nothing": lambda t: longer(t, int(t["lengths"][1])),
    "lengths that run over": lambda t: t.update(
        lengths=torch.tensor([2**62, 2**62, 2**62, 2**62, *([1] * (len(t["lengths"]) - 5)), len(t["labels"])])
    ),
    "lengths in rows": lambda t: t.update(lengths=t["lengths"].unsqueeze(1)),
    "features of whole numbers": lambda t: t.update(features=t["features"].to(torch.int8)),
    "features without a width": lambda t: t.update(features=t["features"][:, 0].contiguous()),
}


@pytest.mark.parametrize("what", SHARDS)
def test_sentences_that_make_no_sense(index: Index, what: str) -> None:
    resealed(index, "shard-00000.safetensors", SHARDS[what])
    with pytest.raises(IndexFolderError, match=r"shard-00000.safetensors: not a valid shard; restore") as caught:
        len(open_index(index.folder, verify=True).shards)
    assert "\n" not in str(caught.value)


TEXTS: dict[str, Callable[[dict[str, torch.Tensor]], object]] = {
    "a column is missing": lambda t: t.pop("lines"),
    "places are missing": lambda t: t.pop("ids.places"),
    "a document beyond": lambda t: t["document"].fill_(99),
    "a path below": lambda t: t["path"].fill_(-1),
    "places beyond": lambda t: t["tokens.places"][-1].fill_(10**6),
    "places below": lambda t: t["tokens.places"][1].fill_(-5),
    "places backwards": lambda t: t["ids.places"][1].fill_(int(t["ids.places"][3])),
    "places of numbers": lambda t: t.update({"ids.places": t["ids.places"].float()}),
    "no places": lambda t: t.update({"ids.places": t["ids.places"][:0]}),
    "fewer tokens": lambda t: t.update({"tokens.places": t["tokens.places"][[*range(3), -1]]}),
    "fewer lines": lambda t: t.update(lines=t["lines"][:1]),
    "bytes that are no text": lambda t: t["tokens"].fill_(0xFF),
    "half a character": lambda t: (
        t["tokens"][0].fill_(0xC3),
        t["tokens"][1].fill_(0xA9),
        t["tokens.places"][1].fill_(1),
    ),
}


@pytest.mark.parametrize("what", TEXTS)
def test_text_that_makes_no_sense(index: Index, what: str) -> None:
    resealed(index, "text-00000.safetensors", TEXTS[what])
    opened = open_index(index.folder, verify=True)
    for use in (lambda: opened.sentence(0), lambda: opened.ids, lambda: opened.documents, opened.words):
        with pytest.raises(IndexFolderError, match=r"text-00000.safetensors: not a valid shard; restore"):
            use()


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("name", ["shard", "errors"])
def test_numbers_that_are_not_finite(index: Index, name: str, value: float) -> None:
    key = "features" if name == "shard" else name
    resealed(index, f"{name}-00001.safetensors", lambda tensors: tensors[key][2, 1].fill_(value))
    refused(index, rf"{name}-00001.safetensors: {key} contains NaN or infinity; restore", verify=True)


def test_large_numbers_are_finite(index: Index) -> None:
    resealed(index, "errors-00001.safetensors", lambda tensors: tensors["errors"].fill_(3e38))
    open_index(index.folder, verify=True)


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_the_record_of_checksums_is_replaced_itself(index: Index, tmp_path: Path, kind: str) -> None:
    (tmp_path / "victim").write_text("precious")
    record = index.folder / "verified.json"
    record.unlink(missing_ok=True)
    record.symlink_to(tmp_path / "victim") if kind == "link" else os.mkfifo(record)
    later = (index.folder / "manifest.json").stat().st_ctime_ns + 2 * CLOCK_NS
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time_ns", lambda: later)
        open_index(index.folder, verify=True)
    assert (tmp_path / "victim").read_text() == "precious"
    assert record.is_file()
    assert not record.is_symlink()
