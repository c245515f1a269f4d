"""Section 6.3, tables 2 and 4: dosages that are sometimes labelled as part of an intervention and sometimes not.

Crowd annotators of EBM-NLP's training abstracts included some dosages in the interventions; the experts who labelled
its test set did not. A test dosage without intervention labels, but with a token predicted as an intervention, gives a
query: its last mispredicted token (usually the unit) with its gold label. The strongest supporter and opposer of each
method count as follows:

| | document | token |
|---|---|---|
| supporting | has a dosage outside interventions | belongs to such a dosage |
| opposing | has a dosage inside an intervention | belongs to such a dosage and is labelled as an intervention |
| conflicting | both | both |

- *segment influence*: the strongest training tokens for the query's conditional loss, and their documents;
- *instance influence*: the strongest documents for the joint loss of the query's document;
- *segment NN*: the tokens with the nearest features, with the query's label and with another (``shared.retrieval``).

Scores without curvature are computed and saved first (partial.json in the work folder, in the form of the result). If
the exact Hessian cannot be computed, its rows are left out and the result says why.

*Chance* is the same count without a method: *random documents*, one for each side; *random tokens*, one outside
interventions as the supporter and one inside as the opposer, and their documents.

All three types are learned together, as in the paper's released code; its text mentions "the task of annotating
medical interventions", which would be ``types = ["INT"]``. The released code asks about the last token of a dosage
(table 2 of the paper prints it in bold), whether or not it is mispredicted, and its tagger here is a softmax tagger,
not a CRF.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from random import Random
from typing import Any

import torch
from torch import Tensor

from tagtrace._checks import DataError, TagtraceError
from tagtrace.data import Corpus, LabelSet, Sentence, read_corpus
from tagtrace.data.sentence import join_documents
from tagtrace.findings import Queries, read_trusted
from tagtrace.index import IndexOptions
from tagtrace.reproduce.experiments.dosage_conflicts import EXAMPLE, TOKEN, Asked, QueryGroups
from tagtrace.reproduce.experiments.dosage_regex import READINGS, Reading, dosages_of
from tagtrace.reproduce.shared.device_curvature import DeviceCurvature
from tagtrace.reproduce.shared.experiment import Experiment, Headline, SeedResult, write_result
from tagtrace.reproduce.shared.figures import draw_bars
from tagtrace.reproduce.shared.retrieval import Retriever, Strongest
from tagtrace.reproduce.shared.sampling import at_most
from tagtrace.reproduce.shared.setting import Setting
from tagtrace.reproduce.shared.tables import markdown, spread
from tagtrace.reproduce.shared.taggers import indexed, trained

PAPER: dict[str, tuple[float, ...]] = {
    "instance influence": (68.7, 58.3, 35.4),
    "segment NN": (97.9, 89.5, 87.5, 97.9, 85.4, 83.3),
    "segment influence": (97.9, 100.0, 97.9, 97.9, 87.5, 85.4),
}
"""Percentages of table 4, in the order of ``EXAMPLE`` and ``TOKEN``; its 1.00 is read as 100 %."""
CONFLICTING = (EXAMPLE[2], TOKEN[2])
SHOWN = (
    "segment influence, cosine", "segment influence, relative", "segment influence, identity",
    "segment NN, cosine", "segment NN, dot", "instance influence, cosine",
)  # fmt: skip
"""The methods in the headlines."""
PAPER_QUERIES, PAPER_F1 = 48, 73.3
"""The number of queries is inferred: the paper's percentages are multiples of 1/48."""


@dataclass(frozen=True)
class DosageOptions:
    """See dosage.toml."""

    train: str
    tests: list[str]
    types: list[str]
    intervention: str
    readings: list[str]
    num_train: int
    num_test: int
    longest: int
    tolerance: float
    curvature: bool
    transformer: dict[str, Any]
    other: dict[str, Any]


def run(setting: Setting, seed: int) -> SeedResult:
    """Train one tagger and count, for each method, what it finds for the tagger's queries."""
    options = setting.options("dosage", DosageOptions)
    folder = setting.data / "ebmnlp"
    train = read_documents(folder / options.train, options.types, options.num_train, seed, options.longest)
    tests = {name: read_documents(folder / f"{name}.jsonl.gz", options.types, options.num_test, seed).sentences
             for name in options.tests}  # fmt: skip
    labels = LabelSet.from_sentences(train.sentences, "io")
    is_transformer = setting.encoder_spec.startswith("transformer:")
    changes = options.transformer if is_transformer else options.other
    tagger = trained(setting, f"dosage-{seed}", train, labels, seed, "document", **changes)
    index = indexed(setting, f"dosage-{seed}", tagger, train, IndexOptions(tolerance=options.tolerance))
    trusted = read_trusted(index, tagger, [one for test in tests.values() for one in test])
    asked = all_queries(tests, trusted.predicted == labels.index(options.intervention), options)
    setting.report(", ".join([f"{len(rows)} queries ({name})" for name, (_, rows) in asked.items()]))
    if not any(len(rows) for _, rows in asked.values()):
        raise DataError("no test dosage is mispredicted as an intervention; train longer, or on more documents")
    groups = QueryGroups.of(index, train.sentences, options.intervention, asked)
    about: SeedResult = {
        "options": asdict(options), "documents": index.num_sentences, "tokens": index.num_tokens,
        "f1": {name: token_f1(trusted.rows.labels[rows], trusted.predicted[rows], labels)
               for name, rows in rows_of(tests).items()},
    }  # fmt: skip
    retriever, given = Retriever(index, setting.device), Queries(trusted.rows, groups.rows)
    methods, notes = methods_without_curvature(retriever, given, setting.report), ["curvature was not computed"]
    if options.curvature:
        partial = {**about, "readings": groups.readings(methods), "notes": notes}
        write_result(partial, setting.work / f"dosage-{seed}" / "partial.json")
        with_curvature, notes = methods_with_curvature(retriever, given, setting.report)
        methods |= with_curvature
    return {**about, "readings": groups.readings(methods), "notes": notes}


def methods_without_curvature(
    retriever: Retriever, asked: Queries, report: Callable[[str], None]
) -> dict[str, Strongest]:
    """The strongest by each score that needs no curvature, by name."""
    report("segment influence")
    found = {f"segment influence, {name}": one for name, one in retriever.tokens(asked).items()}
    report("instance influence")
    found |= {f"instance influence, {name}": one for name, one in retriever.sentences(asked).items()}
    report("segment NN")
    neighbours = retriever.neighbours(asked)
    return found | {f"segment NN, {name}": neighbours[f"{name}, labels"] for name in ("dot", "cosine")}


def methods_with_curvature(
    retriever: Retriever, asked: Queries, report: Callable[[str], None]
) -> tuple[dict[str, Strongest], list[str]]:
    """The strongest by influence with the exact Hessian, by name; or nothing, and a line that says why."""
    report("curvature")
    try:
        curved = DeviceCurvature(retriever.index, retriever.device)
        tokens = retriever.tokens(asked, curved, exact_sizes=False)
        found = {f"segment influence, {name}": one for name, one in tokens.items()}
        found |= {f"instance influence, {name}": one for name, one in retriever.sentences(asked, curved).items()}
    except (TagtraceError, MemoryError, RuntimeError) as error:  # torch raises RuntimeError when memory runs out
        note = f"curvature is left out: {' '.join(str(error).split()) or type(error).__name__}"
        report(note)
        return {}, [note]
    return found, []


def read_documents(path: Path, types: Sequence[str], most: int, seed: int, longest: int = 0) -> Corpus:
    """At most ``most`` documents drawn at random, with the labels ``types``; other labels become O.

    Documents with more than ``longest`` tokens are left out. 0 means no limit.
    """
    corpus = read_corpus(path)
    documents = [
        one.with_labels([label if label in types else "O" for label in one.labels])
        for one in join_documents(corpus.sentences)
        if not longest or len(one) <= longest
    ]
    return corpus.with_sentences(at_most(documents, most, Random(seed)))


def rows_of(tests: Mapping[str, Sequence[Sentence]]) -> dict[str, slice]:
    """The rows of each test set when all are concatenated."""
    stops = list(accumulate(sum(map(len, test)) for test in tests.values()))
    return {name: slice(*ends) for name, ends in zip(tests, pairwise([0, *stops]), strict=True)}


def all_queries(
    tests: Mapping[str, Sequence[Sentence]], is_predicted: Tensor, options: DosageOptions
) -> dict[str, Asked]:
    """The queries of every reading and test set, as rows of the concatenated test sets."""
    found: dict[str, Asked] = {}
    for reading in map(READINGS.__getitem__, options.readings):
        for name, rows in rows_of(tests).items():
            own = queries(tests[name], is_predicted[rows], reading, options)
            found[f"{reading.name}, {name}"] = reading, own + rows.start
    return found


def queries(sentences: Sequence[Sentence], is_predicted: Tensor, reading: Reading, options: DosageOptions) -> Tensor:
    """The rows (Q,) of the query tokens; ``is_predicted`` (n,) says where an intervention is predicted."""
    predicted, found, first = is_predicted.tolist(), set[int](), 0
    for sentence in sentences:
        for start, stop in dosages_of(sentence, reading, options.intervention):
            wrong = [first + t for t in range(start, stop) if predicted[first + t]]
            if wrong and options.intervention not in sentence.labels[start:stop]:
                found.add(wrong[-1])
        first += len(sentence)
    return torch.tensor(sorted(found), dtype=torch.long)


def token_f1(gold: Tensor, predicted: Tensor, labels: LabelSet) -> dict[str, float]:
    """Token F1 of each type, their mean, and the F1 of all types together (micro)."""
    C = len(labels)
    right, wanted, found = (v.bincount(minlength=C).double() for v in (gold[gold == predicted], gold, predicted))
    types = [number for number, name in enumerate(labels.labels) if name != "O"]
    each = {labels.labels[n]: float(2 * right[n] / (wanted[n] + found[n]).clamp(min=1)) for n in types}
    micro = float(2 * right[types].sum() / (wanted[types] + found[types]).sum().clamp(min=1))
    return {**each, "mean": sum(each.values()) / len(each), "micro": micro}


def table(results: Sequence[SeedResult]) -> str:
    """A table for each reading of what a dosage is and each test set: methods by the columns of table 4, in percent."""
    lines = [
        f"{results[0]['documents']:,} training documents, {results[0]['tokens']:,} tokens. Token F1, mean of the types "
        f"and micro (the paper: {PAPER_F1}): {'; '.join(_f1(results, test) for test in results[0]['f1'])}.\n"
    ]
    for reading in results[0]["readings"]:
        some = [one["readings"][reading] for one in results]
        queries = spread([one["queries"] for one in some], 1 if len(some) > 1 else 0)
        lines.append(
            f"\nDosages and test labels: {reading}. {queries} queries "
            f"(paper: {PAPER_QUERIES}, by its percentages). Percentages of queries; in brackets ours minus the "
            "paper's.\n\n"
        )
        lines.append(markdown(("method", *EXAMPLE, *TOKEN), _rows(some)))
    lines += [f"\nSeed {one['seed']}: {note}.\n" for one in results for note in one.get("notes", [])]
    return "".join(lines)


def _f1(results: Sequence[SeedResult], test: str) -> str:
    values = [[100 * one["f1"][test][kind] for one in results] for kind in ("mean", "micro")]
    both = [f"{spread(some, 1)} ({sum(some) / len(some) - PAPER_F1:+.1f})" for some in values]
    return f"{both[0]} and {both[1]} on {test}"


def common_methods(some: Sequence[Mapping[str, Any]], group: str) -> list[str]:
    """The methods of a group that are present for every seed."""
    every = [name for name in some[0]["methods"] if all(name in one["methods"] for one in some)]
    return [name for name in every if name.startswith(group)]


def _rows(some: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    rows: list[list[str]] = []
    for group, paper in PAPER.items():
        rows.append([f"*{group}, paper*", *(f"{value:.1f}" for value in paper), *["-"] * (6 - len(paper))])
        for method in common_methods(some, group):
            cells = _cells([one["methods"][method] for one in some])
            marks = [f"{cell} ({mean - p:+.1f})" for (cell, mean), p in zip(cells, paper, strict=False)]
            rows.append([method, *marks, *["-"] * (6 - len(marks))])
    for name in some[0]["chance"]:
        cells = [cell for cell, _ in _cells([one["chance"][name] for one in some])]
        rows.append([f"chance: {name}", *cells, *["-"] * (6 - len(cells))])
    return rows


def _cells(shares: Sequence[Mapping[str, float]]) -> list[tuple[str, float]]:
    """For each column, the percentages over seeds as text, and their mean."""
    columns = [[100 * one[name] for one in shares] for name in shares[0]]
    return [(spread(values, 1), sum(values) / len(values)) for values in columns]


def headlines(results: Sequence[SeedResult]) -> list[Headline]:
    """Conflicting documents and tokens under every reading, on the first test set."""
    lines: list[Headline] = []
    for reading in first_readings(results):
        some = [one["readings"][reading] for one in results]
        for method in (name for name in SHOWN if all(name in one["methods"] for one in some)):
            paper = PAPER[method.partition(",")[0]][2::3]
            shares = [one["methods"][method] for one in some]
            both = _cells([{name: one[name] for name in CONFLICTING if name in one} for one in shares])
            lines.append(
                Headline(
                    f"conflicting examples{'; tokens' if len(both) > 1 else ''}, %, dosages as {reading}: {method}",
                    "; ".join(f"{value:.1f}" for value in paper),
                    "; ".join(cell for cell, _ in both),
                    "; ".join(f"{mean - p:+.1f}" for (_, mean), p in zip(both, paper, strict=True)),
                )
            )
    return lines


def draw(results: Sequence[SeedResult], folder: Path) -> list[Path]:
    """Conflicting documents and tokens by method, with the paper's figures, for each reading on the first test set."""
    paths: list[Path] = []
    for reading in first_readings(results):
        groups: dict[str, dict[str, list[float]]] = {}
        for group, paper in PAPER.items():
            columns = dict(zip((*EXAMPLE, *TOKEN), paper, strict=False))
            groups[f"{group}, paper"] = {key: [columns[key]] for key in CONFLICTING if key in columns}
            for name in common_methods([one["readings"][reading] for one in results], group):
                shares = [one["readings"][reading]["methods"][name] for one in results]
                groups[name] = {key: [100 * one[key] for one in shares] for key in CONFLICTING if key in shares[0]}
        title = f"Conflicting labels of dosages ({reading}) among the strongest"
        stem = folder / f"dosage-{reading.partition(',')[0]}"
        paths += draw_bars(stem, groups, title=title, y="percent of mispredicted dosages")
    return paths


def first_readings(results: Sequence[SeedResult]) -> list[str]:
    """The names of every reading of what a dosage is, on the first test set."""
    return [name for name in results[0]["readings"] if name.endswith(f", {results[0]['options']['tests'][0]}")]


def _means(results: Sequence[SeedResult], method: str, kind: str = "methods") -> dict[str, float]:
    """A method's shares under the first reading, averaged over seeds."""
    reading = first_readings(results)[0]
    some = [one["readings"][reading][kind][method] for one in results]
    return {name: sum(shares[name] for shares in some) / len(some) for name in some[0]}


def check(results: Sequence[SeedResult]) -> list[str]:
    """Segment influence must find conflicting tokens more often than chance does, and conflicting documents more often
    than instance influence does."""
    segment, instance = _means(results, "segment influence, cosine"), _means(results, "instance influence, cosine")
    chance = _means(results, "random tokens", "chance")
    pairs = [
        (TOKEN[2], "random tokens", chance[TOKEN[2]]),
        (EXAMPLE[2], "random tokens", chance[EXAMPLE[2]]),
        (EXAMPLE[2], "instance influence", instance[EXAMPLE[2]]),
    ]
    return [
        f"{column}: {100 * segment[column]:.1f} % by segment influence is not above {100 * other:.1f} % by {name}"
        for column, name, other in pairs
        if segment[column] <= other
    ]


EXPERIMENT = Experiment("dosage", "section 6.3, tables 2 and 4", run, table, headlines, draw, check)
