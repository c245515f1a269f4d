"""Words as a transformer reads them: split into pieces, and the pieces into windows that fit the model.

A sentence longer than the model's limit becomes several overlapping windows. Every piece is then in one window or
more, and is read from the one where it is farthest from an edge at which the text was cut.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tagtrace._checks import EncoderError

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Pieces:
    """One sentence of T tokens and P pieces, ready for the model."""

    windows: tuple[Tensor, ...]
    """Piece ids (L,) of each window, with the tokenizer's special pieces around them."""
    window: Tensor
    """(P,): which window each piece is read from."""
    place: Tensor
    """(P,): its position in that window."""
    counts: Tensor
    """(T,): how many pieces each token has; never 0."""


class Piecer:
    """Cuts words into pieces with a fast tokenizer. Every word has at least one piece.

    ``adds_space``: where words include the space before them, each gets one; if not, words are cut as they stand.
    """

    prefix: list[int]
    suffix: list[int]

    def __init__(self, tokenizer: Any, *, adds_space: bool = True) -> None:
        self._backend = tokenizer.backend_tokenizer
        self._backend.no_truncation()
        self._backend.no_padding()
        self._unknown = _unknown_id(tokenizer)
        self._before_word = " " if adds_space and _is_byte_level(self._backend) else ""
        self.prefix, self.suffix = self._special_pieces()

    @property
    def num_special(self) -> int:
        """The number of special pieces around a window."""
        return len(self.prefix) + len(self.suffix)

    def cut_words(self, words: Sequence[str]) -> list[list[int]]:
        """The piece ids of each word. A word that vanishes (control characters) becomes the unknown piece."""
        encoding = self._encode([self._before_word + _without_surrogates(word) for word in words], special=False)
        pieces: list[list[int]] = [[] for _ in words]
        for piece, word in zip(encoding.ids, encoding.word_ids, strict=True):
            pieces[word].append(piece)
        return [ids or [self._unknown] for ids in pieces]

    def _special_pieces(self) -> tuple[list[int], list[int]]:
        """The pieces that the tokenizer adds before and after a sentence, found by encoding one word."""
        encoding = self._encode([self._before_word + "a"], special=True)
        is_special = encoding.special_tokens_mask
        start = is_special.index(0) if 0 in is_special else len(is_special)
        after = [piece for piece, special in zip(encoding.ids[start:], is_special[start:], strict=True) if special]
        return encoding.ids[:start], after

    def _encode(self, words: list[str], *, special: bool) -> Any:
        try:
            return self._backend.encode(words, is_pretokenized=True, add_special_tokens=special)
        except BaseException as error:  # its panics are no Exceptions
            if isinstance(error, KeyboardInterrupt | SystemExit | MemoryError):
                raise
            reason = " ".join(str(error).split())[:160]
            raise EncoderError(
                f"the tokenizer fails on {' '.join(words)[:60]!r} ({reason}); give another one"
            ) from None


def cut_windows(words: Sequence[Sequence[int]], piecer: Piecer, max_pieces: int, overlap: int) -> Pieces:
    """Split a sentence's pieces into windows of at most ``max_pieces``, special pieces included."""
    ids = [piece for word in words for piece in word]
    bounds = window_bounds(len(ids), max_pieces - piecer.num_special, overlap)
    window, place = most_central(bounds, len(ids))
    return Pieces(
        windows=tuple(
            torch.tensor(piecer.prefix + ids[start:stop] + piecer.suffix, dtype=torch.long) for start, stop in bounds
        ),
        window=torch.from_numpy(window),
        place=torch.from_numpy(place + len(piecer.prefix)),
        counts=torch.tensor([len(word) for word in words], dtype=torch.long),
    )


def window_bounds(num_pieces: int, capacity: int, overlap: int) -> list[tuple[int, int]]:
    """Windows ``start:stop`` that cover all pieces; neighbours share ``overlap`` pieces or, at the end, more.

    >>> window_bounds(5, 8, 2), window_bounds(10, 6, 2), window_bounds(11, 6, 2), window_bounds(0, 6, 2)
    ([(0, 5)], [(0, 6), (4, 10)], [(0, 6), (4, 10), (5, 11)], [])
    """
    if num_pieces == 0:
        return []
    last = max(num_pieces - capacity, 0)
    starts = [*range(0, last, capacity - overlap), last]
    return [(start, min(start + capacity, num_pieces)) for start in starts]


def most_central(bounds: Sequence[tuple[int, int]], num_pieces: int) -> tuple[Ints, Ints]:
    """For each piece (P,), the window where it is farthest from a cut edge, and its position there.

    The ends of the sentence are not cuts.

    >>> most_central([(0, 6), (4, 10)], 10)[0].tolist()
    [0, 0, 0, 0, 0, 1, 1, 1, 1, 1]
    """
    window = np.zeros(num_pieces, dtype=np.int64)
    place = np.zeros(num_pieces, dtype=np.int64)
    farthest = np.full(num_pieces, -1, dtype=np.int64)
    for number, (start, stop) in enumerate(bounds):
        places = np.arange(stop - start)
        to_left = places if start > 0 else np.full(stop - start, num_pieces)
        to_right = places[::-1] if stop < num_pieces else np.full(stop - start, num_pieces)
        distance = np.minimum(to_left, to_right)
        better = distance > farthest[start:stop]
        window[start:stop][better] = number
        place[start:stop][better] = places[better]
        farthest[start:stop][better] = distance[better]
    return window, place


def _unknown_id(tokenizer: Any) -> int:
    """The piece that replaces a word without pieces."""
    candidates = (
        tokenizer.unk_token_id,
        tokenizer.mask_token_id,
        tokenizer.pad_token_id,
        tokenizer.eos_token_id,
    )
    return next((piece for piece in candidates if piece is not None), 0)


def _is_byte_level(backend: Any) -> bool:
    """Whether words include the space before them (RoBERTa, GPT-2), so that ours need one too."""
    if backend.pre_tokenizer is None:
        return False
    state = json.loads(backend.pre_tokenizer.__getstate__())
    return any(part.get("type") == "ByteLevel" for part in [state, *state.get("pretokenizers", [])])


def _without_surrogates(word: str) -> str:
    """The word without lone surrogates (possible in JSON), which a tokenizer cannot read."""
    return word.encode("utf-8", "replace").decode("utf-8")
