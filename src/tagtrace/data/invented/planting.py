"""A small corpus of invented newswire with known label errors: the demo's data, generated without a download.

Clubs are named after cities and companies after people, so a tagger has to use the context: a team is ORG
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

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random

from tagtrace._checks import OptionError
from tagtrace._files import file_moved_when_whole
from tagtrace.data.invented.text import SPLITS, Written, deal_names, shuffled, write_split
from tagtrace.data.schemes import segments
from tagtrace.data.sentence import Segment, Sentence

TYPES = ("LOC", "MISC", "ORG", "PER")
SYSTEMATIC_KIND = "handball"
"""The kind of report with the systematic error; its headlines begin with this word in capitals."""


@dataclass(frozen=True, slots=True)
class PlantedError:
    """Tokens ``start:stop`` of a training sentence whose labels were made wrong."""

    document: str
    sentence: str
    """Its id. Documents and sentences have the ids that they get when ``train.conll`` is read."""
    row: int
    """How many tokens of the training file precede ``start``."""
    start: int
    stop: int
    tokens: tuple[str, ...]
    true_labels: tuple[str, ...]
    planted_labels: tuple[str, ...]
    true_type: str
    planted_type: str
    """The type of the planted segment, ``O`` if the segment was dropped."""
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
        raise OptionError(f"num_documents {num_documents}: must be at least 20")
    for name, share in (("systematic_share", systematic_share), ("random_share", random_share)):
        if not 0 <= share <= 1:
            raise OptionError(f"{name} {share}: must be from 0 to 1")
    rng = Random(f"text {seed}")
    pools = deal_names(rng)
    num_held_out = round(0.15 * num_documents)
    sizes = (num_documents - 2 * num_held_out, num_held_out, num_held_out)
    split = {name: write_split(name, size, pools[name], rng) for name, size in zip(SPLITS, sizes, strict=True)}
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


def _plant(
    written: Sequence[Written], systematic_share: float, random_share: float, rng: Random
) -> tuple[PlantedError, ...]:
    reports = list(dict.fromkeys(w.sentence.document for w in written if w.kind == SYSTEMATIC_KIND))
    chosen = set(shuffled(reports, rng)[: round(systematic_share * len(reports))])
    errors: list[PlantedError] = []
    for sentence, _, bare_clubs in written:
        free = [label == "O" for label in sentence.labels]
        for segment in segments(sentence.labels, "iob2"):
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
    """The segment with another type or boundary, or None; it grows only over free tokens."""
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


def _with_errors(written: Sequence[Written], errors: Sequence[PlantedError]) -> tuple[Sentence, ...]:
    labels = {w.sentence.id: list(w.sentence.labels) for w in written}
    for error in errors:
        labels[error.sentence][error.start : error.stop] = error.planted_labels
    return tuple(w.sentence.with_labels(labels[w.sentence.id]) for w in written)
