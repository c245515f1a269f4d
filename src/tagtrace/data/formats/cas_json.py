"""UIMA CAS JSON (draft 0.4), as INCEpTION exports a document: one object for each annotation.

    {"%TYPES": {...},
     "%FEATURE_STRUCTURES": [{"%ID": 2, "%TYPE": "uima.cas.Sofa", "sofaString": "Ada Lovelace lives ...", ...},
                             {"%ID": 9, "%TYPE": "....NamedEntity", "@sofa": 2, "begin": 0, "end": 12, "value": "PER"}],
     "%VIEWS": {"_InitialView": {"%SOFA": 2, "%MEMBERS": [9]}}}

The structures may also be an object, whose keys are their numbers, and offsets may be ``^begin`` and ``^end``.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tagtrace._checks import DataError, at
from tagtrace.data.formats.cas import AGAIN, ENTITY, MAX_ID, META, READ, Annotation, Cas, Sofa, Units, whole_number
from tagtrace.data.marked.json_lines import as_json, check_encodable
from tagtrace.data.marked.marks import Edits, Mark, MarkEdit, MarkedText
from tagtrace.data.options import ReadOptions
from tagtrace.data.source import SourceFile, shown
from tagtrace.data.spans.json_spans import (
    Span,
    added_member,
    edited_list,
    edited_object,
    element_spans,
    member_spans,
    replace_spans,
    value_span,
)

STRUCTURES, VIEWS, TYPES = "%FEATURE_STRUCTURES", "%VIEWS", "%TYPES"
_SOFA = "uima.cas.Sofa"
_VALUES = tuple(
    f"uima.cas.{name}[]" for name in ("Boolean", "Byte", "Short", "Integer", "Long", "Float", "Double", "String")
)
"""Lists whose elements are not the numbers of other structures."""
_BOM = "\ufeff"

Record = Mapping[str, Any]


def texts(source: SourceFile, data: bytes, options: ReadOptions) -> Iterator[MarkedText]:
    document = _parsed(_text(source, data), source.path)
    yield from _cas(document, source.path).marked_texts(options)


def edited(source: SourceFile, data: bytes, options: ReadOptions, edits: Edits) -> bytes:  # noqa: ARG001
    text = _text(source, data)
    document = _parsed(text, source.path)
    editor = _Editor(document, _cas(document, source.path), text)
    for number, some in edits.items():
        for edit in some:
            editor.edit(number, edit)
    try:
        made = editor.written()
    except RecursionError:  # spans are found deeper in the stack than the whole was parsed
        raise DataError(f"{at(source.path)}: a value is nested too deep to be changed; make it flatter") from None
    return ((_BOM if data.startswith(_BOM.encode()) else "") + made).encode()


def _text(source: SourceFile, data: bytes) -> str:
    return "".join(text for _, text in source.texts(iter(io.BytesIO(data))))


def _parsed(text: str, path: Path) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        line, reason = None, "a value is too deep or too long"
        if isinstance(error, json.JSONDecodeError):
            line, reason = error.lineno, error.msg
        raise DataError(f"{at(path, line)}: is not valid JSON ({reason}); {AGAIN}") from None
    if not isinstance(found, dict) or not isinstance(found.get(STRUCTURES), list | dict):
        raise DataError(f"{at(path)}: has no {STRUCTURES}; check that this is a CAS in JSON 0.4")
    return found


def _structures(document: Record, path: Path) -> Iterator[tuple[int, Record]]:
    """Each feature structure with its number."""
    found = document[STRUCTURES]
    given = found.items() if isinstance(found, dict) else ((None, one) for one in found)
    for key, one in given:
        if not isinstance(one, dict) or not isinstance(one.get("%TYPE"), str):
            raise DataError(f"{at(path)}: found {_shown(one)} among the structures, expected an object with a %TYPE")
        number: Any = one.get("%ID") if key is None else whole_number(key)
        if not _is_number(number):
            raise DataError(f"{at(path)}: found the id {_shown(key or number)}, expected a number from 0 to {MAX_ID}")
        yield number, one


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_ID


def _shown(value: Any) -> str:
    return type(value).__name__ if isinstance(value, list | dict) else shown(json.dumps(value))


def _cas(document: Record, path: Path) -> Cas:
    cas = Cas(path)
    names = dict[str, int]()
    for number, one in _structures(document, path):
        _add(cas, one, cas.take_id(number, at(path)))
        if one["%TYPE"] == _SOFA and isinstance(one.get("sofaID"), str):
            names[one["sofaID"]] = number
    for name, view in _views(document, path).items():
        sofa = view.get("%SOFA")
        sofa = names.get(name, 0) if sofa is None else sofa
        if not all(_is_number(one) for one in (sofa, *view["%MEMBERS"])):
            raise DataError(f"{at(path)}: the %SOFA and %MEMBERS of the view {shown(name)} should be numbers; {AGAIN}")
        cas.members.setdefault(sofa, set()).update(view["%MEMBERS"])
        cas.views[sofa] = name
    for one in cas.annotations:
        if one.sofa not in cas.sofas:
            raise DataError(f"{at(path)}: the annotation with the id {one.id} has no text; {AGAIN}")
    return cas


def _views(document: Record, path: Path) -> dict[str, Record]:
    views = document.get(VIEWS, {})
    if not isinstance(views, dict) or not all(
        isinstance(view, dict) and isinstance(view.get("%MEMBERS"), list) for view in views.values()
    ):
        raise DataError(f"{at(path)}: {VIEWS} should be an object of views with %MEMBERS; {AGAIN}")
    return views


def _add(cas: Cas, one: Record, number: int) -> None:
    kind, where = one["%TYPE"], f"{at(cas.path)}: the structure with the id {number}"
    check_encodable(kind, where)
    if kind == _SOFA:
        if isinstance(text := one.get("sofaString"), str):
            check_encodable(text, where)
            cas.sofas[number] = Sofa(number, text, len(cas.sofas) + 1)
    elif kind == META:
        if isinstance(title := one.get("documentTitle"), str) and _is_number(one.get("@sofa")):
            check_encodable(title, where)
            cas.titles[one["@sofa"]] = title
    elif kind in READ:
        cas.annotations.append(_annotation(one, number, where))
    elif "@sofa" in one and _key(one, "begin") in one:
        cas.add_layer(kind)


def _annotation(one: Record, number: int, where: str) -> Annotation:
    sofa, begin, end = (one.get(key) for key in ("@sofa", _key(one, "begin"), _key(one, "end")))
    for key, value in (("@sofa", sofa), ("begin", begin), ("end", end)):
        if not _is_number(value):
            raise DataError(f"{where}: found {_shown(value)} under {key!r}, expected a number; {AGAIN}")
    value = one.get("value")
    if not isinstance(value, str | None):
        raise DataError(f"{where}: found {_shown(value)} under 'value', expected a name or nothing")
    check_encodable(value or "", where)
    assert isinstance(sofa, int) and isinstance(begin, int) and isinstance(end, int)  # noqa: PT018
    return Annotation(number, one["%TYPE"], sofa, begin, end, value)


def _key(one: Record, name: str) -> str:
    """The key of an offset, which may be marked as one."""
    return f"^{name}" if f"^{name}" in one else name


class _Editor:
    """Collects what is to be changed in a file."""

    def __init__(self, document: Record, cas: Cas, text: str) -> None:
        self._document, self._cas, self._text = document, cas, text
        self._sofas = cas.texts()
        self._units = [Units(sofa.text) for sofa in self._sofas]
        self._changed: dict[int, tuple[int, Mark, Mark]] = {}
        self._removed: set[int] = set()
        self._added: list[tuple[int, int, Mark]] = []

    def edit(self, place: int, edit: MarkEdit) -> None:
        """Change, remove or add one named entity of a text."""
        if edit.new is None:
            assert edit.old is not None
            self._removed.add(edit.old.key)
        elif edit.old is None:
            self._added.append((self._cas.new_id(), place, edit.new))
        else:
            self._changed[edit.old.key] = place, edit.old, edit.new

    def written(self) -> str:
        """The file with everything changed."""
        self._check_references()
        changes = [self._edited_structures(), *self._edited_views(), *self._edited_types()]
        return replace_spans(self._text, sorted(changes))

    def _edited_structures(self) -> tuple[Span, str]:
        start, found = value_span(self._text, [STRUCTURES])[0], self._document[STRUCTURES]
        numbers = [number for number, _ in _structures(self._document, self._cas.path)]
        touched = self._removed.union(self._changed)
        if isinstance(found, dict):
            spans = member_spans(self._text, start)
            keys = [(key, number) for key, number in zip(found, numbers, strict=True) if number in touched]
            wanted = {key: self._edited(number, spans[key]) for key, number in keys}
            return edited_object(self._text, start, wanted, self._new(in_object=True))
        spans = element_spans(self._text, start)
        places = [(place, number) for place, number in enumerate(numbers) if number in touched]
        wanted = {place: self._edited(number, spans[place]) for place, number in places}
        return edited_list(self._text, start, wanted, self._new(in_object=False))

    def _edited(self, number: int, span: Span) -> str | None:
        """A structure with what differs replaced; None if it is removed."""
        if number in self._removed:
            return None
        text = self._text[slice(*span)]
        place, old, new = self._changed[number]
        spans, unit = member_spans(text), self._units[place].unit
        values = (
            (_key(spans, "begin"), unit(old.start), unit(new.start)),
            (_key(spans, "end"), unit(old.stop), unit(new.stop)),
            ("value", old.label, new.label),
        )
        changes = [(spans[key], as_json(now, self._text)) for key, was, now in values if was != now]
        return replace_spans(text, sorted(changes))

    def _new(self, *, in_object: bool) -> list[str]:
        """The structures that are added, as members of an object or as elements of a list."""
        structures = (one for _, one in _structures(self._document, self._cas.path) if one["%TYPE"] in READ)
        caret = "^" if any("^begin" in one for one in structures) else ""
        made = list[str]()
        for number, place, mark in self._added:
            unit = self._units[place].unit
            one = {
                "%ID": number, "%TYPE": ENTITY, "@sofa": self._sofas[place].id, f"{caret}begin": unit(mark.start),
                f"{caret}end": unit(mark.stop), "value": mark.label,
            }  # fmt: skip
            if in_object:
                del one["%ID"]
            made.append((f'"{number}": ' if in_object else "") + as_json(one, self._text))
        return made

    def _edited_views(self) -> Iterator[tuple[Span, str]]:
        added: dict[str | None, list[str]] = {}
        for number, place, _ in self._added:
            added.setdefault(self._cas.views.get(self._sofas[place].id), []).append(str(number))
        views = _views(self._document, self._cas.path)
        start = value_span(self._text, [VIEWS])[0] if VIEWS in self._document else 0
        spans = member_spans(self._text, start) if views else {}
        for name, view in views.items():
            removed = {place: None for place, one in enumerate(view["%MEMBERS"]) if one in self._removed}
            if removed or name in added:
                members = member_spans(self._text, spans[name][0])["%MEMBERS"][0]
                yield edited_list(self._text, members, removed, added.get(name, ()))
        if None in added:
            raise DataError(f"{at(self._cas.path)}: the text of a new named entity has no view in {VIEWS}; {AGAIN}")

    def _edited_types(self) -> Iterator[tuple[Span, str]]:
        """The type of named entities is declared where only types are that occur."""
        types = self._document.get(TYPES)
        if self._added and isinstance(types, dict) and types and ENTITY not in types:
            value = {"%NAME": "value", "%RANGE": "uima.cas.String"}
            one = {"%NAME": ENTITY, "%SUPER_TYPE": "uima.tcas.Annotation", "value": value}
            yield added_member(self._text, value_span(self._text, [TYPES])[0], ENTITY, json.dumps(one))

    def _check_references(self) -> None:
        """Raise if what is removed is needed."""
        for number, one in _structures(self._document, self._cas.path) if self._removed else ():
            found = ((key, each) for key, value in one.items() for each in _references(one["%TYPE"], key, value))
            for key, each in found if number not in self._removed else ():
                if each in self._removed:
                    raise self._cas.needed(each, f"{key} of the {one['%TYPE']} with the id {number}")


def _references(kind: str, key: str, value: Any) -> Sequence[int]:
    """The numbers of other structures that a value of a structure is made of."""
    if key == "%ELEMENTS" and (kind == "uima.cas.FSArray" or (kind.endswith("[]") and kind not in _VALUES)):
        return [one for one in value if isinstance(one, int)] if isinstance(value, list) else ()
    return (value,) if key.startswith("@") and isinstance(value, int) else ()
