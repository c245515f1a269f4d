"""``tagtrace audit``: the training labels that are probably wrong, and the systematic mistakes behind them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import torch
from rich.table import Table

from tagtrace._checks import OptionError
from tagtrace.cli.device import device_option, pick_device
from tagtrace.cli.gain import runs_display
from tagtrace.cli.options import read_options, reading_options
from tagtrace.cli.show import counting, err, out
from tagtrace.data import ReadOptions, Sentence, read_corpus
from tagtrace.findings import (
    SCORES,
    Audit,
    AuditOptions,
    Finding,
    GroupEffect,
    Measured,
    Probabilities,
    Trusted,
    encoder_opinions,
    finding_is_wrong,
    head_opinions,
    measure,
    read_trusted,
    read_truth,
)
from tagtrace.findings import audit as find
from tagtrace.findings.audit import LIKELY, check_request
from tagtrace.findings.audit_folder import check_audit_folder, write_audit
from tagtrace.index import Index, open_index, tagger_of, tagger_path
from tagtrace.tagger import Lexical, Tagger, build_encoder, load_tagger

SMALL = 0.005
"""Of the loss: a smaller change is none."""
LONG = 5
"""Shorter sentences repeat by chance."""
NUM_SHOWN = 10
"""Patterns and findings that are printed; all are in the files."""


@click.command()
@click.argument("folder", metavar="INDEX", type=click.Path(path_type=Path))
@click.option("--trusted", "trusted_file", type=click.Path(path_type=Path), metavar="FILE",
              help="A little data with labels you trust, not part of the training data. "
              "[default: none; systematic mistakes then stay hidden]")  # fmt: skip
@click.option("--out", "target", type=click.Path(path_type=Path), default=Path("tagtrace-audit"), show_default=True,
              help="Folder for findings, patterns and the report.")  # fmt: skip
@click.option("--query", metavar="GOLD:PREDICTED",
              help="Only one kind of error: ORG:LOC asks which labels make the tagger take ORG for LOC.")  # fmt: skip
@click.option("--score", type=click.Choice(SCORES), default="combined", show_default=True,
              help="How labels are ranked.")  # fmt: skip
@click.option("--opinions", type=click.Choice(["auto", "head", "encoder"]), default="auto", show_default=True,
              help="Who is asked about the labels: heads refitted on the index's features, or taggers trained anew "
              "without each fold (auto: these, unless that needs a GPU and there is none).")  # fmt: skip
@click.option("--folds", type=int, default=5, show_default=True, help="Of the cross-validation over documents.")
@click.option("--most", type=int, default=1000, show_default=True, help="Findings.")
@click.option("--effects", type=int, default=3, show_default=True,
              help="Patterns whose effect on the trusted data is worked out, and verified by retraining.")  # fmt: skip
@click.option("--truth", "truth_file", type=click.Path(path_type=Path), metavar="FILE",
              help="The training data with true labels, to measure what is found. The ranking stays.")  # fmt: skip
@click.option("--data", "data_file", type=click.Path(path_type=Path), metavar="FILE",
              help="The training data, to train on. [default: where it was when the index was built]")  # fmt: skip
@click.option("--encoder", help="The untrained encoder, as for train. [default: the tagger's]")
@click.option("--tagger", "tagger_folder", type=click.Path(path_type=Path),
              help="The index's tagger. [default: where it was when the index was built]")  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, help="Of the folds and of new encoders.")
@device_option
@reading_options
def audit(folder: Path, **values: Any) -> None:
    """Find the training labels of an INDEX that are probably wrong, and name the mistakes behind them.

    A folder with findings (JSON lines and CSV), patterns and a report to read in the browser is written. A killed
    audit goes on when the same command is given again.
    """
    start = time.monotonic()
    reading = read_options(values)
    if values["folds"] < 2:
        raise OptionError(f"--folds {values['folds']}: must be at least 2")
    options = AuditOptions(values["score"], values["query"], values["most"], num_effects=values["effects"])
    index, device = open_index(folder, verify=True), pick_device(values["device"])
    check_audit_folder(values["target"])
    tagger = tagger_of(index, values["tagger_folder"]).to(device)
    sentences = _trusted_sentences(tagger, values["trusted_file"], reading)
    truth = None if values["truth_file"] is None else read_truth(index, read_corpus(values["truth_file"], reading))
    trusted = _read_trusted(index, tagger, sentences)
    check_request(index, trusted, options)
    opinions, kind = _ask(index, tagger, trusted, sentences, values)
    err.print("ranking the labels", highlight=False)
    with counting("ranking") as progress:
        found = find(index, opinions, trusted, options, progress)
    measured = [] if truth is None else [measure(options.score, _finite(found.scores), truth.wrong)]
    summary = audit_summary(index, sentences, found, options, kind)
    joined = [sentence for sentence in tagger.joined(sentences) if len(sentence)]
    write_audit(values["target"], index, found, summary, joined, measured, _asked(values))
    show_audit(found, index)
    if truth is not None:
        show_truth(measured, finding_is_wrong(found.findings, index, truth).is_wrong.tolist())
    for note in found.notes:
        err.print(f"note: {note}", soft_wrap=True)
    out.print(
        f"read {values['target'] / 'report.html'} in a browser; {time.monotonic() - start:.0f} s in all", soft_wrap=True
    )


def _trusted_sentences(tagger: Tagger, path: Path | None, reading: ReadOptions) -> list[Sentence]:
    """The trusted data, which the tagger must know how to label."""
    if path is None:
        err.print("no --trusted data: labels are judged by the other training labels alone", soft_wrap=True)
        return []
    corpus = read_corpus(path, reading)
    tagger.check_corpus(corpus)
    return [sentence for sentence in corpus.sentences if len(sentence)]


def _read_trusted(index: Index, tagger: Tagger, sentences: Sequence[Sentence]) -> Trusted | None:
    _note_shared(index, tagger.joined(sentences))
    if not sentences:
        return None
    with counting("encoding the trusted data") as progress:
        return read_trusted(index, tagger, sentences, progress)


def _note_shared(index: Index, sentences: Sequence[Sentence]) -> None:
    """Say where trusted sentences are training sentences too, and where training sentences stand there twice."""
    trusted = {hash(sentence.tokens) for sentence in sentences if len(sentence) >= LONG}
    texts = [hash(one.tokens) for one in map(index.sentence, range(index.num_sentences)) if len(one) >= LONG]
    num_shared, num_twice = sum(text in trusted for text in texts), len(texts) - len(set(texts))
    if trusted and trusted <= set(texts):
        raise OptionError("--trusted: all its sentences are in the training data; give data the tagger has not seen")
    if num_shared:
        err.print(
            f"note: {num_shared:,} training sentences are also in the trusted data; their labels are judged by a "
            "tagger that has seen the trusted ones",
            soft_wrap=True,
        )
    if num_twice:
        err.print(
            f"note: {num_twice:,} training sentences repeat others; where these stand in other documents, a wrong "
            "label may have been seen out of sample too",
            soft_wrap=True,
        )


def _ask(
    index: Index, tagger: Tagger, trusted: Trusted | None, sentences: Sequence[Sentence], values: dict[str, Any]
) -> tuple[list[Probabilities], str]:
    """The opinions asked for, and who gave them."""
    if not _asks_encoders(tagger, values):
        for name in ("encoder", "data_file"):
            if values[name] is not None:
                option = name.removesuffix("_file")
                raise OptionError(f"--{option} is for taggers that are trained anew; add --opinions encoder")
        err.print("asking refitted heads about every label", highlight=False)
        with counting("refitting heads") as progress:
            rows = None if trusted is None else trusted.rows
            device = tagger.device
            return head_opinions(index, rows, values["folds"], values["seed"], device=device, progress=progress), "head"
    saved = index.manifest.data
    corpus = read_corpus(values["data_file"] or saved["path"], ReadOptions(**saved["options"]))
    index.check_corpus(corpus)
    trained = load_tagger(values["tagger_folder"] or tagger_path(index)).to(tagger.device)
    encoder = None if values["encoder"] is None else build_encoder(values["encoder"], corpus.sentences, values["seed"])
    err.print(f"training {values['folds']} taggers, each without a part of the documents", highlight=False)
    with runs_display() as training:
        opinions = encoder_opinions(
            trained, corpus, values["target"] / "folds", sentences, values["folds"], values["seed"],
            encoder=encoder, training=lambda fold, step: training(_run_name(fold, values["folds"]), step),
        )  # fmt: skip
    return opinions, "encoder"


def _run_name(fold: int, num_folds: int) -> str:
    return f"fold {fold + 1}" if fold < num_folds else "the tagger itself further, on the trusted data"


def _asks_encoders(tagger: Tagger, values: dict[str, Any]) -> bool:
    if values["opinions"] != "auto":
        return values["opinions"] == "encoder"
    can_train = tagger.encoder.trainable and "training" in tagger.record
    return can_train and (isinstance(tagger.encoder, Lexical) or tagger.device.type != "cpu")


def _finite(scores: torch.Tensor) -> torch.Tensor:
    """Tokens that were left out rank last, (N,)."""
    kept = scores > -torch.inf
    lowest = float(scores[kept].min()) if bool(kept.any()) else 0.0
    return torch.where(kept, scores, lowest - 1.0)


def audit_summary(
    index: Index, sentences: Sequence[Sentence], found: Audit, options: AuditOptions, kind: str
) -> dict[str, str | int | float]:
    """What the report begins with."""
    likely = [finding for finding in found.findings if finding.confidence > LIKELY]
    return {
        "training tokens": index.num_tokens,
        "training sentences": index.num_sentences,
        "trusted tokens": sum(len(sentence) for sentence in sentences),
        "score": options.score if options.query is None else f"{options.score}, query {options.query}",
        "opinions": {"head": "refitted heads", "encoder": "taggers trained anew"}[kind],
        "findings": len(found.findings),
        "findings with a proposal above 50 %": len(likely),
        "patterns": len(found.patterns),
        **({"notes": "; ".join(found.notes)} if found.notes else {}),
    }


def _asked(values: dict[str, Any]) -> dict[str, Any]:
    """The options of the command, for the record."""
    return {name: str(value) if isinstance(value, Path) else value for name, value in values.items()}


def show_audit(found: Audit, index: Index) -> None:
    """The first patterns and findings."""
    patterns = Table("", "pattern", "if fixed: trusted loss", title="patterns, the most systematic first",
                     title_justify="left")  # fmt: skip
    for pattern in found.patterns[:NUM_SHOWN]:
        patterns.add_row(str(pattern.number), pattern.description, _effect(pattern.effect))
    if found.patterns:
        out.print(patterns)
    else:
        out.print("no pattern: what was found has nothing in common that other labels have not")
    if len(found.patterns) > NUM_SHOWN:
        out.print(f"and {len(found.patterns) - NUM_SHOWN} more patterns in the files")
    out.print(findings_table(found.findings[:NUM_SHOWN]))
    likely = sum(one.confidence > LIKELY for one in found.findings)
    out.print(
        f"{len(found.findings):,} findings in the files, of {index.num_tokens:,} labels; for {likely:,} the proposal "
        "is likelier than not",
        soft_wrap=True,
    )


def _effect(effect: GroupEffect | None) -> str:
    """What fixing a pattern does to the trusted data."""
    if effect is None:
        return ""
    is_small = abs(effect.change) < SMALL * effect.before.loss
    verdict = "no difference" if is_small else "helps" if effect.change < 0 else "hurts"
    return f"{effect.before.loss:.4f} -> {effect.after.loss:.4f} ({verdict})"


def findings_table(findings: Sequence[Finding]) -> Table:
    """Findings in their context, given and proposed labels side by side."""
    table = Table("", "text", "given", "proposed", "p", title="findings, the most suspicious first",
                  title_justify="left")  # fmt: skip
    for one in findings:
        text = " ".join((*one.before[-5:], f"[{one.text}]", *one.after[:5]))
        table.add_row(str(one.rank), text, " ".join(one.given), " ".join(one.proposed), f"{one.confidence:.2f}")
    return table


def show_truth(measured: Sequence[Measured], is_wrong: Sequence[bool]) -> None:
    """How much of what is really wrong was found; ``is_wrong`` says it of each finding."""
    for one in measured:
        if one.num_wrong == 0:
            out.print("the truth has the same labels: there is nothing to find")
            return
        recall = ", ".join(f"{100 * value:.0f} % in the first {k:,}" for k, value in one.recall.items())
        out.print(
            f"{one.num_wrong:,} labels are really wrong: average precision {one.average_precision:.3f}; found {recall}",
            soft_wrap=True,
        )
    first = is_wrong[:200]
    out.print(f"of the first {len(first)} findings {sum(first)} are right to doubt the label", soft_wrap=True)
