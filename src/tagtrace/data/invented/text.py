"""The text of the invented newswire: names dealt to the splits, and a grammar that writes documents with them."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from random import Random
from typing import NamedTuple, TypeVar

from tagtrace.data.invented import words
from tagtrace.data.schemes import segments
from tagtrace.data.sentence import Segment, Sentence

SPLITS = ("train", "dev", "test")
_SHARED = 0.64  # of each list of names, the part that every split uses; the rest is dealt to one split each
_OWN = 0.2  # how often a split uses a name of its own
_TYPO = 0.003

_SLOT = re.compile(r"\{([a-z-]+)(\d?)\.?(\w*)\}")  # kind, number, form
_T = TypeVar("_T")


class Written(NamedTuple):
    """A sentence with true labels, the kind of its document and its clubs that go by their city alone."""

    sentence: Sentence
    kind: str
    bare_clubs: tuple[Segment, ...]


# Names


class _Pool(NamedTuple):
    """The entries of one list that a split uses: those shared by all splits and its own."""

    shared: tuple[str, ...]
    own: tuple[str, ...]


def shuffled(items: Sequence[_T], rng: Random) -> list[_T]:
    left = list(items)
    return [left.pop(rng.randrange(len(left))) for _ in range(len(left))]


def deal_names(rng: Random) -> dict[str, dict[str, _Pool]]:
    """For each split, a pool for each list of names."""
    pools: dict[str, dict[str, _Pool]] = {split: {} for split in SPLITS}
    for name, entries in words.LISTS.items():
        dealt = shuffled(entries, rng)
        num_shared = round(_SHARED * len(dealt))
        for i, split in enumerate(SPLITS):
            pools[split][name] = _Pool(tuple(dealt[:num_shared]), tuple(dealt[num_shared + i :: len(SPLITS)]))
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
    """The form of a mention that does not name one."""
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

    def document(self, steps: Sequence[words.DocumentPart]) -> Iterator[list[_Word]]:
        for step in steps:
            alternatives = shuffled(self._alternatives(step.rule), self.rng)
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


def write_split(split: str, num_documents: int, pools: dict[str, _Pool], rng: Random) -> list[Written]:
    kinds = shuffled([words.KINDS[i % len(words.KINDS)] for i in range(num_documents)], rng)
    written: list[Written] = []
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


def _written(sentence: Sequence[_Word], id_: str, document: str, offset: int, kind: str) -> Written:
    tokens, labels, _ = zip(*sentence, strict=True)
    clubs = tuple(s for s in segments(labels, "iob2") if sentence[s.start].is_bare_club)
    return Written(Sentence(tokens, labels, id=id_, document=document, offset=offset), kind, clubs)
