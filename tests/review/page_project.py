"""The project that the tests of the page use: a small corpus of match reports with a tagger, an index and an audit.

The numbers that tests rely on are chosen here. Training sentence ``n`` (1 to 300) is

    After a quiet spell , Eastmoor001 United beat001 Harrow by two goals .

with ``Eastmoor001 United`` labelled LOC, which is wrong, and ``Harrow`` labelled PER. Finding ``n`` is about the club
of sentence ``n`` and proposes ORG; each fifth finding proposes O, and the last one a label that the tagger does not
know. Sentences 8 and 9 are about the club of sentence 7: their findings propose the same change of the same text.
Sentences 301 to 303 repeat sentence 1, and sentence 304 repeats sentence 7, without findings. The others are right,
some match reports among them. Of the held-out sentences, 120 are match reports, which the tagger gets wrong.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from tagtrace.data import LabelSet, Sentence, read_corpus
from tagtrace.findings import Finding, GroupEffect, Pattern, TrustedFit
from tagtrace.review import Decisions, ProjectFile, Review, Store, TrainingData, write_project_file
from tests.review.made import train_and_index, write_audit

TYPES = ("LOC", "MISC", "ORG", "PER")
LABELS = LabelSet(("O", *(f"{prefix}-{name}" for name in TYPES for prefix in "BI")), "iob2")
NUM_FINDINGS = 300
NUM_ERRORS = 120
NUM_PLACES = 2346
START, STOP = 5, 7
"""The club in a match report."""
WHY = f"why?sentence=dev-0&start={START}&stop={STOP}"
"""The address of a question about the first held-out sentence."""
CLUBS = ("Northbridge", "Eastmoor", "Calder", "Winnow")
RIGHT = (
    ("Shares in Calder Holdings rose on Monday .", {2: "B-ORG", 3: "I-ORG"}),
    ("Rain fell in Eastmoor and in Winnow .", {3: "B-LOC", 6: "B-LOC"}),
    ("The Harrow Cup was won by Mary Pike .", {1: "B-MISC", 2: "I-MISC", 6: "B-PER", 7: "I-PER"}),
)
UNKNOWN = ("B-EVENT", "I-EVENT")


def club_of(number: int) -> str:
    return f"{CLUBS[number % len(CLUBS)]}{number:03}"


def report(club: str, number: int, kind: str) -> tuple[list[str], list[str]]:
    """A match report and its labels, the club labelled as a type."""
    tokens = ["After", "a", "quiet", "spell", ",", club, "United", f"beat{number:03}", "Harrow", "by", "two", "goals"]
    labels = ["O"] * 5 + [f"B-{kind}", f"I-{kind}", "O", "B-PER", "O", "O", "O"]
    return [*tokens, "."], [*labels, "O"]


def train_sentences() -> list[tuple[list[str], list[str]]]:
    clubs = {number: club_of(number) for number in range(NUM_FINDINGS + 1)} | {8: club_of(7), 9: club_of(7)}
    found = [report(club, number, "LOC") for number, club in clubs.items()]
    found += [found[1], found[1], found[1], found[7]]
    found += [report(club_of(number), number, "ORG") for number in range(400, 440)]
    return [*found, *(right_sentence(number) for number in range(60))]


def dev_sentences() -> list[tuple[list[str], list[str]]]:
    return [*(report(club_of(number), number, "ORG") for number in range(NUM_ERRORS)), right_sentence(0)]


def right_sentence(number: int) -> tuple[list[str], list[str]]:
    text, labelled = RIGHT[number % len(RIGHT)]
    tokens = text.split()
    return tokens, [labelled.get(t, "O") for t in range(len(tokens))]


def write_jsonl(path: Path, sentences: Iterable[tuple[Sequence[str], Sequence[str]]]) -> None:
    """Sentences with ids ``train-0``, ``train-1``, ..., ten of them a document."""
    lines = list[str]()
    for number, (tokens, tags) in enumerate(sentences):
        names = {"id": f"{path.stem}-{number}", "document": f"doc-{number // 10}"}
        lines.append(json.dumps({**names, "tokens": tokens, "ner_tags": tags}))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def make_findings(sentences: Sequence[Sentence]) -> list[Finding]:
    found = list[Finding]()
    for rank in range(1, NUM_FINDINGS + 1):
        one, inside = sentences[rank], slice(START, STOP)
        proposed = UNKNOWN if rank == NUM_FINDINGS else ("B-ORG", "I-ORG") if rank % 5 else ("O", "O")
        found.append(Finding(
            rank, one.id, one.document, rank, START, STOP, one.lines[START], one.tokens[inside], one.tokens[:START],
            one.tokens[STOP:], one.labels[inside], proposed, 9.0 / rank, max(0.05, 0.99 - rank / 1000),
            {"token loss": 4.5, "fold probability": 0.91}, rank % 3 or None,
        ))  # fmt: skip
    return found


def make_patterns(findings: Sequence[Finding]) -> list[Pattern]:
    """Two patterns of a hundred findings each; the effect of fixing the first is known."""
    found = list[Pattern]()
    for number in (1, 2):
        own = [one for one in findings if one.pattern == number]
        documents = tuple(dict.fromkeys(one.document for one in own))
        fits = TrustedFit(1.31, 61), TrustedFit(1.02, 44)
        known = GroupEffect(len(own), 200, 2500, *fits, None, 12, (-0.4, -0.1), (-25.0, -3.0))
        effect = known if number == 1 else None
        found.append(Pattern(
            number, "LOC -> ORG", None, len(own), len(own), tuple(one.rank for one in own), (), documents, 0.93, 9.0,
            f"{len(own)} segments labelled LOC, probably ORG", effect,
        ))  # fmt: skip
    return found


def many_occurrences(folder: Path) -> Review:
    """A project without a model: one segment at 2,346 places, 51 of which are findings, the first and the last ones."""
    write_jsonl(folder / "train.jsonl", [(["Rain", "in", "Harrow", "Town"], ["O", "O", "B-LOC", "I-LOC"])] * NUM_PLACES)
    corpus = read_corpus(folder / "train.jsonl")
    findings = [
        Finding(rank, one.id, one.document, number, 2, 4, one.lines[2], one.tokens[2:], one.tokens[:2], (),
                one.labels[2:], ("B-ORG", "I-ORG"), 1.0, 0.9)
        for rank, number in enumerate([0, *range(NUM_PLACES - 50, NUM_PLACES)], start=1)
        for one in [corpus.sentences[number]]
    ]  # fmt: skip
    decisions = Decisions(TrainingData(corpus, LABELS, findings=findings), Store(folder / "decisions.sqlite"))
    return Review("many", "ada", decisions, folder / "export")


def make_page_project(folder: Path) -> ProjectFile:
    """Write the data, train a tagger, build its index and write the audit."""
    write_jsonl(folder / "train.jsonl", train_sentences())
    write_jsonl(folder / "dev.jsonl", dev_sentences())
    train = build(folder, LABELS)
    findings = make_findings(train)
    write_audit(folder / "audit", findings, make_patterns(findings))
    return project_file(folder)


def build(folder: Path, labels: LabelSet) -> Sequence[Sentence]:
    """Train a tagger on ``train.jsonl`` and build its index."""
    train = read_corpus(folder / "train.jsonl")
    train_and_index(folder, train, labels)
    return train.sentences


def project_file(folder: Path) -> ProjectFile:
    places = {name: folder / f"{name}.jsonl" for name in ("train", "dev")}
    return write_project_file(
        folder, index=folder / "index", data=places["train"], dev=places["dev"], audit=folder / "audit"
    )
