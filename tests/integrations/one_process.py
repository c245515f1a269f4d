"""One process of a distributed training: ``python -m tests.integrations.one_process TRAIN FOLDER``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from transformers import AutoTokenizer

from tagtrace.data import read_corpus
from tagtrace.integrations.transformers import TagtraceCallback
from tests.integrations.trained import Made, new_trainer, rows_of


def main(data: Path, folder: Path) -> None:
    corpus, tokenizer = read_corpus(data), AutoTokenizer.from_pretrained(folder / "tokenizer")
    made = Made(folder, corpus, tokenizer, rows_of(tokenizer, corpus.sentences), [])
    callback = TagtraceCallback(corpus, folder / "out", dynamics=True)
    trainer = new_trainer(made, callback, tokenizer=tokenizer, max_steps=1, ddp_backend="gloo")
    trainer.train()
    found = f"{trainer.args.world_size} processes, index: {callback.index is not None}"
    (folder / f"rank-{os.environ['RANK']}").write_text(found)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
