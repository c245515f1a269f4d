"""Where the sentences of a document of spaCy begin, by the numbers of its attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_INSIDE = 1


def sentence_starts(num_tokens: int, columns: Mapping[str, Sequence[int]]) -> list[int]:
    """The first token of each sentence, of those attributes (``SENT_START``, ``HEAD``, ``DEP``) that there are.

    As in spaCy, a parse decides where there is one. No sentence begins inside an entity (``ENT_IOB``).

    >>> sentence_starts(4, {"SENT_START": [1, -1, 1, -1]})
    [0, 2]
    >>> sentence_starts(4, {"HEAD": [1, 0, 0, -1], "DEP": [5, 5, 5, 5], "SENT_START": [1, 0, 0, 0]})
    [0, 2]
    >>> sentence_starts(3, {})
    [0]
    """
    marks, deps = columns.get("SENT_START", ()), columns.get("DEP", ())
    starts = {token for token, mark in enumerate(marks) if mark == 1}
    if any(deps) and "HEAD" in columns:
        starts = _of_the_parse(columns["HEAD"], deps) or starts
    inside = columns.get("ENT_IOB", ())
    return sorted({0, *(token for token in starts if not inside or inside[token] != _INSIDE)} if num_tokens else {0})


def _of_the_parse(heads: Sequence[int], deps: Sequence[int]) -> set[int]:
    """The leftmost token below each root; ``heads`` are relative. Empty if a head is outside the document."""
    if not all(0 <= token + head < len(heads) for token, head in enumerate(heads)):
        return set()
    roots: list[int | None] = [token if head == 0 else None for token, head in enumerate(heads)]
    for token in range(len(heads)):
        path, at = list[int](), token
        while roots[at] is None:
            path.append(at)
            roots[at] = -1  # met again only in a circle
            at += heads[at]
        for one in path:
            roots[one] = roots[at]
    leftmost: dict[int, int] = {}
    for token, root in enumerate(roots):
        if root is not None and root >= 0 and deps[root]:
            leftmost.setdefault(root, token)
    return set(leftmost.values())
