"""Random files of annotation tools, and the check that relabelling one segment changes nothing else in them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

from tagtrace._checks import TagtraceError
from tagtrace.data import Corpus, ReadOptions, Segment, read_corpus, segments, write_corpus
from tests.fuzz import pieces

WORDS = (
    "Orla", "Vane", "sang", "Oslo", "Acme", "1,000", "caf\u00e9", "e\u0301t\u00e9", "\u96e8\u5929", "\U0001f30a",
    "\U0001f469\U0001f3fd\u200d\U0001f4bb", "well-known", "(", ")", ".", "!", '"', "\\", "\\n", "\u202e", "\u200b",
)  # fmt: skip
GAPS = (" ", " ", " ", " ", "", "  ", "\n", "\t", "\u00a0", "\r\n")
LABELS = ("PER", "LOC", "ORG", "B-X", "O", "a b")
LAYOUTS: tuple[dict[str, Any], ...] = ({}, {"separators": (",", ":")}, {"ensure_ascii": False}, {"indent": 2})


def words(rng: Random) -> tuple[str, list[tuple[int, int]]]:
    """A text and the places of its words."""
    text, places = rng.choice(("", "", " ")), list[tuple[int, int]]()
    for _ in range(rng.choice((0, 1, 3, 6, 12))):
        word = rng.choice(WORDS)
        places.append((len(text), len(text) + len(word)))
        text += word + rng.choice(GAPS)
    return text, places


def _ranges(rng: Random, places: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """First and last word of some spans, mostly apart."""
    found, number = list[tuple[int, int]](), 0
    while number < len(places):
        last = min(number + rng.choice((0, 0, 1, 2)), len(places) - 1)
        if rng.random() < 0.4:
            found.append((number, last))
        number = last + 1 if rng.random() < 0.95 else number + 1
    rng.shuffle(found)
    return found


# Prodigy ---------------------------------------------------------------------------------------------------


def either(make: Callable[[Random, float], str]) -> Callable[[Random], bytes]:
    """Sound files and damaged ones, more or less as many."""

    def made(rng: Random) -> bytes:
        if rng.random() < 0.5:
            return make(rng, 0.0).encode()
        return pieces.bytes_of(rng, make(rng, rng.choice((0.0, 0.2, 1.0))))

    return made


def prodigy(rng: Random, share: float = 0.0) -> str:
    """Lines as ``db-out`` writes them, a share of them damaged."""
    layout = rng.choice(LAYOUTS[:3])
    lines = [prodigy_task(rng) for _ in range(rng.randint(1, 5))]
    texts = [json.dumps(one, **layout) if share == 0 else pieces.damaged_json(rng, one, share) for one in lines]
    return rng.choice(("", "", "\ufeff")) + rng.choice(("\n", "\n", "\r\n", "\n\n")).join(texts)


def prodigy_task(rng: Random) -> dict[str, Any]:
    text, places = words(rng)
    has_tokens, first_id = rng.random() < 0.7, rng.choice((0, 0, 0, 1))
    spans = list[dict[str, Any]]()
    for first, last in _ranges(rng, places):
        start, stop = places[first][0], places[last][1]
        span: dict[str, Any] = {"start": start, "end": stop}
        if has_tokens:
            span |= {"token_start": first + first_id, "token_end": last + first_id}
        span["label"] = rng.choice(LABELS)
        if rng.random() < 0.2:
            span |= {"text": text[start:stop], "source": "en"}
        spans.append(span)
    task: dict[str, Any] = {"text": text, "_input_hash": rng.choice((1, -2, 30, 4)), "_task_hash": rng.getrandbits(31)}
    if has_tokens:
        task["tokens"] = [
            {"text": text[start:stop], "start": start, "end": stop, "id": number + first_id, "ws": True}
            for number, (start, stop) in enumerate(places)
        ]
    if rng.random() < 0.9:
        task["spans"] = spans
    if rng.random() < 0.8:
        task["answer"] = rng.choice(("accept", "accept", "accept", "reject", "ignore"))
    return task


def check_prodigy(before: bytes, after: bytes, line: int, gone: int, come: int) -> None:
    """Only the spans of one line differ, and only so many."""
    old, new = before.split(b"\n"), after.split(b"\n")
    assert old[: line - 1] == new[: line - 1]
    assert old[line:] == new[line:]
    was, now = _parsed(old[line - 1]), _parsed(new[line - 1])
    _check_list(was.pop("spans", None) or [], now.pop("spans", None) or [], gone, come)
    assert was == now


# Label Studio ----------------------------------------------------------------------------------------------


def label_studio(rng: Random, share: float = 0.0) -> str:
    """An exported list of tasks, a share of it damaged."""
    layout = rng.choice(LAYOUTS)
    in_units, key, says_text = rng.random() < 0.5, rng.choice(("text", "text", "body")), rng.random() < 0.8
    tasks = [label_studio_task(rng, number, key, in_units, says_text) for number in range(rng.randint(1, 4))]
    text = json.dumps(tasks, **layout) if share == 0 else pieces.damaged_json(rng, tasks, share)
    return rng.choice(("", "", "\ufeff", "\n")) + text + rng.choice(("", "\n"))


def label_studio_task(rng: Random, number: int, key: str, in_units: bool, says_text: bool) -> dict[str, Any]:
    text, places = words(rng)
    annotations = [
        {
            "id": number * 10 + place,
            "completed_by": place,
            "was_cancelled": rng.random() < 0.2,
            "ground_truth": rng.random() < 0.2,
            "updated_at": f"2026-03-0{rng.randint(1, 3)}T10:00:00.{rng.randint(0, 2)}Z",
            "result": _results(rng, text, places, in_units, says_text),
        }
        for place in range(rng.choice((0, 1, 1, 1, 2, 3)))
    ]
    data = {key: text} if rng.random() < 0.7 else {"source": "invented", key: text, "number": 7}
    return {"id": number, "data": data, "annotations": annotations, "predictions": [], "meta": {"\u00e9": None}}


def _results(
    rng: Random, text: str, places: Sequence[tuple[int, int]], in_units: bool, says_text: bool
) -> list[dict[str, Any]]:
    results = list[dict[str, Any]]()
    for first, last in _ranges(rng, places):
        start, stop = places[first][0], places[last][1]
        counted = [len(text[:place].encode("utf-16-le")) // 2 if in_units else place for place in (start, stop)]
        value: dict[str, Any] = {"start": counted[0], "end": counted[1]}
        if says_text:
            value["text"] = text[start:stop]
        value["labels"] = [rng.choice(LABELS)] * rng.choice((1, 1, 1, 1, 1, 2, 0))
        names = {"id": f"r{len(results)}", "from_name": "label", "to_name": "text", "type": "labels"}
        results.append({**names, "origin": "manual", "value": value})
    if rng.random() < 0.2:
        results.append({"id": "c", "from_name": "kind", "to_name": "text", "type": "choices", "value": {"choices": []}})
    if len(results) > 1 and rng.random() < 0.2:
        results.append({"from_id": "r0", "to_id": "r1", "type": "relation", "direction": "right"})
    return results


def check_label_studio(before: bytes, after: bytes, line: int, gone: int, come: int) -> None:  # noqa: ARG001
    """Only the results of one annotation differ, and only so many."""
    was, now = _parsed(before), _parsed(after)
    (task,) = _differing(was, now)
    (annotation,) = _differing(was[task]["annotations"], now[task]["annotations"])
    old, new = (tasks[task]["annotations"][annotation].pop("result", None) or [] for tasks in (was, now))
    _check_list(old, new, gone, come)
    assert all(one["type"] == "labels" for one in old if one not in new)
    assert was == now


def _differing(was: list[Any], now: list[Any]) -> list[int]:
    return [number for number, (old, new) in enumerate(zip(was, now, strict=True)) if old != new]


# Both ------------------------------------------------------------------------------------------------------


def _parsed(data: bytes) -> Any:
    return json.loads(data.decode("utf-8-sig"), parse_constant=str)


def _check_list(old: list[Any], new: list[Any], gone: int, come: int) -> None:
    was, now = ([json.dumps(one, sort_keys=True) for one in each] for each in (old, new))
    assert (Counter(was) - Counter(now)).total() <= gone
    assert (Counter(now) - Counter(was)).total() <= come
    if len({*was}) == len(was) and len({*now}) == len(now):
        assert [one for one in now if one in was] == [one for one in was if one in now]


Check = Callable[[bytes, bytes, int, int, int], None]


def read_and_relabel(file_format: str, check: Check) -> Callable[[Path], object]:
    """Reads a file, writes it back unchanged, and then with one segment relabelled."""

    def read(path: Path) -> None:
        before, rng = path.read_bytes(), Random(path.read_bytes())
        corpus = read_corpus(path, ReadOptions(format=file_format))
        copy = path.with_name("copy")
        write_corpus(corpus, copy)
        assert copy.read_bytes() == before
        changed, number = relabelled(corpus, rng)
        if changed is corpus:
            return
        write_corpus(changed, copy)
        again = read_corpus(copy, ReadOptions(format=file_format))
        if not any("overlaps another" in reason for _, reason in corpus.skipped) and _is_clear(again):
            assert _in_a_row(again) == _in_a_row(changed)  # sentences may end elsewhere: never inside a mark
            assert _num_odd(again) == _num_odd(corpus)
        old, new = ({*segments(one.sentences[number].labels, "iob2")} for one in (corpus, changed))
        check(before, copy.read_bytes(), corpus.sentences[number].lines[0], len(old - new), len(new - old))

    return read


def _in_a_row(corpus: Corpus) -> list[tuple[str, str]]:
    return [pair for one in corpus.sentences for pair in zip(one.tokens, one.labels, strict=True)]


_UNCLEAR = "nothing tells how the offsets count"


def _is_clear(corpus: Corpus) -> bool:
    """Whether a file still tells how its offsets count: the mark that told may be gone, and no other says its text."""
    return not any(reason.startswith(_UNCLEAR) for _, reason in corpus.skipped)


def _num_odd(corpus: Corpus) -> int:
    return sum(not reason.startswith(_UNCLEAR) for _, reason in corpus.skipped)


def relabelled(corpus: Corpus, rng: Random) -> tuple[Corpus, int]:
    """The corpus with one segment added, moved, relabelled or removed, and the number of its sentence."""
    number = rng.randrange(len(corpus.sentences))
    sentence = corpus.sentences[number]
    start = rng.randrange(len(sentence))
    stop = min(len(sentence), start + rng.randint(1, 3))
    found = segments(sentence.labels, "iob2")
    if found and rng.random() < 0.6:
        chosen = rng.choice(found)
        start, stop = chosen.start, chosen.stop
    labels, kind = list(sentence.labels), rng.choice((*LABELS, None))
    rest = stop - start - 1
    labels[start:stop] = ["O"] * (rest + 1) if kind is None else [f"B-{kind}", *[f"I-{kind}"] * rest]
    if stop < len(labels) and labels[stop].startswith("I-"):
        labels[stop] = f"B-{labels[stop][2:]}"
    if tuple(labels) == sentence.labels:
        return corpus, number
    sentences = list(corpus.sentences)
    sentences[number] = sentence.with_labels(labels)
    return corpus.with_sentences(sentences), number


prodigy_relabelled = read_and_relabel("prodigy", check_prodigy)
label_studio_relabelled = read_and_relabel("label-studio", check_label_studio)


def is_read(path: Path, read: Callable[[Path], object], refusal: str) -> bool:
    """Whether a file is read; if not, the reason must be ``refusal``, a regular expression."""
    try:
        read(path)
    except TagtraceError as error:
        if not re.search(refusal, str(error)):
            raise
        return False
    return True


def check_there_and_back(folder: Path, text: str, file_format: str, rng: Random) -> None:
    """A segment whose type is changed, and changed back, leaves the same bytes."""
    path, fixed, back = (folder / name for name in ("file", "fixed", "back"))
    path.write_text(text, newline="")
    options = ReadOptions(format=file_format)
    try:
        corpus = read_corpus(path, options)
    except TagtraceError:
        return
    places = [(number, one) for number, s in enumerate(corpus.sentences) for one in segments(s.labels, "iob2")]
    if not places:
        return
    number, segment = rng.choice(places)
    write_corpus(_with_type(corpus, number, segment, "NEW"), fixed)
    assert fixed.read_bytes() != path.read_bytes()
    write_corpus(_with_type(read_corpus(fixed, options), number, segment, segment.type), back)
    assert back.read_bytes() == path.read_bytes()


def _with_type(corpus: Corpus, number: int, segment: Segment, kind: str) -> Corpus:
    sentences = list(corpus.sentences)
    labels = list(sentences[number].labels)
    labels[segment.start : segment.stop] = [f"B-{kind}", *[f"I-{kind}"] * (segment.stop - segment.start - 1)]
    sentences[number] = sentences[number].with_labels(labels)
    return corpus.with_sentences(sentences)
