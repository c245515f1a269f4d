"""Every command on a tiny invented corpus, through the same door as a user."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from tagtrace import __version__, load_tagger, read_corpus
from tagtrace.cli import main
from tagtrace.cli.main import COMMANDS
from tagtrace.cli.show import TrainingDisplay, out
from tagtrace.data import ReadOptions, violations
from tagtrace.data.invented import generate, write_invented
from tagtrace.tagger import Step


def tagtrace(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def succeed(*arguments: object) -> Result:
    result = tagtrace(*arguments)
    assert result.exit_code == 0, result.output
    return result


def commands(group: click.Group = main, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        yield (*before, name)
        if isinstance(command, click.Group):
            yield from commands(command, (*before, name))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """train, dev and test as CoNLL, a JSON-lines twin of dev, arrays and word vectors."""
    folder = tmp_path_factory.mktemp("data")
    write_invented(generate(num_documents=20), folder)
    sentences = {split: read_corpus(folder / f"{split}.conll").sentences for split in ("train", "dev")}
    rows = [{"tokens": s.tokens, "ner_tags": s.labels, "document": s.document} for s in sentences["dev"]]
    (folder / "dev.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = sorted({token for split in sentences.values() for s in split for token in s.tokens})
    table = dict(zip(words, np.random.default_rng(0).normal(size=(len(words), 40)), strict=True))
    lines = (f"{word} {' '.join(f'{x:.4f}' for x in vector)}\n" for word, vector in table.items())
    (folder / "vectors.txt").write_text("".join(lines))
    (folder / "arrays").mkdir()
    for split, members in sentences.items():
        array = np.array([table[token] for s in members for token in s.tokens], dtype=np.float32)
        np.save(folder / "arrays" / f"{split}.conll.npy", array)
    return folder


@pytest.fixture(scope="module")
def tagger(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("taggers") / "lexical"
    succeed("train", data / "train.conll", folder, "--dev", data / "dev.conll", "--epochs", 2, "--device", "cpu")
    return folder


@pytest.mark.parametrize("command", [(), *commands()], ids=" ".join)
def test_every_command_has_help(command: tuple[str, ...]) -> None:
    for flag in ("--help", "-h"):
        result = succeed(*command, flag)
        assert result.stdout.startswith("Usage:")
        assert "Options:" in result.stdout
    assert len(result.stdout.splitlines()) > 4


def test_every_option_that_needs_explaining_is_explained() -> None:
    explained_by_name = {
        "--head",
        "--epochs",
        "--batch-size",
        "--schedule",
        "--dropout",
        "--weight-decay",
        "--precision",
    }
    for path in commands():
        command: click.Command = main
        for name in path:
            assert isinstance(command, click.Group)
            found = command.get_command(click.Context(command), name)
            assert found is not None
            command = found
        assert command.help
        for parameter in command.params:
            if isinstance(parameter, click.Option) and not explained_by_name & set(parameter.opts):
                assert parameter.help or parameter.opts == ["--seed"], f"{' '.join(path)} {parameter.opts}"


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["data", "check", "train.conll"]])
def test_what_needs_no_torch_does_not_wait_for_it(data: Path, arguments: list[str]) -> None:
    code = (
        "import sys; from tagtrace.cli import main; main(sys.argv[1:], standalone_mode=False); "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code, *arguments], cwd=data, check=False).returncode == 0


def test_the_overview_has_the_commands_and_a_line_for_each() -> None:
    text = succeed("--help").stdout
    assert [name for name, _ in re.findall(r"^  ([a-z][a-z-]+) {2,}(\S.*)$", text, re.MULTILINE)] == list(COMMANDS)
    assert "No such command 'explian'. Did you mean 'explain'?" in tagtrace("explian").output
    assert "No such command 'nonsense'." in tagtrace("nonsense").output


def test_version() -> None:
    assert succeed("--version").stdout == f"tagtrace, version {__version__}\n"


# data check


def test_data_check_prints_a_table(data: Path) -> None:
    result = succeed("data", "check", data / "train.conll", data / "dev.conll")
    assert result.stderr == ""
    rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in result.stdout.splitlines()]
    table = {row[0]: row[1:] for row in rows if len(row) == 3}
    train, dev = (read_corpus(data / f"{split}.conll") for split in ("train", "dev"))
    assert table["scheme"] == ["iob2", "iob2"]
    assert table["documents"] == [str(len(train.documents)), str(len(dev.documents))]
    assert table["sentences"] == [str(len(train.sentences)), str(len(dev.sentences))]
    assert table["tokens"] == [f"{train.num_tokens:,}", f"{dev.num_tokens:,}"]
    starts = [str(sum(label == "B-PER" for s in corpus.sentences for label in s.labels)) for corpus in (train, dev)]
    assert table["PER"] == starts
    assert table["violations"] == ["0", "0"]


def test_data_check_prints_json(data: Path) -> None:
    train, dev = json.loads(succeed("data", "check", data / "train.conll", data / "dev.jsonl", "--json").stdout)
    assert (train["format"], dev["format"]) == ("conll", "jsonl")
    assert train["path"] == str(data / "train.conll")
    assert train["tokens"] == read_corpus(data / "train.conll").num_tokens
    assert sum(train["segments_per_type"].values()) == train["segments"]
    assert train["violations"] == []


def test_data_check_lists_what_is_odd(tmp_path: Path) -> None:
    first, second = tmp_path / "first.conll", tmp_path / "second.conll"
    first.write_text("a B-PER\nb O\n")
    second.write_text("a B-PER\n\n" + "b I-LOC\n\n" * 12 + "c B-[/b]\n\n" + "d B-PER\n\n" * 20)
    result = CliRunner().invoke(main, ["data", "check", str(first), str(second)])
    assert result.exit_code == 1, "label sets that differ are an error"
    assert f"{second}, line 3: violation: I-LOC starts a segment; iob2 wants B-LOC" in result.stdout
    assert f"{second}: and 2 more (all of them with --json)" in result.stdout
    assert f"tagtrace: {second}: has types that {first} lacks: LOC, [/b]; " in result.stderr
    assert len(json.loads(succeed("data", "check", second, "--json").stdout)[0]["violations"]) == 12


def test_reading_options_reach_the_reader(tmp_path: Path) -> None:
    conll = tmp_path / "columns.conll"
    conll.write_text("NN cat PER\nVB sits O\n")
    options = ("--token-column", 1, "--label-column", 2, "--pos-column", 0, "--scheme", "io", "--format", "conll")
    found = json.loads(succeed("data", "check", conll, *options, "--json").stdout)[0]
    assert found["labels"] == {"O": 1, "PER": 1}
    jsonl = tmp_path / "rows.jsonl"
    jsonl.write_text('{"words": ["cat", "sits"], "classes": [1, 0]}\n')
    options = ("--tokens-key", "words", "--labels-key", "classes", "--label-names", "O,B-PER")
    assert json.loads(succeed("data", "check", jsonl, *options, "--json").stdout)[0]["labels"] == {"B-PER": 1, "O": 1}


# train, evaluate, predict, refit


def test_train_saves_a_tagger_and_nothing_else(data: Path, tagger: Path) -> None:
    assert [path.name for path in tagger.parent.iterdir()] == ["lexical"]
    loaded = load_tagger(tagger)
    assert loaded.record["training"]["options"]["epochs"] == 2
    assert loaded.record["data"]["fingerprint"] == read_corpus(data / "train.conll").fingerprint
    assert set(loaded.labels.types) == {"LOC", "MISC", "ORG", "PER"}


def test_train_shows_an_epoch_a_line_and_the_scores(data: Path, tmp_path: Path) -> None:
    options = ("--epochs", 3, "--batch-size", 64, "--seed", 7, "--learning-rate", 0.01, "--schedule", "linear")
    result = succeed("train", data / "train.conll", tmp_path / "t", "--dev", data / "dev.conll", *options)
    lines = [line for line in result.stderr.splitlines() if line]
    assert [line.split()[:2] for line in lines] == [["epoch", f"{k}/3"] for k in (1, 2, 3)]
    assert all("dev loss" in line for line in lines)
    assert "all segments" in result.stdout
    assert result.stdout.endswith(f"saved {tmp_path / 't'}\n")
    recipe = load_tagger(tmp_path / "t").record["training"]["options"]
    assert (recipe["batch_size"], recipe["seed"], recipe["learning_rate"], recipe["schedule"]) == (
        64,
        7,
        0.01,
        "linear",
    )


def test_training_shows_progress_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    terminal = Console(file=io.StringIO(), force_terminal=True, width=120)
    monkeypatch.setattr("tagtrace.cli.show.err", terminal)
    with TrainingDisplay() as display:
        for step in (1, 2):
            display(Step(1, 1, step, 2, 0.5, 90.0 * (2 - step), None))
            display.bars.refresh()
    assert isinstance(terminal.file, io.StringIO)
    shown = terminal.file.getvalue()
    assert "epoch 1/1  loss 0.500" in shown
    assert "left" in shown


def test_evaluate(data: Path, tagger: Path) -> None:
    card = json.loads(succeed("evaluate", tagger, data / "dev.conll", "--json").stdout)
    assert set(card) == {"segment", "by_type", "token", "accuracy"}
    assert json.loads(succeed("evaluate", tagger, data / "dev.jsonl", "--json").stdout) == card
    table = succeed("evaluate", tagger, data / "dev.conll").stdout
    assert f"{100 * card['segment']['f1']:.2f}" in table
    assert f"accuracy {100 * card['accuracy']:.2f}" in table
    free = json.loads(succeed("evaluate", tagger, data / "dev.conll", "--json", "--free").stdout)
    assert free["segment"]["num_gold"] == card["segment"]["num_gold"]


def test_predict_adds_a_column(data: Path, tagger: Path, tmp_path: Path) -> None:
    target = tmp_path / "labelled.conll"
    result = succeed("predict", tagger, data / "dev.conll", target)
    gold = read_corpus(data / "dev.conll")
    assert f"wrote {target}: {len(gold.sentences)} sentences" in result.stdout
    before, after = (path.read_text().splitlines() for path in (data / "dev.conll", target))
    assert [line.rsplit("\t", 1)[0] for line in after] == before
    assert {len(line.split("\t")) for line in after} == {1, 3}
    predicted = [s.labels for s in read_corpus(target).sentences]
    assert predicted == load_tagger(tagger).predict(gold.sentences)
    assert not any(violations(labels, "iob2") for labels in predicted)


def test_predict_adds_a_key(data: Path, tagger: Path, tmp_path: Path) -> None:
    succeed("predict", tagger, data / "dev.jsonl", tmp_path / "out.jsonl")
    before, after = (
        [json.loads(line) for line in path.read_text().splitlines()]
        for path in (data / "dev.jsonl", tmp_path / "out.jsonl")
    )
    predicted = [row.pop("predicted") for row in after]
    assert after == before
    gold = read_corpus(data / "dev.conll").sentences
    assert [tuple(labels) for labels in predicted] == load_tagger(tagger).predict(gold)


def test_predict_labels_what_has_no_labels_or_others(data: Path, tagger: Path, tmp_path: Path) -> None:
    expected = load_tagger(tagger).predict(read_corpus(data / "dev.conll").sentences)
    lines = (data / "dev.conll").read_text().splitlines()
    bare, other = tmp_path / "bare.conll", tmp_path / "other.conll"
    bare.write_text("\n".join(line.split("\t")[0] for line in lines))
    other.write_text("\n".join(f"{line.split(chr(9))[0]}\tB-GENE" if line else "" for line in lines))
    succeed("predict", tagger, bare, tmp_path / "bare.out", "--unlabelled")
    succeed("predict", tagger, other, tmp_path / "other.out")
    for name in ("bare.out", "other.out"):
        assert [s.labels for s in read_corpus(tmp_path / name).sentences] == expected


def test_refit_goes_to_the_optimum(data: Path, tmp_path: Path) -> None:
    train, folder = data / "train.conll", tmp_path / "refitted"
    succeed("train", train, tmp_path / "t", "--encoder", f"precomputed:{data}/arrays", "--l2", 30)
    result = succeed("refit", tmp_path / "t", train, folder, "--l2", 3, "--tolerance", 1e-8)
    steps = [line for line in result.stderr.splitlines() if line.startswith("step")]
    assert len(steps) > 1
    assert f"saved {folder}" in result.stdout
    refitted = load_tagger(folder)
    assert refitted.record["refit"]["max_gradient"] <= 1e-8
    assert refitted.record["refit"]["options"]["l2"] == 3
    assert str(refitted.head.weight.dtype) == "torch.float64"
    succeed("evaluate", folder, data / "dev.conll")


@pytest.mark.parametrize("encoder", ["precomputed:arrays", "vectors:vectors.txt"])
@pytest.mark.parametrize("head", ["crf", "softmax"])
def test_encoders_that_are_not_trained(data: Path, tmp_path: Path, encoder: str, head: str) -> None:
    spec = encoder.replace(":", f":{data}/")
    folder = tmp_path / "tagger"
    options = ("--dev", data / "dev.conll", "--encoder", spec, "--head", head)
    result = succeed("train", data / "train.conll", folder, *options)
    assert "fitting the head exactly" in result.stderr
    loaded = load_tagger(folder)
    assert loaded.record["refit"]["max_gradient"] <= 1e-6
    assert loaded.head.options.kind == head
    card = json.loads(succeed("evaluate", folder, data / "train.conll", "--json").stdout)
    labels = [label for s in read_corpus(data / "train.conll").sentences for label in s.labels]
    assert card["accuracy"] > labels.count("O") / len(labels) + 0.02, "better than no label at all"
    succeed("predict", folder, data / "dev.conll", tmp_path / "out.conll")
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("tagger")] == ["tagger"]


@pytest.mark.parametrize(
    "options",
    [
        ("--head", "softmax"),
        ("--unit", "document", "--batch-size", 4),
        ("--start-end", "--constrained", "--keep", "last", "--precision", "bfloat16", "--weight-decay", 0.01),
    ],
    ids=["softmax", "document", "constrained"],
)
def test_other_taggers(data: Path, tmp_path: Path, options: tuple[object, ...]) -> None:
    folder = tmp_path / "tagger"
    succeed("train", data / "train.conll", folder, "--epochs", 1, "--dev", data / "dev.jsonl", *options)
    succeed("predict", folder, data / "dev.conll", tmp_path / "out.conll")
    gold, predicted = read_corpus(data / "dev.conll"), read_corpus(tmp_path / "out.conll")
    assert [len(s) for s in gold.sentences] == [len(s) for s in predicted.sentences]
    assert [s.labels for s in predicted.sentences] == load_tagger(folder).predict(gold.sentences)


def test_plain_labels(tmp_path: Path) -> None:
    path = tmp_path / "pos.conll"
    path.write_text("the DET\ncat NOUN\nsits VERB\n\na DET\ndog NOUN\nbarks VERB\n" * 4)
    succeed("train", path, tmp_path / "t", "--epochs", 10, "--learning-rate", 0.01)
    card = json.loads(succeed("evaluate", tmp_path / "t", path, "--json").stdout)
    assert card["accuracy"] == card["segment"]["f1"] == 1.0


def test_overwrite_replaces_a_tagger(data: Path, tmp_path: Path) -> None:
    for seed in (1, 2):
        options = ("--epochs", 1, "--batch-size", 64, "--seed", seed, "--overwrite")
        succeed("train", data / "train.conll", tmp_path / "t", *options)
        assert load_tagger(tmp_path / "t").record["training"]["options"]["seed"] == seed
    assert [path.name for path in tmp_path.iterdir()] == ["t"]


def test_an_interrupted_run_goes_on_or_begins_again(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("train", data / "train.conll", tmp_path / "t", "--epochs", 1, "--batch-size", 64)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(TrainingDisplay, "__call__", stop)
        stopped = tagtrace(*command, "--checkpoint-seconds", 0)
    assert stopped.exit_code == 1
    assert stopped.stderr.startswith("tagtrace: stopped; what was written is whole, and the same command goes on from")
    assert stopped.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["t.checkpoint"]
    refused = tagtrace(*command, "--dropout", 0.1)
    assert refused.exit_code == 1
    assert "--restart" in refused.stderr
    restarted = succeed(*command, "--dropout", 0.1, "--restart")
    assert "going on" not in restarted.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["t"]


def test_unusual_names_are_printed_as_they_are(data: Path, tagger: Path, tmp_path: Path) -> None:
    folder = tmp_path / "[bold]a[" / "b] :smile:" / ("long " * 20)
    folder.mkdir(parents=True)
    (folder / "dev.conll").write_bytes((data / "dev.conll").read_bytes())
    result = succeed("predict", tagger, folder / "dev.conll", folder / "out.conll")
    assert f"wrote {folder / 'out.conll'}: " in result.stdout
    (tmp_path / "odd.conll").write_text("x B-[/red]\n\ny B-:cat:\n")
    found = succeed("data", "check", tmp_path / "odd.conll").stdout
    assert "[/red]" in found
    assert ":cat:" in found
    assert not out.is_terminal


def test_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tagtrace.cli.demo.generate", lambda seed: generate(seed, num_documents=20))
    succeed("demo", "--out", tmp_path / "demo")
    result = succeed("demo", "--out", tmp_path / "demo")  # replaces the first
    assert "planted in train" in result.stdout
    assert "test (true labels)" in result.stdout
    assert "supporters are planted errors" in result.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["demo"]
    load_tagger(tmp_path / "demo" / "tagger")
    assert read_corpus(tmp_path / "demo" / "data" / "train.conll", ReadOptions(scheme="iob2")).sentences
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis").write_text("years")
    assert tagtrace("demo", "--out", tmp_path / "mine").exit_code == 1
    assert (tmp_path / "mine" / "thesis").read_text() == "years"
