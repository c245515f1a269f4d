"""A spaCy pipeline is a tagger with spaCy's vectors and types, and a head that an index fits."""

from __future__ import annotations

import io
import json
import pickle
import shutil
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tagtrace as tt
from tagtrace._checks import EncoderError, OptionError, TaggerError
from tagtrace.data import Sentence
from tagtrace.index import IndexOptions
from tagtrace.index.fingerprints import tagger_fingerprint
from tagtrace.index.head_change import head_change
from tagtrace.tagger.encoders import Pipeline
from tests.cli.command import refused, tagtrace

spacy: Any = pytest.importorskip("spacy", reason="spaCy is not installed")

from spacy.tokens import Doc  # noqa: E402
from srsly import msgpack  # noqa: E402

from tests.tagger.foreign.trained_pipeline import (  # noqa: E402
    WORD,
    PlantedPipelines,
    embed_cnn,
    ner_model,
    spacy_labels,
    train_pipeline,
)

KINDS = ("own", "shared")
TEXTS = (("Velmaran", "wool", "talks", "in", "Varnholt", "."), ("KHL",), ("Mira", "Ilmarian", "said", "2031-05-17"))


def spacy_vectors(folder: Path, tokens: tuple[str, ...]) -> np.ndarray:
    """The vectors of a text, from the pipeline as spaCy itself loads it."""
    nlp = spacy.load(folder)
    doc = Doc(nlp.vocab, list(tokens))
    if nlp.has_pipe("tok2vec"):
        return nlp.get_pipe("tok2vec").predict([doc])[0]
    return nlp.get_pipe("ner").model.get_ref("tok2vec").layers[0].predict([doc])[0]


def encoder_of(tagger: tt.Tagger) -> Pipeline:
    assert isinstance(tagger.encoder, Pipeline)
    return tagger.encoder


@pytest.mark.parametrize("kind", KINDS)
def test_vectors_types_and_predictions_are_those_of_spacy(pipelines: PlantedPipelines, kind: str) -> None:
    folder: Path = getattr(pipelines, kind)
    tagger, nlp = tt.load_tagger(folder), spacy.load(folder)
    for text in TEXTS:
        np.testing.assert_array_equal(tagger.features(Sentence(text, ())).numpy(), spacy_vectors(folder, text))
    assert set(tagger.labels.labels) == {"O", *(f"{p}-{t}" for t in nlp.get_pipe("ner").labels for p in "BI")}
    dev = tt.read_corpus(pipelines.dev).sentences
    found = encoder_of(tagger).own_labels(dev)
    assert found == [spacy_labels(nlp, sentence.tokens) for sentence in dev]
    assert sum(label != "O" for labels in found for label in labels) > 20


@pytest.mark.parametrize("name", ["components.tok2vec.model.width", "components.tok2vec.model:width"])
def test_variables_stand_for_plain_values(pipelines: PlantedPipelines, tmp_path: Path, name: str) -> None:
    folder = Path(shutil.copytree(pipelines.shared, tmp_path / "copy"))
    configured('.v1"\nwidth = 24\nupstream', f'.v1"\nwidth = ${{{name}}}\nupstream')(folder)
    text = Sentence(TEXTS[0], ())
    assert torch.equal(tt.load_tagger(folder).features(text), tt.load_tagger(pipelines.shared).features(text))


LAYERS: dict[str, dict[str, Any]] = {
    "multi hash": {
        "@architectures": "spacy.Tok2Vec.v2",
        "embed": {
            "@architectures": "spacy.MultiHashEmbed.v2",
            "width": 16,
            "attrs": ["NORM", "PREFIX", "SHAPE", "SPACY"],
            "rows": [100, 50, 50, 5],
            "include_static_vectors": True,
        },
        "encode": {"@architectures": "spacy.MishWindowEncoder.v2", "width": 16, "depth": 1, "window_size": 1},
    },
    "characters": {
        "@architectures": "spacy.Tok2Vec.v2",
        "embed": {
            "@architectures": "spacy.CharacterEmbed.v2",
            "width": 16,
            "rows": 100,
            "nM": 8,
            "nC": 4,
            "include_static_vectors": False,
        },
        "encode": {
            "@architectures": "spacy.MaxoutWindowEncoder.v2",
            "width": 16,
            "depth": 2,
            "window_size": 1,
            "maxout_pieces": 2,
        },
    },
}


@pytest.mark.parametrize("layer", LAYERS)
def test_other_layers_and_static_vectors(pipelines: PlantedPipelines, tmp_path: Path, layer: str) -> None:
    sentences = tt.read_corpus(pipelines.train).sentences[:40]
    vectors = np.random.default_rng(0).normal(size=(30, 6)).astype(np.float32)
    train_pipeline(tmp_path / "made", sentences, tok2vec=LAYERS[layer], epochs=1, vectors=vectors)
    tagger = tt.load_tagger(tmp_path / "made")
    for text in (*TEXTS, sentences[0].tokens):
        found = tagger.features(Sentence(text, ())).numpy()
        np.testing.assert_array_equal(found, spacy_vectors(tmp_path / "made", text))


@pytest.mark.parametrize("score", ["relative", "cosine"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_first_supporter_of_what_a_planted_error_taught_is_one_of_its_copies(
    pipelines: PlantedPipelines, tmp_path: Path, kind: str, score: Any
) -> None:
    index = tt.build_index(tt.load_tagger(getattr(pipelines, kind)), tt.read_corpus(pipelines.train), tmp_path / "i")
    own, explainer, num_asked = index.tagger(), tt.Explainer(index), 0
    for sentence, labels in zip(dev := tt.read_corpus(pipelines.dev).sentences, own.predict(dev), strict=True):
        for place, (token, label) in enumerate(zip(sentence.tokens, labels, strict=True)):
            if (token, label) == (WORD, "B-MISC"):
                query = tt.make_query(own, sentence, place, place + 1)
                first = explainer.explain(query, score, top=1).supporters[0]
                assert index.sentence(first.sentence_number).tokens[first.start] == WORD
                num_asked += 1
    assert num_asked >= 3


def test_it_counts_what_spacy_predicts_otherwise(pipelines: PlantedPipelines, tmp_path: Path) -> None:
    tagger, corpus = tt.load_tagger(pipelines.own), tt.read_corpus(pipelines.train)
    index = tt.build_index(tagger, corpus, tmp_path / "index", IndexOptions("float32"))
    found, nlp = head_change(index, tagger), spacy.load(pipelines.own)
    expected = [spacy_labels(nlp, sentence.tokens) for sentence in corpus.sentences]
    pairs = list(zip(expected, index.tagger().predict(corpus), strict=True))
    assert found.num_changed == sum(a != b for one, other in pairs for a, b in zip(one, other, strict=True))
    assert found.num_tokens == corpus.num_tokens
    assert found.f1_after == index.tagger().evaluate(corpus).segments.f1
    assert found.is_new


def test_index_says_that_the_head_is_new(pipelines: PlantedPipelines, tmp_path: Path) -> None:
    result = tagtrace("index", pipelines.shared, pipelines.train, tmp_path / "index", "--device", "cpu")
    assert result.exit_code == 0, result.output
    (line,) = [line for line in result.stderr.splitlines() if "spaCy" in line]
    assert line.startswith("spaCy's own ner has no scores of labels, so the index has a new CRF head")
    assert " training tokens: segment F1 there is " in line
    assert tt.open_index(tmp_path / "index").tagger().evaluate(tt.read_corpus(pipelines.train)).segments.f1 > 0.8
    asked = tagtrace("explain", tmp_path / "index", "--data", pipelines.dev, "--most", 1, "--score", "relative")
    assert asked.exit_code == 0, asked.output


def test_its_head_is_not_used_before_it_is_fitted(pipelines: PlantedPipelines, tmp_path: Path) -> None:
    tagger, corpus = tt.load_tagger(pipelines.own), tt.read_corpus(pipelines.train)
    for ask in (
        lambda: tagger.predict(corpus),
        lambda: tagger.evaluate(corpus),
        lambda: tt.save_tagger(tagger, tmp_path / "saved"),
        lambda: tt.build_index(tagger, corpus, tmp_path / "index", IndexOptions(refit=False)),
    ):
        with pytest.raises(TaggerError, match=r"own: .* new head here, which is not fitted yet; build an index of it"):
            ask()
    assert list(tmp_path.iterdir()) == []
    refused(tagtrace("evaluate", pipelines.own, pipelines.dev), "not fitted yet")


def test_refitted_and_saved_it_points_to_its_pipeline(pipelines: PlantedPipelines, tmp_path: Path) -> None:
    mine = Path(shutil.copytree(pipelines.shared, tmp_path / "mine"))
    tagger, corpus = tt.load_tagger(mine), tt.read_corpus(pipelines.train)
    tt.refit_tagger(tagger, corpus)
    tt.save_tagger(tagger, tmp_path / "saved")
    saved = tt.load_tagger(tmp_path / "saved")
    assert saved.predict(corpus) == tagger.predict(corpus)
    assert tagger_fingerprint(saved) == tagger_fingerprint(tagger)
    shutil.copy(pipelines.own / "ner" / "moves", mine / "ner" / "moves")  # trained on the same data
    assert tt.load_tagger(tmp_path / "saved").predict(corpus) == tagger.predict(corpus)
    changed = (mine / "config.cfg").read_text().replace("[nlp]", "# another\n[nlp]")
    (mine / "config.cfg").write_text(changed)
    with pytest.raises(TaggerError, match="not the one that the tagger was fitted on"):
        tt.load_tagger(tmp_path / "saved")
    shutil.rmtree(mine)
    with pytest.raises(TaggerError, match=r"its pipeline is no longer at .*; put it back"):
        tt.load_tagger(tmp_path / "saved")


def test_train_takes_it_as_an_encoder(pipelines: PlantedPipelines, tmp_path: Path) -> None:
    target, name = tmp_path / "tagger", f"spacy:{pipelines.own}"
    result = tagtrace("train", pipelines.train, target, "--encoder", name, "--head", "softmax", "--device", "cpu")
    assert result.exit_code == 0, result.output
    tagger = tt.load_tagger(target)
    assert (tagger.encoder.kind, tagger.head.options.kind) == ("spacy", "softmax")
    assert tagger.evaluate(tt.read_corpus(pipelines.train)).segments.f1 > 0.8


def test_no_output_lands_in_a_pipeline(pipelines: PlantedPipelines, tmp_path: Path) -> None:
    mine = Path(shutil.copytree(pipelines.own, tmp_path / "mine"))
    for arguments in (
        ("train", pipelines.train, mine, "--encoder", f"spacy:{mine}", "--overwrite"),
        ("train", pipelines.train, mine / "ner", "--encoder", f"spacy:{mine}", "--overwrite"),
        ("index", mine, pipelines.train, mine, "--overwrite"),
    ):
        result = tagtrace(*arguments)
        assert result.exit_code != 0, arguments
        assert len(result.stderr.strip().splitlines()) == 1
    assert {path.name for path in mine.rglob("*")} == {path.name for path in pipelines.own.rglob("*")}


def test_an_index_knows_its_pipeline(pipelines: PlantedPipelines, tmp_path: Path) -> None:
    mine = Path(shutil.copytree(pipelines.own, tmp_path / "mine"))
    tt.build_index(tt.load_tagger(mine), tt.read_corpus(pipelines.train), tmp_path / "index")
    assert tt.open_index(tmp_path / "index").trained_tagger().encoder.kind == "spacy"
    message = msgpack.unpackb((mine / "ner" / "model").read_bytes(), raw=False)
    weights = next(params for params in message["params"] if "E" in params)
    weights["E"] = weights["E"] + np.float32(0.01)
    (mine / "ner" / "model").write_bytes(msgpack.packb(message, use_bin_type=True))
    with pytest.raises(tt.TagtraceError, match="built with another tagger"):
        tt.open_index(tmp_path / "index").trained_tagger()


def test_nothing_is_run_or_unpickled_and_the_folder_is_not_changed(
    pipelines: PlantedPipelines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a pickle, code or a connection")

    tt.load_tagger(pipelines.own)  # what Python imports runs code of its own
    for owner, name in (
        (pickle, "loads"),
        (pickle, "load"),
        (pickle, "Unpickler"),
        (torch, "load"),
        (socket.socket, "connect"),
    ):
        monkeypatch.setattr(owner, name, refuse)
    for kind in KINDS:
        folder: Path = getattr(pipelines, kind)
        before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        tt.build_index(tt.load_tagger(folder), tt.read_corpus(pipelines.train), tmp_path / kind).tagger()
        assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_loading_draws_no_random_numbers(pipelines: PlantedPipelines) -> None:
    np.random.seed(3)
    expected = np.random.random(4)
    np.random.seed(3)
    tt.load_tagger(pipelines.own)
    np.testing.assert_array_equal(np.random.random(4), expected)


Damage = Callable[[Path], object]


def configured(old: str, new: str) -> Damage:
    """Another text in config.cfg."""

    def damage(folder: Path) -> None:
        text = (folder / "config.cfg").read_text()
        assert old in text, old
        (folder / "config.cfg").write_text(text.replace(old, new))

    return damage


def weighed(change: Callable[[dict[str, Any]], object], name: str = "ner/model") -> Damage:
    """Another content of a file of weights."""

    def damage(folder: Path) -> None:
        message = msgpack.unpackb((folder / name).read_bytes(), raw=False, object_pairs_hook=dict)
        change(message)
        (folder / name).write_bytes(msgpack.packb(message, use_bin_type=True))

    return damage


def table(message: dict[str, Any]) -> dict[Any, Any]:
    """The first table of embeddings."""
    return next(params["E"] for params in message["params"] if "E" in params)


def hashed(message: dict[str, Any]) -> dict[str, bytes]:
    """The settings of the first table of embeddings."""
    return next(attrs for attrs in message["attrs"] if "seed" in attrs)


class Payload:
    """What an attacker pickles."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (exec, ("raise SystemExit('it was run')",))


def objects(folder: Path) -> None:
    stream = io.BytesIO()
    np.save(stream, np.array([Payload()], dtype=object), allow_pickle=True)
    (folder / "vocab" / "vectors").write_bytes(stream.getvalue())
    configured("pretrained_vectors = null", "pretrained_vectors = true")(folder)


REFUSALS: dict[str, tuple[Damage, str]] = {
    "no config": (lambda at: (at / "config.cfg").write_text("[nlp\n"), r"config\.cfg: cannot be read"),
    "no ner": (configured('pipeline = ["ner"]', "pipeline = []"), "no component ner .*none"),
    "other ner": (configured('factory = "ner"', 'factory = "evil_ner"'), "no component ner .*its components: ner"),
    "sourced": (configured('factory = "ner"', 'source = "some_package"'), "no component ner"),
    "custom before": (
        lambda at: [
            configured('pipeline = ["ner"]', 'pipeline = ["mine","ner"]')(at),
            configured("[components]\n", '[components]\n\n[components.mine]\nfactory = "mine"\n')(at),
        ],
        "the component 'mine' .factory 'mine'. may change what ner reads",
    ),
    "custom layer": (configured("spacy.HashEmbedCNN.v2", "evil.Layer.v1"), r"'evil\.Layer\.v1' is not loaded"),
    "torch layer": (configured("spacy.HashEmbedCNN.v2", "spacy.TorchBiLSTMEncoder.v1"), "is not loaded"),
    "no tok2vec": (
        configured("[components.ner.model.tok2vec]", "[components.ner.model.other]"),
        "its ner has no layer tok2vec",
    ),
    "transformer": (
        configured("spacy.HashEmbedCNN.v2", "spacy-transformers.TransformerListener.v1"),
        "come from a transformer, .* encoder transformer:",
    ),
    "function": (configured("\nwidth = 24", '\nwidth = {"@misc":"evil.v1"}'), "is not loaded"),
    "other function": (configured("\nwidth = 24", '\nwidth = 24\n@misc = "evil.v1"'), "calls a function"),
    "variable": (configured("\nwidth = 24", "\nwidth = ${nlp}"), "not a plain value"),
    "alone": (configured("spacy.HashEmbedCNN.v2", "spacy.Tok2VecListener.v1"), "0 before it are that"),
    "language": (configured('lang = "en"', 'lang = "..os"'), "language '..os' is not spaCy's"),
    "deep": (configured("depth = 2", "depth = 100000"), "more than 1000 layers"),
    "huge": (configured("embed_size = 400", "embed_size = 4000000000"), "far fewer"),
    "other width": (configured("\nwidth = 24", "\nwidth = 32"), "cannot be loaded"),
    "no weights": (lambda at: (at / "ner" / "model").unlink(), "cannot be loaded"),
    "cut weights": (lambda at: (at / "ner" / "model").write_bytes(b"\x85\xa5"), "cannot be loaded"),
    "pickle": (lambda at: (at / "ner" / "model").write_bytes(pickle.dumps(Payload())), "cannot be loaded"),
    "objects": (weighed(lambda all_: table(all_).update({b"type": "|O"})), "no float32 array of shape"),
    "halves": (weighed(lambda all_: table(all_).update({b"type": "<f2"})), "no float32 array of shape"),
    "shape": (weighed(lambda all_: table(all_).update({b"shape": [9, 9]})), "no float32 array of shape"),
    "short": (weighed(lambda all_: table(all_).update({b"data": b"1234"})), "cannot be loaded"),
    "missing": (weighed(lambda all_: all_["params"].pop()), "cannot be loaded"),
    "layers": (weighed(lambda all_: all_["nodes"][5].update(name="other")), "are not those of the configuration"),
    "seed": (weighed(lambda all_: hashed(all_).update(seed=b"\x63")), r"the seed of a layer is \d+, and 99"),
    "nan": (
        weighed(lambda all_: table(all_).update({b"data": np.full(400 * 24, np.nan, "<f4").tobytes()})),
        "not finite numbers",
    ),
    "no actions": (weighed(lambda all_: all_.update(moves="{}"), "ner/moves"), "cannot be loaded"),
    "other actions": (
        weighed(lambda all_: all_.update(moves='{"77": {"LOC": 1}}'), "ner/moves"),
        "unknown action '77'",
    ),
    "objects in vectors": (objects, "cannot be loaded .*[Pp]ickle|allow_pickle"),
    "norms": (
        lambda at: (at / "vocab" / "lookups.bin").write_bytes(msgpack.packb({"lexeme_norm": {1: 2}})),
        "norms of words .* not all texts",
    ),
    "link": (lambda at: (at / "vocab" / "extra").symlink_to("/etc/hostname"), "leads out of its folder"),
}


@pytest.mark.parametrize(("damage", "message"), REFUSALS.values(), ids=REFUSALS)
def test_what_cannot_be_taken_is_refused_in_one_line(
    pipelines: PlantedPipelines, tmp_path: Path, damage: Damage, message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = Path(shutil.copytree(pipelines.own, tmp_path / "copy"))
    damage(folder)
    with pytest.raises((TaggerError, EncoderError), match=message) as error:
        tt.load_tagger(folder)
    assert "\n" not in str(error.value)
    assert str(folder) in str(error.value)
    assert len(str(error.value)) < 600
    assert capfd.readouterr() == ("", "")


def test_hooks_of_a_configuration_are_never_called(pipelines: PlantedPipelines, tmp_path: Path) -> None:
    called: list[str] = []

    @spacy.registry.callbacks("tagtrace-test.hook")
    def hook() -> Any:
        called.append("made")
        return lambda nlp: called.append("run") or nlp

    @spacy.registry.scorers("tagtrace-test.scorer")
    def scorer() -> Any:
        called.append("scorer")

    folder = Path(shutil.copytree(pipelines.own, tmp_path / "copy"))
    configured("after_creation = null\n", "")(folder)
    configured("[components]\n", '[nlp.after_creation]\n@callbacks = "tagtrace-test.hook"\n\n[components]\n')(folder)
    configured("spacy.ner_scorer.v1", "tagtrace-test.scorer")(folder)
    tagger = tt.load_tagger(folder)
    assert torch.equal(tagger.features(Sentence(TEXTS[0], ())), tt.load_tagger(pipelines.own).features(
        Sentence(TEXTS[0], ())))  # fmt: skip
    assert called == []
    spacy.load(folder)
    assert set(called) >= {"made", "scorer"}, "spaCy itself calls them"


def test_a_pipeline_without_ner_without_types_or_without_tok2vec(pipelines: PlantedPipelines, tmp_path: Path) -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.to_disk(tmp_path / "plain")
    with pytest.raises(EncoderError, match=r"no component ner \(its components: sentencizer\)"):
        tt.load_tagger(tmp_path / "plain")
    nlp = spacy.blank("en")
    nlp.add_pipe("ner", config={"model": ner_model(embed_cnn())})
    nlp.initialize()
    nlp.to_disk(tmp_path / "no types")
    with pytest.raises(EncoderError, match="its ner knows no types of entities"):
        tt.load_tagger(tmp_path / "no types")
    folder = Path(shutil.copytree(pipelines.own, tmp_path / "no layer"))
    text = (folder / "config.cfg").read_text()
    (folder / "config.cfg").write_text(text[: text.index("[components.ner.model.tok2vec]")])
    with pytest.raises(EncoderError, match="no layer: its ner has no layer tok2vec"):
        tt.load_tagger(folder)


def test_labels_that_the_pipeline_does_not_know(pipelines: PlantedPipelines, tmp_path: Path) -> None:
    (tmp_path / "train.conll").write_text("Oslo B-PLANET\nis O\n\n")
    with pytest.raises(tt.TagtraceError, match="line 1: unknown label 'B-PLANET'"):
        tt.build_index(tt.load_tagger(pipelines.own), tt.read_corpus(tmp_path / "train.conll"), tmp_path / "index")


def test_pooling_is_not_its(pipelines: PlantedPipelines) -> None:
    with pytest.raises(OptionError, match="a spaCy pipeline has no pooling"):
        tt.load_tagger(pipelines.own, pooling="first")


def test_without_spacy_it_says_what_to_install(pipelines: PlantedPipelines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(EncoderError, match=r'pip install "tagtrace\[spacy\]"'):
        tt.load_tagger(pipelines.own)


def test_what_is_saved_has_a_schema(pipelines: PlantedPipelines, tmp_path: Path) -> None:
    Pipeline(pipelines.own).save(tmp_path)
    record = json.loads((tmp_path / "encoder.json").read_text())
    assert set(record) == {"kind", "absolute", "relative", "digest"}
    (tmp_path / "encoder.json").write_text(json.dumps({**record, "more": 1}))
    with pytest.raises(EncoderError, match="the key more is unknown"):
        Pipeline.load(tmp_path)
