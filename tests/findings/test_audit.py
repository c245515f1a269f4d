"""``run_audit`` against its parts made by hand, and what an ``Audit`` saves, loads and prints."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tagtrace._checks import DataError, OptionError, TaggerError
from tagtrace._table import Table
from tagtrace.data import Corpus, LabelSet, ReadOptions, Sentence, read_corpus
from tagtrace.data.invented import generate, write_invented
from tagtrace.findings import (
    Audit,
    AuditOptions,
    Probabilities,
    assess,
    at_level,
    encoder_opinions,
    finding_is_wrong,
    head_opinions,
    measure,
    read_findings,
    read_trusted,
    read_truth,
    run_audit,
)
from tagtrace.findings.audit import pick_judges, shared_sentences
from tagtrace.findings.ranking.evidence import hurt_lines
from tagtrace.index import Index, IndexFolderError, IndexOptions, build_index, open_index
from tagtrace.tagger import Lexical, LexicalOptions, Step, Tagger, TrainOptions, new_tagger, save_tagger, train_tagger
from tests.findings.made import make_index, make_tagger

HEAD = AuditOptions(judges="head", num_folds=2, num_effects=1, most=60, seed=4)
ENCODER = replace(HEAD, judges="encoder", num_effects=0)


@dataclass(frozen=True)
class Made:
    """Invented newswire with planted errors, a tagger trained on it and an index, all in a folder."""

    folder: Path
    train: Corpus
    true: Corpus
    dev: Corpus
    tagger: Tagger
    index: Index

    def audit(self, options: AuditOptions = HEAD, *, trusted: Any = None, **arguments: Any) -> Audit:
        return run_audit(self.index, self.dev if trusted is None else trusted, options, device="cpu", **arguments)

    def opinions(self, options: AuditOptions, folder: Path) -> list[Probabilities]:
        if options.judges == "head":
            return head_opinions(self.index, self.trusted.rows, options.num_folds, options.seed)
        return encoder_opinions(self.tagger, self.train, folder, self.dev.sentences, options.num_folds, options.seed)

    @property
    def trusted(self) -> Any:
        return read_trusted(self.index, self.tagger, self.dev.sentences)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("audit")
    write_invented(generate(num_documents=24, random_share=0.2), folder)
    train, true, dev = (read_corpus(folder / f"{name}.conll") for name in ("train", "train_true", "dev"))
    torch.manual_seed(0)
    labels = LabelSet.from_sentences(true.sentences, "iob2")
    tagger = new_tagger(Lexical(LexicalOptions(buckets=512, width=8, hidden=8)), labels)
    train_tagger(tagger, train.sentences, (), TrainOptions(epochs=2, batch_size=16, learning_rate=2e-2))
    save_tagger(tagger, folder / "tagger")
    options = IndexOptions(dtype="float32", l2=3.0, tolerance=1e-4)
    build_index(tagger, train, folder / "index", options, tagger_path=folder / "tagger")
    return Made(folder, train, true, dev, tagger, open_index(folder / "index"))


@pytest.fixture(scope="module")
def audited(made: Made) -> Audit:
    return made.audit(truth=made.true)


@pytest.mark.parametrize("options", [HEAD, ENCODER], ids=["head", "encoder"])
def test_an_audit_is_an_assessment_of_opinions(made: Made, tmp_path: Path, options: AuditOptions) -> None:
    found = made.audit(options, truth=made.true)
    expected = assess(made.index, made.opinions(options, tmp_path / "folds"), made.trusted, options)
    assert found.scores is not None
    assert torch.equal(found.scores, expected.scores)
    assert found.findings == expected.findings
    assert found.patterns == expected.patterns
    assert found.evidence == hurt_lines(made.index, expected.hurt, made.dev.sentences)
    assert found.evidence
    assert found.documents == at_level(made.index, expected.scores, "document").ranked()
    truth = read_truth(made.index, made.true)
    assert found.truth == [measure("combined", expected.scores, truth.wrong)]
    assert found.num_right == int(finding_is_wrong(found.findings, made.index, truth).is_wrong.sum()) > 0
    assert found.likely == [one for one in found.findings if one.confidence > 0.5]
    assert (found.options, found.index) == (options, str(made.folder / "index"))
    notes = {"notes": "; ".join(found.notes)} if found.notes else {}
    assert found.summary == {
        "training tokens": made.index.num_tokens,
        "training sentences": len(made.train.sentences),
        "trusted tokens": sum(map(len, made.dev.sentences)),
        "score": "combined",
        "judges": "refitted heads" if options is HEAD else "taggers trained again",
        "findings": 60,
        "findings with a proposal above 50 %": len(found.likely),
        "patterns": len(found.patterns),
        **notes,
    }


def test_the_truth_does_not_change_the_ranking(made: Made, audited: Audit) -> None:
    without = made.audit()
    assert (without.truth, without.num_right) == ([], None)
    assert (without.findings, without.patterns) == (audited.findings, audited.patterns)
    assert without.documents == audited.documents
    same = made.audit(truth=made.train)
    assert same.findings == audited.findings
    assert same.truth[0].num_wrong == same.num_right == 0


def test_trusted_sentences_may_be_a_list_with_empty_ones(made: Made, audited: Audit) -> None:
    found = made.audit(trusted=[Sentence((), ()), *made.dev.sentences, Sentence((), ())])
    assert (found.findings, found.evidence) == (audited.findings, audited.evidence)


def test_without_trusted_data(made: Made) -> None:
    found = run_audit(made.index, None, HEAD, device="cpu")
    assert found.findings
    assert found.evidence == {}
    assert found.summary["trusted tokens"] == 0
    assert "without trusted data" in found.notes[-1]
    assert found.summary["notes"] == "; ".join(found.notes)
    with pytest.raises(OptionError, match="score 'influence' needs trusted data"):
        run_audit(made.index, None, replace(HEAD, score="influence"), device="cpu")


def test_tokens_that_a_query_rules_out_come_last(made: Made) -> None:
    found = made.audit(replace(HEAD, query="ORG:LOC", num_effects=0), truth=made.true)
    assert found.summary["score"] == "combined, query ORG:LOC"
    assert all("LOC" in one.change.split(" -> ")[0] for one in found.findings)
    assert all(score > -torch.inf for _, score in found.documents)
    assert len(found.documents) == len({one.document for one in made.train.sentences})
    assert 0 < found.truth[0].average_precision <= 1


def test_progress_says_what_is_being_done(made: Made) -> None:
    calls: dict[str, tuple[int, int]] = {}
    made.audit(progress=lambda what, *counts: calls.update({what: counts}))
    num_sentences = made.index.num_sentences
    assert calls["encoding the trusted data"] == (len(made.dev.sentences), len(made.dev.sentences))
    assert calls["refitting heads"] == (num_sentences, num_sentences)
    assert calls["ranking the labels"] == (1, 1)


# Judges


def test_which_judges_are_picked(made: Made) -> None:
    auto = AuditOptions()
    assert pick_judges(made.tagger, auto) == "encoder", "it is quick to train"
    assert pick_judges(made.tagger, HEAD) == "head"
    untrained = make_tagger()
    assert pick_judges(untrained, auto) == "head", "nothing says how it was trained"
    assert pick_judges(untrained, ENCODER) == "encoder"
    assert pick_judges(untrained, AuditOptions(encoder="lexical")) == "encoder", "an encoder is only used to train"


def test_an_interrupted_audit_resumes_from_its_work_folder(made: Made, tmp_path: Path) -> None:
    runs: list[str] = []

    def interrupt(run: str, step: Step) -> None:
        if run == "fold 2 of 2" and step.step == 2:
            raise KeyboardInterrupt

    def note(run: str, _: Step) -> None:
        runs.append(run)

    with pytest.raises(KeyboardInterrupt):
        made.audit(ENCODER, work=tmp_path / "folds", training=interrupt)
    found = made.audit(ENCODER, work=tmp_path / "folds", training=note)
    assert list(dict.fromkeys(runs)) == ["fold 2 of 2", "the tagger itself, further on the trusted data"]
    whole = made.audit(ENCODER)
    assert (found.findings, found.patterns) == (whole.findings, whole.patterns)
    runs.clear()
    for corpus in (made.train, made.folder / "train.conll"):  # finished folds are not trained again
        again = made.audit(ENCODER, work=tmp_path / "folds", training=note, corpus=corpus)
        assert again.findings == whole.findings
    other = made.audit(replace(ENCODER, score="margin"), work=tmp_path / "folds", training=note)
    assert other.findings != whole.findings
    assert runs == []
    with pytest.raises(OptionError, match=r"folds of another run \(different trusted\)"):
        made.audit(ENCODER, trusted=made.dev.sentences[1:], work=tmp_path / "folds")


def test_the_training_data_is_read_again_from_where_it_was(made: Made, tmp_path: Path) -> None:
    data = tmp_path / "data" / "train.conll"
    data.parent.mkdir()
    shutil.copy(made.folder / "train.conll", data)
    options = IndexOptions(dtype="float32", l2=3.0, tolerance=1e-4)
    build_index(made.tagger, read_corpus(data), tmp_path / "index", options, tagger_path=made.folder / "tagger")
    index = open_index(tmp_path / "index")
    moved = data.rename(tmp_path / "train.conll")
    with pytest.raises(OptionError, match=r"index: its data is no longer at .*data/train\.conll; give the file of the"):
        run_audit(index, made.dev, ENCODER, device="cpu")
    found = run_audit(index, made.dev, ENCODER, device="cpu", corpus=moved)
    assert [one.given for one in found.findings] == [one.given for one in made.audit(ENCODER).findings]
    with pytest.raises(IndexFolderError, match=r"built from .*dev\.conll"):
        run_audit(index, made.dev, ENCODER, device="cpu", corpus=made.dev)
    with pytest.raises(OptionError, match="the training data is only used by taggers that are trained again"):
        run_audit(index, made.dev, HEAD, device="cpu", corpus=moved)


def test_the_tagger_may_be_in_another_folder(made: Made, audited: Audit, tmp_path: Path) -> None:
    shutil.copytree(made.folder / "tagger", tmp_path / "tagger")
    assert made.audit(tagger=tmp_path / "tagger").findings == audited.findings
    with pytest.raises(TaggerError, match="nowhere"):
        made.audit(tagger=tmp_path / "nowhere")


# Sentences in common


def test_trusted_data_that_is_the_training_data_is_refused(made: Made) -> None:
    for trusted in (made.train, made.true, made.true.sentences[:5]):
        with pytest.raises(OptionError, match="all trusted sentences are in the training data; give data that the"):
            made.audit(trusted=trusted)


def test_shared_sentences_are_noted(made: Made) -> None:
    some = [one for one in made.true.sentences if len(one) >= 5][:4]
    texts = {one.tokens for one in some}
    num_shared = sum(one.tokens in texts for one in made.train.sentences)
    found = made.audit(replace(HEAD, num_effects=0), trusted=[*made.dev.sentences, *some])
    shared = [note for note in found.notes if "also in the trusted data" in note]
    assert len(shared) == 1
    already = {one.tokens for one in made.dev.sentences if len(one) >= 5}
    num_before = sum(one.tokens in already - texts for one in made.train.sentences)
    assert shared[0].startswith(f"{num_shared + num_before} training sentences are also in the trusted data; ")
    assert shared[0] in str(found.summary["notes"])


def test_repeated_sentences_are_noted(tmp_path: Path) -> None:
    rows = [
        "w1 w2 w3 w4 w5",
        "w1 w2 w3 w4 w5",
        "w5 w4 w3 w2 w1",
        "w1 w2 w3 w4 w5",
        "w6 w7",
        "w6 w7",
        "w2 w2 w2 w2 w3 w4",
    ]

    def sentence(number: int) -> Sentence:
        tokens = tuple(rows[number].split())
        return Sentence(tokens, ("B-X", *["O"] * (len(tokens) - 1)), f"s{number}", f"d{number}")

    index = make_index(tmp_path, _corpus([sentence(number) for number in range(len(rows))]))
    repeated = "2 training sentences repeat others"  # two of three; short sentences repeat by chance
    (note,) = shared_sentences(index, [])
    assert note.startswith(repeated)
    (note,) = shared_sentences(index, [sentence(4)])
    assert note.startswith(repeated)
    new = Sentence(("w9",) * 5, ("O",) * 5, "t")
    shared, note = shared_sentences(index, [sentence(0), new])
    assert shared.startswith("3 training sentences are also in the trusted data")
    assert note.startswith(repeated)
    with pytest.raises(OptionError, match="all trusted sentences"):
        shared_sentences(index, [sentence(0), sentence(2)])


def _corpus(sentences: Sequence[Sentence]) -> Corpus:
    return Corpus(Path("train.conll"), tuple(sentences), "iob2", ReadOptions(), "made")


# The folder


def test_what_is_saved_is_loaded(audited: Audit, tmp_path: Path) -> None:
    audited.save(tmp_path / "new" / "audit")
    files = {path.name for path in (tmp_path / "new" / "audit").iterdir()}
    assert files == {
        "audit.json", "documents.csv", "findings.csv", "findings.jsonl", "patterns.jsonl", "report.html"
    }  # fmt: skip
    found = Audit.load(tmp_path / "new" / "audit")
    for name in ("findings", "patterns", "summary", "options", "notes", "num_right", "index"):
        assert getattr(found, name) == getattr(audited, name), name
    assert found.truth == [replace(one, curve=()) for one in audited.truth]
    assert found.documents == audited.documents
    assert (found.scores, found.evidence) == (None, {})
    assert audited.patterns[0].effect is not None
    assert found.describe() == audited.describe()
    page = (tmp_path / "new" / "audit" / "report.html").read_text(encoding="utf-8")
    assert "Trusted labels that these labels hurt" in page
    found.save(tmp_path / "again")  # without scores
    assert Audit.load(tmp_path / "again") == found


def test_a_fingerprint_tells_whether_the_findings_have_changed(audited: Audit, tmp_path: Path) -> None:
    audited.save(tmp_path / "one")
    replace(audited, notes=["other notes"]).save(tmp_path / "same")
    replace(audited, findings=audited.findings[:-1]).save(tmp_path / "other")
    one, same, other = (Audit.load(tmp_path / name).fingerprint for name in ("one", "same", "other"))
    assert one == same != other


def test_a_folder_of_something_else_is_not_touched(audited: Audit, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    for folder in (tmp_path, tmp_path / "notes.txt"):
        with pytest.raises(OptionError, match="something other than an audit; choose another folder"):
            audited.save(folder)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    (tmp_path / "empty").mkdir()
    audited.save(tmp_path / "empty")
    assert Audit.load(tmp_path / "empty").findings == audited.findings


def test_an_audit_replaces_an_earlier_one(audited: Audit, tmp_path: Path) -> None:
    audited.save(tmp_path / "audit")
    few = replace(audited, findings=audited.findings[:3], patterns=[], documents=[])
    few.save(tmp_path / "audit")
    found = Audit.load(tmp_path / "audit")
    assert (found.findings, found.patterns, found.documents) == (few.findings, [], [])
    assert not (tmp_path / "audit" / "documents.csv").exists()


def test_no_name_of_a_document_becomes_a_formula(audited: Audit, tmp_path: Path) -> None:
    documents = [("=HYPERLINK(1)", -0.5), ("a;=1", 0.25), ("'tis", 0.125)]
    replace(audited, documents=documents).save(tmp_path)
    assert Audit.load(tmp_path).documents == documents
    written = (tmp_path / "documents.csv").read_text(encoding="utf-8").splitlines()
    assert written == ["document,mean_score", "'=HYPERLINK(1),-0.5", "a;'=1,0.25", "'tis,0.125"]


def test_findings_alone_can_be_loaded_and_damage_is_named(audited: Audit, tmp_path: Path) -> None:
    folder = tmp_path / "audit"
    audited.save(folder)
    for name, text, message in (
        ("audit.json", "{", r"audit\.json: not valid JSON"),
        ("audit.json", json.dumps({"options": {"opinions": "head"}}), r"audit\.json: .*; run the audit again"),
        ("audit.json", json.dumps({"options": {"score": "taste"}}), r"audit\.json: .*; run the audit again"),
        ("audit.json", "[" * 100_000, r"audit\.json: not valid JSON"),
        ("audit.json", json.dumps({"truth": [{}]}), r"audit\.json: .*; run the audit again"),
        ("patterns.jsonl", '\n{"number": 1}\n', r"patterns\.jsonl, line 2: .*is missing; run"),
        ("documents.csv", "document,mean_score\na,b\n", r"documents\.csv: not a list of documents and scores"),
        ("findings.jsonl", "[]\n", r"findings\.jsonl, line 1: .*give the findings"),
    ):
        whole = (folder / name).read_bytes()
        (folder / name).write_text(text, encoding="utf-8")
        with pytest.raises(DataError, match=message):
            Audit.load(folder)
        (folder / name).write_bytes(whole)
    for name in ("audit.json", "patterns.jsonl", "documents.csv", "report.html", "findings.csv"):
        (folder / name).unlink()
    found = Audit.load(folder)
    assert found.findings == read_findings(folder / "findings.jsonl") == audited.findings
    assert (found.patterns, found.documents, found.summary, found.options) == ([], [], {}, AuditOptions())
    assert found.notes == ["audit.json is missing; the options of the audit are not known"]


# What is printed


def test_description_and_records(made: Made, audited: Audit) -> None:
    parts = audited.describe()
    patterns, findings = (part for part in parts if isinstance(part, Table))
    assert [row[:2] for row in patterns.rows] == [(str(p.number), p.description) for p in audited.patterns[:10]]
    assert patterns.rows[0][2] == audited.patterns[0].effect_line != ""
    assert [row[0] for row in findings.rows] == [str(rank) for rank in range(1, 11)]
    assert f"[{audited.findings[0].text}]" in findings.rows[0][1]
    printed = str(audited)
    total, likely = made.index.num_tokens, len(audited.likely)
    assert f"60 findings among {total:,} labels; for {likely:,} of them the proposed labels are likelier" in printed
    num_wrong = audited.truth[0].num_wrong
    assert f"{num_wrong} labels are really wrong: average precision 0." in printed
    assert f"of the first 60 findings, {audited.num_right} are about a wrong label" in printed
    assert [part for part in parts if isinstance(part, str) and part.startswith("note: ")] == [
        f"note: {note}" for note in audited.notes
    ]
    html = audited._repr_html_()
    assert html.count("<table") == 2
    records = audited.to_records()
    assert [one["rank"] for one in records] == list(range(1, 61))
    assert records[0]["given"] == " ".join(audited.findings[0].given)
    frame = audited.to_pandas()
    assert frame["rank"].tolist() == list(range(1, 61))
    assert frame["confidence"].tolist() == [one.confidence for one in audited.findings]


def test_description_of_little(audited: Audit) -> None:
    nothing = Audit([], [], {}, notes=["<b>a note</b>"])
    assert nothing.describe()[0] == "No systematic pattern was found."
    assert not any(isinstance(part, Table) for part in nothing.describe())
    assert "note: &lt;b&gt;a note&lt;/b&gt;" in nothing._repr_html_()
    assert "<b>" not in nothing._repr_html_()
    same = replace(audited.truth[0], num_wrong=0)
    assert "there is nothing to find" in str(replace(audited, truth=[same], num_right=0))
    many = [replace(audited.patterns[0], number=number) for number in range(1, 14)]
    assert "3 more patterns are not shown." in str(replace(audited, patterns=many))
