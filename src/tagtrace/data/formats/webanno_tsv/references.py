"""What refers to named entities: relations and slots, by the number of an entity or else by the token it is on."""

from __future__ import annotations

import re

from tagtrace.data.formats.cas import ENTITY
from tagtrace.data.formats.webanno_tsv.cells import slots, stacked
from tagtrace.data.formats.webanno_tsv.document import NUM_FIRST, Document, Row

_REFERENCE = re.compile(r"([0-9]+-[0-9]+(?:\.[0-9]+)?)(?:\[([0-9]{1,10})(?:_([0-9]{1,10}))?\])?")
_TYPES = (ENTITY, "uima.tcas.Annotation")


class References:
    """Each with the place of the relation or slot, for messages.

    A relation stands on a row of what it leads to, and names what it comes from: ``1-1[2_0]`` is the annotation with
    the number 2, and leads to the first annotation on the row, which has no number.
    """

    def __init__(self, document: Document) -> None:
        self.by_number: dict[int, str] = {}
        self.by_unit: dict[str, str] = {}
        """Of references without a number, which mean the first entity on a token."""
        for number, column in enumerate(document.columns):
            is_relation = column.kind == "RL" and column.feature.removeprefix("BT_") in _TYPES
            if is_relation or (column.is_target and column.feature in _TYPES):
                for row in document.rows:
                    self._add_cell(row, row.fields[NUM_FIRST + number], is_relation=is_relation)

    def _add_cell(self, row: Row, cell: str, *, is_relation: bool) -> None:
        where = f"{'a relation' if is_relation else 'a slot'} in line {row.number + 1}"
        for item in stacked(cell):
            for one in [item] if is_relation else slots(item):
                found = _REFERENCE.fullmatch(one)
                if found is not None:
                    self._add(found[1], found[2], where)
                    if is_relation:
                        self._add(row.unit, found[3], where)

    def _add(self, unit: str, number: str | None, where: str) -> None:
        if number is not None and int(number) > 0:
            self.by_number.setdefault(int(number), where)
        else:
            self.by_unit.setdefault(unit, where)
