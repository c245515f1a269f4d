"""A tiny BERT that the Trainer of transformers trains on invented newswire with planted label errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import (
    BertConfig,
    BertForTokenClassification,
    DataCollatorForTokenClassification,
    PreTrainedTokenizerFast,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)

from tagtrace.data import Corpus, Sentence, read_corpus
from tagtrace.data.invented import generate, write_invented
from tests.tagger.foreign.planted import NAMES, mislabel
from tests.tagger.foreign.trained import wordpiece

SIZES: dict[str, Any] = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64,
    "max_position_embeddings": 128,
}  # fmt: skip
EPOCHS = 5
SLIP = "B-LOC"
"""The label of a full stop that is a single error."""

Place = tuple[int, int]
"""The number of a sentence, and a position in it."""


@dataclass(frozen=True)
class Made:
    """``train.conll`` with errors, ``dev.conll`` without, and what a Trainer trains on."""

    folder: Path
    corpus: Corpus
    tokenizer: PreTrainedTokenizerFast
    rows: list[dict[str, list[int]]]
    single: list[Place]
    """Where the single errors are."""

    @property
    def dev(self) -> Path:
        return self.folder / "dev.conll"


def make(folder: Path) -> Made:
    """One word is wrong wherever it is (``WORD``), and the full stop in a few sentences."""
    made = generate(num_documents=60, systematic_share=0, random_share=0)
    train = [mislabel(sentence) for sentence in made.train]
    single = [(number, len(one) - 1) for number, one in enumerate(train) if one.tokens[-1] == "."][::30]
    for number, place in single:
        train[number] = train[number].with_labels([*train[number].labels[:place], SLIP])
    write_invented(type(made)(tuple(train), tuple(train), made.dev, made.test, (), 0), folder)
    corpus = read_corpus(folder / "train.conll")
    tokenizer = wordpiece(corpus.sentences)
    return Made(folder, corpus, tokenizer, rows_of(tokenizer, corpus.sentences), single)


def rows_of(tokenizer: PreTrainedTokenizerFast, sentences: Sequence[Sentence]) -> list[dict[str, list[int]]]:
    """A training set as Hugging Face's own example makes it: the first piece of a word has its label."""
    rows: list[dict[str, list[int]]] = []
    for sentence in sentences:
        encoded = tokenizer(list(sentence.tokens), is_split_into_words=True)
        words = encoded.word_ids()
        labels = [-100] * len(words)
        for word, label in enumerate(sentence.labels):
            labels[words.index(word)] = NAMES.index(label)
        rows.append({"input_ids": encoded["input_ids"], "attention_mask": encoded["attention_mask"], "labels": labels})
    return rows


def new_bert(tokenizer: PreTrainedTokenizerFast, names: Sequence[str] = NAMES) -> BertForTokenClassification:
    """An untrained BERT, always the same."""
    set_seed(0)
    numbers = {name: number for number, name in enumerate(names)}
    config = BertConfig(vocab_size=len(tokenizer), id2label=dict(enumerate(names)), label2id=numbers, **SIZES)
    return BertForTokenClassification(config)


def new_trainer(
    made: Made, *callbacks: TrainerCallback, model: Any = None, tokenizer: Any = None, **arguments: Any
) -> Trainer:
    """A Trainer of a tiny BERT; keywords change its arguments."""
    given: dict[str, Any] = {
        "num_train_epochs": EPOCHS, "per_device_train_batch_size": 16, "learning_rate": 3e-3, "save_strategy": "no",
        "logging_strategy": "no", "report_to": [], "use_cpu": True, "disable_tqdm": True, "seed": 0,
    }  # fmt: skip
    return Trainer(
        model=model or new_bert(made.tokenizer),
        args=TrainingArguments(**{"output_dir": str(made.folder / "runs"), **given, **arguments}),
        train_dataset=made.rows,  # pyright: ignore[reportArgumentType]
        data_collator=DataCollatorForTokenClassification(made.tokenizer),
        processing_class=tokenizer,
        callbacks=list(callbacks),
    )
