"""Find label errors in CoNLL-2003 with a fine-tuned DistilBERT: real ones (Reiss et al.) and the paper's planted ones.

    python experiments/label_errors.py train TASK SEED PART --data ../shared/data --encoder DIR --work WORK
    python experiments/label_errors.py audit TASK SEED      --data ../shared/data --encoder DIR --work WORK --out OUT
    python experiments/label_errors.py judge TASK SEED      --data ../shared/data --work WORK --out OUT
    python experiments/label_errors.py fix   reiss SEED BY  --data ../shared/data --encoder DIR --out OUT [--again 3]
    python experiments/label_errors_table.py OUT                                 (the tables; also runs cleanlab)

``experiments/label_errors.sh`` runs all steps, many at a time, on a GPU. The tasks are described in ``error_tasks.py``.
PART is ``all`` or the number of a fold: the tagger is trained on all labels or without that fold, and then further on
the trusted sentences. ``audit`` writes every score and, in TASK-SEED.safetensors, the probabilities; from these
``judge`` computes the findings, the patterns and the places to look at first, on any machine. BY says how the 200
places that a reviewer corrects are chosen: ``combined``, ``cleanlab`` (self_confidence out of sample),
``cleanlab-taught`` (the same after training on the trusted sentences) or ``random``; with ``none`` nothing is
corrected, with ``all`` everything. ``--again N`` trains with another seed. The judges of ``combined`` have learned from
the validation set, so that only the test set is held out for it.

Nothing is tuned on these labels: the combined ranking was designed on WNUT 2017 and NCBI disease (docs/findings.md).
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections import Counter
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Literal

import torch
from error_tasks import LONGEST, NUM_FOLDS, TASKS, Task, read_task
from safetensors.torch import load_file, save_file
from torch import Tensor

from tagtrace.data import Sentence, segments
from tagtrace.findings import (
    Assessment,
    AuditOptions,
    NumberedText,
    Probabilities,
    Trusted,
    assess,
    at_level,
    average_precision,
    averaged,
    finding_is_wrong,
    mistaken_for,
    neighbour_scores,
    read_trusted,
    recall_at,
    suspicion,
    token_scores,
    trusted_scores,
)
from tagtrace.findings.judges.probabilities import empty, fill
from tagtrace.findings.ranking.truth import Truth
from tagtrace.index import Index, IndexOptions, build_index, open_index
from tagtrace.influence import Explainer
from tagtrace.reproduce.loop.places import places_of
from tagtrace.reproduce.shared.taggers import RECIPE
from tagtrace.tagger import (
    Lexical,
    LexicalOptions,
    Tagger,
    build_encoder,
    load_tagger,
    new_tagger,
    save_tagger,
    score_labels,
    train_tagger,
)
from tagtrace.tagger.further import train_further

NUM_FIXED = 200
QUERIES = {"noise": "ORG:LOC"}
"""The kind of error that the trusted documents of a task show."""
AGGREGATES: tuple[Literal["mean", "max", "top"], ...] = ("mean", "max", "top")
INFLUENCES: tuple[Literal["identity", "cosine"], ...] = ("identity", "cosine")

Place = tuple[int, int, int]
"""(sentence number, start, stop)."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("train", "audit", "judge", "fix"))
    parser.add_argument("task", choices=tuple(TASKS))
    parser.add_argument("seed", type=int)
    parser.add_argument("part", nargs="?", help="all or a fold (train); how places are chosen (fix)")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--encoder", help="folder of a transformer")
    parser.add_argument("--work", type=Path, help="folder for files that can be made again")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--again", type=int, default=0, help="the number of the training (fix), under 10")
    arguments = parser.parse_args()
    task = read_task(arguments.task, arguments.data, arguments.seed)
    start = time.monotonic()
    steps = {"train": train_part, "audit": run_audit, "judge": judge_opinions, "fix": fix_and_train}
    steps[arguments.step](task, arguments)
    print(
        arguments.step, arguments.task, arguments.seed, arguments.part, f"{time.monotonic() - start:.0f} s", flush=True
    )


# train


def train_part(task: Task, arguments: argparse.Namespace) -> None:
    """Train on all labels or without a fold, and save the tagger's marginals before and after trusted sentences."""
    part = arguments.part
    keep = torch.ones(len(task.train), dtype=torch.bool) if part == "all" else task.folds != int(part)
    judged = keep if part == "all" else ~keep
    recipe = replace(RECIPE, seed=10 * task.seed + (0 if part == "all" else 1 + int(part)))
    tagger = fresh_tagger(task, arguments.encoder, recipe.seed)
    train_tagger(tagger, [one for one, kept in zip(task.train, keep, strict=True) if kept], (), recipe)
    sentences = [one for one, wanted in zip(task.train, judged, strict=True) if wanted]
    found = {"base": believe(tagger, sentences).marginals}
    for kind, trusted in task.trusted.items():
        taught = deepcopy(tagger)
        train_further(taught, trusted, recipe)
        found[kind] = believe(taught, sentences).marginals
    folder = work_folder(task, arguments.work)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(found, folder / f"{part}.safetensors")
    if part == "all":
        save_tagger(tagger.cpu(), folder / "tagger")


def fresh_tagger(task: Task, encoder: str, seed: int) -> Tagger:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return new_tagger(build_encoder(f"transformer:{encoder}", task.train), task.labels, seed=seed).to(device)


def believe(tagger: Tagger, sentences: Sequence[Sentence]) -> Probabilities:
    lengths = torch.tensor([len(one) for one in sentences])
    labels = torch.tensor([label for one in sentences for label in tagger.labels.encode(one.labels)])
    found = empty(lengths, labels, len(tagger.labels))
    fill(found, torch.arange(len(sentences)), deepcopy(tagger.head).double().cpu(), tagger.rows(sentences))
    return found


def work_folder(task: Task, work: Path) -> Path:
    return work / f"{task.name}-{task.seed}"


def read_opinions(task: Task, folder: Path, kind: str) -> list[Probabilities]:
    """The saved marginals of the trained taggers, in sample and out of sample."""
    lengths = torch.tensor([len(one) for one in task.train])
    labels = torch.tensor([label for one in task.train for label in task.labels.encode(one.labels)])
    tokens = torch.repeat_interleave(task.folds, lengths)  # (N,)
    found = []
    for source in ("in-sample", "out-of-sample"):
        marginals = torch.empty(len(labels), len(task.labels))
        for fold in range(NUM_FOLDS) if source == "out-of-sample" else ("all",):
            rows = slice(None) if fold == "all" else tokens == fold
            marginals[rows] = load_file(folder / f"{fold}.safetensors")[kind]
        found.append(with_losses(marginals, labels, lengths, source))
    return found


def with_losses(marginals: Tensor, labels: Tensor, lengths: Tensor, source: str) -> Probabilities:
    """Probabilities from marginals alone: marginal losses replace the conditional and joint losses."""
    losses = -marginals.gather(1, labels.unsqueeze(1)).squeeze(1).double().clamp(min=1e-7).log()
    owner = torch.repeat_interleave(torch.arange(len(lengths)), lengths)
    joint = torch.zeros(len(lengths), dtype=torch.float64).index_add(0, owner, losses)
    return Probabilities(marginals, labels, lengths, losses, joint, source)  # pyright: ignore[reportArgumentType]


# audit


def run_audit(task: Task, arguments: argparse.Namespace) -> None:
    """Compute every score of every token and how well it finds errors; save the probabilities for ``judge``."""
    folder = work_folder(task, arguments.work)
    index, tagger = task_index(task, folder)
    opinions = {kind: read_opinions(task, folder, kind) for kind in ("base", *task.trusted)}
    trusted = {kind: read_trusted(index, tagger, sentences) for kind, sentences in task.trusted.items()}
    main_kind = next(iter(task.trusted))
    query = QUERIES.get(task.name)
    truth = true_labels(task, index)
    scores = all_scores(index, opinions, list(trusted.values())[-1], query)
    measured = {name: measures(task, index, values, truth) for name, values in scores.items()}
    arguments.out.mkdir(parents=True, exist_ok=True)
    result = {"task": task.name, "seed": task.seed, "scores": measured}
    (arguments.out / f"{task.name}-{task.seed}.json").write_text(json.dumps(result, indent=1) + "\n")
    arrays = {"out": opinions["base"][1].marginals, "mean": averaged(opinions[main_kind]).float()}
    arrays |= {
        "taught_out": given(opinions[main_kind][1]).float(),
        "given": opinions["base"][1].labels,
        "wrong": truth.wrong,
        "lengths": index.lengths,
    }
    save_file(arrays, arguments.out / f"{task.name}-{task.seed}.safetensors")


def task_index(task: Task, folder: Path) -> tuple[Index, Tagger]:
    """The index of the tagger trained on all labels, and that tagger with its refitted head."""
    tagger = load_tagger(folder / "tagger")
    tagger.to(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    if not (folder / "index").exists():
        build_index(tagger, task.corpus, folder / "index", tagger_path=folder / "tagger")
    index = open_index(folder / "index")
    tagger.head = deepcopy(index.head).to(tagger.device)
    return index, tagger


def all_scores(
    index: Index, opinions: dict[str, list[Probabilities]], trusted: Trusted, query: str | None
) -> dict[str, Tensor]:
    """The scores (N,) of all rankings of tokens, by name."""
    text, found = NumberedText(index), dict[str, Tensor]()
    for kind, (inside, out) in opinions.items():
        believed = averaged([inside, out])
        found[f"combined, {kind}"] = suspicion(text, believed)
        found[f"loss, {kind}, in"] = token_scores("marginal-loss", index, inside)
        found[f"loss, {kind}, out"] = token_scores("marginal-loss", index, out)
        found[f"self_confidence, {kind}, out"] = -given(out)
        found[f"normalized_margin, {kind}, out"] = token_scores("margin", index, out)
        if query is not None:
            found[f"query, {kind}"] = mistaken_for(index, believed, query)
    found["entropy, base, out"] = token_scores("entropy", index, opinions["base"][1])
    found["gradient-norm"] = token_scores("gradient-norm", index, opinions["base"][1])
    asked = trusted.mispredicted()
    found["neighbour"] = neighbour_scores(index, asked)
    if query is not None:
        asked = trusted.confused(index, query)
    explainer = Explainer(index, "identity")
    for method in INFLUENCES:
        found[f"influence, {method}, top"] = trusted_scores(explainer, asked, method, "top")
        found[f"influence, {method}, sum"] = trusted_scores(explainer, asked, method, "sum")
    return found


def given(opinion: Probabilities) -> Tensor:
    """The probabilities of the given labels, (N,)."""
    return opinion.marginals.gather(1, opinion.labels.unsqueeze(1)).squeeze(1).double()


def measures(task: Task, index: Index, scores: Tensor, truth: Truth) -> dict[str, object]:
    """How well a score finds wrong tokens and documents with wrong tokens (under 800 tokens, as in the paper)."""
    tokens = {"ap": average_precision(scores, truth.wrong)}
    tokens |= {f"recall@{k}": recall_at(scores, truth.wrong, k) for k in (100, 500, 1000)}
    sizes = Counter[str]()
    for one in task.train:
        sizes[one.document] += len(one)
    names = at_level(index, scores, "document").names
    short = torch.tensor([sizes[name] < LONGEST for name in names])
    wrong = {"any": at_level(index, truth.wrong.double(), "document", "max").scores > 0}
    wrong |= {kind: torch.tensor([task.noise.get(name) == kind for name in names]) for kind in set(task.noise.values())}
    documents = dict[str, dict[str, float]]()
    for aggregate in AGGREGATES:
        values = at_level(index, scores, "document", aggregate).scores[short]
        documents |= {f"{kind}, {aggregate}": document_measures(values, is_[short]) for kind, is_ in wrong.items()}
    return {"tokens": tokens, "documents": documents}


def document_measures(scores: Tensor, wrong: Tensor) -> dict[str, float]:
    recalls = {f"recall@{k}": recall_at(scores, wrong, k) for k in (20, 50, 100, 122, 200)}
    return {"ap": average_precision(scores, wrong), **recalls}


# judge


def judge_opinions(task: Task, arguments: argparse.Namespace) -> None:
    """Compute findings, patterns and the places to look at first from the saved probabilities."""
    index = index_of_words(task, work_folder(task, arguments.work))
    arrays = load_file(arguments.out / f"{task.name}-{task.seed}.safetensors")
    believed = with_losses(arrays["mean"], arrays["given"], arrays["lengths"], "out-of-sample")
    truth = true_labels(task, index)
    path = arguments.out / f"{task.name}-{task.seed}.json"
    found = assess(index, [believed])
    result = json.loads(path.read_text()) | judge(task, found, index, truth)
    if query := QUERIES.get(task.name):
        asked = assess(index, [believed], options=AuditOptions(query=query))
        result["query"] = judge(task, asked, index, truth)
    path.write_text(json.dumps(result, indent=1) + "\n")
    out = arrays["out"].gather(1, arrays["given"].unsqueeze(1)).squeeze(1)
    rows = list(range(index.num_tokens))
    random.Random(task.seed).shuffle(rows)
    places = {
        "combined": [(one.sentence_number, one.start, one.stop) for one in found.findings[:NUM_FIXED]],
        "cleanlab": segments_of(task, out.argsort(stable=True).tolist()),
        "random": segments_of(task, rows),
    }
    if "taught_out" in arrays:
        places["cleanlab-taught"] = segments_of(task, arrays["taught_out"].argsort(stable=True).tolist())
    (arguments.out / f"places-{task.name}-{task.seed}.json").write_text(json.dumps(places) + "\n")


def index_of_words(task: Task, folder: Path) -> Index:
    """An index of the task's text and labels, with an untrained tagger whose features are not used."""
    if not (folder / "words").exists():
        folder.mkdir(parents=True, exist_ok=True)
        tagger = new_tagger(Lexical(LexicalOptions(buckets=16, width=1, hidden=1)), task.labels)
        save_tagger(tagger, folder / "untrained")
        build_index(tagger, task.corpus, folder / "words", IndexOptions(refit=False), tagger_path=folder / "untrained")
    return open_index(folder / "words")


def judge(task: Task, found: Assessment, index: Index, truth: Truth) -> dict[str, object]:
    """How many findings and pattern members are wrong; the only text kept is the word in a condition."""
    judged = finding_is_wrong(found.findings, index, truth)
    patterns = [
        {
            "change": one.change,
            "condition": one.condition and [one.condition.kind, one.condition.value],
            "segments": one.num_segments,
            "documents": len(one.documents),
            "score": one.score,
            "wrong": sum(bool(judged.is_wrong[rank - 1]) for rank in one.findings),
        }
        for one in found.patterns[:5]
    ]
    firsts = (50, 100, 200, 500, 1000)
    return {
        "findings_wrong": {str(k): int(judged.is_wrong[:k].sum()) for k in firsts},
        "findings_mended": {str(k): int(judged.is_true[:k].sum()) for k in firsts},
        "patterns": patterns,
        "first_pattern_documents": pattern_documents(task, found),
    }


def pattern_documents(task: Task, found: Assessment) -> dict[str, object]:
    """The documents of the first pattern, ordered by the expected number of wrong segments: the sum of confidences."""
    expected = dict[str, float]()
    members = set(found.patterns[0].findings) if found.patterns else set[int]()
    for one in found.findings:
        if one.rank in members:
            document = task.train[one.sentence_number].document
            expected[document] = expected.get(document, 0.0) + one.confidence
    kinds = [task.noise.get(name, "none") for name in sorted(expected, key=lambda name: -expected[name])]
    return {"of_first_20": Counter(kinds[:20]), "of_all": Counter(kinds), "planted": Counter(task.noise.values())}


def true_labels(task: Task, index: Index) -> Truth:
    labels = torch.tensor([label for one in task.true for label in task.labels.encode(one.labels)])
    return Truth(labels, labels != index.label_ids)


# fix


def fix_and_train(task: Task, arguments: argparse.Namespace) -> None:
    """Correct 200 places, train again and evaluate."""
    by, again = arguments.part, arguments.again
    sentences, num_changed = corrected(task, chosen_places(task, arguments.out, by))
    recipe = replace(RECIPE, seed=10 * task.seed + again)
    tagger = fresh_tagger(task, arguments.encoder, recipe.seed)
    train_tagger(tagger, sentences, (), recipe)
    result: dict[str, object] = {"task": task.name, "seed": task.seed, "by": by, "again": again, "changed": num_changed}
    for split, held_out in task.held_out.items():
        card = score_labels([one.labels for one in held_out], tagger.predict(held_out), tagger.labels.scheme)
        result[split] = card.segments.f1
    (arguments.out / f"fix-{task.seed}-{by}-{again}.json").write_text(json.dumps(result) + "\n")


def chosen_places(task: Task, out: Path, by: str) -> list[Place]:
    """The places that ``judge`` wrote, or all of the text, or nothing."""
    if by in ("none", "all"):
        return [] if by == "none" else [(number, 0, len(one)) for number, one in enumerate(task.train)]
    return [tuple(place) for place in json.loads((out / f"places-{task.name}-{task.seed}.json").read_text())[by]]


def segments_of(task: Task, rows: Sequence[int]) -> list[Place]:
    """The segments of the first tokens in this order, each segment once, at most 200."""
    return [(one.sentence_number, one.start, one.stop) for one in places_of(task.train, rows, NUM_FIXED)]


def corrected(task: Task, places: Sequence[Place]) -> tuple[list[Sentence], int]:
    """The training sentences with every given or true segment at these places corrected, and the number of changes."""
    labels = [list(one.labels) for one in task.train]
    for number, start, stop in places:
        touched = [(start, stop)]
        for source in (task.train[number].labels, task.true[number].labels):
            touched += [(s.start, s.stop) for s in segments(source, "iob2") if s.start < stop and s.stop > start]
        first, last = min(a for a, _ in touched), max(b for _, b in touched)
        labels[number][first:last] = task.true[number].labels[first:last]
    num_changed = sum(a != b for old, new in zip(task.train, labels, strict=True)
                      for a, b in zip(old.labels, new, strict=True))  # fmt: skip
    return [one.with_labels(new) for one, new in zip(task.train, labels, strict=True)], num_changed


if __name__ == "__main__":
    main()
