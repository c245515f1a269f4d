"""What refers to named entities: relations and slots, by the number of an entity or else by the token it is on."""

from __future__ import annotations

import re

from tagtrace.data.formats.cas import ENTITY
from tagtrace.data.formats.webanno_tsv.cells import slots, stacked
from tagtrace.data.formats.webanno_tsv.document import NUM_FIRST, TsvDocument, TsvRow

_REFERENCE = re.compile(r"([0-9]+-[0-9]+(?:\.[0-9]+)?)(?:\[([0-9]{1,10})(?:_([0-9]{1,10}))?\])?")
_TYPES = (ENTITY, "uima.tcas.Annotation")


class References:
    """Each with the place of the relation or slot, for messages.

    A relation stands on a row of what it leads to, and names what it comes from: ``1-1[2_0]`` is the annotation with
    the number 2, and leads to the first annotation on the row, which has no number. Numbers are those of all layers,
    so only references without one need the type that the header names.
    """

    def __init__(self, document: TsvDocument) -> None:
        self.by_number: dict[int, str] = {}
        self.by_unit: dict[str, str] = {}
        """Of references without a number, which mean the first one of their type on a token."""
        for number, column in enumerate(document.columns):
            is_relation = column.kind == "RL" and column.feature.startswith("BT_")
            if is_relation or column.is_target:
                is_typed = column.feature.removeprefix("BT_") in _TYPES
                for row in document.rows:
                    self._add_cell(row, row.fields[NUM_FIRST + number], is_relation=is_relation, is_typed=is_typed)

    def _add_cell(self, row: TsvRow, cell: str, *, is_relation: bool, is_typed: bool) -> None:
        where = f"{'a relation' if is_relation else 'a slot'} in line {row.number + 1}"
        for item in stacked(cell):
            for one in [item] if is_relation else slots(item):
                found = _REFERENCE.fullmatch(one)
                if found is not None:
                    ends = [(found[1], found[2]), (row.unit, found[3])]
                    for unit, number in ends[: 1 + is_relation]:
                        self._add(unit, number, where, is_typed=is_typed)

    def _add(self, unit: str, number: str | None, where: str, *, is_typed: bool) -> None:
        if number is not None and int(number) > 0:
            self.by_number.setdefault(int(number), where)
        elif is_typed:
            self.by_unit.setdefault(unit, where)
