"""The fields of a line of a CoNLL file."""

from __future__ import annotations

import re

DOCUMENT_START = "-DOCSTART-"
LINE_END = " \t\r\n"

_FIELD_BETWEEN_SPACES = re.compile(r"[^ ]+")


def split_fields(text: str) -> list[str]:
    """The fields of a line: separated by tabs if it has any, otherwise by runs of spaces.

    >>> split_fields("New York\\tB-LOC"), split_fields("Rome   B-LOC")
    (['New York', 'B-LOC'], ['Rome', 'B-LOC'])
    """
    if "\t" not in text:
        return [field for field in text.split(" ") if field]
    fields = text.split("\t")
    return [field.strip(" ") for field in fields] if " " in text else fields


def field_spans(text: str) -> list[tuple[int, int]]:
    """The span of each field of ``split_fields`` in the line.

    >>> field_spans("Rome  B-LOC")
    [(0, 4), (6, 11)]
    """
    if "\t" not in text:
        return [match.span() for match in _FIELD_BETWEEN_SPACES.finditer(text)]
    spans: list[tuple[int, int]] = []
    start = 0
    for field in text.split("\t"):
        left = start + len(field) - len(field.lstrip(" "))
        spans.append((left, left + len(field.strip(" "))))
        start += len(field) + 1
    return spans
