"""brat standoff: a folder of pairs, ``NAME.txt`` with a text and ``NAME.ann`` with a line for each annotation.

    T1<tab>PER 0 12<tab>Ada Lovelace

Offsets count the characters of the text as it is, line ends included. The last field repeats what they cover, with
spaces for line ends; if it does not, the pair is out of step and is refused. An entity in pieces (``20 24;30 34``) is
kept and not learned from, and so are lines of all other kinds (relations, events, attributes, notes...).

Each pair is one document, named by its path without ending. A ``.txt`` without an ``.ann`` is no document.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tagtrace._checks import DataError, at
from tagtrace._documents import recorded_path
from tagtrace.data.formats.fresh import FreshText
from tagtrace.data.marked.marks import Edits, Mark, MarkEdit, MarkedText
from tagtrace.data.options import ReadOptions
from tagtrace.data.source import shown
from tagtrace.data.source_folder import SourceFolder

_BOM = "\ufeff"
_RANGE = "[0-9]{1,18} [0-9]{1,18}"
_ENTITY = re.compile(rf"(T[^\t]*)\t([^\t ]+) ({_RANGE}(?:;{_RANGE})*) *\t(.*)", re.DOTALL)
_NUMBERED = re.compile(r"T([0-9]{1,18})")
_ENDS = re.compile(r"[\t\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
"""What would end a line or a field for some reader of lines."""
_MOST_SPACES = 10_000
"""Maximum number of spaces at the end of an entity, which need not be repeated."""
_NUM_NAMED = 5
"""Maximum number of lines that an error names."""


@dataclass(frozen=True)
class _Entity:
    """A ``T`` line."""

    id: str
    label: str
    pieces: tuple[tuple[int, int], ...]
    covered: str
    number: int
    """Its place among the lines, from 0."""


def texts(source: SourceFolder, options: ReadOptions) -> Iterator[MarkedText]:  # noqa: ARG001
    for name in _documents(source):
        ann, text = f"{name}.ann", source.text(f"{name}.txt")
        lines = _lines(source.text(ann))
        entities = list(_entities(source, ann, lines, text))
        marks = (Mark(*one.pieces[0], one.label, one.number, one.number + 1) for one in entities if _is_mark(one))
        odd = [_odd(one) for one in entities if not _is_mark(one)] + _others(lines)
        yield MarkedText(text, tuple(marks), 1, document=recorded_path(name), odd=tuple(odd), name=ann)


def edited(source: SourceFolder, options: ReadOptions, edits: Edits) -> Mapping[str, bytes]:  # noqa: ARG001
    made: dict[str, bytes] = {}
    for number, name in enumerate(_documents(source)):
        if number in edits:
            ann, text = f"{name}.ann", source.text(f"{name}.txt")
            made[ann] = _edited(source.text(ann), text, edits[number], at(source.path / ann)).encode()
    return made


def _documents(source: SourceFolder) -> list[str]:
    """The names of all pairs."""
    names = [name.removesuffix(".ann") for name in source.names if name.endswith(".ann")]
    for name in names:
        if f"{name}.txt" not in source:
            where = at(source.path / f"{name}.ann")
            raise DataError(
                f"{where}: has no text {name.rpartition('/')[2]}.txt beside it; add it, or move the file out"
            )
    if not names:
        raise DataError(f"{at(source.path)}: has no files that end with .ann; give the folder of a brat corpus")
    return names


def _lines(text: str) -> list[str]:
    """The lines with their ends; only ``\\n`` ends a line."""
    return re.findall(r"[^\n]*\n|[^\n]+", text.removeprefix(_BOM))


def _body(line: str) -> str:
    """A line without its end."""
    return line.removesuffix("\n").removesuffix("\r")


def _entities(source: SourceFolder, ann: str, lines: Sequence[str], text: str) -> Iterator[_Entity]:
    taken = set[str]()
    for number, line in enumerate(lines):
        where = at(source.path / ann, number + 1)
        if line.startswith("T"):
            entity = _entity(_body(line), number, where)
            if entity.id in taken:
                raise DataError(f"{where}: {shown(entity.id)} is the id of an earlier line too; give each its own")
            taken.add(entity.id)
            _check_covered(entity, text, where)
            yield entity
        elif line.strip() and "\t" not in line and not line.startswith("#"):
            raise DataError(
                f"{where}: found {shown(_body(line))}, expected an id and a tab; check that this is brat standoff"
            )


def _entity(line: str, number: int, where: str) -> _Entity:
    found = _ENTITY.fullmatch(line)
    if found is None:
        raise DataError(f"{where}: found {shown(line)}, expected an id, a tab, LABEL START STOP, a tab and the text")
    pieces = [tuple(map(int, piece.split(" "))) for piece in found[3].split(";")]
    return _Entity(found[1], found[2], tuple((start, stop) for start, stop in pieces), found[4], number)


def _check_covered(entity: _Entity, text: str, where: str) -> None:
    """Raise unless an entity repeats the text that it covers."""
    for start, stop in entity.pieces:
        if not start <= stop <= len(text):
            raise DataError(
                f"{where}: {entity.id} is from {start} to {stop}, but the text has {len(text)} characters; "
                "the .ann and the .txt are out of step: restore both"
            )
    most = len(entity.covered) + _MOST_SPACES  # pieces may be many, and each of them the whole text
    size = sum(stop - start for start, stop in entity.pieces)
    pieces = entity.pieces if size <= most else [(start, min(stop, start + most)) for start, stop in entity.pieces[:1]]
    covered = _on_one_line(" ".join(text[start:stop] for start, stop in pieces))
    if covered.rstrip() != _on_one_line(entity.covered).rstrip():
        ends = " (perhaps because line ends of the .txt were changed)" if "\r" in text else ""
        raise DataError(
            f"{where}: {entity.id} is {shown(entity.covered)}, but the text there is {shown(covered)}; "
            f"the .ann and the .txt are out of step{ends}: restore both"
        )


def _on_one_line(text: str) -> str:
    return _ENDS.sub(" ", text)


def _is_mark(entity: _Entity) -> bool:
    return len(entity.pieces) == 1 and entity.pieces[0][0] < entity.pieces[0][1]


def _odd(entity: _Entity) -> str:
    what = f"is in {len(entity.pieces)} pieces" if len(entity.pieces) > 1 else "is empty"
    where = f"{entity.id}, the {entity.label} {shown(entity.covered)} in line {entity.number + 1}"
    return f"{where}, {what}; it is kept as it is"


def _others(lines: Sequence[str]) -> list[str]:
    kinds = Counter(line[0] for line in lines if line.strip() and not line.startswith("T"))
    return [f"its {kinds.total():,} lines of other kinds ({', '.join(sorted(kinds))}) are kept and not looked at"] * (
        len(kinds) > 0
    )


def _edited(ann: str, text: str, edits: Sequence[MarkEdit], where: str) -> str:
    """The ``.ann`` of a text with its entities edited."""
    before = _lines(ann)
    lines: list[str | None] = [*before]
    abouts = {number: line.split("\t")[1] for number, line in enumerate(before, 1) if line[0] != "T" and "\t" in line}
    for edit in edits:
        if edit.old is not None:
            line = before[edit.old.key]
            _check_references(abouts, line.partition("\t")[0], edit.old, edit.new, where)
            lines[edit.old.key] = None if edit.new is None else _changed(line, edit.old, edit.new, text, where)
    _add(lines, before, [edit.new for edit in edits if edit.old is None and edit.new is not None], text, where)
    return _BOM * ann.startswith(_BOM) + "".join(line for line in lines if line is not None)


def _changed(line: str, old: Mark, new: Mark, text: str, where: str) -> str:
    """A ``T`` line with what differs replaced."""
    found = _ENTITY.fullmatch(_body(line))
    assert found is not None
    end = line[len(_body(line)) :]
    place, covered = found[3], found[4]
    if (old.start, old.stop) != (new.start, new.stop):
        place, covered = f"{new.start} {new.stop}", _on_one_line(text[new.start : new.stop])
    return f"{found[1]}\t{_label(new, where)} {place}\t{covered}{end}"


def _label(mark: Mark, where: str) -> str:
    if not mark.label or " " in mark.label or _ENDS.search(mark.label):
        raise DataError(
            f"{where}: the label {mark.label!r} is empty or contains spaces, which brat cannot have; rename it"
        )
    return mark.label


def _check_references(abouts: Mapping[int, str], id_: str, old: Mark, new: Mark | None, where: str) -> None:
    """Raise if an entity is removed that other lines are about, or is no longer of the type of its event.

    ``abouts`` are the second fields of the other lines, by their numbers.
    """
    if new is None:
        found = [number for number, about in abouts.items() if id_ in re.split(r"[\s:]+", about)]
        what = "would be removed; remove those lines first, or keep its label"
    elif new.label != old.label:
        found = [number for number, about in abouts.items() if f"{old.label}:{id_}" in about.split()[:1]]
        what = "is the trigger of an event, whose type would differ; change the event in brat, or keep its label"
    else:
        return
    if found:
        named = ", ".join(map(str, found[:_NUM_NAMED])) + ", ..." * (len(found) > _NUM_NAMED)
        raise DataError(f"{where}, line{'s' * (len(found) > 1)} {named}: about {shown(id_)}, which {what}")


def _add(lines: list[str | None], before: Sequence[str], added: Sequence[Mark], text: str, where: str) -> None:
    """Add entities behind the last ``T`` line, or at the end if there is none."""
    if not added:
        return
    known = [number for number, line in enumerate(before) if line.startswith("T")]
    taken = [int(found[1]) for line in before if (found := _NUMBERED.fullmatch(line.partition("\t")[0]))]
    place = known[-1] if known else len(before) - 1
    end = "\r\n" if before and before[0].endswith("\r\n") else "\n"
    numbered = enumerate(added, start=max(taken, default=0) + 1)
    new = [f"T{number}\t{_spelled(mark, text, where)}{end}" for number, mark in numbered]
    if before and not before[place].endswith("\n"):  # the last line of the file, which has no end
        new[-1] = new[-1].removesuffix(end)
        if (last := lines[place]) is not None:
            lines[place] = last + end
    lines[place + 1 : place + 1] = new


def _spelled(mark: Mark, text: str, where: str) -> str:
    covered = _on_one_line(text[mark.start : mark.stop])
    return f"{_label(mark, where)} {mark.start} {mark.stop}\t{covered}"


def fresh(texts: Sequence[FreshText]) -> Mapping[str, bytes]:
    """The files of a new folder, with an ``annotation.conf`` that names the types."""
    types = sorted({mark.label for one in texts for mark in one.marks})
    files = {"annotation.conf": _CONF.format("".join(f"{label}\n" for label in types)).encode()}
    taken = set[str]()
    for one in texts:
        name = _free_name(one.name, taken)
        marks = enumerate(one.marks, start=1)
        lines = (f"T{number}\t{_spelled(mark, one.text, one.where())}\n" for number, mark in marks)
        files[f"{name}.txt"], files[f"{name}.ann"] = one.text.encode(), "".join(lines).encode()
    return files


_CONF = "[entities]\n{}\n[relations]\n\n[events]\n\n[attributes]\n"
_MOST_BYTES = 200
"""Longer names are not possible everywhere."""
_UNSAFE = re.compile(r'[\x00-\x1f\x7f<>:"/\\|?*]')


def _free_name(document: str, taken: set[str]) -> str:
    """A document's name as a file's name (``a/b`` is ``b`` in the folder ``a``) that no other document has."""
    parts = document.split("/")
    if len(parts) > 8 or not all(map(_is_safe, parts)):
        parts = [_UNSAFE.sub("_", document).lstrip(".")]
    parts = [part.encode()[:_MOST_BYTES].decode("utf-8", "ignore") or "text" for part in parts]
    wanted = "/".join(parts)
    name, copy = wanted, 2
    while name.casefold() in taken:
        name, copy = f"{wanted}_{copy}", copy + 1
    taken.add(name.casefold())
    return name


def _is_safe(part: str) -> bool:
    return part != "" and not part.startswith(".") and not part.endswith((".txt", ".ann")) and not _UNSAFE.search(part)
