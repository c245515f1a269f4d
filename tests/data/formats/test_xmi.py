"""UIMA CAS XMI: what is read, and that only the labels that change are written; read back by dkpro-cassis."""

from __future__ import annotations

import gzip
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest
from cassis import load_cas_from_xmi
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tagtrace._checks import DataError, NoLabelsError
from tagtrace.data import Corpus, ReadOptions, read_corpus, write_corpus
from tests.fuzz import cas

NER = 'xmlns:type4="http:///de/tudarmstadt/ukp/dkpro/core/api/ner/type.ecore"'
ROOT = (
    '<xmi:XMI xmlns:xmi="http://www.omg.org/XMI" xmlns:cas="http:///uima/cas.ecore" '
    'xmlns:type3="http:///de/tudarmstadt/ukp/dkpro/core/api/metadata/type.ecore" '
    f'{NER} xmlns:type5="http:///de/tudarmstadt/ukp/dkpro/core/api/segmentation/type.ecore" '
    'xmlns:custom="http:///webanno/custom.ecore" xmi:version="2.0">'
)
META = '<type3:DocumentMetaData xmi:id="1" sofa="2" begin="0" end="35" documentTitle="one.txt" documentId="ada"/>'
ENTITIES = (
    '<type4:NamedEntity xmi:id="20" sofa="2" begin="3" end="6" value="PER" identifier="x&amp;y"/>',
    "<type4:NamedEntity sofa='2'  xmi:id='22' end='20' begin='16' value='ORG'></type4:NamedEntity>",
)
SOFA = (
    '<cas:Sofa xmi:id="2" sofaNum="1" sofaID="_InitialView" mimeType="text" '
    'sofaString="&#128522; Ada lives in Oslo. She&#10;said &quot;no&quot;"/>'
)
"""Word by word: an emoji of two code units, Ada lives in Oslo . She said "no"; the second sentence begins with She."""
PLACES = ((0, 2), (3, 6), (7, 12), (13, 15), (16, 20), (20, 21), (22, 25), (26, 30))
TOKENS = [
    f'<type5:Token xmi:id="{number}" sofa="2" begin="{begin}" end="{end}"/>'
    for number, (begin, end) in enumerate(PLACES, start=3)
]
SENTENCES = [
    '<type5:Sentence xmi:id="11" sofa="2" begin="22" end="35"/>',
    '<type5:Sentence xmi:id="12" sofa="2" begin="0" end="21"/>',
]
VIEW = '<cas:View sofa="2" members="1 3 4 5 6 7 8 9 10 11 12 20 22"/>'


def document(*lines: str, root: str = ROOT, end: str = "\n") -> str:
    head = '<?xml version="1.0" encoding="UTF-8"?>'
    return f"{head}{root}{end}{end.join(f'    {line}' for line in lines)}{end}</xmi:XMI>{end}"


NULL = '<cas:NULL xmi:id="0"/>'
WHOLE = document(NULL, META, *TOKENS, *SENTENCES, *ENTITIES, SOFA, VIEW)


def written(text: str, tmp_path: Path, name: str = "in.xmi") -> Path:
    path = tmp_path / name
    path.write_bytes(text.encode())
    return path


def relabelled(corpus: Corpus, number: int, labels: str) -> Corpus:
    sentences = list(corpus.sentences)
    sentences[number] = sentences[number].with_labels(labels.split())
    return corpus.with_sentences(sentences)


def rewritten(corpus: Corpus, tmp_path: Path) -> str:
    write_corpus(corpus, tmp_path / "out.xmi")
    return (tmp_path / "out.xmi").read_bytes().decode()


def entities(text: str) -> list[tuple[Any, Any]]:
    """The entities that dkpro-cassis reads."""
    read = load_cas_from_xmi(text, cas.type_system())
    return [(one.get_covered_text(), one.value) for one in read.select(cas.ENTITY)]


def test_reading(tmp_path: Path) -> None:
    corpus = read_corpus(written(WHOLE, tmp_path))
    assert (corpus.format, corpus.scheme, corpus.skipped) == ("xmi", "iob2", ())
    first, second = corpus.sentences
    assert first.tokens == ("\U0001f60a", "Ada", "lives", "in", "Oslo", ".")
    assert first.labels == ("O", "B-PER", "O", "O", "B-ORG", "O")
    assert (second.tokens, second.labels) == (("She", "said"), ("O", "O"))  # only the file's own tokens
    assert (first.id, first.document, first.lines[0]) == (
        "one.txt:0",
        "one.txt",
        WHOLE.split("<cas:Sofa")[0].count("\n") + 1,
    )


@pytest.mark.parametrize("is_gzip", [False, True])
def test_unchanged_is_the_same_bytes(tmp_path: Path, is_gzip: bool) -> None:
    path = tmp_path / ("in.xmi.gz" if is_gzip else "in.xmi")
    path.write_bytes(gzip.compress(WHOLE.encode()) if is_gzip else WHOLE.encode())
    assert write_corpus(read_corpus(path), tmp_path / "out") == 0
    assert (tmp_path / "out").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("end", ["\n", "\r\n", ""])
def test_one_label_changes_and_nothing_else(tmp_path: Path, end: str) -> None:
    whole = "\ufeff" + document(NULL, META, *TOKENS, *SENTENCES, *ENTITIES, SOFA, VIEW, end=end)
    fixed = relabelled(read_corpus(written(whole, tmp_path)), 0, "O B-PER O O B-LOC O")
    assert rewritten(fixed, tmp_path) == whole.replace("value='ORG'", "value='LOC'")
    assert entities(rewritten(fixed, tmp_path).lstrip("\ufeff")) == [("Ada", "PER"), ("Oslo", "LOC")]


def test_an_entity_that_moves_keeps_what_else_it_has(tmp_path: Path) -> None:
    corpus = read_corpus(written(WHOLE, tmp_path))
    moved = rewritten(relabelled(corpus, 0, "B-PER I-PER O B-O'x I-O'x O"), tmp_path)
    assert moved == (
        WHOLE.replace('begin="3" end="6" value="PER"', 'begin="0" end="6" value="PER"')
        .replace("begin='16' value='ORG'", "begin='13' value='O&apos;x'")
    )  # fmt: skip
    assert entities(moved) == [("\U0001f60a Ada", "PER"), ("in Oslo", "O'x")]


def test_an_entity_that_is_gone_is_in_no_list(tmp_path: Path) -> None:
    corpus = read_corpus(written(WHOLE, tmp_path))
    after = rewritten(relabelled(corpus, 0, "O O O O B-ORG O"), tmp_path)
    assert after == WHOLE.replace(f"    {ENTITIES[0]}\n", "").replace(" 20 22", " 22")
    assert entities(after) == [("Oslo", "ORG")]


def test_a_new_entity_is_written_as_the_others(tmp_path: Path) -> None:
    corpus = read_corpus(written(WHOLE, tmp_path))
    after = rewritten(relabelled(corpus, 0, "B-X B-PER O O B-ORG O"), tmp_path)
    new = '<type4:NamedEntity xmi:id="23" sofa="2" begin="0" end="2" value="X"/>'
    assert after == WHOLE.replace(ENTITIES[1], f"{ENTITIES[1]}\n    {new}").replace(" 20 22", " 20 22 23")
    assert entities(after) == [("\U0001f60a", "X"), ("Ada", "PER"), ("Oslo", "ORG")]


@pytest.mark.parametrize(
    "view", ["", '<cas:View sofa="2"/>', '<cas:View sofa="2" members=""/>', '<cas:View members="" sofa="2"></cas:View>']
)
def test_a_new_entity_needs_no_others_no_view_and_no_prefix(tmp_path: Path, view: str) -> None:
    whole = document(NULL, SOFA, view, root=ROOT.replace(NER, 'xmlns:type="http:///a.ecore"'))
    corpus = read_corpus(written(whole, tmp_path))
    assert corpus.sentences[0].tokens[:3] == ("\U0001f60a", "Ada", "lives")  # by the rule, as there are no others
    labels = ["O", "B-PER", *["O"] * (len(corpus.sentences[0]) - 2)]
    after = rewritten(relabelled(corpus, 0, " ".join(labels)), tmp_path)
    assert 'xmlns:type2="http:///de/tudarmstadt/ukp/dkpro/core/api/ner/type.ecore">' in after
    assert '<type2:NamedEntity xmi:id="3" sofa="2" begin="3" end="6" value="PER"/>' in after
    assert entities(after) == [("Ada", "PER")]


def test_prefixes_are_those_of_the_file(tmp_path: Path) -> None:
    """Also if the namespace has another prefix inside, none at all, or if the root's is redefined."""
    inner = f'<x:NamedEntity {NER.replace("type4", "x")} xmi:id="20" sofa="2" begin="3" end="6" value="PER"/>'
    default = ROOT.replace("xmlns:type4", "xmlns")
    for root, prefix in ((ROOT, "type4:"), (default, "")):
        corpus = read_corpus(
            written(document(NULL, inner, SOFA, '<cas:View sofa="2" members="20"/>', root=root), tmp_path)
        )
        labels = "O B-PER " + " ".join(["B-X"] + ["O"] * (len(corpus.sentences[0]) - 3))
        after = rewritten(relabelled(corpus, 0, labels), tmp_path)
        assert f'<{prefix}NamedEntity xmi:id="21"' in after
        assert entities(after) == [("Ada", "PER"), ("lives", "X")]


def test_what_refers_to_an_entity_keeps_it(tmp_path: Path) -> None:
    relation = '<custom:Relation xmi:id="30" sofa="2" begin="0" end="2" Governor="3" Dependent="20"/>'
    whole = WHOLE.replace(SOFA, f"{relation}\n    {SOFA}")
    corpus = read_corpus(written(whole, tmp_path))
    assert corpus.skipped[0][1] == "its 1 of webanno.custom.Relation are kept and not looked at"
    with pytest.raises(
        DataError, match=r"entity with the id 20 cannot be removed, because Dependent of the Relation in line"
    ):
        rewritten(relabelled(corpus, 0, "O O O O B-ORG O"), tmp_path)
    assert not (tmp_path / "out.xmi").exists()
    assert entities(rewritten(relabelled(corpus, 0, "O B-PER O O O O"), tmp_path)) == [("Ada", "PER")]
    lemma = '<type5:Lemma xmi:id="31" sofa="2" begin="0" end="2" value="20"/>'  # a number, but a text
    corpus = read_corpus(written(WHOLE.replace(SOFA, f"{lemma}\n    {SOFA}"), tmp_path))
    assert 'xmi:id="20"' not in rewritten(relabelled(corpus, 0, "O O O O B-ORG O"), tmp_path)


def test_entities_that_cannot_be_learned_from_are_reported_and_stay(tmp_path: Path) -> None:
    odd = [
        '<type4:NamedEntity xmi:id="30" sofa="2" begin="7" end="12"/>',
        '<type4:NamedEntity xmi:id="31" sofa="2" begin="7" end="7" value="X"/>',
        '<type4:NamedEntity xmi:id="32" sofa="2" begin="1" end="2" value="X"/>',
        '<type4:NamedEntity xmi:id="33" sofa="2" begin="7" end="12" value="X"/>',
        '<type4:NamedEntity xmi:id="34" sofa="2" begin="7" end="9" value="X"/>',
    ]
    whole = WHOLE.replace(SOFA, "\n    ".join([*odd, SOFA])).replace(" 22", " 22 30 31 32 34")
    corpus = read_corpus(written(whole, tmp_path))
    reasons = [
        "30 has no value",
        "31 has no char",
        "32 begins or ends inside",
        "33 is in no view",
        "not begin and end with",
    ]
    assert all(reason in said for reason, (_, said) in zip(reasons, corpus.skipped, strict=True))
    after = rewritten(relabelled(corpus, 0, "O O B-X O O O"), tmp_path)
    assert all(one in after for one in odd)


def test_of_several_views_those_with_annotations_are_texts(tmp_path: Path) -> None:
    second = (
        '<cas:Sofa xmi:id="40" sofaNum="2" sofaID="b" sofaString="Zo\xeb in Oslo"/>',
        '<type4:NamedEntity xmi:id="41" sofa="40" begin="0" end="3" value="PER"/>',
        '<cas:Sofa xmi:id="42" sofaNum="3" sofaID="c" sofaString="raw"/>',
        '<cas:View sofa="40" members="41"/>',
    )
    corpus = read_corpus(written(WHOLE.replace(VIEW, "\n".join([*second, VIEW])), tmp_path))
    assert [one.tokens[0] for one in corpus.sentences] == ["\U0001f60a", "She", "Zo\xeb"]
    after = rewritten(relabelled(corpus, 2, "B-PER O B-LOC"), tmp_path)
    read = load_cas_from_xmi(after, cas.type_system())
    assert [(one.get_covered_text(), one.value) for one in read.get_view("b").select(cas.ENTITY)] == [
        ("Zo\xeb", "PER"), ("Oslo", "LOC"),
    ]  # fmt: skip
    assert len(read.select(cas.ENTITY)) == 2


def test_without_entities_other_layers_are_named(tmp_path: Path) -> None:
    span = '<custom:Span xmi:id="30" sofa="2" begin="0" end="2" label="X"/>'
    whole = document(NULL, *TOKENS, span, SOFA, VIEW)
    with pytest.raises(
        NoLabelsError, match=r"has no annotations of .*NamedEntity, only of 'webanno.custom.Span \(1\)'"
    ):
        read_corpus(written(whole, tmp_path))
    assert read_corpus(tmp_path / "in.xmi", require_labels=False).sentences[0].labels == ()
    assert set(read_corpus(written(document(NULL, SOFA), tmp_path)).sentences[0].labels) == {"O"}


LAUGHS = (
    '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY a "ha">'
    + "".join(f'<!ENTITY {new} "{f"&{old};" * 10}">' for old, new in zip("abcdefghi", "bcdefghij", strict=True))
    + "]>"
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (LAUGHS + WHOLE.partition("?>")[2].replace("Ada", "&j;"), "line 1: has a document type (DOCTYPE)"),
        ('<!DOCTYPE a SYSTEM "file:///etc/passwd">\n' + WHOLE.partition("?>")[2], "has a document type (DOCTYPE)"),
        (WHOLE.replace("Ada", "&j;"), "not well-formed XML 1.0 (undefined entity)"),
        (WHOLE.replace("Ada", "&#1;"), "not well-formed XML 1.0 (reference to invalid character number)"),
        (WHOLE[:-20], "line 17: is not well-formed XML 1.0 (unclosed token)"),
        ("", "line 1: is not well-formed XML 1.0 (no element found)"),
        ("a\tO\n", "line 1: is not well-formed XML 1.0 (syntax error)"),
        (WHOLE.replace("UTF-8", "latin-1"), "is in the encoding 'latin-1'; convert it to UTF-8"),
        (WHOLE.replace("Ada", "\x00"), "is zero; convert the file to UTF-8"),
        (document(*["<a>" * 20], *["</a>" * 20]), "nested too deep"),
        ("<typeSystemDescription/>", "its root is 'typeSystemDescription', not xmi:XMI"),
        (document(NULL), "has no text (no sofa with a sofaString)"),
        (WHOLE.replace('begin="7"', 'begin="x"'), "the Token has 'x' as its begin, expected a number"),
        (WHOLE.replace('begin="7"', 'start="7"'), "the Token has no begin, expected a number"),
        (WHOLE.replace('begin="7"', 'begin="13"'), "the Token with the id 5 is from 13 to 12"),
        (WHOLE.replace('end="35"/>', 'end="99"/>'), "Sentence with the id 11 is from 22 to 99, but its text has 35"),
        (WHOLE.replace('begin="0" end="2"', 'begin="1" end="2"'), "Token with the id 3 begins or ends inside a char"),
        (WHOLE.replace('begin="7"', 'begin="4"'), "the tokens with the ids 4 and 5 overlap"),
        (WHOLE.replace('xmi:id="4"', 'xmi:id="3"'), "the id 3 is given twice"),
        (WHOLE.replace('xmi:id="4" ', ""), "the Token has no id, expected a number"),
        (WHOLE.replace('id="4" sofa="2"', 'id="4" sofa="9"'), "the annotation with the id 4 has no text"),
        (WHOLE.replace("20 22", "20 a"), "the members of a view should be numbers"),
        (WHOLE.replace('xmi:id="4"', f'xmi:id="{"9" * 5000}"'), "as its id, expected a number"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(tmp_path: Path, text: str, message: str) -> None:
    start = time.monotonic()
    with pytest.raises(DataError) as raised:
        read_corpus(written(text, tmp_path))
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)
    assert time.monotonic() - start < 5


def test_utf_16_is_refused(tmp_path: Path) -> None:
    for encoding in ("utf-16", "utf-16-le"):
        (tmp_path / "in.xmi").write_bytes(WHOLE.encode(encoding))
        with pytest.raises(DataError, match="convert the file to UTF-8"):
            read_corpus(tmp_path / "in.xmi")


def test_a_label_that_xml_cannot_have_is_refused(tmp_path: Path) -> None:
    corpus = read_corpus(written(WHOLE, tmp_path))
    with pytest.raises(DataError, match="XML cannot have the character"):
        rewritten(relabelled(corpus, 0, "O B-P\x01 O O B-ORG O"), tmp_path)


def test_it_is_known_by_its_beginning_and_its_name(tmp_path: Path) -> None:
    bare = WHOLE.partition("?>")[2]
    for name, text in (("a", WHOLE), ("a.xml", "\n" + bare), ("a", "\ufeff" + bare), ("a.XMI", "<!-- a -->" + bare)):
        assert read_corpus(written(text, tmp_path, name)).format == "xmi"
    others = (
        ("conll", "<\tO\nxml\tO\n"), ("conll", "<?xml\tO\n"), ("conll", "<xmi:XMI>\tO\n"),
        ("jsonl", '{"tokens": ["<?xml version=1"], "labels": ["O"]}'), ("doccano", '{"text": "<?xml", "label": []}'),
        ("cas-json", '{"%FEATURE_STRUCTURES": [{"%ID": 1, "%TYPE": "uima.cas.Sofa", "sofaString": "a"}]}'),
    )  # fmt: skip
    for found, text in others:
        assert read_corpus(written(text, tmp_path, "in.txt")).format == found


def check_unless_needed(path: Path) -> None:
    try:
        cas.checked("xmi", cas.load_xmi)(path)
    except DataError as error:
        if "cannot be removed" not in str(error):
            raise


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(rng=st.randoms(use_true_random=False))
def test_relabelling_changes_only_entities(tmp_path_factory: pytest.TempPathFactory, rng: Random) -> None:
    path = tmp_path_factory.getbasetemp() / "any.xmi"
    path.write_bytes(cas.xmi_by_hand(rng, cas.document(rng)).encode())
    check_unless_needed(path)


def test_what_cassis_writes(tmp_path: Path) -> None:
    """The library's own files, and its own reading of what was fixed in them."""
    for number in range(20):
        text = cas.by_cassis(cas.document(Random(number))).to_xmi(pretty_print=number % 2 == 0)
        assert text is not None
        written(text, tmp_path)
        check_unless_needed(tmp_path / "in.xmi")
        assert read_corpus(tmp_path / "in.xmi", ReadOptions(format="xmi"), require_labels=False).num_tokens > 0
