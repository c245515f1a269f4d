"""A strict reader of brat standoff, written from brat's documentation of the format, and what may differ after a fix.

https://brat.nlplab.org/standoff.html: every line is an id, a tab and the annotation. ``T`` lines have the type and the
offsets, separated by spaces, pieces by semicolons, then a tab and the text, in which line ends are spaces and pieces
are joined by a space. Ids are unique, and what other lines name exists. The type of an event is that of its trigger.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

_OTHERS = {
    "R": r"R\d+\t\S+ \S+:([TE]\d+) \S+:([TE]\d+)",
    "E": r"E\d+\t\S+:(T\d+)(?: \S+:([TE]\d+))*",
    "A": r"A\d+\t\S+ ([TER]\d+)(?: \S+)?",
    "M": r"M\d+\t\S+ ([TER]\d+)",
    "N": r"N\d+\tReference ([TER]\d+) \S+:\S+\t.*",
    "#": r"#\d+\t\S+ ([TER]\d+)\t.*",
    "*": r"\*\tEquiv (T\d+) (T\d+)",
}

Entities = dict[str, tuple[str, tuple[tuple[int, int], ...], str]]


def parse(ann: bytes, txt: bytes) -> tuple[Entities, list[str]]:
    """The entities by their ids, and all other lines; AssertionError where brat's rules are broken."""
    text, entities, others = txt.decode(), Entities(), list[str]()
    for line in (each.removesuffix("\r") for each in ann.decode().split("\n")):
        if line.startswith("T"):
            id_, place, covered = line.split("\t")
            assert re.fullmatch(r"T\d+", id_)
            label, offsets = place.split(" ", 1)
            pieces = tuple(_piece(piece, text) for piece in offsets.split(";"))
            assert re.sub(r"\s", " ", covered) == re.sub(r"\s", " ", " ".join(text[a:b] for a, b in pieces))
            assert id_ not in entities
            entities[id_] = (label, pieces, covered)
        elif line:
            others.append(line)
    for line in others:
        found = re.fullmatch(_OTHERS[line[0]], line)
        assert found is not None, line
        assert all(id_ in entities for id_ in found.groups() if id_ is not None), line
        if line[0] == "E":
            assert line.split("\t")[1].split(":")[0] == entities[found[1]][0]
    return entities, others


def _piece(piece: str, text: str) -> tuple[int, int]:
    start, stop = piece.split(" ")
    assert re.fullmatch(r"\d+", start)
    assert re.fullmatch(r"\d+", stop)
    assert int(start) < int(stop) <= len(text)
    return int(start), int(stop)


def files_of(folder: Path) -> dict[str, bytes]:
    """The bytes of all files that are not hidden, by their paths."""
    paths = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    shown = (path for path in paths if not any(part.startswith(".") for part in path.parts))
    return {path.as_posix(): (folder / path).read_bytes() for path in shown}


def check_relabelled(before: Mapping[str, bytes], after: Mapping[str, bytes], old: str, new: str) -> int:
    """The number of entities whose lines differ; AssertionError if anything but their label does."""
    assert before.keys() == after.keys()
    changed = set[bytes]()
    for name, data in before.items():
        if name.endswith(".ann"):
            lines, others = data.split(b"\n"), after[name].split(b"\n")
            for line, other in zip(lines, others, strict=True):
                if line != other:
                    assert line.removeprefix(b"\xef\xbb\xbf").startswith(b"T")
                    assert other == line.replace(f"\t{old} ".encode(), f"\t{new} ".encode(), 1)
                    changed.add(line.strip().partition(b"\t")[2])
        else:
            assert after[name] == data, name
    return len(changed)
