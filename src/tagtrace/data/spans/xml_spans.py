"""The elements of an XML file with their places in its bytes, so that one can be changed and the rest kept.

Nothing is expanded and nothing fetched: a file with a document type declaration, the only place where entities are
declared, is refused. UTF-8 is the only encoding, so that places in the bytes are places in the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from tagtrace._checks import DataError, at
from tagtrace.data.source import shown

Span = tuple[int, int]

MAX_BYTES = 1 << 28
MAX_DEPTH = 8
_ENCODINGS = ("utf-8", "utf8", "us-ascii", "ascii")
_NAME = re.compile(rb"<([^\s/>]+)")
_ATTRIBUTE = re.compile(rb"""\s+([^\s=]+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&apos;"}
_TO_ESCAPE = re.compile("[&<>\"'\t\n\r]")


@dataclass(frozen=True, slots=True)
class Element:
    """A child of the root. Names with a namespace are written ``uri name``."""

    name: str
    attributes: dict[str, str]
    line: int
    start: int
    close: int
    """Where its end tag begins, or behind its start tag if it has no other."""


@dataclass(frozen=True, slots=True)
class Tag:
    """A start tag as it is written, with its prefixes."""

    name: str
    attributes: dict[str, Span]
    """The places of the values, without their quotes."""
    end: int
    """Behind the last attribute, or behind the name if there is none."""


@dataclass(slots=True)
class XmlFile:
    """A file's root and the children of it. ``prefixes`` are the root's, ``taken`` those that are declared anywhere."""

    data: bytes
    root: Element
    elements: list[Element]
    prefixes: dict[str, str] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)

    def tag(self, element: Element) -> Tag:
        """The start tag of an element."""
        named = _NAME.match(self.data, element.start)
        assert named is not None
        attributes, end = dict[str, Span](), named.end()
        while (found := _ATTRIBUTE.match(self.data, end)) is not None:
            attributes[found[1].decode()] = found.span(2 if found[2] is not None else 3)
            end = found.end()
        return Tag(named[1].decode(), attributes, end)

    def stop(self, element: Element) -> int:
        """Where an element has ended."""
        is_empty = self.data[self.tag(element).end : element.close].strip() == b"/>"
        return element.close if is_empty else self.data.index(b">", element.close) + 1

    def raw(self, span: Span) -> str:
        """What is written at a place."""
        return self.data[slice(*span)].decode()

    def space_before(self, place: int) -> int:
        """Where the spaces begin that stand before a place."""
        while place > 0 and self.data[place - 1] in b" \t\r\n":
            place -= 1
        return place

    def escaped(self, value: str, where: str) -> str:
        """A value as it stands in an attribute; with numbers for characters where the file has only ASCII."""
        if (found := _NOT_XML.search(value)) is not None:
            raise DataError(
                f"{where}: XML cannot have the character {found[0]!r} of {shown(value)}; choose another label"
            )
        text = _TO_ESCAPE.sub(lambda one: _ESCAPES.get(one[0], f"&#{ord(one[0])};"), value)
        return text.encode("ascii", "xmlcharrefreplace").decode() if self.data.isascii() else text

    def replaced(self, changes: Iterable[tuple[Span, str]]) -> bytes:
        """The file with these places changed; they do not overlap."""
        pieces, place = list[bytes](), 0
        for (start, stop), text in sorted(changes, key=lambda one: one[0]):
            pieces += [self.data[place:start], text.encode()]
            place = stop
        return b"".join([*pieces, self.data[place:]])


def parsed(data: bytes, path: Path) -> XmlFile:
    """The elements of a file; DataError unless it is well-formed XML in UTF-8 without entities of its own."""
    if len(data) > MAX_BYTES:
        raise DataError(f"{at(path)}: has more than {MAX_BYTES >> 20} MiB of XML; divide the document")
    _check_utf8(data, path)
    handler = _Handler(path)
    try:
        handler.parser.Parse(data, True)
    except expat.ExpatError as error:
        reason = expat.errors.messages.get(error.code, "unknown")
        raise DataError(
            f"{at(path, error.lineno)}: is not well-formed XML 1.0 ({reason}); export the document again"
        ) from None
    assert handler.root is not None
    return XmlFile(data, handler.root, handler.elements, handler.prefixes, handler.taken)


def _check_utf8(data: bytes, path: Path) -> None:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{at(path)}: byte {error.start} is not UTF-8; convert the file to UTF-8") from None
    if b"\0" in data:
        raise DataError(f"{at(path)}: byte {data.index(bytes(1))} is zero; convert the file to UTF-8")


class _Handler:
    """What is collected while a file is parsed."""

    def __init__(self, path: Path) -> None:
        self.root: Element | None = None
        self.elements: list[Element] = []
        self.prefixes: dict[str, str] = {}
        self.taken: set[str] = set()
        self._path, self._depth = path, 0
        self.parser = expat.ParserCreate("utf-8", " ")
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.StartNamespaceDeclHandler = self._namespace
        self.parser.XmlDeclHandler = self._declaration
        self.parser.StartDoctypeDeclHandler = self._doctype

    def _declaration(self, _version: str, encoding: str | None, _standalone: int) -> None:
        if encoding is not None and encoding.lower() not in _ENCODINGS:
            raise DataError(f"{at(self._path)}: is in the encoding {shown(encoding)}; convert it to UTF-8")

    def _doctype(self, *_: object) -> None:
        line = self.parser.CurrentLineNumber
        raise DataError(f"{at(self._path, line)}: has a document type (DOCTYPE), which is not read; remove it")

    def _namespace(self, prefix: str | None, uri: str | None) -> None:
        self.taken.add(prefix or "")
        if self.root is None:
            self.prefixes[prefix or ""] = uri or ""

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        line, start = self.parser.CurrentLineNumber, self.parser.CurrentByteIndex
        if self._depth >= MAX_DEPTH:
            raise DataError(
                f"{at(self._path, line)}: its elements are nested too deep; check that it is the right format"
            )
        if self._depth == 0:
            self.root = Element(name, attributes, line, start, start)
        elif self._depth == 1:
            self.elements.append(Element(name, attributes, line, start, start))
        self._depth += 1

    def _end(self, _name: str) -> None:
        self._depth -= 1
        if self._depth == 1:
            one = self.elements[-1]
            close = self.parser.CurrentByteIndex
            self.elements[-1] = Element(one.name, one.attributes, one.line, one.start, close)
