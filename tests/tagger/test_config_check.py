"""A folder of somebody else's model chooses neither code, kernels, nor other models, and reaches no network."""

from __future__ import annotations

import json
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from tagtrace._checks import EncoderError
from tagtrace.data.sentence import Sentence
from tagtrace.tagger.encoders import pretrained
from tagtrace.tagger.encoders.config_check import MAX_BYTES, check_config
from tagtrace.tagger.encoders.transformer import Transformer
from tests.tagger import tiny_models

REFUSED: list[dict[str, Any]] = [
    {"auto_map": {"AutoModel": "evil.Model"}},
    {"attn_implementation": "evil/kernel"},
    {"_attn_implementation": {"": "evil/kernel"}},
    {"_attn_implementation_internal": "flash_attention_2"},
    {"attribute_map": {"window": "_attn_implementation"}, "window": "evil/kernel"},
    {"experts_implementation": "evil/kernel"},
    {"backbone": "evil/resnet"},
    {"backbone_config": {"model_type": "resnet"}},
    {"backbone_kwargs": {"pretrained": "evil"}},
    {"use_timm_backbone": True},
    {"use_pretrained_backbone": True},
    {"quantization_config": {"quant_method": "bitsandbytes"}},
    {"configuration_files": ["config.4.0.0.json"]},
    {"transformers_weights": "adapter_model.bin"},
    {"model_args": {"checkpoint_path": "enc/extra.pth"}},
    {"trust_remote_code": True},
    {"num_hidden_layers": 10**7},
    {"n_layer": 10**7},
    {"text_config": {"parts": [{"attn_implementation": "evil/kernel"}]}},
]
HARMLESS: list[dict[str, Any]] = [
    {},
    {"attn_implementation": "sdpa", "_attn_implementation": "eager"},
    {"quantization_config": None, "backbone": None, "use_timm_backbone": False},
    {"id2label": {"0": "backbone", "1": "auto_map"}},
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tiny_models.bert(tmp_path / "bert")


def change(folder: Path, **values: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


@pytest.mark.parametrize("values", REFUSED, ids=json.dumps)
def test_what_a_config_may_not_ask_for(folder: Path, values: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    change(folder, **values)
    monkeypatch.setattr(pretrained, "_from_pretrained", lambda *_, **__: pytest.fail("it is not even tried"))
    with pytest.raises(EncoderError, match=r"config\.json: the key \w+ asks for .*; give a plain encoder") as error:
        Transformer(folder)
    assert "\n" not in str(error.value)


def test_what_a_tokenizer_may_not_ask_for(folder: Path) -> None:
    (folder / "tokenizer_config.json").write_text('{"fast_tokenizer_files": ["../elsewhere/tokenizer.1.0.0.json"]}')
    with pytest.raises(EncoderError, match=r"tokenizer_config\.json: the key fast_tokenizer_files asks for"):
        Transformer(folder)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("tokenizer_config.json", {"tokenizer_class": "BertTokenizer", "vocab": "/etc/hostname"}),
        ("tokenizer_config.json", {"vocab_file": "../secret"}),
        ("tokenizer_config.json", {"merges": [["a", "b"]]}),
        ("tokenizer_config.json", {"tokenizer_class": "BertTokenizer", "init_inputs": ["/etc/hostname"]}),
        ("special_tokens_map.json", {"vocab_file": "/etc/hostname"}),
        ("special_tokens_map.json", {"vocab": "/etc/hostname"}),
    ],
)
def test_the_words_of_a_tokenizer_come_from_its_folder(folder: Path, name: str, values: dict[str, Any]) -> None:
    """Lines of a file of the reader's would become words, and be saved with every tagger."""
    path = folder / name
    before = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**before, **values}))
    with pytest.raises(EncoderError, match=rf"{name}: the key \w+ says where the words of the tokenizer come from"):
        Transformer(folder)


def test_words_are_read_from_one_file_only(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.txt").write_text("[UNK]\n[CLS]\n[SEP]\n[PAD]\n[MASK]\nsea\n")
    with pytest.raises(EncoderError, match=r"has no tokenizer\.json"):
        Transformer(folder)


def test_what_descriptions_of_tokenizers_usually_have(folder: Path) -> None:
    (folder / "special_tokens_map.json").write_text('{"cls_token": "[CLS]", "additional_special_tokens": []}')
    path = folder / "tokenizer_config.json"
    usual = {"special_tokens_map_file": "/home/ada/special_tokens_map.json", "vocab_file": None, "name_or_path": "a/b"}
    path.write_text(json.dumps({**json.loads(path.read_text()), **usual}))
    assert Transformer(folder).dim == 16


def test_a_tokenizer_that_fails_is_one_line(folder: Path) -> None:
    path = folder / "tokenizer.json"
    whole = json.loads(path.read_text())
    whole["model"]["unk_token"] = "[NOWHERE]"
    path.write_text(json.dumps(whole))
    encoder = Transformer(folder)
    with pytest.raises(EncoderError, match=r"the tokenizer fails on '.*' \(.*\); give another one"):
        encoder.prepare(Sentence(("\u0416\u0416\u0416",), ()))


@pytest.mark.parametrize("inside", [True, False])
def test_a_link_leads_to_no_other_folder(folder: Path, *, inside: bool) -> None:
    """A vocabulary that is somebody's file would be saved with every tagger."""
    target = (folder if inside else folder.parent) / "moved.json"
    (folder / "tokenizer.json").rename(target)
    (folder / "tokenizer.json").symlink_to(target)
    if inside:
        assert Transformer(folder).dim == 16
    else:
        with pytest.raises(EncoderError, match=r"tokenizer\.json .*a link that leads out of its folder"):
            Transformer(folder)


def test_the_cache_of_hugging_face_has_links(folder: Path, tmp_path: Path) -> None:
    blobs, version = tmp_path / "models--a--b" / "blobs", tmp_path / "models--a--b" / "snapshots" / "1"
    for each in (blobs, version):
        each.mkdir(parents=True)
    for path in folder.iterdir():
        path.rename(blobs / path.name)
        (version / path.name).symlink_to(Path("..", "..", "blobs", path.name))
    assert Transformer(version).dim == 16


def test_a_model_by_name_is_checked_as_a_folder_is(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "hub" / "models--ada--plain"
    shutil.copytree(folder, cache / "snapshots" / "0123")
    (cache / "refs").mkdir()
    (cache / "refs" / "main").write_text("0123")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    assert Transformer("ada/plain").dim == 16
    change(cache / "snapshots" / "0123", attn_implementation="evil/kernel")
    with pytest.raises(EncoderError, match="the key attn_implementation asks for code"):
        Transformer("ada/plain")


@pytest.mark.parametrize("values", HARMLESS, ids=json.dumps)
def test_what_does_no_harm(folder: Path, values: dict[str, Any]) -> None:
    change(folder, **values)
    check_config(folder)
    assert Transformer(folder).dim == 16


@pytest.mark.parametrize("values", [{"model_type": "timm_wrapper"}, {"model_type": 5}, {"parts": {"model_type": "x"}}])
def test_only_models_that_load_nothing_else(folder: Path, values: dict[str, Any]) -> None:
    """One of timm loads a pickle that its configuration names."""
    change(folder, **values)
    with pytest.raises(EncoderError, match=r"models of the type .* are not loaded, because they may load others"):
        Transformer(folder)


@pytest.mark.parametrize("name", ["../outside.safetensors", "evil.bin", "/dev/zero", "missing.safetensors", 5])
def test_weights_are_files_of_safetensors_in_the_folder(folder: Path, name: object) -> None:
    (folder.parent / "outside.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    (folder / "evil.bin").write_bytes(b"")
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": {"embeddings.word_embeddings.weight": name}}))
    with pytest.raises(EncoderError, match=r"index\.json: names .*, which is no file of weights here"):
        Transformer(folder)


def test_an_adapter_names_another_model(folder: Path) -> None:
    (folder / "adapter_config.json").write_text('{"base_model_name_or_path": "evil/model", "peft_type": "LORA"}')
    with pytest.raises(EncoderError, match=r"adapter_config\.json names another model, which is never loaded; merge"):
        Transformer(folder)


def test_a_config_is_not_read_beyond_reason(folder: Path) -> None:
    os.truncate(folder / "config.json", MAX_BYTES + 1)
    with pytest.raises(EncoderError, match="larger than 16,000,000 bytes"):
        check_config(folder)
    (folder / "config.json").write_text("[" * 100_000)
    with pytest.raises(EncoderError, match="not valid JSON"):
        check_config(folder)


def test_a_folder_is_loaded_without_a_network(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants  # noqa: PLC0415

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    load, seen = pretrained._from_pretrained, list[bool]()

    def look(*values: Any, **options: Any) -> Any:
        seen.append(constants.HF_HUB_OFFLINE)
        return load(*values, **options)

    monkeypatch.setattr(pretrained, "_from_pretrained", look)
    threads = [threading.Thread(target=Transformer, args=(folder,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [True, True]
    assert constants.HF_HUB_OFFLINE is False


def test_a_model_of_the_hub_is_saved_without_the_code_it_names(folder: Path, tmp_path: Path) -> None:
    encoder = Transformer(folder)
    encoder.model.config.auto_map = {"AutoModel": "remote.Model"}
    (tmp_path / "saved").mkdir()
    encoder.save(tmp_path / "saved")
    assert Transformer.load(tmp_path / "saved").prepare(Sentence(("a",), ())).windows
