"""A slow reader of WebAnno TSV 3.2 and 3.3, written from INCEpTION's documentation and the behaviour of its own reader.

It shares nothing with tagtrace. Rows are taken one after the other; a number in brackets extends the annotation that
had it first, and without one the place in the stack of the row says which annotation a cell is about.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

ENTITY = "de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity"
RESERVED = ("\\", "[", "]", "|", "_", "->", ";", "\t", "\n", "*")
LETTERS = {"t": "\t", "n": "\n", "f": "\f", "r": "\r", "b": "\b"}


@dataclass(eq=False)
class Span:
    """One annotation. Offsets count UTF-16 code units."""

    layer: str
    begin: int
    end: int
    features: dict[str, object] = field(default_factory=dict)

    def plain(self) -> tuple[object, ...]:
        return (self.layer, self.begin, self.end, tuple(sorted((k, repr(v)) for k, v in self.features.items())))


@dataclass
class Contents:
    """What a file has: annotations by their rows, relations as (features, source, target)."""

    text: str = ""
    tokens: list[tuple[int, int]] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    relations: list[tuple[tuple[str, ...], Span, Span]] = field(default_factory=list)

    def of(self, layer: str) -> list[Span]:
        return [one for one in self.spans if one.layer == layer]


def read(data: bytes) -> Contents:
    """AssertionError, or another error, where the rules are broken."""
    lines = re.split(r"\r\n|\r|\n", data.decode("utf-8-sig"))
    assert re.fullmatch(r"#FORMAT=WebAnno TSV 3\.[23]", lines.pop(0))
    columns: list[tuple[str, str, str]] = []
    while (found := re.fullmatch("#T_(SP|RL|CH)=(.*)", lines[0])) is not None:
        layer, *names = [name for name in found[2].split("|") if name]
        columns += [(found[1], layer, name) for name in names or [""]]
        lines.pop(0)
    assert lines.pop(0) == lines.pop(0) == ""
    return _Body(columns).read(lines)


class _Body:
    def __init__(self, columns: list[tuple[str, str, str]]) -> None:
        self.columns, self.made = columns, Contents()
        self.units: dict[str, dict[str, list[Span]]] = {}
        self.by_number: dict[int, Span] = {}
        self.later: list[tuple[str, str, list[str], str, Span | None]] = []

    def read(self, lines: list[str]) -> Contents:
        fragments: list[str] = []
        units = self.made.text.encode("utf-16-le")
        num_sentences = num_tokens = num_parts = 0
        for line in [*lines, ""]:
            if line.startswith("#"):
                if line.startswith("#Text="):
                    fragments.append(_text(line[6:]))
            elif line:
                fields = line.split("\t")
                assert len(fields) >= len(self.columns) + 3
                begin, end = map(int, fields[1].split("-"))
                if fragments:
                    text = "\n".join(fragments).encode("utf-16-le")
                    assert begin >= len(units) // 2
                    gap = begin - len(units) // 2
                    units += (("\n" + " " * (gap - 1)) if gap and units else " " * gap).encode("utf-16-le") + text
                    fragments, num_tokens, num_sentences = [], 0, num_sentences + 1
                is_part = "." in fields[0]
                num_tokens, num_parts = (num_tokens, num_parts + 1) if is_part else (num_tokens + 1, 0)
                unit = f"{num_sentences}-{num_tokens}" + f".{num_parts}" * is_part
                assert fields[0] == unit
                covered = units[2 * begin : 2 * end].decode("utf-16-le")
                assert covered in (fields[2], _text(fields[2]))
                if not is_part:
                    self.made.tokens.append((begin, end))
                self._cells(unit, begin, end, fields[3:])
            else:
                assert not fragments
        self.made.text = units.decode("utf-16-le")
        self._resolve()
        return self.made

    def _cells(self, unit: str, begin: int, end: int, cells: list[str]) -> None:
        here = self.units.setdefault(unit, {})
        previous = ""
        for (kind, layer, name), cell in zip(self.columns, cells, strict=False):
            is_target = kind == "SP" and previous.startswith("ROLE_")
            role, previous = previous, name
            if cell == "_" or kind == "CH":
                continue
            items = re.split(r"(?<!\\)\|", cell)
            if kind == "RL":
                self.later.append((layer, name, items, unit, None))
                continue
            stack = here.setdefault(layer, [])
            for place, item in enumerate(items):
                numbered = None if is_target else re.fullmatch(r"(.*)\[(\d+)\]", item, re.DOTALL)
                numbered = None if item.endswith("\\]") else numbered
                span = self._span(stack, place, layer, (begin, end), int(numbered[2]) if numbered else 0)
                value = numbered[1] if numbered else item
                if is_target:
                    self.later.append((name, role, [value], unit, span))
                elif name.startswith("ROLE_"):
                    roles = [] if value == "_" else re.split(r"(?<!\\);", value)
                    span.features[name] = [None if one == "*" else _value(one) for one in roles]
                elif name:
                    span.features[name] = None if value == "*" else _value(value)

    def _span(self, stack: list[Span], place: int, layer: str, range_: tuple[int, int], number: int) -> Span:
        span = stack[place] if place < len(stack) else None
        if span is None and number in self.by_number:
            span = self.by_number[number]
            assert span not in stack
            assert span.layer == layer
            span.end = range_[1]
            stack.append(span)
        if span is None:
            span = Span(layer, *range_)
            stack.append(span)
            self.made.spans.append(span)
        if number:
            assert self.by_number.setdefault(number, span) is span
        return span

    def _resolve(self) -> None:
        """Relations and slots, once all annotations are there."""
        features: dict[tuple[str, str], list[list[str]]] = {}
        for layer, name, items, unit, span in self.later:
            if span is not None:
                targets = [] if items[0] == "*" else re.split(r"(?<!\\);", items[0])
                links = [self._target(layer, *_reference(one)[:2]) for one in targets]
                known = span.features.setdefault(f"{name} targets", links)
                assert known == links
            elif name.startswith("BT_"):
                for place, item in enumerate(items):
                    source_unit, source, target = _reference(item)
                    others = tuple(each[place] for each in features.get((layer, unit), []))
                    ends = (self._target(name[3:], source_unit, source), self._target(name[3:], unit, target))
                    self.made.relations.append((others, *ends))
            else:
                features.setdefault((layer, unit), []).append(items)

    def _target(self, layer: str, unit: str, number: int) -> Span:
        return self.by_number[number] if number else self.units[unit][layer][0]


def _reference(item: str) -> tuple[str, int, int]:
    found = re.fullmatch(r"([\d.-]+)(?:\[(\d+)(?:_(\d+))?\])?", item)
    assert found is not None
    return found[1], int(found[2] or 0), int(found[3] or 0)


def _text(written: str) -> str:
    return re.sub(r"\\([\\tnfrb])", lambda found: LETTERS.get(found[1], found[1]), written)


def _value(written: str) -> str:
    return re.sub(r"\\(->|[\\\[\]|_;tn*])", lambda found: {"t": "\t", "n": "\n"}.get(found[1], found[1]), written)


def escaped_value(value: str) -> str:
    made, place = "", 0
    while place < len(value):
        one = next((each for each in RESERVED if value.startswith(each, place)), None)
        made += value[place] if one is None else "\\" + {"\t": "t", "\n": "n"}.get(one, one)
        place += len(one or "x")
    return made


def escaped_text(text: str) -> str:
    names = {character: letter for letter, character in LETTERS.items()} | {"\\": "\\"}
    return "".join("\\" + names[one] if one in names else one for one in text)
