"""UIMA CAS JSON: what is read, and that only the labels that change are written; read back by dkpro-cassis."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from cassis import load_cas_from_json
from cassis.typesystem import TypeSystemMode
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tagtrace._checks import DataError, NoLabelsError
from tagtrace.data import Corpus, ReadOptions, read_corpus, write_corpus
from tests.fuzz import cas

ENTITIES = (
    '{\n    "%ID" : 20,\n    "%TYPE" : "' + cas.ENTITY + '",\n    "@sofa" : 2,\n    "begin" : 3,\n    "end" : 6,\n'
    '    "value" : "PER",\n    "identifier" : "x"\n  }',
    '{ "value":"ORG","end":20 ,"begin":16, "%ID":22,"%TYPE":"' + cas.ENTITY + '", "@sofa":2 }',
)
PLACES = ((0, 2), (3, 6), (7, 12), (13, 15), (16, 20), (20, 21), (22, 25), (26, 30))
OTHERS = [
    {
        "%ID": 2, "%TYPE": "uima.cas.Sofa", "sofaNum": 1, "sofaID": "_InitialView", "mimeType": "text",
        "sofaString": "\U0001f60a Ada lives in Oslo. She\nsaid no",
    },
    {"%ID": 1, "%TYPE": cas.META, "@sofa": 2, "begin": 0, "end": 33, "documentTitle": "one.txt"},
    *(
        {"%ID": number, "%TYPE": cas.TOKEN, "@sofa": 2, "begin": begin, "end": end, "order": 0}
        for number, (begin, end) in enumerate(PLACES, start=3)
    ),
    {"%ID": 12, "%TYPE": cas.SENTENCE, "@sofa": 2, "begin": 0, "end": 21},
]  # fmt: skip


def types(*without: str) -> dict[str, Any]:
    text = cas.Cas(cas.type_system()).to_json()
    assert text is not None
    return {name: one for name, one in json.loads(text)["%TYPES"].items() if name not in without}


VIEWS = """{
    "_InitialView" : {
      "%SOFA" : 2,
      "%MEMBERS" : [ 1, 3, 4, 5, 6, 7, 8, 9, 10, 12, 20, 22 ]
    }
  }"""


def document(*entities: str, views: str = VIEWS, others: list[dict[str, Any]] = OTHERS, kinds: Any = None) -> str:
    structures = ", ".join([*(json.dumps(one) for one in others), *entities])
    kinds = json.dumps(types() if kinds is None else kinds)
    return f'{{\n  "%TYPES" : {kinds},\n  "%FEATURE_STRUCTURES" : [ {structures} ],\n  "%VIEWS" : {views}\n}}\n'


WHOLE = document(*ENTITIES)


def written(text: str, tmp_path: Path, name: str = "in.json") -> Path:
    path = tmp_path / name
    path.write_bytes(text.encode())
    return path


def relabelled(corpus: Corpus, number: int, labels: str) -> Corpus:
    sentences = list(corpus.sentences)
    sentences[number] = sentences[number].with_labels(labels.split())
    return corpus.with_sentences(sentences)


def rewritten(corpus: Corpus, tmp_path: Path) -> str:
    write_corpus(corpus, tmp_path / "out.json")
    return (tmp_path / "out.json").read_bytes().decode()


def entities(text: str) -> list[tuple[Any, Any]]:
    """The entities that dkpro-cassis reads."""
    return [(one.get_covered_text(), one.value) for one in load_cas_from_json(text).select(cas.ENTITY)]


def test_reading(tmp_path: Path) -> None:
    corpus = read_corpus(written(WHOLE, tmp_path))
    assert (corpus.format, corpus.scheme, corpus.skipped) == ("cas-json", "iob2", ())
    first, second = corpus.sentences
    assert first.tokens == ("\U0001f60a", "Ada", "lives", "in", "Oslo", ".")
    assert first.labels == ("O", "B-PER", "O", "O", "B-ORG", "O")
    assert (second.tokens, first.id, first.document) == (("She", "said"), "one.txt:0", "one.txt")


@pytest.mark.parametrize("is_gzip", [False, True])
def test_unchanged_is_the_same_bytes(tmp_path: Path, is_gzip: bool) -> None:
    path = tmp_path / "in"
    path.write_bytes(gzip.compress(WHOLE.encode()) if is_gzip else WHOLE.encode())
    assert write_corpus(read_corpus(path), tmp_path / "out") == 0
    assert (tmp_path / "out").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_one_label_changes_and_nothing_else(tmp_path: Path, mark: str) -> None:
    whole = mark + WHOLE.replace("\n", "\r\n")
    fixed = relabelled(read_corpus(written(whole, tmp_path)), 0, "O B-PER O O B-\xd8 O")
    escaped = "\\u00d8"  # as all else in the file is ASCII but the mark
    assert rewritten(fixed, tmp_path) == whole.replace('"value":"ORG"', f'"value":"{escaped}"')
    assert entities(rewritten(fixed, tmp_path).lstrip("\ufeff")) == [("Ada", "PER"), ("Oslo", "\xd8")]


def test_entities_move_go_and_come(tmp_path: Path) -> None:
    corpus = read_corpus(written(WHOLE, tmp_path))
    moved = rewritten(relabelled(corpus, 0, "B-PER I-PER O O B-ORG O"), tmp_path)
    assert moved == WHOLE.replace('"begin" : 3,\n', '"begin" : 0,\n')
    gone = rewritten(relabelled(corpus, 0, "O O O O B-ORG O"), tmp_path)
    assert gone == WHOLE.replace(ENTITIES[0] + ", ", "").replace(" 12, 20, 22", " 12, 22")
    more = rewritten(relabelled(corpus, 0, "B-X B-PER O O B-ORG O"), tmp_path)
    new = f'{{"%ID": 23, "%TYPE": "{cas.ENTITY}", "@sofa": 2, "begin": 0, "end": 2, "value": "X"}}'
    assert more == WHOLE.replace(ENTITIES[1], f"{ENTITIES[1]}, {new}").replace(" 20, 22", " 20, 22, 23")
    none = rewritten(relabelled(corpus, 0, "O O O O O O"), tmp_path)
    assert [entities(one) for one in (moved, gone, more, none)] == [
        [("\U0001f60a Ada", "PER"), ("Oslo", "ORG")],
        [("Oslo", "ORG")],
        [("\U0001f60a", "X"), ("Ada", "PER"), ("Oslo", "ORG")],
        [],
    ]


def test_structures_may_be_an_object(tmp_path: Path) -> None:
    data = json.loads(WHOLE)
    data["%FEATURE_STRUCTURES"] = {str(one.pop("%ID")): one for one in data["%FEATURE_STRUCTURES"]}
    whole = json.dumps(data, indent=1)
    corpus = read_corpus(written(whole, tmp_path))
    after = rewritten(relabelled(corpus, 0, "B-X O O O B-LOC O"), tmp_path)
    assert entities(after) == [("\U0001f60a", "X"), ("Oslo", "LOC")]
    wanted = json.loads(whole)
    del wanted["%FEATURE_STRUCTURES"]["20"]
    wanted["%FEATURE_STRUCTURES"]["22"]["value"] = "LOC"
    new = {"%TYPE": cas.ENTITY, "@sofa": 2, "begin": 0, "end": 2, "value": "X"}
    wanted["%FEATURE_STRUCTURES"]["23"] = new
    wanted["%VIEWS"]["_InitialView"]["%MEMBERS"] = [1, *range(3, 11), 12, 22, 23]
    assert json.loads(after) == wanted
    assert list(json.loads(after)["%FEATURE_STRUCTURES"]) == list(wanted["%FEATURE_STRUCTURES"])


def test_offsets_may_be_marked(tmp_path: Path) -> None:
    whole = WHOLE.replace('"begin"', '"^begin"').replace('"end"', '"^end"')
    after = rewritten(relabelled(read_corpus(written(whole, tmp_path)), 0, "B-PER I-PER B-X O O O"), tmp_path)
    assert '"^begin" : 0,\n' in after
    assert '"^begin": 7, "^end": 12, "value": "X"' in after


def test_the_type_of_new_entities_is_declared_where_types_are(tmp_path: Path) -> None:
    without, views = types(cas.ENTITY, cas.RELATION), VIEWS.replace(", 20, 22", "")
    corpus = read_corpus(written(document(kinds=without, views=views), tmp_path))
    after = rewritten(relabelled(corpus, 0, "O B-PER O O O O"), tmp_path)
    assert entities(after) == [("Ada", "PER")]
    assert [name for name in json.loads(after)["%TYPES"] if name not in without] == [cas.ENTITY]
    corpus = read_corpus(written(document(kinds={}, views=views), tmp_path))
    assert json.loads(rewritten(relabelled(corpus, 0, "O B-PER O O O O"), tmp_path))["%TYPES"] == {}


def test_what_refers_to_an_entity_keeps_it(tmp_path: Path) -> None:
    relation = json.dumps({"%ID": 30, "%TYPE": cas.RELATION, "@sofa": 2, "begin": 0, "end": 2, "@Dependent": 20})
    array = json.dumps({"%ID": 31, "%TYPE": "uima.cas.FSArray", "%ELEMENTS": [22, None]})
    numbers = json.dumps({"%ID": 32, "%TYPE": "uima.cas.IntegerArray", "%ELEMENTS": [20, 22]})
    for one, labels, number in ((relation, "O O O O B-ORG O", 20), (array, "O B-PER O O O O", 22)):
        corpus = read_corpus(written(document(*ENTITIES, one, numbers), tmp_path))
        with pytest.raises(DataError, match=f"the named entity with the id {number} cannot be removed, because"):
            rewritten(relabelled(corpus, 0, labels), tmp_path)
    corpus = read_corpus(written(document(*ENTITIES, numbers), tmp_path))
    assert entities(rewritten(relabelled(corpus, 0, "O O O O O O"), tmp_path)) == []


def test_without_entities_other_layers_are_named(tmp_path: Path) -> None:
    span = json.dumps({"%ID": 30, "%TYPE": cas.SPAN, "@sofa": 2, "begin": 0, "end": 2, "label": "X"})
    with pytest.raises(NoLabelsError, match=r"NamedEntity, only of 'webanno.custom.Span \(1\)'"):
        read_corpus(written(document(span), tmp_path))
    assert read_corpus(written(document(*ENTITIES, span), tmp_path)).skipped[0][1].startswith("its 1 of webanno")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (WHOLE[:-9], "in.json, line 16: is not valid JSON (Expecting ',' delimiter); export the document again"),
        ('{"%TYPES": ' + "[" * 100_000, "is not valid JSON (a value is too deep or too long)"),
        ('{"%TYPES": ' + "9" * 5000 + "}", "is not valid JSON (a value is too deep or too long)"),
        ('{"%TYPES": {}}', "has no %FEATURE_STRUCTURES"),
        ('{"%FEATURE_STRUCTURES": 1}', "has no %FEATURE_STRUCTURES"),
        ('{"%FEATURE_STRUCTURES": []}', "has no text (no sofa with a sofaString)"),
        ('{"%FEATURE_STRUCTURES": [[]]}', "found list among the structures, expected an object with a %TYPE"),
        ('{"%FEATURE_STRUCTURES": [{"%ID": true, "%TYPE": "a"}]}', "found the id 'true', expected a number from 0"),
        ('{"%FEATURE_STRUCTURES": {"a": {"%TYPE": "a"}}}', "found the id '\"a\"', expected a number from 0"),
        (WHOLE.replace('"%ID": 4', '"%ID": 3'), "the id 3 is given twice"),
        (WHOLE.replace('"begin": 7', '"begin": "7"'), "the structure with the id 5: found '\"7\"' under 'begin'"),
        (WHOLE.replace('"begin": 7', '"begin": 99'), "the Token with the id 5 is from 99 to 12, but its text has 33"),
        (WHOLE.replace('"begin": 7', '"begin": 4'), "the tokens with the ids 4 and 5 overlap"),
        (WHOLE.replace('"PER"', "7"), "found '7' under 'value', expected a name or nothing"),
        (WHOLE.replace('"@sofa" : 2', '"@sofa" : 1'), "the annotation with the id 20 has no text"),
        (WHOLE.replace(" Ada", "\\ud800 "), "half a surrogate pair"),
        (WHOLE.replace("20, 22", "20, []"), "the %SOFA and %MEMBERS of the view '_InitialView' should be numbers"),
        (WHOLE.replace('"%SOFA" : 2', '"%SOFA" : []'), "the %SOFA and %MEMBERS of the view '_InitialView' should be"),
        (document(*ENTITIES, views="[]"), "%VIEWS should be an object of views with %MEMBERS"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError) as raised:
        read_corpus(written(text, tmp_path), ReadOptions(format="cas-json"))
    assert message in str(raised.value)


def test_an_entity_cannot_come_where_there_is_no_view(tmp_path: Path) -> None:
    corpus = read_corpus(written(document(views='{"b": {"%SOFA": 1, "%MEMBERS": []}}', others=OTHERS[:1]), tmp_path))
    labels = "B-X " + " ".join(["O"] * (len(corpus.sentences[0]) - 1))
    with pytest.raises(DataError, match="the text of a new named entity has no view in %VIEWS"):
        rewritten(relabelled(corpus, 0, labels), tmp_path)


def test_it_is_known_by_its_beginning(tmp_path: Path) -> None:
    bare = '{"%FEATURE_STRUCTURES": [{"%ID": 1, "%TYPE": "uima.cas.Sofa", "sofaString": "a"}]}'
    for text in (WHOLE, "\ufeff" + WHOLE, bare, "\n{\n\n" + bare[1:], bare.replace("{", "{\r\n", 1)):
        assert read_corpus(written(text, tmp_path)).format == "cas-json"
    others = (
        ("conll", "{\tO\n\"%TYPES\"\tO\n"), ("jsonl", '{"tokens": ["%TYPES"], "labels": ["O"]}'),
        ("doccano", '{"text": "%TYPES", "label": []}'), ("jsonl", '{"%ID": 1, "tokens": ["a"], "labels": ["O"]}'),
        ("conll", "[\tO\n{\tO\n"),
    )  # fmt: skip
    for found, text in others:
        assert read_corpus(written(text, tmp_path, "in.txt")).format == found


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(rng=st.randoms(use_true_random=False))
def test_relabelling_changes_only_entities(tmp_path_factory: pytest.TempPathFactory, rng: Random) -> None:
    path = tmp_path_factory.getbasetemp() / "any.json"
    path.write_bytes(cas.json_by_hand(rng, cas.document(rng)).encode())
    check_unless_needed(path)


def check_unless_needed(path: Path) -> None:
    try:
        cas.checked("cas-json", cas.load_json)(path)
    except DataError as error:
        if "cannot be removed" not in str(error):
            raise


def test_what_cassis_writes(tmp_path: Path) -> None:
    """The library's own files, and its own reading of what was fixed in them."""
    for number in range(20):
        mode = (TypeSystemMode.FULL, TypeSystemMode.MINIMAL)[number % 2]
        text = cas.by_cassis(cas.document(Random(number))).to_json(pretty_print=number % 3 == 0, type_system_mode=mode)
        assert text is not None
        check_unless_needed(written(text, tmp_path))
        assert read_corpus(tmp_path / "in.json", require_labels=False).format == "cas-json"
