"""Any Hugging Face encoder: a token's features are the mean of its pieces' last-layer vectors.

Those of a token classifier that was trained elsewhere are, as there, the vector of the first (or last) piece alone.

Sentences longer than the model's limit are read in overlapping windows (see ``pieces``), so that no token is
dropped. BigBird's sparse attention depends on the padded length, so its long windows are run only with others of
the same number of blocks: a sentence's features never depend on the rest of its batch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from tagtrace._checks import EncoderError, OptionError
from tagtrace._documents import Document, read_document, recorded_path
from tagtrace.data.sentence import Sentence
from tagtrace.tagger.encoders.base import Encoder, Table
from tagtrace.tagger.encoders.pieces import Piecer, Pieces, cut_windows
from tagtrace.tagger.encoders.pretrained import Pretrained, cut_classifier, load_classifier, load_encoder, quiet

Pooling = Literal["first", "mean", "last"]
"""Which pieces of a word its features come from."""

DEFAULT_WINDOW = 2048
"""Number of pieces in a window for a model without a limit."""
PIECES_PER_CALL = 1 << 14
"""Maximum number of padded pieces per call of the model."""


@dataclass(frozen=True)
class SavedTransformer(Document):
    """The description of a saved encoder, beside the files of ``save_pretrained``."""

    kind: Literal["transformer"]
    name: str
    max_pieces: int | None
    overlap: int | None
    pooling: Pooling = "mean"
    is_classifier: bool = False
    digest: str | None = None


class Transformer(Encoder):
    """A pretrained encoder by name or folder, fine-tuned in training.

    ``max_pieces`` limits the size of a window, special pieces included (default: the model's limit); neighbouring
    windows share ``overlap`` pieces (default: a quarter of a window). ``pretrained`` is what was loaded already.
    """

    name: str
    pooling: Pooling
    tokenizer: Any
    dim: int
    max_pieces: int
    overlap: int

    kind: ClassVar[str] = "transformer"
    trainable: ClassVar[bool] = True

    model: Any
    """The Hugging Face model."""
    is_classifier: bool
    digest: str | None

    def __init__(
        self,
        name_or_folder: str | Path,
        max_pieces: int | None = None,
        overlap: int | None = None,
        *,
        pooling: Pooling = "mean",
        pretrained: Pretrained | None = None,
    ) -> None:
        super().__init__()
        self.name, self.pooling = str(name_or_folder), pooling
        pretrained = pretrained or load_encoder(self.name)
        self.model, self.tokenizer, self.dim = pretrained.model, pretrained.tokenizer, pretrained.dim
        self.is_classifier, self.digest = pretrained.is_classifier, pretrained.digest
        self._options = {"max_pieces": max_pieces, "overlap": overlap}
        self._piecer = Piecer(self.tokenizer, adds_space=not self.is_classifier)
        self.max_pieces = self._window_size(max_pieces)
        self.overlap = self._window_overlap(overlap)

    def settings(self) -> dict[str, object]:
        return {"name": self.name, **self.reading()}

    def reading(self) -> dict[str, object]:
        """How text is read, windows and pieces: what its features depend on apart from its weights."""
        windows: dict[str, object] = {"max_pieces": self.max_pieces, "overlap": self.overlap}
        if not self.is_classifier:
            return windows
        return {**windows, "pooling": self.pooling, "digest": self.digest}

    def prepare(self, sentence: Sentence) -> Pieces:
        """The sentence's piece ids, in windows."""
        words = self._piecer.cut_words(sentence.tokens)
        vocabulary = self.model.get_input_embeddings().weight.shape[0]
        for token, ids in zip(sentence.tokens, words, strict=True):
            if max(ids) >= vocabulary:
                raise EncoderError(
                    f"{self.name}: the tokenizer gives {token!r} piece {max(ids)}, but the model knows only"
                    f" {vocabulary}; use the tokenizer that belongs to the model"
                )
        return cut_windows(words, self._piecer, self.max_pieces, self.overlap)

    def forward(self, batch: Sequence[Pieces]) -> Tensor:
        states, rows = self._states(batch)  # (R, D), (P,)
        return self._pooled(states, rows, batch).float()

    def project(self, batch: Sequence[Pieces], linear: Callable[[Tensor], Tensor]) -> Tensor:
        """If a word's features are those of one piece, ``linear`` is applied to all pieces, and then words are picked.

        The last bits of a product depend on its number of rows, and this is how a token classifier computes its
        scores: those of a sentence alone equal them bit by bit.
        """
        if self.pooling == "mean":
            return super().project(batch, linear)
        states, rows = self._states(batch)
        return self._pooled(linear(states.float()), rows, batch)

    def _states(self, batch: Sequence[Pieces]) -> tuple[Tensor, Tensor]:
        """The last-layer vectors of a batch (R, D), padding included, and the row of each piece (P,)."""
        device = self.model.get_input_embeddings().weight.device
        windows = [window for pieces in batch for window in pieces.windows]
        if not windows:
            return torch.zeros(0, self.dim, device=device), torch.zeros(0, dtype=torch.long, device=device)
        states, first_row = self._run(windows, device)  # (R, D), (W,)
        rows = first_row[_window_numbers(batch)] + torch.cat([pieces.place for pieces in batch])  # (P,)
        return states, rows.to(device)

    def _pooled(self, states: Tensor, rows: Tensor, batch: Sequence[Pieces]) -> Tensor:
        """One row for each word (N, ...), from those of its pieces: ``rows`` (P,) of ``states`` (R, ...)."""
        if not len(rows):
            return states
        counts = torch.cat([pieces.counts for pieces in batch])  # (N,)
        if self.pooling == "mean":
            vectors = states.index_select(0, rows).float()  # (P, D)
            return torch.segment_reduce(vectors, "mean", lengths=counts.to(rows.device), axis=0)  # (N, D)
        ends = counts.cumsum(0)  # (N,)
        picked = ends - counts if self.pooling == "first" else ends - 1
        return states.index_select(0, rows[picked.to(rows.device)])  # (N, ...)

    def layer_rows(self, batch: Sequence[Pieces]) -> list[Tensor]:
        owner = torch.tensor([number for number, pieces in enumerate(batch) for _ in pieces.windows])
        lengths = [len(window) for pieces in batch for window in pieces.windows]
        return [owner[numbers].repeat_interleave(width) for width, numbers in self._calls(lengths)]

    def table_of_words(self) -> Table | None:
        found = self.model.get_input_embeddings()
        return found if isinstance(found, Table) else None

    def save(self, folder: Path) -> None:
        vars(self.model.config).pop("auto_map", None)  # of the model hub; a folder that has it is not loaded
        with quiet():
            self.model.save_pretrained(folder)
            self.tokenizer.save_pretrained(folder)
        description = {"kind": self.kind, "name": recorded_path(self.name), **self._options}
        if self.is_classifier:
            description |= {"pooling": self.pooling, "is_classifier": True, "digest": self.digest}
        (folder / "encoder.json").write_text(json.dumps(description, indent=1), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Self:
        saved = read_document(folder / "encoder.json", SavedTransformer, remedy="train it again", error=EncoderError)
        pretrained = None
        if saved.is_classifier:
            pretrained, _ = cut_classifier(folder, *load_classifier(folder, is_cut=True), saved.digest)
        encoder = cls(folder, saved.max_pieces, saved.overlap, pooling=saved.pooling, pretrained=pretrained)
        encoder.name = saved.name
        return encoder

    def _window_size(self, wanted: int | None) -> int:
        """The number of pieces in a window, special pieces included."""
        positions = _num_positions(self.model)
        if block := _block_size(self.model):  # BigBird pads to whole blocks
            positions = positions // block * block
        least = self._piecer.num_special + 1
        if wanted is not None and not least <= wanted <= (positions or wanted):
            most = positions or "any number of"
            raise OptionError(f"max_pieces = {wanted}: {self.name} takes {least} to {most} pieces at a time")
        from_tokenizer = self.tokenizer.model_max_length  # a huge number if there is no limit
        limits = [limit for limit in (positions, from_tokenizer) if least <= limit < 1_000_000]
        return wanted or min(limits, default=DEFAULT_WINDOW)

    def _window_overlap(self, wanted: int | None) -> int:
        capacity = self.max_pieces - self._piecer.num_special
        if wanted is not None and not 0 <= wanted < capacity:
            raise OptionError(f"overlap = {wanted}: windows have {capacity} pieces of text; choose 0 to {capacity - 1}")
        return capacity // 4 if wanted is None else wanted

    def _run(self, windows: list[Tensor], device: torch.device) -> tuple[Tensor, Tensor]:
        """Last-layer vectors (R, D) of all windows, padding included, and each window's first row (W,)."""
        states: list[Tensor] = []
        first_row = torch.zeros(len(windows), dtype=torch.long)
        num_rows = 0
        for width, numbers in self._calls([len(window) for window in windows]):
            hidden = self._call([windows[i] for i in numbers], width, device)  # (W', L, D)
            first_row[numbers] = num_rows + width * torch.arange(len(numbers))
            num_rows += width * len(numbers)
            states.append(hidden.flatten(0, 1))
        return torch.cat(states), first_row

    def _calls(self, lengths: list[int]) -> Iterator[tuple[int, list[int]]]:
        """The model calls for windows of these lengths: a padded length, and the windows' numbers.

        If there must be several calls, windows of similar length go together.
        """
        groups: dict[int, list[int]] = {0: list(range(len(lengths)))}
        if _block_size(self.model):
            groups = {}
            for number, length in enumerate(lengths):
                groups.setdefault(self._sparse_width(length), []).append(number)
        for sparse_width, numbers in groups.items():
            if len(numbers) * max((lengths[i] for i in numbers), default=0) > PIECES_PER_CALL:
                numbers.sort(key=lambda i: -lengths[i])
            start = 0
            while start < len(numbers):
                width = sparse_width or max(lengths[i] for i in numbers[start:])
                count = max(PIECES_PER_CALL // width, 1)
                yield width, numbers[start : start + count]
                start += count

    def _sparse_width(self, length: int) -> int:
        """The length of a window in whole blocks under BigBird's sparse attention; 0 if attention is full."""
        block = _block_size(self.model)
        if not block or length <= (5 + 2 * self.model.config.num_random_blocks) * block:
            return 0
        return -(-length // block) * block

    def _call(self, windows: list[Tensor], width: int, device: torch.device) -> Tensor:
        """Last-layer vectors (W, L, D) of windows padded to ``width`` = L."""
        lengths = torch.tensor([len(window) for window in windows])
        ids = torch.full((len(windows), width), _padding_id(self.model, self.tokenizer))  # (W, L)
        mask = torch.arange(width) < lengths.unsqueeze(1)  # (W, L)
        ids[mask] = torch.cat(windows)
        inputs = {"input_ids": ids.to(device), "attention_mask": mask.long().to(device)}
        if not _block_size(self.model):
            with _attention_of_any_length(device):
                return self.model(**inputs)[0]
        if not self._sparse_width(width):
            _set_attention(self.model, "original_full")
            return self.model(**inputs)[0]
        _set_attention(self.model, "block_sparse")
        with torch.autocast(device.type, enabled=False):  # mixes dtypes and fails under autocast
            return self.model(**inputs)[0]


def _attention_of_any_length(device: torch.device) -> AbstractContextManager[object]:
    """Do without cuDNN's attention, which takes milliseconds to plan for every new length."""
    if device.type != "cuda":
        return nullcontext()
    return sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH])


def _window_numbers(batch: Sequence[Pieces]) -> Tensor:
    """For each piece of the batch (P,), the number of its window among all windows of the batch."""
    num_windows = torch.tensor([len(pieces.windows) for pieces in batch])
    counts = torch.tensor([len(pieces.window) for pieces in batch])
    before = (num_windows.cumsum(0) - num_windows).repeat_interleave(counts)
    return before + torch.cat([pieces.window for pieces in batch])


def _num_positions(model: Any) -> int:
    """The number of positions that the model has; 0 if it has no limit.

    RoBERTa and similar models number positions from ``padding_idx + 1``, so some of theirs are never used.
    """
    positions = getattr(model.config, "max_position_embeddings", None) or 0
    tables = [module for name, module in model.named_modules() if name.endswith("position_embeddings")]
    padding = [table.padding_idx for table in tables if getattr(table, "padding_idx", None) is not None]
    return max(positions - (padding[0] + 1 if padding else 0), 0)


def _padding_id(model: Any, tokenizer: Any) -> int:
    candidates = (getattr(model.config, "pad_token_id", None), tokenizer.pad_token_id)
    return next((piece for piece in candidates if piece is not None), 0)


def _block_size(model: Any) -> int:
    """The block of BigBird's sparse attention; 0 for every other model."""
    config = model.config
    is_sparse = config.model_type == "big_bird" and config.attention_type == "block_sparse"
    return config.block_size if is_sparse else 0


def _set_attention(model: Any, kind: str) -> None:
    """Switch BigBird's attention. The new modules take over the old weights, so meta tensors are enough."""
    encoder = model.base_model
    if encoder.attention_type != kind:
        with torch.device("meta"):
            encoder.set_attention_type(kind)
