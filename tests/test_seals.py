"""A seal notices every change of a value, and nothing else."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tagtrace._checks import DataError
from tagtrace._seals import SealedDocument, is_intact, read_sealed, sealed

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
VALUES = st.dictionaries(
    st.text(), st.recursive(SCALARS, lambda s: st.lists(s) | st.dictionaries(st.text(), s), max_leaves=8)
)


@given(VALUES, VALUES)
def test_only_the_same_value_fits_a_seal(value: dict[str, object], other: dict[str, object]) -> None:
    found = json.loads(json.dumps(sealed(value), indent=1, ensure_ascii=False, sort_keys=True))
    assert is_intact(found)
    for values in (value, other):
        values.pop("seal", None)
    same = json.dumps(value, sort_keys=True) == json.dumps(other, sort_keys=True)
    assert is_intact({**other, "seal": found["seal"]}) == same


@dataclass(frozen=True)
class Fruit(SealedDocument):
    name: str
    weight: float


def test_a_document_that_was_changed_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "fruit.json"
    saved = sealed({"name": "fig", "weight": 12.5})
    for text in (json.dumps(saved), json.dumps(saved, indent=4), json.dumps({"name": "fig", "weight": 12.5})):
        path.write_text(text)
        assert read_sealed(path, Fruit, remedy="grow it again") == Fruit("fig", 12.5)
    for change in ({"weight": 12.25}, {"name": "date"}, {"seal": "0" * 64}, {"seal": ""}):
        path.write_text(json.dumps({**saved, **change}))
        with pytest.raises(
            DataError, match=r"fruit.json: was changed after it was written .*; grow it again"
        ) as caught:
            read_sealed(path, Fruit, remedy="grow it again")
        assert "\n" not in str(caught.value)
