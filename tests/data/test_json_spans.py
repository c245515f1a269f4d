"""The scanner finds what ``json`` reads."""

from __future__ import annotations

import json
import string

from hypothesis import given
from hypothesis import strategies as st

from tagtrace.data.json_spans import element_spans, member_spans, replace_spans, set_member

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
