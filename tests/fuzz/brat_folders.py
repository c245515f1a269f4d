"""Random brat corpora, whole or damaged, as one file each: the names and bytes of a folder, packed as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from random import Random

from tagtrace.data.marked.tokens import tokenise
from tests.fuzz import pieces

LABELS = ("PER", "ORG", "LOC-city", "Größe")
WORDS = (
    "Ada",
    "Lovelace",
    "Acme",
    "U.S.",
    "1,000",
    "naïve",
    "Zoë",
    "東京",
    "😀",
    "e\u0301t",
    "-",
    "(",
    ")",
    "A.",
    "\u200b",
)
SPACES = (" ", " ", " ", "  ", "\n", "\r\n", "\t", "\u00a0", "\u2028")
NAMES = ("d1", "sub/d2", "sub/deep/d 3", "Zoë", "d1.txt.old", "B")


def brat_files(rng: Random) -> dict[str, bytes]:
    """A corpus that brat would read."""
    files = {"annotation.conf": b"[entities]\nPER\n", "alone.txt": b"\xff no document", "sub/x.bin": b"\0"}
    files = {name: data for name, data in files.items() if rng.random() < 0.5}
    for name in rng.sample(NAMES, rng.randint(1, 3)):
        text = "".join(rng.choice(WORDS) + rng.choice(SPACES) for _ in range(rng.randint(0, 14)))
        files[f"{name}.txt"] = text.encode()
        files[f"{name}.ann"] = _ann(rng, text).encode()
    return files


def _ann(rng: Random, text: str) -> str:
    lines, ids = list[str](), list[tuple[str, str]]()
    numbers = rng.sample(range(1, 40), rng.randint(0, 6))
    for number in numbers:
        pieces_of = _pieces(rng, text)
        if not pieces_of:
            continue
        label = rng.choice(LABELS)
        place = ";".join(f"{start} {stop}" for start, stop in pieces_of)
        covered = " ".join(text[start:stop] for start, stop in pieces_of)
        lines.append(f"T{number}\t{label} {place}\t{_on_one_line(covered)}")
        ids.append((f"T{number}", label))
        if rng.random() < 0.1:
            lines.append(f"T{number + 100}\t{label} {place}\t{_on_one_line(covered)}")
    others = [_other(rng, kind, number, ids) for number, kind in enumerate("REAMN#*") if ids and rng.random() < 0.25]
    for line in others:
        lines.insert(rng.randint(0, len(lines)), line)
    end = rng.choice(("\n", "\n", "\r\n"))
    whole = "".join(line + end for line in lines)
    return whole.removesuffix(end) if rng.random() < 0.3 else whole


def _on_one_line(text: str) -> str:
    return "".join(" " if character in "\n\r\t\u2028" else character for character in text)


def _pieces(rng: Random, text: str) -> list[tuple[int, int]]:
    tokens = tokenise(text)
    if not tokens:
        return []
    first = rng.randrange(len(tokens))
    last = min(first + rng.randrange(3), len(tokens) - 1)
    start, stop = tokens[first][0], tokens[last][1]
    if rng.random() < 0.15:
        start = rng.randrange(start, stop)
    if rng.random() < 0.15 and last + 1 < len(tokens):
        return [(start, stop), tokens[last + 1]]
    return [(start, stop)]


def _other(rng: Random, kind: str, number: int, ids: list[tuple[str, str]]) -> str:
    (one, label), (other, _) = rng.choice(ids), rng.choice(ids)
    return {
        "R": f"R{number}\tWorks-for Arg1:{one} Arg2:{other}",
        "E": f"E{number}\t{label}:{one} Theme:{other}",
        "A": f"A{number}\tSure {one} yes",
        "M": f"M{number}\tNegation {one}",
        "N": f"N{number}\tReference {one} Wikipedia:534366\tAda",
        "#": f"#{number}\tAnnotatorNotes {one}\tsee T1, ü",
        "*": f"*\tEquiv {one} {other}",
    }[kind]


def packed(files: Mapping[str, bytes]) -> bytes:
    """A folder as one file."""
    return json.dumps({name: data.decode("latin-1") for name, data in files.items()}).encode()


def unpacked(path: Path, folder: Path) -> None:
    """The folder that a file holds."""
    for name, data in json.loads(path.read_bytes()).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data.encode("latin-1"))


def brat_folder(rng: Random) -> bytes:
    """A corpus, often damaged."""
    files = brat_files(rng)
    for name in sorted(files):
        chance = rng.random()
        if chance < 0.1:
            files[name] = pieces.damaged(rng, files[name])
        elif chance < 0.13:
            del files[name]
        elif chance < 0.16:
            files[name] += rng.choice(STRANGE)
    return packed(files)


STRANGE = (
    b"T1\n", b"T\t\t\n", b"T9\tPER 0\tA\n", b"T9\tPER 0 1;\tA\n", b"T9\tPER 5 1\tA\n", b"T9 PER 0 1 A\n",
    b"T9\tPER 0 " + b"9" * 5000 + b"\tA\n", b"T9\tPER -1 1\tA\n", b"\xef\xbb\xbf", b"#\n", b"T9\tPER 0 1\tA\tB\n",
    b"\n\n", b"hello\n", b"\r",
)  # fmt: skip
