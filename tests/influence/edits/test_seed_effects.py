"""The whole tagger trained again with edits: what is trained on, paired seeds, intervals, and what is kept."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tagtrace._checks import OptionError
from tagtrace.data import Corpus, LabelSet, ReadOptions
from tagtrace.data.invented import generate
from tagtrace.data.labels import HIDDEN
from tagtrace.index import Index, build_index
from tagtrace.influence import Edit, Explainer, Query, RetrainOptions, SeedEffects, make_query
from tagtrace.influence.edits.effect import Effect
from tagtrace.influence.edits.seed_effects import edited_sentences, retrain_effects
from tagtrace.tagger import Lexical, LexicalOptions, TrainOptions, new_tagger, retrainings, train_tagger
from tagtrace.tagger.recipe import Recipe

INVENTED = generate(num_documents=20)
TRAIN, DEV = INVENTED.train[:20], INVENTED.dev
LABELS = LabelSet.from_sentences(INVENTED.train, "iob2")
OPTIONS = TrainOptions(epochs=2, batch_size=8, learning_rate=1e-2, seed=3)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    torch.manual_seed(0)
    tagger = new_tagger(Lexical(LexicalOptions(buckets=64, width=6, hidden=5)), LABELS)
    train_tagger(tagger, TRAIN, (), OPTIONS)
    corpus = Corpus(Path("train.conll"), tuple(TRAIN), "iob2", ReadOptions(), "made")
    return build_index(tagger, corpus, tmp_path_factory.mktemp("retrain") / "index")


def query(index: Index) -> Query:
    sentence = next(one for one in DEV if set(one.labels) != {"O"})
    start = next(t for t, label in enumerate(sentence.labels) if label != "O")
    return make_query(index.tagger(), sentence, start, start + 1, "gold")


def entity(index: Index) -> Edit:
    """A labelled token of the training data, with another label."""
    number, t = next((i, t) for i, one in enumerate(TRAIN) for t, label in enumerate(one.labels) if label != "O")
    return Edit(number, t, t + 1, (index.labels.index("O"),))


def test_what_is_trained_on(index: Index) -> None:
    edit = entity(index)
    number, t = edit.sentence_number, edit.start
    relabelled, *_ = [edited_sentences(index.labels, TRAIN, [edit])]
    assert relabelled[number].labels[t] == "O"
    assert [one for i, one in enumerate(relabelled) if i != number] == [
        one for i, one in enumerate(TRAIN) if i != number
    ]
    removed = edited_sentences(index.labels, TRAIN, [Edit(number, t, t + 1)])
    assert removed[number].labels[t] == HIDDEN
    assert removed[number].labels[:t] == TRAIN[number].labels[:t]


def test_effects_are_those_of_taggers_trained_by_hand(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit, asked = entity(index), query(index)
    options = RetrainOptions(2, 1, tmp_path / "work")
    found = retrain_effects(index, asked, [[edit]], options)[0]
    recipe = Recipe.of(index.trained_tagger())
    for place, seed in enumerate((3, 4)):
        for side, sentences in (("before", TRAIN), ("after", edited_sentences(index.labels, TRAIN, [edit]))):
            tagger = recipe.untrained(seed)
            train_tagger(tagger, sentences, (), TrainOptions(epochs=2, batch_size=8, learning_rate=1e-2, seed=seed))
            assert asked.sentence is not None
            own = Query(tagger.features(asked.sentence).double(), asked.labels, asked.start, asked.stop)
            loss = float(own.loss(tagger.head.double()).detach())
            assert getattr(found.effects[place], side) == pytest.approx(loss, rel=1e-5)
    explainer = Explainer(index)

    def train(*_: object, **__: object) -> None:
        raise AssertionError("the work is kept")

    monkeypatch.setattr(retrainings, "train_tagger", train)
    again = explainer.what_if(asked, edit, "retrain", retrain=options)
    assert again.rung == "retrain"
    assert again.retrained is not None
    assert [one.change for one in again.retrained.effects] == [one.change for one in found.effects]
    assert again.best.change == pytest.approx(found.mean.change)
    text = "\n".join(str(part) for part in again.describe())
    assert "mean of 2 seeds" in text
    assert f"the prediction changes in {found.num_flips} of 2" in text
    assert again.to_json()["retrained"]["num_seeds"] == 2
    with pytest.raises(
        AssertionError, match="the work is kept"
    ):  # another query is trained for, in a folder of its own
        retrain_effects(index, asked.with_labels(torch.tensor([0])), [[edit]], options)
    other = new_tagger(Lexical(LexicalOptions(buckets=64, width=6, hidden=7)), LABELS)  # the same but for its encoder
    other.record = index.trained_tagger().record
    with pytest.raises(OptionError, match="another run"):
        retrain_effects(index, asked, [[edit]], RetrainOptions(2, 1, tmp_path / "work", other))


def test_intervals_are_those_of_student() -> None:
    def one(before: float, after: float, flips: bool) -> Effect:
        table = torch.tensor([[0.7, 0.3]])
        return Effect(before, after, table, table.flip(1) if flips else table)

    found = SeedEffects((one(1.0, 1.5, True), one(1.0, 2.0, False), one(2.0, 2.6, True)))
    # changes 0.5, 1.0, 0.6: mean 0.7, standard deviation 0.26458, t(2) = 4.303
    low, high = found.interval or (0.0, 0.0)
    assert found.mean.change == pytest.approx(0.7)
    assert (low, high) == (pytest.approx(0.7 - 0.65729, abs=1e-4), pytest.approx(0.7 + 0.65729, abs=1e-4))
    assert found.num_flips == 2
    assert SeedEffects(found.effects[:1]).interval is None
    assert torch.allclose(found.mean.probabilities_after, torch.tensor([[1.3 / 3, 1.7 / 3]]))


def test_what_cannot_be_retrained(index: Index) -> None:
    asked = query(index)
    with pytest.raises(OptionError, match="make_query"):
        retrain_effects(index, Query(asked.features, asked.labels, asked.start, asked.stop), [[entity(index)]])
    with pytest.raises(OptionError, match="num_seeds"):
        RetrainOptions(0)
