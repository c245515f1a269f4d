"""WebAnno TSV: what is read, and that only the entities that change are written; read back by a reader of its own."""

from __future__ import annotations

import gzip
from pathlib import Path
from random import Random

import pytest

from tagtrace._checks import DataError, NoLabelsError, TagtraceError
from tagtrace.data import Corpus, ReadOptions, convert, read_corpus, write_corpus
from tests.data.formats.webanno_reader import ENTITY, read
from tests.fuzz import webanno

HEADER = f"#FORMAT=WebAnno TSV 3.3\n#T_SP={ENTITY}|identifier|value\n#T_SP=webanno.custom.S|\n"
BODY = (
    "\n\n#Sentence.id=s1\n#Text=Ada \U0001f60a Vane\n#Text=lives.\n"
    "1-1\t0-3\tAda\t*[1]\tPER[1]\t*[5]\t\n"
    "1-2\t4-6\t\U0001f60a\t*[1]\tPER[1]\t*[5]\t\n"
    "1-3\t7-11\tVane\t_\t_\t_\t\n"
    "1-3.1\t7-9\tVa\t*\tPART\t_\t\n"
    "1-4\t12-17\tlives\t_\t_\t_\t\n"
    "1-5\t17-18\t.\t_\t_\t_\t\n"
    "\n#Text=Oslo\\\\_ it\n"
    "2-1\t19-24\tOslo\\\tQ\\_1\tORG\\_x\t_\t\n"
    "2-2\t24-25\t_\t_\t_\t_\t\n"
    "2-3\t26-28\tit\t*\t*\t_\t\n"
)
WHOLE = HEADER + BODY


def written(text: str, tmp_path: Path, name: str = "in.tsv") -> Path:
    path = tmp_path / name
    path.write_bytes(text.encode())
    return path


def relabelled(corpus: Corpus, number: int, labels: str) -> Corpus:
    sentences = list(corpus.sentences)
    sentences[number] = sentences[number].with_labels(labels.split())
    return corpus.with_sentences(sentences)


def rewritten(corpus: Corpus, tmp_path: Path) -> str:
    write_corpus(corpus, tmp_path / "out.tsv")
    return (tmp_path / "out.tsv").read_bytes().decode()


def entities(text: str) -> list[tuple[str, object]]:
    """The entities that the other reader finds: what they cover, and their value."""
    found = read(text.encode())
    units = found.text.encode("utf-16-le")
    return [(units[2 * e.begin : 2 * e.end].decode("utf-16-le"), e.features["value"]) for e in found.of(ENTITY)]


def test_reading(tmp_path: Path) -> None:
    corpus = read_corpus(written(WHOLE, tmp_path))
    assert (corpus.format, corpus.scheme) == ("webanno-tsv", "iob2")
    first, second = corpus.sentences
    assert first.tokens == ("Ada", "\U0001f60a", "Vane", "lives", ".")
    assert first.labels == ("B-PER", "I-PER", "O", "O", "O")
    assert (second.tokens, second.labels) == (("Oslo\\", "_", "it"), ("B-ORG_x", "O", "O"))
    assert (first.id, first.document, second.id) == ("in:0", "in", "in:1")
    assert [reason for _, reason in corpus.skipped] == [
        "its layer webanno.custom.S is kept and not looked at",
        "the PART 'Va' in line 12 is on parts of tokens; it is kept as it is",
        "the named entity 'it' in line 19 has no value; it is kept as it is",
    ]


@pytest.mark.parametrize("is_gzip", [False, True])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_unchanged_is_the_same_bytes(tmp_path: Path, is_gzip: bool, end: str) -> None:
    data = WHOLE.replace("\n", end).encode()
    path = tmp_path / "in"
    path.write_bytes(gzip.compress(data) if is_gzip else data)
    assert write_corpus(read_corpus(path), tmp_path / "out") == 0
    assert (tmp_path / "out").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_one_label_changes_and_nothing_else(tmp_path: Path, mark: str) -> None:
    whole = mark + WHOLE.replace("\n", "\r\n")
    fixed = relabelled(read_corpus(written(whole, tmp_path)), 1, "B-a|b_[1]->* O O")
    assert rewritten(fixed, tmp_path) == whole.replace("ORG\\_x", "a\\|b\\_\\[1\\]\\->\\*")
    assert ("Oslo\\", "a|b_[1]->*") in entities(rewritten(fixed, tmp_path))


def test_entities_move_go_and_come(tmp_path: Path) -> None:
    corpus = read_corpus(written(WHOLE, tmp_path))
    moved = rewritten(relabelled(corpus, 0, "O B-PER I-PER O O"), tmp_path)
    assert moved == WHOLE.replace("Ada\t*[1]\tPER[1]", "Ada\t_\t_").replace("Vane\t_\t_", "Vane\t*[1]\tPER[1]")
    gone = rewritten(relabelled(corpus, 0, "O O O O O"), tmp_path)
    assert gone == WHOLE.replace("*[1]\tPER[1]", "_\t_")
    more = rewritten(relabelled(corpus, 0, "B-PER I-PER O B-X I-X"), tmp_path)
    assert more == WHOLE.replace("lives\t_\t_", "lives\t*[6]\tX[6]").replace(".\t_\t_", ".\t*[6]\tX[6]")
    longer = rewritten(relabelled(corpus, 1, "B-ORG_x I-ORG_x O"), tmp_path)
    assert longer == WHOLE.replace("Q\\_1\tORG\\_x", "Q\\_1[6]\tORG\\_x[6]").replace(
        "\t_\t_\t_\t_\t\n2-3", "\t_\tQ\\_1[6]\tORG\\_x[6]\t_\t\n2-3"
    )
    one = rewritten(relabelled(corpus, 0, "B-PER I-PER B-X O O"), tmp_path)
    assert one == WHOLE.replace("Vane\t_\t_", "Vane\t*\tX")
    kept = [("Va", "PART"), ("it", None)]
    assert [[e for e in entities(text) if e not in kept] for text in (moved, gone, more, longer, one)] == [
        [("\U0001f60a Vane", "PER"), ("Oslo\\", "ORG_x")],
        [("Oslo\\", "ORG_x")],
        [("Ada \U0001f60a", "PER"), ("lives.", "X"), ("Oslo\\", "ORG_x")],
        [("Ada \U0001f60a", "PER"), ("Oslo\\_", "ORG_x")],
        [("Ada \U0001f60a", "PER"), ("Vane", "X"), ("Oslo\\", "ORG_x")],
    ]


def test_stacked_ones_are_kept_and_listed(tmp_path: Path) -> None:
    whole = WHOLE.replace("Ada\t*[1]\tPER[1]", "Ada\t*[1]|Q2[2]\tPER[1]|ORG[2]")
    corpus = read_corpus(written(whole, tmp_path))
    assert corpus.sentences[0].labels[:2] == ("B-PER", "I-PER")
    assert "the ORG 'Ada' (characters 0 to 3, line 9) overlaps another one; it is kept as it is" in corpus.skipped[-1]
    gone = rewritten(relabelled(corpus, 0, "O O O O O"), tmp_path)
    assert "Ada\tQ2[2]\tORG[2]\t*[5]" in gone
    one = rewritten(relabelled(corpus, 1, "O O B-NEW"), tmp_path)
    assert "it\t*|*[6]\t*|NEW[6]\t_\t\n" in one, "where one without a value is, the new one needs a number"


def test_odd_annotations_are_no_labels(tmp_path: Path) -> None:
    for old, new, reason in (
        ("PER[1]\t*[5]\t\n1-3", "LOC[1]\t*[5]\t\n1-3", "has different values on its tokens"),
        ("*[1]\tPER[1]\t*[5]\t\n1-3", "Q2[1]\tPER[1]\t*[5]\t\n1-3", "has different values on its tokens"),
        ("lives\t_\t_", "lives\t*[1]\tPER[1]", "is not on every token from its first to its last"),
        ("1-4\t12", "1-3.2\t7-7\t\t*\tX\t_\t\n1-4\t12", "is on parts of tokens"),
    ):
        corpus = read_corpus(written(WHOLE.replace(old, new), tmp_path))
        assert any(reason in one for _, one in corpus.skipped)
        assert write_corpus(corpus, tmp_path / "out") == 0


RELATED = HEADER.replace("#T_SP=webanno.custom.S|", f"#T_RL=webanno.custom.R|BT_{ENTITY}") + BODY.replace(
    "*[5]", "_"
).replace("Q\\_1\tORG\\_x\t_", "Q\\_1\tORG\\_x\t1-1[1_0]")


def test_what_a_relation_refers_to_stays(tmp_path: Path) -> None:
    corpus = read_corpus(written(RELATED, tmp_path))
    for number, labels, what in ((0, "O O O O O", "'Ada'"), (1, "O O O", "Oslo"), (1, "O B-X O", "Oslo")):
        with pytest.raises(DataError, match=rf"the named entity on .*{what.strip(chr(39))}.* a relation in line 17"):
            rewritten(relabelled(corpus, number, labels), tmp_path)
    moved = read(rewritten(relabelled(corpus, 0, "O B-LOC I-LOC O O"), tmp_path).encode())
    ((_, source, target),) = moved.relations
    assert (source.features["value"], source.begin, target.features["value"]) == ("LOC", 4, "ORG_x")


def test_slots_of_and_to_entities(tmp_path: Path) -> None:
    """Slots of an entity go with it; what is a slot of something else stays."""
    role = f"ROLE_{ENTITY}:links_webanno.custom.Link"
    whole = HEADER.replace("|identifier|value", f"|{role}|uima.tcas.Annotation|value").replace(
        "#T_SP=webanno.custom.S|\n", ""
    ) + BODY.replace("\t*[5]", "").replace("\t_\t\n", "\t\n").replace("\t_\t_\t\n", "\t_\t_\t_\t\n").replace(
        "*[1]\tPER[1]", "me;*[1]\t2-1[9];1-1[1]\tPER[1]"
    ).replace("Q\\_1\tORG\\_x", "_[9]\t*\tORG\\_x[9]").replace("\t*\tPART", "\t_\t*\tPART").replace(
        "\t*\t*\t\n", "\t_\t*\t*\t\n"
    )
    corpus = read_corpus(written(whole, tmp_path))
    assert corpus.sentences[0].labels == ("B-PER", "I-PER", "O", "O", "O")
    new = rewritten(relabelled(corpus, 0, "B-PER I-PER O B-X O"), tmp_path)
    assert new == whole.replace("lives\t_\t_\t_", "lives\t_\t*\tX")
    stack = rewritten(relabelled(corpus, 1, "B-ORG_x O B-X"), tmp_path)
    assert "it\t_|_[10]\t*|*\t*|X[10]\t\n" in stack
    assert ("it", "X") in entities(stack)
    with pytest.raises(DataError, match="a slot in line 8 refers to it"):
        rewritten(relabelled(corpus, 1, "O O O"), tmp_path)


def test_java_escapes_of_the_first_versions(tmp_path: Path) -> None:
    text = "#FORMAT=WebAnno TSV 3.1\n" + f"#T_SP={ENTITY}|value\n\n\n"
    text += (
        '#Text=Zo\\u00EB \\uD83D\\uDE0A \\"a\\"\n1-1\t0-3\tZo\u00eb\tPER\n1-2\t4-6\t\U0001f60a\t_\n1-3\t7-10\t"a"\t_\n'
    )
    assert read_corpus(written(text, tmp_path)).sentences[0].tokens == ("Zo\xeb", "\U0001f60a", '"a"')
    with pytest.raises(DataError, match="line 5: found half a surrogate pair"):
        read_corpus(written(text.replace("\\uDE0A", ""), tmp_path))


def test_without_values_other_layers_are_named(tmp_path: Path) -> None:
    whole = WHOLE.replace(f"#T_SP={ENTITY}|identifier|value\n", "").replace("_\t_\t_\t\n", "_\t\n")
    whole = (
        whole.replace("\t*[1]\tPER[1]", "")
        .replace("\t*\tPART", "")
        .replace("\t*\t*", "")
        .replace("\tQ\\_1\tORG\\_x", "")
    )
    with pytest.raises(NoLabelsError, match=r"no column for the value of .*NamedEntity, only 'webanno.custom.S'"):
        read_corpus(written(whole, tmp_path))
    assert len(read_corpus(written(whole, tmp_path), require_labels=False).sentences) == 2


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("TSV 3.3", "TSV 2", "line 1: found '#FORMAT=WebAnno TSV 2', expected #FORMAT=WebAnno TSV 3.3"),
        ("12-17\tlives", "12-17\tlive", "line 13: the token is 'live', but the text there is 'lives'; offsets have to"),
        ("4-6", "4-5", "line 10: begins or ends inside a character"),
        ("12-17", "12-99", "line 13: is from 12 to 99, but its sentence from 0 to 18 (in UTF-16 code units)"),
        ("12-17", "17-12", "line 13: is from 17 to 12"),
        ("12-17\tlives", "10-17\te\\nlives", "line 13: overlaps the token before it"),
        ("19-24", "9-14", "line 17: begins at 9, but the text of the sentence before it ends at 18"),
        ("lives\t_\t_\t_\t", "lives\t_", "line 13: found 4 fields, expected 6"),
        ("lives\t_\t_", "li\tves\t_\t_", "line 13: found 8 fields, expected 6"),
        ("1-4\t", "x\t", "line 13: found 'x\\t12-17', expected the name of a token and its offsets"),
        ("#Text=Oslo\\\\_ it\n", "", "line 16: has no line #Text= before it"),
        ("ORG\\_x", "ORG]", "line 17: found 'ORG]', expected a value with or without a number in brackets"),
        ("#T_SP=webanno.custom.S|", "#T_SP=|", "line 3: a layer has no name"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(DataError) as raised:
        read_corpus(written(WHOLE.replace(old, new), tmp_path))
    assert message in str(raised.value)


def test_labels_that_it_cannot_have(tmp_path: Path) -> None:
    corpus = read_corpus(written(WHOLE, tmp_path))
    for label in ("a\\", "a\rb"):
        sentences = [corpus.sentences[0].with_labels([f"B-{label}", *"OOOO"]), *corpus.sentences[1:]]
        with pytest.raises(DataError, match="WebAnno TSV cannot have"):
            write_corpus(corpus.with_sentences(sentences), tmp_path / "out")


def test_it_is_known_by_its_first_line(tmp_path: Path) -> None:
    for text in (WHOLE, "\ufeff" + WHOLE):
        assert read_corpus(written(text, tmp_path, "in.conll")).format == "webanno-tsv"
    assert read_corpus(written("#FORMAT O\na B-PER\n", tmp_path)).format == "conll"


def test_it_can_be_converted(tmp_path: Path) -> None:
    convert(read_corpus(written(WHOLE, tmp_path)), tmp_path / "out.conll")
    assert read_corpus(tmp_path / "out.conll").sentences[0].labels == ("B-PER", "I-PER", "O", "O", "O")


def test_many_documents_survive_relabelling(tmp_path: Path) -> None:
    num_refused = 0
    for number in range(150):
        path = tmp_path / "in.tsv"
        path.write_bytes(webanno.sound(Random(f"many-{number}")))
        read(path.read_bytes())
        try:
            webanno.relabelled(path)
        except TagtraceError as error:
            assert "cannot be removed from there" in str(error)  # noqa: PT017
            num_refused += 1
    assert num_refused < 5


def test_options_name_the_format(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="expected #FORMAT=WebAnno TSV"):
        read_corpus(written("a B-PER\n", tmp_path), ReadOptions(format="webanno-tsv"))


def test_cells_that_multiply_are_refused(tmp_path: Path) -> None:
    """A row with S annotations and C columns has S times C cells in S + C bytes."""
    features = "|".join(f"f{number}" for number in range(200))
    wide = f"#FORMAT=WebAnno TSV 3.3\n#T_SP={ENTITY}|value|{features}\n\n#Text=Ada\n"
    with pytest.raises(DataError, match="a layer has more than 100 features"):
        read_corpus(written(wide, tmp_path))
    many = "|".join(f"PER[{number}]" for number in range(1, 1000))
    deep = f"#FORMAT=WebAnno TSV 3.3\n#T_SP={ENTITY}|value\n\n#Text=Ada\n1-1\t0-3\tAda\t{many}\n"
    with pytest.raises(DataError, match="more than 500 annotations of a layer on a token"):
        read_corpus(written(deep, tmp_path))
