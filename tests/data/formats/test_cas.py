"""Code units of UTF-16 and characters; numbers of structures."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tagtrace.data.formats.cas import MAX_ID, Cas, Units, is_tools, whole_number


@given(st.text("a\xe9\u5317\U0001f600\U0001f3fb", max_size=20))
def test_units_are_those_of_the_encoding(text: str) -> None:
    units = Units(text)
    ends = [len(text[:place].encode("utf-16-le")) // 2 for place in range(len(text) + 1)]
    assert [units.unit(place) for place in range(len(text) + 1)] == ends
    assert units.length == ends[-1]
    found = [units.character(unit) for unit in range(units.length + 2)]
    assert found == [ends.index(unit) if unit in ends else None for unit in range(units.length + 2)]


def test_numbers() -> None:
    given = ("0", "2147483647", "2147483648", "-1", "", " 1", "1.0", "\u0661", "9" * 5000)
    assert [whole_number(one) for one in given] == [0, MAX_ID, None, None, None, None, None, None, None]


def test_a_new_number_is_the_next_or_the_first_that_is_free() -> None:
    cas = Cas(Path("a"), ids={1, 7}, members={2: {9}})
    assert (cas.new_id(), cas.new_id()) == (10, 11)
    assert Cas(Path("a"), ids={1, 2, MAX_ID}).new_id() == 3


def test_layers_are_what_somebody_annotated() -> None:
    core = "de.tudarmstadt.ukp.dkpro.core.api"
    tools = ("uima.tcas.DocumentAnnotation", f"{core}.lexmorph.type.pos.POS", "org.dkpro.core.api.xml.type.XmlElement")
    assert all(map(is_tools, tools))
    assert not any(map(is_tools, ("webanno.custom.Span", "custom.Span", f"{core}.ner.type.Person")))
