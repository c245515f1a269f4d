"""The labelled parts of a task's text: which results they are, which text they are in, how their offsets count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tagtrace._checks import DataError
from tagtrace.data.formats.label_studio.offsets import Offsets, has_wide, is_alike
from tagtrace.data.formats.label_studio.tasks import LabelStudioTask
from tagtrace.data.marked.json_lines import check_encodable, label_of, name_of
from tagtrace.data.marked.marks import Mark, MarkedText
from tagtrace.data.source import shown

USUAL_KEY = "text"
MOST_STRINGS = 100
"""So many strings of a task are compared with its regions."""
DEFAULT_IN_UNITS = True
"""How offsets count in a file that does not tell: as in JavaScript."""


@dataclass(frozen=True)
class Region:
    """A result that gives one label to characters of a text, with its offsets as the file has them."""

    number: int
    """Its place among the results."""
    start: int
    end: int
    label: str
    text: str | None
    """The characters themselves, if the file repeats them."""
    to_name: str

    def fits(self, offsets: Offsets) -> bool:
        """Whether the characters are those that the file repeats."""
        found = offsets.range_from_file(self.start, self.end)
        return self.text is not None and found is not None and is_alike(offsets.text[slice(*found)], self.text)


@dataclass(frozen=True)
class Labelled:
    """A task with its regions; ``odd`` says what else its annotation has."""

    task: LabelStudioTask
    regions: tuple[Region, ...]
    odd: tuple[str, ...]


@dataclass(frozen=True)
class Placed:
    """A task with its text and marks."""

    task: LabelStudioTask
    offsets: Offsets
    to_name: str
    """What most results call the text."""
    marks: tuple[Mark, ...]
    odd: tuple[str, ...]

    def marked(self) -> MarkedText:
        task = self.task
        name = name_of(task.record, "id", task.where)
        return MarkedText(self.offsets.text, self.marks, task.line, name, odd=self.odd)


def labelled(task: LabelStudioTask) -> Labelled:
    """A task and those of its results that give one label to characters."""
    regions, odd, others = list[Region](), list[str](), Counter[str]()
    for number, result in enumerate(task.results):
        if result.get("type") != "labels":
            others[str(result.get("type"))[:40] if isinstance(result.get("type"), str) else "unknown"] += 1
            continue
        found = _region(number, result, task.where)
        regions += [found] if isinstance(found, Region) else []
        odd += [found] if isinstance(found, str) else []
    if others:
        kinds = ", ".join(f"{count} {kind}" for kind, count in others.most_common(5))
        odd.insert(0, f"results that are no labels, kept and not looked at: {others.total()} ({kinds})")
    if task.num_others:
        odd.insert(0, f"other annotations of this task, kept and not learned from: {task.num_others}")
    return Labelled(task, tuple(regions), tuple(odd))


def _region(number: int, result: Mapping[str, Any], where: str) -> Region | str:
    """The region that a result is, or why it is none."""
    value = result.get("value")
    if not isinstance(value, dict):
        raise DataError(f"{where}: result {number} of type labels has no 'value'; export as JSON from Label Studio")
    labels, start, end = value.get("labels"), value.get("start"), value.get("end")
    if labels is not None and not isinstance(labels, list):
        raise DataError(f"{where}: the 'labels' of result {number} are no list; export as JSON from Label Studio")
    if not labels or len(labels) > 1:
        return f"result {number} has {len(labels or ())} labels instead of one; it is kept as it is"
    if type(start) is not int or type(end) is not int or "startOffset" in value or "globalOffsets" in value:
        return f"result {number} is not in plain text; it is kept as it is"
    text, to_name = value.get("text"), result.get("to_name")
    return Region(
        number, start, end, label_of(labels[0], where), text if isinstance(text, str) else None,
        to_name if isinstance(to_name, str) else "",
    )  # fmt: skip


def place_all(tasks: Sequence[Labelled]) -> list[Placed]:
    """Each task with its text and its marks.

    A task that does not tell under which key its text is, or how its offsets count, is read like the others.
    """
    fitting = [_fitting_keys(each) for each in tasks]
    usual_key = _most(keys[0] for keys in fitting if len(keys) == 1)
    found = [(each, _key(each, keys, usual_key)) for each, keys in zip(tasks, fitting, strict=True)]
    in_units = [_in_units(each, each.task.data[key]) for each, key in found]
    usual = _most(one for one in in_units if one is not None)
    return [_placed(each, key, known, usual) for (each, key), known in zip(found, in_units, strict=True)]


def _most(found: Iterable[Any]) -> Any:
    return next((value for value, _ in Counter(found).most_common(1)), None)


def _strings(each: Labelled) -> list[str]:
    keys = [key for key, value in each.task.data.items() if isinstance(value, str)]
    return sorted(keys, key=lambda key: key != USUAL_KEY)[:MOST_STRINGS]


def _fitting_keys(each: Labelled) -> list[str]:
    """The keys of the strings that most regions fit; none if no region fits any."""
    fitting = {key: _num_fitting(each, each.task.data[key]) for key in _strings(each)}
    most = max(fitting.values(), default=0)
    return [key for key, number in fitting.items() if number == most > 0]


def _key(each: Labelled, fitting: Sequence[str], usual: str | None) -> str:
    """The key of the text."""
    possible = fitting or _strings(each)
    known = [key for key in (USUAL_KEY, usual) if key is not None and key in possible]
    if known or len(possible) == 1:
        return (known or possible)[0]
    found = f"{len(possible)} strings ({shown(', '.join(possible))})" if possible else "no string"
    raise DataError(f"{each.task.where}: {found} under 'data' may be the text; name the one that is 'text'")


def _num_fitting(each: Labelled, text: str) -> int:
    ways = (False, True) if has_wide(text) else (False,)
    return max(_count_fitting(each, Offsets(text, in_units=way)) for way in ways)


def _count_fitting(each: Labelled, offsets: Offsets) -> int:
    return sum(region.fits(offsets) for region in each.regions)


def _in_units(each: Labelled, text: str) -> bool | None:
    """Whether offsets count UTF-16 code units; None if the regions do not tell."""
    check_encodable(text, each.task.where)
    if not has_wide(text):
        return None
    characters, units = (_evidence(each, Offsets(text, in_units=way)) for way in (False, True))
    return None if characters == units else units > characters


def _evidence(each: Labelled, offsets: Offsets) -> tuple[int, int, int]:
    """The number of regions whose characters are as the file says, of those that fit, and of those in the text."""
    ranges = [offsets.range_from_file(region.start, region.end) for region in each.regions]
    there = [None if one is None else offsets.text[slice(*one)] for one in ranges]
    same = sum(region.text is not None and region.text == one for region, one in zip(each.regions, there, strict=True))
    return same, _count_fitting(each, offsets), sum(one is not None for one in ranges)


def _placed(each: Labelled, key: str, known: bool | None, usual: bool | None) -> Placed:
    text, odd = each.task.data[key], list(each.odd)
    guessed = known if known is not None else usual
    offsets = Offsets(text, in_units=DEFAULT_IN_UNITS if guessed is None else guessed)
    if guessed is None and has_wide(text) and any(region.end > _first_wide(text) for region in each.regions):
        what = "UTF-16 code units" if offsets.in_units else "characters"
        odd.append(f"nothing tells how the offsets count characters beyond U+FFFF; taken for {what}")
    fitting = [region.to_name for region in each.regions if region.fits(offsets)]
    names = Counter(fitting or [region.to_name for region in each.regions[:1]])
    marks = list[Mark]()
    for region in each.regions:
        found = _mark(region, offsets, names)
        marks += [found] if isinstance(found, Mark) else []
        odd += [found] if isinstance(found, str) else []
    return Placed(each.task, offsets, _most(names.elements()) or "", tuple(marks), tuple(odd))


def _first_wide(text: str) -> int:
    return next(place for place, character in enumerate(text) if character > "\uffff")


def _mark(region: Region, offsets: Offsets, names: Counter[str]) -> Mark | str:
    """The mark that a region is in the text that ``names`` are about, or why it is none."""
    found = offsets.range_from_file(region.start, region.end)
    named = f"the {region.label} at {_short(region.start)} to {_short(region.end)} (result {region.number})"
    if region.to_name not in names:
        return f"{named} is about {shown(region.to_name)}, not {shown(_most(names.elements()))}; it is kept as it is"
    if found is None:
        return f"{named} is not in the text, which has {len(offsets.text)} characters; it is kept as it is"
    if region.text is not None and not region.fits(offsets):
        there = shown(offsets.text[slice(*found)])
        return f"{named} should be {shown(region.text)}, but {there} is there; it is kept as it is"
    return Mark(*found, region.label, region.number)


def _short(number: int) -> str:
    return str(number) if abs(number) < 10**12 else "a huge number"
