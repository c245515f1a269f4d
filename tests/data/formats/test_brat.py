"""brat standoff: folders are read and written back; only the lines of entities that were fixed change."""

from __future__ import annotations

import os
import re
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tagtrace import Corpus, ReadOptions, Segment, read_corpus, summarise, write_corpus
from tagtrace._checks import DataError, OptionError
from tagtrace.data import segments
from tagtrace.data.marked.tokens import tokenise
from tests.data.formats.brat_standoff import check_relabelled, files_of, parse
from tests.fuzz.brat_folders import LABELS, brat_files

NUM_CORPORA = 150
TEXT = "Ada Lovelace joined Acme Corp in Oslo.\nShe sang.\n"
ANN = "T1\tPER 0 12\tAda Lovelace\nR1\tWorks Arg1:T1 Arg2:T3\nT3\tORG 20 29\tAcme Corp\n#1\tAnnotatorNotes T3\tsure\n"


def made(folder: Path, files: dict[str, bytes | str]) -> Path:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data if isinstance(data, bytes) else data.encode())
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return made(
        tmp_path / "corpus",
        {"d1.txt": TEXT, "d1.ann": ANN, "sub/d2.txt": "Bo ran.", "sub/d2.ann": "", "annotation.conf": "[entities]\n"},
    )


def relabelled(corpus: Corpus, number: int, labels: str) -> Corpus:
    sentences = list(corpus.sentences)
    sentences[number] = sentences[number].with_labels(labels.split())
    return corpus.with_sentences(sentences)


def ann_after(folder: Path, labels: str, number: int = 0) -> str:
    """The first ``.ann`` after a sentence got other labels."""
    out = folder.with_name("fixed")
    write_corpus(relabelled(read_corpus(folder), number, labels), out)
    entities, _ = parse((out / "d1.ann").read_bytes(), (out / "d1.txt").read_bytes())
    assert entities is not None
    return (out / "d1.ann").read_bytes().decode()


def test_a_folder_is_a_corpus(folder: Path) -> None:
    corpus = read_corpus(folder)
    assert (corpus.path, corpus.format, corpus.scheme) == (folder, "brat", "iob2")
    assert corpus.documents == ("d1", "sub/d2")
    first, second, third = corpus.sentences
    assert first.tokens == ("Ada", "Lovelace", "joined", "Acme", "Corp", "in", "Oslo", ".")
    assert first.labels == ("B-PER", "I-PER", "O", "B-ORG", "I-ORG", "O", "O", "O")
    assert (first.id, second.id, third.id) == ("d1:0", "d1:1", "sub/d2:0")
    assert (first.path, third.path) == (str(folder / "d1.ann"), str(folder / "sub" / "d2.ann"))
    assert first.lines == (1, 1, 1, 3, 3, 1, 1, 1)
    assert corpus.skipped == ((0, "d1.ann: its 2 lines of other kinds (#, R) are kept and not looked at"),)


def test_what_is_odd_is_reported_and_kept(tmp_path: Path) -> None:
    ann = "T1\tORG 0 4;10 14\tAcme Corp\nT2\tPER 1 4\tcme\nT3\tPER 5 5\t\n"
    folder = made(tmp_path / "c", {"d.txt": "Acme Big. Corp", "d.ann": ann})
    corpus = read_corpus(folder)
    assert {label for one in corpus.sentences for label in one.labels} == {"O"}
    lines = "\n".join(summarise(corpus).oddities())
    assert "d.ann: T1, the ORG 'Acme Corp' in line 1, is in 2 pieces" in lines
    assert "d.ann: the PER 'cme' (characters 1 to 4, line 2) does not begin and end with tokens" in lines
    assert "T3, the PER '' in line 3, is empty" in lines
    write_corpus(relabelled(corpus, 0, "B-LOC O O"), tmp_path / "out")
    assert (tmp_path / "out" / "d.ann").read_text() == f"{ann}T4\tLOC 0 4\tAcme\n"


def test_only_the_line_of_the_entity_changes(folder: Path) -> None:
    assert ann_after(folder, "B-ORG I-ORG O B-ORG I-ORG O O O") == ANN.replace("T1\tPER", "T1\tORG")
    assert ann_after(folder, "O B-PER O B-ORG I-ORG O O O") == ANN.replace("0 12\tAda Lovelace", "4 12\tLovelace")
    new = ann_after(folder, "B-PER I-PER O B-ORG I-ORG O B-LOC O")
    assert new == ANN.replace("Acme Corp\n", "Acme Corp\nT4\tLOC 33 37\tOslo\n")
    fixed = files_of(folder.with_name("fixed"))
    assert {name for name, data in files_of(folder).items() if fixed[name] != data} == {"d1.ann"}


def test_line_ends_stay(tmp_path: Path) -> None:
    text = "Ada\r\nLovelace sang in\nOslo"
    ann = "\ufeffT7\tPER 0 13\tAda  Lovelace\r\n#1\tAnnotatorNotes T7\tx\r\nT2\tX 14 18\tsang"
    folder = made(tmp_path / "c", {"d1.txt": text, "d1.ann": ann})
    write_corpus(relabelled(read_corpus(folder), 0, "B-LOC I-LOC B-X B-Y"), tmp_path / "out")
    after = (tmp_path / "out" / "d1.ann").read_bytes().decode()
    assert after == ann.replace("PER", "LOC") + "\r\nT8\tY 19 21\tin"


def test_an_entity_without_others_is_removed(folder: Path) -> None:
    (folder / "d1.ann").write_text("T1\tPER 0 12\tAda Lovelace\nT3\tORG 20 29\tAcme Corp\n")
    assert ann_after(folder, "O O O B-ORG I-ORG O O O") == "T3\tORG 20 29\tAcme Corp\n"
    (folder / "d1.ann").write_text("")
    assert ann_after(folder, "O O O B-ORG O O O O").startswith("T1\tORG 20 24\tAcme\n")


def test_an_entity_that_others_are_about_is_not_removed(folder: Path) -> None:
    corpus = relabelled(read_corpus(folder), 0, "B-PER I-PER O O O O O O")
    with pytest.raises(DataError, match=r"d1\.ann, lines 2, 4: about 'T3', which would be removed; remove those lines"):
        write_corpus(corpus, folder.with_name("out"))
    assert not folder.with_name("out").exists()


def test_the_type_of_an_event_stays_that_of_its_trigger(folder: Path) -> None:
    (folder / "d1.ann").write_text("T1\tJoin 13 19\tjoined\nE1\tJoin:T1\n")
    corpus = relabelled(read_corpus(folder), 0, "O O B-Leave O O O O O")
    with pytest.raises(DataError, match=r"d1\.ann, line 2: about 'T1', which is the trigger of an event"):
        write_corpus(corpus, folder.with_name("out"))


def test_labels_that_brat_cannot_have(folder: Path) -> None:
    sentences = list(read_corpus(folder).sentences)
    sentences[0] = sentences[0].with_labels(("B-a b", *["O"] * 7))
    with pytest.raises(DataError, match="empty or contains spaces"):
        write_corpus(read_corpus(folder).with_sentences(sentences), folder.with_name("out"))


@pytest.mark.parametrize(
    ("ann", "reason"),
    [
        ("T1\tPER 0 3\tBob\n", "T1 is 'Bob', but the text there is 'Ada'; the .ann and the .txt are out of step"),
        ("T1\tPER 0 99\tAda\n", "T1 is from 0 to 99, but the text has 49 characters"),
        ("T1\tPER 3 0\tAda\n", "from 3 to 0"),
        ("T1 PER 0 3 Ada\n", "line 1: found 'T1 PER 0 3 Ada', expected an id, a tab"),
        ("T1\tPER 0 3\n", "expected an id"),
        ("T1\tPER 0 3\tAda\nT1\tPER 0 3\tAda\n", "line 2: 'T1' is the id of an earlier line too"),
        ("\nhello\n", "line 2: found 'hello', expected an id and a tab"),
        (b"T1\tP\xff 0 3\tAda", "line 1: byte 4 is not UTF-8"),
        ("T1\tPER 0 " + "9" * 5000 + "\tAda\n", "line 1: found"),
    ],
)
def test_damaged_pairs_are_refused_with_one_line(tmp_path: Path, ann: bytes | str, reason: str) -> None:
    folder = made(tmp_path / "c", {"d1.txt": TEXT, "d1.ann": ann})
    with pytest.raises(DataError, match=re.escape(reason)) as caught:
        read_corpus(folder)
    assert str(caught.value).startswith(str(folder / "d1.ann"))


def test_line_ends_of_the_text_that_were_changed_are_suspected(tmp_path: Path) -> None:
    folder = made(tmp_path / "c", {"d.txt": "Ada\r\nBob", "d.ann": "T1\tPER 4 7\tBob\n"})
    with pytest.raises(DataError, match="perhaps because line ends"):
        read_corpus(folder)


def test_neighbours(tmp_path: Path, folder: Path) -> None:
    """What is no brat corpus, or only a part of one."""
    with pytest.raises(DataError, match=r"d\.ann: has no text d\.txt beside it"):
        read_corpus(made(tmp_path / "a", {"d.ann": ""}))
    with pytest.raises(DataError, match=r"Is a directory, without files that end with \.ann"):
        read_corpus(made(tmp_path / "b", {"train.conll": "a O\n"}))
    with pytest.raises(DataError, match=r"has no files that end with \.ann"):
        read_corpus(tmp_path / "b", ReadOptions(format="brat"))
    with pytest.raises(DataError, match="is a file, but brat standoff is a folder"):
        read_corpus(folder / "d1.ann")
    for name in ("conll", "jsonl", "doccano"):
        with pytest.raises(DataError, match="Is a directory"):
            read_corpus(folder, ReadOptions(format=name))
    assert read_corpus(tmp_path / "b" / "train.conll").format == "conll"


def test_hidden_files_are_no_part_of_it(folder: Path, tmp_path: Path) -> None:
    before = read_corpus(folder)
    made(folder, {".stats_cache": b"\0", ".git/x.ann": b"\0"})
    assert read_corpus(folder).fingerprint == before.fingerprint
    write_corpus(before, tmp_path / "out")
    assert not (tmp_path / "out" / ".stats_cache").exists()


def test_every_file_is_in_the_fingerprint(folder: Path) -> None:
    def prints() -> str:
        return read_corpus(folder).fingerprint

    found = [prints()]
    (folder / "annotation.conf").write_text("[entities]\nPER\n")
    found.append(prints())
    (folder / "annotation.conf").rename(folder / "annotations.conf")
    found.append(prints())
    (folder / "empty").write_text("")
    found.append(prints())
    assert len(set(found)) == 4


def test_a_folder_that_changed_is_not_written(folder: Path, tmp_path: Path) -> None:
    corpus = read_corpus(folder)
    (folder / "new.txt").write_text("x")
    with pytest.raises(DataError, match="the folder changed since it was read"):
        write_corpus(corpus, tmp_path / "out")


def test_where_a_copy_may_be(folder: Path, tmp_path: Path) -> None:
    corpus, out = read_corpus(folder), tmp_path / "out"
    for target in (folder, folder / "copy", folder / "sub"):
        with pytest.raises(OptionError, match=r"never (overwritten|changed)"):
            write_corpus(corpus, target)
    with pytest.raises(OptionError, match="in this folder"):
        write_corpus(corpus, tmp_path)
    write_corpus(corpus, out)
    write_corpus(relabelled(corpus, 0, "B-X I-X O B-ORG I-ORG O O O"), out)
    assert "X 0 12" in (out / "d1.ann").read_text()
    (out / "precious").write_text("mine")
    with pytest.raises(OptionError, match="was not written by tagtrace"):
        write_corpus(corpus, out)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(OptionError, match="not replaced"):
        write_corpus(corpus, tmp_path / "file")
    assert files_of(tmp_path)["file"] == b"mine"


def test_a_copy_is_as_private_as_the_folder(folder: Path, tmp_path: Path) -> None:
    os.chmod(folder / "sub" / "d2.txt", 0o600)
    write_corpus(read_corpus(folder), tmp_path / "out")
    assert {path.stat().st_mode & 0o077 for path in (tmp_path / "out").rglob("*")} == {0}
    os.chmod(folder / "sub" / "d2.txt", 0o644)
    write_corpus(read_corpus(folder), tmp_path / "other")
    assert (tmp_path / "other" / "d1.ann").stat().st_mode & 0o777 == 0o666 & ~umask()


def umask() -> int:
    found = os.umask(0)
    os.umask(found)
    return found


def test_links_and_pipes(folder: Path, tmp_path: Path) -> None:
    (folder / "linked.conf").symlink_to(folder / "annotation.conf")
    write_corpus(read_corpus(folder), tmp_path / "out")
    assert (tmp_path / "out" / "linked.conf").read_text() == "[entities]\n"
    (folder / "loop").symlink_to(folder)
    with pytest.raises(DataError, match="is a link to a folder"):
        read_corpus(folder)
    (folder / "loop").unlink()
    os.mkfifo(folder / "pipe")
    with pytest.raises(DataError, match="cannot be read: Not an ordinary file"):
        read_corpus(folder)


@pytest.mark.parametrize("name", ["secret.txt", "d1.txt", "d1.ann"])
def test_no_link_leads_out_of_the_folder(folder: Path, tmp_path: Path, name: str) -> None:
    """Files of the reader would be copied with the corpus of somebody else."""
    (tmp_path / "secret").write_text("mine")
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(tmp_path / "secret")
    with pytest.raises(DataError, match=rf"{name}: cannot be read: Is a link that leads out of its folder"):
        read_corpus(folder)


def test_many_pieces_that_cover_everything_are_not_joined(tmp_path: Path) -> None:
    pieces = ";".join(["0 1000000"] * 10_000)
    made(tmp_path / "c", {"d.txt": "x" * 1_000_000, "d.ann": f"T1\tPER {pieces}\tx\n"})
    with pytest.raises(DataError, match="out of step"):
        read_corpus(tmp_path / "c")


def test_folders_without_end(tmp_path: Path) -> None:
    made(tmp_path / "c", {"d/" * 70 + "x.ann": ""})
    with pytest.raises(DataError, match="has folders in more than 64 folders"):
        read_corpus(tmp_path / "c")


def test_a_folder_may_be_read_without_its_labels(folder: Path, tmp_path: Path) -> None:
    corpus = read_corpus(folder, ReadOptions(labelled=False))
    assert {one.labels for one in corpus.sentences} == {()}
    write_corpus(corpus, tmp_path / "out")
    assert files_of(tmp_path / "out") == files_of(folder)


SETTINGS = settings(
    max_examples=NUM_CORPORA, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@SETTINGS
@given(seed=st.integers(0, 2**32))
def test_generated_corpora(seed: int, tmp_path: Path) -> None:
    """Unchanged, relabelled and without one entity: brat's rules hold, and nothing else differs."""
    rng, here = Random(seed), tmp_path / f"{seed}"
    before = brat_files(rng)
    check_rules(before)
    folder = made(here / "c", dict(before))
    if not any(tokenise(data.decode()) for name, data in before.items() if name[:-4] + ".ann" in before):
        with pytest.raises(DataError, match="found no sentences"):
            read_corpus(folder)
        return
    corpus = read_corpus(folder)
    write_corpus(corpus, here / "same")
    assert files_of(here / "same") == before
    found = [(n, one) for n, each in enumerate(corpus.sentences) for one in segments(each.labels, "iob2")]
    if found:
        number, one = rng.choice(found)
        check_fixed(corpus, number, one, f"{rng.choice(LABELS)}2", here / "fixed")
        check_fixed(corpus, number, one, "", here / "fixed")


def check_rules(files: dict[str, bytes]) -> None:
    for name, data in files.items():
        if name.endswith(".ann"):
            parse(data, files[f"{name[:-4]}.txt"])


def check_fixed(corpus: Corpus, number: int, one: Segment, type_: str, out: Path) -> None:
    """Give a segment another type, or remove it; or this is refused because of other lines."""
    labels, length = list(corpus.sentences[number].labels), one.stop - one.start
    labels[one.start : one.stop] = [f"B-{type_}", *[f"I-{type_}"] * (length - 1)] if type_ else ["O"] * length
    try:
        num_labels = write_corpus(relabelled(corpus, number, " ".join(labels)), out)
    except DataError as error:
        reason = str(error)
    else:
        before, after, reason = files_of(corpus.path), files_of(out), ""
        assert num_labels == length
        check_rules(after)
        if type_:
            assert check_relabelled(before, after, one.type, type_) == 1
        else:
            check_removed(before, after, one.type)
    assert reason == "" or ("is the trigger" if type_ else "would be removed") in reason


def check_removed(before: dict[str, bytes], after: dict[str, bytes], old: str) -> None:
    """One entity, or several that are the same, is gone, and no other line."""
    gone = list[bytes]()
    for name, data in before.items():
        lines, left = data.splitlines(keepends=True), iter(after[name].splitlines(keepends=True))
        following = next(left, None)
        for line in lines:
            if line == following:
                following = next(left, None)
            else:
                gone.append(line)
        assert following is None
    (same,) = {line.strip().partition(b"\t")[2] for line in gone}
    assert re.match(rf"{old} \d+ \d+\t".encode(), same)
