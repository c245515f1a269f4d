"""The effect of fixing findings together: against dense Newton steps, refits on the new labels, and planted errors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tagtrace._checks import DataError, OptionError
from tagtrace.data import Corpus, LabelSet, Sentence, read_corpus
from tagtrace.data.invented import InventedCorpus, generate, write_invented
from tagtrace.findings.finding import Finding
from tagtrace.findings.patterns.group_effect import TrustedFit, group_effect, pattern_edits, trusted_fit
from tagtrace.index import Index, IndexOptions, build_index
from tagtrace.influence import Edit, Explainer, Query
from tagtrace.tagger import (
    Head,
    HeadOptions,
    Lexical,
    LexicalOptions,
    RefitOptions,
    Rows,
    Tagger,
    new_tagger,
    refit_head,
)
from tagtrace.tagger.convex.objective import Objective
from tests.findings.made import make_corpus, make_index, make_tagger

L2 = 5.0


@dataclass(frozen=True)
class Made:
    """An index of invented newswire with planted errors, its explainer, and trusted sentences."""

    corpus: InventedCorpus
    index: Index
    explainer: Explainer
    tagger: Tagger
    trusted: Rows

    def findings(self, kind: str) -> list[Finding]:
        """The planted errors of a kind, with the true labels proposed."""
        numbers = {name: number for number, name in enumerate(self.index.ids)}
        planted = [one for one in self.corpus.errors if one.kind == kind]
        return [
            Finding(rank, one.sentence, one.document, numbers[one.sentence], one.start, one.stop, 0, one.tokens, (), (),
                    one.planted_labels, one.true_labels, 1.0, 1.0)
            for rank, one in enumerate(planted, start=1)
        ]  # fmt: skip


@pytest.fixture(
    params=[HeadOptions(), HeadOptions(start_end=True, constrained=True), HeadOptions("softmax")],
    ids=["crf", "constrained", "softmax"],
    scope="module",
)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder: Path = tmp_path_factory.mktemp("group")
    corpus = generate(num_documents=40, random_share=0.1)
    write_invented(corpus, folder)
    train = read_corpus(folder / "train.conll")
    torch.manual_seed(0)
    labels = LabelSet.from_sentences(train.sentences, "iob2")
    encoder = Lexical(LexicalOptions(buckets=256, width=4, hidden=4))
    tagger = new_tagger(encoder, labels, request.param)
    options = IndexOptions(dtype="float32", l2=L2, tolerance=1e-9)
    index = build_index(tagger, train, folder / "index", options)
    return Made(corpus, index, Explainer(index), tagger, tagger.rows(list(corpus.dev)))


def relabelled(rows: Rows, edits: list[Edit]) -> Rows:
    labels = rows.labels.clone()
    for edit in edits:
        first = int(rows.lengths[: edit.sentence_number].sum())
        labels[first + edit.start : first + edit.stop] = torch.tensor(edit.labels)
    assert not torch.equal(labels, rows.labels)
    return Rows(rows.features, labels, rows.lengths)


def mean_loss(head: Head, rows: Rows) -> float:
    """One sentence at a time: its joint loss is that of the segment that is all of it."""
    features, labels = (part.split(rows.lengths.tolist()) for part in (rows.features, rows.labels))
    losses = [Query(f, y, 0, len(y)).loss(head) for f, y in zip(features, labels, strict=True)]
    return float(torch.stack(losses).mean().detach())


def num_wrong(made: Made, head: Head) -> int:
    """By the tagger itself."""
    given, made.tagger.head = made.tagger.head, head
    predicted = made.tagger.predict(list(made.corpus.dev))
    made.tagger.head = given
    pairs = zip(made.corpus.dev, predicted, strict=True)
    return sum(a != b for sentence, path in pairs for a, b in zip(sentence.labels, path, strict=True))


def newton_step(made: Made, rows: Rows) -> Tensor:
    """-H^-1 grad of the objective on relabelled rows at the old optimum, H by finite differences of gradients."""
    theta = made.explainer.optimum.flat()
    old, new = Objective(made.index.head, made.explainer.rows.joined(), L2), Objective(made.index.head, rows, L2)
    steps = 1e-5 * torch.eye(len(theta), dtype=theta.dtype)
    slopes = [torch.stack([old.evaluate(theta + sign * step).gradient for step in steps]) for sign in (1, -1)]
    hessian = (slopes[0] - slopes[1]) / 2e-5
    return -torch.linalg.solve(hessian, new.evaluate(theta).gradient)


def test_predicted_and_verified_are_what_they_say(made: Made) -> None:
    edits = pattern_edits(made.index, made.findings("systematic")[:12])
    found = group_effect(made.explainer, made.trusted, edits, verify=True)
    rows, optimum = relabelled(made.explainer.rows.joined(), edits), made.explainer.optimum
    refitted = refit_head(made.index.head, rows, RefitOptions(L2, tolerance=1e-10)).head
    moved = optimum.at(optimum.flat() + newton_step(made, rows))
    assert found.verified is not None
    for fit, head in ((found.before, optimum), (found.predicted, moved), (found.verified, refitted)):
        assert fit.loss == pytest.approx(mean_loss(head, made.trusted), abs=1e-6)
        assert fit.num_wrong == num_wrong(made, head)
    assert found.after is found.verified
    assert abs(found.change) > 1e-3
    assert found.predicted.loss - found.before.loss == pytest.approx(found.change, rel=0.35)
    assert (found.num_edits, found.num_sentences) == (12, len(made.corpus.dev))
    assert found.num_tokens == sum(map(len, made.corpus.dev))


def test_fixing_planted_errors_helps_and_planting_hurts(made: Made) -> None:
    for kind in ("systematic", "random"):
        findings = made.findings(kind)
        edits = pattern_edits(made.index, findings)
        fixed = group_effect(made.explainer, made.trusted, edits, verify=True)
        assert fixed.verified is not None
        assert fixed.predicted.loss < fixed.before.loss
        assert fixed.verified.loss < fixed.before.loss
    fixed = pattern_edits(made.index, made.findings("systematic"))
    clubs = [
        edit for edit in org_segments(made.index) if edit.sentence_number not in {one.sentence_number for one in fixed}
    ]
    spoilt = group_effect(made.explainer, made.trusted, clubs[: len(fixed)])
    assert spoilt.verified is None
    assert spoilt.after is spoilt.predicted
    assert spoilt.change > 0


def org_segments(index: Index) -> list[Edit]:
    """Every ORG of one token, to be made a LOC."""
    edits = []
    for number in range(index.num_sentences):
        labels = [*index.sentence(number).labels, "O"]
        ends = [t for t in range(len(labels) - 1) if labels[t] == "B-ORG" and labels[t + 1] != "I-ORG"]
        edits += [Edit(number, t, t + 1, (index.labels.index("B-LOC"),)) for t in ends]
    return edits


def test_the_prediction_for_a_large_group_does_not_diverge(tmp_path: Path) -> None:
    """Where words say their labels and half of the labels of one are changed: the whole Newton step leads far away."""
    index = make_index(tmp_path, easy_corpus(60), l2=0.02)
    explainer, trusted = Explainer(index), make_tagger().rows(easy_corpus(20).sentences)
    wrong = index.labels.index("B-Y")
    edits = [
        Edit(number, t, t + 1, (wrong,))
        for number in range(0, index.num_sentences, 2)
        for t, token in enumerate(index.sentence(number).tokens)
        if token == "w0"
    ]
    found = group_effect(explainer, trusted, edits, verify=True)
    optimum, new = explainer.optimum, Objective(index.head, relabelled(explainer.rows.joined(), edits), 0.02)
    step = -explainer.exact.solve(new.evaluate(optimum.flat()).gradient.unsqueeze(0)).value[0]
    values = [new.evaluate(optimum.flat() + share * step).value for share in (0.0, 1.0)]
    assert values[1] > 2 * values[0], "the raw step diverges"
    raw = trusted_fit(optimum.at(optimum.flat() + step), trusted)
    assert found.verified is not None
    rise = found.verified.loss - found.before.loss
    assert rise > 0.1
    assert raw.loss - found.before.loss > 3 * rise
    assert 0.3 * rise < found.predicted.loss - found.before.loss < 2 * rise


def easy_corpus(num_sentences: int) -> Corpus:
    """Every word has one label."""
    labels = {f"w{number}": ("B-X", "O", "B-Y")[number % 3] for number in range(12)}
    corpus = make_corpus(num_sentences)
    return corpus.with_sentences(one.with_labels([labels[word] for word in one.tokens]) for one in corpus.sentences)


def test_an_edit_that_changes_nothing(made: Made) -> None:
    rows = made.index.sentence_rows(0)
    edit = Edit(0, 0, len(rows.labels), tuple(rows.labels.tolist()))
    found = group_effect(made.explainer, made.trusted, [edit], verify=True)
    assert found.verified is not None
    assert found.predicted.loss == pytest.approx(found.before.loss, abs=1e-9)
    assert found.verified.loss == pytest.approx(found.before.loss, abs=1e-9)


def test_a_fit_does_not_depend_on_batches(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = trusted_fit(made.index.head, made.trusted)
    monkeypatch.setattr(import_module("tagtrace.findings.patterns.group_effect"), "MAX_TOKENS", 30)
    parts = trusted_fit(made.index.head, made.trusted)
    assert parts == TrustedFit(pytest.approx(whole.loss), whole.num_wrong)  # type: ignore[arg-type]


def test_findings_that_cannot_be_fixed_together(made: Made) -> None:
    number = next(c for c in range(made.index.num_sentences) if "I-PER" in made.index.sentence(c).labels)
    sentence = made.index.sentence(number)
    second = sentence.labels.index("I-PER")
    first = second - 1
    whole = finding(sentence, 1, number, first, second + 1, ("B-ORG", "I-ORG"))
    edit = pattern_edits(made.index, [whole])
    assert edit == [Edit(number, first, second + 1, tuple(made.index.labels.encode(["B-ORG", "I-ORG"])))]
    part = finding(sentence, 2, number, first, second, ("O",))
    with pytest.raises(OptionError, match=f"^findings 1 and 2 overlap in sentence {sentence.id}; fix only one$"):
        pattern_edits(made.index, [whole, part])
    with pytest.raises(OptionError, match=rf"^finding 2: I-PER is not possible after O \(token {second} of"):
        pattern_edits(made.index, [part])
    rest = finding(sentence, 3, number, second, second + 1, ("B-PER",))
    assert len(pattern_edits(made.index, [part, rest])) == 2  # together they are well formed
    with pytest.raises(DataError, match=r"^finding 2: .* give the index that was audited$"):
        pattern_edits(made.index, [replace(part, given=("B-MISC",))])
    with pytest.raises(DataError, match="unknown label 'B-SHIP'"):
        pattern_edits(made.index, [replace(part, proposed=("B-SHIP",))])


def finding(
    sentence: Sentence, rank: int, sentence_number: int, start: int, stop: int, proposed: tuple[str, ...]
) -> Finding:
    return Finding(
        rank, sentence.id, sentence.document, sentence_number, start, stop, 0, sentence.tokens[start:stop], (), (),
        sentence.labels[start:stop], proposed, 1.0, 1.0,
    )  # fmt: skip


def test_edits_that_make_no_sense(made: Made) -> None:
    with pytest.raises(OptionError, match="no edits"):
        group_effect(made.explainer, made.trusted, [])
    with pytest.raises(OptionError, match="two edits of sentence 3 overlap at token 1"):
        group_effect(made.explainer, made.trusted, [Edit(3, 0, 2, (1, 2)), Edit(3, 1, 2, (0,))])
    nothing = Rows(made.trusted.features[:0], made.trusted.labels[:0], made.trusted.lengths[:0])
    with pytest.raises(DataError, match="no trusted sentences"):
        group_effect(made.explainer, nothing, [Edit(3, 0, 2, (1, 2))])
    if made.index.head.options.constrained:
        stray = made.index.labels.index("I-PER")
        with pytest.raises(OptionError, match="the tagger's constraints forbid"):
            group_effect(made.explainer, made.trusted, [Edit(3, 0, 1, (stray,))])
