"""The places of elements and attributes are those of what a parser reads."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tagtrace._checks import DataError
from tagtrace.data.spans.xml_spans import parsed

texts = st.text("aé\U0001f600<>&'\"\n\t\r ;=/", max_size=6)
spaces = st.sampled_from([" ", "\n", "\t  ", "\r\n "])


@st.composite
def tags(draw: st.DrawFn) -> tuple[str, dict[str, str]]:
    """An element and its attributes."""
    name, attributes = (
        draw(st.sampled_from(["a", "b-1", "\xe9", "p:a"])),
        draw(st.dictionaries(st.sampled_from("xyz"), texts)),
    )
    written = f"<{name}"
    for key, value in attributes.items():
        quote = draw(st.sampled_from("\"'"))
        escaped = "".join(f"&#{ord(one)};" if one in "<&\"'\n\t\r" else one for one in value)
        written += f"{draw(spaces)}{key}{draw(st.sampled_from(['=', ' = ']))}{quote}{escaped}{quote}"
    gap = draw(st.sampled_from(["", " ", "\n"]))
    inside = draw(st.sampled_from(["", "text", "<c/>", "<c>/></c>", "/>", "<!-- </a> -->", "<![CDATA[</a>]]>"]))
    return written + draw(st.sampled_from([f"{gap}/>", f"{gap}>{inside}</{name}{gap}>"])), attributes


@given(st.lists(tags(), max_size=4), st.sampled_from(["", "\ufeff", '<?xml version="1.0"?>\n<!-- <a> -->']), spaces)
def test_elements_and_attributes_are_found(made: list[tuple[str, dict[str, str]]], head: str, space: str) -> None:
    text = f'{head}<r xmlns:p="u">{space}{space.join(one for one, _ in made)}</r>'
    file = parsed(text.encode(), Path("a.xml"))
    assert len(file.elements) == len(made)
    for element, (written, attributes) in zip(file.elements, made, strict=True):
        assert file.raw((element.start, file.stop(element))) == written
        assert element.attributes == attributes
        tag = file.tag(element)
        read = {
            key: ElementTree.fromstring(f'<a b="{file.raw(span)}"/>').get("b") for key, span in tag.attributes.items()
        }
        assert read == attributes
        assert written.startswith(f"<{tag.name}")


@given(texts, st.booleans())
def test_what_is_escaped_is_read_again(value: str, is_ascii: bool) -> None:
    file = parsed(b"<r/>" if is_ascii else "<r>\xe9</r>".encode(), Path("a.xml"))
    written = file.escaped(value, "a")
    assert ElementTree.fromstring(f'<a b="{written}"/>').get("b") == value
    assert ElementTree.fromstring(f"<a b='{written}'/>").get("b") == value
    assert written.isascii() or not is_ascii


def test_places_are_changed_and_the_rest_stays() -> None:
    file = parsed(b"<r> <a x='1'/></r>", Path("a.xml"))
    (element,) = file.elements
    assert (
        file.replaced([(file.tag(element).attributes["x"], "\xe9"), ((3, 3), "!")]) == "<r>! <a x='\xe9'/></r>".encode()
    )
    assert file.space_before(element.start) == 3


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            b'<!DOCTYPE r [<!ENTITY a "b">]><r>&a;</r>',
            "a.xml, line 1: has a document type (DOCTYPE), which is not read",
        ),
        (b'<?xml version="1.0" encoding="x"?><r/>', "is in the encoding 'x'; convert it to UTF-8"),
        (b"<r>\xff</r>", "byte 3 is not UTF-8"),
        (b"<\0r\0/\0>\0", "byte 1 is zero"),
        (b"\n<r>", "line 2: is not well-formed XML 1.0 (no element found)"),
        (b"<r x='1' x='2'/>", "is not well-formed XML 1.0 (duplicate attribute)"),
        (b"<r>" * 100_000, "nested too deep"),
    ],
)
def test_what_is_wrong_is_named(data: bytes, message: str) -> None:
    with pytest.raises(DataError) as raised:
        parsed(data, Path("a.xml"))
    assert message in str(raised.value)


def test_a_file_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tagtrace.data.spans.xml_spans.MAX_BYTES", 3)
    with pytest.raises(DataError, match="has more than 0 MiB of XML; divide the document"):
        parsed(b"<r/>", Path("a.xml"))
