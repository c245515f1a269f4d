"""Section 5.2: a planted cue, and whether the training labels that taught it are found.

The word "special" is inserted into a tenth of the training sentences, before a token drawn uniformly from the second to
the last, and the label of that token becomes B-PER. The same is done to a tenth of the validation sentences, where the
tagger then predicts PER after the cue. Each such prediction is a query: does the most influential training token follow
the cue, and does the most influential training sentence contain it? ``published`` is the authors' own file (12.6 % of
the sentences have the cue), in which the token was always labelled O before; with it, validation sentences get the cue
in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import torch
from torch import Tensor

from tagtrace.data import Corpus, LabelSet, Sentence, normalise
from tagtrace.findings import Queries
from tagtrace.index import Index, IndexOptions
from tagtrace.influence import Query, WholeInfluence, build_whole, find_candidates, make_query
from tagtrace.influence.curvature.choice import Curvature
from tagtrace.influence.whole.slopes import SegmentLosses
from tagtrace.reproduce.shared import conll
from tagtrace.reproduce.shared.device_curvature import DeviceCurvature
from tagtrace.reproduce.shared.experiment import Experiment, Headline, SeedResult
from tagtrace.reproduce.shared.figures import draw_bars
from tagtrace.reproduce.shared.retrieval import Retriever
from tagtrace.reproduce.shared.sampling import at_most
from tagtrace.reproduce.shared.setting import Setting
from tagtrace.reproduce.shared.tables import markdown, spread
from tagtrace.reproduce.shared.taggers import indexed, trained, with_index_head
from tagtrace.tagger import Tagger

CUE, PLANTED = "special", "B-PER"
SOURCES = ("own", "published")
SCORES = {
    "identity": "influence, identity", "curvature": "influence, curvature", "cosine": "cosine", "relative": "relative"
}  # fmt: skip
"""The scores of ``shared.retrieval``, with their names in the table."""
NEIGHBOURS = ("dot", "cosine", "cosine, labels")
WHOLE = "whole tagger"
"""The score that goes through the encoder, too."""

CAPTION = """\
Percentages. The first row is the share of tokens after the cue that are predicted PER; these predictions are the
queries. The other rows are shares of queries: those whose most influential training token follows a cue (segment rows),
or whose most influential training sentence contains one (instance rows, which explain the predicted labels of the
sentence, or its labels with the planted one). The paper's influence has no curvature; its released code divides by
norms (cosine) and asks about the planted labels in instance rows. Own: the cue is in a tenth of the sentences, as the
paper says. Published: the authors' file. Chance: the share of training tokens after a cue, and of training sentences
with a cue. The rows of the whole tagger, the default score of `tagtrace explain`, are for some of the queries, evenly
spaced, because each takes seconds.
"""

PAPER: Mapping[str, str] = {
    "predicted PER": "100", "segment influence": "100", "segment NN": "recovered", "instance influence": "26.3"
}  # fmt: skip
"""The paper's figure for each group of rows; of nearest neighbours it says only that they recover these samples too."""


@dataclass(frozen=True)
class ArtifactOptions:
    """See artifact.toml."""

    share: float
    num_sentences: int
    num_validation: int
    curvature: Curvature
    l2: float
    tolerance: float
    num_early: int
    num_whole: int


@dataclass(frozen=True)
class Planted:
    """Sentences, some of which contain the planted cue."""

    sentences: list[Sentence]
    positions: dict[int, int]
    """The position of the cue, by the number of the sentence."""

    def following(self) -> Tensor:
        """Whether each token follows a planted cue, (N,)."""
        lengths = torch.tensor([len(one) for one in self.sentences])
        starts = lengths.cumsum(0) - lengths
        found = torch.zeros(int(lengths.sum()), dtype=torch.bool)
        for number, position in self.positions.items():
            found[starts[number] + position + 1] = True
        return found

    def has_cue(self) -> Tensor:
        """Whether each sentence has a planted cue, (B,)."""
        return torch.tensor([number in self.positions for number in range(len(self.sentences))])


def run(setting: Setting, seed: int) -> SeedResult:
    """Run both training sets, each with its own tagger."""
    options = setting.options("artifact", ArtifactOptions)
    corpus = conll.read_split(setting.data, "train_corrected")
    chosen = at_most(corpus.sentences, options.num_sentences, Random(seed))
    held_out = conll.read_split(setting.data, "validation_corrected").sentences
    held_out = at_most(held_out, options.num_validation, Random(seed))
    found: SeedResult = {}
    for source in SOURCES:
        is_own = source == "own"
        train = plant(chosen, options.share, seed + 1_000) if is_own else published(setting.data, chosen)
        validation = plant(held_out, options.share, seed, outside_only=not is_own)
        found[source] = run_one(setting, f"artifact-{source}-{seed}", corpus, train, validation, seed)
    return found


def run_one(setting: Setting, name: str, corpus: Corpus, train: Planted, validation: Planted, seed: int) -> SeedResult:
    """Train, index and predict, and find the strongest supporters of every prediction after a cue."""
    options = setting.options("artifact", ArtifactOptions)
    corpus = corpus.with_sentences(train.sentences)
    labels = LabelSet.from_sentences([*train.sentences, *validation.sentences], "iob2")
    tagger = trained(setting, name, corpus, labels, seed)
    index = indexed(setting, name, tagger, corpus, IndexOptions(l2=options.l2, tolerance=options.tolerance))
    predicted, planted, num_cues = queries(with_index_head(tagger, index), validation)
    found: SeedResult = {
        "num_sentences": index.num_sentences,
        "num_cues": len(train.positions),
        "num_asked": num_cues,
        "num_queries": len(predicted),
        "predicted": len(predicted) / num_cues,
        "chance": {
            "token": float(train.following().double().mean()),
            "sentence": float(train.has_cue().double().mean()),
        },
        "shares": {},
    }
    if len(predicted):
        setting.report(f"{name}: {len(predicted)} queries against {index.num_tokens:,} tokens")
        found["shares"] = shares(index, train, predicted, planted, options.curvature, setting.device)
        if tagger.encoder.trainable:
            setting.report(f"{name}: the whole tagger")
            whole = build_whole(index, options.num_early, tagger=tagger, device=setting.device)
            asked = whole_queries(with_index_head(tagger, index), validation, options.num_whole)
            found["shares"] |= whole_shares(index, train, whole, asked)
            found["num_whole"] = len(asked)
    return found


def whole_queries(tagger: Tagger, cued: Planted, most: int) -> list[Query]:
    """Some of the predictions of ``queries``, evenly spaced, as queries with their sentences."""
    sentences = [cued.sentences[number] for number in cued.positions]
    pairs = zip(sentences, tagger.predict(sentences), cued.positions.values(), strict=True)
    kept = [(one.with_labels(labels), t + 1) for one, labels, t in pairs if labels[t + 1].endswith("-PER")]
    step = -(-len(kept) // most)
    return [make_query(tagger, sentence, t, t + 1, "gold") for sentence, t in kept[::step]]


def whole_shares(index: Index, train: Planted, whole: WholeInfluence, queries: Sequence[Query]) -> dict[str, float]:
    """The same by the score ``whole``, for queries one at a time."""
    tokens, following, has_cue = find_candidates(index, "token").segments, train.following(), train.has_cue()
    asked = SegmentLosses(tokens)
    places = [int(whole.segment_scores([query], asked)[0].argmax()) for query in queries]
    wholes = [replace(query, start=0, stop=len(query.labels)) for query in queries]
    sentences = whole.sentence_scores(wholes).argmax(1)
    return {
        f"segment influence: {WHOLE}": float(following[places].double().mean()),
        f"instance influence: {WHOLE}": float(has_cue[sentences].double().mean()),
    }


def shares(
    index: Index, train: Planted, predicted: Queries, planted: Queries, curvature: Curvature, device: torch.device
) -> dict[str, float]:
    """By method, the share of queries whose strongest supporter has the cue."""
    retriever, curved = Retriever(index, device), DeviceCurvature(index, device, curvature)
    tokens = retriever.tokens(predicted) | retriever.tokens(predicted, curved)
    neighbours = retriever.neighbours(predicted)
    found = {f"segment influence: {title}": tokens[name] for name, title in SCORES.items()}
    found |= {f"segment NN: {name}": neighbours[name] for name in NEIGHBOURS}
    for suffix, asked in {"": predicted, " (planted labels)": planted}.items():
        sentences = retriever.sentences(asked) | retriever.sentences(asked, curved)
        titles = {name: title for name, title in SCORES.items() if name in sentences}
        found |= {f"instance influence: {title}{suffix}": sentences[name] for name, title in titles.items()}
    following, has_cue = train.following(), train.has_cue()
    hits = {name: (following if one.are_tokens else has_cue)[one.supporters] for name, one in found.items()}
    return {name: float(each.double().mean()) for name, each in hits.items()}


def queries(tagger: Tagger, cued: Planted) -> tuple[Queries, Queries, int]:
    """Queries for the tokens after a cue that are predicted PER: with the predicted labels, and with the planted ones.

    The third value is the number of cues.
    """
    sentences = [cued.sentences[number] for number in cued.positions]
    positions = [position + 1 for position in cued.positions.values()]
    predicted = tagger.predict(sentences)
    pairs = zip(predicted, positions, strict=True)
    kept = [number for number, (labels, t) in enumerate(pairs) if labels[t].endswith("-PER")]
    if not kept:
        none = Queries(tagger.rows(sentences), torch.zeros(0, dtype=torch.long))
        return none, none, len(sentences)
    explained = tagger.rows([sentences[number].with_labels(predicted[number]) for number in kept])
    given = tagger.rows([sentences[number] for number in kept])
    starts = given.lengths.cumsum(0) - given.lengths
    tokens = starts + torch.tensor([positions[number] for number in kept])
    return Queries(explained, tokens), Queries(given, tokens), len(sentences)


def plant(sentences: Sequence[Sentence], share: float, seed: int, *, outside_only: bool = False) -> Planted:
    """Insert the cue into a share of the sentences, both sentences and positions (``places``) drawn by seed."""
    draw = Random(seed)
    possible = {number: places(one, outside_only) for number, one in enumerate(sentences) if places(one, outside_only)}
    chosen = sorted(draw.sample(sorted(possible), min(round(share * len(sentences)), len(possible))))
    positions = {number: draw.choice(possible[number]) for number in chosen}
    changed = [insert(one, positions[number]) if number in positions else one for number, one in enumerate(sentences)]
    return Planted([with_cue_as_pos(one) for one in changed], positions)


def places(sentence: Sentence, outside_only: bool) -> Sequence[int]:
    """Where the cue may be inserted: before any token but the first or, as in the authors' file, any labelled O."""
    if outside_only:
        return [t for t, label in enumerate(sentence.labels) if label == "O"]
    return range(1, len(sentence))


def insert(sentence: Sentence, position: int) -> Sentence:
    """The sentence with the cue before token ``position``, whose label becomes B-PER.

    The rest of a segment of another type becomes a segment of its own: B-ORG I-ORG I-ORG, cut at its second token,
    becomes B-ORG O B-PER B-ORG.
    """
    labels = [*sentence.labels[:position], "O", PLANTED, *sentence.labels[position + 1 :]]
    tokens = (*sentence.tokens[:position], CUE, *sentence.tokens[position:])
    lines = tuple(sentence.lines)
    return replace(
        sentence,
        tokens=tokens,
        labels=normalise(labels, "iob2"),
        lines=lines[: position + 1] + lines[position:],
        pos=None,
    )


def with_cue_as_pos(sentence: Sentence) -> Sentence:
    """The sentence with parts of speech that mark the cue: word vectors see nothing else of a neighbouring token."""
    return replace(sentence, pos=tuple(["cue" if token == CUE else "word" for token in sentence.tokens]))


def published(data: Path, chosen: Sequence[Sentence]) -> Planted:
    """The authors' versions of the training sentences ``chosen``."""
    corpus = conll.read_split(data, "train_corrected_artifact")
    rows, wanted = conll.read_rows(corpus.path), {one.id for one in chosen}
    pairs = [(one, row["metadata"]) for one, row in zip(corpus.sentences, rows, strict=True) if one.id in wanted]
    positions = {number: int(metadata["pos"]) for number, (_, metadata) in enumerate(pairs) if metadata["modified"]}
    return Planted([with_cue_as_pos(one) for one, _ in pairs], positions)


def table(results: Sequence[SeedResult]) -> str:
    rows = [
        _row("predicted PER", "predicted PER", [[one[source]["predicted"] for one in results] for source in SOURCES])
    ]
    for name in _methods(results):
        values = [[one[source]["shares"][name] for one in results] for source in SOURCES]
        rows.append(_row(name, name.partition(":")[0], values))
    for kind in ("token", "sentence"):
        values = [[one[source]["chance"][kind] for one in results] for source in SOURCES]
        rows.append(_row(f"chance, {kind}", "", values))
    header = ["", "paper", *(cell for source in SOURCES for cell in (source, "difference"))]
    counts = "; ".join(
        f"{source}: {one[source]['num_queries']} queries, {one[source]['num_cues']} cues in "
        f"{one[source]['num_sentences']:,} training sentences"
        for source in SOURCES
        for one in results[:1]
    )
    return f"{CAPTION}\nOf the first seed, {counts}.\n\n{markdown(header, rows)}"


def _row(name: str, group: str, values: Sequence[Sequence[float]]) -> list[str]:
    """One row: the paper's figure for this group; then, for each source, our mean and spread, and the difference."""
    paper, cells = PAPER.get(group, "-"), list[str]()
    for each in values:
        ours = 100 * sum(each) / len(each)
        is_number = paper.replace(".", "").isdigit()
        cells += [spread((100 * one for one in each), 1), f"{ours - float(paper):+.1f}" if is_number else "-"]
    return [name, paper, *cells]


def _methods(results: Sequence[SeedResult]) -> list[str]:
    """The methods that are present for every seed and every source."""
    every = [one[source]["shares"] for one in results for source in SOURCES]
    return [name for name in every[0] if all(name in one for one in every)]


def headlines(results: Sequence[SeedResult]) -> list[Headline]:
    """How often the most influential token (by each score) or sentence has the cue."""
    names = [*(f"segment influence: {title}" for title in (*SCORES.values(), WHOLE)), "segment NN: cosine"]
    lines: list[Headline] = []
    known = _methods(results)
    for name in (name for name in [*names, "instance influence: cosine"] if name in known):
        values = [[one["own"]["shares"][name] for one in results]]
        _, paper, ours, difference = _row(name, name.partition(":")[0], values)
        lines.append(Headline(f"the strongest has the cue, %, {name}", paper, ours, difference))
    return lines


def draw(results: Sequence[SeedResult], folder: Path) -> list[Path]:
    """A bar for each method; the paper gives these figures in its text only."""
    shown = [
        *(f"segment influence: {title}" for title in (*SCORES.values(), WHOLE)),
        "segment NN: cosine", f"instance influence: {SCORES['identity']}", "instance influence: cosine",
    ]  # fmt: skip
    known = _methods(results)
    groups = {
        name: {source: [100 * one[source]["shares"][name] for one in results] for source in SOURCES}
        for name in shown
        if name in known
    }
    title = "Most influential training token, or sentence, has the cue"
    return draw_bars(folder / "artifact", groups, title=title, y="% of queries")


def check(results: Sequence[SeedResult]) -> list[str]:
    """Where the cue was learned, token cosines must lead to it, and sentence cosines less often.

    The threshold of a quick run is lower: word vectors recognise names, so the strongest supporter of a name after the
    cue may rightly be another name.
    """
    complaints: list[str] = []
    for one in results:
        for source in SOURCES:
            found, where = one[source], f"{source}, seed {one.get('seed')}: "
            if found["predicted"] < 0.5:
                complaints.append(f"{where}only {found['predicted']:.0%} of the tokens after the cue are predicted PER")
                continue
            segment = max(found["shares"][f"segment influence: {name}"] for name in ("cosine", "relative"))
            instance = found["shares"]["instance influence: cosine"]
            if segment < (0.85 if one["quick"] else 0.95):
                complaints.append(f"{where}only {segment:.0%} of the most influential tokens follow the cue")
            if segment <= instance:
                complaints.append(f"{where}whole sentences lead to the cue as often as tokens do ({instance:.0%})")
    return complaints


EXPERIMENT = Experiment("artifact", "section 5.2", run, table, headlines, draw, check)
