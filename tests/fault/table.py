"""Every command in its smallest form: what it reads, what it writes, and what may be left of it.

A command that is not in ``CASES`` fails ``test_table.py``. All paths are relative to a folder that holds a copy of the
parts of the small world that the case names.
"""

from __future__ import annotations

from dataclasses import dataclass

CPU = ("--device", "cpu")
TRAIN = ("train", "train.conll", "out", "--dev", "dev.conll", "--epochs", "2", "--checkpoint-seconds", "0", *CPU)
ASK = ("index", "--data", "dev.conll", "--sentence", "dev-0:1", "--segment", "0:1", *CPU)
HEADS = ("--judges", "head", "--folds", "2", "--most", "20", "--effects", "0", *CPU)
JUDGES = ("--judges", "encoder", "--folds", "2", "--most", "20", "--effects", "0", *CPU)
INDEXED = ("index", "tagger")
BUILDING = ("out.building", "out/progress.json")  # the second until the older index is deleted
PROJECT = ("review", "index", "tagger", "audit", "train.conll", "dev.conll")


@dataclass(frozen=True)
class Case:
    """One command with its arguments."""

    command: str
    """The name of the command, with that of its group."""
    name: str
    argv: tuple[str, ...]
    inputs: tuple[str, ...]
    """Files and folders that it reads; it may change none of them."""
    free: tuple[str, ...] = ()
    """Those of them that are the user's own: with other contents, other answers are right."""
    outputs: tuple[str, ...] = ()
    work: tuple[str, ...] = ()
    """What an interrupted run may leave, from which the same command resumes."""
    replaced: str = ""
    """A part of the world that is the output of an earlier run, and is replaced; its name there is the output's."""
    changed: tuple[str, ...] = ()
    """Inputs that the command is meant to change, such as the decisions of a review."""
    is_slow: bool = False
    """Takes seconds: rarely run in the sample of the suite."""


def _flip(*more: str) -> tuple[str, ...]:
    return ("flip", *ASK, "--most", "6", "--max-retrainings", "3", *more)


CASES = (
    Case("data check", "data check", ("data", "check", "train.conll", "dev.conll"), ("train.conll", "dev.conll"),
         ("train.conll", "dev.conll")),
    Case("data check", "data check rows", ("data", "check", "dev.jsonl", "--json"), ("dev.jsonl",), ("dev.jsonl",)),
    Case("data convert", "data convert", ("data", "convert", "train.conll", "out", "--to", "jsonl"), ("train.conll",),
         ("train.conll",), ("out",)),
    Case("data convert", "data convert folder", ("data", "convert", "dev.jsonl", "out", "--to", "brat"),
         ("dev.jsonl",), ("dev.jsonl",), ("out",)),
    Case("train", "train", TRAIN, ("train.conll", "dev.conll"), ("train.conll", "dev.conll"), ("out",),
         ("out.checkpoint",)),
    Case("train", "train overwrite", (*TRAIN, "--overwrite"), ("train.conll", "dev.conll"),
         ("train.conll", "dev.conll"), ("out",), ("out.checkpoint",), replaced="tagger"),
    Case("train", "train vectors", ("train", "train.conll", "out", "--encoder", "vectors:vectors.txt", *CPU),
         ("train.conll", "vectors.txt"), ("train.conll", "vectors.txt"), ("out",)),
    Case("train", "train precomputed",
         ("train", "train.conll", "out", "--encoder", "precomputed:arrays", "--dev", "dev.conll", *CPU),
         ("train.conll", "dev.conll", "arrays"), ("train.conll", "dev.conll", "arrays"), ("out",)),
    Case("train", "train decisions", (*TRAIN, "--trusted", "test.conll", "--decisions", "review"),
         (*PROJECT, "test.conll"), ("dev.conll", "test.conll", "review", "audit"), ("out",), ("out.checkpoint",)),
    Case("refit", "refit", ("refit", "tagger", "train.conll", "out", *CPU), ("tagger", "train.conll"),
         ("train.conll",), ("out",)),
    Case("refit", "refit overwrite", ("refit", "tagger", "train.conll", "out", "--overwrite", *CPU),
         ("tagger", "train.conll"), ("train.conll",), ("out",), replaced="tagger"),
    Case("predict", "predict", ("predict", "tagger", "dev.conll", "out", *CPU), ("tagger", "dev.conll"),
         ("dev.conll",), ("out",)),
    Case("predict", "predict rows", ("predict", "tagger", "dev.jsonl", "out", "--overwrite", *CPU),
         ("tagger", "dev.jsonl"), ("dev.jsonl",), ("out",), replaced="fixed.conll"),
    Case("evaluate", "evaluate", ("evaluate", "tagger", "dev.conll", *CPU), ("tagger", "dev.conll"), ("dev.conll",)),
    Case("evaluate", "evaluate json", ("evaluate", "tagger", "dev.jsonl", "--json", *CPU), ("tagger", "dev.jsonl"),
         ("dev.jsonl",)),
    Case("index", "index", ("index", "tagger", "train.conll", "out", "--seeds", "1", "--shard-tokens", "150", *CPU),
         ("tagger", "train.conll"), ("train.conll",), ("out",), (*BUILDING, "out/whole"), is_slow=True),
    Case("index", "index checkpoint",
         ("index", "checkpoint", "train.conll", "out", "--pooling", "last", "--dtype", "float32", *CPU),
         ("checkpoint", "train.conll"), ("checkpoint", "train.conll"), ("out",), BUILDING),
    Case("index", "index pipeline", ("index", "pipeline", "train.conll", "out", *CPU), ("pipeline", "train.conll"),
         ("pipeline", "train.conll"), ("out",), BUILDING, is_slow=True),
    Case("index", "index overwrite",
         ("index", "tagger", "train.conll", "out", "--seeds", "0", "--dtype", "float32", "--overwrite", *CPU),
         ("tagger", "train.conll"), ("train.conll",), ("out",), BUILDING, replaced="plain"),
    Case("index", "index add seeds", ("index", "tagger", "train.conll", "out", "--seeds", "1", *CPU),
         ("tagger", "train.conll"), ("train.conll",), ("out",), ("out",), replaced="plain"),
    Case("explain", "explain",
         ("explain", "index", "--data", "dev.conll", "--most", "2", "--top", "2", "--json", "out.json", *CPU),
         (*INDEXED, "dev.conll"), ("dev.conll",), ("out.json",)),
    Case("explain", "explain influence",
         ("explain", "plain", "--data", "dev.conll", "--most", "1", "--top", "2", "--refine", "--json", "out.json",
          *CPU),
         ("plain", "tagger", "dev.conll"), ("dev.conll",), ("out.json",)),
    Case("verify", "verify", ("verify", *ASK, "--score", "influence", "--top", "1", "--json", "out.json"),
         (*INDEXED, "dev.conll"), ("dev.conll",), ("out.json",)),
    Case("verify", "verify retrain",
         ("verify", *ASK, "--top", "1", "--retrain", "--seeds", "1", "--jobs", "1", "--work", "work", "--json",
          "out.json"),
         (*INDEXED, "dev.conll"), ("dev.conll",), ("out.json", "work"), ("work",), is_slow=True),
    Case("what-if", "what-if",
         ("what-if", *ASK, "--remove", "train-0:4:0:1", "--from", "edits.jsonl", "--json", "out.json"),
         (*INDEXED, "dev.conll", "edits.jsonl"), ("dev.conll", "edits.jsonl"), ("out.json",)),
    Case("what-if", "what-if retrain",
         ("what-if", *ASK, "--remove", "train-0:1:0:1", "--retrain", "--seeds", "1", "--jobs", "1", "--work", "work",
          "--json", "out.json"),
         (*INDEXED, "dev.conll"), ("dev.conll",), ("out.json", "work"), ("work",), is_slow=True),
    Case("flip", "flip", _flip("--json", "out.json"), (*INDEXED, "dev.conll"), ("dev.conll",), ("out.json",)),
    Case("audit", "audit",
         ("audit", "index", "--truth", "true.conll", "--out", "out", *HEADS),
         (*INDEXED, "train.conll", "true.conll"), ("true.conll",), ("out",), ("out",),
         is_slow=True),
    Case("audit", "audit again", ("audit", "index", "--out", "out", *HEADS), (*INDEXED, "train.conll"), (),
         ("out",), ("out",), replaced="audit", is_slow=True),
    Case("audit", "audit encoder", ("audit", "index", "--trusted", "dev.conll", "--out", "out", *JUDGES),
         (*INDEXED, "train.conll", "dev.conll"), ("dev.conll",), ("out",), ("out",), is_slow=True),
    Case("review", "review", ("review", "review", "--port", "0", "--no-browser", "--reviewer", "ada", *CPU), PROJECT,
         ("review", "audit", "dev.conll"), changed=("review",)),
    Case("review", "review new",
         ("review", "out", "--index", "index", "--data", "train.conll", "--dev", "dev.conll", "--audit", "audit",
          "--port", "0", "--no-browser", "--reviewer", "ada", *CPU),
         (*INDEXED, "train.conll", "dev.conll", "audit"), ("dev.conll", "audit"), ("out",), ("out",)),
    Case("fix", "fix", ("fix", "train.conll", "audit/findings.jsonl", "out", "--top", "5", "--log", "out.log"),
         ("train.conll", "audit"), ("train.conll", "audit"), ("out", "out.log")),
    Case("fix", "fix overwrite", ("fix", "train.conll", "audit/findings.jsonl", "out", "--all", "--overwrite"),
         ("train.conll", "audit"), ("train.conll", "audit"), ("out", "out.changes.jsonl"), replaced="fixed.conll"),
    Case("fix", "fix replay", ("fix", "train.conll", "fixed.conll.changes.jsonl", "out", "--replay"),
         ("train.conll", "fixed.conll.changes.jsonl"), ("train.conll", "fixed.conll.changes.jsonl"),
         ("out", "out.changes.jsonl")),
    Case("fix", "fix auto",
         ("fix", "train.conll", "audit/findings.jsonl", "out", "--auto", "--risk", "0.5", "--decisions", "review"),
         PROJECT, ("audit", "review"), ("out", "out.changes.jsonl")),
    Case("gain", "gain",
         ("gain", "index", "train.conll", "fixed.conll", "--test", "test.conll", "--samples", "20", "--json",
          "out.json", *CPU),
         (*INDEXED, "train.conll", "fixed.conll", "test.conll"), ("fixed.conll", "test.conll", "train.conll"),
         ("out.json",)),
    Case("gain", "gain everything",
         ("gain", "tagger", "train.conll", "fixed.conll", "--test", "test.conll", "--samples", "20", "--retrain",
          "everything", "--dev", "dev.conll", "--decisions", "review", "--work", "work", "--json", "out.json", *CPU),
         (*PROJECT, "fixed.conll", "test.conll"),
         ("fixed.conll", "test.conll", "dev.conll", "review", "audit"), ("out.json", "work"), ("work",),
         is_slow=True),
    Case("doctor", "doctor", ("doctor", "review"), PROJECT, ("review", "audit", "dev.conll", "train.conll")),
    Case("doctor", "doctor json", ("doctor", "index", "--json"), (*INDEXED, "train.conll"), ("train.conll",)),
    Case("reproduce", "reproduce", ("reproduce", "exact", "--data", "paper", "--out", "out", *CPU), ("paper",),
         ("paper",), ("out",), ("out",), is_slow=True),
    Case("demo", "demo", ("demo", "--out", "out"), (), (), ("out",), ("out",), is_slow=True),
)  # fmt: skip
