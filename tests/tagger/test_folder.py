"""A saved tagger comes back as it was; a damaged one is refused in one line; no save ever harms an older one."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from tagtrace._checks import OptionError, TaggerError, TrainingError
from tagtrace.data import LabelSet
from tagtrace.data.invented import generate
from tagtrace.tagger import (
    HeadOptions,
    Lexical,
    LexicalOptions,
    RefitOptions,
    Tagger,
    TrainOptions,
    Vectors,
    load_tagger,
    new_tagger,
    refit_tagger,
    save_tagger,
    train_tagger,
)
from tests.damage import DAMAGES, unseal
from tests.damage import damage as damage_file

CORPUS = generate(num_documents=20)
LABELS = LabelSet.from_sentences(CORPUS.train, "iob2")


def random_tagger(seed: int = 0, unit: Any = "sentence", **head: Any) -> Tagger:
    torch.manual_seed(seed)
    encoder = Lexical(LexicalOptions(buckets=128, width=8, hidden=8))
    tagger = new_tagger(encoder, LABELS, HeadOptions(**head), unit).eval()
    with torch.no_grad():
        for parameter in tagger.head.parameters():
            parameter.normal_()
    tagger.record = {"note": "Ägypten", "nested": {"losses": [1.5, None]}}
    return tagger


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def assert_same(left: Tagger, right: Tagger) -> None:
    ours, theirs = left.state_dict(), right.state_dict()
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        assert value.dtype == theirs[name].dtype
        assert torch.equal(value, theirs[name])
    assert (left.labels, left.unit, left.record) == (right.labels, right.unit, right.record)
    assert left.head.options == right.head.options
    assert left.predict(CORPUS.dev) == right.predict(CORPUS.dev)
    assert left.predict(CORPUS.dev, constrained=False) == right.predict(CORPUS.dev, constrained=False)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"kind": "softmax"},
        {"start_end": True, "unit": "document"},
        {"start_end": True, "constrained": True},
    ],
)
def test_a_tagger_comes_back_as_it_was(tmp_path: Path, options: dict[str, Any]) -> None:
    tagger = random_tagger(**options)
    save_tagger(tagger.train(), tmp_path / "deep" / "er" / "tagger")
    loaded = load_tagger(str(tmp_path / "deep" / "er" / "tagger"))
    assert not loaded.training
    assert_same(loaded, tagger)


def test_a_trained_and_a_refitted_tagger_come_back(tmp_path: Path) -> None:
    tagger = random_tagger()
    train_tagger(tagger, CORPUS.train[:16], options=TrainOptions(epochs=1))
    save_tagger(tagger, tmp_path / "trained")
    refit_tagger(tagger, CORPUS.train[:16], RefitOptions(l2=10.0))
    save_tagger(tagger, tmp_path / "refitted")
    trained, refitted = load_tagger(tmp_path / "trained"), load_tagger(tmp_path / "refitted")
    assert_same(refitted, tagger)
    assert (trained.head.weight.dtype, refitted.head.weight.dtype) == (torch.float32, torch.float64)
    assert set(refitted.record) - set(trained.record) == {"refit"}
    assert refitted.record["refit"]["max_gradient"] <= 1e-6


def test_another_encoder_comes_back(tmp_path: Path) -> None:
    words = sorted({token for sentence in CORPUS.dev for token in sentence.tokens})
    tagger = new_tagger(Vectors(words, torch.randn(len(words), 4)), LABELS).eval()
    save_tagger(tagger, tmp_path / "tagger")
    assert_same(load_tagger(tmp_path / "tagger"), tagger)


def test_saving_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    save_tagger(random_tagger(), tmp_path / "once")
    save_tagger(load_tagger(tmp_path / "once"), tmp_path / "twice")
    assert contents(tmp_path / "once") == contents(tmp_path / "twice")


def test_nothing_is_pickled(tmp_path: Path) -> None:
    save_tagger(random_tagger(), tmp_path / "tagger")
    files = contents(tmp_path / "tagger")
    assert sorted(files) == ["encoder/encoder.json", "encoder/encoder.safetensors", "head.safetensors", "tagger.json"]
    for name, data in files.items():
        assert not data.startswith((b"\x80", b"PK\x03\x04")), f"{name} looks like pickle or a zip of it"
        if name.endswith(".json"):
            json.loads(data)
    description = json.loads(files["tagger.json"])
    assert description["encoder"] == {"kind": "lexical", "dim": 16}
    assert description["labels"] == LABELS.to_json()


def test_a_tagger_that_exists_is_replaced_only_when_asked(tmp_path: Path) -> None:
    folder = tmp_path / "tagger"
    save_tagger(random_tagger(0), folder)
    before = contents(folder)
    with pytest.raises(OptionError, match=r"exists already; .* overwrite it"):
        save_tagger(random_tagger(1), folder)
    assert contents(folder) == before
    save_tagger(random_tagger(1), folder, overwrite=True)
    assert_same(load_tagger(folder), random_tagger(1))
    assert names(tmp_path) == ["tagger"]


def test_a_folder_that_is_not_a_tagger_is_never_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "precious"
    folder.mkdir()
    (folder / "thesis.txt").write_text("years of work")
    with pytest.raises(OptionError, match=r"has no tagger\.json, so it is not replaced"):
        save_tagger(random_tagger(), folder, overwrite=True)
    assert contents(tmp_path) == {"precious/thesis.txt": b"years of work"}


@pytest.mark.parametrize("overwrite", [False, True])
def test_an_interrupted_save_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overwrite: bool
) -> None:
    folder = tmp_path / "tagger"
    if overwrite:
        save_tagger(random_tagger(0), folder)
    before = contents(tmp_path)

    def half_save(_: Lexical, target: Path) -> None:
        (target / "encoder.json").write_text("{")
        raise KeyboardInterrupt

    monkeypatch.setattr(Lexical, "save", half_save)
    with pytest.raises(KeyboardInterrupt):
        save_tagger(random_tagger(1), folder, overwrite=overwrite)
    assert contents(tmp_path) == before
    assert names(tmp_path) == ["tagger"] * overwrite
    if overwrite:
        assert_same(load_tagger(folder), random_tagger(0))


@pytest.mark.parametrize("number", [torch.nan, torch.inf])
def test_weights_that_are_not_numbers_are_not_saved(tmp_path: Path, number: float) -> None:
    tagger = random_tagger()
    with torch.no_grad():
        tagger.head.weight[0, 0] = number
    with pytest.raises(TrainingError, match=r"head.weight are not finite numbers; train with a lower learning rate"):
        save_tagger(tagger, tmp_path / "tagger")
    assert names(tmp_path) == []


Damage = Callable[[Path], object]


def edited(**changes: Any) -> Damage:
    """A tagger.json with some keys changed; None takes a key out."""

    def damage(folder: Path) -> None:
        path = folder / "tagger.json"
        description = json.loads(path.read_text(encoding="utf-8")) | changes
        path.write_text(json.dumps({k: v for k, v in description.items() if v is not None}), encoding="utf-8")

    return damage


def cut(name: str) -> Damage:
    return lambda folder: os.truncate(folder / name, (folder / name).stat().st_size - 7)


def piped(name: str) -> Damage:
    def damage(folder: Path) -> None:
        (folder / name).unlink()
        os.mkfifo(folder / name)

    return damage


def written(name: str, data: bytes) -> Damage:
    return lambda folder: (folder / name).write_bytes(data)


def with_number(name: str, tensor: str, number: float, dtype: torch.dtype = torch.float32) -> Damage:
    """A file of weights with one number replaced."""

    def damage(folder: Path) -> None:
        tensors = load_file(folder / name)
        tensors[tensor].view(-1)[3] = number
        save_file({key: value.to(dtype) for key, value in tensors.items()}, folder / name)

    return damage


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (cut("tagger.json"), "not valid JSON"),
        (written("tagger.json", b""), "not valid JSON"),
        (written("tagger.json", b"\xff\xfe"), "not valid JSON"),
        (written("tagger.json", b"[]"), "format"),
        (edited(format=2), "format 2, but this tagtrace reads format 1"),
        (edited(format=None), "format None"),
        (lambda folder: (folder / "head.safetensors").unlink(), "damaged"),
        (cut("head.safetensors"), "damaged"),
        (written("head.safetensors", b"\x80\x04 a pickle"), "damaged"),
        (lambda folder: (folder / "encoder" / "encoder.safetensors").unlink(), "damaged"),
        (cut("encoder/encoder.safetensors"), "damaged"),
        (written("encoder/encoder.json", b"{}}"), "damaged"),
        (written("encoder/encoder.json", b'{"rooms": 3}'), "damaged"),
        (with_number("head.safetensors", "weight", torch.nan), "head.weight are not finite"),
        (with_number("head.safetensors", "transitions", -torch.inf), "head.transitions are not finite"),
        (with_number("head.safetensors", "weight", 1.0, torch.int64), "the head is int64"),
        (with_number("encoder/encoder.safetensors", "table.weight", torch.nan), "encoder.table.weight are not finite"),
        (written("tagger.json", b"[" * 100_000), "not valid JSON"),
        (piped("tagger.json"), "Not an ordinary file"),
        (piped("encoder/encoder.json"), "Not an ordinary file"),
        (piped("encoder/encoder.safetensors"), "Not an ordinary file"),
        (piped("head.safetensors"), "Not an ordinary file"),
        (written("encoder/encoder.json", b"[" * 100_000), "damaged.*not valid JSON"),
        (written("encoder/encoder.json", b'{"buckets": 1000000000000, "width": 8, "hidden": 8}'), "damaged.*buckets"),
        (edited(labels=None), "labels is missing"),
        (edited(labels=[1, 2]), "labels should be an object"),
        (edited(labels={"scheme": "iob2", "labels": ["O", 7]}), "labels.labels.1 should be a valid string"),
        (edited(labels={"scheme": "iob2", "labels": ["O", "B-PER"]}), "damaged.*size mismatch"),
        (edited(labels={"scheme": "iob2", "labels": ["O", "O"]}), "distinct labels"),
        (edited(labels={"scheme": "runes", "labels": ["O"]}), "scheme 'runes'"),
        (edited(encoder={"kind": "crystal ball", "dim": 3}), "encoder 'crystal ball'"),
        (edited(encoder=None), "encoder is missing"),
        (edited(encoder={"kind": ["lexical"], "dim": 3}), "encoder.kind should be a valid string"),
        (edited(head={"kind": "softmax", "start_end": True, "constrained": False}), "softmax head has no transitions"),
        (edited(head={"kind": "mlp"}), "head.kind should be"),
        (edited(head=None), "head is missing"),
        (edited(unit="paragraph"), "unit should be"),
        (edited(unit=None), "unit is missing"),
        (edited(record=None), "record is missing"),
        (edited(record=3), "record should be"),
        (edited(record={"training": 3}), "record.training: the document should be an object"),
        (edited(record={"refit": {"options": {"l2": "1"}}}), "record.refit: options.l2 should be a valid number"),
    ],
)
def test_a_damaged_tagger_is_refused_in_one_line(tmp_path: Path, damage: Damage, message: str) -> None:
    folder = tmp_path / "tagger"
    save_tagger(random_tagger(), folder)
    unseal(folder / "tagger.json")  # so that it is not refused for being changed at all
    damage(folder)
    with pytest.raises(TaggerError, match=message) as error:
        load_tagger(folder)
    assert str(folder) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_folder_without_a_tagger_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("O\n")
    for path in (tmp_path, tmp_path / "file", tmp_path / "missing"):
        with pytest.raises(
            TaggerError, match=r"not a tagger \(no tagger\.json\); give a folder that a tagger was saved to"
        ):
            load_tagger(path)


FILES = ("tagger.json", "head.safetensors", "encoder/encoder.json", "encoder/encoder.safetensors")


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("name", FILES)
def test_every_damage_is_found(tmp_path: Path, name: str, how: str) -> None:
    folder, other = tmp_path / "tagger", tmp_path / "other"
    save_tagger(random_tagger(), folder)
    save_tagger(random_tagger(1, start_end=True), other)
    is_same = (folder / name).read_bytes() == (other / name).read_bytes()
    damage_file(folder / name, how, other / name)
    if how == "other" and is_same:
        assert_same(load_tagger(folder), random_tagger())
        return
    with pytest.raises(TaggerError, match=r"train it again or restore a copy") as error:
        load_tagger(folder)
    named = folder if (name, how) == ("tagger.json", "other") else folder / name  # its files are then the wrong ones
    assert str(named) in str(error.value)
    assert "\n" not in str(error.value)


def test_every_value_of_the_description_is_covered(tmp_path: Path) -> None:
    save_tagger(random_tagger(), tmp_path / "tagger")
    edited(record={"note": "another"})(tmp_path / "tagger")
    with pytest.raises(TaggerError, match=r"tagger.json: was changed after it was written"):
        load_tagger(tmp_path / "tagger")


def test_a_file_that_is_not_the_taggers_own_is_refused(tmp_path: Path) -> None:
    save_tagger(random_tagger(), tmp_path / "tagger")
    (tmp_path / "tagger" / "notes.txt").write_text("mine")
    load_tagger(tmp_path / "tagger")
    (tmp_path / "tagger" / "encoder" / "added_tokens.json").write_text("{}")
    with pytest.raises(TaggerError, match=r"encoder/added_tokens.json: is not one of its files"):
        load_tagger(tmp_path / "tagger")


def test_a_tagger_of_a_version_without_seals_is_read(tmp_path: Path) -> None:
    save_tagger(random_tagger(), tmp_path / "tagger")
    unseal(tmp_path / "tagger" / "tagger.json")
    assert_same(load_tagger(tmp_path / "tagger"), random_tagger())
