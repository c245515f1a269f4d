"""Hashed spelling features: the same everywhere, for any word, and never across sentences."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tagtrace._checks import OptionError
from tagtrace.data import Sentence
from tagtrace.tagger.encoders.lexical import Lexical, LexicalOptions, shape, spelling

OPTIONS = LexicalOptions(buckets=997, width=6, hidden=5)
ODD = [
    "",
    " ",
    "\n",
    "\x00",
    "é",
    "e\u0301",
    "\uff21\uff22",
    "\ufb01",
    "İstanbul",
    "ß",
    "👩‍🚀",
    "\ud800",
    "a\udfffb",
    "日本語",
    "x" * 5000,
]


def sentence(*tokens: str) -> Sentence:
    return Sentence(tokens, ())


def new_encoder(options: LexicalOptions = OPTIONS, seed: int = 0) -> Lexical:
    torch.manual_seed(seed)
    return Lexical(options).eval()


@torch.no_grad()
def encode(encoder: Lexical, *sentences: Sentence) -> Tensor:
    return encoder([encoder.prepare(each) for each in sentences])


def test_hashing_is_the_same_in_every_process() -> None:
    words = ["Varnholt", "beat", "Ostrel", "3-1", "Ägypten", ""]
    program = (
        "import json, sys; from tagtrace.data import Sentence; from tagtrace.tagger import Lexical, LexicalOptions; "
        "words = json.loads(sys.argv[1]); encoder = Lexical(LexicalOptions(buckets=997, width=1, hidden=1)); "
        "print(json.dumps(encoder.prepare(Sentence(tuple(words), ()))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, json.dumps(words)],
        env={**os.environ, "PYTHONHASHSEED": "12345"},
        capture_output=True,
        text=True,
        check=True,
    )
    here = new_encoder().prepare(sentence(*words))
    assert json.loads(done.stdout) == [[ids, num_forms] for ids, num_forms in here]
    # A saved table is worthless if hashing ever changes: these numbers may not.
    assert here[1][0][:2] == [570, 221]


@given(st.lists(st.text(st.characters(exclude_categories=())) | st.sampled_from(ODD), min_size=1, max_size=6))
def test_any_word_has_features(words: list[str]) -> None:
    features = encode(ENCODER, sentence(*words))
    assert features.shape == (len(words), OPTIONS.dim)
    assert bool(features.isfinite().all())


ENCODER = new_encoder()


def test_dim_is_hidden_and_width() -> None:
    assert ENCODER.dim == OPTIONS.dim == 11
    assert Lexical().dim <= 1024
    assert ENCODER.trainable
    assert ENCODER.kind == "lexical"
    assert encode(ENCODER).shape == (0, 11)


def test_words_differ_by_their_spelling() -> None:
    features = encode(ENCODER, *(sentence(word) for word in ("Oslo", "oslo", "OSLO", "Oslos", "Bergen", "Oslo")))
    rows = [tuple(row.tolist()) for row in features]
    assert rows[0] == rows[5]
    assert len(set(rows)) == 5
    assert shape("x") == "x" != shape("X")
    assert "p4=berg" in spelling("Bergen")[1]
    assert "s4=rgen" in spelling("Bergen")[1]
    assert "t=<be" in spelling("Bergen")[1]


WORDS = st.lists(st.sampled_from(["Varn", "beat", "1996", "the", "GmbH", "-"]), min_size=1, max_size=7)


@given(st.lists(WORDS, min_size=1, max_size=5))
def test_a_sentence_has_the_same_features_in_any_company(texts: list[list[str]]) -> None:
    asked = [sentence(*words) for words in texts]
    alone = torch.cat([encode(ENCODER, each) for each in asked])
    torch.testing.assert_close(encode(ENCODER, *asked), alone, rtol=0, atol=1e-6)


def test_neighbours_matter_within_three_tokens_and_no_further() -> None:
    words = ["a", "b", "c", "d", "e", "f", "g", "h", "i"]
    before = encode(ENCODER, sentence(*words))
    after = encode(ENCODER, sentence(*words[:4], "Other", *words[5:]))
    moved = [(left != right).any().item() for left, right in zip(before, after, strict=True)]
    assert moved == [False, True, True, True, True, True, True, True, False]


def test_training_alone_hides_word_forms() -> None:
    encoder = new_encoder(LexicalOptions(buckets=997, width=6, hidden=5, form_dropout=1.0))
    prepared = encoder.prepare(sentence("Oslo", "wins"))

    def own_sums(skip_forms: bool) -> Tensor:
        rows = [ids[num_forms * skip_forms :] for ids, num_forms in prepared]
        sums = [encoder.table.weight[ids].sum(0) / len(ids) ** 0.5 for ids in rows]
        return torch.stack(sums).detach()

    def own(encoder: Lexical) -> Tensor:
        return encoder([prepared])[:, OPTIONS.hidden :].detach()

    torch.testing.assert_close(own(encoder), own_sums(skip_forms=False))
    torch.testing.assert_close(own(encoder.train()), own_sums(skip_forms=True))
    assert not torch.allclose(own_sums(skip_forms=True), own_sums(skip_forms=False))


def test_training_draws_and_evaluation_does_not() -> None:
    encoder = new_encoder()
    text = sentence("Varn", "beat", "Ostrel", "in", "Oslo")
    assert torch.equal(encode(encoder, text), encode(encoder, text))
    encoder.train()
    torch.manual_seed(3)
    first = encode(encoder, text)
    assert not torch.equal(first, encode(encoder, text))
    torch.manual_seed(3)
    assert torch.equal(first, encode(encoder, text)), "the seed decides"


def test_gradients_reach_every_weight() -> None:
    encoder = new_encoder().train()
    encoder([encoder.prepare(sentence("Varn", "beat", "Ostrel", "in", "Oslo"))]).square().sum().backward()
    assert all(parameter.grad is not None and bool(parameter.grad.any()) for parameter in encoder.parameters())


def test_a_narrowed_table_encodes_the_same_and_is_written_back() -> None:
    encoder = new_encoder()
    text, other = sentence("Varn", "beat", "Ostrel"), sentence("Bergen")
    prepared, before, elsewhere = encoder.prepare(text), encode(encoder, text), encode(encoder, other)
    used = sorted({i for ids, _ in prepared for i in ids})
    table = encoder.table.weight.detach().clone()
    with suppress(KeyboardInterrupt), encoder.narrowed([prepared]):
        assert len(encoder.table.weight) == len(used) < OPTIONS.buckets
        assert torch.equal(encode(encoder, text), before)
        with pytest.raises(RuntimeError):  # never silently the row of another word
            encode(encoder, other)
        encoder.table.weight.data += 1
        raise KeyboardInterrupt
    table[used] += 1
    assert torch.equal(encoder.table.weight, table)
    assert encoder.state_dict().keys() == ENCODER.state_dict().keys()
    assert not torch.equal(encode(encoder, text), before)
    assert encode(encoder, other).shape == elsewhere.shape


def test_save_and_load(tmp_path: Path) -> None:
    ENCODER.save(tmp_path)
    loaded = Lexical.load(tmp_path).eval()
    assert loaded.options == OPTIONS
    text = [sentence("Varn", "beat", "Ostrel"), sentence(*ODD)]
    assert torch.equal(encode(loaded, *text), encode(ENCODER, *text))
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".json", ".safetensors"]


@pytest.mark.parametrize("bad", [{"buckets": 0}, {"width": 0}, {"hidden": -1}, {"hidden": 1000, "width": 25}])
def test_options_validate_themselves(bad: dict[str, int]) -> None:
    with pytest.raises(OptionError, match="lexical encoder"):
        LexicalOptions(**bad)
