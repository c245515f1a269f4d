"""Files of training dynamics, with damage to their metadata, their columns or their bytes."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from random import Random

import torch
from safetensors.torch import save
from torch import Tensor

from tagtrace.index.text import text_tensors
from tagtrace.integrations.training_dynamics import METADATA, DynamicsRecord, read_dynamics
from tests.fuzz import pieces
from tests.integrations.some_dynamics import SENTENCES, some_dynamics


def file_of_dynamics(rng: Random) -> bytes:
    """Bytes of a file."""
    made = some_dynamics(rng.randint(0, 3))
    tensors = {"probabilities": made.probabilities, "labels": made.label_ids, "lengths": made.lengths}
    tensors |= text_tensors(SENTENCES)
    if rng.random() < 0.5:
        name = rng.choice(sorted(tensors))
        tensors[name] = _damaged(rng, tensors[name])
    record = pieces.damaged_json(rng, asdict(made.record), rng.choice((0.0, 0.0, 0.3)))
    data = save(tensors, {METADATA: record.encode("utf-8", "replace").decode()})
    return pieces.damaged(rng, data) if rng.random() < 0.2 else data


def _damaged(rng: Random, value: Tensor) -> Tensor:
    value = value.clone()
    change = rng.randrange(4)
    if change == 0:
        return value[:-1].contiguous()
    if change == 1:
        return value.to(rng.choice((torch.float64, torch.int64, torch.uint8)))
    if change == 2:
        return value.unsqueeze(0)
    if value.numel():
        worst = (-1, 99, 2**31 - 1, float("nan")) if value.is_floating_point() else (-1, 99, 127)
        place = rng.randrange(value.numel())
        value.view(-1)[place] = rng.choice(worst) % 256 if value.dtype == torch.uint8 else rng.choice(worst)
    return value


def read_and_rank(path: Path) -> None:
    """What is read can be ranked and shown: each token once, the least believed first."""
    found = read_dynamics(path)
    assert isinstance(found.record, DynamicsRecord)
    ranked = found.rank()
    assert len({(one.sentence_number, one.position) for one in ranked}) == len(ranked) == len(found.label_ids)
    assert [one.mean for one in ranked] == sorted(one.mean for one in ranked)
    assert json.dumps(found.to_records())
    assert str(found)
