"""JSON laid out as the JSON beside it: on one line or several, with the same spaces."""

from __future__ import annotations

import json
import re
from typing import Any

from tagtrace.data.spans.json_spans import member_spans

_FIRST_KEY = re.compile(r'\{(\s*)"')


def dump_like(value: Any, sibling: str, *, ascii_only: bool) -> str:
    """A value as JSON in the layout of ``sibling``, the text of an object that stands where the value will stand.

    >>> dump_like({"b": [2, 3]}, '{"a":1,"b":2}', ascii_only=True)
    '{"b":[2,3]}'
    >>> print(dump_like({"b": 2}, '{\\n    "a": 1\\n  }', ascii_only=True))
    {
        "b": 2
      }
    """
    spans = list(member_spans(sibling).values())
    colon = ": " if not spans or sibling[spans[0][0] - 1].isspace() else ":"
    opening = _FIRST_KEY.match(sibling)
    if opening is not None and "\n" in opening[1]:
        end, inner = "\r\n" if "\r\n" in opening[1] else "\n", opening[1].rpartition("\n")[2]
        outer = re.split(r"[\r\n]", sibling[:-1])[-1]
        outer = outer if not outer.strip() and inner.startswith(outer) else ""
        made = json.dumps(value, ensure_ascii=ascii_only, indent=inner.removeprefix(outer), separators=(",", colon))
        return made.replace("\n", end + outer)
    comma = "," if colon == ":" and (len(spans) < 2 or sibling[spans[0][1] : spans[0][1] + 2] != ", ") else ", "
    return json.dumps(value, ensure_ascii=ascii_only, separators=(comma, colon))
