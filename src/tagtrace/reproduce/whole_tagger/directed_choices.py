"""What ``directed`` asks about, and which sentences and labels are chosen for it by each score.

Chosen edits are kept beside the results, OUT/NAME-removed.json and OUT/NAME-flipped.json: a tagger that is trained
again on another machine differs a little, and what was trained with them has to belong to them.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tagtrace._checks import DataError, OptionError
from tagtrace._files import write_json
from tagtrace.data import Corpus, Sentence
from tagtrace.index import Index
from tagtrace.influence import Edit, Explainer, Query, Screen, WholeInfluence, find_candidates, make_query
from tagtrace.influence.edits.edit_pool import relabellings
from tagtrace.influence.edits.margin import Margin
from tagtrace.influence.edits.seed_effects import RetrainOptions
from tagtrace.influence.whole.flip_whole import WholeFlip, strongest_edits
from tagtrace.reproduce.shared.conll import read_split
from tagtrace.reproduce.shared.setting import Setting
from tagtrace.reproduce.shared.taggers import with_index_head
from tagtrace.reproduce.whole_tagger.answers import Trainings
from tagtrace.reproduce.whole_tagger.lds_subsets import QueryLosses
from tagtrace.tagger import Tagger
from tagtrace.tagger.retrainings import Variant
from tagtrace.tagger.training import sentences_digest

SCORES = ("head, exact", "whole tagger")
Groups = dict[str, list[Edit]]
"""Edits that are made together, by name."""


@dataclass(frozen=True)
class DirectedOptions:
    """See directed.toml."""

    train: str
    validation: str
    num_train: int
    shortest: int
    longest: int
    num_queries: int
    other_queries: int
    num_seeds: int
    num_early: int
    group_size: int
    most: int
    transformer: dict[str, Any]
    other: dict[str, Any]


@dataclass(frozen=True)
class TokenAnswers:
    """The loss of the gold label and the predicted label of tokens (sentence number, start, stop), (Q, 3)."""

    sentences: tuple[Sentence, ...]
    segments: Tensor

    @torch.no_grad()
    def __call__(self, tagger: Tagger) -> Tensor:
        """(2, Q) float64"""
        paths = tagger.predict(self.sentences)
        labels = [tagger.labels.index(paths[i][t]) for i, t, _ in self.segments.tolist()]
        return torch.stack([QueryLosses(self.sentences, self.segments)(tagger), torch.tensor(labels).double()])

    def to_json(self) -> list[object]:
        """What identifies the sentences, labels included, and the segments."""
        return [sentences_digest(self.sentences), self.segments.tolist()]


def draw_sentences(setting: Setting, options: DirectedOptions, seed: int) -> tuple[Corpus, list[Sentence]]:
    """Training sentences drawn by seed, and all validation sentences of these lengths."""

    def in_range(corpus: Corpus) -> list[Sentence]:
        return [one for one in corpus.sentences if options.shortest <= len(one) <= options.longest]

    train = read_split(setting.data, options.train)
    chosen = random.Random(1000 + seed).sample(in_range(train), options.num_train)
    return train.with_sentences(chosen), in_range(read_split(setting.data, options.validation))


def stable_errors(
    trainings: Trainings, validation: Sequence[Sentence], most: int, seed: int, seeds: Sequence[int]
) -> tuple[TokenAnswers, Tensor]:
    """Tokens that taggers of all ``seeds`` mispredict in the same way; their losses and labels, (seeds, 2, Q)."""
    every = torch.tensor([[i, t, t + 1] for i, one in enumerate(validation) for t in range(len(one))])
    variants = [Variant(f"nothing-seed-{s}", trainings.train.sentences, s) for s in seeds]
    about = {"validation": sentences_digest(validation)}
    found = trainings.answers("unedited", variants, TokenAnswers(tuple(validation), every), about)  # (seeds, 2, tokens)
    gold, labels = [label for one in validation for label in one.labels], found[:, 1].long()
    names = trainings.recipe.labels.labels
    is_inside = torch.tensor([name.startswith("I-") for name in names])[labels[-1]]  # (tokens,)
    continues = torch.cat([is_inside[1:] & (every[1:, 1] > 0), is_inside.new_zeros(1)])  # no other label fits alone
    is_stable = (labels == labels[0]).all(0) & ~continues
    wrong = [t for t in is_stable.nonzero().squeeze(1).tolist() if names[int(labels[0, t])] != gold[t]]
    if not wrong:
        raise DataError("no validation token is mispredicted by every tagger in the same way; use more sentences")
    if len(wrong) > most:
        wrong = sorted(random.Random(seed).sample(wrong, most))
    numbers = sorted({int(every[t, 0]) for t in wrong})
    segments = torch.tensor([[numbers.index(int(every[t, 0])), *every[t, 1:].tolist()] for t in wrong])
    return TokenAnswers(tuple(validation[i] for i in numbers), segments), found[:, :, wrong]


def kept_edits(path: Path, owner: Mapping[str, Any], choose: Callable[[], Groups]) -> Groups:
    """The edits in a file, which ``choose`` makes if there is none; ``owner`` is what they depend on."""
    if path.exists():
        kept = json.loads(path.read_text("utf-8"))
        if kept["owner"] != json.loads(json.dumps(owner)):
            raise DataError(f"{path}: holds edits for other queries or options; use another folder for the results")
        rows = kept["edits"].items()
        return {name: [Edit(n, a, b, new and tuple(new)) for n, a, b, new in some] for name, some in rows}
    found = choose()
    edits = {name: [list(asdict(edit).values()) for edit in some] for name, some in found.items()}
    write_json(path, {"owner": owner, "edits": edits})
    return found


def removals(setting: Setting, index: Index, whole: WholeInfluence, queries: Sequence[Query], size: int) -> Groups:
    """For each score, query and side, the edits that take whole sentences away."""
    setting.report("influence of sentences")
    sentences = find_candidates(index, "sentence").segments
    gradients = torch.stack([query.gradient(index.head) for query in queries])
    moved = Explainer(index, "dense", device=setting.device).solver.solve(gradients.to(setting.device)).value.cpu()
    influences = (Screen(index.head, index.rows, sentences).influence(moved), whole.sentence_scores(queries))
    found: Groups = {}
    for score, influence in zip(SCORES, influences, strict=True):
        for number, row in enumerate(influence):
            for side, sign in (("supporters", 1.0), ("opposers", -1.0)):
                chosen = (sign * row).topk(size).indices.tolist()
                found[f"{side}-{score}-{number}"] = [Edit(*sentences[one].tolist()) for one in chosen]
    return found


def flips(
    setting: Setting,
    index: Index,
    whole: WholeInfluence,
    tagger: Tagger,
    asked: TokenAnswers,
    predicted: Tensor,
    options: DirectedOptions,
) -> Groups:
    """For each score and query, the labels that are changed; the predictions are those of the unedited taggers."""
    explainer = Explainer(index, device=setting.device)
    chooser = WholeFlip(index, whole, explainer.optimum, explainer.rows, RetrainOptions(), setting.device)
    refitted = with_index_head(tagger, index)
    found: Groups = {}
    for number, (i, start, stop) in enumerate(asked.segments.tolist()):
        setting.report(f"labels that should flip prediction {number + 1} of {len(asked.segments)}")
        query = make_query(refitted, asked.sentences[i], start, stop).with_labels(predicted[number : number + 1])
        by_head, by_whole = list[Edit](), list[Edit]()
        with suppress(OptionError):  # the labels around it, with the refitted head, allow no other
            by_head = head_edits(explainer, query, options.most)
            by_whole = chooser.edits(query, "relabel", "token", options.most)
        found |= {f"flip-{SCORES[0]}-{number}": by_head, f"flip-{SCORES[1]}-{number}": by_whole}
    return found


def head_edits(explainer: Explainer, query: Query, most: int) -> list[Edit]:
    """The strongest of the same relabellings by their first-order effect on the head's margin."""
    head, margin = explainer.optimum, Margin(query, explainer.optimum)
    gap = margin.at(head)
    pool = relabellings(explainer.rows, explainer.index.labels, gap)
    if not len(pool.segments):
        return []
    direction = explainer.solver.solve(margin.gradient(gap, head).unsqueeze(0)).value[0]  # V (P,)
    return strongest_edits(pool, -pool.effects(head, explainer.rows, direction), most)
