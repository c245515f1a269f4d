"""Token classifiers of Hugging Face transformers, as ``save_pretrained`` wrote them together with their tokenizer.

    scores_t = W F_t + b,   F_t: the input of the last layer at a piece of word t

The last layer (W, b) is the head, a softmax head without transitions; all before it is the encoder. Nothing is
unpickled, no code that comes with a checkpoint is run, no network is used, and the folder is never changed.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any, get_args

import torch
from torch import Tensor, nn

from tagtrace._checks import OptionError, TaggerError, TagtraceError
from tagtrace._documents import parse_json, read_regular_file, recorded_path
from tagtrace.data.sentence import Sentence
from tagtrace.tagger.encoders import Transformer
from tagtrace.tagger.encoders.pretrained import cut_classifier, load_classifier, quiet
from tagtrace.tagger.encoders.transformer import Pooling
from tagtrace.tagger.foreign.label_names import label_set
from tagtrace.tagger.head import HeadOptions, head_of
from tagtrace.tagger.tagger import Tagger

CONFIG = "config.json"
CHECKPOINT = "checkpoint"
"""The key of a tagger's record that says that it was a checkpoint."""
PROBE = ("Two", "words")
"""A text on which the scores of tagger and library are compared when a checkpoint is loaded."""

_TASK = "ForTokenClassification"
_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")


def is_checkpoint(folder: Path) -> bool:
    """Whether a folder has the description of a token classifier."""
    try:
        return (folder / CONFIG).is_file() and _architecture(folder) is not None
    except (TagtraceError, OSError):
        return False


def find_checkpoint(name: Path) -> Path | None:
    """A folder with the description of a model: the one named, or of that name in the local cache; None if none is."""
    if (name / CONFIG).is_file():
        return name
    if name.exists() or not _NAME.fullmatch(name.as_posix()):
        return None
    try:
        from huggingface_hub import try_to_load_from_cache  # noqa: PLC0415  (an optional dependency)

        found = try_to_load_from_cache(name.as_posix(), CONFIG)
    except Exception:  # not installed, or not a name: whatever it is, it is not there
        return None
    return Path(found).parent if isinstance(found, str) else None


def load_checkpoint(folder: Path, pooling: Pooling | None = None) -> Tagger:
    """The tagger that a token classifier is: its scores are the library's own, at the piece that ``pooling`` names."""
    if pooling is not None and pooling not in get_args(Pooling):
        raise OptionError(f"pooling {pooling!r}: expected one of {', '.join(get_args(Pooling))}")
    architecture = _check_architecture(folder)
    model, tokenizer = load_classifier(folder)
    try:
        labels = label_set(model.config.id2label, model.config.num_labels)
    except TaggerError as error:
        raise TaggerError(f"{folder}: {error}") from None
    digest = _digest(folder, tokenizer)
    expected = _library_scores(folder, model, tokenizer)
    pretrained, last = cut_classifier(folder, model, tokenizer, digest)
    encoder = Transformer(folder, pooling="first", pretrained=pretrained)
    head = head_of({"weight": _with_bias(last)}, encoder.dim, labels, HeadOptions(kind="softmax"))
    tagger = Tagger(encoder, head, labels).eval()
    tagger.check_finite(TaggerError, f"the checkpoint {folder} cannot be used")
    _check_scores(folder, tagger, expected)
    encoder.pooling = pooling or "first"
    tagger.record = {CHECKPOINT: {"path": recorded_path(folder.absolute()), "architecture": architecture}}
    tagger.folder = folder
    return tagger


def _architecture(folder: Path) -> str | None:
    """The name of the class of a token classifier; None if the description is that of another model."""
    config = parse_json(read_regular_file(folder / CONFIG))
    names = config.get("architectures") if isinstance(config, dict) else None
    names = names if isinstance(names, list) else []
    return next((name for name in names if isinstance(name, str) and name.endswith(_TASK)), None)


def _check_architecture(folder: Path) -> str:
    """The class of a token classifier; raises TaggerError if the folder has none, or one that transformers has not."""
    try:
        name = _architecture(folder)
    except (TagtraceError, OSError) as error:
        raise TaggerError(f"{folder / CONFIG}: cannot be read ({error}); restore a copy of the checkpoint") from None
    if name is None:
        raise TaggerError(
            f"{folder}: a model, but not a tagger (its {CONFIG} names no architecture ...{_TASK}); train a tagger with "
            f"the encoder transformer:{folder}"
        )
    try:
        import transformers  # noqa: PLC0415  (an optional dependency, and slow to import)
    except ImportError:
        raise TaggerError(
            f'{folder}: a Hugging Face checkpoint needs transformers: pip install "tagtrace[transformers]"'
        ) from None
    if getattr(transformers, name, None) is None:
        raise TaggerError(
            f"{folder}: transformers {transformers.__version__} has no {name}, and code that comes with a model is "
            "never run; use a model of the library's own, or a newer transformers"
        )
    return name


def _digest(folder: Path, tokenizer: Any) -> str:
    """sha256 of all that decides, beside the weights, about the features: the tokenizer is taken as it is."""
    parts = (read_regular_file(folder / CONFIG), tokenizer.backend_tokenizer.to_str().encode())
    return hashlib.sha256(b"".join(b"%d\n%b" % (len(part), part) for part in parts)).hexdigest()


def _with_bias(last: nn.Linear) -> Tensor:
    """W and b as the weight of a head, (C, D + 1); b is 0 for a layer that has none."""
    weight = last.weight.detach()
    bias = weight.new_zeros(len(weight)) if last.bias is None else last.bias.detach()
    return torch.cat([weight, bias.unsqueeze(1)], 1)


@torch.no_grad()
def _library_scores(folder: Path, model: Any, tokenizer: Any) -> Tensor:
    """The scores (2, C) that the whole model gives the first pieces of PROBE, called as its library does."""
    try:
        with quiet():
            given = tokenizer(list(PROBE), is_split_into_words=True, return_tensors="pt")
            first = [given.word_ids().index(word) for word in range(len(PROBE))]
            return model(**given).logits[0, first].float()
    except Exception as error:  # models of images, of layouts, of sounds
        reason = " ".join(str(error).split())[:160]
        raise TaggerError(f"{folder}: cannot be run on a list of words ({reason}); use a model of text") from error


def _check_scores(folder: Path, tagger: Tagger, expected: Tensor) -> None:
    """Raise unless the tagger's scores are the library's."""
    with torch.no_grad():
        found = tagger.emissions([tagger.prepare(Sentence(PROBE, ()))])
    if not torch.allclose(found, expected, rtol=1e-3, atol=1e-3):
        raise TaggerError(
            f"{folder}: its scores cannot be computed as transformers computes them (they differ by "
            f"{float((found - expected).abs().max()):.1g} on a short text); use a model such as BERT's or RoBERTa's"
        )
