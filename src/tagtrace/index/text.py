"""The text of an index by columns: the tokens of a sentence and where it came from, decoded on demand.

tokens, ids, documents, paths   bytes of all strings (UTF-8), concatenated, and where each starts
document, path                  (b,) the number of each sentence's string; strings repeat, so each is stored once
lines                           (n,) the source line of each token, 0 if there is none
first                           (b,) how many tokens of the file precede the sentence (``Sentence.offset``)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from tagtrace.data.sentence import Sentence

_WHOLE = (torch.int32, torch.int64)
_ENCODING = ("utf-8", "surrogatepass")  # JSON may contain half a surrogate pair


@dataclass(frozen=True)
class Strings:
    """A column of strings: their bytes (uint8), and the offsets (n + 1,) between them."""

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

    def all(self) -> tuple[str, ...]:
        return self.range(0, len(self))

    def __len__(self) -> int:
        return len(self.places) - 1

    def is_whole(self) -> bool:
        """Whether every string lies in the bytes, and all of these can be decoded."""
        places = self.places
        if self.data.dtype != torch.uint8 or self.data.ndim != 1 or places.ndim != 1 or places.dtype not in _WHOLE:
            return False
        if len(places) == 0 or int(places[0]) != 0 or int(places[-1]) != len(self.data):
            return False
        if not bool((places[1:] >= places[:-1]).all()):
            return False
        starts = self.data[places[places < len(self.data)].long()]
        return bool(((starts & 0xC0) != 0x80).all()) and _is_text(self.data)  # no character is cut in two

    def __getitem__(self, number: int) -> str:
        return self.range(number, number + 1)[0]


def text_tensors(sentences: Sequence[Sentence]) -> dict[str, Tensor]:
    """The columns of some sentences."""
    documents, document = _numbered([sentence.document for sentence in sentences])
    paths, path = _numbered([sentence.path for sentence in sentences])
    columns = {
        "tokens": Strings.of(token for sentence in sentences for token in sentence.tokens),
        "ids": Strings.of(sentence.id for sentence in sentences),
        "documents": Strings.of(documents),
        "paths": Strings.of(paths),
    }
    lines = [line for sentence in sentences for line in _lines(sentence)]
    return {
        **{name: column.data for name, column in columns.items()},
        **{f"{name}.places": column.places for name, column in columns.items()},
        "document": torch.tensor(document, dtype=torch.int32),
        "path": torch.tensor(path, dtype=torch.int32),
        "lines": torch.tensor(lines, dtype=torch.int32),
        "first": torch.tensor([sentence.offset for sentence in sentences], dtype=torch.int64),
    }


def are_columns(columns: Mapping[str, Tensor], num_tokens: int, num_sentences: int) -> bool:
    """Whether these are the columns of so many tokens and sentences, whoever wrote them."""
    sizes = {"document": num_sentences, "path": num_sentences, "lines": num_tokens, "first": num_sentences}
    names = ("tokens", "ids", "documents", "paths")
    if not {*sizes, *names, *(f"{name}.places" for name in names)} <= columns.keys():
        return False
    strings = {name: _strings(columns, name) for name in names}
    return (
        all(columns[name].shape == (size,) and columns[name].dtype in _WHOLE for name, size in sizes.items())
        and all(column.is_whole() for column in strings.values())
        and len(strings["tokens"]) == num_tokens
        and len(strings["ids"]) == num_sentences
        and _are_numbers(columns["document"], len(strings["documents"]))
        and _are_numbers(columns["path"], len(strings["paths"]))
    )


def _are_numbers(numbers: Tensor, count: int) -> bool:
    return bool(((numbers >= 0) & (numbers < count)).all())


def read_sentence(columns: Mapping[str, Tensor], sentence_number: int, start: int, labels: Sequence[str]) -> Sentence:
    """The sentence with this number, whose tokens begin at ``start``."""
    stop = start + len(labels)
    lines = columns["lines"][start:stop].tolist()
    return Sentence(
        tokens=_strings(columns, "tokens").range(start, stop),
        labels=tuple(labels),
        id=_strings(columns, "ids")[sentence_number],
        document=_strings(columns, "documents")[int(columns["document"][sentence_number])],
        path=_strings(columns, "paths")[int(columns["path"][sentence_number])],
        lines=tuple(lines) if any(lines) else (),
        offset=int(columns["first"][sentence_number]),
    )


def read_ids(columns: Mapping[str, Tensor]) -> tuple[str, ...]:
    """The id of every sentence."""
    return _strings(columns, "ids").all()


def read_documents(columns: Mapping[str, Tensor]) -> list[str]:
    """The document of every sentence, empty for sentences without a document."""
    names = _strings(columns, "documents").all()
    return [names[number] for number in columns["document"].tolist()]


def number_words(shards: Sequence[Mapping[str, Tensor]]) -> tuple[np.ndarray, list[str]]:
    """The number of each token's word in all shards, (N,), and the words by number."""
    numbers: dict[str, int] = {}
    found = [
        np.array([numbers.setdefault(token, len(numbers)) for token in _strings(columns, "tokens").all()], dtype=int)
        for columns in shards
    ]
    return np.concatenate(found), list(numbers)


def _is_text(data: Tensor) -> bool:
    try:
        data.numpy().tobytes().decode(*_ENCODING)
    except UnicodeDecodeError:
        return False
    return True


def _strings(columns: Mapping[str, Tensor], name: str) -> Strings:
    return Strings(columns[name], columns[f"{name}.places"])


def _lines(sentence: Sentence) -> Sequence[int]:
    """The source line of each token, or zeros if some are unknown."""
    return sentence.lines if len(sentence.lines) == len(sentence) else [0] * len(sentence)


def _numbered(values: Sequence[str]) -> tuple[list[str], list[int]]:
    """Distinct values in order of appearance, and the number of each.

    >>> _numbered(["a", "b", "a"])
    (['a', 'b'], [0, 1, 0])
    """
    numbers: dict[str, int] = {}
    found = [numbers.setdefault(value, len(numbers)) for value in values]
    return list(numbers), found
