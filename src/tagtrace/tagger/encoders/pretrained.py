"""Pretrained models and their tokenizers, read with Hugging Face transformers: safetensors only, no code of theirs."""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import torch
from torch import nn

from tagtrace._checks import EncoderError
from tagtrace._documents import check_regular_files
from tagtrace.tagger.encoders.config_check import check_config, check_weight_names

_LOADING = Lock()
"""Held while a setting of Hugging Face's, which is the whole process's, is another one."""
_OTHER_LAYERS = re.compile(r"crf|lstm|gru|rnn|transitions", re.IGNORECASE)
"""Weights of layers that taggers often have above an encoder; Hugging Face's own token classifiers have none."""
_NEEDED = ["*.json", "*.safetensors", "*.txt", "*.model"]
"""The files of a model that are downloaded: neither pickles nor code."""


@dataclass(frozen=True)
class Pretrained:
    """A model and its tokenizer."""

    model: Any
    """What maps piece ids to D features for each piece, in its first output."""
    tokenizer: Any
    dim: int
    """D."""
    is_classifier: bool = False
    """Whether the model is a token classifier without its last layer; its words are then cut as its library does."""
    digest: str | None = None
    """sha256 of the files that, beside the weights, decide about the features of a token classifier."""


def load_encoder(name: str) -> Pretrained:
    """An encoder from a folder, the local cache, or the model hub, in this order."""
    transformers = _import_transformers()
    folder = _folder_of(name)
    _check_folder(name, folder)
    try:
        with quiet(), _offline():
            model, info, tokenizer = _from_pretrained(
                transformers.AutoModel, transformers.AutoTokenizer, str(folder), local_files_only=True
            )
    except Exception as error:  # Hugging Face raises many kinds; the user needs one line
        raise EncoderError(_explain(name, error)) from error
    _check_model(name, model, info, tokenizer)
    return Pretrained(model.float(), tokenizer, int(model.config.hidden_size))


def _folder_of(name: str) -> Path:
    """The folder of a model: the one that is named, or where the files of a model of the hub are kept."""
    folder = Path(name).expanduser()
    if folder.is_dir():
        return folder
    if folder.exists() or name.startswith((".", "~", "/")) or "\\" in name or name.count("/") > 1:
        raise EncoderError(f"{name}: no such folder; give a folder written by save_pretrained, or a model's name")
    from huggingface_hub import snapshot_download  # noqa: PLC0415

    try:
        with quiet():
            try:
                return Path(snapshot_download(name, local_files_only=True))
            except Exception:
                return Path(snapshot_download(name, allow_patterns=_NEEDED, ignore_patterns="*/*"))
    except Exception as error:
        raise EncoderError(
            f"{name}: neither a folder nor in the local cache, and it could not be downloaded ({_reason(error)});"
            " check the name and the network, or give a folder written by save_pretrained"
        ) from error


def load_classifier(folder: Path, *, is_cut: bool = False) -> tuple[Any, Any]:
    """A token classifier, whole, and its tokenizer, from a folder; nothing else is read, no network is used.

    With ``is_cut`` the folder is one of ``Transformer.save``: the last layer is missing there, and is random here.
    """
    transformers = _import_transformers()
    _check_folder(str(folder), folder)
    try:
        with quiet(), _offline(), torch.random.fork_rng(devices=[]):
            model, info, tokenizer = _from_pretrained(
                transformers.AutoModelForTokenClassification, transformers.AutoTokenizer, str(folder),
                local_files_only=True,
            )  # fmt: skip
            may_miss = _last_layer(folder, model) if is_cut else "pooler"
            _check_model(str(folder), model, info, tokenizer, may_miss)
    except EncoderError:
        raise
    except Exception as error:
        raise EncoderError(_explain(str(folder), error)) from error
    other = next((key for key in sorted(info["unexpected_keys"]) if _OTHER_LAYERS.search(key)), None)
    if other is not None:
        raise EncoderError(
            f"{folder}: has the weights {other}, which {type(model).__name__} does not use; it was saved by other code,"
            " which is not here"
        )
    return model.float().eval(), tokenizer


def cut_classifier(folder: Path, model: Any, tokenizer: Any, digest: str | None) -> tuple[Pretrained, nn.Linear]:
    """A token classifier in two parts: all but its last layer, and this layer. The model is changed."""
    name = _last_layer(folder, model)
    last = getattr(model, name)
    setattr(model, name, nn.Identity())
    return Pretrained(model, tokenizer, last.in_features, is_classifier=True, digest=digest), last


def _last_layer(folder: Path, model: Any) -> str:
    """The name of the layer that computes the scores of labels from features."""
    for name in ("classifier", "score"):
        layer = getattr(model, name, None)
        if isinstance(layer, nn.Linear) and layer.out_features == model.config.num_labels:
            return name
    raise EncoderError(
        f"{folder}: the scores of {type(model).__name__} are not those of one linear layer; use a model such as BERT's "
        "or RoBERTa's"
    )


def _from_pretrained(models: Any, tokenizers: Any, source: str, **options: Any) -> tuple[Any, dict[str, Any], Any]:
    options["trust_remote_code"] = False
    model, info = models.from_pretrained(source, use_safetensors=True, output_loading_info=True, **options)
    return model, info, tokenizers.from_pretrained(source, **options)


def _check_folder(name: str, folder: Path) -> None:
    """Raise unless a folder has a model, and loading it runs nothing and reads nothing else."""
    if not (folder / "config.json").is_file():
        raise EncoderError(
            f"{name}: has no config.json; give a folder written by save_pretrained (model and tokenizer)"
        )
    try:
        check_regular_files(folder)
    except OSError as error:
        raise EncoderError(
            f"{name}: {error.filename} cannot be read ({error.strerror}); replace or remove it"
        ) from None
    check_config(folder)
    check_weight_names(folder)
    _check_weights(name, folder)


def _check_weights(name: str, folder: Path) -> None:
    """Raise if the weights can only be read in a way that may run code or ask the network."""
    pickled = sorted(path.name for kind in ("*.bin", "*.pt", "*.pth", "*.ckpt") for path in folder.glob(kind))
    weights = [one for one in pickled if not one.startswith(("training_args", "optimizer", "scheduler", "scaler"))]
    if weights and not any(folder.glob("*.safetensors")):
        raise EncoderError(
            f"{name}: its weights are a pickle ({weights[0]}), which can run code and is never read; if you trust it, "
            "load it with transformers and write it again with save_pretrained, which makes safetensors"
        )


def _explain(name: str, error: Exception) -> str:
    return (
        f"{name}: cannot be loaded ({_reason(error)}); the folder should have config.json, model.safetensors and"
        " tokenizer.json, as save_pretrained writes them"
    )


def _reason(error: Exception) -> str:
    reason = " ".join(str(error).split())
    return reason if len(reason) <= 160 else f"{reason[:160]}..."


def _check_model(name: str, model: Any, info: dict[str, Any], tokenizer: Any, may_miss: str = "pooler") -> None:
    """Raise for models that would load but give useless features."""
    if not tokenizer.is_fast:
        raise EncoderError(f"{name}: has no fast tokenizer (tokenizer.json); use a model that has one")
    if set(tokenizer.get_vocab().values()) <= set(
        tokenizer.all_special_ids
    ):  # transformers makes up a tokenizer if files are missing
        raise EncoderError(f"{name}: its tokenizer knows no words; tokenizer.json is missing or empty")
    if model.config.is_encoder_decoder or not hasattr(model.config, "hidden_size"):
        raise EncoderError(f"{name}: {type(model).__name__} is not a plain encoder; use one such as BERT or RoBERTa")
    missing = sorted(key for key in info["missing_keys"] if may_miss not in key)
    if missing:
        raise EncoderError(
            f"{name}: {len(missing)} of its weights are missing, for example {missing[0]}, and would be random;"
            " give the weights that belong to its config.json"
        )


def _import_transformers() -> Any:
    try:
        import transformers  # noqa: PLC0415  (an optional dependency, and slow to import)
    except ImportError as error:
        raise EncoderError(
            'a transformer encoder needs Hugging Face transformers: pip install "tagtrace[transformers]"'
        ) from error
    return transformers


@contextmanager
def _offline() -> Iterator[None]:
    """Keep Hugging Face from the network, whatever the files of a folder ask for."""
    from huggingface_hub import constants  # noqa: PLC0415

    with _LOADING:
        before, constants.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE, True
        try:
            yield
        finally:
            constants.HF_HUB_OFFLINE = before


@contextmanager
def quiet() -> Iterator[None]:
    """Silence Hugging Face's messages and progress bars; errors are still raised.

    A panic of its tokenizers, which is no ``Exception``, becomes one.
    """
    from huggingface_hub.utils import logging as hub  # noqa: PLC0415
    from transformers.utils import logging as models  # noqa: PLC0415

    levels = models.get_verbosity(), hub.get_verbosity()
    had_bars = models.is_progress_bar_enabled()
    models.set_verbosity(logging.CRITICAL)
    hub.set_verbosity(logging.CRITICAL)
    models.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise RuntimeError(f"the tokenizer fails: {error}") from None
    finally:
        models.set_verbosity(levels[0])
        hub.set_verbosity(levels[1])
        if had_bars:
            models.enable_progress_bar()
