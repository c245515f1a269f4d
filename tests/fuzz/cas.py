"""Random CAS documents of INCEpTION in XMI and JSON, by hand and by dkpro-cassis; and what must hold of each.

What was written is read by dkpro-cassis, which shares nothing with tagtrace.
"""

from __future__ import annotations

import html
import io
import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random
from typing import Any
from xml.sax.saxutils import quoteattr

from cassis import Cas, TypeSystem, load_cas_from_json, load_cas_from_xmi
from cassis.typesystem import TypeSystemMode

from tagtrace.data import Corpus, ReadOptions, Sentence, read_corpus, write_corpus
from tagtrace.data.schemes import segments
from tests.fuzz import pieces

CORE = "de.tudarmstadt.ukp.dkpro.core.api"
ENTITY, META = f"{CORE}.ner.type.NamedEntity", f"{CORE}.metadata.type.DocumentMetaData"
TOKEN, SENTENCE = f"{CORE}.segmentation.type.Token", f"{CORE}.segmentation.type.Sentence"
LEMMA, SPAN, RELATION = f"{CORE}.segmentation.type.Lemma", "webanno.custom.Span", "webanno.custom.Relation"
WORDS = (
    "Ada", "Lovelace", "lives", "in", "Oslo", "\U0001f60a", "Zo\xeb", "\u5317\u4eac", "x&y", '"q"', "<b>", "it's",
    "1,000", "e\u0301", "\U0001f469\u200d\U0001f4bb", ".", "!", "\\", "]]>",
)  # fmt: skip
GAPS = (" ",) * 6 + ("", "\n", "  ", "\t", "\xa0", "\r\n", "\u2028")
VALUES = ("PER", "ORG", "LOC", "a b", 'x&"y', "<", "\xdc\U0001f60a", "it's")
NEW = "ZZZ"


@dataclass
class Document:
    """A text and its structures: number, type and features. Offsets count characters; ``@`` marks references."""

    text: str
    sofa: int
    structures: list[tuple[int, str, dict[str, Any]]] = field(default_factory=list)
    hidden: set[int] = field(default_factory=set)
    """Those that are no members of the view."""


@cache
def type_system() -> TypeSystem:
    """The types of the documents, as TypeSystem.xml beside an export has them."""
    system = TypeSystem()
    features = {
        TOKEN: {"order": "Integer"}, SENTENCE: {"id": "String"}, LEMMA: {"value": "String"}, SPAN: {"label": "String"},
        ENTITY: {"value": "String", "identifier": "String"},
    }  # fmt: skip
    for name, own in features.items():
        kind = system.create_type(name, "uima.tcas.Annotation")
        for feature, value in own.items():
            system.create_feature(kind, feature, f"uima.cas.{value}")
    relation = system.create_type(RELATION, "uima.tcas.Annotation")
    system.create_feature(relation, "Governor", TOKEN)
    system.create_feature(relation, "Dependent", ENTITY)
    meta = system.create_type(META, "uima.tcas.DocumentAnnotation")
    for feature in ("documentTitle", "documentId"):
        system.create_feature(meta, feature, "uima.cas.String")
    return system


def document(rng: Random) -> Document:
    """A random document."""
    numbers = rng.sample(range(1, 200), 60)
    made = Document("", numbers.pop())
    if rng.random() < 0.8:
        made.structures.append((numbers.pop(), META, {"documentTitle": rng.choice(("one.txt", "", "a & b", "\u5317"))}))
    tokens, sentences = list[tuple[int, int]](), list[tuple[int, int]]()
    for _ in range(rng.randint(1, 3)):
        begin = len(made.text)
        for _ in range(rng.randint(1, 5)):
            word = rng.choice(WORDS)
            tokens.append((len(made.text), len(made.text) + len(word)))
            made.text += word + rng.choice(GAPS)
        sentences.append((begin, len(made.text.rstrip()) if rng.random() < 0.8 else len(made.text)))
    parts = [*[(TOKEN, *one) for one in tokens if rng.random() < 0.97], *[(SENTENCE, *one) for one in sentences]]
    without = rng.choice((None, None, None, TOKEN, SENTENCE))
    for kind, begin, end in parts:
        if kind != without:
            extra = {"order": rng.randint(0, 9)} if kind == TOKEN and rng.random() < 0.3 else {}
            made.structures.append((numbers.pop(), kind, {"begin": begin, "end": end, **extra}))
    _add_entities(rng, made, tokens, numbers)
    _add_others(rng, made, numbers)
    if rng.random() < 0.3:
        rng.shuffle(made.structures)
    return made


def _add_entities(rng: Random, made: Document, tokens: list[tuple[int, int]], numbers: list[int]) -> None:
    for _ in range(rng.choice((0, 1, 2, 4, 6))):
        first = rng.randrange(len(tokens))
        last = min(len(tokens) - 1, first + rng.choice((0, 0, 0, 1, 2)))
        begin, end = tokens[first][0], tokens[last][1]
        if rng.random() < 0.07:
            begin, end = sorted((rng.randint(0, len(made.text)), rng.randint(0, len(made.text))))
        features: dict[str, Any] = {"begin": begin, "end": end}
        if rng.random() < 0.95:
            features["value"] = rng.choice(VALUES)
        if rng.random() < 0.2:
            features["identifier"] = rng.choice(("http://x/1", "12", ""))
        made.structures.append((numbers.pop(), ENTITY, features))
        if rng.random() < 0.03:
            made.hidden.add(made.structures[-1][0])


def _add_others(rng: Random, made: Document, numbers: list[int]) -> None:
    by_type = {kind: number for number, kind, _ in made.structures}
    place = {"begin": 0, "end": min(3, len(made.text))}
    if rng.random() < 0.3:
        made.structures.append((numbers.pop(), LEMMA, {**place, "value": str(rng.randint(1, 200))}))
    if rng.random() < 0.2 and ENTITY in by_type:
        made.structures.append((numbers.pop(), SPAN, {**place, "label": "no"}))
    if rng.random() < 0.1 and {ENTITY, TOKEN} <= set(by_type):
        ends = {"@Governor": by_type[TOKEN], "@Dependent": by_type[ENTITY]}
        made.structures.append((numbers.pop(), RELATION, {**place, **ends}))


def _units(made: Document, feature: str, value: Any) -> Any:
    """The value of a feature as it is written: offsets count UTF-16 code units."""
    return len(made.text[:value].encode("utf-16-le")) // 2 if feature in ("begin", "end") else value


def _members(made: Document) -> list[int]:
    return sorted(number for number, _, _ in made.structures if number not in made.hidden)


def by_cassis(made: Document) -> Cas:
    """The document as dkpro-cassis has it."""
    system, types = type_system(), {}
    cas = Cas(system)
    cas.sofa_string, cas.sofa_mime = made.text, "text"
    for number, kind, features in made.structures:
        plain = {key: value for key, value in features.items() if not key.startswith("@")}
        types[number] = system.get_type(kind)(**plain)
    for number, _, features in made.structures:
        for key, value in features.items():
            if key.startswith("@"):
                setattr(types[number], key[1:], types[value])
        types[number].sofa = cas.get_sofa()
        if number not in made.hidden:
            cas.add(types[number], keep_id=False)
    return cas


def xmi(rng: Random) -> bytes:
    """A document in XMI, now and then damaged."""
    made = document(rng)
    if rng.random() < 0.3:
        data = by_cassis(made).to_xmi(pretty_print=rng.random() < 0.5)
        assert data is not None
    else:
        data = xmi_by_hand(rng, made)
    return _damaged(rng, data)


def cas_json(rng: Random) -> bytes:
    """A document in JSON, now and then damaged."""
    made = document(rng)
    if rng.random() < 0.3:
        mode = rng.choice((TypeSystemMode.FULL, TypeSystemMode.MINIMAL))
        data = by_cassis(made).to_json(
            pretty_print=rng.random() < 0.5, ensure_ascii=rng.random() < 0.5, type_system_mode=mode
        )
        assert data is not None
    else:
        data = json_by_hand(rng, made)
    return _damaged(rng, data)


def _damaged(rng: Random, text: str) -> bytes:
    mark = "\ufeff" if rng.random() < 0.1 else ""
    return pieces.bytes_of(rng, mark + text, rng.choice((0.0, 0.0, 0.0, 0.5)))


def xmi_by_hand(rng: Random, made: Document) -> str:
    """XMI as INCEpTION writes it, and as others may."""
    end, quote, numbered = rng.choice(("\n", "\n", "\r\n", "")), rng.choice('"""\''), rng.random() < 0.5
    prefixes: dict[str, str] = {"http://www.omg.org/XMI": "xmi", "http:///uima/cas.ecore": "cas"}
    for _, kind, _ in [*made.structures, *([(0, ENTITY, {})] if rng.random() < 0.5 else [])]:
        prefixes.setdefault(_uri(kind), f"type{len(prefixes)}" if kind != SPAN else "custom")
    if rng.random() < 0.2:
        prefixes["http:///other/type.ecore"] = "type"

    def value(text: Any) -> str:
        return _attribute(str(text), quote, numbered=numbered)

    lines = ['  <cas:NULL xmi:id="0"/>']
    for number, kind, features in made.structures:
        named = [("xmi:id", number), ("sofa", made.sofa)]
        named += [(key.removeprefix("@"), _units(made, key, one)) for key, one in features.items()]
        if kind == META:
            named += [("begin", 0), ("end", _units(made, "end", len(made.text)))]
        if rng.random() < 0.1:
            rng.shuffle(named)
        gap = rng.choice((" ",) * 9 + ("\n      ",))
        tag = f"{prefixes[_uri(kind)]}:{kind.rpartition('.')[2]}"
        close = rng.choice(("/>",) * 9 + (" />", f"></{tag}>", f">\n  </{tag} >"))
        lines.append(f"  <{tag}{''.join(f'{gap}{key}={value(one)}' for key, one in named)}{close}")
        if rng.random() < 0.03:
            lines.append(
                rng.choice(
                    (
                        "  <!-- <a> -->",
                        "<?a b?>",
                        f'  <cas:StringArray xmi:id="{900 + number}"><elements>9</elements></cas:StringArray>',
                    )
                )
            )
    sofa = f'  <cas:Sofa xmi:id="{made.sofa}" sofaNum="1" sofaID="_InitialView" sofaString={value(made.text)}/>'
    space = rng.choice((" ", " ", " ", "  ", "\n"))
    members = _members(made)
    view = f'  <cas:View sofa="{made.sofa}" members="{space.join(map(str, members))}"/>'
    if not members and rng.random() < 0.5:
        view = rng.choice(("", f'  <cas:View sofa="{made.sofa}"/>'))
    lines = [sofa, *lines, view] if rng.random() < 0.2 else [*lines, sofa, view]
    declared = "".join(f' xmlns:{prefix}="{uri}"' for uri, prefix in prefixes.items())
    head = rng.choice(('<?xml version="1.0" encoding="UTF-8"?>', '<?xml version="1.0" ?>\n', ""))
    return f'{head}<xmi:XMI{declared} xmi:version="2.0">{end}{end.join(lines)}{end}</xmi:XMI>{end}'


def _uri(kind: str) -> str:
    return f"http:///{kind.rpartition('.')[0].replace('.', '/')}.ecore"


def _attribute(text: str, quote: str, *, numbered: bool) -> str:
    entities = {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"}
    made = quoteattr(text, entities)
    if quote == "'" and "'" not in made and made.startswith('"'):
        made = f"'{made[1:-1]}'"
    return "".join(f"&#{ord(one)};" if numbered and one > "\uffff" else one for one in made)


def json_by_hand(rng: Random, made: Document) -> str:
    """JSON as the Java implementation writes it, and as others may."""
    caret = "^" if rng.random() < 0.1 else ""
    structures: list[dict[str, Any]] = []
    sofa = {"sofaNum": 1, "sofaID": "_InitialView", "mimeType": "text", "sofaString": made.text}
    structures.append({"%ID": made.sofa, "%TYPE": "uima.cas.Sofa", **sofa})
    for number, kind, features in made.structures:
        own = {
            (caret if key in ("begin", "end") else "") + key: _units(made, key, one) for key, one in features.items()
        }
        if kind == META:
            own = {"begin": 0, "end": _units(made, "end", len(made.text)), **own}
        structures.append({"%ID": number, "%TYPE": kind, "@sofa": made.sofa, **own})
    data: dict[str, Any] = {"%TYPES": _types(rng, made)} if rng.random() < 0.9 else {"%HEADER": {"%VERSION": "0.4.0"}}
    data["%FEATURE_STRUCTURES"] = structures
    if rng.random() < 0.3:
        data["%FEATURE_STRUCTURES"] = {str(one.pop("%ID")): one for one in structures}
    data["%VIEWS"] = {"_InitialView": {"%SOFA": made.sofa, "%MEMBERS": _members(made)}}
    separators = rng.choice(((",", ":"), (", ", " : "), (", ", ": "), (" ,\t", ": ")))
    text = json.dumps(data, ensure_ascii=rng.random() < 0.5, indent=rng.choice((None, 1, 2)), separators=separators)
    return text.replace("\n", rng.choice(("\n", "\n", "\r\n")))


@cache
def _all_types() -> str:
    text = Cas(type_system()).to_json()
    assert text is not None
    return json.dumps(json.loads(text)["%TYPES"])


def _types(rng: Random, made: Document) -> dict[str, Any]:
    """The type system of a file, sometimes without types that are not used."""
    types = json.loads(_all_types())
    if rng.random() < 0.5 and not any(kind == ENTITY for _, kind, _ in made.structures):
        del types[ENTITY], types[RELATION]
    return types


Load = Callable[[bytes], Cas]


def load_xmi(data: bytes) -> Cas:
    return load_cas_from_xmi(io.BytesIO(data), type_system())


def load_json(data: bytes) -> Cas:
    """With the file's own types if these are not all; otherwise with all, which is faster."""
    text = data.decode("utf-8-sig")
    types = json.loads(text).get("%TYPES")
    if types is None or RELATION in types:
        return load_cas_from_json(text, type_system(), merge_typesystem=False)
    return load_cas_from_json(text)


def contents(data: bytes, load: Load) -> tuple[dict[int, Any], dict[str, Any]] | None:
    """What dkpro-cassis reads: the structures by their numbers, and the views; None if it cannot, or guesses."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            text = load(data).to_json(type_system_mode=TypeSystemMode.NONE)
    except Exception:
        return None
    assert text is not None
    made = json.loads(text)
    if text.count('"sofaNum"') != data.count(b"sofaNum"):
        return None  # it has made up a text for a view that has none
    return {one["%ID"]: one for one in made["%FEATURE_STRUCTURES"]}, made["%VIEWS"]


def checked(name: str, load: Load) -> Callable[[Path], object]:
    """Reads a file, writes it unchanged, with one other type and with random labels; AssertionError if one is wrong."""

    def read(path: Path) -> None:
        corpus = read_corpus(path, ReadOptions(format=name), require_labels=False)
        copy, data = path.with_name("copy"), path.read_bytes()
        write_corpus(corpus, copy)
        assert copy.read_bytes() == data
        if corpus.options.labelled:
            rng = Random(data)
            _check_one_type(corpus, copy, name)
            _check_labels(rng, corpus, copy, name, load)

    return read


def _check_one_type(corpus: Corpus, copy: Path, name: str) -> None:
    """Another type of the first entity changes its value and not a byte more."""
    for number, sentence in enumerate(corpus.sentences):
        for one in segments(sentence.labels, "iob2"):
            labels = list(sentence.labels)
            labels[one.start : one.stop] = [f"{label[:2]}{NEW}" for label in labels[one.start : one.stop]]
            sentences = [*corpus.sentences]
            sentences[number] = sentence.with_labels(labels)
            write_corpus(corpus.with_sentences(sentences), copy)
            before, after = corpus.path.read_bytes(), copy.read_bytes()
            if after.count(NEW.encode()) > before.count(NEW.encode()) + 1:
                return  # the entity is there twice
            start = _common(before, after)
            rest = _common(before[start:][::-1], after[start:][::-1])
            old = before[start : len(before) - rest].decode()
            shown = html.unescape(old) if name == "xmi" else json.loads(f'"{old}"')
            assert (shown, after[start : len(after) - rest]) == (one.type, NEW.encode())
            return


def _common(one: bytes, other: bytes) -> int:
    """How many bytes two texts begin with alike."""
    return next(
        (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


def _check_labels(rng: Random, corpus: Corpus, copy: Path, name: str, load: Load) -> None:
    """Random labels: what dkpro-cassis reads are these labels, and all else is as it was."""
    wanted = [_relabelled(rng, one) for one in corpus.sentences]
    write_corpus(corpus.with_sentences(wanted), copy)
    again = read_corpus(copy, ReadOptions(format=name), require_labels=False)
    assert [t for one in again.sentences for t in one.tokens] == [t for one in wanted for t in one.tokens]
    if again.options.labelled and not any("kept as it is" in reason for _, reason in corpus.skipped):
        assert [t for one in again.sentences for t in one.labels] == [t for one in wanted for t in one.labels]
    before = contents(corpus.path.read_bytes(), load)
    if before is None:
        return
    after = contents(copy.read_bytes(), load)
    assert after is not None, "dkpro-cassis reads the file but not what was written"
    _check_contents(before, after)


def _relabelled(rng: Random, sentence: Sentence) -> Sentence:
    labels = list(sentence.labels)
    for _ in range(rng.choice((0, 1, 1, 3))):
        start = rng.randrange(len(labels))
        stop = min(len(labels), start + rng.randint(1, 3))
        kind = rng.choice((None, "PER", "ORG", 'n<&"w', "\xe9"))
        labels[start:stop] = ["O" if kind is None else f"I-{kind}" for _ in range(start, stop)]
        labels[start] = "O" if kind is None else f"B-{kind}"
        if stop < len(labels) and labels[stop].startswith("I-"):
            labels[stop] = f"B-{labels[stop][2:]}"
    return sentence.with_labels(labels)


def _check_contents(before: Any, after: Any) -> None:
    (old, old_views), (new, new_views) = before, after
    changing = ("begin", "end", "value")
    for number, one in old.items():
        if one["%TYPE"] != ENTITY:
            assert new[number] == one
        elif number in new:
            kept = [{key: value for key, value in each.items() if key not in changing} for each in (one, new[number])]
            assert kept[0] == kept[1]
    assert all(one["%TYPE"] == ENTITY for number, one in new.items() if number not in old)
    gone, added = set(old) - set(new), set(new) - set(old)
    for name, view in old_views.items():
        members = set(view["%MEMBERS"]) - gone
        assert members <= set(new_views[name]["%MEMBERS"]) <= members | added
    assert added <= {one for view in new_views.values() for one in view["%MEMBERS"]}
