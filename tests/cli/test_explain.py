"""``tagtrace explain`` and ``verify``, and what all questions about a prediction share, as a user meets them."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner, Result

from tagtrace._checks import DataError, TrainingError
from tagtrace.cli import main
from tagtrace.cli.show import out
from tagtrace.data import LabelSet, Sentence, read_corpus
from tagtrace.data.invented import generate, write_invented
from tagtrace.index import IndexOptions, build_index
from tagtrace.influence import Explainer, Query, TrainingSegment, make_queries
from tagtrace.influence.edits.refine import Refiner
from tagtrace.tagger import HeadOptions, Lexical, LexicalOptions, load_tagger, new_tagger, save_tagger

POS = "the DET\nmill NOUN\nturns VERB\n, ,\nit PRON\nhums VERB\n\nfew DET\nbirds NOUN\nsing VERB\n\n" * 3
IO = "Anna PER\nlives O\nin O\nUpper LOC\nDask LOC\n\nThe O\nmill O\nturns O\n\n" * 3
DASHED = "Anna B-per-son\nTharn I-per-son\nlives O\nin O\nDask B-geo-loc\n\nThe O\nmill O\nturns O\n\n" * 3
COMMANDS = {
    "explain": [],
    "verify": ["--top", "1"],
    "what-if": ["--remove", "train-0:0:0:1"],
    "flip": ["--most", "1", "--max-retrainings", "1"],
}


def build(folder: Path, head: HeadOptions | None = None) -> Path:
    """An untrained tagger and its index beside ``train.conll``."""
    corpus = read_corpus(folder / "train.conll")
    torch.manual_seed(0)
    labels = LabelSet.from_sentences(corpus.sentences, corpus.normalised_scheme)
    tagger = new_tagger(Lexical(LexicalOptions(buckets=64, width=4, hidden=4)), labels, head)
    save_tagger(tagger, folder / "tagger")
    options = IndexOptions(dtype="float32", shard_tokens=300)
    build_index(tagger, corpus, folder / "index", options, tagger_path=folder / "tagger")
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with invented data, a small tagger, its index, and dev data without labels."""
    folder = tmp_path_factory.mktemp("made")
    write_invented(generate(num_documents=20), folder)
    sentences = read_corpus(folder / "dev.conll").sentences
    text = ["-DOCSTART-\n\n" * (s.id == f"{s.document}:0") + "\n".join(s.tokens) + "\n\n" for s in sentences]
    (folder / "bare").mkdir()
    (folder / "bare" / "dev.conll").write_text("".join(text))
    rows = [json.dumps({"id": s.id, "document": s.document, "tokens": s.tokens}) for s in sentences]
    (folder / "bare" / "dev.jsonl").write_text("\n".join(rows))
    return build(folder)


def ask(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def question(made: Path, name: str, *options: object, data: str = "dev.conll", segment: str = "0:1") -> Result:
    place = ("--sentence", "dev-0:1", "--segment", segment)
    return ask(name, made / "index", "--data", made / data, *place, *COMMANDS[name], *options)


def answer(result: Result, path: Path) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(path.read_text(encoding="utf-8"))


def fails(result: Result, message: str) -> None:
    assert result.exit_code == 1, result.output
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith("tagtrace: ")
    assert message in last


# A damaged index


@pytest.mark.parametrize("name", COMMANDS)
def test_a_damaged_index_is_refused(made: Path, tmp_path: Path, name: str) -> None:
    shutil.copytree(made, tmp_path / "made")
    assert question(tmp_path / "made", name).exit_code == 0
    path = tmp_path / "made" / "index" / "errors-00000.safetensors"
    data = bytearray(path.read_bytes())
    data[-400:] = b"\x7b" * 400  # floats of about 1e36
    path.write_bytes(data)
    result = question(tmp_path / "made", name)
    fails(result, "errors-00000.safetensors: its checksum is not the recorded one")
    assert result.stdout == ""


# The labels that are asked about


@pytest.mark.parametrize(
    ("train", "segment", "target", "expected"),
    [
        (POS, "1:2", "VERB", ["VERB"]),
        (POS, "0:2", "VERB", ["VERB", "VERB"]),
        (POS, "0:2", "DET,VERB", ["DET", "VERB"]),
        (POS, "0:2", ",", [",", ","]),
        (IO, "1:3", "LOC", ["LOC", "LOC"]),
        (IO, "1:3", "O", ["O", "O"]),
        (DASHED, "1:4", "geo-loc", ["B-geo-loc", "I-geo-loc", "I-geo-loc"]),
        (DASHED, "1:3", "B-geo-loc", ["B-geo-loc", "B-geo-loc"]),
        (DASHED, "1:3", "B-per-son,O", ["B-per-son", "O"]),
    ],
)
def test_a_target_is_spelled_as_the_scheme_does(
    tmp_path: Path, train: str, segment: str, target: str, expected: list[str]
) -> None:
    (tmp_path / "train.conll").write_text(train)
    build(tmp_path)
    arguments = (tmp_path / "index", "--data", tmp_path / "train.conll", "--sentence", "train:0", "--segment", segment)
    path = tmp_path / "answer.json"
    (case,) = answer(ask("explain", *arguments, "--target", target, "--json", path), path)
    assert case["explained"] == expected
    path.unlink()
    found = answer(ask("what-if", *arguments, "--target", target, "--remove", "train:1:0:1", "--json", path), path)
    assert found["explained"].split() == expected
    fails(ask("explain", *arguments, "--target", "WINE"), "target 'WINE': unknown label 'WINE'")


def test_labels_that_the_head_forbids(tmp_path: Path) -> None:
    (tmp_path / "train.conll").write_text(DASHED)
    build(tmp_path, HeadOptions(constrained=True))
    arguments = (tmp_path / "index", "--data", tmp_path / "train.conll", "--sentence", "train:0", "--segment", "0:2")
    fails(ask("explain", *arguments, "--target", "I-geo-loc"), "the tagger's constraints forbid I-geo-loc I-geo-loc")
    assert ask("explain", *arguments, "--target", "geo-loc").exit_code == 0


def test_gold_labels_that_the_tagger_does_not_know(made: Path, tmp_path: Path) -> None:
    shutil.copy(made / "dev.conll", tmp_path / "dev.conll")
    text = (tmp_path / "dev.conll").read_text().replace("B-LOC", "B-WINE")
    (tmp_path / "dev.conll").write_text(text)
    arguments = (made / "index", "--data", tmp_path / "dev.conll", "--sentence", "dev-0:1", "--segment", "0:1")
    assert ask("explain", *arguments).exit_code == 0, "only the predicted label is explained"
    fails(ask("explain", *arguments, "--target", "gold"), "unknown label 'B-WINE'")


# Data without labels


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("data", ["bare/dev.conll", "bare/dev.jsonl"])
def test_unlabelled_predictions_are_explained(made: Path, tmp_path: Path, name: str, data: str) -> None:
    given, bare = tmp_path / "given.json", tmp_path / "bare.json"
    expected = answer(question(made, name, "--json", given), given)
    found = answer(question(made, name, "--json", bare, data=data), bare)
    if isinstance(expected, list):
        (expected,), (found,) = expected, found
    assert (expected.pop("gold"), found.pop("gold")) == (["B-LOC"], None)
    assert found == expected


def test_labels_may_be_left_unread(made: Path, tmp_path: Path) -> None:
    path = tmp_path / "answer.json"
    (case,) = answer(question(made, "explain", "--unlabelled", "--json", path), path)
    assert case["gold"] is None


@pytest.mark.parametrize("data", ["bare/dev.conll", "bare/dev.jsonl"])
def test_what_needs_labels_says_so(made: Path, data: str) -> None:
    arguments = ("explain", made / "index", "--data", made / data)
    fails(ask(*arguments), "has no labels, so mispredictions cannot be found; name a sentence and a segment of it")
    fails(ask(*arguments, "--sentence", "dev-0:1"), "has no labels, so mispredictions cannot be found")
    fails(question(made, "explain", "--target", "gold", data=data), "dev-0:1 has no gold labels to explain")
    fails(question(made, "what-if", "--target", "gold", data=data), "dev-0:1 has no gold labels to explain")


# Ids


def test_an_id_that_several_sentences_have_is_refused(made: Path) -> None:
    tagger, corpus = load_tagger(made / "tagger"), read_corpus(made / "dev.conll")
    sentences = [Sentence(("a", "b"), ("O", "O"), id=id_) for id_ in ("x", "y", "x")]
    corpus = corpus.with_sentences(sentences)
    with pytest.raises(DataError, match=r"dev\.conll: several sentences have the id 'x'; make the ids unique"):
        make_queries(tagger, corpus, "x", (0, 1))
    (query,) = make_queries(tagger, corpus, "y", (0, 1))
    assert query.sentence == sentences[1]


# Numbers


@pytest.mark.parametrize("name", ["explain", "verify"])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--most", "0"], "most 0: must be at least 1"),
        (["--most", "-3"], "most -3: must be at least 1"),
        (["--damping", "nan"], "damping nan: must be a number"),
        (["--damping", "inf"], "damping inf: must be a number"),
        (["--damping", "-0.1", "--score", "cosine"], "damping -0.1: must be"),
    ],
)
def test_numbers_that_cannot_work(made: Path, name: str, options: list[str], message: str) -> None:
    fails(ask(name, made / "index", "--data", made / "dev.conll", *options), message)


# Predicted and retrained


def test_verify_shows_both_changes(made: Path, tmp_path: Path) -> None:
    predicted, both = tmp_path / "predicted.json", tmp_path / "both.json"
    (first,) = answer(question(made, "explain", "--top", 2, "--refine", "--json", predicted), predicted)
    result = question(made, "verify", "--top", 2, "--json", both)
    (second,) = answer(result, both)
    for side in ("supporters", "opposers"):
        for one, other in zip(first[side], second[side], strict=True):
            assert (one["rung"], other["rung"]) == ("refine", "verify")
            assert one["predicted_change"] == one["change"] == pytest.approx(other["predicted_change"], abs=1e-9)
            assert one["retrained_change"] is None
            assert other["retrained_change"] == other["change"] == pytest.approx(other["predicted_change"], rel=0.2)
            assert other["retrained_change"] != other["predicted_change"]
            for word in ("predicted", "retrained"):
                assert f"{other[f'{word}_change']:+.4f} {word}" in result.stdout


def test_retraining_that_fails_loses_nothing_else(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = Explainer.verify, []

    def fail_first(self: Explainer, query: Query, segment: TrainingSegment) -> TrainingSegment:
        calls.append(segment)
        if len(calls) == 1:
            raise TrainingError("retraining stopped at max |gradient| 1.0e-03")
        return real(self, query, segment)

    monkeypatch.setattr(Explainer, "verify", fail_first)
    path = tmp_path / "answer.json"
    result = question(made, "verify", "--top", 2, "--json", path)
    (case,) = answer(result, path)
    assert "retraining did not converge: retraining stopped at max |gradient| 1.0e-03" in result.stdout
    first, *others = case["supporters"] + case["opposers"]
    assert (first["rung"], first["retrained_change"]) == ("refine", None)
    assert first["change"] == first["predicted_change"] is not None
    assert len(others) == 3
    assert all(one["rung"] == "verify" and one["retrained_change"] is not None for one in others)


@pytest.mark.parametrize("options", [("verify",), ("explain", "--refine", "--top", "1")], ids=["verify", "refine"])
def test_what_is_too_long_to_predict_is_retrained(
    made: Path, tmp_path: Path, options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Refiner, "can_refine", lambda *_: False)
    path = tmp_path / "answer.json"
    result = question(made, *options, "--kind", "document", "--json", path)
    (case,) = answer(result, path)
    for one in case["supporters"] + case["opposers"]:
        assert (one["rung"], one["predicted_change"]) == ("verify", None)
        assert one["retrained_change"] == one["change"] is not None
        assert f"{one['change']:+.4f} retrained" in result.stdout
    assert not re.search(r"[+-][0-9.]+ predicted", result.stdout)


def test_what_was_finished_is_written(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = Explainer.explain, []

    def fail_third(self: Explainer, *args: Any, **kwargs: Any) -> Any:
        calls.append(args)
        if len(calls) % 3 == 0:
            raise TrainingError("no solution")
        return real(self, *args, **kwargs)

    path = tmp_path / "answer.json"
    arguments = ("explain", made / "index", "--data", made / "dev.conll", "--most", 4, "--json", path)
    whole = answer(ask(*arguments), path)
    monkeypatch.setattr(Explainer, "explain", fail_third)
    fails(ask(*arguments), "no solution")
    assert len(whole) == 4
    assert json.loads(path.read_text()) == whole[:2]
    path.unlink()
    calls[:] = [(), ()]
    fails(ask(*arguments), "no solution")
    assert not path.exists(), "nothing was finished"


# What is printed


@pytest.mark.parametrize("kind", ["token", "sentence", "document"])
def test_tables_fit_a_narrow_terminal(made: Path, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(out, "width", 80)
    path = tmp_path / "answer.json"
    options = ("--target", "MISC", "--kind", kind, "--json", path)
    result = question(made, "verify", *options, segment="0:2")
    (case,) = answer(result, path)
    assert max(map(len, result.stdout.splitlines())) <= 80
    shown = [part.strip() for line in result.stdout.splitlines() for part in line.split("│")]
    for one in case["supporters"] + case["opposers"]:
        where = f"{one['id']} {one['start']}:{one['stop']}" if kind != "document" else one["document"]
        assert f"{one['score']:+.4g}" in shown
        assert f"{one['predicted_change']:+.4f} predicted" in shown
        assert f"{one['retrained_change']:+.4f} retrained" in shown
        before, after = (one["probabilities"][when][0].get("B-MISC", 0.0) for when in ("before", "after"))
        assert f"p(B-MISC) {before:.3f} -> {after:.3f}" in shown
        assert where in result.stdout
        if kind == "token":
            assert one["labels"][0] in shown
            assert f"[{one['tokens'][0]}]" in result.stdout


@pytest.mark.parametrize("score", ["influence", "relative", "cosine", "neighbour", "neighbour-dot", "neighbour-label"])
def test_titles_say_what_the_scores_are(made: Path, score: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(out, "width", 120)
    shown = question(made, "explain", "--score", score).stdout
    is_neighbour = score.startswith("neighbour")
    assert ("supporters: without these labels" in shown) == (not is_neighbour)
    assert ("without these labels" in shown) == (not is_neighbour)
    assert ("features" in shown) == is_neighbour
    assert ("another label" in shown) == (score == "neighbour-label")
