"""Small token classifiers of Hugging Face transformers: trained by that library on invented newswire, or random."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from torch import Tensor
from transformers import (
    AutoModelForTokenClassification,
    AutoTokenizer,
    BertConfig,
    BertForTokenClassification,
    PreTrainedTokenizerFast,
)

from tagtrace.data import Sentence

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def wordpiece(sentences: Sequence[Sentence], size: int = 500) -> PreTrainedTokenizerFast:
    """A WordPiece tokenizer of a few hundred pieces: most names have several."""
    backend = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=False, strip_accents=False)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=size, special_tokens=SPECIAL, show_progress=False)
    texts = [" ".join(sentence.tokens) for sentence in sentences]
    backend.train_from_iterator(texts, trainer)
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIAL, strict=True))
    return PreTrainedTokenizerFast(tokenizer_object=backend, model_max_length=128, **names)


def batch_of(tokenizer: Any, sentences: Sequence[Sentence], names: Sequence[str]) -> dict[str, Any]:
    """Inputs and labels as Hugging Face's own example makes them: the first piece of a word has its label."""
    inputs = tokenizer([list(one.tokens) for one in sentences], is_split_into_words=True, padding=True,
                       return_tensors="pt")  # fmt: skip
    labels = torch.full(inputs["input_ids"].shape, -100)
    for row, sentence in enumerate(sentences):
        words = inputs.word_ids(row)
        for word, label in enumerate(sentence.labels):
            labels[row, words.index(word)] = list(names).index(label)
    return {**inputs, "labels": labels}


def train_bert(folder: Path, sentences: Sequence[Sentence], names: Sequence[str], epochs: int, **config: Any) -> Path:
    """Train a tiny BERT for some epochs and save it with its tokenizer."""
    torch.manual_seed(0)
    tokenizer = wordpiece(sentences)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64, **config}
    model = BertForTokenClassification(
        BertConfig(vocab_size=len(tokenizer), max_position_embeddings=128, id2label=dict(enumerate(names)),
                   label2id={name: number for number, name in enumerate(names)}, **sizes)
    )  # fmt: skip
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(epochs):
        for numbers in torch.randperm(len(sentences)).split(16):
            loss = model(**batch_of(tokenizer, [sentences[i] for i in numbers.tolist()], names)).loss
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    model.eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def random_classifier(folder: Path, config: Any, tokenizer: PreTrainedTokenizerFast) -> Path:
    """A token classifier of any kind with random weights, as large as to tell words apart."""
    torch.manual_seed(0)
    model = AutoModelForTokenClassification.from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@torch.no_grad()
def library_scores(folder: Path, sentence: Sequence[str], piece: str = "first") -> Tensor:
    """What the library itself computes for the first or the last piece of each word, (T, C)."""
    model = AutoModelForTokenClassification.from_pretrained(folder, dtype=torch.float32).eval()
    given = AutoTokenizer.from_pretrained(folder)(list(sentence), is_split_into_words=True, return_tensors="pt")
    words = given.word_ids()
    if piece == "last":
        rows = [len(words) - 1 - words[::-1].index(word) for word in range(len(sentence))]
    else:
        rows = [words.index(word) for word in range(len(sentence))]
    return model(**given).logits[0, rows]
