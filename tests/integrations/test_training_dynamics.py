"""Training dynamics: saved and read as they were, ranked as plain loops rank them, refused if they do not fit."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import tagtrace as tt
from tagtrace._table import Table
from tagtrace.integrations.training_dynamics import METADATA, TrainingDynamics, given_probabilities
from tagtrace.tagger import HeadOptions, Lexical, LexicalOptions, new_tagger
from tests.integrations.some_dynamics import LABELS, NUM_TOKENS, SENTENCES, some_dynamics

PLACES = [(number, place) for number, sentence in enumerate(SENTENCES) for place in range(len(sentence))]


def test_what_is_saved_is_read(tmp_path: Path) -> None:
    made = some_dynamics()
    made.save(tmp_path / "dynamics.safetensors")
    found = tt.read_dynamics(tmp_path / "dynamics.safetensors")
    assert found.record == made.record
    assert found.epochs == (1, 2, 3)
    for name in ("probabilities", "label_ids", "lengths"):
        assert torch.equal(getattr(found, name), getattr(made, name))
    assert {one.sentence for one in found.rank()} == set(SENTENCES)


def test_labels_are_ranked_by_their_mean_probability() -> None:
    made = some_dynamics()
    by_place = dict(zip(PLACES, made.probabilities.T.double().tolist(), strict=True))
    ranked = made.rank()
    assert [(one.sentence_number, one.position) for one in ranked] == sorted(PLACES, key=lambda at: fmean(by_place[at]))
    for one in ranked:
        values = by_place[one.sentence_number, one.position]
        assert one.probabilities == pytest.approx(values)
        assert (one.mean, one.variability) == pytest.approx((fmean(values), pstdev(values)))
        assert one.sentence == SENTENCES[one.sentence_number]
        assert one.label == SENTENCES[one.sentence_number].labels[one.position]
    assert [one.mean for one in made.rank(4)] == [one.mean for one in ranked[:4]]


def test_the_mean_over_epochs_remembers_doubts_that_the_last_epoch_has_forgotten() -> None:
    made = TrainingDynamics.begin(LABELS, SENTENCES, "")
    late = 4  # learned by heart in the last epoch
    for epoch, p in enumerate((0.02, 0.05, 0.999), start=1):
        row = torch.full((NUM_TOKENS,), 0.9)
        row[late] = p
        made = made.after(epoch, row)
    assert int(made.probabilities[-1].argmax()) == late
    assert made.rank(1)[0].text == "Velmaran wool talks in [Varnholt] ."


def test_equals_keep_the_order_of_the_data() -> None:
    made = TrainingDynamics.begin(LABELS, SENTENCES, "").after(1, torch.full((NUM_TOKENS,), 0.25))
    assert [(one.sentence_number, one.position) for one in made.rank()] == PLACES


def test_only_rows_until_an_epoch_are_kept() -> None:
    made = some_dynamics()
    kept = made.until(2.5)
    assert kept.epochs == (1, 2)
    assert torch.equal(kept.probabilities, made.probabilities[:2])
    again = kept.after(3, made.probabilities[2])
    assert torch.equal(again.mean, made.mean)


def test_probabilities_are_the_marginals_of_the_tagger() -> None:
    torch.manual_seed(0)
    encoder = Lexical(LexicalOptions(buckets=64, width=8, hidden=8))
    tagger = new_tagger(encoder, LABELS, HeadOptions(kind="softmax")).eval()
    with torch.no_grad():
        tagger.head.weight.normal_()
        scores = [tagger.emissions([tagger.prepare(sentence)]).softmax(1) for sentence in SENTENCES]
    expected = [float(scores[n][place, LABELS.index(SENTENCES[n].labels[place])]) for n, place in PLACES]
    found = given_probabilities(tagger, SENTENCES)
    assert found.tolist() == pytest.approx(expected, rel=1e-4)
    assert found.std() > 0.05


def test_it_describes_itself() -> None:
    made = some_dynamics()
    table, line = made.describe()
    assert isinstance(table, Table)
    assert len(table.rows) == NUM_TOKENS
    assert [row[0] for row in table.rows] == [f"{one.mean:.3f}" for one in made.rank()]
    assert line == "10 tokens in 3 sentences, 3 epochs"
    page = made._repr_html_()
    assert "[&lt;b&gt;KHL&lt;/b&gt;]" in page
    assert "<b>" not in page


def test_records_and_data_frame() -> None:
    made = some_dynamics()
    records, ranked = made.to_records(), made.rank()
    assert [record["mean"] for record in records] == [one.mean for one in ranked]
    place = next(n for n, one in enumerate(ranked) if (one.sentence_number, one.position) == (2, 1))
    assert records[place] == {
        "mean": ranked[place].mean, "variability": ranked[place].variability,
        "last": float(made.probabilities[-1, 8]), "label": "I-LOC", "token": "Ilmar", "sentence": "b:1",
        "sentence_number": 2, "position": 1, "document": "b", "line": 12,
    }  # fmt: skip
    assert made.to_pandas().to_dict("records") == records


def test_most_is_at_least_1() -> None:
    with pytest.raises(tt.TagtraceError, match="most 0: must be at least 1"):
        some_dynamics().rank(0)


Tensors = dict[str, Tensor]
Damage = Callable[[Tensors, dict[str, Any]], object]


def changed(**tensors: Callable[[Tensor], Tensor]) -> Damage:
    """Some tensors changed."""
    return lambda found, _: found.update({name: change(found[name]).contiguous() for name, change in tensors.items()})


def recorded(**values: Any) -> Damage:
    """Some values of the record changed."""
    return lambda _, record: record.update(values)


REFUSALS: dict[str, tuple[Damage, str]] = {
    "no labels": (lambda found, _: found.pop("labels"), "labels is missing"),
    "fewer tokens": (changed(probabilities=lambda p: p[:, 1:]), r"the shape \(3, 9\)"),
    "fewer epochs": (recorded(epochs=[1.0, 2.0]), r"the shape \(3, 10\)"),
    "other dtype": (changed(probabilities=lambda p: p.double()), "the shape"),
    "above 1": (changed(probabilities=lambda p: p + 1), "not between 0 and 1"),
    "nan": (changed(probabilities=lambda p: p * torch.nan), "not between 0 and 1"),
    "unknown label": (changed(labels=lambda ids: ids + 3), "not those of sentences"),
    "negative": (changed(labels=lambda ids: ids - 1), "not those of sentences"),
    "lengths": (changed(lengths=lambda n: n.flip(0)[1:]), "not those of sentences"),
    "no numbers": (changed(lengths=lambda n: n.float()), "not whole numbers"),
    "text": (changed(document=lambda d: d + 7), "its text does not fit"),
    "descending": (recorded(epochs=[1.0, 3.0, 2.0]), "epochs do not ascend"),
    "before the first": (recorded(epochs=[0.0, 1.0, 2.0]), "epochs do not ascend"),
    "unknown key": (recorded(more=1), "the key more is unknown"),
    "format": (recorded(format=2), "reads format 1"),
    "label set": (recorded(labels={"labels": ["O", "O"], "scheme": "iob2"}), "distinct labels"),
}


@pytest.mark.parametrize(("damage", "message"), REFUSALS.values(), ids=REFUSALS)
def test_what_does_not_fit_is_refused_in_one_line(tmp_path: Path, damage: Damage, message: str) -> None:
    path, made = tmp_path / "dynamics.safetensors", some_dynamics()
    made.save(path)
    tensors = {name: value.clone() for name, value in load_file(path).items()}
    record = json.loads(json.dumps(asdict(made.record)))
    damage(tensors, record)
    save_file(tensors, path, {METADATA: json.dumps(record)})
    check_refused(path, message)


def test_other_files_are_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "dynamics.safetensors"
    with pytest.raises(tt.TagtraceError, match="no such file; give the file that a TagtraceCallback"):
        tt.read_dynamics(path)
    path.write_bytes(b"\x80\x04 no tensors")
    check_refused(path, "cannot be read")
    save_file({"a": torch.zeros(1)}, path)
    check_refused(path, "format None")
    replace(some_dynamics(), probabilities=torch.empty(0, NUM_TOKENS)).save(path)
    check_refused(path, "the shape")


def check_refused(path: Path, message: str) -> None:
    with pytest.raises(tt.TagtraceError, match=message) as error:
        tt.read_dynamics(path)
    assert str(error.value).startswith(f"{path}: not a file of training dynamics (")
    assert "\n" not in str(error.value)
    assert str(error.value).count(str(path)) == 1
