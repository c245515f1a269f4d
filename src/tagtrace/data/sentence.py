"""The records that the rest of tagtrace works on: a labelled sentence and a segment of it.

Conventions
-----------
- Tokens are counted from 0. A segment is the half-open range ``start:stop``, as in a Python slice:
  the paper's ``[a, b]`` is ``start = a``, ``stop = b + 1``.
- ``labels`` are normalised (see ``schemes``): IOB2 for every scheme with segments and prefixes, and
  the file's own words for IO and plain labels. An unlabelled sentence has ``labels == ()``.
- Lines are counted from 1, as in editors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise


@dataclass(frozen=True, slots=True)
class Segment:
    """Tokens ``start:stop`` of a sentence that have one label type (``ORG``, not ``B-ORG``)."""

    start: int
    stop: int
    type: str


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence of tokens with its labels and its source."""

    tokens: tuple[str, ...]
    labels: tuple[str, ...]
    id: str = ""
    document: str = ""
    path: str = ""
    lines: Sequence[int] = ()
    """The source line of each token."""
    offset: int = 0
    """How many tokens precede this sentence in its file: the row of its first token; -1 if its tokens are not
    contiguous there (a document of which sentences were left out)."""
    pos: tuple[str, ...] | None = None
    """Part of speech of each token, if the file has it."""

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def is_labelled(self) -> bool:
        return len(self.labels) == len(self.tokens)

    def with_labels(self, labels: Sequence[str]) -> Sentence:
        """The same sentence with other labels."""
        return replace(self, labels=tuple(labels))

    def in_context(self, start: int, stop: int, around: int = 8) -> str:
        """Tokens ``start:stop`` in brackets, with a few tokens around them.

        >>> Sentence(("She", "lives", "in", "New", "York", "."), ()).in_context(3, 5, around=1)
        '... in [New York] .'
        """
        before, after = self.tokens[max(start - around, 0) : start], self.tokens[stop : stop + around]
        words = [*before, f"[{' '.join(self.tokens[start:stop])}]", *after]
        return f"{'... ' * (start > around)}{' '.join(words)}{' ...' * (stop + around < len(self))}"


def join(sentences: Sequence[Sentence]) -> Sentence:
    """Several sentences of one file joined into one (a document as one sentence)."""
    first = sentences[0]
    follows = all(b.offset == a.offset + len(a) for a, b in pairwise(sentences))
    has_pos = all(s.pos is not None for s in sentences)
    return Sentence(
        tokens=tuple(token for s in sentences for token in s.tokens),
        labels=tuple(label for s in sentences for label in s.labels),
        id=first.document or first.id,
        document=first.document,
        path=first.path,
        lines=tuple(line for s in sentences for line in s.lines),
        offset=first.offset if follows else -1,
        pos=tuple(tag for s in sentences for tag in s.pos or ()) if has_pos else None,
    )


def join_documents(sentences: Sequence[Sentence]) -> list[Sentence]:
    """Each document as one sentence; sentences without a document are not joined."""
    joined: list[Sentence] = []
    for (_, document), group in groupby(sentences, key=lambda s: (s.path, s.document)):
        members = list(group)
        joined.extend([join(members)] if document else members)
    return joined
