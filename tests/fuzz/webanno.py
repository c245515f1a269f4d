"""Random documents in WebAnno TSV as INCEpTION writes them, and the check that relabelling changes entities only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.data.formats.webanno_reader import ENTITY, Contents, escaped_text, escaped_value, read
from tests.fuzz import annotated, pieces

WORDS = (
    "Orla", "Vane", "Oslo", "\U0001f30a", "e\u0301t\u00e9", "\u96e8", "a_b", "[x]", "a|b", "\\", "\\n", "*", "_", "->",
    ";", ".", "#", "1,000", "\U0001f469\U0001f3fd\u200d\U0001f4bb", "a b",
)  # fmt: skip
LABELS = ("PER", "LOC", "a_b", "x[1]", "a|b", "->", "*", "_", "\u00e9;", "a\\b", "two words", "\t", "]")
POS, SPAN, RELATION = "de.tudarmstadt.ukp.dkpro.core.api.lexmorph.type.pos.POS", "webanno.custom.S", "webanno.custom.R"
HOST, CHAIN = "webanno.custom.Host", "de.tudarmstadt.ukp.dkpro.core.api.coref.type.CoreferenceLink"
ROLE = "ROLE_webanno.custom.Host:links_webanno.custom.HostLinksLink"


@dataclass(eq=False)
class _Annotation:
    rows: list[int]
    features: dict[str, str | None] = field(default_factory=dict)
    number: int | None = None

    def item(self, feature: str) -> str:
        value = self.features.get(feature)
        return ("*" if value is None else escaped_value(value)) + self.suffix

    @property
    def suffix(self) -> str:
        return "" if self.number is None else f"[{self.number}]"


@dataclass
class _Row:
    unit: str
    begin: int
    end: int
    text: str


def webanno(rng: Random) -> bytes:
    """A document, often damaged."""
    data = sound(rng)
    return pieces.damaged(rng, data) if rng.random() < 0.4 else data


def sound(rng: Random) -> bytes:
    """A document as INCEpTION may have it."""
    sentences, rows = list[tuple[list[str], list[int]]](), list[_Row]()
    place = rng.choice((0, 0, 0, 2))
    for number in range(rng.randint(1, 3)):
        place = _sentence(rng, number + 1, place, sentences, rows)
        place += rng.choice((1, 1, 1, 0, 2, 5))
    entities = _annotations(rng, rows, LABELS)
    for number, one in enumerate(entities):
        one.features["identifier"] = f"Q{number}"
    layers: list[tuple[str, list[_Annotation], list[str]]] = []
    names = rng.choice((["value"], ["identifier", "value"], ["identifier", "value"], ["identifier", "note", "value"]))
    if rng.random() < 0.5:
        layers.append((f"#T_SP={POS}|PosValue", _pos(rng, rows), ["PosValue"]))
    layers.insert(rng.randint(0, len(layers)), (f"#T_SP={ENTITY}|{'|'.join(names)}", entities, names))
    if rng.random() < 0.5:
        layers.append((f"#T_SP={SPAN}|", _annotations(rng, rows, LABELS), [""]))
    _number(rng, [some for _, some, _ in layers])
    header, columns = (
        [line for line, _, _ in layers],
        [_column(rows, some, n) for _, some, names in layers for n in names],
    )
    if entities and rng.random() < 0.3:
        _add_slots(rng, rows, entities, header, columns)
    if rng.random() < 0.2:
        header.append(f"#T_CH={CHAIN}|referenceType|referenceRelation")
        chained = {number: place for place, number in enumerate(rng.sample(range(len(rows)), min(2, len(rows))))}
        columns.append([f"pr[{7}]" if number in chained else "_" for number in range(len(rows))])
        columns.append([f"*->7-{chained[number] + 1}" if number in chained else "_" for number in range(len(rows))])
    if entities and rng.random() < 0.3:
        _add_relations(rng, rows, entities, header, columns)
    return _written(rng, header, columns, sentences, rows)


def _sentence(rng: Random, number: int, place: int, sentences: list[Any], rows: list[_Row]) -> int:
    text, own, start = "", list[int](), place
    for token in range(1, rng.randint(1, 5) + 1):
        word = rng.choice(WORDS)
        begin = start + _units(text)
        own.append(len(rows))
        rows.append(_Row(f"{number}-{token}", begin, begin + _units(word), word))
        parts = sorted({tuple(sorted((rng.randint(0, len(word)), rng.randint(0, len(word))))) for _ in range(2)})
        for part, (first, last) in enumerate(parts if rng.random() < 0.15 else [], start=1):
            own.append(len(rows))
            ends = (begin + _units(word[:first]), begin + _units(word[:last]))
            rows.append(_Row(f"{number}-{token}.{part}", *ends, word[first:last]))
        text += word + rng.choice((" ", " ", " ", "", "\n", "  ", "\t"))
    text = text.rstrip(" \n\t") if rng.random() < 0.8 else text
    sentences.append((text.split("\n"), own))
    return start + _units(text)


def _units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def _annotations(rng: Random, rows: Sequence[_Row], labels: Sequence[str]) -> list[_Annotation]:
    tokens = [number for number, row in enumerate(rows) if "." not in row.unit]
    made = list[_Annotation]()
    for number, row in enumerate(rows):
        if "." in row.unit:
            made += [_Annotation([number], {"value": rng.choice(labels)})] * (rng.random() < 0.7)
        elif rng.random() < 0.25:
            first = tokens.index(number)
            one = _Annotation(tokens[first : first + rng.choice((1, 1, 2, 3))], {"value": rng.choice(labels)})
            if rng.random() < 0.06:
                one.features["value"] = None
            made.append(one)
            if rng.random() < 0.1:
                made.append(_Annotation(one.rows[: rng.choice((1, 9))], {"value": rng.choice((*labels[:2], "PER"))}))
    return made


def _pos(rng: Random, rows: Sequence[_Row]) -> list[_Annotation]:
    return [_Annotation([n], {"PosValue": rng.choice("NV")}) for n, row in enumerate(rows) if "." not in row.unit]


def _number(rng: Random, layers: Sequence[Sequence[_Annotation]]) -> None:
    """Numbers for annotations on several rows, and for those that are stacked."""
    number = rng.choice((0, 0, 20))
    for some in layers:
        counts = Counter(row for one in some for row in one.rows)
        for one in some:
            if len(one.rows) > 1 or counts[one.rows[0]] > 1:
                number += 1
                one.number = number


def _column(rows: Sequence[_Row], some: Sequence[_Annotation], name: str) -> list[str]:
    items = {number: [one.item(name) for one in some if number in one.rows] for number in range(len(rows))}
    return ["|".join(items[number]) or "_" for number in range(len(rows))]


def _add_slots(
    rng: Random, rows: Sequence[_Row], entities: Sequence[_Annotation], header: list[str], columns: list[list[str]]
) -> None:
    header.append(f"#T_SP={HOST}|{ROLE}|{ENTITY}")
    host, some = rng.randrange(len(rows)), [rng.choice(entities) for _ in range(rng.randint(0, 2))]
    roles, targets = ";".join("*" for _ in some) or "_", ";".join(f"{rows[e.rows[0]].unit}{e.suffix}" for e in some)
    columns.append([roles if number == host else "_" for number in range(len(rows))])
    columns.append([targets or "*" if number == host else "_" for number in range(len(rows))])


def _add_relations(
    rng: Random, rows: Sequence[_Row], entities: Sequence[_Annotation], header: list[str], columns: list[list[str]]
) -> None:
    header.append(f"#T_RL={RELATION}|label|BT_{ENTITY}")
    pairs = [(rng.choice(entities), rng.choice(entities)) for _ in range(rng.randint(1, 2))]
    cells: dict[int, list[str]] = {}
    for source, target in pairs:
        numbered = source.number is not None or target.number is not None
        suffix = f"[{source.number or 0}_{target.number or 0}]" if numbered else ""
        cells.setdefault(target.rows[0], []).append(f"{rows[source.rows[0]].unit}{suffix}")
    columns.append(["|".join("*" for _ in cells.get(number, ())) or "_" for number in range(len(rows))])
    columns.append(["|".join(cells.get(number, ())) or "_" for number in range(len(rows))])


def _written(
    rng: Random, header: list[str], columns: list[list[str]], sentences: list[Any], rows: Sequence[_Row]
) -> bytes:
    last, version = rng.choice(("\t", "\t", "")), rng.choice(("3.3", "3.3", "3.2"))
    lines = [f"#FORMAT=WebAnno TSV {version}", *header, ""]
    for number, (texts, own) in enumerate(sentences):
        lines.append("")
        if rng.random() < 0.2:
            lines.append(f"#Sentence.id=s{number}")
        lines += [f"#Text={escaped_text(text)}" for text in texts]
        for one in own:
            row = rows[one]
            cells = [column[one] for column in columns]
            lines.append("\t".join([row.unit, f"{row.begin}-{row.end}", row.text, *cells]) + last)
    end = rng.choice(("\n", "\n", "\n", "\r\n"))
    return end.join([*lines, ""]).encode("utf-8-sig" if rng.random() < 0.05 else "utf-8")


def check(before: bytes, after: bytes, line: int, gone: int, come: int) -> None:  # noqa: ARG001
    """Only cells of entities differ, and by the rules only so many entities; all that refers to them still does."""
    _check_cells(before, after)
    try:
        was = read(before)
    except Exception:
        return  # a damaged file, of which tagtrace understands more
    now = read(after)
    assert (was.text, was.tokens) == (now.text, now.tokens)
    assert _others(was) == _others(now)
    assert Counter(map(_relation, was.relations)) == Counter(map(_relation, now.relations))
    old, new = (Counter((e.begin, e.end, e.features.get("value")) for e in one.of(ENTITY)) for one in (was, now))
    twins = sum(count - 1 for count in (old | new).values())
    assert (old - new).total() <= gone + twins
    assert (new - old).total() <= come + twins
    names = [{e.features.get("identifier") for e in one.of(ENTITY)} for one in (was, now)]
    assert names[1] <= {*names[0], None, "*"}


def _others(contents: Contents) -> Counter[Any]:
    return Counter(_plain(one) for one in contents.spans if one.layer != ENTITY)


def _plain(one: Any) -> Any:
    """A span whose slots name what they refer to by its identifier, which stays when that moves."""
    own = {key: value for key, value in one.features.items() if not key.endswith(" targets")}
    links = [
        link.features.get("identifier")
        for key in one.features
        if key.endswith(" targets")
        for link in one.features[key]
    ]
    return one.layer, one.begin, one.end, repr(own), tuple(links)


def _relation(one: Any) -> Any:
    return one[0], one[1].features.get("identifier"), one[2].features.get("identifier")


def _check_cells(before: bytes, after: bytes) -> None:
    """Every line has the same fields but for those of the layer of entities."""
    old, new = before.split(b"\n"), after.split(b"\n")
    columns = list[bool]()
    for line in old:
        if line.startswith((b"#T_SP=", b"#T_CH=", b"#T_RL=")):
            layer, *names = [name for name in line.strip(b"\r")[6:].split(b"|") if name] or [b""]
            columns += [layer == ENTITY.encode()] * max(1, len(names))
    for one, other in zip(old, new, strict=True):
        if one != other:
            cells, others = one.split(b"\t"), other.split(b"\t")
            differ = [place for place, pair in enumerate(zip(cells, others, strict=True)) if pair[0] != pair[1]]
            assert all(place >= 3 and columns[place - 3] for place in differ), (one, other)


relabelled = annotated.read_and_relabel("webanno-tsv", check)
