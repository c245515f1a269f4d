"""Small invented projects: one with a tagger and an index, and a light one with only data and findings."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from fastapi.testclient import TestClient

from tagtrace.data import Corpus, LabelSet, Sentence, read_corpus
from tagtrace.data.invented import generate, write_invented
from tagtrace.findings import Finding, Pattern, find_patterns, write_findings
from tagtrace.index import Index, IndexOptions, build_index
from tagtrace.review import Decisions, ProjectFile, Review, Store, TrainingData, write_project_file
from tagtrace.review.http.app import make_app
from tagtrace.tagger import Lexical, LexicalOptions, TrainOptions, new_tagger, save_tagger, train_tagger

LABELS = LabelSet(("O", "B-LOC", "I-LOC", "B-ORG", "I-ORG"), "iob2")
NUM_SENTENCES = 40
"""Number of sentences of the light project, which only differ in their numbers."""
ADDRESS = "http://127.0.0.1:8321"


def write_light(folder: Path, num_sentences: int = NUM_SENTENCES) -> Path:
    """Sentences ``Club<n> beat New Delft Town .``, ten per document, with unusual bytes that an export must keep."""
    lines = list[str]()
    for number in range(num_sentences):
        if number % 10 == 0:
            lines += ["-DOCSTART-\tO", ""]
        lines += [f"Club{number}\tB-LOC", "beat\tO", "New  B-ORG", "Delft\tI-ORG", "Town\tI-ORG", ".\tO", ""]
    path = folder / "train.conll"
    path.write_bytes("\r\n".join(lines).encode())
    return path


def light_findings(sentences: Sequence[Sentence]) -> list[Finding]:
    """One finding per sentence: the club is an ORG. In every fifth sentence a second one: ``Delft Town`` is a LOC."""
    found = list[Finding]()
    for number, sentence in enumerate(sentences):
        wanted = [(0, 1, ("B-ORG",))] + ([(2, 5, ("O", "B-LOC", "I-LOC"))] if number % 5 == 0 else [])
        for start, stop, proposed in wanted:
            found.append(Finding(
                len(found) + 1, sentence.id, sentence.document, number, start, stop, sentence.lines[start],
                sentence.tokens[start:stop], sentence.tokens[:start], sentence.tokens[stop:],
                sentence.labels[start:stop], proposed, 1.0, 0.9, pattern=1 if start == 0 else None,
            ))  # fmt: skip
    return found


def light_data(folder: Path) -> TrainingData:
    corpus = read_corpus(folder / "train.conll")
    return TrainingData(corpus, LABELS, findings=light_findings(corpus.sentences), audit="made")


def light_review(folder: Path, reviewer: str = "ada") -> Review:
    """A project without a model, as every process opens it."""
    if not (folder / "train.conll").exists():
        write_light(folder)
    decisions = Decisions(light_data(folder), Store(folder / "decisions.sqlite"))
    return Review("light", reviewer, decisions, folder / "export")


class Client:
    """A client of the JSON API that sends the header which every POST needs."""

    def __init__(self, review: Review, reviewer: str | None = None, **app: Any) -> None:
        self.review = review
        gate = make_app(review, **app)
        self.http = TestClient(gate, base_url=ADDRESS, raise_server_exceptions=False)
        self.headers = {"X-Tagtrace": gate.guard.csrf}
        if reviewer is not None:
            self.headers["X-Reviewer"] = reviewer

    def get(self, path: str, **query: Any) -> Any:
        response = self.http.get(f"/api/{path}", params=query, headers=self.headers)
        assert response.status_code == 200, response.text
        return response.json()

    def post(self, path: str, body: Any = None, status: int | None = None) -> Any:
        response = self.http.post(f"/api/{path}", json=body or {}, headers=self.headers)
        assert response.status_code in ((200, 201) if status is None else (status,)), response.text
        return response.json()

    def decide(self, rank: int, action: str = "accept", status: int | None = None, **more: Any) -> Any:
        one = self.review.data.by_rank[rank]
        body = {
            "rank": rank,
            "sentence_number": one.sentence_number,
            "start": one.start,
            "stop": one.stop,
            "action": action,
            **more,
        }
        return self.post("decisions", body, status)

    def confirm(self, sentence_number: int, **more: Any) -> Any:
        """Mark a sentence as correct as it stands."""
        stop = len(self.review.data.sentences[sentence_number])
        body = {"sentence_number": sentence_number, "start": 0, "stop": stop, "action": "relabel", **more}
        return self.post("decisions", body)

    def finished(self, job: int) -> Any:
        """A job, once it has ended."""
        for _ in range(600):
            found = self.get(f"jobs/{job}")
            if found["state"] != "running":
                return found
            time.sleep(0.05)
        raise AssertionError("the job did not end")

    def teach(self) -> Any:
        """Learn from all decisions; returns what was taught."""
        while self.get("teaching")["state"] == "running":  # it may have begun before the last decision
            time.sleep(0.01)
        job = self.finished(self.post("teach")["job"])
        assert job["state"] == "done", job
        return job["result"]

    def statuses(self) -> dict[str, int]:
        return self.get("project")["progress"]


def train_and_index(folder: Path, train: Corpus, labels: LabelSet) -> Index:
    """Train a small tagger and build its index, in the folders ``tagger`` and ``index``."""
    torch.manual_seed(0)
    tagger = new_tagger(Lexical(LexicalOptions(buckets=512, width=8, hidden=8)), labels)
    train_tagger(tagger, train.sentences, (), TrainOptions(epochs=2, batch_size=16, learning_rate=2e-2))
    save_tagger(tagger, folder / "tagger")
    options = IndexOptions(dtype="float32", l2=3.0, tolerance=1e-4)
    return build_index(tagger, train, folder / "index", options, tagger_path=folder / "tagger")


def write_audit(folder: Path, findings: Sequence[Finding], patterns: Sequence[Pattern]) -> None:
    folder.mkdir()
    write_findings(findings, folder / "findings.jsonl")
    (folder / "patterns.jsonl").write_text("".join(f"{one.to_line()}\n" for one in patterns))


def make_project(folder: Path, num_documents: int = 30) -> ProjectFile:
    """Invented newswire whose planted errors are the findings, a small tagger and its index."""
    corpus = generate(num_documents=num_documents, random_share=0.05)
    write_invented(corpus, folder / "data")
    train = read_corpus(folder / "data" / "train.conll")
    labels = LabelSet.from_sentences(read_corpus(folder / "data" / "train_true.conll").sentences, "iob2")
    index = train_and_index(folder, train, labels)
    sentences = {sentence.id: number for number, sentence in enumerate(train.sentences)}
    findings = list[Finding]()
    for rank, error in enumerate(corpus.errors, start=1):
        sentence = train.sentences[sentences[error.sentence]]
        findings.append(Finding(
            rank, sentence.id, sentence.document, sentences[sentence.id], error.start, error.stop,
            sentence.lines[error.start], error.tokens, sentence.tokens[max(error.start - 3, 0) : error.start],
            sentence.tokens[error.stop : error.stop + 3], error.planted_labels, error.true_labels, 1.0, 0.9,
        ))  # fmt: skip
    patterns, findings = find_patterns(index, findings)
    write_audit(folder / "audit", findings, patterns)
    return write_project_file(
        folder, index=folder / "index", data=folder / "data" / "train.conll", dev=folder / "data" / "dev.conll",
        audit=folder / "audit",
    )  # fmt: skip
