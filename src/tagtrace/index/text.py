"""The text of an index, by columns: what a chain looks like and where it came from, decoded only on demand.

tokens, ids, documents, paths   bytes of all strings one after the other (UTF-8), and where each starts
document, path                  (b,) the number of each chain's string; both repeat, so each is stored once
lines                           (n,) the source line of each token, 0 where there is none
first                           (b,) how many tokens of the file precede the chain (``Sentence.offset``)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from tagtrace.data.sentence import Sentence

_ENCODING = ("utf-8", "surrogatepass")  # JSON may hold half a surrogate pair


@dataclass(frozen=True)
class Strings:
    """A column of strings: their bytes (uint8), and the places (n + 1,) between them."""

    data: Tensor
    places: Tensor

    @classmethod
    def of(cls, values: Iterable[str]) -> Strings:
        encoded = [value.encode(*_ENCODING) for value in values]
        places = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
        dtype = np.int32 if places[-1] < 2**31 else np.int64
        data = np.frombuffer(bytearray(b"".join(encoded)), dtype=np.uint8)
        return cls(torch.from_numpy(data), torch.from_numpy(places.astype(dtype)))

    def range(self, start: int, stop: int) -> tuple[str, ...]:
        """The strings ``start:stop``."""
        places = self.places[start : stop + 1].tolist()
        data = self.data[places[0] : places[-1]].numpy().tobytes()
        ends = [place - places[0] for place in places]
        return tuple([data[a:b].decode(*_ENCODING) for a, b in pairwise(ends)])

    def __getitem__(self, number: int) -> str:
        return self.range(number, number + 1)[0]


def text_tensors(chains: Sequence[Sentence]) -> dict[str, Tensor]:
    """The columns of some chains."""
    documents, document = _numbered([chain.document for chain in chains])
    paths, path = _numbered([chain.path for chain in chains])
    columns = {
        "tokens": Strings.of(token for chain in chains for token in chain.tokens),
        "ids": Strings.of(chain.id for chain in chains),
        "documents": Strings.of(documents),
        "paths": Strings.of(paths),
    }
    lines = [line for chain in chains for line in _lines(chain)]
    return {
        **{name: column.data for name, column in columns.items()},
        **{f"{name}.places": column.places for name, column in columns.items()},
        "document": torch.tensor(document, dtype=torch.int32),
        "path": torch.tensor(path, dtype=torch.int32),
        "lines": torch.tensor(lines, dtype=torch.int32),
        "first": torch.tensor([chain.offset for chain in chains], dtype=torch.int64),
    }


def read_sentence(columns: Mapping[str, Tensor], chain: int, start: int, labels: Sequence[str]) -> Sentence:
    """The chain with this number, whose tokens begin at ``start``."""
    stop = start + len(labels)
    lines = columns["lines"][start:stop].tolist()
    return Sentence(
        tokens=_strings(columns, "tokens").range(start, stop),
        labels=tuple(labels),
        id=_strings(columns, "ids")[chain],
        document=_strings(columns, "documents")[int(columns["document"][chain])],
        path=_strings(columns, "paths")[int(columns["path"][chain])],
        lines=tuple(lines) if any(lines) else (),
        offset=int(columns["first"][chain]),
    )


def _strings(columns: Mapping[str, Tensor], name: str) -> Strings:
    return Strings(columns[name], columns[f"{name}.places"])


def _lines(chain: Sentence) -> Sequence[int]:
    """The source line of each token, or zeros where some are unknown."""
    return chain.lines if len(chain.lines) == len(chain) else [0] * len(chain)


def _numbered(values: Sequence[str]) -> tuple[list[str], list[int]]:
    """Distinct values in order of appearance, and the number of each.

    >>> _numbered(["a", "b", "a"])
    (['a', 'b'], [0, 1, 0])
    """
    numbers: dict[str, int] = {}
    found = [numbers.setdefault(value, len(numbers)) for value in values]
    return list(numbers), found
