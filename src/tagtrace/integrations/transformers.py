"""A callback for the ``Trainer`` of Hugging Face transformers: at the end of training, the index is there.

    FOLDER/checkpoint              model and tokenizer, as ``save_pretrained`` writes them
    FOLDER/index                   the index of the training data
    FOLDER/dynamics.safetensors    what the model believed of the given labels after each epoch, if that is kept

The model is looked at by way of a folder that it is saved to, so what is computed is what its checkpoint computes,
whatever precision it is trained in, and the training goes on as if nobody had looked.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tagtrace._checks import OptionError, TaggerError, TagtraceError
from tagtrace._files import check_outputs
from tagtrace._folders import Product, check_replaceable, folder_aside, folder_moved_when_whole
from tagtrace.data.corpus import Corpus, read_corpus
from tagtrace.index import Index, IndexOptions, build_index
from tagtrace.index.fingerprints import content_fingerprint
from tagtrace.index.manifest import PRODUCT as INDEX_PRODUCT
from tagtrace.integrations.training_dynamics import TrainingDynamics, given_probabilities, read_dynamics
from tagtrace.tagger import Tagger, load_tagger
from tagtrace.tagger.encoders.pretrained import quiet
from tagtrace.tagger.encoders.transformer import Pooling

try:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase, TrainerCallback
except ImportError:
    raise OptionError('TagtraceCallback needs transformers: pip install "tagtrace[transformers]"') from None

CHECKPOINT, INDEX, DYNAMICS = "checkpoint", "index", "dynamics.safetensors"
PRODUCT = Product("config.json", ("*.json", "*.safetensors", "*.txt", "*.model", "*.jinja"))
"""What ``save_pretrained`` writes of a token classifier and its tokenizer."""


class TagtraceCallback(TrainerCallback):
    """Writes the checkpoint and the index of the training data to ``folder`` at the end of training.

    ``corpus`` is the training data, or its file. With ``dynamics`` the probabilities of the given labels are kept at
    the end of each epoch (``read_dynamics`` reads them). ``tokenizer`` is only needed if the Trainer has none.
    ``pooling`` says which piece of a word has its label in training. All else is checked before the training begins.
    In a distributed run only the first process writes.
    """

    corpus: Corpus
    folder: Path
    keeps_dynamics: bool
    tokenizer: PreTrainedTokenizerBase | None
    options: IndexOptions | None
    overwrite: bool
    index: Index | None = None
    """The index, once the training has ended."""

    def __init__(
        self,
        corpus: Corpus | str | Path,
        folder: str | Path,
        *,
        dynamics: bool = False,
        tokenizer: PreTrainedTokenizerBase | None = None,
        pooling: Pooling = "first",
        options: IndexOptions | None = None,
        overwrite: bool = False,
    ) -> None:
        self.corpus = corpus if isinstance(corpus, Corpus) else read_corpus(corpus)
        self.folder, self.keeps_dynamics, self.tokenizer = Path(folder), dynamics, tokenizer
        self.pooling: Pooling = pooling
        self.options, self.overwrite = options, overwrite
        self._dynamics: TrainingDynamics | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:  # noqa: ARG002
        if not state.is_world_process_zero:
            return
        self.index = self._dynamics = None
        resumed = state.epoch if state.global_step else None
        self._check_places(is_resumed=resumed is not None)
        model, tokenizer = _model_of(args, given), self._tokenizer_of(given)
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._tagger_of(model, tokenizer) as tagger:
            tagger.check_corpus(self.corpus)
            sentences = tagger.labelled(self.corpus.sentences, "training")
            if self.keeps_dynamics:
                begun = TrainingDynamics.begin(tagger.labels, sentences, content_fingerprint(self.corpus))
                self._dynamics = begun if resumed is None else self._resume(begun, resumed)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:  # noqa: ARG002
        if self._dynamics is None:
            return
        with self._tagger_of(_model_of(args, given), self._tokenizer_of(given)) as tagger:
            found = given_probabilities(tagger, self.corpus.sentences)
        self._dynamics = self._dynamics.after(state.epoch, found)
        self._dynamics.save(self.folder / DYNAMICS)

    def on_train_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:  # noqa: ARG002
        if not state.is_world_process_zero:
            return
        model, place = _model_of(args, given), self.folder / CHECKPOINT
        with folder_moved_when_whole(place, overwrite=self.overwrite, product=PRODUCT) as aside:
            _save(model, self._tokenizer_of(given), aside)
        tagger = load_tagger(place, pooling=self.pooling).to(model.device)
        self.index = build_index(tagger, self.corpus, self.folder / INDEX, self.options, overwrite=self.overwrite)

    def _check_places(self, *, is_resumed: bool) -> None:
        """Raise if something that is to be written is there already, unless it may be overwritten."""
        data = self.corpus.path
        for name, product in ((CHECKPOINT, PRODUCT), (INDEX, INDEX_PRODUCT)):
            inputs = {"the training data": data}
            check_replaceable(self.folder / name, overwrite=self.overwrite, product=product, inputs=inputs)
        if self.keeps_dynamics:
            outputs = {"the training dynamics": self.folder / DYNAMICS}
            check_outputs(outputs, {"the training data": data}, overwrite=self.overwrite or is_resumed)

    def _resume(self, begun: TrainingDynamics, epoch: float) -> TrainingDynamics:
        """What an interrupted training kept until the epoch at which it resumes."""
        path = self.folder / DYNAMICS
        if not path.exists():
            return begun
        kept = read_dynamics(path)
        if (kept.record.data, kept.labels) != (begun.record.data, begun.labels):
            raise OptionError(f"{path}: of a training on other data or labels; choose another folder")
        return kept.until(epoch)

    def _tokenizer_of(self, given: dict[str, Any]) -> PreTrainedTokenizerBase:
        tokenizer = self.tokenizer or given.get("processing_class")
        if tokenizer is None:
            raise TaggerError("the Trainer has no tokenizer; give one as processing_class, or to the callback")
        if not isinstance(tokenizer, PreTrainedTokenizerBase):
            kind = type(tokenizer).__name__
            raise TaggerError(f"the Trainer's processing_class is a {kind}, not a tokenizer; give one to the callback")
        return tokenizer

    @contextmanager
    def _tagger_of(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> Iterator[Tagger]:
        """The model as it is now as a tagger, by way of a folder that is deleted at the end of the block."""
        with folder_aside(self.folder / CHECKPOINT) as aside:
            _save(model, tokenizer, aside)
            try:
                yield load_tagger(aside, pooling=self.pooling).to(model.device)
            except TagtraceError as error:
                raise type(error)(str(error).replace(str(aside), "the model in training")) from None


def _model_of(args: Any, given: dict[str, Any]) -> PreTrainedModel:
    """The model of a Trainer; raises TaggerError if its checkpoint would not be a tagger."""
    model = given.get("model")
    name = type(model).__name__
    if not isinstance(model, PreTrainedModel) or not name.endswith("ForTokenClassification"):
        raise TaggerError(
            f"the Trainer's model is a {name}, not a token classifier of transformers (...ForTokenClassification); "
            "merge adapters, save it, and index what was saved"
        )
    if _is_sharded(args):
        raise TaggerError(
            "no process of the Trainer has the whole model (FSDP or DeepSpeed); save it after training, and index that"
        )
    return model


def _is_sharded(args: Any) -> bool:
    """Whether each process has only a part of the model, by the arguments of the Trainer or of accelerate."""
    asked = [getattr(args, name, None) for name in ("fsdp", "deepspeed")]
    launched = [os.environ.get(f"ACCELERATE_USE_{name}", "").lower() for name in ("FSDP", "DEEPSPEED")]
    return any(asked) or any(value in ("1", "true") for value in launched)


def _save(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    with quiet():
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
