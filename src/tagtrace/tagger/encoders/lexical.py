"""The offline encoder: spelling features, hashed, and a small network over neighbours, trained from scratch.

A token's word form, lower-cased form, affixes, character trigrams and shape are hashed into one table of
embeddings and summed; two layers then mix in the neighbours of each token. A token's features are the output of the
layers and its own sum. No vocabulary is kept, so any word has features, and nothing is downloaded. Layers over
neighbours are a few large matrix products, where a recurrent network would need a small one per token.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import ClassVar, Self
from zlib import crc32

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional as F

from tagtrace._checks import EncoderError, OptionError
from tagtrace._documents import Document, read_document
from tagtrace._tensor_files import map_tensors
from tagtrace.data.sentence import Sentence
from tagtrace.tagger.encoders.base import Encoder, Table


@dataclass(frozen=True)
class LexicalOptions(Document):
    """Sizes: ``buckets`` embeddings of ``width`` numbers, two layers of ``hidden``; D = hidden + width."""

    buckets: int = 2**16
    width: int = 128
    hidden: int = 256
    dropout: float = 0.5
    form_dropout: float = 0.5
    """How often training hides a word's form, so that the tagger learns from spelling and neighbours."""

    def __post_init__(self) -> None:
        if min(self.buckets, self.width, self.hidden) < 1:
            raise OptionError("lexical encoder: buckets, width and hidden must be at least 1")
        if self.dim > 1024:
            raise OptionError(f"lexical encoder: D = {self.dim} exceeds 1024; lower hidden or width")

    @property
    def dim(self) -> int:
        return self.hidden + self.width


def shape(word: str) -> str:
    """The kinds of characters, runs shortened to two.

    >>> shape("McArthur-1996")
    'XxXxx-dd'
    """
    kinds = re.sub(r"[^\W\d_]", lambda m: "X" if m[0].isupper() else "x", word)
    kinds = re.sub(r"\d", "d", kinds)
    return re.sub(r"(.)\1{2,}", r"\1\1", kinds)


def spelling(word: str) -> tuple[list[str], list[str]]:
    """Features of the word form, and features shared with words of similar spelling.

    >>> spelling("Oslo")[0]
    ['w=Oslo', 'l=oslo']
    """
    lower = word.lower()
    affixes = [f"p{n}={lower[:n]}" for n in range(1, 5) if n < len(lower)]
    affixes += [f"s{n}={lower[-n:]}" for n in range(1, 5) if n < len(lower)]
    marked = f"<{lower}>"
    trigrams = [f"t={marked[i : i + 3]}" for i in range(len(marked) - 2)]
    cases = [f"h={shape(word)}", f"c={word[:1].isupper()}{word.isupper()}{any(c.isdigit() for c in word)}"]
    return [f"w={word}", f"l={lower}"], affixes + trigrams[:20] + cases


class Neighbours(nn.Module):
    """One layer: a token's row and those within ``reach`` tokens, side by side, through one matrix and a ReLU."""

    offsets: range
    linear: nn.Linear

    def __init__(self, width: int, hidden: int, reach: int = 2) -> None:
        super().__init__()
        self.offsets = range(-reach, reach + 1)
        self.linear = nn.Linear(len(self.offsets) * width, hidden)

    def forward(self, rows: Tensor, lengths: Tensor) -> Tensor:
        """(N, width) -> (N, hidden); zeros beyond the ends of a sentence."""
        edge = torch.cat([rows, rows.new_zeros(1, rows.shape[1])])  # row N is zero
        index = neighbour_index(lengths, self.offsets).to(rows.device)  # (N, offsets)
        near = edge.index_select(0, index.flatten())  # (N offsets, width), faster than edge[index]
        return F.relu(self.linear(near.view(len(rows), self.linear.in_features)))


def neighbour_index(lengths: Tensor, offsets: Sequence[int]) -> Tensor:
    """Row numbers of each token's neighbours in its own sentence, N if there is none: (N, offsets).

    >>> neighbour_index(torch.tensor([2, 1]), [-1, 1]).tolist()
    [[3, 1], [0, 3], [3, 3]]
    """
    num_rows = int(lengths.sum())
    first = torch.repeat_interleave(lengths.cumsum(0) - lengths, lengths).unsqueeze(1)  # (N, 1)
    stop = first + torch.repeat_interleave(lengths, lengths).unsqueeze(1)
    index = torch.arange(num_rows).unsqueeze(1) + torch.tensor(offsets)
    return torch.where((index >= first) & (index < stop), index, num_rows)


class Lexical(Encoder):
    """Hashed spelling features, summed, then two layers over neighbours: D = hidden + width."""

    options: LexicalOptions
    dim: int
    table: nn.EmbeddingBag
    near: Neighbours
    far: Neighbours
    dropout: nn.Dropout

    kind = "lexical"
    trainable = True
    learning_rate: ClassVar[float] = 2e-3

    def __init__(self, options: LexicalOptions | None = None) -> None:
        super().__init__()
        self.options = options = options or LexicalOptions()
        self.dim = options.dim
        self.table = nn.EmbeddingBag(options.buckets, options.width, mode="sum")
        nn.init.normal_(self.table.weight, std=options.width**-0.5)
        self.near = Neighbours(options.width, options.hidden)
        self.far = Neighbours(options.hidden, options.hidden, reach=1)
        self.dropout = nn.Dropout(options.dropout)
        self._cache: dict[str, tuple[list[int], int]] = {}
        self._row: Tensor | None = None
        """The row of each bucket in the table, (buckets,), if the table is narrowed."""

    def settings(self) -> dict[str, object]:
        return asdict(self.options)

    def prepare(self, sentence: Sentence) -> list[tuple[list[int], int]]:
        """For each token, its hashed features (word form first) and how many of them are word form."""
        return [self._hashed(token) for token in sentence.tokens]

    def _hashed(self, word: str) -> tuple[list[int], int]:
        found = self._cache.get(word)
        if found is None:
            forms, rest = spelling(word)
            ids = [crc32(feature.encode("utf-8", "surrogatepass")) % self.options.buckets for feature in forms + rest]
            found = self._cache[word] = (ids, len(forms))
        return found

    @contextmanager
    def narrowed(self, prepared: Sequence[list[tuple[list[int], int]]]) -> Iterator[None]:
        """Inside the block, the table has only the rows of the buckets that ``prepared`` sentences use.

        A small corpus uses a few thousand of the buckets. The whole table is a buffer meanwhile, so that a checkpoint
        has everything.
        """
        whole = self.table.weight  # (buckets, width)
        lists = {id(ids): ids for sentence in prepared for ids, _ in sentence}.values()
        used = torch.tensor(sorted({i for ids in lists for i in ids}), dtype=torch.long, device=whole.device)  # (U,)
        self.register_buffer("whole_table", whole.detach())
        self.table.weight = nn.Parameter(whole.detach()[used])  # (U, width)
        self._row = used.new_full((len(whole),), -1).scatter(0, used, torch.arange(len(used), device=whole.device))
        try:
            yield
        finally:
            whole.data[used] = self.table.weight.detach()
            self.table.weight, self._row = whole, None
            del self.whole_table

    def forward(self, batch: Sequence[list[tuple[list[int], int]]]) -> Tensor:
        lengths = torch.tensor([len(sentence) for sentence in batch], dtype=torch.long)
        own = self._sums([word for sentence in batch for word in sentence])  # (N, width)
        near = self.near(self.dropout(own), lengths)  # (N, hidden)
        far = near + self.far(self.dropout(near), lengths)  # (N, hidden)
        return torch.cat([far, own], 1)  # (N, D)

    def layer_rows(self, batch: Sequence[list[tuple[list[int], int]]]) -> list[Tensor]:
        lengths = torch.tensor([len(sentence) for sentence in batch], dtype=torch.long)
        return [torch.repeat_interleave(torch.arange(len(batch)), lengths)]

    def table_of_words(self) -> Table:
        return self.table

    def _sums(self, words: Sequence[tuple[list[int], int]]) -> Tensor:
        """The summed embeddings of each word's features, (N, width), scaled by their number."""
        hidden = torch.rand(len(words)) < (self.options.form_dropout if self.training else 0.0)
        kept = [ids[num_forms:] if hide else ids for (ids, num_forms), hide in zip(words, hidden.tolist(), strict=True)]
        sizes = torch.tensor([len(ids) for ids in kept], dtype=torch.long)
        device = self.table.weight.device
        flat = torch.tensor([*chain.from_iterable(kept)], dtype=torch.long, device=device)
        if self._row is not None:
            flat = self._row[flat]
        sums = self.table(flat, (sizes.cumsum(0) - sizes).to(device))
        return sums / sizes.to(device).sqrt().unsqueeze(1)

    def save(self, folder: Path) -> None:
        (folder / "encoder.json").write_text(json.dumps(asdict(self.options), indent=1), encoding="utf-8")
        save_file(self.state_dict(), folder / "encoder.safetensors")

    @classmethod
    def load(cls, folder: Path) -> Self:
        options = read_document(folder / "encoder.json", LexicalOptions, remedy="train it again", error=EncoderError)
        weights = map_tensors(folder / "encoder.safetensors")
        shape = tuple(weights["table.weight"].shape) if "table.weight" in weights else ()
        if shape != (options.buckets, options.width):  # before memory of that size is taken
            raise EncoderError(f"{folder}: a table of shape {shape} for {options.buckets} buckets; train it again")
        encoder = cls(options)
        encoder.load_state_dict(weights)
        return encoder
