"""Changing named entities in the cells of WebAnno TSV; all other cells stay as they are."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property

from tagtrace._checks import DataError, at
from tagtrace.data.formats.cas import MAX_ID
from tagtrace.data.formats.webanno_tsv.cells import NO_VALUE, NOTHING, apart, escaped, stack_of
from tagtrace.data.formats.webanno_tsv.document import NUM_FIRST, TsvDocument
from tagtrace.data.formats.webanno_tsv.entities import Entity, entities_of, number_of
from tagtrace.data.formats.webanno_tsv.references import References
from tagtrace.data.marked.marks import Mark, MarkEdit
from tagtrace.data.source import shown

_NUMBER = re.compile(r"(?<!\\)\[([0-9]{1,10})\]")
Item = list[str | None]
"""What the columns of a row say about one entity."""


class Editor:
    """Collects what is to be changed in a document."""

    def __init__(self, document: TsvDocument) -> None:
        self._document, self._entities = document, entities_of(document)
        self._references = References(document)
        self._stacks: dict[int, list[Item | None]] = {}
        self._starts = [document.rows[number].start or 0 for number in document.token_rows]

    def edit(self, edits: Sequence[MarkEdit]) -> None:
        """Change, remove and add entities; those that leave a row do so before others come."""
        items = [self._leave(edit) for edit in edits]
        for edit, item in zip(edits, items, strict=True):
            if edit.new is not None:
                self._put(edit, edit.new, item)

    def written(self) -> bytes:
        """The file with everything changed."""
        lines = [*self._document.lines]
        for number, stack in self._stacks.items():
            row = self._document.rows[number]
            fields, line = list(row.fields), lines[row.number]
            kept = [item for item in stack if item is not None]
            for place, column in enumerate(self._document.entity_columns):
                items = [one for item in kept if (one := item[place]) is not None]
                fields[NUM_FIRST + column] = "|".join(items) or NOTHING
            end = line[len(line.removesuffix("\n").removesuffix("\r")) :]
            lines[row.number] = "\t".join(fields) + end
        return self._document.mark + "".join(lines).encode()

    def _leave(self, edit: MarkEdit) -> Item:
        """Take an entity from the rows that it no longer has; what the first one said about it."""
        if edit.old is None:
            return self._fresh()
        entity, kept = self._entities[edit.old.key], () if edit.new is None else self._rows(edit.new)
        row, place = entity.places[0]
        first = self._stack(row)[place]
        assert first is not None
        for row, place in entity.places:
            if row not in kept:
                self._check_not_needed(entity, row, place, is_removed=edit.new is None)
                self._stack(row)[place] = None
        return first

    def _put(self, edit: MarkEdit, new: Mark, item: Item) -> None:
        """Give an entity all rows of its new place and its new label."""
        places = {} if edit.old is None else dict(self._entities[edit.old.key].places)
        rows = self._rows(new)
        is_stacked = any(one is not None for row in rows if row not in places for one in self._stack(row))
        label = None if edit.old is not None and edit.old.label == new.label else self._label(new)
        number = number_of(self._document, item, at(self._document.path))
        new_number = self._new_number() if number is None and (len(rows) > 1 or is_stacked) else None
        for row in rows:
            stack = self._stack(row)
            if row in places:
                before = stack[places[row]]
                assert before is not None
                stack[places[row]] = self._changed(before, label, new_number)
            else:
                self._stacks[row] = [None if one is None else self._filled(one) for one in stack]
                self._stacks[row].append(self._changed(self._filled(item), label, new_number))

    def _rows(self, mark: Mark) -> Sequence[int]:
        """The rows of the tokens of a mark."""
        first, last = bisect_left(self._starts, mark.start), bisect_left(self._starts, mark.stop)
        return self._document.token_rows[first:last]

    def _stack(self, row: int) -> list[Item | None]:
        """The entities on a row, to be changed; None where one was removed."""
        if row not in self._stacks:
            self._stacks[row] = [*stack_of(self._document.rows[row].cells(self._document.entity_columns))]
        return self._stacks[row]

    def _fresh(self) -> Item:
        """A new entity without values and slots."""
        columns = [self._document.columns[number] for number in self._document.entity_columns]
        return [NOTHING if column.is_slot else NO_VALUE for column in columns]

    def _filled(self, item: Item) -> Item:
        """The same with something in every column, so that the columns of a stack stay in step."""
        return [new if one is None else one for one, new in zip(item, self._fresh(), strict=True)]

    def _changed(self, item: Item, label: str | None, number: int | None) -> Item:
        """An entity with another label and a number, where they are not None."""
        made, document = list[str | None](), self._document
        for place, (one, column) in enumerate(zip(item, document.entity_columns, strict=True)):
            if one is None or document.columns[column].is_target:
                made.append(one)
                continue
            value, _ = apart(one, at(document.path))
            end = one[len(value) :] if number is None else f"[{number}]"
            made.append((value if label is None or place != document.value_column else label) + end)
        return made

    def _label(self, mark: Mark) -> str:
        if "\r" in mark.label or mark.label.endswith("\\"):
            raise DataError(
                f"{at(self._document.path)}: the label {mark.label!r} has a line end in it or a backslash at its end, "
                "which WebAnno TSV cannot have; rename it"
            )
        return escaped(mark.label)

    def _check_not_needed(self, entity: Entity, row: int, place: int, *, is_removed: bool) -> None:
        """Raise if something refers to an entity that is removed, or by the token that it leaves."""
        found = self._references.by_number.get(entity.number or 0) if is_removed else None
        if found is None and place == 0:
            found = self._references.by_unit.get(self._document.rows[row].unit)
        if found is not None:
            line, text = self._document.rows[row].number + 1, shown(self._document.rows[row].fields[2])
            raise DataError(
                f"{at(self._document.path, line)}: the named entity on {text} cannot be removed from there, because "
                f"{found} refers to it; remove that first, or keep the label"
            )

    @cached_property
    def _taken(self) -> set[int]:
        rows = self._document.rows
        return {int(one) for row in rows for cell in row.fields[NUM_FIRST:] for one in _NUMBER.findall(cell)}

    def _new_number(self) -> int:
        """A number that nothing in the file has."""
        number = max(self._taken, default=0) + 1
        if number > MAX_ID:
            number = next(each for each in range(1, MAX_ID) if each not in self._taken)
        self._taken.add(number)
        return number
