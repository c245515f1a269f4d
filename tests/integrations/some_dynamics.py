"""A few sentences, and what a training believed of their labels."""

from __future__ import annotations

import torch

from tagtrace.data import LabelSet, Sentence
from tagtrace.integrations.training_dynamics import TrainingDynamics

LABELS = LabelSet(("O", "B-LOC", "I-LOC", "B-ORG", "I-ORG"), "iob2")
SENTENCES = (
    Sentence(("Velmaran", "wool", "talks", "in", "Varnholt", "."), ("B-LOC", "O", "O", "O", "B-ORG", "O"), "a:0", "a",
             "train.conll", (2, 3, 4, 5, 6, 7)),
    Sentence(("<b>KHL</b>",), ("B-ORG",), "b:0", "b", "train.conll", (9,), 6),
    Sentence(("Port", "Ilmar", "waits"), ("B-LOC", "I-LOC", "O"), "b:1", "b", "train.conll", (11, 12, 13), 7),
)  # fmt: skip
NUM_TOKENS = sum(map(len, SENTENCES))


def some_dynamics(num_epochs: int = 3, seed: int = 0) -> TrainingDynamics:
    """Random probabilities after each epoch."""
    rows = torch.rand(num_epochs, NUM_TOKENS, generator=torch.Generator().manual_seed(seed))
    made = TrainingDynamics.begin(LABELS, SENTENCES, "0123")
    for number, row in enumerate(rows, start=1):
        made = made.after(float(number), row)
    return made
