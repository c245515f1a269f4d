"""Random texts that look like the files that are read, and random damage to them."""

from __future__ import annotations

import json
from random import Random
from typing import Any

TOKENS = (
    "sea", "Orla", "1999", "#", "#rain", "-DOCSTART-", '"', "{", "'", "\u00e9", "e\u0301", "\u96e8", "\U0001f30a",
    "\u00a0", "\u200b", "\u2028", "\x85", "\x00", "\x1b[31m", "\ufeff", "\u202e", "=1+1", "0", "1", "2", "3-4", "3.1",
    "w" * 300, "\\", "\\u0041", "_", "--",
)  # fmt: skip
SCHEMES = (
    ("O", "B-PER", "I-PER", "B-LOC", "I-LOC"),
    ("O", "B-PER", "I-PER", "E-PER", "S-PER"),
    ("O", "B-PER", "I-PER", "L-PER", "U-PER"),
    ("O", "PER", "LOC"),
    ("NOUN", "VERB", "-", "B-", "I"),
)
LABELS = ("O", "B-PER", "I-PER", "B-LOC", "E-LOC", "S-PER", "U-LOC", "L-PER", "PER", "B-", "I", "b-per", "_", "B-B-X")
SPACES = ("\t", " ", "  ", " \t", "\t\t", "\u00a0", "\r", "\v")
LINE_ENDS = ("\n",) * 12 + ("\r\n", "\n\n", "\r", " \n", "\n\t\n", "")
NUMBERS = (
    "0", "-0", "1e999", "-1", "1.5", "9" * 30, "9" * 5000, "NaN", "Infinity", "1e-400", "0x10", "01", "true", "2.0",
    "9007199254740993", "-9223372036854775809",
)  # fmt: skip
ODD_TEXTS = (
    '"\\ud800"',
    '"\\u0000"',
    '""',
    '"' + "a" * 2000 + '"',
    '"\\x"',
    '"\x01"',
    "''",
    '"..\\/..\\/x"',
    '"\\ud83d\\ude00"',
)
BYTES = (b"\xff", b"\x00", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xef\xbb\xbf", b"\x1f\x8b", b"\x80")


def conll(rng: Random) -> str:
    """Lines of columns, mostly well formed: one layout for the file, and now and then a line of another."""
    space, end, num_columns = rng.choice(SPACES[:3]), rng.choice(LINE_ENDS), rng.randint(1, 5)
    is_numbered, wild = rng.random() < 0.2, rng.choice((0.0, 0.0, 0.02, 0.3))
    labels = _labels(rng)
    lines: list[str] = []
    for _ in range(rng.randint(0, 12)):
        number = rng.choice((0, 1, 1, 1, 7))
        for row in range(rng.randint(0, 5)):
            fields = [rng.choice(TOKENS), *(rng.choice(TOKENS) for _ in range(num_columns - 2)), rng.choice(labels)]
            if is_numbered:
                fields.insert(0, str(number + row))
            if rng.random() < wild:
                fields = [rng.choice((*TOKENS, *LABELS, "")) for _ in range(rng.randint(0, 6))]
            lines.append((rng.choice(SPACES) if rng.random() < wild else space).join(fields))
        lines.append(rng.choice(("", "", "", "-DOCSTART- -X- O", "# a comment", "-DOCSTART-", "\ufeff", " ")))
    return "".join(line + (rng.choice(LINE_ENDS) if rng.random() < wild else end or "\n") for line in lines)


def value(rng: Random, depth: int = 0) -> str:
    """JSON of any kind, sometimes not quite JSON."""
    kind = rng.randrange(12 if depth < 3 else 8)
    if kind < 2:
        return rng.choice(NUMBERS)
    if kind < 5:
        return json.dumps(rng.choice((*TOKENS, *LABELS)), ensure_ascii=rng.random() < 0.5)
    if kind < 8:
        return rng.choice((*ODD_TEXTS, "null", "true", "false", "[]", "{}", "[[[[[]]]]]", "[" * 3000, '{"a":' * 3000))
    if kind < 10:
        return f"[{','.join(value(rng, depth + 1) for _ in range(rng.randint(0, 4)))}]"
    members = (f"{json.dumps(rng.choice(TOKENS))}: {value(rng, depth + 1)}" for _ in range(rng.randint(0, 3)))
    return f"{{{', '.join(members)}}}"


def damaged_json(rng: Random, text: Any, share: float = 0.3) -> str:
    """The JSON of a value, in which now and then a member is of another kind, missing, double or unknown."""
    if rng.random() < 0.15 * share:
        return value(rng)
    if isinstance(text, dict):
        members = [(key, damaged_json(rng, one, share)) for key, one in text.items() if rng.random() > 0.1 * share]
        if members and rng.random() < 0.1 * share:
            members.append((rng.choice((*text, "unknown", "__class__")), value(rng)))
        return "{" + ",".join(f"{json.dumps(key)}:{one}" for key, one in members) + "}"
    if isinstance(text, list | tuple):
        parts = [damaged_json(rng, one, share) for one in text]
        if parts and rng.random() < 0.1 * share:
            parts = parts[: rng.randrange(len(parts))] * rng.choice((1, 3))
        return f"[{','.join(parts)}]"
    return json.dumps(text, ensure_ascii=rng.random() < 0.5)


def _labels(rng: Random) -> tuple[str, ...]:
    """The labels of a file, mostly of one scheme."""
    return rng.choice(SCHEMES) if rng.random() < 0.8 else LABELS


def jsonl(rng: Random) -> str:
    """Rows of tokens and labels, mostly well formed."""
    labels = _labels(rng)
    share, key = rng.choice((0.0, 0.0, 0.1, 1.0)), rng.choice(("ner_tags", "labels", "tags", "label", "pos"))
    lines: list[str] = []
    for number in range(rng.randint(0, 8)):
        size = rng.randint(0, 5)
        row: dict[str, Any] = {
            "tokens": [rng.choice(TOKENS) for _ in range(size)],
            key: [rng.choice(labels) for _ in range(size)],
        }
        if rng.random() < 0.5:
            row["id"] = rng.choice((number, f"doc_{number}", f"doc_{number // 2}", "", None))
        if rng.random() < 0.2:
            row[rng.choice(("document", "doc_id", "text", "predicted"))] = rng.choice(TOKENS)
        lines.append(damaged_json(rng, row, share))
    return rng.choice(("", "", "\ufeff")) + rng.choice(("\n", "\n", "\r\n", "\n\n")).join(lines)


def bytes_of(rng: Random, text: str, chance: float = 0.3) -> bytes:
    """UTF-8, sometimes with damaged bytes."""
    data = text.encode("utf-8", "surrogatepass")
    while rng.random() < chance:
        data = damaged(rng, data)
    return data


def damaged(rng: Random, data: bytes) -> bytes:
    """Bytes with one place changed, inserted, cut out, doubled, or with the end cut off."""
    start = rng.randint(0, len(data))
    stop = min(len(data), start + rng.randint(0, 8))
    kind = rng.randrange(6)
    if kind == 0 and data:
        at = start % len(data)
        return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
    if kind == 1:
        return data[:start]
    if kind == 2:
        return data[:start] + data[stop:]
    if kind == 3:
        return data[:stop] + data[start:]
    if kind == 4:
        return data[:start] + rng.choice(TOKENS).encode("utf-8", "surrogatepass") + data[stop:]
    return data[:start] + rng.choice(BYTES) + data[stop:]
