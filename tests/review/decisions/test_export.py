"""The export changes only the decided labels, and its log makes the same changes elsewhere."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Container
from pathlib import Path

import pytest

from tagtrace._folders import restore_folder
from tagtrace.data import Corpus, LabelSet, ReadOptions, read_corpus, write_corpus
from tagtrace.findings.fix import read_changes, replay
from tagtrace.review import Decision, Decisions, Review, Store, TrainingData
from tagtrace.review.decisions import export as module
from tagtrace.review.decisions.export import export as write
from tagtrace.review.decisions.ledger import Ledger, Place
from tests.every_step import every_kill
from tests.review.made import LABELS, Client, light_review, write_light


def export(client: Client) -> tuple[bytes, int]:
    """The exported data, and the reported number of changed labels."""
    answer = client.post("export")
    assert answer["files"] == ["export/train.conll", "export/changes.jsonl"]
    assert client.http.get("/api/export/data").content == (client.review.export / "train.conll").read_bytes()
    assert client.http.get("/api/export/log").content == (client.review.export / "changes.jsonl").read_bytes()
    return (client.review.export / "train.conll").read_bytes(), answer["changed"]


def decide_some(client: Client) -> bytes:
    """Make decisions of every kind; returns the data that they should lead to, written by hand."""
    client.decide(1)  # Club0 is an ORG
    client.decide(2)  # New | Delft Town is a LOC
    client.decide(3, "reject")
    client.decide(4, "skip")
    client.decide(5)
    client.post("undo")
    client.decide(6, "relabel", labels=["O"])  # Club4
    client.decide(7)
    client.decide(7, "reopen")
    # Delft alone is a LOC: the rest of the segment becomes a segment of its own
    client.post("decisions", {"sentence_number": 7, "start": 3, "stop": 4, "action": "relabel", "labels": ["B-LOC"]})
    expected = (client.review.export.parent / "train.conll").read_bytes()
    sentence = b"Club%d\t%s\r\nbeat\tO\r\nNew  %s\r\nDelft\t%s\r\nTown\t%s\r\n"
    given = (b"B-LOC", b"B-ORG", b"I-ORG", b"I-ORG")
    for number, labels in (
        (0, (b"B-ORG", b"O", b"B-LOC", b"I-LOC")),
        (4, (b"O", *given[1:])),
        (7, (b"B-LOC", b"B-ORG", b"B-LOC", b"B-ORG")),
    ):
        before, after = sentence % (number, *given), sentence % (number, *labels)
        assert expected.count(before) == 1
        expected = expected.replace(before, after)
    return expected


def test_only_decided_labels_change_byte_for_byte(ada: Client) -> None:
    expected = decide_some(ada)
    found, num_changed = export(ada)
    assert found == expected
    assert num_changed == 7


def test_the_log_leads_to_the_same_bytes(ada: Client, tmp_path: Path) -> None:
    decide_some(ada)
    found, _ = export(ada)
    changes = read_changes(tmp_path / "export" / "changes.jsonl")
    assert [(one.rank, one.start, one.stop, one.repaired) for one in changes] == [
        (0, 3, 5, 1), (1, 0, 1, 0), (2, 2, 5, 0), (6, 0, 1, 0)
    ]  # fmt: skip
    write_corpus(replay(read_corpus(tmp_path / "train.conll"), changes).corpus, tmp_path / "replayed.conll")
    assert (tmp_path / "replayed.conll").read_bytes() == found


def test_nothing_decided_is_a_copy(ada: Client, tmp_path: Path) -> None:
    assert ada.http.get("/api/export/data").status_code == 404
    assert export(ada) == ((tmp_path / "train.conll").read_bytes(), 0)
    assert (tmp_path / "export" / "changes.jsonl").read_bytes() == b""


def test_decisions_that_overlap_the_last_one_counts(ada: Client) -> None:
    ada.decide(2)  # O B-LOC I-LOC
    ada.post(
        "decisions", {"sentence_number": 0, "start": 4, "stop": 6, "action": "relabel", "labels": ["B-ORG", "I-ORG"]}
    )
    found, _ = export(ada)
    assert b"New  O\r\nDelft\tB-LOC\r\nTown\tB-ORG\r\n.\tI-ORG\r\n" in found
    changes = read_changes(ada.review.export / "changes.jsonl")
    assert [(one.rank, one.start, one.stop) for one in changes] == [(0, 4, 6), (2, 2, 4)]
    ada.post("undo")
    assert b"New  O\r\nDelft\tB-LOC\r\nTown\tI-LOC\r\n.\tO\r\n" in export(ada)[0]


def import_log(client: Client, log: str, status: int = 200) -> dict[str, object]:
    headers = {**client.headers, "Content-Type": "application/x-ndjson"}
    response = client.http.post("/api/import", content=log.encode(), headers=headers)
    assert response.status_code == status, response.text
    assert client.post("import", {"log": log}, status) is not None  # the log can also be sent as JSON
    return response.json()


@pytest.mark.parametrize("name", ["train.conll", "copy.conll"])
def test_the_log_is_imported_elsewhere(ada: Client, tmp_path: Path, name: str) -> None:
    """In a file with another name, no sentence has an id of the log."""
    decide_some(ada)
    found, _ = export(ada)
    log = (tmp_path / "export" / "changes.jsonl").read_text()
    other = tmp_path / "other"
    other.mkdir()
    write_light(other)
    if name != "train.conll":
        (other / "train.conll").rename(other / name)
        corpus = read_corpus(other / name)
        data = TrainingData(corpus, LabelSet.from_sentences(corpus.sentences, "iob2"))
        cleo = Client(Review("copy", "cleo", Decisions(data, Store(other / "d.sqlite")), other / "export"))
    else:
        cleo = Client(light_review(other, "cleo"))
    assert import_log(cleo, log) == {"imported": 4, "skipped": 0, "reasons": []}
    cleo.post("export")
    assert (other / "export" / name).read_bytes() == found
    again = import_log(cleo, log)
    assert (again["imported"], again["skipped"]) == (0, 4)
    assert "line 1: already decided" in str(again["reasons"])
    assert cleo.post("undo")["undone"] == 4  # imported together
    if name == "train.conll":
        cleo.post("redo")
        assert cleo.get("findings/1")["decided"]["action"] == "accept"
        assert cleo.get("findings/6")["decided"]["action"] == "relabel"


def test_changes_that_continue_each_other_are_imported(ada: Client, tmp_path: Path) -> None:
    """Two reviewers decided on parts of one segment: the log has a change of each, in the order of the findings."""
    bob = Client(ada.review, "bob")
    ada.post("decisions", {"sentence_number": 0, "start": 5, "stop": 6, "action": "relabel", "labels": ["B-LOC"]})
    ada.decide(2, "relabel", start=2, stop=5, labels=["O", "O", "B-LOC"])
    bob.post(
        "decisions", {"sentence_number": 0, "start": 5, "stop": 6, "action": "relabel", "labels": ["I-LOC"], "base": 2}
    )
    found, _ = export(ada)
    assert b"Town\tB-LOC\r\n.\tI-LOC\r\n" in found
    (tmp_path / "other").mkdir()
    cleo = Client(light_review(tmp_path / "other", "cleo"))
    assert import_log(cleo, (tmp_path / "export" / "changes.jsonl").read_text())["imported"] == 2
    assert export(cleo)[0] == found


def test_labels_the_tagger_does_not_know_are_skipped(ada: Client) -> None:
    change = {"rank": 0, "sentence": ada.review.data.sentences[0].id, "line": 3, "start": 0, "stop": 1,
              "tokens": ["Club0"], "given": ["B-LOC"], "new": ["B-ORG"], "repaired": 0}  # fmt: skip
    log = json.dumps({**change, "new": ["B-SHIP"]}) + "\n" + json.dumps(change)
    found = ada.post("import", {"log": log})
    assert (found["imported"], found["skipped"]) == (1, 1)
    assert found["reasons"] == ["line 1: the tagger has no label 'B-SHIP'"]


def test_a_log_of_other_data_is_skipped_with_reasons(ada: Client) -> None:
    change = {"rank": 1, "sentence": "train-0:0", "line": 3, "start": 0, "stop": 1, "tokens": ["Club0"],
              "given": ["B-LOC"], "new": ["B-ORG"], "repaired": 0}  # fmt: skip
    sentence = ada.review.data.sentences[0].id
    others = [{**change, "sentence": sentence, "tokens": ["Club1"]}, {**change, "sentence": sentence, "given": ["O"]},
              {**change, "sentence": "nowhere"}, {**change, "sentence": sentence, "start": 40, "stop": 41}]  # fmt: skip
    found = import_log(ada, "".join(json.dumps(one) + "\n" for one in others))
    assert (found["imported"], found["skipped"]) == (0, 4)
    assert "the data has different tokens there" in str(found["reasons"])
    assert "the data has different labels there" in str(found["reasons"])
    assert "no sentence has the id 'nowhere'" in str(found["reasons"])
    how = "give a log that a review exported or a fix wrote"
    endless = json.dumps({**change, "sentence": sentence, "stop": 10**12})
    for line in ("[1, 2]", endless):
        assert import_log(ada, line, 400)["error"] == f"line 1 of the log is not a change; {how}"
    assert ada.get("history")["total"] == 0


def test_data_that_changed_is_not_exported(ada: Client, tmp_path: Path) -> None:
    ada.decide(1)
    with (tmp_path / "train.conll").open("ab") as stream:
        stream.write(b"\r\nmore\tO\r\n")
    assert "changed since it was read" in ada.post("export", status=400)["error"]


def test_json_lines_are_exported_in_their_own_format(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    rows = ['{"id": "a", "tokens": ["Delft",  "won"], "ner_tags": [1, 0], "x": 1.50}',
            '{"tokens":["<b>&amp;</b>"],"ner_tags":[2],"id":"b"}']  # fmt: skip
    path.write_text("\n".join(rows))
    corpus = read_corpus(path, ReadOptions(labels=("O", "B-LOC", "B-ORG")))
    data = TrainingData(corpus, LabelSet(("O", "B-LOC", "I-LOC", "B-ORG", "I-ORG"), "iob2"))
    ada = Client(Review("rows", "ada", Decisions(data, Store(tmp_path / "d.sqlite")), tmp_path / "export"))
    ada.post("decisions", {"sentence_number": 0, "start": 0, "stop": 1, "action": "relabel", "labels": ["B-ORG"]})
    body = {"sentence_number": 0, "start": 0, "stop": 2, "action": "relabel", "labels": ["B-ORG", "I-ORG"]}
    assert "no number for the label 'I-ORG'" in ada.post("decisions", body, 400)["error"]
    ada.post("export")
    expected = "\n".join([rows[0].replace("[1, 0]", "[2, 0]"), rows[1]])
    assert (tmp_path / "export" / "train.jsonl").read_text() == expected


@pytest.mark.parametrize("name", ["changes.jsonl", "Changes.JSONL"])
def test_data_with_the_name_of_the_log_keeps_both(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text('{"tokens": ["Delft", "won"], "labels": ["B-LOC", "O"]}\n')
    data = TrainingData(read_corpus(path), LabelSet(("O", "B-LOC"), "iob2"))
    ada = Client(Review("rows", "ada", Decisions(data, Store(tmp_path / "d.sqlite")), tmp_path / "export"))
    ada.post("decisions", {"sentence_number": 0, "start": 0, "stop": 1, "action": "relabel", "labels": ["O"]})
    answer = ada.post("export")
    assert answer["files"] == [f"export/{name}", f"export/{name}.changes.jsonl"]
    found = (tmp_path / "export" / name).read_text()
    assert found == '{"tokens": ["Delft", "won"], "labels": ["O", "O"]}\n'
    assert ada.http.get("/api/export/data").text == found
    assert '"new": ["O"]' in ada.http.get("/api/export/log").text


def test_a_link_to_the_data_is_not_exported_through(ada: Client, tmp_path: Path) -> None:
    before = (tmp_path / "train.conll").read_bytes()
    (tmp_path / "export").mkdir()
    (tmp_path / "export" / "train.conll").symlink_to(tmp_path / "train.conll")
    ada.decide(1)
    assert "is the data to correct, which is never overwritten" in ada.post("export", status=400)["error"]
    assert (tmp_path / "train.conll").read_bytes() == before


@pytest.mark.parametrize("has_log", [True, False])
def test_nothing_is_written_or_read_through_a_link_in_the_place_of_the_folder(
    ada: Client, tmp_path: Path, has_log: bool
) -> None:
    """A project may come from anybody, and its data may be called as a file of its reader."""
    private = tmp_path / "elsewhere" / ".ssh"
    private.mkdir(parents=True)
    (private / "train.conll").write_text("precious")
    if has_log:
        (private / "changes.jsonl").write_text("")
    before = private.stat().st_ino
    (tmp_path / "export").symlink_to(private)
    ada.decide(1)
    assert "export: is a link, and nothing is written through it; remove it" in ada.post("export", status=400)["error"]
    assert ada.http.get("/api/export/data").status_code == 404
    assert ((private / "train.conll").read_text(), private.stat().st_ino) == ("precious", before)
    (tmp_path / "export").unlink()
    ada.post("export")


def test_a_folder_of_somebody_else_is_not_exported_to(ada: Client, tmp_path: Path) -> None:
    (tmp_path / "export").mkdir()
    (tmp_path / "export" / "train.conll").write_text("precious")
    assert "was not written by tagtrace" in ada.post("export", status=400)["error"]
    assert (tmp_path / "export" / "train.conll").read_text() == "precious"


def test_a_linked_file_in_the_folder_is_replaced_and_what_it_leads_to_stays(ada: Client, tmp_path: Path) -> None:
    ada.post("export")
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "precious").chmod(0o666)
    (tmp_path / "export" / "train.conll").unlink()
    (tmp_path / "export" / "train.conll").symlink_to(tmp_path / "precious")
    assert ada.http.get("/api/export/data").status_code == 404
    assert export(ada)[0] == (tmp_path / "train.conll").read_bytes()
    assert (tmp_path / "export" / "train.conll").stat().st_mode & 0o022 == 0
    assert (tmp_path / "precious").read_text() == "precious"


@pytest.mark.parametrize("can_exchange", [True, False])
def test_a_kill_at_any_step_leaves_data_and_log_of_one_export(ada: Client, can_exchange: bool) -> None:
    folder, decisions = ada.review.export, ada.review.decisions
    write(decisions, folder)
    (folder / "notes[1].txt").write_text("precious")
    (folder / "train.conll").chmod(0o600)

    def files() -> tuple[bytes, bytes]:
        return (folder / "train.conll").read_bytes(), (folder / "changes.jsonl").read_bytes()

    old = files()
    ada.decide(1)
    write(decisions, folder)
    new = files()
    assert old[0] != new[0]
    assert old[1] != new[1]

    def prepare() -> None:
        for name, content in zip(("train.conll", "changes.jsonl"), old, strict=True):
            (folder / name).write_bytes(content)

    for _ in every_kill(prepare, lambda: write(decisions, folder), stays_dead=True, can_exchange=can_exchange):
        restore_folder(folder)
        assert files() in (old, new)
        write(decisions, folder)
        assert files() == new
        assert (folder / "notes[1].txt").read_text() == "precious"
        assert (folder / "train.conll").stat().st_mode & 0o777 == 0o600
        assert [path.name for path in folder.parent.iterdir() if path.name.startswith(".")] == []


def test_a_folder_is_exported_as_a_folder_and_downloaded_as_a_zip_file(tmp_path: Path) -> None:
    text = "Club0 beat Delft .\nClub1 won ."
    corpus = made_brat(tmp_path / "corpus", text)
    data = TrainingData(corpus, LABELS, findings=[])
    review = Review("folder", "ada", Decisions(data, Store(tmp_path / "decisions.sqlite")), tmp_path / "export")
    client = Client(review)
    body = {"sentence_number": 0, "start": 0, "stop": 1, "action": "relabel", "labels": ["B-ORG"]}
    client.post("decisions", body)
    for _ in range(2):
        answer = client.post("export")
        assert (answer["files"], answer["changed"]) == (["export/corpus", "export/changes.jsonl"], 1)
        (review.export / "corpus" / "mine.md").write_text("stays")
    assert (review.export / "corpus" / "sub" / "d.ann").read_text() == "T1\tORG 0 5\tClub0\n"
    assert (review.export / "corpus" / "mine.md").read_text() == "stays"
    response = client.http.get("/api/export/data")
    with zipfile.ZipFile(io.BytesIO(response.content)) as archive:
        assert archive.read("corpus/sub/d.txt").decode() == text
    assert (tmp_path / "corpus" / "sub" / "d.ann").read_text() == "T1\tLOC 0 5\tClub0\n"
    again = replay(corpus, read_changes(review.export / "changes.jsonl"))
    write_corpus(again.corpus, tmp_path / "copy")
    assert (tmp_path / "copy" / "sub" / "d.ann").read_text() == "T1\tORG 0 5\tClub0\n"


def made_brat(folder: Path, text: str) -> Corpus:
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "d.txt").write_text(text)
    (folder / "sub" / "d.ann").write_text("T1\tLOC 0 5\tClub0\n")
    return read_corpus(folder)


def some_changes(client: Client, count: int) -> str:
    """A log of changes of the tokens of one sentence."""
    sentence = client.review.data.sentences[0]
    changes = [
        {"rank": 0, "sentence": sentence.id, "line": 3, "start": t, "stop": t + 1, "tokens": [sentence.tokens[t]],
         "given": [sentence.labels[t]], "new": ["B-ORG"]} for t in (number % 6 for number in range(count))
    ]  # fmt: skip
    return "".join(json.dumps(one) + "\n" for one in changes)


def test_an_import_looks_once_at_a_sentence(ada: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once for each line, a log of one megabyte kept everybody waiting for minutes."""
    wanted, calls = Ledger.wanted, list[int]()

    def counted(ledger: Ledger, number: int, besides: Container[Place] = ()) -> dict[int, tuple[str, Decision]]:
        calls.append(number)
        return wanted(ledger, number, besides)

    monkeypatch.setattr(Ledger, "wanted", counted)
    assert import_log(ada, some_changes(ada, 60)) == {"imported": 60, "skipped": 0, "reasons": []}
    assert len(calls) <= 6  # the log was sent twice; an import looks at what is decided, and checks the labels


def test_a_log_with_too_many_changes_is_refused(ada: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_TOGETHER", 6)
    log = some_changes(ada, 7)
    assert import_log(ada, log, 400)["error"] == "the log has more than 6 changes; import it in parts"
    assert ada.post("import", {"log": log.split("\n", 1)[1]})["imported"] == 6
