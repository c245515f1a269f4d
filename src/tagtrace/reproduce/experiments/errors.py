"""Section 6.1: finding documents with annotation errors (figure 3a and its full version in the appendix).

The tagger is trained on the original labels of the documents under 800 tokens; a document is wrong if Reiss et al.
corrected any of its labels. Ten of the validation documents that they corrected are trusted, with corrected labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import torch

from tagtrace._checks import DataError
from tagtrace.data import Corpus, LabelSet, Sentence
from tagtrace.findings import Trusted, read_trusted
from tagtrace.index import IndexOptions
from tagtrace.influence import find_candidates
from tagtrace.reproduce.shared import conll
from tagtrace.reproduce.shared.document_rankings import FIGURE, PAPER, document_numbers, rank_documents
from tagtrace.reproduce.shared.experiment import Experiment, Headline, SeedResult
from tagtrace.reproduce.shared.figures import draw_curves
from tagtrace.reproduce.shared.recall_curves import (
    CHANCE,
    curve_table,
    mean_curves,
    mean_precisions,
    methods,
    not_above,
    ranks,
)
from tagtrace.reproduce.shared.setting import Setting
from tagtrace.reproduce.shared.taggers import indexed, trained

MISPREDICTED = "mispredicted"

CAPTION = """\
How soon each method's ranking of the training documents finds those with a corrected label. The paper shows these
curves as a figure only, without numbers; it says that influence recovers noisy documents efficiently, and that average
token loss does as well. The first 13 methods are the paper's (influence without curvature, asked about all tokens of
the trusted documents). The others are influence as a cosine, and influence asked about mispredicted trusted tokens
only. Area is the area under the curve, divided by its width.
"""


@dataclass(frozen=True)
class ErrorOptions:
    """See errors.toml."""

    num_documents: int
    num_trusted: int
    top_k: int
    l2: float
    tolerance: float


def run(setting: Setting, seed: int) -> SeedResult:
    """Train, index, and rank the training documents by every method."""
    options = setting.options("errors", ErrorOptions)
    corpus, wrong = erroneous_corpus(setting.data, options.num_documents, seed)
    experts = trusted_sentences(setting.data, options.num_trusted, seed)
    labels = LabelSet.from_sentences([*corpus.sentences, *experts], "iob2")
    name = f"errors-{seed}"
    tagger = trained(setting, name, corpus, labels, seed)
    index = indexed(setting, name, tagger, corpus, IndexOptions(l2=options.l2, tolerance=options.tolerance))
    trusted = read_trusted(index, tagger, experts)
    setting.report(f"ranking {len(corpus.documents)} documents by {len(trusted):,} trusted tokens")
    scores = rank_documents(
        index, trusted, document_numbers(experts), mispredicted(trusted), options.top_k, setting.device
    )
    is_wrong = torch.tensor([document in wrong for document in find_candidates(index, "document").documents])
    return {
        "num_documents": len(is_wrong),
        "num_wrong": int(is_wrong.sum()),
        "num_trusted_tokens": len(trusted),
        "num_mispredicted": int((trusted.predicted != trusted.rows.labels).sum()),
        "token_accuracy_trusted": round(float((trusted.predicted == trusted.rows.labels).double().mean()), 4),
        "ranks": {method: ranks(values, is_wrong) for method, values in scores.items()},
    }


def erroneous_corpus(data: Path, num_documents: int, seed: int) -> tuple[Corpus, set[str]]:
    """Short documents with their original labels, all or some drawn by seed, and which of them are wrong."""
    corpus, corrected = conll.read_split(data, "train_original"), conll.read_split(data, "train_corrected")
    wrong = conll.changed_documents(corpus.sentences, corrected.sentences)
    names = conll.short_documents(corpus.sentences)
    if num_documents:
        names = Random(seed).sample(names, num_documents)
    return corpus.with_sentences(conll.in_documents(corpus.sentences, names)), wrong.intersection(names)


def trusted_sentences(data: Path, count: int, seed: int) -> list[Sentence]:
    """Sentences of validation documents that were corrected, with corrected labels."""
    before, after = (conll.read_split(data, f"validation_{kind}").sentences for kind in ("original", "corrected"))
    return conll.sample_documents(after, conll.changed_documents(before, after), seed, count)


def mispredicted(trusted: Trusted) -> dict[str, Trusted]:
    """The mispredicted trusted tokens, if there are any."""
    try:
        return {MISPREDICTED: trusted.mispredicted()}
    except DataError:
        return {}


def table(results: Sequence[SeedResult]) -> str:
    first = results[0]
    return f"{CAPTION}{first['num_documents']} documents, {first['num_wrong']} of them wrong.\n\n{curve_table(results)}"


def headlines(results: Sequence[SeedResult]) -> list[Headline]:
    """Segment influence and token loss."""
    names = ("segment influence, max", "segment influence, mean", "token loss, mean")
    return [Headline("AP", "influence and loss recover them; a figure", mean_precisions(results, names))]


def draw(results: Sequence[SeedResult], folder: Path) -> list[Path]:
    """Figure 3a, and the figure of all 13 curves."""
    paths: list[Path] = []
    for stem, names in {"errors": FIGURE, "errors-all": PAPER}.items():
        words = {"title": "Documents with annotation errors", "x": "documents read", "y": "fraction of them found"}
        paths += draw_curves(folder / stem, mean_curves(results, names), **words)
    return paths


def check(results: Sequence[SeedResult]) -> list[str]:
    """Token loss and segment influence must find wrong documents sooner than chance."""
    complaints = [f"{name}: no ranking" for name in PAPER if name not in methods(results)]
    if complaints:
        return complaints
    for name in ("token loss, mean", "segment influence, mean"):
        complaints += not_above(results, name, CHANCE, 0.05)
    return complaints


EXPERIMENT = Experiment("errors", "section 6.1, figure 3a", run, table, headlines, draw, check)
