"""Tiny random Hugging Face models with tokenizers of their own, built without a network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    AutoModel,
    BertConfig,
    BigBirdConfig,
    DistilBertConfig,
    PreTrainedTokenizerFast,
    RobertaConfig,
)

WORDS = "the a of in on KHL Velmara Velmaran leaves talks visit wool Ilmarian Mira Varnholt said play ##s ##ing"
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.,-0123456789"
SIZES: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
}


def bert(folder: Path, *, max_positions: int = 64, **config: Any) -> Path:
    """BERT with a WordPiece tokenizer, which drops control and zero-width characters."""
    tokenizer = _wordpiece()
    settings = {**SIZES, "vocab_size": len(tokenizer), "max_position_embeddings": max_positions, **config}
    return _write(folder, BertConfig(**settings, pad_token_id=0), tokenizer)


def distilbert(folder: Path, *, max_positions: int = 64) -> Path:
    tokenizer = _wordpiece()
    config = DistilBertConfig(
        vocab_size=len(tokenizer),
        max_position_embeddings=max_positions,
        dim=16,
        n_layers=2,
        n_heads=2,
        hidden_dim=32,
        pad_token_id=0,
    )
    return _write(folder, config, tokenizer)


def roberta(folder: Path, *, max_positions: int = 34) -> Path:
    """RoBERTa with byte-level BPE; its positions start at 2, so it holds ``max_positions - 2`` pieces."""
    tokenizer = _byte_level()
    config = RobertaConfig(**SIZES, vocab_size=len(tokenizer), max_position_embeddings=max_positions, pad_token_id=1)
    return _write(folder, config, tokenizer)


def big_bird(folder: Path) -> Path:
    """BigBird with sparse attention over blocks of 4: possible for more than 28 pieces, at most 96."""
    tokenizer = _wordpiece()
    config = BigBirdConfig(
        **SIZES,
        vocab_size=len(tokenizer),
        max_position_embeddings=98,
        attention_type="block_sparse",
        block_size=4,
        num_random_blocks=1,
        pad_token_id=0,
    )
    return _write(folder, config, tokenizer)


def _write(folder: Path, config: Any, tokenizer: PreTrainedTokenizerFast) -> Path:
    torch.manual_seed(0)
    model = AutoModel.from_config(config)
    with torch.no_grad():  # the usual 0.02 leaves a tiny model almost blind to its context
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _wordpiece() -> PreTrainedTokenizerFast:
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    letters = [*LETTERS, *(f"##{letter}" for letter in LETTERS)]
    pieces = dict.fromkeys([*special, *letters, *WORDS.split()])
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    backend = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=False, strip_accents=False)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    )


def _byte_level() -> PreTrainedTokenizerFast:
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=320,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator([f" {WORDS} the Velmaran talks"] * 4, trainer)
    backend.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token="<s>",
        eos_token="</s>",
        cls_token="<s>",
        sep_token="</s>",
        pad_token="<pad>",
        unk_token="<unk>",
        mask_token="<mask>",
    )
