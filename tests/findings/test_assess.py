"""The whole audit, on invented newswire with planted errors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from tagtrace._checks import DataError, OptionError, TrainingError
from tagtrace.data import Corpus, LabelSet, read_corpus
from tagtrace.data.invented import InventedCorpus, generate, write_invented
from tagtrace.findings import (
    SCORES,
    Assessment,
    AuditOptions,
    Probabilities,
    Trusted,
    assess,
    average_precision,
    averaged,
    find_patterns,
    head_opinions,
    hurt_queries,
    in_sample,
    mistaken_for,
    out_of_sample,
    propose,
    read_trusted,
    suspicion,
    token_scores,
    trusted_scores,
)
from tagtrace.findings.patterns.conditions import NumberedText
from tagtrace.findings.patterns.cross_fit import CrossFit
from tagtrace.findings.ranking.token_scores import SCORERS
from tagtrace.index import Index, IndexOptions, build_index
from tagtrace.influence import Explainer
from tagtrace.tagger import Lexical, LexicalOptions, Tagger, TrainOptions, new_tagger, train_tagger

assessing = import_module("tagtrace.findings.assess")


@dataclass(frozen=True)
class Made:
    """An index of invented newswire, its tagger, opinions and trusted tokens."""

    invented: InventedCorpus
    dev: Corpus
    tagger: Tagger
    index: Index
    opinions: list[Probabilities]
    trusted: Trusted

    @property
    def is_wrong(self) -> torch.Tensor:
        """Whether the label of each training token was planted, (N,)."""
        pairs = zip(self.invented.train, self.invented.train_true, strict=True)
        return torch.tensor([a != b for s, t in pairs for a, b in zip(s.labels, t.labels, strict=True)])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("audit")
    invented = generate(num_documents=40)
    write_invented(invented, folder)
    train, dev = (read_corpus(folder / f"{name}.conll") for name in ("train", "dev"))
    torch.manual_seed(0)
    labels = LabelSet.from_sentences(train.sentences, "iob2")
    tagger = new_tagger(Lexical(LexicalOptions(buckets=2048, width=12, hidden=12)), labels)
    train_tagger(tagger, train.sentences, (), TrainOptions(epochs=6, batch_size=8, learning_rate=2e-2))
    index = build_index(tagger, train, folder / "index", IndexOptions(shard_tokens=900, tolerance=1e-4))
    assert len(index.shards) > 1
    trusted = read_trusted(index, tagger, dev.sentences)
    return Made(invented, dev, tagger, index, head_opinions(index, trusted.rows, 2), trusted)


@pytest.fixture(scope="module")
def found(made: Made) -> Assessment:
    return assess(made.index, made.opinions, made.trusted, AuditOptions(num_effects=2))


def test_planted_errors_are_found(made: Made, found: Assessment) -> None:
    """Far above chance, and better than by the loss of a head that has learned from them."""
    precision = average_precision(found.scores, made.is_wrong)
    assert precision > 3 * float(made.is_wrong.double().mean())
    plain = assess(made.index, [in_sample(made.index)], None, AuditOptions("marginal-loss"))
    assert precision > average_precision(plain.scores, made.is_wrong)
    assert found.patterns[0].change == "LOC -> ORG"


def test_the_systematic_error_is_the_first_pattern(made: Made) -> None:
    """By an opinion that is mostly right: half of it is what the head believes, half the true labels."""
    ids = made.index.labels.encode([label for one in made.invented.train_true for label in one.labels])
    truth = torch.nn.functional.one_hot(torch.tensor(ids), len(made.index.labels))
    opinion = replace(made.opinions[0], marginals=0.5 * made.opinions[0].marginals + 0.5 * truth)
    found = assess(made.index, [opinion], made.trusted, AuditOptions(num_effects=1))
    first, by_rank = found.patterns[0], {one.rank: one for one in found.findings}
    assert first.change == "LOC -> ORG"
    assert first.condition is not None
    assert (first.condition.kind, first.condition.value) == ("opening", "HANDBALL")
    planted = {(one.sentence, one.start, one.stop) for one in made.invented.errors if one.kind == "systematic"}
    members = {(one.sentence, one.start, one.stop) for one in map(by_rank.__getitem__, first.findings)}
    assert len(members & planted) >= 0.9 * len(planted)
    assert len(members & planted) >= 0.9 * len(members)
    assert first.effect is not None
    assert first.effect.change < 0, "fixing it helps"
    every = {(one.sentence, t) for one in made.invented.errors for t in range(one.start, one.stop)}
    top = found.findings[: len(made.invented.errors)]
    assert sum(any((one.sentence, t) in every for t in range(one.start, one.stop)) for one in top) >= 0.8 * len(top)


def test_an_audit_is_made_of_its_parts(made: Made, found: Assessment) -> None:
    index, believed = made.index, averaged(made.opinions)
    assert torch.equal(found.believed, believed)
    assert torch.equal(found.scores, suspicion(NumberedText(index), believed))
    labels = index.label_ids
    doubts = {f"{one.sample} doubt": 1.0 - one.marginals[range(len(labels)), labels] for one in made.opinions}
    listed = propose(index, believed, found.scores, 1000, doubts)
    likely = [one for one in listed if one.confidence > 0.5]
    patterns, members = find_patterns(index, likely, 20)
    owner = {one.rank: one.pattern for one in members}
    assert [replace(one, effect=None) for one in found.patterns] == patterns
    for one, wanted in zip(found.findings, listed, strict=True):
        assert replace(one, scores={}, pattern=None) == replace(wanted, scores={})
        assert one.pattern == owner.get(one.rank)
        assert {name: one.scores[name] for name in doubts} == pytest.approx(wanted.scores, abs=1e-6)
        rows = slice(
            int(index.starts[one.sentence_number]) + one.start, int(index.starts[one.sentence_number]) + one.stop
        )
        expected = float((1.0 - believed[rows].gather(1, labels[rows].unsqueeze(1))).max())
        assert one.scores["doubt"] == pytest.approx(expected)
    assert len(found.scores) == index.num_tokens
    assert not found.notes


def test_effects_of_the_first_patterns(made: Made, found: Assessment) -> None:
    assert [one.effect is not None for one in found.patterns[:3]] == [True, True, False]
    first = found.patterns[0]
    crossed = CrossFit(NumberedText(made.index), made.trusted, AuditOptions().most, AuditOptions().seed)
    assert first.effect == crossed.effect(Explainer(made.index), first)
    assert first.effect is not None
    assert first.effect.verified is not None
    assert first.effect.change < 0, "fixing what was planted helps"


def test_what_findings_hurt(made: Made, found: Assessment, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = hurt_queries(made.index, made.trusted.mispredicted(), found.findings[:500])
    assert found.hurt == expected
    assert any(found.hurt.values())
    monkeypatch.setattr(assessing, "NUM_EVIDENCE", 3)
    few = assess(made.index, made.opinions, made.trusted, AuditOptions(num_effects=0))
    assert few.hurt == {rank: expected[rank] for rank in (1, 2, 3)}
    perfect = Trusted(made.trusted.rows, made.trusted.tokens, made.trusted.rows.labels)
    assert assess(made.index, made.opinions, perfect, AuditOptions(num_effects=0)).hurt == {}


def test_without_trusted_data(made: Made) -> None:
    found = assess(made.index, [in_sample(made.index), out_of_sample(made.index, 2)])
    assert found.findings
    assert found.hurt == {}
    assert all(one.effect is None for one in found.patterns)
    assert found.notes == [
        "without trusted data, a mistake that is made throughout looks like the rule and is not found"
    ]
    assert average_precision(found.scores, made.is_wrong) > 2 * float(made.is_wrong.double().mean())


@pytest.mark.parametrize("score", SCORES)
def test_every_score_ranks(made: Made, score: str) -> None:
    found = assess(made.index, made.opinions, made.trusted, AuditOptions(score, most=20, num_effects=0))
    assert found.scores.shape == (made.index.num_tokens,)
    assert bool(found.scores.isfinite().all())
    assert len(found.findings) == 20
    assert found.findings[0].score == float(found.scores.max())
    assert all(a.score >= b.score for a, b in pairwise(found.findings))
    if score in SCORERS:
        assert torch.equal(found.scores, token_scores(score, made.index, made.opinions[-1]))
    if score.startswith("influence") or score == "neighbour":
        with pytest.raises(OptionError, match=f"^score '{score}' needs trusted data; give some$"):
            assess(made.index, made.opinions, None, AuditOptions(score))


def test_a_kind_of_error(made: Made) -> None:
    found = assess(made.index, made.opinions, made.trusted, AuditOptions(query="ORG:LOC", most=60, num_effects=0))
    expected = mistaken_for(made.index, found.believed, "ORG:LOC")
    is_asked = expected > 0
    assert torch.equal(found.scores[is_asked], expected[is_asked])
    assert bool((found.scores[~is_asked] == -torch.inf).all())
    assert all("LOC" in one.change.split(" -> ")[0] for one in found.findings)
    assert [one.change for one in found.findings[:10]] == ["LOC -> ORG"] * 10
    confused = made.trusted.confused(made.index, "ORG:LOC")
    calls: list[tuple[int, int]] = []
    asked = assess(made.index, made.opinions, made.trusted, AuditOptions("influence", "ORG:LOC", num_effects=0),
                  progress=lambda *counts: calls.append(counts))  # fmt: skip
    expected = trusted_scores(Explainer(made.index, "identity"), confused, "identity")
    labels = made.index.label_ids
    is_asked = torch.tensor([name.endswith("LOC") for name in made.index.labels.labels])[labels]
    assert torch.equal(asked.scores, torch.where(is_asked, expected, -torch.inf))
    assert all(any(a.endswith("LOC") and b.endswith("ORG") for a, b in zip(one.given, one.proposed, strict=True))
               for one in (*asked.findings, *found.findings))  # fmt: skip
    assert calls[-1] == (len(confused), len(confused))


@pytest.mark.parametrize("score", [*SCORERS, "neighbour"])
def test_scores_that_cannot_answer_a_query(made: Made, score: str) -> None:
    with pytest.raises(OptionError, match="cannot answer a query; use combined or an influence score"):
        assess(made.index, made.opinions, made.trusted, AuditOptions(score, "ORG:LOC"))


def test_a_head_too_large_for_effects_is_noted(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assessing, "MAX_PARAMETERS", 100)
    found = assess(made.index, made.opinions, made.trusted)
    size = made.index.head.num_parameters
    assert found.notes == [
        f"the effect of fixing patterns was not computed: the head has {size} parameters, more than 100"
    ]
    assert all(one.effect is None for one in found.patterns)
    assert found.patterns


def test_effects_that_fail_are_noted_and_the_others_computed(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[int, int]] = []

    def fails_once(*arguments: Any, **options: Any) -> Any:
        if not calls:
            raise TrainingError("retraining stopped")
        return effect(*arguments, **options)

    effect = CrossFit.effect
    monkeypatch.setattr(CrossFit, "effect", fails_once)
    options = AuditOptions(num_effects=2)
    found = assess(made.index, made.opinions, made.trusted, options, lambda *counts: calls.append(counts))
    assert found.notes == ["the effect of fixing pattern 1 was not computed: retraining stopped"]
    assert [one.effect is not None for one in found.patterns[:2]] == [False, True]
    assert [one.number for one in found.patterns] == list(range(1, len(found.patterns) + 1))
    assert calls == [(1, 2), (2, 2)]


def test_an_index_whose_head_is_not_refit_has_no_effects(made: Made, tmp_path: Path) -> None:
    train = read_corpus(Path(made.index.manifest.data.path))
    index = build_index(made.tagger, train, tmp_path / "index", IndexOptions(refit=False))
    found = assess(index, made.opinions, read_trusted(index, made.tagger, made.dev.sentences))
    assert len(found.notes) == 3
    assert all("not at its optimum" in note for note in found.notes)


def test_refusals(made: Made) -> None:
    one = made.opinions[0]
    with pytest.raises(DataError, match="the probabilities were computed on different data"):
        assess(made.index, [one, replace(one, labels=one.labels.flip(0))])
    with pytest.raises(DataError, match="no opinions"):
        assess(made.index, [])
    with pytest.raises(OptionError, match="expected GOLD:PREDICTED"):
        assess(made.index, made.opinions, options=AuditOptions(query="ORG"))
    with pytest.raises(OptionError, match="unknown label 'SHIP'"):
        assess(made.index, made.opinions, options=AuditOptions(query="SHIP:ORG"))
    perfect = Trusted(made.trusted.rows, made.trusted.tokens, made.trusted.rows.labels)
    with pytest.raises(DataError, match="no trusted token is labelled ORG and predicted LOC"):
        assess(made.index, made.opinions, perfect, AuditOptions("influence", "ORG:LOC"))
    outside = [each for each in made.dev.sentences if set(each.labels) == {"O"}]
    assert outside
    with pytest.raises(DataError, match=r"only one class \(O\)"):
        read_trusted(made.index, made.tagger, outside)
