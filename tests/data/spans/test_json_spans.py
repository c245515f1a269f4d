"""The scanner finds what ``json`` reads."""

from __future__ import annotations

import json
import string
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tagtrace.data.spans.json_spans import (
    edited_object,
    element_spans,
    member_spans,
    replace_spans,
    set_member,
    value_span,
)

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
objects = st.dictionaries(st.text(max_size=4), values, max_size=5)
spaces = st.text(" \t\r\n", max_size=3)


@st.composite
def written(draw: st.DrawFn, value: object) -> str:
    """An object or list with odd spacing."""
    gap = draw(spaces)
    text = json.dumps(value, ensure_ascii=draw(st.booleans()), separators=(gap + "," + gap, gap + ":" + gap))
    return draw(spaces) + text[0] + gap + text[1:-1] + gap + text[-1] + draw(spaces)


@given(st.data(), objects)
def test_members_are_found(data: st.DataObject, value: dict[str, object]):
    text = data.draw(written(value))
    spans = member_spans(text)
    assert {key: json.loads(text[start:stop]) for key, (start, stop) in spans.items()} == value
    assert all(text[start:stop].strip(string.whitespace) == text[start:stop] for start, stop in spans.values())


@given(st.data(), st.lists(values, max_size=5))
def test_elements_are_found(data: st.DataObject, value: list[object]):
    text = data.draw(written(value))
    spans = element_spans(text, text.index("["))
    assert [json.loads(text[start:stop]) for start, stop in spans] == value


@given(st.data(), objects, st.text(max_size=4))
def test_a_member_is_set_and_the_rest_stays(data: st.DataObject, value: dict[str, object], key: str):
    text = data.draw(written(value))
    changed = set_member(text, key, '["new"]')
    assert json.loads(changed) == {**value, key: ["new"]}
    assert list(json.loads(changed)) == list({**value, key: None})
    start, stop = member_spans(changed)[key]
    if key in value:
        assert replace_spans(changed, [((start, stop), text[slice(*member_spans(text)[key])])]) == text


def test_of_a_repeated_key_the_last_counts():
    text = '{"a": 1, "a": 2}'
    assert [text[start:stop] for start, stop in member_spans(text).values()] == ["2"]
    assert json.loads(set_member(text, "a", "3")) == {"a": 3}


def paths(value: object) -> Iterator[tuple[str | int, ...]]:
    """The path of every value inside a value, and its own."""
    yield ()
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield from ((key, *rest) for rest in paths(one))


@given(st.data(), st.lists(values, max_size=3) | objects)
def test_values_are_found_by_their_paths(data: st.DataObject, value: object):
    text = data.draw(written(value))
    for path in paths(value):
        wanted = value
        for step in path:
            wanted = wanted[step]  # pyright: ignore[reportIndexIssue]
        assert json.loads(text[slice(*value_span(text, path))]) == wanted


@pytest.mark.parametrize("path", [["b"], ["a", 1], ["a", "x"], [0]])
def test_a_path_that_leads_nowhere(path: list[str | int]):
    with pytest.raises((KeyError, IndexError)):
        value_span('{"a": [1]}', path)


@given(st.data(), objects, st.dictionaries(st.text(max_size=2), st.none() | st.just("[1]")))
def test_an_object_is_edited_and_the_rest_stays(
    data: st.DataObject, value: dict[str, object], changed: dict[str, str | None]
):
    text = data.draw(written(value))
    span, made = edited_object(text, text.index("{"), changed, ['"new key": 7'])
    wanted = {key: [1] if key in changed else one for key, one in value.items() if changed.get(key, "") is not None}
    after = json.loads(replace_spans(text, [(span, made)]))
    assert after == {**wanted, "new key": 7}
    assert list(after) == [*wanted, "new key"]
    assert replace_spans(text, [edited_object(text, text.index("{"), {}, [])]) == text


def test_of_a_repeated_key_the_last_is_edited_and_all_are_removed():
    text = '{"a": 1, "b": 2, "a": 3}'
    assert edited_object(text, 0, {"a": "4"}, [])[1] == '{"a": 1, "b": 2, "a": 4}'
    assert edited_object(text, 0, {"a": None}, [])[1] == '{"b": 2}'
