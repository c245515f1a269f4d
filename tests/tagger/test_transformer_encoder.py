"""Transformer features: words from pieces, documents from windows, and errors in one line."""

from __future__ import annotations

import json
import logging
import random
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tagtrace._checks import EncoderError, OptionError
from tagtrace.data.sentence import Sentence
from tagtrace.tagger.encoders import transformer as module
from tagtrace.tagger.encoders.pieces import most_central, window_bounds
from tagtrace.tagger.encoders.transformer import Transformer
from tests.tagger import tiny_models

TOKENS = [
    "KHL",
    "leaves",
    "Velmaran",
    "talks",
    "to",
    "visit",
    "Ilmarian",
    "wool",
    ".",
    "said",
    "playing",
    "2031-05-17",
]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("models")
    return {
        "bert": tiny_models.bert(root / "bert"),
        "distilbert": tiny_models.distilbert(root / "distilbert"),
        "roberta": tiny_models.roberta(root / "roberta"),
        "big_bird": tiny_models.big_bird(root / "big_bird"),
    }


def sentence(tokens: Sequence[str]) -> Sentence:
    return Sentence(tuple(tokens), ())


def document(length: int, seed: int = 0) -> Sentence:
    return sentence(random.Random(seed).choices(TOKENS, k=length))


def features(encoder: Transformer, *sentences: Sentence) -> Tensor:
    with torch.no_grad():
        return encoder.eval()([encoder.prepare(s) for s in sentences])


def close(ours: Tensor, oracle: Tensor, tolerance: float = 1e-5) -> None:
    torch.testing.assert_close(ours, oracle, rtol=tolerance, atol=tolerance)


def direct(encoder: Transformer, ids: list[int]) -> Tensor:
    """Last-layer vectors of pieces, special ones left out, by a plain call of the model."""
    piecer = encoder._piecer
    framed = torch.tensor([piecer.prefix + ids + piecer.suffix])
    with torch.no_grad():
        states = encoder.model.eval()(input_ids=framed, attention_mask=torch.ones_like(framed))[0][0]
    return states[len(piecer.prefix) : len(piecer.prefix) + len(ids)]


def word_means(encoder: Transformer, states: Tensor, tokens: Sequence[str]) -> Tensor:
    """Each word's mean over its rows of ``states``, word by word."""
    means, start = [], 0
    for word in encoder._piecer.cut_words(tokens):
        means.append(sum(states[start + i] for i in range(len(word))) / len(word))
        start += len(word)
    return torch.stack([torch.as_tensor(mean) for mean in means])


@pytest.mark.parametrize("name", ["bert", "distilbert", "roberta", "big_bird"])
def test_a_word_is_the_mean_of_its_pieces(folders: dict[str, Path], name: str) -> None:
    encoder = Transformer(folders[name])
    tokens = TOKENS[:6]
    words = encoder._piecer.cut_words(tokens)
    assert max(map(len, words)) > 1
    states = direct(encoder, [piece for word in words for piece in word])
    close(features(encoder, sentence(tokens)), word_means(encoder, states, tokens))
    assert encoder.dim == 16


@pytest.mark.parametrize("name", ["bert", "distilbert", "roberta", "big_bird"])
def test_a_batch_equals_its_sentences_one_by_one(folders: dict[str, Path], name: str) -> None:
    encoder = Transformer(folders[name])
    lengths = [1, 7, 3, 90, 0, 12, 31]  # ragged; some in windows; on BigBird both kinds of attention
    sentences = [document(length, seed) for seed, length in enumerate(lengths)]
    together = features(encoder, *sentences)
    assert together.shape == (sum(lengths), 16)
    close(together, torch.cat([features(encoder, s) for s in sentences]))


def test_several_calls_equal_one(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = Transformer(folders["bert"])
    sentences = [document(length) for length in (40, 2, 5, 60)]
    one = features(encoder, *sentences)
    monkeypatch.setattr(module, "PIECES_PER_CALL", 100)
    close(features(encoder, *sentences), one)


def test_nothing_to_encode(folders: dict[str, Path]) -> None:
    encoder = Transformer(folders["bert"])
    assert features(encoder).shape == (0, 16)
    assert features(encoder, sentence([]), sentence([])).shape == (0, 16)


def test_windows_change_nothing_when_all_fits(folders: dict[str, Path]) -> None:
    tokens = sentence(TOKENS[:5])
    plain = Transformer(folders["bert"])
    pieces = sum(map(len, plain._piecer.cut_words(tokens.tokens)))
    exact = Transformer(folders["bert"], max_pieces=pieces + 2, overlap=1)
    close(features(exact, tokens), features(plain, tokens))
    cut = Transformer(folders["bert"], max_pieces=pieces + 1, overlap=1)
    assert len(cut.prepare(tokens).windows) == 2
    assert not torch.allclose(features(cut, tokens), features(plain, tokens), atol=1e-2)


@pytest.mark.parametrize("name", ["bert", "roberta"])
def test_a_long_document_is_read_window_by_window(folders: dict[str, Path], name: str) -> None:
    encoder = Transformer(folders[name], max_pieces=30, overlap=8)
    long = document(200)
    found = features(encoder, long)
    assert found.shape == (200, 16)
    ids = [piece for word in encoder._piecer.cut_words(long.tokens) for piece in word]
    bounds = window_bounds(len(ids), 28, 8)
    by_window = [direct(encoder, ids[start:stop]) for start, stop in bounds]
    states = []
    for p in range(len(ids)):  # the most central window, by its definition
        margins = [
            min(p - a if a else len(ids), b - 1 - p if b < len(ids) else len(ids)) if a <= p < b else -1
            for a, b in bounds
        ]
        best = margins.index(max(margins))
        states.append(by_window[best][p - bounds[best][0]])
    close(found, word_means(encoder, torch.stack(states), long.tokens))


@given(st.integers(1, 80), st.integers(1, 12), st.data())
def test_windows_cover_every_piece(num_pieces: int, capacity: int, data: Any) -> None:
    overlap = data.draw(st.integers(0, capacity - 1))
    bounds = window_bounds(num_pieces, capacity, overlap)
    assert all(0 < stop - start <= capacity for start, stop in bounds)
    assert all((before[1] - after[0]) >= overlap for before, after in pairwise(bounds))
    window, place = most_central(bounds, num_pieces)
    starts = torch.tensor([start for start, _ in bounds])
    assert (starts[window] + torch.from_numpy(place)).tolist() == list(range(num_pieces))
    assert all(place[p] < bounds[w][1] - bounds[w][0] for p, w in enumerate(window))


@pytest.mark.parametrize("name", ["bert", "roberta", "big_bird"])
def test_odd_words_have_a_piece(folders: dict[str, Path], name: str) -> None:
    encoder = Transformer(folders[name])
    odd = [
        "\x07",
        "\u200b",
        "\u00ad",
        "",
        " ",
        "\ufeff",
        "\ud800",
        "\U0001f600",
        "\u2028",
        "e\u0301",
        "New York",
    ]
    tokens = [*odd, "KHL"]
    assert all(encoder._piecer.cut_words(tokens))
    found = features(encoder, sentence(tokens))
    assert found.shape == (12, 16)
    assert found.isfinite().all()


def test_a_vanished_word_is_the_unknown_piece(folders: dict[str, Path]) -> None:
    encoder = Transformer(folders["bert"])
    words = encoder._piecer.cut_words(["KHL", "\u200b", "talks"])
    assert words[1] == [encoder.tokenizer.unk_token_id]
    assert encoder.tokenizer.convert_ids_to_tokens([words[0][0], words[2][0]]) == ["KHL", "talks"]


def test_byte_level_words_carry_their_space(folders: dict[str, Path]) -> None:
    encoder = Transformer(folders["roberta"])
    words = encoder._piecer.cut_words(["the", "Velmaran", "talks"])
    in_text = encoder.tokenizer(" the Velmaran talks", add_special_tokens=False)["input_ids"]
    assert [piece for word in words for piece in word] == in_text


def test_limits(folders: dict[str, Path]) -> None:
    assert Transformer(folders["bert"]).max_pieces == 64
    assert Transformer(folders["roberta"]).max_pieces == 32  # 34 positions, of which 0 and 1 are never used
    assert Transformer(folders["big_bird"]).max_pieces == 96  # whole blocks of the 98 positions
    assert Transformer(folders["bert"], max_pieces=10).overlap == 2


def test_the_tokenizers_own_limit_counts(tmp_path: Path) -> None:
    folder = tiny_models.bert(tmp_path / "bert")
    config = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**config, "model_max_length": 20}))
    assert Transformer(folder).max_pieces == 20
    assert Transformer(folder, max_pieces=64).max_pieces == 64


def test_a_tokenizer_that_truncates_and_pads_does_neither(tmp_path: Path) -> None:
    path = tiny_models.bert(tmp_path / "bert") / "tokenizer.json"
    state = json.loads(path.read_text())
    state["truncation"] = {"direction": "Right", "max_length": 8, "strategy": "LongestFirst", "stride": 0}
    state["padding"] = {
        "strategy": {"Fixed": 12},
        "direction": "Right",
        "pad_to_multiple_of": None,
        "pad_id": 0,
        "pad_type_id": 0,
        "pad_token": "[PAD]",
    }
    path.write_text(json.dumps(state))
    encoder = Transformer(path.parent)
    piece = encoder.tokenizer.convert_tokens_to_ids("KHL")
    for length in (2, 50):
        assert encoder._piecer.cut_words(["KHL"] * length) == [[piece]] * length


def test_every_position_of_roberta_is_used(folders: dict[str, Path]) -> None:
    encoder = Transformer(folders["roberta"])
    for length in range(8, 16):  # around the limit; one position too many would be an index error
        assert features(encoder, document(length)).shape == (length, 16)
    long = encoder.prepare(document(100))
    assert max(len(window) for window in long.windows) == 32
    with pytest.raises(OptionError, match="max_pieces = 33"):
        Transformer(folders["roberta"], max_pieces=33)


@pytest.mark.parametrize("options", [{"max_pieces": 2}, {"max_pieces": 65}, {"overlap": 62}, {"overlap": -1}])
def test_impossible_options(folders: dict[str, Path], options: dict[str, Any]) -> None:
    with pytest.raises(OptionError) as error:
        Transformer(folders["bert"], **options)
    assert "\n" not in str(error.value)


def test_big_bird_uses_full_attention_for_short_windows_only(
    folders: dict[str, Path], caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    logging.getLogger("transformers").propagate = True
    encoder = Transformer(folders["big_bird"])
    parameters = {name: parameter.data_ptr() for name, parameter in encoder.named_parameters()}
    seen: list[tuple[str, int]] = []
    encoder.model.register_forward_pre_hook(
        lambda model, _, inputs: seen.append((model.attention_type, inputs["input_ids"].shape[1])),
        with_kwargs=True,
    )
    short, long = sentence(["KHL"] * 26), sentence(["KHL"] * 27)
    alone = features(encoder, short), features(encoder, long)
    assert seen == [("original_full", 28), ("block_sparse", 32)]
    close(features(encoder, short, long, document(60)), torch.cat([*alone, features(encoder, document(60))]))
    assert {name: parameter.data_ptr() for name, parameter in encoder.named_parameters()} == parameters
    assert not caplog.records
    assert capfd.readouterr() == ("", "")


def test_big_bird_trains_with_both_kinds_of_attention(folders: dict[str, Path]) -> None:
    encoder = Transformer(folders["big_bird"]).train()
    encoder([encoder.prepare(document(n)) for n in (3, 60)]).square().sum().backward()
    query = encoder.model.encoder.layer[0].attention.self.query
    assert query.weight.device.type == "cpu"
    assert query.weight.grad.abs().sum() > 0


def test_gradients_reach_the_model(folders: dict[str, Path]) -> None:
    encoder = Transformer(folders["bert"], max_pieces=16).eval()
    prepared = [encoder.prepare(document(n)) for n in (4, 30)]
    weight = torch.randn(34, 16)
    (encoder(prepared) * weight).sum().backward()
    gradients = {n: p.grad for n, p in encoder.named_parameters() if "pooler" not in n}
    assert all(g is not None and g.abs().sum() > 0 for n, g in gradients.items() if "key.bias" not in n)
    parameter = encoder.model.encoder.layer[1].output.dense.bias
    ours = parameter.grad[3].item()
    with torch.no_grad():  # finite difference
        sums = []
        for step in (1e-2, -1e-2):
            parameter[3] += step
            sums.append((encoder(prepared) * weight).sum().item())
            parameter[3] -= step
    assert ours == pytest.approx((sums[0] - sums[1]) / 2e-2, rel=2e-2, abs=1e-2)


@pytest.mark.parametrize("name", ["bert", "big_bird"])
def test_autocast_gives_float32(folders: dict[str, Path], name: str) -> None:
    encoder = Transformer(folders[name]).eval()
    prepared = [encoder.prepare(document(n)) for n in (5, 50)]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = encoder(prepared)
    assert found.dtype == torch.float32
    found.sum().backward()
    assert encoder.model.get_input_embeddings().weight.grad.abs().sum() > 0
    assert (found - encoder(prepared)).abs().max() < 0.5


def test_half_precision_weights_are_widened(tmp_path: Path) -> None:
    folder = tiny_models.bert(tmp_path / "bert")
    encoder = Transformer(folder)
    encoder.model.bfloat16().save_pretrained(folder)
    assert features(Transformer(folder), sentence(["KHL"])).dtype == torch.float32


def test_attention_on_a_gpu_is_not_planned_anew_for_every_length() -> None:
    before = torch.backends.cuda.cudnn_sdp_enabled()
    with module._attention_of_any_length(torch.device("cuda")):
        assert not torch.backends.cuda.cudnn_sdp_enabled()
        assert torch.backends.cuda.mem_efficient_sdp_enabled()
    assert torch.backends.cuda.cudnn_sdp_enabled() == before
    with module._attention_of_any_length(torch.device("cpu")):
        assert torch.backends.cuda.cudnn_sdp_enabled() == before


def test_every_call_of_a_model_is_made_with_such_attention(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    devices: list[torch.device] = []
    monkeypatch.setattr(module, "_attention_of_any_length", lambda device: devices.append(device) or nullcontext())
    features(Transformer(folders["bert"]), document(5))
    assert devices == [torch.device("cpu")]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", ["bert", "roberta", "big_bird"])
def test_on_a_gpu(folders: dict[str, Path], name: str) -> None:
    encoder = Transformer(folders[name])
    sentences = [document(n) for n in (5, 50, 0, 1)]
    on_cpu = features(encoder, *sentences)
    encoder.cuda()
    on_gpu = features(encoder, *sentences)
    assert on_gpu.is_cuda
    close(on_gpu.cpu(), on_cpu, 1e-3)
    assert torch.equal(features(encoder, *sentences), on_gpu)
    for dtype in (torch.bfloat16, torch.float16):
        encoder.zero_grad()
        with torch.autocast("cuda", dtype=dtype):
            found = encoder.train()([encoder.prepare(s) for s in sentences])
        assert found.dtype == torch.float32
        found.square().sum().backward()
        assert encoder.model.get_input_embeddings().weight.grad.isfinite().all()


@pytest.mark.parametrize("name", ["bert", "distilbert", "roberta", "big_bird"])
def test_saved_and_loaded_it_gives_the_same_features(
    folders: dict[str, Path], name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    encoder = Transformer(folders[name], max_pieces=24, overlap=5)
    with torch.no_grad():
        next(encoder.model.parameters()).add_(0.1)  # as if trained
    sentences = [document(5), document(40), sentence(["\u200b", "New York"])]
    before = features(encoder, *sentences)
    encoder.save(tmp_path)
    again = Transformer.load(tmp_path)
    assert torch.equal(features(again, *sentences), before)
    assert (again.name, again.max_pieces, again.overlap) == (str(folders[name]), 24, 5)
    assert not [path.name for path in tmp_path.iterdir() if path.suffix in {".bin", ".pt", ".pkl"}]
    assert capfd.readouterr() == ("", "")


def break_weights(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:500])


def drop_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()


def drop_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer_config.json").unlink()


def break_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").write_text("{")


def drop_config(folder: Path) -> None:
    (folder / "config.json").unlink()


def break_config(folder: Path) -> None:
    (folder / "config.json").write_text("{")


def rename_model(folder: Path) -> None:
    (folder / "config.json").write_text('{"model_type": "no_such_model"}')


def deepen_model(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 3}))


@pytest.mark.parametrize(
    "damage",
    [
        break_weights,
        drop_weights,
        drop_tokenizer,
        break_tokenizer,
        drop_config,
        break_config,
        rename_model,
        deepen_model,
    ],
)
def test_a_broken_folder_is_refused_in_one_line(tmp_path: Path, damage: Any, capfd: pytest.CaptureFixture[str]) -> None:
    folder = tiny_models.bert(tmp_path / "bert")
    damage(folder)
    capfd.readouterr()
    with pytest.raises(EncoderError) as error:
        Transformer(folder)
    assert "\n" not in str(error.value)
    assert str(folder) in str(error.value)
    assert len(str(error.value)) < 500
    assert capfd.readouterr() == ("", "")


def test_a_missing_folder_is_refused() -> None:
    with pytest.raises(EncoderError, match="no such folder"):
        Transformer("./no/such/folder")


def test_a_name_without_a_network_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(EncoderError, match="network") as error:
        Transformer("no-such/model")
    assert "\n" not in str(error.value)


def test_a_foreign_tokenizer_is_refused(tmp_path: Path) -> None:
    encoder = Transformer(tiny_models.bert(tmp_path / "bert", vocab_size=20))
    with pytest.raises(EncoderError, match="belongs to the model"):
        encoder.prepare(sentence(TOKENS))


def test_without_transformers_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(EncoderError, match=r'pip install "tagtrace\[transformers\]"'):
        Transformer("bert-base-cased")


def test_loading_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match=r"encoder\.json: cannot be read"):
        Transformer.load(tmp_path)
