"""What the ``config.cfg`` of a spaCy pipeline names: of it only layers of spaCy's own are ever built.

A configuration names registered functions with their arguments, and spaCy calls them while it loads the pipeline: hooks
of the language, readers of files, other pipelines. Here ``tok2vec`` and ``ner`` are read, and all else is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tagtrace._checks import EncoderError
from tagtrace._documents import read_regular_file
from tagtrace.tagger.encoders.config_check import MOST_LAYERS

CONFIG = "config.cfg"
LISTENER = "spacy.Tok2VecListener.v1"
_NER = "spacy.TransitionBasedParser.v2"
_TOK2VEC = frozenset((
    "spacy.Tok2Vec.v2", "spacy.HashEmbedCNN.v2", "spacy.MultiHashEmbed.v2", "spacy.CharacterEmbed.v2",
    "spacy.MaxoutWindowEncoder.v2", "spacy.MishWindowEncoder.v2",
))  # fmt: skip
"""Layers that have weights and nothing else; others wrap models of other libraries, or read files."""
_HARMLESS = frozenset((
    "tok2vec", "tagger", "morphologizer", "parser", "senter", "sentencizer", "attribute_ruler", "lemmatizer",
    "trainable_lemmatizer", "textcat", "textcat_multilabel", "spancat", "spancat_singlelabel", "span_finder",
))  # fmt: skip
"""Factories of components before ``ner`` that change neither tokens nor entities."""
_MAX_BYTES = 1_000_000
_REFERENCE = re.compile(r"\$\{([\w.:-]+)\}")


@dataclass(frozen=True)
class PipelineConfig:
    """The parts of a pipeline that are used: their names, which their folders have too, and their layers."""

    lang: str
    ner: str
    ner_model: dict[str, Any]
    tok2vec: str | None
    """The component that ``ner`` listens to; None if it has layers of its own for that."""
    tok2vec_model: dict[str, Any] | None
    has_vectors: bool
    """Whether word vectors are read."""


def read_pipeline_config(folder: Path) -> PipelineConfig:
    """The used parts of a pipeline's configuration; raises EncoderError if it has none, or they are not spaCy's own."""
    config = _parsed(folder)
    nlp, components = _section(config, "nlp"), _section(config, "components")
    names = nlp.get("pipeline")
    names = [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
    ner = _find_ner(folder, names, components)
    try:
        if "tok2vec" not in _section(_section(components, ner), "model"):
            raise ValueError("its ner has no layer tok2vec, whose vectors would be the features; train it with one")
        ner_model = _layers(_section(components, ner).get("model"), config, {_NER, LISTENER, *_TOK2VEC})
        tok2vec = _upstream(ner_model, names[: names.index(ner)], components)
        model = None if tok2vec is None else _layers(_section(components, tok2vec).get("model"), config, _TOK2VEC)
        _check_names(nlp, *[name for name in (ner, tok2vec) if name is not None])
        has_vectors = any(_asks_for_vectors(one) for one in (ner_model, model) if one is not None)
        if has_vectors and _section(nlp, "vectors").get("@vectors", "spacy.Vectors.v1") != "spacy.Vectors.v1":
            raise ValueError("its word vectors are not of spaCy's own kind; use a pipeline with plain vectors")
    except (ValueError, RecursionError) as error:
        raise EncoderError(f"{folder}: {error}") from None
    return PipelineConfig(nlp["lang"], ner, ner_model, tok2vec, model, has_vectors)


def _parsed(folder: Path) -> dict[str, Any]:
    """The configuration as it stands: no variable in it is replaced."""
    from spacy.util import load_config_from_str  # noqa: PLC0415  (an optional dependency, and slow to import)

    path = folder / CONFIG
    try:
        return load_config_from_str(read_regular_file(path, _MAX_BYTES).decode("utf-8"), interpolate=False)
    except Exception as error:  # of the parser there are many kinds
        reason = " ".join(str(error).split())[:160]
        raise EncoderError(f"{path}: cannot be read ({reason}); give the folder that to_disk wrote") from None


def _section(config: Any, name: str) -> dict[str, Any]:
    found = config.get(name) if isinstance(config, dict) else None
    return found if isinstance(found, dict) else {}


def _find_ner(folder: Path, names: list[str], components: dict[str, Any]) -> str:
    """The name of the only component ``ner``; raises EncoderError if another one may change what it reads."""
    factories = {name: _section(components, name).get("factory") for name in names}
    found = [name for name, factory in factories.items() if factory == "ner"]
    if len(found) != 1:
        what = "several components ner" if found else "no component ner"
        raise EncoderError(
            f"{folder}: a spaCy pipeline with {what} (its components: {', '.join(names) or 'none'}); give one with one"
        )
    for name in names[: names.index(found[0])]:
        if factories[name] not in _HARMLESS and factories[name] not in ("transformer", "curated_transformer"):
            raise EncoderError(
                f"{folder}: the component {name!r} (factory {factories[name]!r}) may change what {found[0]} reads, and"
                " only tok2vec and ner are run; train or save the pipeline without it"
            )
    return found[0]


def _layers(found: Any, config: dict[str, Any], allowed: set[str] | frozenset[str]) -> dict[str, Any]:
    """The description of a model, its variables replaced; raises ValueError if it names others than ``allowed``."""
    name = found.get("@architectures") if isinstance(found, dict) else None
    if "transformer" in str(name).lower():
        raise ValueError(
            "its vectors come from a transformer, whose weights spaCy saves as a pickle or with code of other packages;"
            " train a tagger with the encoder transformer:NAME_OR_DIR instead"
        )
    if not isinstance(name, str) or name not in allowed:
        raise ValueError(
            f"has no ner on a tok2vec layer of spaCy's own ({str(name)[:60]!r} is not loaded); train it with"
            " spacy.HashEmbedCNN.v2 or spacy.Tok2Vec.v2"
        )
    return {key: _argument(key, value, config, allowed) for key, value in found.items()}


def _argument(key: str, value: Any, config: dict[str, Any], allowed: set[str] | frozenset[str]) -> Any:
    if isinstance(value, dict):
        return _layers(value, config, allowed)
    if key.startswith("@") and key != "@architectures":
        raise ValueError(f"its configuration calls a function ({key} = {str(value)[:60]!r}), which is never done")
    found = _replaced(value, config)
    if key == "depth" and isinstance(found, int) and found > MOST_LAYERS:
        raise ValueError(f"its model has more than {MOST_LAYERS} layers; use a smaller one")
    return found


def _replaced(value: Any, config: dict[str, Any]) -> Any:
    """The value that a variable stands for, which may be no variable itself and no section."""
    match = _REFERENCE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return value
    found: Any = config
    for part in match[1].replace(":", ".").split("."):
        found = found.get(part) if isinstance(found, dict) else None
    if isinstance(found, dict) or "${" in str(found):
        raise ValueError(f"{value} in its configuration is not a plain value; write the value itself")
    return found


def _listeners(model: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for value in model.values():
        if isinstance(value, dict):
            if value["@architectures"] == LISTENER:
                yield value
            yield from _listeners(value)


def _upstream(ner_model: dict[str, Any], before: list[str], components: dict[str, Any]) -> str | None:
    """The component that ``ner`` takes its vectors from; None if it computes them itself."""
    listener = next(_listeners(ner_model), None)
    if listener is None:
        return None
    wanted = listener.get("upstream", "*")
    found = [name for name in before if _section(components, name).get("factory") == "tok2vec"]
    found = [name for name in found if wanted in ("*", name)]
    if len(found) != 1:
        raise ValueError(f"its ner listens to the component tok2vec {wanted!r}, and {len(found)} before it are that")
    return found[0]


def _check_names(nlp: dict[str, Any], *names: str) -> None:
    """Raise unless language and components have names that can be those of a module and of folders."""
    lang = nlp.get("lang")
    if not isinstance(lang, str) or not re.fullmatch(r"[a-z]{2,3}", lang):
        raise ValueError(f"the language {str(lang)[:40]!r} is not spaCy's; use its code, such as en")
    for name in names:
        if not re.fullmatch(r"\w[\w .-]*", name):
            raise ValueError(f"the component {name[:40]!r} has no name that a folder could have; rename it")


def _asks_for_vectors(model: dict[str, Any]) -> bool:
    own = bool(model.get("include_static_vectors") or model.get("pretrained_vectors"))
    return own or any(_asks_for_vectors(value) for value in model.values() if isinstance(value, dict))
