"""What the ``config.json`` of somebody's model, and of its tokenizer, may ask Hugging Face transformers to do.

Without remote code a configuration can still name other repositories, which are downloaded, and kernels, which are run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tagtrace._checks import DataError, EncoderError
from tagtrace._documents import parse_json, read_regular_file

MAX_BYTES = 16_000_000
"""Of a configuration; some have the names of thousands of labels."""

MODEL_TYPES = frozenset((
    "albert", "bert", "bert-generation", "big_bird", "camembert", "convbert", "data2vec-text", "deberta", "deberta-v2",
    "distilbert", "electra", "ernie", "esm", "eurobert", "flaubert", "fnet", "funnel", "gemma", "gemma2", "gemma3_text",
    "gpt2", "gpt_neo", "gpt_neox", "ibert", "llama", "longformer", "luke", "megatron-bert", "mistral", "mobilebert",
    "modernbert", "mpnet", "mra", "nezha", "nystromformer", "opt", "qwen2", "qwen3", "rembert", "roberta",
    "roberta-prelayernorm", "roc_bert", "roformer", "squeezebert", "xlm", "xlm-roberta", "xlm-roberta-xl", "xlnet",
    "xmod", "yoso",
))  # fmt: skip
"""Models of text whose configurations say sizes, and nothing that is loaded from elsewhere."""
_PLAIN = (None, False, "eager")
_REFUSED = {
    r"auto_map": _PLAIN,  # code of its own
    r"attribute_map": _PLAIN,  # other names for the keys below
    r"_?attn_implementation.*": (*_PLAIN, "sdpa"),  # kernels
    r"_?experts_implementation.*": _PLAIN,
    r"backbone.*|use_timm_backbone|use_pretrained_backbone": _PLAIN,  # another model
    r"quantization_config": _PLAIN,  # other libraries
    r"configuration_files|fast_tokenizer_files": _PLAIN,  # other configurations
    r"transformers_weights|model_args|trust_remote_code": _PLAIN,  # other weights and code
}
"""Keys, with the values that are harmless."""
_TOKENIZER = {
    "tokenizer_config.json": re.compile(
        r"(?!special_tokens_map)\w*_files?|vocab|merges|tokenizer_object|tokenizers?|init_inputs"
    ),
    "special_tokens_map.json": re.compile(r"(?!\w*_tokens?$).*"),
    "added_tokens.json": re.compile(r"(?!)"),
}
"""Descriptions of a tokenizer, and their keys that may name a file, whose lines would become its words."""
MOST_LAYERS = 1000
"""Each layer is made before the weights are read; large models have about a hundred."""
_LAYERS = re.compile(r".*(layer|block|group|expert)s?")


def check_config(folder: str | Path) -> None:
    """Raise EncoderError unless a model's folder can be loaded without code, kernels or models from elsewhere."""
    path = Path(folder) / "config.json"
    config = _harmless(path)
    if not (Path(folder) / "tokenizer.json").is_file():
        raise EncoderError(
            f"{folder}: has no tokenizer.json, and the words of a tokenizer are read from no other file; load the"
            " tokenizer with transformers and write it again with save_pretrained"
        )
    for name, may_name_a_file in _TOKENIZER.items():
        if (Path(folder) / name).exists():
            _check_tokenizer(Path(folder) / name, may_name_a_file)
    kind = next((kind for kind in model_types(config) if kind not in MODEL_TYPES), None)
    if kind is not None:
        raise EncoderError(
            f"{path}: models of the type {str(kind)[:40]!r} are not loaded, because they may load others; give a plain"
            " encoder of text, such as BERT"
        )
    if (Path(folder) / "adapter_config.json").exists():
        raise EncoderError(
            f"{folder}: adapter_config.json names another model, which is never loaded; merge the two into one"
            " (merge_and_unload) and save that"
        )


def _check_tokenizer(path: Path, may_name_a_file: re.Pattern[str]) -> None:
    """Raise EncoderError unless a tokenizer has its words from the files of its own folder, by their usual names."""
    found = _harmless(path)
    for key, value in found.items() if isinstance(found, dict) else ():
        if value not in (None, [], ()) and may_name_a_file.fullmatch(key):
            raise EncoderError(
                f"{path}: the key {key[:80]} says where the words of the tokenizer come from, and they are only read"
                " from tokenizer.json in this folder; remove the key"
            )


def _harmless(path: Path) -> object:
    """The contents of a description; raises EncoderError if it cannot be read or asks for what is not harmless."""
    try:
        config = parse_json(read_regular_file(path, MAX_BYTES))
    except OSError as error:
        raise EncoderError(f"{path}: cannot be read ({error.strerror or error}); replace it") from None
    except DataError as error:
        raise EncoderError(f"{path}: {error}; give the {path.name} that save_pretrained wrote") from None
    key = next(refused_keys(config), None)
    if key is not None:
        raise EncoderError(
            f"{path}: the key {key} asks for code, kernels, another model or more than {MOST_LAYERS} layers, which are"
            " never loaded; give a plain encoder, such as BERT, or remove the key if the model does not need it"
        )
    return config


def model_types(config: object) -> Iterator[object]:
    """The types of the model and of those in it; None where the configuration does not say it."""
    yield config.get("model_type") if isinstance(config, dict) else None
    yield from (found["model_type"] for found in _objects(config) if "model_type" in found)


def _objects(config: object) -> Iterator[dict[str, Any]]:
    """All objects in a JSON value, at any depth."""
    waiting = [config]
    while waiting:
        found = waiting.pop()
        if isinstance(found, list):
            waiting += found
        elif isinstance(found, dict):
            waiting += found.values()
            yield found


def refused_keys(config: object) -> Iterator[str]:
    """The keys of a configuration, at any depth, that are not harmless.

    >>> list(refused_keys({"hidden_size": 16, "parts": [{"backbone": "a/b", "attn_implementation": "sdpa"}]}))
    ['backbone']
    """
    for found in _objects(config):
        yield from (key for key, value in found.items() if not _is_harmless(key, value))


def check_weight_names(folder: str | Path) -> None:
    """Raise EncoderError if the list of a model's files of weights names anything but safetensors in its folder."""
    path = Path(folder) / "model.safetensors.index.json"
    if not path.exists():
        return
    try:
        found = parse_json(read_regular_file(path, MAX_BYTES))
    except (OSError, DataError) as error:
        raise EncoderError(f"{path}: cannot be read ({error}); replace it") from None
    names = found.get("weight_map") if isinstance(found, dict) else None
    for name in names.values() if isinstance(names, dict) else ():
        is_plain = isinstance(name, str) and name.endswith(".safetensors") and Path(name).name == name
        if not is_plain or not (Path(folder) / name).is_file():
            raise EncoderError(f"{path}: names {str(name)[:80]!r}, which is no file of weights here; replace it")


def _is_harmless(key: str, value: object) -> bool:
    if isinstance(value, int) and value > MOST_LAYERS and _LAYERS.fullmatch(key):
        return False
    plain = next((plain for pattern, plain in _REFUSED.items() if re.fullmatch(pattern, key)), None)
    return plain is None or value in plain
