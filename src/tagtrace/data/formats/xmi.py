"""UIMA CAS XMI, as INCEpTION exports a document: one XML element for each annotation, named after its type.

    <type4:NamedEntity xmi:id="9" sofa="2" begin="0" end="12" value="PER"/>
    <cas:Sofa xmi:id="2" sofaNum="1" sofaID="_InitialView" mimeType="text" sofaString="Ada Lovelace lives ..."/>
    <cas:View sofa="2" members="1 3 4 5 9"/>

The type system beside it (``TypeSystem.xml``) is not needed, and not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from tagtrace._checks import DataError, at
from tagtrace.data.formats.cas import AGAIN, ENTITY, META, READ, Annotation, Cas, Sofa, Units, is_tools, whole_number
from tagtrace.data.marked.marks import Edits, Mark, MarkEdit, MarkedText
from tagtrace.data.options import ReadOptions
from tagtrace.data.source import SourceFile, shown
from tagtrace.data.spans.xml_spans import Element, Span, XmlFile, parsed

XMI, UIMA = "http://www.omg.org/XMI", "http:///uima/cas.ecore"
_ID, _SOFA, _VIEW = f"{XMI} id", f"{UIMA} Sofa", f"{UIMA} View"
_PLACES = ("begin", "end", "sofa", _ID)
_VALUES = (*_PLACES, "value", "identifier", "order", "id")
"""Features that never hold the number of an annotation, in any type and in those that come with the tools."""


def texts(source: SourceFile, data: bytes, options: ReadOptions) -> Iterator[MarkedText]:
    yield from _cas(_file(data, source.path), source.path).marked_texts(options)


def edited(source: SourceFile, data: bytes, options: ReadOptions, edits: Edits) -> bytes:  # noqa: ARG001
    file = _file(data, source.path)
    editor = _Editor(file, _cas(file, source.path))
    for number, some in edits.items():
        for edit in some:
            editor.edit(number, edit)
    return editor.written()


def _file(data: bytes, path: Path) -> XmlFile:
    file = parsed(data, path)
    if file.root.name != f"{XMI} XMI":
        name = file.root.name.rpartition(" ")[2]
        raise DataError(f"{at(path)}: its root is {shown(name)}, not xmi:XMI; check that this is the document's XMI")
    return file


def _type(element: Element) -> str:
    """The name of a type as UIMA has it.

    >>> _type(Element("http:///org/tool.ecore Span", {}, 1, 0, 0))
    'org.tool.Span'
    """
    uri, _, name = element.name.rpartition(" ")
    return f"{uri.removeprefix('http:///').removesuffix('.ecore').replace('/', '.')}.{name}"


def _name(kind: str) -> tuple[str, str]:
    """The namespace and the name of the elements of a type."""
    package, _, name = kind.rpartition(".")
    return f"http:///{package.replace('.', '/')}.ecore", name


_NAMES = {" ".join(_name(kind)): kind for kind in (*READ, META)}


def _number(element: Element, key: str, path: Path) -> int:
    written = element.attributes.get(key)
    number = None if written is None else whole_number(written)
    if number is None:
        named = element.name.rpartition(" ")[2]
        found = "has no" if written is None else f"has {shown(written)} as its"
        raise DataError(
            f"{at(path, element.line)}: the {named} {found} {key.rpartition(' ')[2]}, expected a number; {AGAIN}"
        )
    return number


def _cas(file: XmlFile, path: Path) -> Cas:
    cas = Cas(path)
    for element in file.elements:
        if element.name == _VIEW:
            if "sofa" in element.attributes:
                cas.members.setdefault(_number(element, "sofa", path), set()).update(_members(element, path))
        elif _ID in element.attributes or element.name in _NAMES:
            _add(cas, element, cas.take_id(_number(element, _ID, path), at(path, element.line)))
    for one in cas.annotations:
        if one.sofa not in cas.sofas:
            raise DataError(f"{at(path)}: the annotation with the id {one.id} has no text; {AGAIN}")
    return cas


def _add(cas: Cas, element: Element, number: int) -> None:
    kind, attributes = _NAMES.get(element.name), element.attributes
    if element.name == _SOFA:
        if "sofaString" in attributes:
            cas.sofas[number] = Sofa(number, attributes["sofaString"], element.line)
    elif kind is None:
        if "sofa" in attributes and "begin" in attributes:
            cas.add_layer(_type(element))
    elif kind == META:
        if (sofa := whole_number(attributes.get("sofa", ""))) is not None:
            cas.titles[sofa] = attributes.get("documentTitle", "")
    else:
        sofa, begin, end = (_number(element, key, cas.path) for key in ("sofa", "begin", "end"))
        cas.annotations.append(Annotation(number, kind, sofa, begin, end, attributes.get("value")))


def _members(element: Element, path: Path) -> list[int]:
    found = [whole_number(one) for one in element.attributes.get("members", "").split()]
    numbers = [one for one in found if one is not None]
    if len(numbers) < len(found):
        raise DataError(f"{at(path, element.line)}: the members of a view should be numbers; {AGAIN}")
    return numbers


class _Editor:
    """Collects what is to be changed in a file."""

    def __init__(self, file: XmlFile, cas: Cas) -> None:
        self._file, self._cas = file, cas
        self._sofas = cas.texts()
        self._units = [Units(sofa.text) for sofa in self._sofas]
        self._by_id = {whole_number(one.attributes[_ID]): one for one in file.elements if _ID in one.attributes}
        self._changes: list[tuple[Span, str]] = []
        self._removed: set[int] = set()
        self._added: dict[int, list[int]] = {}
        self._declared: dict[str, str] = {}
        self._prefixes: dict[str, str] = {}
        self._last: dict[int, Element] = {}

    def edit(self, number: int, edit: MarkEdit) -> None:
        """Change, remove or add one named entity of a text."""
        if edit.new is None:
            assert edit.old is not None
            self._remove(edit.old.key)
        elif edit.old is None:
            self._add(number, edit.new)
        else:
            self._change(number, edit.old, edit.new)

    def written(self) -> bytes:
        """The file with everything changed."""
        self._check_references()
        self._edit_views()
        self._declare()
        return self._file.replaced(self._changes)

    def _where(self) -> str:
        return at(self._cas.path)

    def _change(self, number: int, old: Mark, new: Mark) -> None:
        tag, unit = self._file.tag(self._by_id[old.key]), self._units[number].unit
        values = (("begin", old.start, new.start, unit), ("end", old.stop, new.stop, unit))
        self._changes += [(tag.attributes[key], str(as_(now))) for key, was, now, as_ in values if was != now]
        if old.label != new.label:
            self._changes.append((tag.attributes["value"], self._file.escaped(new.label, self._where())))

    def _remove(self, number: int) -> None:
        element = self._by_id[number]
        self._removed.add(number)
        self._changes.append(((self._file.space_before(element.start), self._file.stop(element)), ""))

    def _add(self, number: int, mark: Mark) -> None:
        sofa, units = self._sofas[number], self._units[number]
        uri, name = _name(ENTITY)
        given, xmi = self._prefix(uri, "type"), self._prefix(XMI, "xmi")
        new_id = self._cas.new_id()
        self._added.setdefault(sofa.id, []).append(new_id)
        text = (
            f'<{given and given + ":"}{name} {xmi}:id="{new_id}" sofa="{sofa.id}" begin="{units.unit(mark.start)}"'
            f' end="{units.unit(mark.stop)}" value="{self._file.escaped(mark.label, self._where())}"/>'
        )
        if sofa.id not in self._last:
            self._last[sofa.id] = self._last_of(sofa)
        self._insert_behind(self._last[sofa.id], text)

    def _last_of(self, sofa: Sofa) -> Element:
        """The element that new ones follow: the last named entity, or else the last of what is read, or the sofa."""
        own = [one for one in self._cas.annotations if one.sofa == sofa.id]
        own = [one for one in own if one.type == ENTITY] or own
        return self._by_id[own[-1].id if own else sofa.id]

    def _insert_behind(self, element: Element, text: str) -> None:
        place = self._file.stop(element)
        space = self._file.raw((self._file.space_before(element.start), element.start))
        self._changes.append(((place, place), space + text))

    def _prefix(self, uri: str, wanted: str) -> str:
        """The prefix of a namespace, which is declared at the root if it was not."""
        if uri not in self._prefixes:
            found = self._used_prefix(uri)
            self._prefixes[uri] = self._new_prefix(uri, wanted) if found is None else found
        return self._prefixes[uri]

    def _used_prefix(self, uri: str) -> str | None:
        """What the file calls a namespace; attributes need a prefix that is not empty."""
        prefixes = [prefix for prefix, one in self._file.prefixes.items() if one == uri and (prefix or uri != XMI)]
        elements = (one for one in self._file.elements if one.name.startswith(f"{uri} "))
        used = {self._file.tag(one).name.rpartition(":")[0] for one in islice(elements, 1)}
        return next((prefix for prefix in prefixes if prefix in used), prefixes[0] if prefixes else None)

    def _new_prefix(self, uri: str, wanted: str) -> str:
        names = (wanted, *(f"{wanted}{number}" for number in range(2, len(self._file.taken) + 3)))
        prefix = next(name for name in names if name not in self._file.taken)
        self._file.taken.add(prefix)
        self._declared[uri] = prefix
        return prefix

    def _declare(self) -> None:
        end = self._file.tag(self._file.root).end
        text = "".join(f' xmlns:{prefix}="{uri}"' for uri, prefix in self._declared.items())
        if text:
            self._changes.append(((end, end), text))

    def _check_references(self) -> None:
        """Raise if what is removed is needed; in XMI a reference looks like any other number."""
        for element in self._file.elements if self._removed else ():
            if element.name in (_VIEW, _SOFA) or _NAMES.get(element.name) == META:
                continue
            if whole_number(element.attributes.get(_ID, "")) in self._removed:
                continue
            kind = _type(element)
            values = _VALUES if kind == ENTITY or is_tools(kind) else _PLACES
            for key, value in element.attributes.items():
                if key not in values:
                    self._check_reference(element, key, value)

    def _check_reference(self, element: Element, key: str, value: str) -> None:
        for one in value.split():
            if whole_number(one) in self._removed:
                raise self._cas.needed(
                    int(one), f"{key} of the {element.name.rpartition(' ')[2]} in line {element.line}"
                )

    def _edit_views(self) -> None:
        views = [one for one in self._file.elements if one.name == _VIEW]
        last = {whole_number(view.attributes.get("sofa", "")): view for view in views}
        for view in views:
            sofa = whole_number(view.attributes.get("sofa", ""))
            added = self._added.pop(sofa, []) if sofa is not None and last[sofa] is view else []
            self._edit_view(view, added)
        for sofa, added in self._added.items():
            element = self._by_id[sofa]
            prefix = self._file.tag(element).name.removesuffix("Sofa")
            self._insert_behind(element, f'<{prefix}View sofa="{sofa}" members="{" ".join(map(str, added))}"/>')

    def _edit_view(self, view: Element, added: Sequence[int]) -> None:
        members, tag = view.attributes.get("members", ""), self._file.tag(view)
        changed = bool(added) or any(whole_number(one) in self._removed for one in members.split())
        if "members" in tag.attributes:
            span = tag.attributes["members"]
            raw = self._file.raw(span)
            if changed:
                self._changes.append((span, _edited_members(members if "&" in raw else raw, self._removed, added)))
        elif added:
            self._changes.append(((tag.end, tag.end), f' members="{" ".join(map(str, added))}"'))


def _edited_members(members: str, removed: set[int], added: Sequence[int]) -> str:
    """A list of numbers without some and with others at its end.

    >>> _edited_members("1 3  4", {1, 4}, [9])
    '3 9'
    """
    kept, place = list[str](), 0
    for one in members.split():
        start = members.index(one, place)
        if whole_number(one) not in removed:
            kept.append((members[place:start] if kept or place == 0 else "") + one)
        place = start + len(one)
    end = members[place:]
    return "".join(kept) + "".join(f" {one}" if kept or number else str(one) for number, one in enumerate(added)) + end
