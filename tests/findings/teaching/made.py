"""Findings made for tests of teaching."""

from __future__ import annotations

from tagtrace.findings.finding import Finding


def made(number: int, text: str = "Varn", given: str = "B-LOC", proposed: str = "B-ORG", **values: object) -> Finding:
    """A finding about the tokens of ``text``, in a sentence of its own."""
    tokens = tuple(text.split())
    fields: dict[str, object] = {
        "rank": number + 1, "sentence": f"s{number}", "document": "", "sentence_number": number, "start": 1,
        "stop": 1 + len(tokens), "line": 1, "tokens": tokens, "before": ("in",), "after": (".",),
        "given": (given,) * len(tokens), "proposed": (proposed,) * len(tokens), "score": 1.0, "confidence": 0.5,
        "scores": {"doubt": 0.6, "in-sample doubt": 0.5, "out-of-sample doubt": 0.7},
    }  # fmt: skip
    return Finding(**{**fields, **values})  # pyright: ignore[reportArgumentType]
