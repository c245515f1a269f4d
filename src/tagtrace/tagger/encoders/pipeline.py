"""The vectors that the named entity recognizer of a spaCy pipeline reads: those of its ``tok2vec`` layer.

The folder is the one that ``nlp.to_disk`` wrote. Only ``tok2vec`` and ``ner`` are built, from layers of spaCy's own; a
sentence becomes a ``Doc`` of its own words, and spaCy's tokenizer is not used. Nothing is unpickled or run.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from torch import Tensor

from tagtrace._checks import EncoderError
from tagtrace._documents import Document, check_regular_files, parse_json, read_document
from tagtrace._files import check_name_is_text, file_sha256
from tagtrace._places import RecordedPlace, find_place
from tagtrace.data.sentence import Sentence
from tagtrace.tagger.encoders.base import Encoder
from tagtrace.tagger.encoders.pipeline_config import CONFIG, PipelineConfig, read_pipeline_config
from tagtrace.tagger.encoders.pipeline_weights import load_weights, read_msgpack

PROBE = ("Two", "words")
_VOCABULARY = ("lookups.bin", "key2row", "keys", "vectors", "vectors.cfg")


@dataclass(frozen=True)
class SavedPipeline(Document):
    """The description of a saved encoder: the pipeline stays where it is."""

    kind: Literal["spacy"]
    absolute: str
    relative: str
    digest: str


@dataclass(frozen=True)
class _Loaded:
    """A pipeline of ``tok2vec``, if it is a component, and ``ner``. It never changes, so copies share it."""

    nlp: Any
    vectors: Any
    """The layer whose outputs are the features."""
    types: tuple[str, ...]

    def __deepcopy__(self, memo: object) -> Self:
        return self


class Pipeline(Encoder):
    """The ``tok2vec`` layer of a spaCy pipeline with a component ``ner``.

    It is neither trained nor copied: a saved encoder points to the pipeline's folder and checks that it is the same.
    """

    folder: Path
    dim: int
    digest: str
    """sha256 of all files that its features or spaCy's own predictions depend on."""

    kind: ClassVar[str] = "spacy"
    trainable: ClassVar[bool] = False

    _device: Tensor

    def __init__(self, folder: str | Path) -> None:
        super().__init__()
        self.folder = Path(folder)
        check_name_is_text(self.folder)
        _check_folder(self.folder)
        config = read_pipeline_config(self.folder)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.digest = _digest(self.folder, config)
                self._loaded = _load(self.folder, config)
                features = self._run([PROBE])
        except Exception as error:  # spaCy and damaged files raise many kinds
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            raise EncoderError(
                f"{self.folder}: cannot be loaded as a spaCy pipeline ({reason}); give the folder that to_disk wrote,"
                " or save it again with this version of spaCy"
            ) from error
        if not np.isfinite(features).all():
            raise EncoderError(f"{self.folder}: its weights are not finite numbers; train the pipeline again")
        if not self.types:
            raise EncoderError(f"{self.folder}: its ner knows no types of entities; train the pipeline first")
        self.dim = features.shape[1]
        self.register_buffer("_device", torch.empty(0), persistent=False)  # its device is where features go

    @property
    def types(self) -> tuple[str, ...]:
        """The types of entities that ``ner`` knows."""
        return self._loaded.types

    def prepare(self, sentence: Sentence) -> tuple[str, ...]:
        return sentence.tokens

    def forward(self, batch: Sequence[tuple[str, ...]]) -> Tensor:
        if not batch:
            return torch.zeros(0, self.dim, device=self._device.device)
        return torch.from_numpy(self._run(batch)).to(self._device.device)  # (N, D)

    def own_labels(self, sentences: Sequence[Sentence]) -> list[tuple[str, ...]]:
        """The labels, as IOB2, that spaCy's own ``ner`` gives each sentence."""
        docs = self._loaded.nlp.pipe(self._docs([sentence.tokens for sentence in sentences]))
        return [
            tuple(f"{token.ent_iob_}-{token.ent_type_}" if token.ent_type_ else "O" for token in doc) for doc in docs
        ]

    def _docs(self, texts: Sequence[Sequence[str]]) -> list[Any]:
        from spacy.tokens import Doc  # noqa: PLC0415

        return [Doc(self._loaded.nlp.vocab, words=list(words)) for words in texts]

    def _run(self, texts: Sequence[Sequence[str]]) -> np.ndarray:
        """The vectors of all words, (N, D)."""
        return np.concatenate(self._loaded.vectors.predict(self._docs(texts))).astype(np.float32, copy=False)

    def save(self, folder: Path) -> None:
        place = RecordedPlace.of(self.folder, folder)
        saved = SavedPipeline("spacy", place.path, place.relative, self.digest)
        (folder / "encoder.json").write_text(json.dumps(asdict(saved), indent=1), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Self:
        saved = read_document(folder / "encoder.json", SavedPipeline, remedy="train it again", error=EncoderError)
        encoder = cls(find_place(folder, "pipeline", saved.absolute, saved.relative))
        if encoder.digest != saved.digest:
            raise EncoderError(
                f"{encoder.folder}: the pipeline is not the one that the tagger was fitted on; restore it or fit again"
            )
        return encoder


def _check_folder(folder: Path) -> None:
    """Raise EncoderError unless a folder has a configuration and nothing but ordinary files."""
    if not (folder / CONFIG).is_file():
        raise EncoderError(f"{folder}: has no {CONFIG}; give the folder that to_disk of a spaCy pipeline wrote")
    try:
        check_regular_files(folder)
    except OSError as error:
        raise EncoderError(
            f"{folder}: {error.filename} cannot be read ({error.strerror}); replace or remove it"
        ) from None
    try:
        import spacy  # noqa: F401, PLC0415  (an optional dependency, and slow to import)
    except ImportError:
        raise EncoderError(f'{folder}: a spaCy pipeline needs spaCy: pip install "tagtrace[spacy]"') from None


def _files(folder: Path, config: PipelineConfig) -> list[Path]:
    """All files that are read, but for the strings, which are only names of what the others have as numbers."""
    names = [CONFIG, f"{config.ner}/model", f"{config.ner}/moves"]
    names += [] if config.tok2vec is None else [f"{config.tok2vec}/model"]
    vocabulary = _VOCABULARY if config.has_vectors else _VOCABULARY[:1]
    names += [f"vocab/{name}" for name in vocabulary if (folder / "vocab" / name).exists()]
    return [folder / name for name in names]


def _digest(folder: Path, config: PipelineConfig) -> str:
    sums = [[path.relative_to(folder).as_posix(), file_sha256(path)] for path in _files(folder, config)]
    return hashlib.sha256(json.dumps(sums).encode()).hexdigest()


def _load(folder: Path, config: PipelineConfig) -> _Loaded:
    import spacy  # noqa: PLC0415
    from spacy.tokens import Doc  # noqa: PLC0415

    nlp = spacy.blank(config.lang, config={"nlp": {"tokenizer": {"@tokenizers": "spacy.Tokenizer.v1"}}})
    _load_vocabulary(folder, nlp, config.has_vectors)
    sample = [Doc(nlp.vocab, words=list(PROBE))]
    vectors = None
    if config.tok2vec is not None:
        tok2vec: Any = nlp.add_pipe("tok2vec", name=config.tok2vec, config={"model": config.tok2vec_model})
        vectors = tok2vec.model
        load_weights(folder / config.tok2vec / "model", vectors, sample)
    ner: Any = nlp.add_pipe("ner", name=config.ner, config={"model": config.ner_model})
    ner.moves.initialize_actions(_moves(folder / config.ner / "moves"))
    ner._resize()
    load_weights(folder / config.ner / "model", ner.model, sample)
    if vectors is None:
        vectors = ner.model.get_ref("tok2vec").layers[0]  # behind it a layer of ner itself
    return _Loaded(nlp, vectors, tuple(ner.labels))


def _load_vocabulary(folder: Path, nlp: Any, has_vectors: bool) -> None:
    """Norms of words, strings and perhaps vectors; numpy refuses arrays of objects, which would be pickles."""
    if (folder / "vocab").is_dir():
        nlp.vocab.from_disk(folder / "vocab", exclude=[] if has_vectors else ["vectors"])
    if "lexeme_norm" in nlp.vocab.lookups:
        norms = nlp.vocab.lookups.get_table("lexeme_norm").values()
        if not all(isinstance(norm, str) for norm in norms):
            raise ValueError("the norms of words in lookups.bin are not all texts")


def _moves(path: Path) -> dict[str, dict[str, int]]:
    """The actions of ``ner`` and how often each was seen for each type: they give its outputs their order."""
    moves = parse_json(read_msgpack(path)["moves"])
    for action, counts in moves.items():
        if action not in ("0", "1", "2", "3", "4", "5"):
            raise ValueError(f"{path.name} has an unknown action {action[:20]!r}")
        if not all(isinstance(count, int) for count in counts.values()):
            raise ValueError(f"{path.name} has counts that are no numbers")
    return moves
