"""A small corpus of invented newswire with known label errors: the demo's data, made without a download.

Clubs are named after cities and companies after people, so a tagger has to read the context: a team is ORG
(``Varnholt beat Ostrel``), the place it plays in is LOC (``police in Varnholt``). Two kinds of wrong labels are
planted in the training split, and only there:

- *systematic*: in four of five handball reports every club that goes by its bare city name is labelled LOC;
- *random*: a small share of all other segments gets another type, another boundary or no label at all.

The text depends only on the seed and the number of documents, not on the errors asked for.

>>> corpus = generate(seed=0, num_documents=40)
>>> len(corpus.errors) == len({(e.sentence, e.start) for e in corpus.errors})
True
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from random import Random
from typing import NamedTuple, TypeVar

from tagtrace._checks import OptionError
from tagtrace._files import file_moved_when_whole
from tagtrace.data import invented_words as words
from tagtrace.data.sentence import Segment, Sentence

TYPES = ("LOC", "MISC", "ORG", "PER")
SYSTEMATIC_KIND = "handball"
"""The kind of report with the systematic error; its headlines begin with this word in capitals."""

_SPLITS = ("train", "dev", "test")
_SHARED = 0.64  # of each list of names, the part that every split uses; the rest is dealt to one split each
_OWN = 0.2  # how often a split uses a name of its own
_TYPO = 0.003

_SLOT = re.compile(r"\{([a-z-]+)(\d?)\.?(\w*)\}")  # kind, number, form
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class PlantedError:
    """Tokens ``start:stop`` of a training sentence whose labels were made wrong."""

    document: str
    sentence: str
    """Its id. Documents and sentences have the names they get when ``train.conll`` is read back."""
    row: int
    """How many tokens of the training file precede ``start``."""
    start: int
    stop: int
    tokens: tuple[str, ...]
    true_labels: tuple[str, ...]
    planted_labels: tuple[str, ...]
    true_type: str
    planted_type: str
    """The type of the planted segment, ``O`` where the segment was dropped."""
    kind: str
    """``systematic`` or ``random``."""

    def to_json(self) -> str:
        """One line of ``planted.jsonl``."""
        return json.dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def from_json(cls, line: str) -> PlantedError:
        """The record that ``to_json`` wrote."""
        record = json.loads(line)
        for key in ("tokens", "true_labels", "planted_labels"):
            record[key] = tuple(record[key])
        return cls(**record)


@dataclass(frozen=True, slots=True)
class InventedCorpus:
    """Three splits of whole documents; only ``train`` has wrong labels, and ``errors`` lists all of them."""

    train: tuple[Sentence, ...]
    train_true: tuple[Sentence, ...]
    dev: tuple[Sentence, ...]
    test: tuple[Sentence, ...]
    errors: tuple[PlantedError, ...]
    seed: int


def generate(
    seed: int = 0,
    num_documents: int = 400,
    *,
    systematic_share: float = 0.8,
    random_share: float = 0.015,
) -> InventedCorpus:
    """Invent ``num_documents`` documents (70 % train, 15 % dev, 15 % test) and plant errors in train.

    ``systematic_share`` is the share of handball reports with the systematic error, ``random_share`` that of
    the remaining segments with a random one.
    """
    if num_documents < 20:
        raise OptionError(f"num_documents is {num_documents}: at least 20 are needed")
    for name, share in (("systematic_share", systematic_share), ("random_share", random_share)):
        if not 0 <= share <= 1:
            raise OptionError(f"{name} is {share}: a number from 0 to 1 is needed")
    rng = Random(f"text {seed}")
    pools = _deal_names(rng)
    num_held_out = round(0.15 * num_documents)
    sizes = (num_documents - 2 * num_held_out, num_held_out, num_held_out)
    split = {name: _write_split(name, size, pools[name], rng) for name, size in zip(_SPLITS, sizes, strict=True)}
    train_true = split["train"]
    errors = _plant(train_true, systematic_share, random_share, Random(f"errors {seed}"))
    return InventedCorpus(
        train=_with_errors(train_true, errors),
        train_true=tuple(s.sentence for s in train_true),
        dev=tuple(s.sentence for s in split["dev"]),
        test=tuple(s.sentence for s in split["test"]),
        errors=errors,
        seed=seed,
    )


def write_invented(corpus: InventedCorpus, folder: Path) -> None:
    """Write the splits as two-column CoNLL files and the errors as ``planted.jsonl``."""
    for name in ("train", "train_true", "dev", "test"):
        _write_lines(folder / f"{name}.conll", _conll_lines(getattr(corpus, name)))
    _write_lines(folder / "planted.jsonl", (error.to_json() for error in corpus.errors))


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    with file_moved_when_whole(path) as stream:
        stream.writelines(f"{line}\n".encode() for line in lines)


def _conll_lines(sentences: Sequence[Sentence]) -> Iterator[str]:
    document = None
    for sentence in sentences:
        if sentence.document != document:
            document = sentence.document
            yield from ("-DOCSTART-\tO", "")
        yield from (f"{token}\t{label}" for token, label in zip(sentence.tokens, sentence.labels, strict=True))
        yield ""


# Planting


class _Written(NamedTuple):
    """A sentence with true labels, the kind of its document and its clubs that go by their city alone."""

    sentence: Sentence
    kind: str
    bare_clubs: tuple[Segment, ...]


def _plant(
    written: Sequence[_Written], systematic_share: float, random_share: float, rng: Random
) -> tuple[PlantedError, ...]:
    reports = list(dict.fromkeys(w.sentence.document for w in written if w.kind == SYSTEMATIC_KIND))
    chosen = set(_shuffled(reports, rng)[: round(systematic_share * len(reports))])
    errors: list[PlantedError] = []
    for sentence, _, bare_clubs in written:
        free = [label == "O" for label in sentence.labels]
        for segment in _segments(sentence.labels):
            if sentence.document in chosen and segment in bare_clubs:
                planted, kind = replace(segment, type="LOC"), "systematic"
            elif rng.random() < random_share:
                planted, kind = _wrong(segment, free, rng), "random"
            else:
                continue
            error = _error(sentence, segment, planted, kind)
            errors.append(error)
            free[error.start : error.stop] = [False] * (error.stop - error.start)
    return tuple(errors)


def _wrong(segment: Segment, free: Sequence[bool], rng: Random) -> Segment | None:
    """The segment with another type or boundary, or nothing; it grows only over tokens that are free."""
    start, stop = segment.start, segment.stop
    boundaries: list[Segment] = []
    if stop - start > 1:
        boundaries += [replace(segment, start=start + 1), replace(segment, stop=stop - 1)]
    if start > 0 and free[start - 1]:
        boundaries.append(replace(segment, start=start - 1))
    if stop < len(free) and free[stop]:
        boundaries.append(replace(segment, stop=stop + 1))
    draw = rng.random()
    if draw < 0.3 and boundaries:
        return rng.choice(boundaries)
    if draw < 0.55:
        return None
    return replace(segment, type=rng.choice([t for t in TYPES if t != segment.type]))


def _error(sentence: Sentence, true: Segment, planted: Segment | None, kind: str) -> PlantedError:
    start = min(true.start, planted.start) if planted else true.start
    stop = max(true.stop, planted.stop) if planted else true.stop
    return PlantedError(
        document=sentence.document,
        sentence=sentence.id,
        row=sentence.offset + start,
        start=start,
        stop=stop,
        tokens=sentence.tokens[start:stop],
        true_labels=_labels_between(start, stop, true),
        planted_labels=_labels_between(start, stop, planted),
        true_type=true.type,
        planted_type=planted.type if planted else "O",
        kind=kind,
    )


def _labels_between(start: int, stop: int, segment: Segment | None) -> tuple[str, ...]:
    labels = ["O"] * (stop - start)
    if segment:
        inside = range(segment.start - start, segment.stop - start)
        for t in inside:
            labels[t] = f"{'B' if t == inside.start else 'I'}-{segment.type}"
    return tuple(labels)


def _with_errors(written: Sequence[_Written], errors: Sequence[PlantedError]) -> tuple[Sentence, ...]:
    labels = {w.sentence.id: list(w.sentence.labels) for w in written}
    for error in errors:
        labels[error.sentence][error.start : error.stop] = error.planted_labels
    return tuple(w.sentence.with_labels(labels[w.sentence.id]) for w in written)


def _segments(labels: Sequence[str]) -> list[Segment]:
    """The segments of true labels, which are IOB2 by construction."""
    starts = [t for t, label in enumerate(labels) if label.startswith("B-")]
    segments: list[Segment] = []
    for start in starts:
        stop = start + 1
        while stop < len(labels) and labels[stop].startswith("I-"):
            stop += 1
        segments.append(Segment(start, stop, labels[start][2:]))
    return segments


# Names


class _Pool(NamedTuple):
    """The entries of one list that a split uses: those every split shares and its own."""

    shared: tuple[str, ...]
    own: tuple[str, ...]


def _shuffled(items: Sequence[_T], rng: Random) -> list[_T]:
    left = list(items)
    return [left.pop(rng.randrange(len(left))) for _ in range(len(left))]


def _deal_names(rng: Random) -> dict[str, dict[str, _Pool]]:
    """For each split, a pool for each list of names."""
    pools: dict[str, dict[str, _Pool]] = {split: {} for split in _SPLITS}
    for name, entries in words.LISTS.items():
        dealt = _shuffled(entries, rng)
        num_shared = round(_SHARED * len(dealt))
        for i, split in enumerate(_SPLITS):
            pools[split][name] = _Pool(tuple(dealt[:num_shared]), tuple(dealt[num_shared + i :: len(_SPLITS)]))
    return pools


class _Word(NamedTuple):
    token: str
    label: str = "O"
    is_bare_club: bool = False


@dataclass
class _Name:
    """Something a document talks about: the text and type of each form it is written in."""

    forms: dict[str, tuple[str, str]]
    usual: str = ""
    """The form of a mention that asks for none."""
    later: str = ""
    """The form of most mentions after the first."""


@dataclass
class _Cast:
    """The names of one document: ``city1`` stays the same city, ``city`` is one not used before."""

    pools: dict[str, _Pool]
    kind: str
    story: str
    date: datetime.date
    rng: Random
    place: int = 0
    """The row of a table being written."""
    names: dict[str, _Name] = field(default_factory=dict)
    introduced: set[tuple[str, str]] = field(default_factory=set)
    """The names mentioned since the headline."""
    sides: list[_Name] = field(default_factory=list)
    used: set[tuple[str, str]] = field(default_factory=set)

    def mention(self, kind: str, number: str, form: str) -> list[_Word]:
        """The words for ``{club1.city}``: kind ``club``, number ``1`` and form ``city``."""
        name = self._find(kind, number)
        if not form:
            is_later = (kind, number) in self.introduced and self.rng.random() < 0.8
            form = name.later if is_later else name.usual
            if number:
                self.introduced.add((kind, number))
        text, type_ = name.forms[form]
        if type_ == "O":
            return [_Word(token) for token in text.split()]
        return [_Word(token, f"{'I' if t else 'B'}-{type_}", form == "bare") for t, token in enumerate(text.split())]

    def draw(self, pool: str) -> str:
        """An entry of a pool, if possible one that the document has not used."""
        entry = ""
        for _ in range(20):
            shared, own = self.pools[pool]
            entry = self.rng.choice(own if self.rng.random() < _OWN else shared)
            if (pool, entry) not in self.used:
                break
        self.used.add((pool, entry))
        return entry

    def fill(self, pattern: str) -> str:
        """``{city} Open`` with a city, ``{city1} Open`` with the document's own."""
        return _SLOT.sub(lambda slot: self.text(*slot.groups()) if slot[2] else self.draw(slot[1]), pattern)

    def text(self, kind: str, number: str, form: str) -> str:
        """One form of a name of the document."""
        name = self._find(kind, number)
        return name.forms[form or name.usual][0]

    def _find(self, kind: str, number: str) -> _Name:
        if not number:
            return self._invent(kind)
        if kind + number not in self.names:
            self.names[kind + number] = self._invent(kind)
        return self.names[kind + number]

    def _invent(self, kind: str) -> _Name:
        if kind in _FIGURES:
            return _Name({"": (_FIGURES[kind](self), "O")})
        if kind in words.NAMES:
            type_, patterns = words.NAMES[kind]
            full, _, short = self.rng.choice(patterns).partition("|")
            full = self.fill(full)
            return _Name({"": (full, type_), "short": (short or full, type_)}, later="short")
        return getattr(self, f"_{kind}")()

    def _person(self, last: str = "") -> _Name:
        first, last = self.draw("first"), last or self.draw("last")
        forms = {"full": f"{first} {last}", "initial": f"{first[0]}. {last}", "last": last}
        usual = "initial" if self.rng.random() < 0.08 else "full"
        return _Name({form: (text, "PER") for form, text in forms.items()}, usual, later="last")

    def _rider(self) -> _Name:
        """The first in a table is the winner whom the document is about."""
        return self._person() if self.place else self._find("person", "1")

    def _home(self) -> _Name:
        return self._country() if self.place else self._find("country", "1")

    def _founder(self) -> _Name:
        """A person the document's company is named after, if it is named after one."""
        first = self.text("company", "1", "full").split()[0]
        return self._person(first if first in words.SURNAMES else "")

    def _company(self) -> _Name:
        pattern = self.rng.choice(words.COMPANIES)
        full = self.fill(pattern)
        first, last = full.split()[0], full.split()[-1]
        short = full if pattern.startswith("{city}") else first
        maker = words.SECTORS.get(last) or self.rng.choice(("furniture maker", "clockmaker", "instrument maker"))
        return _Name({"full": (full, "ORG"), "short": (short, "ORG"), "maker": (maker, "O")}, "full", later="short")

    def _country(self, type_: str = "LOC") -> _Name:
        name = self.draw("country")
        adjective, people = words.PEOPLES[name]
        forms = {"adj": adjective, "people": people, "person": people.removesuffix("s"), "based": f"{name}-based"}
        return _Name({"": (name, type_)} | {form: (text, "MISC") for form, text in forms.items()})

    def _club(self) -> _Name:
        city = self.draw("city")
        long = self.rng.choice(words.CLUB_WORDS.get(self.kind, words.CLUB_WORDS["football"]))
        usual = "long" if self.rng.random() < 0.12 else "bare"
        forms = {"bare": (city, "ORG"), "long": (long.replace("{city}", city), "ORG"), "city": (city, "LOC")}
        return _Name(forms, usual, later="bare")

    def _side(self) -> _Name:
        """A club, or in an international match a national team."""
        if self.story != "international":
            side = self._club()
        else:
            side = self._country("ORG")
            side.forms |= {"long": side.forms[""], "city": (self.draw("city"), "LOC")}
        self.sides.append(side)
        return side

    def _seen(self) -> _Name:
        """A side that the document has named, each once; the first one leads the table."""
        if not self.sides:
            self._side()
        return self.sides.pop(self.rng.randrange(len(self.sides)) if self.place else 0)

    def _final(self) -> _Name:
        """A score with a goal for both sides."""
        return self._score(least=1)

    def _score(self, least: int = 0) -> _Name:
        """The winner's figure comes first."""
        is_handball = self.kind == "handball"
        lost = self.rng.randrange(21, 33) if is_handball else self.rng.randrange(least, 3)
        won = max(2, lost + self.rng.randrange(1, 10 if is_handball else 4))
        half = f"{won // 2 + 1}-{lost // 2}" if won > 2 else f"{self.rng.randrange(2)}-{lost}"
        if self.kind == "hockey":
            half = f"1-0 , 0-{lost} , {won - 1}-0"
        score = f"{won}-{lost}"
        forms = {"": score, "half": half, "line": f"{score} ( {half} )", "a": str(won), "b": str(lost)}
        return _Name({form: (text, "O") for form, text in forms.items()})

    def goals(self) -> int:
        """The goals of one side."""
        return self.rng.randrange(21, 35) if self.kind == "handball" else self.rng.randrange(5)

    def standing(self) -> str:
        """Matches played, won, drawn and lost, and the points, which fall from row to row."""
        won, drawn = 11 - 2 * self.place + self.rng.randrange(2), self.rng.randrange(3)
        points = (2 if self.kind == "handball" else 3) * won + drawn
        return f"14 {won} {drawn} {14 - won - drawn} {points}"

    def number(self, low: int, high: int) -> int:
        return self.rng.randrange(low, high)


def _ordinal(number: int) -> str:
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


_FIGURES: dict[str, Callable[[_Cast], str]] = {
    "digit": lambda cast: str(cast.number(2, 10)),
    "goals": lambda cast: str(cast.number(6, 10)),
    "teens": lambda cast: str(cast.number(11, 20)),
    "twenties": lambda cast: str(cast.number(20, 30)),
    "small": lambda cast: str(cast.number(11, 40)),
    "age": lambda cast: str(cast.number(31, 70)),
    "minute": lambda cast: str(cast.number(4, 60)),
    "minute-th": lambda cast: _ordinal(cast.number(4, 90)),
    "gust": lambda cast: str(cast.number(80, 150)),
    "hundreds": lambda cast: f"{cast.number(2, 10)}00",
    "crowd": lambda cast: f"{cast.number(1, 6 if cast.kind in ('handball', 'hockey') else 40)},{cast.number(100, 999)}",
    "year": lambda cast: str(cast.number(1951, 2025)),
    "month": lambda cast: cast.rng.choice(words.MONTHS),
    "toll": lambda cast: cast.rng.choice(("two", "three", "four", "five")),
    "share": lambda cast: str(cast.number(34, 59)),
    "pct": lambda cast: f"{cast.number(1, 13)}.{cast.number(0, 10)} percent",
    "money": lambda cast: f"{cast.number(20, 900)} million crowns",
    "fee": lambda cast: f"{cast.number(1, 20)}.{cast.number(1, 10)} million crowns",
    "sets": lambda cast: f"{cast.rng.choice(('6-4', '7-5', '6-2'))} {cast.rng.choice(('6-3', '7-6', '6-1'))}",
    "points": lambda cast: str(cast.goals()),
    "draw": lambda cast: "{0}-{0}".format(cast.goals()),
    "place": lambda cast: str(cast.place + 1),
    "standing": _Cast.standing,
    "clock": lambda cast: f"4:{10 + 3 * cast.place + cast.number(0, 3)}:{cast.number(10, 60)}",
    "date": lambda cast: cast.date.isoformat(),
    "today": lambda cast: words.DAYS[cast.date.weekday()],
    "day": lambda cast: words.DAYS[(cast.date.weekday() + cast.number(1, 7)) % 7],
}


# Text


@cache
def _grammar() -> dict[str, tuple[str, ...]]:
    rules: dict[str, list[str]] = {}
    rule: list[str] = []
    for line in filter(None, words.GRAMMAR.splitlines()):
        if header := re.fullmatch(r"\[(\S+)\]", line):
            rule = rules[header[1]] = []
        elif one_line := re.fullmatch(r"(\S+): (.*)", line):
            rules[one_line[1]] = one_line[2].split(" | ")
        else:
            rule.append(line)
    return {name: tuple("" if a == "-" else a for a in alternatives) for name, alternatives in rules.items()}


@dataclass
class _Writer:
    """Writes one document."""

    cast: _Cast
    rng: Random

    def document(self, steps: Sequence[words.Step]) -> Iterator[list[_Word]]:
        for step in steps:
            alternatives = _shuffled(self._alternatives(step.rule), self.rng)
            for i in range(self.rng.randrange(step.low, step.high + 1)):
                self.cast.place = i
                template = alternatives[0 if step.how == "rows" else i]
                sentence = self._corrected(self._expanded(template))
                yield sentence if step.how in ("", "rows") else self._heading(sentence, step.how)
            if step.how == "headline":
                self.cast.introduced.clear()

    def _heading(self, sentence: list[_Word], how: str) -> list[_Word]:
        """A headline opens with the sport; those of a sport, and some others, are in capitals."""
        is_sport = self.cast.kind in words.FAMILY
        if how == "headline" and is_sport:
            sentence = [_Word(self.cast.kind), _Word("-"), *sentence]
        elif how == "headline" and self.rng.random() < 0.5:
            return sentence
        return [word._replace(token=word.token.upper()) for word in sentence]

    def _alternatives(self, rule: str) -> tuple[str, ...]:
        """The alternatives of the rule for this kind of document, the closest kind first."""
        owners = (self.cast.story, self.cast.kind, words.FAMILY.get(self.cast.kind, ""))
        named = [f"{owner}.{rule}" for owner in owners]
        return next(_grammar()[name] for name in [*named, rule] if name in _grammar())

    def _expanded(self, template: str) -> list[_Word]:
        sentence: list[_Word] = []
        for piece in template.split():
            if slot := _SLOT.fullmatch(piece):
                sentence += self.cast.mention(*slot.groups())
            elif piece.startswith("<") and len(piece) > 1:
                sentence += self._expanded(self.rng.choice(self._alternatives(piece[1:-1])))
            else:
                sentence.append(_Word(piece))
        return sentence

    def _corrected(self, sentence: list[_Word]) -> list[_Word]:
        """A capital at the start, ``an`` before a vowel, and now and then a typing error."""
        for t, word in enumerate(sentence):
            token = word.token
            if token == "a" and re.match(r"(?!uni|one|eu)[aeiou]|8|1[18]\b", sentence[t + 1].token, re.IGNORECASE):
                token = "an"
            if word.label == "O" and re.fullmatch("[a-z]{6,}", token) and self.rng.random() < _TYPO:
                token = token[:2] + token[3] + token[2] + token[4:]
            sentence[t] = word._replace(token=token)
        tokens = [word.token for word in sentence]
        for t, token in enumerate(tokens):
            if all(earlier == '"' for earlier in tokens[:t]) or tokens[max(0, t - 2) : t] == [":", '"']:
                sentence[t] = sentence[t]._replace(token=token[0].upper() + token[1:])
        return sentence


def _write_split(split: str, num_documents: int, pools: dict[str, _Pool], rng: Random) -> list[_Written]:
    kinds = _shuffled([words.KINDS[i % len(words.KINDS)] for i in range(num_documents)], rng)
    written: list[_Written] = []
    offset = 0
    for i, kind in enumerate(kinds):
        document = f"{split}-{i}"
        story = rng.choice(words.STORIES[kind])
        date = datetime.date(2026, 1, 1) + datetime.timedelta(days=rng.randrange(365))
        writer = _Writer(_Cast(pools, kind, story, date, rng), rng)
        owners = (story, kind, words.FAMILY.get(kind, ""))
        steps = next(words.SHAPES[owner] for owner in owners if owner in words.SHAPES)
        for j, sentence in enumerate(writer.document(steps)):
            written.append(_written(sentence, f"{document}:{j}", document, offset, kind))
            offset += len(sentence)
    return written


def _written(sentence: Sequence[_Word], id_: str, document: str, offset: int, kind: str) -> _Written:
    tokens, labels, _ = zip(*sentence, strict=True)
    clubs = tuple(s for s in _segments(labels) if sentence[s.start].is_bare_club)
    return _Written(Sentence(tokens, labels, id=id_, document=document, offset=offset), kind, clubs)
