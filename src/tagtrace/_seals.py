"""Documents that notice every change of a value: the key ``seal`` holds the sha256 of all their other keys.

A seal is against damage and mix-ups, not against people: whoever can change a document can seal it again. Documents of
versions that did not seal them are read too.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tagtrace._checks import DataError, TagtraceError, at
from tagtrace._documents import Document, read_document, read_regular_file

SEAL = "seal"


@dataclass(frozen=True, kw_only=True)
class SealedDocument(Document):
    """The schema of a document that has a seal."""

    seal: str | None = field(default=None, compare=False)


T = TypeVar("T", bound=SealedDocument)


def sealed(value: Mapping[str, Any]) -> dict[str, Any]:
    """The value with its seal.

    >>> sealed({"a": 1})["seal"] == sealed({"seal": "older", "a": 1})["seal"] != sealed({"a": 2})["seal"]
    True
    """
    rest = {name: each for name, each in value.items() if name != SEAL}
    return {**rest, SEAL: _seal_of(rest)}


def is_intact(value: Mapping[str, Any]) -> bool:
    """Whether nothing has changed since a value was sealed; True for one without a seal."""
    return value.get(SEAL) in (None, _seal_of({name: each for name, each in value.items() if name != SEAL}))


def read_sealed(path: str | Path, kind: type[T], *, remedy: str, error: type[TagtraceError] = DataError) -> T:
    """As ``read_document``; raises ``error`` also if a value has changed since the document was sealed."""
    found = read_document(path, kind, remedy=remedy, error=error)
    try:
        value = json.loads(read_regular_file(path))
    except (OSError, ValueError, RecursionError) as reason:
        raise error(f"{at(path)}: cannot be read ({reason}); {remedy}") from None
    if not is_intact(value):
        raise error(f"{at(path)}: was changed after it was written (its seal does not match); {remedy}")
    return found


def _seal_of(rest: Mapping[str, Any]) -> str:
    plain = json.loads(json.dumps(rest))  # the same for tuples and lists, and for keys that are numbers
    return hashlib.sha256(json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
