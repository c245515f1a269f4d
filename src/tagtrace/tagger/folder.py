"""Saving a tagger as a folder of JSON and safetensors, and loading it. No pickle.

tagger.json        format, label set, unit, encoder kind, head options, how it was trained, checksums of the other files
head.safetensors   W, A, start, end
encoder/           the files of the encoder's own ``save``
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from safetensors.torch import save_file

from tagtrace._checks import DataError, OptionError, TaggerError, TagtraceError, TrainingError
from tagtrace._documents import Document, check_regular_files, check_value
from tagtrace._folders import Product, folder_moved_when_whole, restore_folder
from tagtrace._seals import SealedDocument, read_sealed, sealed
from tagtrace._tensor_files import FileRecord, map_tensors
from tagtrace._version import __version__
from tagtrace.data.labels import LabelSet
from tagtrace.tagger.checkpoint import History
from tagtrace.tagger.convex.refit import RefitOptions
from tagtrace.tagger.encoders import ENCODERS, Transformer
from tagtrace.tagger.encoders.transformer import Pooling
from tagtrace.tagger.foreign.huggingface import find_checkpoint, is_checkpoint, load_checkpoint
from tagtrace.tagger.foreign.spacy import is_pipeline, load_pipeline
from tagtrace.tagger.head import HeadOptions, head_of
from tagtrace.tagger.tagger import Tagger, Unit
from tagtrace.tagger.training import TrainOptions

FORMAT = 1
MARKER = "tagger.json"
"""The file that identifies a folder as a tagger."""
_ENCODER = ("*.json", "*.safetensors", "*.model", "*.jinja", "vocab.txt", "merges.txt")
PRODUCT = Product(MARKER, (MARKER, "head.safetensors", *(f"encoder/{name}" for name in _ENCODER)))

_REMEDY = "train it again or restore a copy"


@dataclass(frozen=True)
class EncoderRecord:
    """The encoder of a saved tagger; its own folder has the rest."""

    kind: str
    dim: int

    def __post_init__(self) -> None:
        if self.kind not in ENCODERS:
            raise DataError(f"encoder {self.kind!r}: expected one of {', '.join(ENCODERS)}")


@dataclass(frozen=True)
class TrainingRecord(Document):
    """How a tagger was trained; a loss may be infinite."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {**Document.__pydantic_config__, "allow_inf_nan": True}

    options: TrainOptions
    learning_rate: float
    history: History


@dataclass(frozen=True)
class RefitRecord(Document):
    """How the head of a tagger was refitted after training."""

    options: RefitOptions
    objective: float
    max_gradient: float
    num_steps: int
    num_sentences: int


@dataclass(frozen=True)
class TaggerDocument(SealedDocument):
    """Everything in a tagger's folder except its tensors and its encoder."""

    tagtrace: str
    """The version of tagtrace that saved the tagger."""
    labels: LabelSet
    unit: Unit
    encoder: EncoderRecord
    head: HeadOptions
    record: dict[str, Any]
    """``Tagger.record``: training and refit have schemas, whatever else is there is kept."""
    files: tuple[FileRecord, ...] = ()
    """All other files of the folder; none are recorded by versions that did not."""
    format: Literal[1] = FORMAT

    def __post_init__(self) -> None:
        for name, kind in (("training", TrainingRecord), ("refit", RefitRecord)):
            if name in self.record:
                try:
                    check_value(self.record[name], kind)
                except TagtraceError as error:
                    raise DataError(f"record.{name}: {error}") from None

    def to_json(self) -> dict[str, Any]:
        return sealed({"format": self.format, **asdict(self)})


def save_tagger(tagger: Tagger, folder: str | Path, *, overwrite: bool = False) -> None:
    """Save a tagger as a folder, which appears only once it is complete.

    ``overwrite`` replaces an older tagger or an empty folder, nothing else, and only if no other files are in it.
    Weights that are NaN or infinite are refused.
    """
    tagger.check_fitted()
    tagger.check_finite(TrainingError, "train with a lower learning rate, or check the data")
    saved = TaggerDocument(
        tagtrace=__version__,
        labels=tagger.labels,
        unit=tagger.unit,
        encoder=EncoderRecord(tagger.encoder.kind, tagger.encoder.dim),
        head=tagger.head.options,
        record=tagger.record,
    )
    with folder_moved_when_whole(folder, overwrite=overwrite, product=PRODUCT) as aside:
        (aside / "encoder").mkdir()
        tagger.encoder.save(aside / "encoder")
        weights = {name: value.detach().cpu().contiguous() for name, value in tagger.head.state_dict().items()}
        save_file(weights, aside / "head.safetensors")
        saved = replace(saved, files=tuple(FileRecord.of(name, aside) for name in _names(aside)))
        (aside / MARKER).write_text(json.dumps(saved.to_json(), indent=1, ensure_ascii=False), encoding="utf-8")
    tagger.folder = Path(folder)


def _names(folder: Path) -> list[str]:
    """The files of a tagger's folder that its weights and its encoder are read from."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def _check_files(folder: Path, files: tuple[FileRecord, ...]) -> None:
    """Raise unless the files are those that were written, and the encoder has no others."""
    problems = (file.problem(folder, contents=True) for file in files)
    problem = next((one for one in problems if one is not None), None)
    if problem is not None:
        raise TaggerError(problem)
    known = {file.name for file in files}
    found = (name for name in _names(folder) if name.startswith("encoder/") and "/." not in name)
    others = [name for name in found if name not in known]
    if files and others:
        raise TaggerError(f"{folder / others[0]}: is not one of its files")


def is_tagger(folder: str | Path) -> bool:
    """Whether a folder has a tagger that ``load_tagger`` loads, sound or not."""
    return (Path(folder) / MARKER).is_file() or is_checkpoint(Path(folder)) or is_pipeline(Path(folder))


def load_tagger(folder: str | Path, *, pooling: Pooling | None = None) -> Tagger:
    """Load the tagger that ``save_tagger`` wrote, or one of another library.

    This may be a Hugging Face token classifier as ``save_pretrained`` wrote it, or its name in the local cache; nothing
    is downloaded. ``pooling`` says which pieces of a word its features come from: ``first`` (the default), ``last`` or
    the ``mean``, as it was trained. Or it may be a spaCy pipeline with ``ner``, as ``to_disk`` wrote it: its head is
    new, and ``refit_tagger`` or ``build_index`` fits it.
    """
    folder = Path(folder)
    restore_folder(folder)
    if (folder / MARKER).exists():
        tagger = _load_own(folder)
        saved = tagger.encoder.pooling if isinstance(tagger.encoder, Transformer) else None
        if pooling not in (None, saved):
            raise OptionError(f"{folder}: pooling {pooling} is not that of the saved tagger; leave it out")
        return tagger
    checkpoint = find_checkpoint(folder)
    if checkpoint is None and is_pipeline(folder):
        if pooling is not None:
            raise OptionError(f"{folder}: a spaCy pipeline has no pooling of its own to choose; leave it out")
        return load_pipeline(folder)
    if checkpoint is None:
        raise TaggerError(
            f"{folder}: not a tagger (no {MARKER}); give a folder that a tagger was saved to, a Hugging Face token "
            "classifier or a spaCy pipeline"
        )
    return load_checkpoint(checkpoint, pooling)


def _load_own(folder: Path) -> Tagger:
    saved = read_sealed(folder / MARKER, TaggerDocument, remedy=_REMEDY, error=TaggerError)
    try:
        check_regular_files(folder)
        _check_files(folder, saved.files)
        encoder = ENCODERS[saved.encoder.kind].load(folder / "encoder")
        head = head_of(map_tensors(folder / "head.safetensors"), encoder.dim, saved.labels, saved.head)
        tagger = Tagger(encoder, head, saved.labels, saved.unit)
        tagger.check_finite(TaggerError, "they cannot be used")
    except (TagtraceError, RuntimeError, ValueError, OSError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise TaggerError(f"{folder}: the tagger is damaged ({reason}); {_REMEDY}") from error
    tagger.record, tagger.folder = saved.record, folder
    return tagger.eval()
