"""The named entities of a document in WebAnno TSV, and the document as a text with marks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tagtrace._checks import NoLabelsError, at
from tagtrace.data.formats.cas import ENTITY, is_tools
from tagtrace.data.formats.webanno_tsv.cells import NO_VALUE, apart, stack_of, unescaped
from tagtrace.data.formats.webanno_tsv.document import TsvDocument, TsvRow
from tagtrace.data.marked.marks import Mark, MarkedText
from tagtrace.data.source import shown, stem


@dataclass
class Entity:
    """A named entity: on each of its rows it has a place in the stack there."""

    number: int | None
    """In brackets; one on a single row needs none."""
    places: list[tuple[int, int]] = field(default_factory=list)
    """The number of the row and the place."""
    said: list[tuple[str | None, ...]] = field(default_factory=list)
    """What the columns of each row say, without the number."""
    values: list[str | None] = field(default_factory=list)


def entities_of(document: TsvDocument) -> list[Entity]:
    """All named entities, in the order of their first rows."""
    by_number, found, column = dict[int, Entity](), list[Entity](), document.value_column
    for number, row in enumerate(document.rows):
        where = at(document.path, row.number + 1)
        for place, item in enumerate(stack_of(row.cells(document.entity_columns))):
            parts = _parts(document, item, where)
            entity = _entity(_number(parts), by_number, found)
            value = None if column is None else parts[column][0]
            entity.places.append((number, place))
            entity.said.append(tuple(one for one, _ in parts))
            entity.values.append(None if value is None or value == NO_VALUE else unescaped(value))
    return found


def _parts(document: TsvDocument, item: Sequence[str | None], where: str) -> list[tuple[str | None, int | None]]:
    """What each column says about an entity on a row, and the number there."""
    columns = [document.columns[number] for number in document.entity_columns]
    return [
        (one, None) if one is None or column.is_target else apart(one, where)
        for one, column in zip(item, columns, strict=True)
    ]


def _number(parts: Sequence[tuple[str | None, int | None]]) -> int | None:
    return next((number for _, number in parts if number is not None), None)


def _entity(number: int | None, by_number: dict[int, Entity], found: list[Entity]) -> Entity:
    if number is not None and number in by_number:
        return by_number[number]
    found.append(Entity(number))
    if number is not None:
        by_number[number] = found[-1]
    return found[-1]


def number_of(document: TsvDocument, item: Sequence[str | None], where: str) -> int | None:
    """The number in brackets of an entity on a row."""
    return _number(_parts(document, item, where))


def marked_text(document: TsvDocument, *, labelled: bool) -> MarkedText:
    """The document as a text; the keys of its marks are the numbers of their entities."""
    layers = list(dict.fromkeys(one.layer for one in document.columns if one.layer != ENTITY))
    annotated = [name for name in layers if not is_tools(name)]
    if labelled and document.value_column is None:
        found = f", only {shown(', '.join(annotated), 200)}" if annotated else ""
        raise NoLabelsError(
            f"{at(document.path)}: has no column for the value of {ENTITY}{found}; annotate the layer Named entity and "
            "export the document again, or read the file as unlabelled"
        )
    odd = [f"its layer {name} is kept and not looked at" for name in annotated]
    marks, positions = list[Mark](), {row: place for place, row in enumerate(document.token_rows)}
    for key, entity in enumerate(entities_of(document)):
        rows = [document.rows[number] for number, _ in entity.places]
        reason = _why_odd(entity, rows, [positions.get(number) for number, _ in entity.places])
        start, stop, label = rows[0].start, rows[-1].stop, entity.values[0]
        if reason:
            odd.append(f"{_named(entity, rows)} {reason}; it is kept as it is")
        elif label and start is not None and stop is not None:
            marks.append(Mark(start, stop, label, key, rows[0].number + 1))
    return MarkedText(
        document.text, tuple(marks), 1, document=stem(document.path), tokens=tuple(_tokens(document)),
        breaks=tuple(document.breaks), odd=tuple(odd),
    )  # fmt: skip


def _tokens(document: TsvDocument) -> Iterator[tuple[int, int]]:
    for number in document.token_rows:
        start, stop = document.rows[number].start, document.rows[number].stop
        assert start is not None
        assert stop is not None
        yield start, stop


def _why_odd(entity: Entity, rows: Sequence[TsvRow], positions: Sequence[int | None]) -> str:
    """Why an entity is not learned from; ``positions`` are those of its rows among the tokens."""
    if not all(entity.values):
        return "has no value"
    if len(set(entity.said)) > 1:
        return "has different values on its tokens"
    if any(not row.unit for row in rows):
        return "is on parts of tokens"
    first = positions[0]
    if first is None or list(positions) != list(range(first, first + len(rows))):
        return "is not on every token from its first to its last"
    return ""


def _named(entity: Entity, rows: Sequence[TsvRow]) -> str:
    value = next((one for one in entity.values if one), "named entity")
    return f"the {value} {shown(rows[0].fields[2] + ' ...' * (len(rows) > 1))} in line {rows[0].number + 1}"
