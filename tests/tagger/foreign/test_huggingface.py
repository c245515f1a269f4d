"""A token classifier of Hugging Face is taken as it is: its scores are the library's, bit by bit."""

from __future__ import annotations

import json
import shutil
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor

import tagtrace as tt
from tagtrace._checks import DataError, EncoderError, OptionError, TaggerError
from tagtrace.data import Sentence
from tagtrace.data.schemes import violations
from tagtrace.index.fingerprints import tagger_fingerprint
from tagtrace.tagger.recipe import Recipe
from tests.tagger import tiny_models
from tests.tagger.foreign.planted import NAMES, WORD, Planted
from tests.tagger.foreign.trained import library_scores, random_classifier, wordpiece

SIZES: dict[str, Any] = {"num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48, "hidden_size": 24}
TEXTS = (
    ("Velmaran", "wool", "talks", "in", "Varnholt", "."),
    ("KHL",),
    ("Mira", "Ilmarian", "said", "playing", "leaves", "2031-05-17", "visit", "of", "the", "KHL"),
)
LABELS: dict[int, str] = dict(enumerate(("O", "B-ORG", "I-ORG", "B-LOC", "I-LOC")))


def scores(tagger: tt.Tagger, *texts: tuple[str, ...]) -> Tensor:
    """The tagger's own scores of labels for each word, (N, C)."""
    with torch.no_grad():
        return tagger.emissions([tagger.prepare(Sentence(text, ())) for text in texts])


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("pooling", ["first", "last"])
def test_scores_are_those_of_the_library_bit_by_bit(planted: Planted, pooling: Any) -> None:
    tagger = tt.load_tagger(planted.checkpoint, pooling=pooling)
    num_cut = 0
    for sentence in tt.read_corpus(planted.dev).sentences[:25]:
        expected = library_scores(planted.checkpoint, sentence.tokens, pooling)
        assert torch.equal(scores(tagger, sentence.tokens), expected)
        assert torch.equal(tagger.scores([tagger.prepare(sentence)]).emissions[0], expected)
        num_cut += not torch.equal(expected, library_scores(planted.checkpoint, sentence.tokens, "first"))
    assert num_cut > 0 or pooling == "first", "words of several pieces"


KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "bert": (transformers.BertConfig, {}),
    "electra": (transformers.ElectraConfig, {"embedding_size": 16}),
    "deberta": (transformers.DebertaV2Config, {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]}),
    "modernbert": (transformers.ModernBertConfig, {"global_attn_every_n_layers": 2, "local_attention": 8}),
    "gpt2": (transformers.GPT2Config, {"n_positions": 64, "bos_token_id": 2, "eos_token_id": 3}),
    "qwen2": (transformers.Qwen2Config, {"num_key_value_heads": 2, "bos_token_id": 2, "eos_token_id": 3}),
    "big_bird": (transformers.BigBirdConfig, {"attention_type": "block_sparse", "block_size": 4}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_model(tmp_path: Path, kind: str) -> None:
    tokenizer = wordpiece([Sentence(text, ()) for text in TEXTS], size=120)
    config, more = KINDS[kind]
    made = config(vocab_size=len(tokenizer), id2label=LABELS, pad_token_id=0, **SIZES, **more)
    tagger = tt.load_tagger(random_classifier(tmp_path, made, tokenizer))
    for text in TEXTS:
        assert torch.equal(scores(tagger, text), library_scores(tmp_path, text))
    together = torch.cat([library_scores(tmp_path, text) for text in TEXTS])
    torch.testing.assert_close(scores(tagger, *TEXTS), together, rtol=1e-4, atol=1e-4)  # padded: other last bits
    assert together.std() > 0.01


@pytest.mark.parametrize("adds_space", [False, True])
def test_words_are_cut_as_the_library_cuts_them(tmp_path: Path, adds_space: bool) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny_models.roberta(tmp_path / "base"))
    tokenizer.backend_tokenizer.pre_tokenizer.add_prefix_space = adds_space
    config = transformers.RobertaConfig(
        **SIZES, vocab_size=len(tokenizer), max_position_embeddings=90, pad_token_id=1, id2label=LABELS
    )
    folder = random_classifier(tmp_path / "classifier", config, tokenizer)
    tagger = tt.load_tagger(folder)
    for text in TEXTS:
        assert torch.equal(scores(tagger, text), library_scores(folder, text))


def test_predictions_are_those_of_the_library(planted: Planted) -> None:
    tagger = tt.load_tagger(planted.checkpoint)
    sentences = tt.read_corpus(planted.dev).sentences
    expected = [tuple(NAMES[i] for i in library_scores(planted.checkpoint, one.tokens).argmax(1)) for one in sentences]
    assert tagger.predict(sentences, constrained=False) == expected
    assert tagger.labels.labels == NAMES
    for ours, theirs in zip(tagger.predict(sentences), expected, strict=True):
        assert ours == theirs or violations(theirs, "iob2")


def test_the_mean_of_all_pieces(checkpoint: Path) -> None:
    text = ("Varnholtian", "said")
    tagger = tt.load_tagger(checkpoint, pooling="mean")
    model = transformers.AutoModel.from_pretrained(checkpoint).eval()
    given = transformers.AutoTokenizer.from_pretrained(checkpoint)(
        list(text), is_split_into_words=True, return_tensors="pt"
    )
    with torch.no_grad():
        states = model(**given)[0][0]
    words = given.word_ids()
    assert words.count(0) > 1
    means = torch.stack([states[[word == place for word in words]].mean(0) for place in (0, 1)])
    torch.testing.assert_close(tagger.features(Sentence(text, ())), means)


def test_a_head_without_bias_and_half_precision(tmp_path: Path) -> None:
    tokenizer = wordpiece([Sentence(text, ()) for text in TEXTS], size=120)
    config = transformers.Qwen2Config(
        vocab_size=len(tokenizer), id2label=LABELS, pad_token_id=0, num_key_value_heads=2, **SIZES
    )
    random_classifier(tmp_path, config, tokenizer)
    model = transformers.AutoModelForTokenClassification.from_pretrained(tmp_path)
    model.score = torch.nn.Linear(SIZES["hidden_size"], len(LABELS), bias=False)
    weights = {name: value.bfloat16() for name, value in load_file(tmp_path / "model.safetensors").items()}
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    tagger = tt.load_tagger(tmp_path)
    assert {value.dtype for value in tagger.parameters()} == {torch.float32}
    assert torch.equal(scores(tagger, TEXTS[0]), library_scores(tmp_path, TEXTS[0]))


def test_the_folder_is_not_changed_and_no_network_is_used(
    planted: Planted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    before = contents(planted.checkpoint)
    tagger = tt.load_tagger(planted.checkpoint)
    tt.build_index(tagger, tt.read_corpus(planted.train), tmp_path / "index").tagger()
    assert contents(planted.checkpoint) == before
    for name in ("no-such-checkpoint", "some-user/no-such-model", "./checkpoint", "a/b/c"):
        with pytest.raises(TaggerError, match=r"not a tagger \(no tagger\.json\)"):
            tt.load_tagger(name)


def test_the_name_of_a_model_in_the_local_cache(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "hub" / "models--ada--newswire"
    shutil.copytree(checkpoint, cache / "snapshots" / "0123")
    (cache / "refs").mkdir()
    (cache / "refs" / "main").write_text("0123")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    tagger = tt.load_tagger("ada/newswire")
    assert tagger.folder == cache / "snapshots" / "0123"
    assert tagger_fingerprint(tagger) == tagger_fingerprint(tt.load_tagger(checkpoint))


def test_refitted_and_saved_it_is_a_tagger_like_any_other(planted: Planted, tmp_path: Path) -> None:
    tagger, corpus = tt.load_tagger(planted.checkpoint, pooling="last"), tt.read_corpus(planted.train)
    before = scores(tagger, TEXTS[0])
    tt.save_tagger(tagger, tmp_path / "saved")
    saved = tt.load_tagger(tmp_path / "saved")
    assert torch.equal(scores(saved, TEXTS[0]), before)
    assert tagger_fingerprint(saved) == tagger_fingerprint(tagger)
    assert tt.load_tagger(tmp_path / "saved", pooling="last").record == tagger.record
    with pytest.raises(OptionError, match="pooling first is not that of the saved tagger"):
        tt.load_tagger(tmp_path / "saved", pooling="first")
    tt.refit_tagger(saved, corpus)
    tt.save_tagger(saved, tmp_path / "refitted")
    again = tt.load_tagger(tmp_path / "refitted")
    assert torch.equal(scores(again, TEXTS[0]), scores(saved, TEXTS[0]))
    assert again.head.weight.dtype == torch.float64
    assert not torch.allclose(scores(again, TEXTS[0]).float(), before, atol=1e-3)


def test_it_has_no_recipe_to_train_it_again_by(planted: Planted, tmp_path: Path) -> None:
    tagger = tt.load_tagger(planted.checkpoint)
    index = tt.build_index(tagger, tt.read_corpus(planted.train), tmp_path / "index")
    for ask in (lambda: Recipe.of(tagger), lambda: tt.build_whole(index, 1)):
        with pytest.raises(TaggerError, match="checkpoint does not record how it was trained; retrain only the head"):
            ask()


def test_an_index_knows_its_checkpoint(planted: Planted, tmp_path: Path) -> None:
    shutil.copytree(planted.checkpoint, tmp_path / "mine")
    corpus = tt.read_corpus(planted.train)
    index = tt.build_index(tt.load_tagger(tmp_path / "mine", pooling="last"), corpus, tmp_path / "index")
    opened = tt.open_index(tmp_path / "index")
    assert opened.manifest.tagger.pooling == "last"
    assert opened.trained_tagger().encoder.pooling == "last"  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(tt.TagtraceError, match="built with another tagger"):
        index.check_tagger(tt.load_tagger(tmp_path / "mine"))
    config = json.loads((tmp_path / "mine" / "config.json").read_text())
    (tmp_path / "mine" / "config.json").write_text(json.dumps({**config, "layer_norm_eps": 1e-3}))
    with pytest.raises(tt.TagtraceError, match="built with another tagger"):
        opened.trained_tagger()


def test_an_index_knows_the_tokenizer_of_its_checkpoint_whatever_its_files_are_called(
    planted: Planted, tmp_path: Path
) -> None:
    mine = tmp_path / "mine"
    shutil.copytree(planted.checkpoint, mine)
    tt.build_index(tt.load_tagger(mine), tt.read_corpus(planted.train), tmp_path / "index")
    path = mine / "tokenizer.json"
    whole = json.loads(path.read_text())
    words = list(whole["model"]["vocab"])
    whole["model"]["vocab"] = dict(zip(words, reversed(range(len(words))), strict=True))
    path.write_text(json.dumps(whole))
    with pytest.raises(tt.TagtraceError, match="built with another tagger"):
        tt.open_index(tmp_path / "index").trained_tagger()


def test_labels_that_the_model_does_not_know(planted: Planted, tmp_path: Path) -> None:
    (tmp_path / "train.conll").write_text("Oslo B-PLANET\nis O\n\n")
    (tmp_path / "plain.conll").write_text("Oslo NOUN\nis VERB\n\n")
    tagger = tt.load_tagger(planted.checkpoint)
    for name, message in (("train", "line 1: unknown label 'B-PLANET'"), ("plain", "labels are plain")):
        with pytest.raises(DataError, match=message) as error:
            tt.build_index(tagger, tt.read_corpus(tmp_path / f"{name}.conll"), tmp_path / "index")
        assert "\n" not in str(error.value)
    assert not (tmp_path / "index").exists()


Damage = Callable[[Path], object]


def configured(**changes: Any) -> Damage:
    """A config.json with some keys changed."""

    def damage(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return damage


def weighted(change: Callable[[dict[str, Tensor]], dict[str, Tensor]]) -> Damage:
    """Other weights."""

    def damage(folder: Path) -> None:
        path = folder / "model.safetensors"
        save_file(change(load_file(path)), path, metadata={"format": "pt"})

    return damage


def pickled(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


REFUSALS: dict[str, tuple[Damage, str]] = {
    "pickle": (pickled, r"a pickle \(pytorch_model\.bin\).*never read.*save_pretrained, which makes safetensors"),
    "adapter": (lambda at: (at / "adapter_config.json").write_text("{}"), "adapter.*merge_and_unload"),
    "no weights": (lambda at: (at / "model.safetensors").unlink(), "cannot be loaded"),
    "cut weights": (lambda at: (at / "model.safetensors").write_bytes(b"\x80\x04"), "cannot be loaded"),
    "no tokenizer": (
        lambda at: [path.unlink() for path in at.glob("tokenizer*")],
        "tokenizer|cannot be loaded",
    ),
    "no JSON": (lambda at: (at / "config.json").write_text("{"), r"config\.json: cannot be read \(not valid JSON"),
    "other model": (configured(architectures=["BertForMaskedLM"]), r"not a tagger.*encoder transformer:"),
    "own code": (
        configured(architectures=["SpanForTokenClassification"], auto_map={"AutoModel": "span.Model"}),
        "has no SpanForTokenClassification, and code that comes with a model is never run",
    ),
    "unnamed": (
        configured(id2label={str(i): f"LABEL_{i}" for i in range(9)}),
        r"labels have no names \(LABEL_0, \.\.\.\); write those .* into id2label of its config\.json",
    ),
    "twice": (configured(id2label={str(i): "O" for i in range(9)}), "id2label: .*distinct labels"),
    "too few": (configured(id2label={"0": "O", "1": "B-PER"}), "cannot be loaded"),
    "gap": (configured(id2label={str(2 * i): name for i, name in enumerate(NAMES)}), "does not name each of the 9"),
    "no head": (
        weighted(lambda all_: {name: value for name, value in all_.items() if "classifier" not in name}),
        "weights are missing, for example classifier",
    ),
    "crf": (weighted(lambda all_: {**all_, "crf.transitions": torch.zeros(9, 9)}), r"crf\.transitions, which"),
    "nan": (weighted(lambda all_: {**all_, "classifier.bias": torch.full((9,), torch.nan)}), "not finite"),
}


@pytest.mark.parametrize(("damage", "message"), REFUSALS.values(), ids=REFUSALS)
def test_what_cannot_be_taken_is_refused_in_one_line(
    checkpoint: Path, tmp_path: Path, damage: Damage, message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = Path(shutil.copytree(checkpoint, tmp_path / "copy"))
    damage(folder)
    with pytest.raises((TaggerError, EncoderError), match=message) as error:
        tt.load_tagger(folder)
    assert "\n" not in str(error.value)
    assert str(folder) in str(error.value)
    assert len(str(error.value)) < 500
    assert capfd.readouterr() == ("", "")


def test_a_model_that_is_not_one_linear_layer_of_its_states_is_refused(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forward: Any = transformers.BertForTokenClassification.forward

    def shifted(self: Any, *args: Any, **kwargs: Any) -> Any:
        found = forward(self, *args, **kwargs)
        if not isinstance(self.classifier, torch.nn.Identity):
            found.logits = found.logits * 2
        return found

    monkeypatch.setattr(transformers.BertForTokenClassification, "forward", shifted)
    with pytest.raises(TaggerError, match="scores cannot be computed as transformers computes them"):
        tt.load_tagger(checkpoint)


def test_without_transformers_it_says_what_to_install(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(TaggerError, match=r'pip install "tagtrace\[transformers\]"'):
        tt.load_tagger(checkpoint)


def test_an_unknown_pooling(checkpoint: Path) -> None:
    with pytest.raises(OptionError, match="pooling 'max': expected one of first, mean, last"):
        tt.load_tagger(checkpoint, pooling="max")  # pyright: ignore[reportArgumentType]


def test_the_first_supporter_of_what_a_planted_error_taught_is_one_of_its_copies(
    planted: Planted, tmp_path: Path
) -> None:
    tagger, corpus = tt.load_tagger(planted.checkpoint), tt.read_corpus(planted.train)
    index = tt.build_index(tagger, corpus, tmp_path / "index")
    own, explainer, num_asked = index.tagger(), tt.Explainer(index), 0
    for sentence, labels in zip(dev := tt.read_corpus(planted.dev).sentences, own.predict(dev), strict=True):
        for place, (token, label) in enumerate(zip(sentence.tokens, labels, strict=True)):
            if (token, label) == (WORD, "B-MISC"):
                query = tt.make_query(own, sentence, place, place + 1)
                first = explainer.explain(query, "relative", top=1).supporters[0]
                assert index.sentence(first.sentence_number).tokens[first.start] == WORD
                num_asked += 1
    assert num_asked >= 3
