"""The same question has the same answer in Python, on the command line and on the review page."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the review extra is not installed")

from tagtrace import Audit, AuditOptions, Edit, Explainer, Query, make_edit, make_queries, read_corpus, run_audit
from tagtrace.index import Index, open_index
from tagtrace.influence.edits.edit import edit_to_json
from tagtrace.review import ProjectFile, open_review, write_project_file
from tests.cli.command import answer, succeed
from tests.review.made import Client, make_project

TOP = 3
AUDIT = AuditOptions(judges="head", num_folds=2, num_effects=1, most=60)
AUDIT_OPTIONS = ("--judges", "head", "--folds", 2, "--effects", 1, "--most", 60, "--device", "cpu")


@dataclass(frozen=True)
class Doors:
    """One index and one prediction, asked about in three ways."""

    project: ProjectFile
    index: Index
    query: Query
    page: Client

    @property
    def dev(self) -> Path:
        assert self.project.dev is not None
        return self.project.dev

    @property
    def place(self) -> dict[str, Any]:
        """The prediction, as the page names it."""
        assert self.query.sentence is not None
        return {"sentence": self.query.sentence.id, "start": self.query.start, "stop": self.query.stop}

    def command(self, name: str, path: Path, *options: object) -> Any:
        """The answer of a command about the prediction."""
        place = ("--sentence", self.place["sentence"], "--segment", f"{self.query.start}:{self.query.stop}")
        arguments = (self.project.index, "--data", self.dev, *place, "--json", path)
        return answer(succeed(name, *arguments, *options), path)

    def suppose(self, edits: Sequence[Edit], *, verify: bool = False) -> dict[str, Any]:
        """The answer of the page about edits of training labels; retraining is a job that is waited for."""
        body = {**self.place, "edits": [self.edit_body(edit) for edit in edits]}
        if not verify:
            return self.page.post("what-if", body)
        number = self.page.post("jobs", {**body, "kind": "verify"})["job"]
        while (job := self.page.get(f"jobs/{number}"))["state"] == "running":
            time.sleep(0.05)
        assert job["state"] == "done", job
        return job["result"]

    def edit_body(self, edit: Edit) -> dict[str, Any]:
        labels = None if edit.labels is None else list(self.index.labels.decode(edit.labels))
        return {"sentence_number": edit.sentence_number, "start": edit.start, "stop": edit.stop, "labels": labels}


def opened(file: ProjectFile) -> Client:
    """The page of a project, once its predictions are made."""
    review = open_review(file, "ada")
    assert review.held is not None
    assert review.held.wait(120)
    return Client(review)


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    project = make_project(tmp_path_factory.mktemp("project"))
    assert project.dev is not None
    page, index = opened(project), open_index(project.index)
    query = make_queries(index.tagger(), read_corpus(project.dev), most=1)[0]
    yield Doors(project, index, query, page)
    page.review.close()


@pytest.fixture(scope="module")
def explainer(doors: Doors) -> Explainer:
    return Explainer(doors.index)


def same(value: Any) -> Any:
    """Equal but for rounding: the doors share the code, but not the order in which segments are put together."""
    return pytest.approx(value, rel=1e-6, abs=1e-7)


def places(sides: dict[str, list[dict[str, Any]]]) -> dict[str, list[tuple[int, int, int]]]:
    names = ("supporters", "opposers")
    return {name: [(one["sentence_number"], one["start"], one["stop"]) for one in sides[name]] for name in names}


def test_mispredictions(doors: Doors, tmp_path: Path) -> None:
    """The page lists them in an order of its own; explain takes the first of the data."""
    python = [query.to_json() for query in make_queries(doors.index.tagger(), read_corpus(doors.dev))]
    path, options = tmp_path / "answer.json", ("--most", 5, "--score", "cosine")
    cases = answer(succeed("explain", doors.project.index, "--data", doors.dev, "--json", path, *options), path)
    assert [{name: case[name] for name in one} for case, one in zip(cases, python, strict=False)] == python[:5]
    items = doors.page.get("errors", limit=1000)["items"]
    assert sorted(map(located, items)) == sorted(map(located, python))
    assert len(set(map(located, python))) == len(python) > 5


def located(place: dict[str, Any]) -> tuple[str, int, int]:
    return place["sentence"], place["start"], place["stop"]


@pytest.mark.parametrize(
    ("score", "curvature"),
    [("influence", "auto"), ("influence", "kronecker"), ("relative", "auto"), ("cosine", "identity")],
)
@pytest.mark.parametrize("kind", ["token", "entity", "sentence"])
def test_explain_screen(doors: Doors, tmp_path: Path, score: Any, curvature: Any, kind: Any) -> None:
    python = Explainer(doors.index, curvature).explain(doors.query, score, kind, TOP).to_json()
    options = ("--score", score, "--curvature", curvature, "--kind", kind, "--top", TOP)
    (command,) = doors.command("explain", tmp_path / "answer.json", *options)
    page = doors.page.get("why", **doors.place, score=score, curvature=curvature, kind=kind, top=TOP)
    assert python["explained"] == command["explained"] == page["query"]["explained"]
    assert places(python) == places(command) == places(page)
    for side in ("supporters", "opposers"):
        scores = [one["score"] for one in python[side]]
        assert scores
        assert [one["score"] for one in command[side]] == same(scores)
        assert [one["score"] for one in page[side]] == same(scores)
        assert [one["labels"] for one in python[side]] == [one["labels"] for one in page[side]]


@pytest.mark.parametrize("rung", ["refine", "verify"])
def test_explain_refine_and_verify(doors: Doors, explainer: Explainer, tmp_path: Path, rung: Any) -> None:
    """The page gives these effects when one of the segments is removed as a what-if."""
    found = explainer.explain(doors.query, top=TOP, rung=rung)
    name, *options = ("verify",) if rung == "verify" else ("explain", "--refine")
    (command,) = doors.command(name, tmp_path / "answer.json", "--top", TOP, *options)
    python = found.to_json()
    assert places(python) == places(command)
    for side, segments in found.sides().items():
        assert segments
        for segment, one, other in zip(segments, python[side], command[side], strict=True):
            page = doors.suppose(segment.edits(), verify=rung == "verify")
            assert one["rung"] == other["rung"] == page["rung"] == rung
            assert other["change"] == same(one["change"])
            assert page["loss_after"] - page["loss_before"] == same(one["change"])
            assert other["refined_change"] == same(one["refined_change"])
            assert other["verified_change"] == (None if rung == "refine" else same(one["change"]))


def few_edits(index: Index) -> list[Edit]:
    """A removal and a change of labels in two training sentences."""
    numbers = [n for n in range(index.num_sentences) if "B-LOC" in index.sentence(n).labels][:2]
    starts = [index.sentence(number).labels.index("B-LOC") for number in numbers]
    return [
        make_edit(index, numbers[0], starts[0], starts[0] + 1),
        make_edit(index, index.sentence(numbers[1]).id, starts[1], starts[1] + 1, "ORG"),
    ]


def many_edits(index: Index) -> list[Edit]:
    """Edits of so many sentences that they are too large to refine."""
    return [make_edit(index, number, 0, 1) for number in range(index.num_sentences)]


@pytest.mark.parametrize(
    ("edits", "rung", "known"),
    [
        (few_edits, "refine", "refine"),
        (many_edits, "refine", "step"),
        (few_edits, "verify", "verify"),
        (many_edits, "verify", "verify"),
    ],
    ids=["refine", "step", "verify few", "verify many"],
)
def test_what_if(doors: Doors, explainer: Explainer, tmp_path: Path, edits: Any, rung: Any, known: Any) -> None:
    made = edits(doors.index)
    found = explainer.what_if(doors.query, made, rung)
    assert found.rung == known
    lines = [json.dumps(edit_to_json(doors.index, edit)) for edit in made]
    (tmp_path / "edits.jsonl").write_text("\n".join(lines), encoding="utf-8")
    options = ("--verify",) if rung == "verify" else ()
    command = doors.command("what-if", tmp_path / "answer.json", "--from", tmp_path / "edits.jsonl", *options)
    page = doors.suppose(made, verify=rung == "verify")
    python = found.to_json()
    assert set(python["effects"]) == set(command["effects"])
    for name, one in python["effects"].items():
        for number in ("loss_before", "loss_after", "change"):
            assert command["effects"][name][number] == same(one[number])
    best = python["effects"][known]
    assert abs(best["change"]) > 1e-5, "the edits change something"
    assert (page["rung"], page["edits"]) == (known, len(made))
    for when in ("before", "after"):
        assert page[f"loss_{when}"] == same(best[f"loss_{when}"])
        assert page[when]["p"]
        for cell in page[when]["p"]:
            token = cell["token"] - doors.query.start
            expected = best[f"probabilities_{when}"][token][cell["label"]]
            assert cell["p"] == same(expected)
            assert command["effects"][known][f"probabilities_{when}"][token][cell["label"]] == same(expected)


def test_audit(doors: Doors, tmp_path: Path) -> None:
    trusted = read_corpus(doors.dev)
    python = run_audit(doors.index, trusted, AUDIT, work=tmp_path / "folds", device="cpu")
    python.save(tmp_path / "python")
    succeed("audit", doors.project.index, "--trusted", doors.dev, "--out", tmp_path / "command", *AUDIT_OPTIONS)
    for name in ("findings.jsonl", "findings.csv", "patterns.jsonl", "documents.csv"):
        assert (tmp_path / "command" / name).read_bytes() == (tmp_path / "python" / name).read_bytes()
    first, second = (Audit.load(tmp_path / name) for name in ("python", "command"))
    assert first == second
    assert len(first.findings) == AUDIT.most
    assert first.patterns
    project = write_project_file(
        tmp_path / "page", index=doors.project.index, data=doors.project.data, dev=doors.dev,
        audit=tmp_path / "command",
    )  # fmt: skip
    page = opened(project)
    try:
        items = page.get("findings", limit=1000)["items"]
        expected = [json.loads(line) for line in (tmp_path / "python" / "findings.jsonl").read_text().splitlines()]
        assert [{name: item[name] for name in one} for item, one in zip(items, expected, strict=True)] == expected
        patterns = page.get("patterns")["items"]
        assert [one["description"] for one in patterns] == [one.description for one in python.patterns]
        assert [one["segments"] for one in patterns] == [one.num_segments for one in python.patterns]
        effects = [None if one.effect is None else one.effect.to_json() for one in first.patterns]
        assert [one["effect"] for one in patterns] == effects
        assert effects[0] is not None
    finally:
        page.review.close()
