"""Scores through the whole tagger in the folder of an index: built, resumed, opened, and what is refused."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

from tagtrace import Explainer, RetrainOptions, TrainOptions, build_encoder, build_whole, make_query, open_index, train
from tagtrace._checks import DataError, OptionError
from tagtrace._tensor_files import write_tensors
from tagtrace.data import Corpus, read_corpus
from tagtrace.data.invented import generate, write_invented
from tagtrace.index import Index, IndexFolderError, build_index
from tagtrace.influence import Effect, Query, SeedEffects
from tagtrace.influence.whole import stored
from tagtrace.influence.whole.flip_whole import WholeFlip, num_flips
from tagtrace.influence.whole.slopes import SegmentLosses
from tagtrace.influence.whole.stored import has_whole, open_whole, whole_size
from tagtrace.tagger import Tagger, load_tagger, new_tagger, refit_tagger, save_tagger

OPTIONS = TrainOptions(epochs=4, batch_size=8, learning_rate=3e-3, head_learning_rate=1e-2)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    folder = tmp_path_factory.mktemp("data")
    write_invented(generate(num_documents=20), folder)
    found = read_corpus(folder / "train.conll")
    return found.with_sentences(found.sentences[:40])


@pytest.fixture(scope="module")
def folder(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tagger, and its index with two early taggers."""
    folder = tmp_path_factory.mktemp("whole")
    tagger = train(corpus, encoder=build_encoder("lexical", corpus.sentences), options=OPTIONS)
    save_tagger(tagger, folder / "tagger")
    index = build_index(load_tagger(folder / "tagger"), corpus, folder / "index", tagger_path=folder / "tagger")
    build_whole(index, 2)
    return folder


@pytest.fixture
def index(folder: Path) -> Index:
    return open_index(folder / "index")


def query(index: Index, corpus: Corpus) -> Query:
    number = next(i for i, one in enumerate(corpus.sentences) if "B-PER" in one.labels)
    sentence = corpus.sentences[number]
    t = sentence.labels.index("B-PER")
    return make_query(index.tagger(), sentence, t, t + 1, "gold")


def test_what_was_stored_is_what_was_built(index: Index, corpus: Corpus, tmp_path: Path) -> None:
    tagger = index.trained_tagger()
    again = build_index(tagger, corpus, tmp_path / "again", tagger_path=tagger.folder)
    built = build_whole(again, 2)
    opened = open_whole(index)
    asked = [query(index, corpus)]
    torch.testing.assert_close(opened.sentence_scores(asked), built.sentence_scores(asked), rtol=1e-5, atol=1e-7)
    size = sum(path.stat().st_size for path in (index.folder / stored.FOLDER).glob("*.safetensors"))
    assert whole_size(tagger, index.num_sentences, 2) == pytest.approx(size, rel=0.02)


def test_an_interrupted_build_resumes(
    folder: Path, corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tagger = load_tagger(folder / "tagger")
    index = build_index(tagger, corpus, tmp_path / "index", tagger_path=folder / "tagger")
    seeds, train_early = list[int](), stored.train_early

    def interrupted(recipe: object, sentences: object, examples: object, seed: int, *others: object) -> object:
        seeds.append(seed)
        if seeds == [0, 1]:
            raise KeyboardInterrupt
        return train_early(recipe, sentences, examples, seed, *others)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(stored, "train_early", interrupted)
    assert not has_whole(index)
    with pytest.raises(KeyboardInterrupt):
        build_whole(index, 2)
    assert has_whole(index)
    assert len(open_whole(index).members) == 1
    assert len(build_whole(index, 2).members) == 2
    assert seeds == [0, 1, 1]
    assert len(build_whole(index, 3).members) == 3  # more seeds later
    assert seeds == [0, 1, 1, 2]


def test_an_index_without_them_says_so(corpus: Corpus, folder: Path, tmp_path: Path) -> None:
    tagger = load_tagger(folder / "tagger")
    index = build_index(tagger, corpus, tmp_path / "index", tagger_path=folder / "tagger")
    with pytest.raises(OptionError, match="has no scores through the whole tagger"):
        Explainer(index).explain(query(index, corpus), "whole")
    assert Explainer(index).default_score == "influence"
    with pytest.raises(OptionError, match="num_seeds 0"):
        build_whole(index, 0)
    (index.folder / stored.FOLDER).mkdir()
    (index.folder / stored.FOLDER / stored.MARKER).write_text("[")
    with pytest.raises(DataError, match="delete the folder whole"):
        has_whole(index)


def test_damaged_or_foreign_files_are_refused(folder: Path, corpus: Corpus, tmp_path: Path) -> None:
    tagger = load_tagger(folder / "tagger")
    index = build_index(tagger, corpus, tmp_path / "index", tagger_path=folder / "tagger")
    build_whole(index, 1)
    marker = index.folder / stored.FOLDER / stored.MARKER
    saved = json.loads(marker.read_text())
    marker.write_text(json.dumps({**saved, "owner": {**saved["owner"], "early": 0.5}}))
    with pytest.raises(OptionError, match="different early"):
        open_whole(index)
    marker.write_text(json.dumps(saved))
    path = index.folder / stored.FOLDER / "seed-0.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(OptionError, match=r"seed-0\.safetensors: damaged"):
        open_whole(index)
    path.write_bytes(content[:-7])
    with pytest.raises(OptionError, match=r"seed-0\.safetensors: damaged"):
        open_whole(index)
    saved["files"][0] = asdict(write_tensors(path.parent, path.name, {"kernel": torch.zeros(2)}))
    marker.write_text(json.dumps(saved))
    with pytest.raises(OptionError, match=r"seed-0\.safetensors: does not fit the tagger"):
        open_whole(index)


@pytest.mark.parametrize("kind", ["token", "entity", "segment", "sentence", "document"])
def test_explanations_by_the_whole_tagger(index: Index, corpus: Corpus, kind: str) -> None:
    explainer, asked = Explainer(index), query(index, corpus)
    assert explainer.default_score == "whole"
    found = explainer.explain(asked, kind=kind, top=3)  # pyright: ignore[reportArgumentType]
    assert found.score == "whole"
    own = next(i for i, one in enumerate(corpus.sentences) if "B-PER" in one.labels)
    assert own in [found.supporters[0].sentence_number, *(number for number, _, _ in found.supporters[0].rest)]
    scores = [one.score for one in (*found.supporters, *reversed(found.opposers))]
    assert scores == sorted(scores, reverse=True)
    if kind == "token":
        first = found.supporters[0]
        segments = torch.tensor([[first.sentence_number, first.start, first.stop]])
        direct = [member.scores([asked], SegmentLosses(segments))[0, 0] for member in explainer.whole.members]
        assert all(float(value) > 0 for value in direct)
        assert [one.score for one in explainer.explain(asked, top=3).supporters] == [
            one.score for one in found.supporters
        ]


def test_the_whole_tagger_is_retrained_for_each_segment_shown(index: Index, corpus: Corpus) -> None:
    explainer, asked, steps = Explainer(index), query(index, corpus), list[int]()
    found = explainer.explain(
        asked, top=1, rung="retrain", retrain=RetrainOptions(2), progress=lambda step: steps.append(step.done)
    )
    assert steps == list(range(1, 7))  # 2 seeds: without edits, without the supporter, without the opposer
    (supporter,) = found.supporters
    assert supporter.rung == "retrain"
    assert supporter.retrained is not None
    assert supporter.change == supporter.retrained.mean.change
    assert "retrained" in str(found)
    assert f"changes in {supporter.retrained.num_flips} of 2 seeds" in str(found)
    what_if = explainer.what_if(asked, supporter.edits(), "retrain", retrain=RetrainOptions(2))
    assert what_if.best.change == pytest.approx(supporter.change)


def test_a_prediction_flips_when_the_whole_tagger_is_retrained(index: Index, corpus: Corpus) -> None:
    explainer, asked = Explainer(index), query(index, corpus)
    found = explainer.flip(asked, "relabel", most=20, retrain=RetrainOptions(1))
    assert found.retrained is not None
    assert 1 <= len(found.edits) <= 20
    assert found.retrained.mean.change > 0
    assert found.to_json()["effects"].keys() == {"retrain"}
    assert "after, retrained" in str(found)
    if found.found:
        assert "in 1 of 1 seed" in found.verdict
    chooser = WholeFlip(index, explainer.whole, explainer.head, explainer.rows, RetrainOptions(1), torch.device("cpu"))
    removed = chooser.edits(asked, "remove", "entity", 5)
    scores = explainer.explain(asked, kind="entity", top=5).supporters
    assert [(one.sentence_number, one.start, one.stop) for one in removed] == [
        (one.sentence_number, one.start, one.stop) for one in scores
    ]


def test_a_moved_tagger_is_found(folder: Path, corpus: Corpus, tmp_path: Path) -> None:
    tagger: Tagger = load_tagger(folder / "tagger")
    save_tagger(tagger, tmp_path / "tagger")
    build_whole(build_index(tagger, corpus, tmp_path / "index", tagger_path=tmp_path / "tagger"), 1)
    (tmp_path / "tagger").rename(tmp_path / "moved")
    asked = query(open_index(folder / "index"), corpus)
    with pytest.raises(OptionError, match="no longer at"):
        Explainer(open_index(tmp_path / "index")).explain(asked)
    moved = open_index(tmp_path / "index", tagger=tmp_path / "moved")
    assert Explainer(moved).explain(asked).score == "whole"


def test_a_flip_counts_seeds_that_predicted_the_label_before() -> None:
    def one(before: int, after: int) -> Effect:
        tables = [torch.nn.functional.one_hot(torch.tensor([label]), 3).double() for label in (before, after)]
        return Effect(0.5, 1.0, *tables)

    found = SeedEffects((one(0, 1), one(0, 0), one(1, 1), one(2, 0), one(0, 2)))
    assert num_flips(found, (0,), None) == 2
    assert num_flips(found, (0,), (1,)) == 1


def test_several_queries_share_a_work_folder(index: Index, corpus: Corpus, tmp_path: Path) -> None:
    tagger, sentence = index.tagger(), corpus.sentences[0]
    queries = [make_query(tagger, sentence, t, t + 1) for t in (0, 1)]
    retrain = RetrainOptions(1, work=tmp_path / "work")
    found = list(Explainer(index).explain_all(queries, top=1, rung="retrain", retrain=retrain))
    assert [one.supporters[0].rung for one in found] == ["retrain"] * 2
    assert len(list((tmp_path / "work").iterdir())) == 2


def test_taggers_with_a_refitted_head_are_refused_before_anything_is_scored(
    corpus: Corpus, folder: Path, tmp_path: Path
) -> None:
    tagger = load_tagger(folder / "tagger")
    refit_tagger(tagger, corpus.sentences)
    save_tagger(tagger, tmp_path / "tagger")
    index = build_index(load_tagger(tmp_path / "tagger"), corpus, tmp_path / "index", tagger_path=tmp_path / "tagger")
    with pytest.raises(OptionError, match="relabel them instead"):
        Explainer(index).explain(query(index, corpus), "cosine", rung="retrain")


def test_encoders_that_it_cannot_go_through_are_refused_before_training(
    index: Index, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, corpus: Corpus
) -> None:
    tagger = index.trained_tagger()
    again = build_index(tagger, corpus, tmp_path / "index")
    monkeypatch.setattr(type(tagger.encoder), "layer_rows", lambda *_: [torch.zeros(3, dtype=torch.long)])
    monkeypatch.setattr(stored, "train_early", lambda *_: pytest.fail("nothing is trained"))
    with pytest.raises(OptionError, match="not once for each token"):
        build_whole(again, 1)
    assert not (again.folder / stored.FOLDER).exists()
    with pytest.raises(IndexFolderError, match="built with"):
        build_whole(again, 1, tagger=new_tagger(tagger.encoder, tagger.labels))


def test_a_link_in_its_place_leads_nowhere(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "index", tmp_path / "index")
    (tmp_path / "index" / "whole").rename(tmp_path / "victim")
    (tmp_path / "index" / "whole").symlink_to(tmp_path / "victim")
    index = open_index(tmp_path / "index", tagger=folder / "tagger")
    before = {path.name: path.read_bytes() for path in (tmp_path / "victim").iterdir()}
    for use in (lambda: build_whole(index, 3), lambda: has_whole(index), lambda: open_whole(index)):
        with pytest.raises(IndexFolderError, match=r"whole: a link, where the index should have .*; remove the link"):
            use()
    assert {path.name: path.read_bytes() for path in (tmp_path / "victim").iterdir()} == before
