"""Findings applied to data: which are chosen, what changes, what is logged, written and refused."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tagtrace._checks import DataError, OptionError
from tagtrace._table import Table
from tagtrace.data import Corpus, ReadOptions, Sentence, read_corpus, violations, write_corpus
from tagtrace.findings.finding import Finding
from tagtrace.findings.fix import Change, choose_findings, default_log, fix, read_changes, replay, write_changes

TEXT = """-DOCSTART- O

Ana B-PER
Bo I-PER
met O
Cy B-PER

Delft B-LOC
won O

-DOCSTART- O

In O
Ede B-LOC
Fox B-ORG
Ltd I-ORG
Inc I-ORG
"""


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    path = tmp_path / "train.conll"
    path.write_text(TEXT)
    return read_corpus(path)


def about(corpus: Corpus, id_: str, start: int, stop: int, proposed: str, rank: int = 1) -> Finding:
    """A finding of a sentence, or of a document, that proposes these labels."""
    members = [s for s in corpus.sentences if id_ in (s.id, s.document)]
    tokens = tuple(token for s in members for token in s.tokens)[start:stop]
    given = tuple(label for s in members for label in s.labels)[start:stop]
    line = [line for s in members for line in s.lines][start]
    return Finding(
        rank, id_, members[0].document, 0, start, stop, line, tokens, (), (), given, tuple(proposed.split()), 1.0, 0.9
    )


def labels_of(corpus: Corpus) -> list[str]:
    return [" ".join(sentence.labels) for sentence in corpus.sentences]


def test_a_change_is_made_written_and_logged(corpus: Corpus, tmp_path: Path) -> None:
    before = labels_of(corpus)
    fixed = fix(corpus, [about(corpus, "train-0:1", 0, 1, "B-ORG", rank=3)])
    assert labels_of(fixed.corpus) == ["B-PER I-PER O B-PER", "B-ORG O", "O B-LOC B-ORG I-ORG I-ORG"]
    assert labels_of(corpus) == before
    (change,) = fixed.changes
    assert change == Change(3, "train-0:1", 8, 0, 1, ("Delft",), ("B-LOC",), ("B-ORG",))
    assert write_corpus(fixed.corpus, tmp_path / "out.conll") == 1
    assert (tmp_path / "out.conll").read_text() == TEXT.replace("Delft B-LOC", "Delft B-ORG")


def test_findings_of_whole_documents_are_found_by_the_documents_name(corpus: Corpus, tmp_path: Path) -> None:
    """A segment may reach over the end of a sentence of the file; there it is cut."""
    fixed = fix(corpus, [about(corpus, "train-0", 3, 5, "B-LOC I-LOC")])
    assert labels_of(fixed.corpus)[:2] == ["B-PER I-PER O B-LOC", "B-LOC O"]
    (change,) = fixed.changes
    assert (change.start, change.stop, change.given, change.new) == (3, 5, ("B-PER", "B-LOC"), ("B-LOC", "B-LOC"))
    assert (change.line, change.repaired) == (6, 1)
    assert write_corpus(fixed.corpus, tmp_path / "out.conll") == 1


@pytest.mark.parametrize(
    ("start", "stop", "proposed", "expected", "changed"),
    [
        (2, 3, "B-LOC", "O B-LOC B-LOC B-ORG I-ORG", (2, 4, "B-LOC B-ORG", 1)),  # the rest becomes a segment
        (2, 3, "O", "O B-LOC O B-ORG I-ORG", (2, 4, "O B-ORG", 1)),
        (3, 4, "O", "O B-LOC B-ORG O B-ORG", (3, 5, "O B-ORG", 1)),
        (2, 3, "I-LOC", "O B-LOC I-LOC B-ORG I-ORG", (2, 4, "I-LOC B-ORG", 1)),  # joins the segment before
        (0, 1, "I-PER", "B-PER B-LOC B-ORG I-ORG I-ORG", (0, 1, "B-PER", 1)),  # continues nothing
        (4, 5, "O", "O B-LOC B-ORG I-ORG O", (4, 5, "O", 0)),
        (1, 3, "B-ORG I-ORG", "O B-ORG I-ORG I-ORG I-ORG", (1, 3, "B-ORG I-ORG", 0)),
    ],
)
def test_labels_stay_well_formed_and_repairs_are_logged(
    corpus: Corpus, start: int, stop: int, proposed: str, expected: str, changed: tuple[int, int, str, int]
) -> None:
    fixed = fix(corpus, [about(corpus, "train-1:0", start, stop, proposed)])
    assert labels_of(fixed.corpus)[2] == expected
    (change,) = fixed.changes
    assert (change.start, change.stop, " ".join(change.new), change.repaired) == changed
    assert change.given == corpus.sentences[2].labels[change.start : change.stop]
    assert change.tokens == corpus.sentences[2].tokens[change.start : change.stop]


def test_a_repair_for_two_findings_is_left_to_the_one_that_owns_the_token(corpus: Corpus) -> None:
    first, second = about(corpus, "train-1:0", 2, 3, "B-LOC"), about(corpus, "train-1:0", 3, 5, "I-ORG O", rank=2)
    fixed = fix(corpus, [second, first])
    assert labels_of(fixed.corpus)[2] == "O B-LOC B-LOC B-ORG O"
    assert [(c.rank, c.start, c.stop, c.repaired) for c in fixed.changes] == [(1, 2, 3, 0), (2, 3, 5, 1)]


def test_overlapping_findings_that_agree_are_both_made(corpus: Corpus) -> None:
    pair = [about(corpus, "train-1:0", 2, 4, "B-LOC I-LOC"), about(corpus, "train-1:0", 3, 5, "I-LOC I-LOC", rank=2)]
    fixed = fix(corpus, pair)
    assert labels_of(fixed.corpus)[2] == "O B-LOC B-LOC I-LOC I-LOC"
    assert len(fixed.changes) == 2
    assert replay(corpus, fixed.changes).corpus == fixed.corpus


def test_labels_that_are_already_there_are_not_a_change(corpus: Corpus) -> None:
    fixed = fix(corpus, [about(corpus, "train-0:1", 0, 1, "B-LOC")])
    assert fixed.changes == ()
    assert fixed.corpus == corpus
    assert fix(corpus, []).corpus == corpus


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ana I-PER\nBo I-PER\n", "Ana I-PER\nBo B-PER\n"),  # iob1
        ("Ana B-PER\nBo E-PER\n", "Ana S-PER\nBo S-PER\n"),
        ('{"tokens": ["Ana", "Bo"],  "tags": ["B-PER", "I-PER"], "x": 1}\n',
         '{"tokens": ["Ana", "Bo"],  "tags": ["B-PER", "B-PER"], "x": 1}\n'),
    ],
    ids=["iob1", "bioes", "jsonl"],
)  # fmt: skip
def test_the_files_own_scheme_and_format_stay(tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "a.txt").write_text(text)
    corpus = read_corpus(tmp_path / "a.txt")
    fixed = fix(corpus, [about(corpus, corpus.sentences[0].id, 1, 2, "B-PER")])
    write_corpus(fixed.corpus, tmp_path / "b.txt")
    assert (tmp_path / "b.txt").read_text() == expected


# Choosing


@pytest.fixture
def ranked(corpus: Corpus) -> list[Finding]:
    """Six findings, not in order: ranks 1 to 6, patterns 1 2 1 2 1 and none, confidence falling from 0.9 to 0.4."""
    one = about(corpus, "train-0:1", 0, 1, "B-ORG")
    numbers = zip(range(1, 7), (1, 2, 1, 2, 1, None), strict=True)
    found = [replace(one, rank=rank, pattern=number, confidence=1 - rank / 10) for rank, number in numbers]
    return [found[place] for place in (3, 0, 5, 1, 4, 2)]


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ({"top": 2}, [1, 2]),
        ({"top": 100}, [1, 2, 3, 4, 5, 6]),
        ({"patterns": [1]}, [1, 3, 5]),
        ({"patterns": [1, 2]}, [1, 2, 3, 4, 5]),
        ({"min_confidence": 0.7}, [1, 2, 3]),
        ({"min_confidence": 0}, [1, 2, 3, 4, 5, 6]),
        ({"ranks": (6, 2)}, [2, 6]),
        ({"patterns": [1], "top": 3}, [1, 3]),  # of the first three, those of pattern 1
        ({"patterns": [2], "min_confidence": 0.65, "ranks": [2, 4, 6]}, [2]),
    ],
)
def test_chosen_findings_meet_all_conditions(
    ranked: list[Finding], conditions: dict[str, Any], expected: list[int]
) -> None:
    assert [one.rank for one in choose_findings(ranked, **conditions)] == expected


@pytest.mark.parametrize(
    ("conditions", "message"),
    [
        ({}, "^no finding is chosen; give top, patterns, min_confidence or ranks$"),
        ({"top": 0}, "^top 0: must be at least 1$"),
        ({"min_confidence": 1.5}, "^min_confidence 1.5: must be from 0 to 1$"),
        ({"patterns": [1, 3]}, "^pattern 3: no finding belongs to it"),
        ({"ranks": [1, 7]}, "^rank 7: no finding has it"),
        ({"patterns": [2], "top": 1}, "^no finding meets all conditions; drop one of them$"),
        ({"min_confidence": 0.95}, "^no finding meets all conditions"),
    ],
)
def test_conditions_that_cannot_be_met_are_refused(
    ranked: list[Finding], conditions: dict[str, Any], message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        choose_findings(ranked, **conditions)


def test_findings_of_two_audits_are_refused(ranked: list[Finding]) -> None:
    with pytest.raises(DataError, match="2 findings have the rank 4; give the findings of one audit"):
        choose_findings([*ranked, ranked[0]], top=9)


# Saving


def test_save_writes_the_data_and_the_log_beside_it(corpus: Corpus, tmp_path: Path) -> None:
    fixed = fix(corpus, [about(corpus, "train-0:1", 0, 1, "B-ORG"), about(corpus, "train-1:0", 2, 3, "O", rank=2)])
    out = tmp_path / "new" / "fixed.conll"
    assert fixed.save(out) == 3
    assert out.read_text() == TEXT.replace("Delft B-LOC", "Delft B-ORG").replace("Fox B-ORG", "Fox O").replace(
        "Ltd I-ORG", "Ltd B-ORG"
    )
    assert default_log(out) == tmp_path / "new" / "fixed.conll.changes.jsonl"
    assert tuple(read_changes(default_log(out))) == fixed.changes
    assert sorted(path.name for path in out.parent.iterdir()) == ["fixed.conll", "fixed.conll.changes.jsonl"]
    fixed.save(tmp_path / "other.conll", tmp_path / "log.jsonl")
    assert (tmp_path / "log.jsonl").read_bytes() == default_log(out).read_bytes()
    assert not default_log(tmp_path / "other.conll").exists()


def test_save_never_replaces_the_data(corpus: Corpus, tmp_path: Path) -> None:
    fixed = fix(corpus, [about(corpus, "train-0:1", 0, 1, "B-ORG")])
    (tmp_path / "link.conll").symlink_to(corpus.path)
    for path in (corpus.path, tmp_path / "link.conll", tmp_path / "new" / ".." / "train.conll"):
        for overwrite in (False, True):
            with pytest.raises(OptionError, match="is the data to fix, which is never overwritten"):
                fixed.save(path, overwrite=overwrite)
            with pytest.raises(OptionError, match="is the data to fix, which is never overwritten"):
                fixed.save(tmp_path / "out.conll", path, overwrite=overwrite)
    assert corpus.path.read_text() == TEXT
    assert not (tmp_path / "out.conll").exists()


def test_save_replaces_other_files_only_if_told_to(corpus: Corpus, tmp_path: Path) -> None:
    fixed = fix(corpus, [about(corpus, "train-0:1", 0, 1, "B-ORG")])
    out = tmp_path / "out.conll"
    for path in (out, default_log(out)):
        path.write_text("mine")
        with pytest.raises(OptionError, match=rf"{path.name}: exists already; choose another file"):
            fixed.save(out)
        assert path.read_text() == "mine"
        path.unlink()
    out.write_text("mine")
    assert fixed.save(out, overwrite=True) == 1
    assert out.read_text() == TEXT.replace("Delft B-LOC", "Delft B-ORG")
    with pytest.raises(OptionError, match="cannot be both"):
        fixed.save(tmp_path / "same.conll", tmp_path / "same.conll")


def test_description_and_records(corpus: Corpus) -> None:
    wanted = [
        about(corpus, "train-0:1", 0, 1, "B-ORG"),
        replace(about(corpus, "train-1:0", 2, 3, "O", rank=2), confidence=0.5),
        about(corpus, "train-0:0", 0, 2, "B-PER I-PER", rank=3),
    ]
    fixed = fix(corpus, wanted)
    table, *notes = fixed.describe()
    assert isinstance(table, Table)
    assert table.rows == (("LOC", "ORG", "1"), ("ORG", "ORG", "1"))
    assert notes == [
        "note: 1 of the proposals have a confidence of at most 0.5; set a minimum confidence to leave them out",
        "note: 1 of the proposals are the labels that are already in the data",
        "note: 1 of the changes also replaced a B- or I- that was not proposed, to keep segments well formed "
        "(the first: rank 2, line 15)",
    ]
    assert str(fixed).splitlines()[0] == "changes"
    assert "<table" in fixed._repr_html_()
    assert [(one["rank"], one["new"], one["repaired"]) for one in fixed.to_records()] == [
        (1, ("B-ORG",), 0), (2, ("O", "B-ORG"), 1)
    ]  # fmt: skip
    assert (fixed.num_asked, fixed.num_unlikely) == (3, 1)


# The log


def test_a_log_repeats_a_fix_in_a_copy_with_another_name(corpus: Corpus, tmp_path: Path) -> None:
    """A CoNLL file names its sentences after itself: in a copy, sentences are found by lines and tokens."""
    wanted = [about(corpus, "train-1:0", 2, 3, "B-LOC"), about(corpus, "train-0", 3, 5, "O I-LOC", rank=2)]
    fixed = fix(corpus, wanted)
    write_changes(fixed.changes, tmp_path / "log.jsonl")
    changes = read_changes(tmp_path / "log.jsonl")
    assert tuple(changes) == fixed.changes
    assert replay(corpus, changes) == fixed
    (tmp_path / "copy.conll").write_text(TEXT)
    copy = replay(read_corpus(tmp_path / "copy.conll"), changes)
    assert labels_of(copy.corpus) == labels_of(fixed.corpus)
    assert copy.changes == fixed.changes


def test_a_copy_with_other_lines_is_refused(corpus: Corpus, tmp_path: Path) -> None:
    fixed = fix(corpus, [about(corpus, "train-0:1", 0, 1, "B-ORG")])
    (tmp_path / "copy.conll").write_text("New O\n\n" + TEXT)
    with pytest.raises(DataError, match="no sentence has the id 'train-0:1', and line 8 does not have its tokens"):
        replay(read_corpus(tmp_path / "copy.conll"), fixed.changes)


def test_a_copy_in_json_lines_without_ids(tmp_path: Path) -> None:
    rows = [{"tokens": ["so", "so"], "tags": ["O", "O"]}, {"tokens": ["an", "an"], "tags": ["O", "O"]}]
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    first, second = (read_corpus(tmp_path / name) for name in ("a.jsonl", "b.jsonl"))
    fixed = fix(first, [about(first, "a:1", 1, 2, "B-X")])
    assert labels_of(replay(second, fixed.changes).corpus) == ["O O", "O B-X"]


def test_a_file_that_is_not_a_log_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    good = Change(1, "s", 1, 0, 1, ("a",), ("O",), ("B-X",)).to_line()
    for line in ("{", '{"rank": 1}', "[]", "[" * 100_000, good.replace('"start": 0', '"start": "0"')):
        path.write_text(f"{good}\n{line}\n")
        with pytest.raises(DataError, match=r"log.jsonl, line 2: .*give the log of a fix"):
            read_changes(path)
    with pytest.raises(DataError, match="cannot be read"):
        read_changes(tmp_path / "none.jsonl")


@pytest.mark.parametrize(
    "change",
    [
        {"stop": 10**12}, {"start": -(10**12)}, {"start": 1}, {"start": -1, "stop": 0}, {"stop": 2}, {"new": []},
        {"tokens": ["a", "b"]}, {"given": []}, {"stop": 0, "tokens": [], "given": [], "new": []},
    ],
)  # fmt: skip
def test_a_change_that_is_not_about_its_tokens_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    good = json.loads(Change(1, "s", 1, 0, 1, ("a",), ("O",), ("B-X",)).to_line())
    (tmp_path / "log.jsonl").write_text(json.dumps({**good, **change}))
    with pytest.raises(DataError, match=r"log.jsonl, line 1: finding 1 .*: needs a token, a given and a new label"):
        read_changes(tmp_path / "log.jsonl")


EDIT = st.tuples(st.integers(0, 4), st.sampled_from(["O", "B-X", "I-X", "B-Y", "I-Y"]))


@given(edits=st.lists(EDIT, max_size=4, unique_by=lambda edit: edit[0]))
def test_any_proposals_leave_well_formed_labels_and_a_log_that_repeats_them(edits: list[tuple[int, str]]) -> None:
    given_labels = ("B-X", "I-X", "I-X", "O", "B-Y")
    sentence = Sentence(("a", "b", "c", "d", "e"), given_labels, "s", lines=range(1, 6))
    corpus = Corpus(Path("train"), (sentence,), "iob2", ReadOptions(), "")
    wanted = [
        Change(rank, "s", t + 1, t, t + 1, (sentence.tokens[t],), (given_labels[t],), (label,))
        for rank, (t, label) in enumerate(edits, start=1)
    ]
    fixed = replay(corpus, wanted)
    (labels,) = (s.labels for s in fixed.corpus.sentences)
    assert violations(labels, "iob2") == []
    for t, label in edits:
        assert labels[t][1:] == label[1:]  # the type is the one proposed, B- or I- may be repaired
    logged = {t for change in fixed.changes for t in range(change.start, change.stop)}
    assert all(t in logged for t in range(5) if labels[t] != given_labels[t])
    again = replay(corpus, fixed.changes)
    assert (again.corpus, again.changes) == (fixed.corpus, fixed.changes)
    assert again.num_asked == len(fixed.changes) <= fixed.num_asked == len(edits)


# Refusals


def test_findings_of_other_data_are_refused(corpus: Corpus) -> None:
    one = about(corpus, "train-0:1", 0, 1, "B-ORG")
    known = about(corpus, "train-0:0", 0, 1, "O", rank=2)

    def refused(message: str, **changed: object) -> None:
        with pytest.raises(DataError, match=message):
            fix(corpus, [known, replace(one, **changed)])  # type: ignore[arg-type]

    refused(r"train.conll: finding 1 \(train-9:9 0:1\): no sentence has the id 'train-9:9'", sentence="train-9:9")
    refused("the tokens there are 'Delft', not 'Breda'", tokens=("Breda",))
    refused(r"the labels there are B-LOC, not B-PER \(the data has changed\)", given=("B-PER",))
    refused("the sentence has 2 tokens", start=5, stop=6)
    refused("each needs a given and a proposed label", proposed=("B-ORG", "I-ORG"))
    refused("the new label 'Q-ORG' does not belong to the scheme iob2", proposed=("Q-ORG",))


def test_data_that_is_fixed_already_is_refused(corpus: Corpus) -> None:
    one = about(corpus, "train-0:1", 0, 1, "B-ORG")
    with pytest.raises(DataError, match=r"the labels there are B-ORG, not B-LOC \(it is already fixed\)"):
        fix(fix(corpus, [one]).corpus, [one])


def test_findings_that_contradict_each_other_are_refused(corpus: Corpus) -> None:
    pair = [about(corpus, "train-1:0", 2, 4, "B-LOC I-LOC"), about(corpus, "train-1:0", 3, 4, "O", rank=2)]
    message = r"finding 2 \(train-1:0 3:4\) and finding 1 \(train-1:0 2:4\) want O and I-LOC for the same token"
    with pytest.raises(DataError, match=message):
        fix(corpus, pair)


def test_a_name_that_two_sentences_have_is_refused(corpus: Corpus) -> None:
    doubled = corpus.with_sentences([*corpus.sentences, corpus.sentences[0]])
    with pytest.raises(DataError, match="2 sentences or documents have the id 'train-0:0'"):
        fix(doubled, [about(corpus, "train-0:0", 0, 1, "O")])
    fix(doubled, [about(corpus, "train-0:1", 0, 1, "O")])
    with pytest.raises(DataError, match="2 sentences or documents have the id 'train-0'"):
        fix(doubled, [about(corpus, "train-0", 0, 1, "O")])


def test_data_without_labels_is_refused(corpus: Corpus) -> None:
    bare = corpus.with_sentences(sentence.with_labels(()) for sentence in corpus.sentences)
    with pytest.raises(DataError, match="sentence 'train-0:0' has no labels"):
        fix(bare, [about(corpus, "train-0:0", 0, 1, "O")])


@pytest.mark.parametrize("name", ["rank", "line", "repaired"])
@pytest.mark.parametrize("number", [2**53 + 1, 2**63, -1])
def test_a_log_with_a_number_that_nothing_can_hold_is_refused(tmp_path: Path, name: str, number: int) -> None:
    change = Change(1, "s", 1, 0, 1, ("a",), ("O",), ("B-LOC",))
    (tmp_path / "log").write_text(json.dumps({**asdict(change), name: number}))
    with pytest.raises(DataError, match=rf"log, line 1: {name} must be from 0 to 2"):
        read_changes(tmp_path / "log")
