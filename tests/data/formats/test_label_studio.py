"""Label Studio's JSON: which annotation counts, how offsets count, edits, and what its own SDK reads of the result."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tagtrace._checks import DataError
from tagtrace.data import Corpus, ReadOptions, read_corpus, write_corpus
from tagtrace.data.formats.label_studio.offsets import Offsets, is_alike
from tagtrace.data.formats.label_studio.regions import MOST_STRINGS, Region
from tests.fuzz import annotated

Item = dict[str, Any]
TEXT = "Orla Vane sang in Oslo."
EMOJI = "\U0001f30a Orla Vane sang in Oslo."
LAYOUTS: tuple[Item, ...] = ({}, {"separators": (",", ":")}, {"indent": 2}, {"indent": "\t"}, {"ensure_ascii": False})


def result(text: str, words: str, label: str, *, in_units: bool = False, **more: Any) -> Item:
    """A result as Label Studio writes it; offsets count characters, or UTF-16 code units."""
    start = text.index(words)
    places = [len(text[:at].encode("utf-16-le")) // 2 if in_units else at for at in (start, start + len(words))]
    value = {"start": places[0], "end": places[1], "text": words, "labels": [label]}
    names = {"id": f"id-{start}", "from_name": "label", "to_name": "text", "type": "labels", "origin": "manual"}
    return {"value": value, **names, **more}


def annotation(*results: Item, **more: Any) -> Item:
    return {"id": 1, "completed_by": 1, "was_cancelled": False, "ground_truth": False, "result": [*results], **more}


def task(*annotations: Item, text: str = TEXT, **more: Any) -> Item:
    return {"id": 5, "data": {"text": text}, "annotations": [*annotations], "predictions": [], **more}


def usual(text: str = TEXT, *, in_units: bool = False, **more: Any) -> Item:
    """A task with Orla Vane and Oslo marked."""
    found = (result(text, "Orla Vane", "PER", in_units=in_units), result(text, "Oslo", "ORG", in_units=in_units))
    return task(annotation(*found), text=text, **more)


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., Corpus]:
    def read_tasks(*tasks: Item, layout: Item | None = None, **options: Any) -> Corpus:
        path = tmp_path / "tiny.json"
        path.write_text(json.dumps(tasks, **(layout or {})), encoding="utf-8")
        return read_corpus(path, ReadOptions(**options))

    return read_tasks


def relabel(corpus: Corpus, number: int, labels: str) -> Path:
    """The file with a sentence relabelled."""
    sentences, target = list(corpus.sentences), corpus.path.with_name("fixed.json")
    sentences[number] = sentences[number].with_labels(labels.split())
    write_corpus(corpus.with_sentences(sentences), target)
    return target


def results_of(path: Path, number: int = 0) -> list[Item]:
    return json.loads(path.read_text(encoding="utf-8"))[number]["annotations"][0]["result"]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_only_the_label_differs(read: Callable[..., Corpus], layout: Item):
    corpus = read(usual(), usual(id=6, meta={"\u00e9": [1.50, None]}), layout=layout)
    assert corpus.format == "label-studio"
    assert [s.labels for s in corpus.sentences] == [("B-PER", "I-PER", "O", "O", "B-ORG", "O")] * 2
    fixed = relabel(corpus, 1, "B-PER I-PER O O B-LOC O").read_text(encoding="utf-8")
    before = corpus.path.read_text(encoding="utf-8")
    assert fixed == '"LOC"'.join(before.rsplit('"ORG"', 1))


CONFIG = """<View><Labels name="label" toName="text"><Label value="PER"/><Label value="ORG"/><Label value="LOC"/>
</Labels><Text name="text" value="$text"/></View>"""


def test_its_own_sdk_reads_the_fixed_file(read: Callable[..., Corpus]):
    """Converted by the SDK, only the fixed label differs, and every annotation is valid for the project."""
    converter = pytest.importorskip(
        "label_studio_sdk.converter", reason="label-studio-sdk is not installed: it brings OpenCV and 30 more packages"
    )
    interface = pytest.importorskip("label_studio_sdk.label_interface").LabelInterface(CONFIG)
    sdk = converter.Converter(CONFIG, project_dir=None)
    corpus = read(usual(EMOJI), usual(id=6), task(annotation(result(TEXT, "Vane", "PER"))), layout={"indent": 2})
    fixed = relabel(corpus, 0, "O B-PER I-PER O O B-LOC O")
    before, after = (list(sdk.iter_from_json_file(str(path))) for path in (corpus.path, fixed))
    assert len(before) == 3
    assert before[0]["output"]["label"][1]["labels"] == ["ORG"]
    before[0]["output"]["label"][1]["labels"] = ["LOC"]
    assert after == before
    added = relabel(corpus, 1, "B-PER I-PER B-ORG O B-ORG O")
    for each in json.loads(added.read_text()):
        assert all(interface.validate_annotation(one) for one in each["annotations"])
    (found,) = [one for one in list(sdk.iter_from_json_file(str(added)))[1]["output"]["label"] if one["text"] == "sang"]
    assert found == {"start": 10, "end": 14, "text": "sang", "labels": ["ORG"], "type": "Labels"}


@pytest.mark.parametrize("in_units", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_offsets_count_as_the_file_does(read: Callable[..., Corpus], in_units: bool, layout: Item):
    corpus = read(usual(EMOJI, in_units=in_units), layout=layout)
    assert corpus.sentences[0].labels == ("O", "B-PER", "I-PER", "O", "O", "B-ORG", "O")
    assert corpus.skipped == ()
    fixed = results_of(relabel(corpus, 0, "O O B-PER O B-X B-ORG O"))
    expected = [result(EMOJI, *each, in_units=in_units) for each in (("Vane", "PER"), ("Oslo", "ORG"), ("in", "X"))]
    assert [one["value"] for one in fixed] == [one["value"] for one in expected]
    assert [one["id"] for one in fixed[:2]] == [one["id"] for one in usual(EMOJI)["annotations"][0]["result"]]


def without_text(each: Item) -> Item:
    for one in each["annotations"][0]["result"]:
        del one["value"]["text"]
    return each


@pytest.mark.parametrize("in_units", [False, True])
def test_a_task_that_does_not_tell_counts_like_the_others(read: Callable[..., Corpus], in_units: bool):
    corpus = read(without_text(usual(EMOJI, in_units=in_units)), usual(EMOJI, in_units=in_units))
    assert {s.labels for s in corpus.sentences} == {("O", "B-PER", "I-PER", "O", "O", "B-ORG", "O")}
    assert corpus.skipped == ()


def test_a_file_that_does_not_tell_is_reported(read: Callable[..., Corpus]):
    corpus = read(without_text(usual(EMOJI, in_units=True)))
    assert corpus.sentences[0].labels == ("O", "B-PER", "I-PER", "O", "O", "B-ORG", "O")
    assert "nothing tells how the offsets count" in corpus.skipped[0][1]
    assert read(without_text(usual())).skipped == ()


@given(st.text(st.sampled_from("ab \U0001f30a\U0001f1f3\u0301"), max_size=8), st.booleans())
def test_offsets_there_and_back(text: str, in_units: bool):
    offsets = Offsets(text, in_units=in_units)
    for place in range(len(text) + 1):
        counted = len(text[:place].encode("utf-16-le")) // 2 if in_units else place
        assert offsets.to_file(place) == counted
        assert offsets.from_file(counted) == place
    known = {offsets.to_file(place) for place in range(len(text) + 1)}
    for other in {*range(-2, 2 * len(text) + 3)} - known:
        assert offsets.from_file(other) is None


@pytest.mark.parametrize(
    ("said", "alike"),
    [("Orla\n Vane", True), ("Orla\\nVane", True), (" Orla Vane ", True), ("OrlaVane", False), ("Orla", False)],
)
def test_spaces_and_line_ends_may_differ(said: str, alike: bool):
    assert is_alike("Orla\n Vane", said) == alike


class TestAnnotations:
    """One annotation of each task counts, and the others stay."""

    def labels(self, read: Callable[..., Corpus], *annotations: Item) -> str:
        corpus = read(task(*annotations), usual())
        (first,) = [s for s in corpus.sentences if s.document == "5"] or [None]
        return "none" if first is None or len(corpus.sentences) == 1 else first.labels[0]

    def of(self, label: str, **more: Any) -> Item:
        return annotation(result(TEXT, "Orla", label), **more)

    def test_the_last_updated_counts(self, read: Callable[..., Corpus]):
        times = ("2026-03-01T10:00:00Z", "2026-03-01T10:00:00.5Z", "2026-03-01T11:00:00+02:00", "nonsense", None)
        found = [self.of(f"L{number}", updated_at=when) for number, when in enumerate(times)]
        assert self.labels(read, *found) == "B-L1"
        assert self.labels(read, *reversed(found)) == "B-L1"

    def test_the_ground_truth_counts_before(self, read: Callable[..., Corpus]):
        late = self.of("LATE", updated_at="2026-03-01T10:00:00Z")
        assert self.labels(read, self.of("TRUE", ground_truth=True), late) == "B-TRUE"
        assert self.labels(read, self.of("TRUE", ground_truth=True, was_cancelled=True), late) == "B-LATE"

    def test_of_equals_the_last_counts(self, read: Callable[..., Corpus]):
        assert self.labels(read, self.of("A"), self.of("B")) == "B-B"

    def test_others_are_counted_and_stay(self, read: Callable[..., Corpus]):
        given_ = task(self.of("A"), self.of("B", ground_truth=True), self.of("C", was_cancelled=True))
        corpus = read(given_)
        assert corpus.skipped == ((1, "other annotations of this task, kept and not learned from: 2"),)
        fixed = json.loads(relabel(corpus, 0, "B-X O O O O O").read_text())[0]["annotations"]
        assert [fixed[0], fixed[2]] == [given_["annotations"][0], given_["annotations"][2]]
        assert fixed[1]["result"][0]["value"]["labels"] == ["X"]

    def test_tasks_without_one_are_left_out_and_stay(self, read: Callable[..., Corpus]):
        others = [task(), {"data": {"text": "sea"}}, task(self.of("A", was_cancelled=True)), task(annotations=None)]
        corpus = read(*others, usual())
        assert len(corpus.sentences) == 1
        assert json.loads(relabel(corpus, 0, "O O O O O O").read_text())[:4] == json.loads(json.dumps(others))


def test_what_is_no_mark_is_reported_and_stays(read: Callable[..., Corpus]):
    others = [
        result(TEXT, "Vane", "PER") | {"type": "choices", "value": {"choices": ["sad"]}},
        {"from_id": "a", "to_id": "b", "type": "relation", "direction": "right"},
        result(TEXT, "sang", "X", to_name="title"),
        *(result(TEXT, "sang", "X") for _ in range(6)),
    ]
    others[2]["value"]["text"] = "A title"
    others[3]["value"]["labels"] = ["A", "B"]
    others[4]["value"]["labels"] = []
    others[5]["value"] |= {"start": "/div[1]/text()[1]", "startOffset": 0}
    others[6]["value"]["text"] = "wept"
    others[7]["value"]["end"] = 999
    others[8]["value"]["globalOffsets"] = {"start": 1, "end": 2}
    corpus = read(task(annotation(*others, result(TEXT, "Oslo", "ORG"), result(TEXT, "Orla", "PER"))))
    assert corpus.sentences[0].labels == ("B-PER", "O", "O", "O", "B-ORG", "O")
    assert [reason for _, reason in corpus.skipped] == [
        "results that are no labels, kept and not looked at: 2 (1 choices, 1 relation)",
        "result 3 has 2 labels instead of one; it is kept as it is",
        "result 4 has 0 labels instead of one; it is kept as it is",
        "result 5 is not in plain text; it is kept as it is",
        "result 8 is not in plain text; it is kept as it is",
        "the X at 10 to 14 (result 2) is about 'title', not 'text'; it is kept as it is",
        "the X at 10 to 14 (result 6) should be 'wept', but 'sang' is there; it is kept as it is",
        "the X at 10 to 999 (result 7) is not in the text, which has 23 characters; it is kept as it is",
    ]
    assert results_of(relabel(corpus, 0, "O O O O B-LOC O"))[:9] == others


class TestNewResults:
    def test_has_the_keys_of_the_others_and_an_id_of_its_own(self, read: Callable[..., Corpus]):
        corpus = read(usual())
        fixed = relabel(corpus, 0, "B-PER I-PER B-ORG O B-ORG O")
        new = results_of(fixed)[2]
        assert list(new) == list(result(TEXT, "sang", "ORG"))
        assert {**new, "id": "id-10"} == result(TEXT, "sang", "ORG")
        assert re.fullmatch(r"[A-Za-z0-9_-]{10}", new["id"])
        assert results_of(relabel(corpus, 0, "B-PER I-PER B-ORG O B-ORG O"))[2] == new
        assert results_of(relabel(corpus, 0, "B-PER I-PER B-LOC O B-ORG O"))[2]["id"] != new["id"]

    def test_keys_of_one_that_a_model_made_are_not_taken(self, read: Callable[..., Corpus]):
        made = result(TEXT, "Oslo", "LOC", origin="prediction", score=0.5, meta={"text": ["?"]})
        new = results_of(relabel(read(task(annotation(made))), 0, "B-LOC O O O B-LOC O"))[1]
        assert {**new, "id": "id-0"} == result(TEXT, "Orla", "LOC")

    def test_its_label_says_which_control_it_is_of(self, read: Callable[..., Corpus]):
        found = [result(TEXT, "Oslo", "LOC", from_name="places"), result(TEXT, "Orla", "PER", from_name="people")]
        corpus = read(task(annotation(*found)), task(annotation()))
        assert results_of(relabel(corpus, 0, "B-PER O B-PER O B-LOC O"))[2]["from_name"] == "people"
        fixed = relabel(corpus, 1, "O O B-PER O O O")
        assert results_of(fixed, 1)[0]["from_name"] == "people"
        assert results_of(fixed, 1)[0]["value"] == {"start": 10, "end": 14, "text": "sang", "labels": ["PER"]}

    @pytest.mark.parametrize("empty", [{"result": []}, {"result": None}, {}])
    def test_of_an_annotation_that_had_none(self, read: Callable[..., Corpus], empty: Item):
        corpus = read(task(empty), usual())
        assert results_of(relabel(corpus, 0, "O O O O B-ORG O"))[0]["value"] == result(TEXT, "Oslo", "ORG")["value"]

    def test_where_no_result_is_like_it(self, read: Callable[..., Corpus]):
        with pytest.raises(DataError, match="no result tells the 'from_name' of a new one"):
            relabel(read(task(annotation())), 0, "B-PER O O O O O")

    def test_written_over_several_lines_like_the_others(self, read: Callable[..., Corpus]):
        given_ = usual()
        corpus = read(given_, layout={"indent": 4})
        fixed = relabel(corpus, 0, "B-PER I-PER B-ORG O B-ORG O")
        expected = json.loads(corpus.path.read_text())
        expected[0]["annotations"][0]["result"].append(results_of(fixed)[2])
        assert fixed.read_text() == json.dumps(expected, indent=4)


def test_a_mark_that_is_removed_leaves_the_others(read: Callable[..., Corpus]):
    relation = {"from_id": "id-0", "to_id": "id-18", "type": "relation"}
    given_ = task(annotation(result(TEXT, "Orla Vane", "PER"), relation, result(TEXT, "Oslo", "ORG")))
    assert results_of(relabel(read(given_), 0, "O O O O B-ORG O")) == given_["annotations"][0]["result"][1:]


def test_a_byte_order_mark_and_windows_line_ends_stay(read: Callable[..., Corpus]):
    corpus = read(usual(), layout={"indent": 2})
    text = ("\ufeff" + corpus.path.read_text() + "\n").replace("\n", "\r\n").encode()
    corpus.path.write_bytes(text)
    fixed = relabel(read_corpus(corpus.path), 0, "B-PER I-PER O O B-LOC O")
    assert fixed.read_bytes() == text.replace(b'"ORG"', b'"LOC"')
    added = relabel(read_corpus(corpus.path), 0, "B-PER I-PER B-ORG O B-ORG O").read_bytes()
    assert added.count(b"\n") == added.count(b"\r\n") == text.count(b"\n") + 15


def test_a_moved_mark_says_its_new_text(read: Callable[..., Corpus]):
    text = "Orla\nVane sang."
    given_ = task(annotation(result(text, "Orla\nVane sang", "PER")), text=text)
    given_["annotations"][0]["result"][0]["value"]["text"] = "Orla\\nVane sang"
    (fixed,) = results_of(relabel(read(given_), 0, "B-PER I-PER O O"))
    assert fixed["value"] == {"start": 0, "end": 9, "text": "Orla\\nVane", "labels": ["PER"]}


class TestKeys:
    """Under which key the text is."""

    def text(self, read: Callable[..., Corpus], data: Item, *results: Item, **more: Any) -> str:
        corpus = read(task(annotation(*results), data=data), **more)
        return " ".join(corpus.sentences[0].tokens)

    def test_the_one_that_the_results_fit(self, read: Callable[..., Corpus]):
        assert self.text(read, {"a": "x", "body": TEXT, "text": "y"}, result(TEXT, "Oslo", "LOC")).startswith("Orla")

    def test_text_is_preferred(self, read: Callable[..., Corpus]):
        data = {"a": "Oslo here", "text": "Oslo there"}
        assert self.text(read, data, result("Oslo", "Oslo", "LOC")) == "Oslo there"
        assert self.text(read, data) == "Oslo there"

    def test_a_task_that_does_not_tell_is_read_like_the_others(self, read: Callable[..., Corpus]):
        told = task(annotation(result(TEXT, "Oslo", "LOC")), data={"body": TEXT, "title": "sea"})
        corpus = read(task(annotation(), data={"title": "sea", "body": "rain"}), told)
        assert corpus.sentences[0].tokens == ("rain",)

    @pytest.mark.parametrize("data", [{"a": "x", "b": "y"}, {"a": "Oslo x", "b": "Oslo y"}])
    def test_one_that_cannot_be_known(self, read: Callable[..., Corpus], data: Item):
        with pytest.raises(DataError, match=r"line 1: 2 strings .*may be the text; name the one that is 'text'"):
            self.text(read, data, result("Oslo", "Oslo", "LOC"))

    def test_no_string(self, read: Callable[..., Corpus]):
        with pytest.raises(DataError, match="no string under 'data' may be the text"):
            self.text(read, {"text": 3})


def test_lines_are_those_where_tasks_begin(read: Callable[..., Corpus]):
    corpus = read(usual(), usual(), layout={"indent": 1})
    lines = corpus.path.read_text().splitlines()
    first = [number for number, line in enumerate(lines, 1) if line == " {"]
    assert [s.lines[0] for s in corpus.sentences] == first


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"id": 1}', "line 1: found '{\"id\": 1}', expected a list of tasks"),
        ("\n 3", "line 2: found '3', expected a list of tasks"),
        ("", "line 1: found '', expected a list of tasks"),
        ("[", "line 1: '' is not valid JSON (Expecting value)"),
        ('[{"data": {},}]', "line 1: '}]' is not valid JSON"),
        ('[{"data": {"text": "a"}}\n\n{}]', "line 3: '{}]' is not valid JSON (Expecting ',' delimiter)"),
        ('[{"data": {"text": "a"}},]', "line 1: ']' is not valid JSON (Expecting value)"),
        ("[]\n[]", "line 2: '[]' is not valid JSON (Extra data)"),
        ("[" * 100_000, "is not valid JSON (a value is too deep or too long)"),
        ('[{"id": ' + "9" * 5000 + "}]", "is not valid JSON (a value is too deep or too long)"),
        ("[]", "found no sentences"),
        ("[3]", "line 1: expected a task, an object with data and annotations"),
        ('[{"text": "a", "label": [{"start": 0, "end": 1, "labels": ["X"]}]}]', "line 1: has no 'data'; JSON-MIN and"),
        ('[{"data": {"text": "a"}, "completions": []}]', "line 1: has 'completions' of an old Label Studio"),
        ('[{"data": {"text": "a"}, "annotations": {}}]', "line 1: expected a list of objects under 'annotations'"),
        ('[{"data": {"text": "a"}, "annotations": [{"result": [3]}]}]', "expected a list of objects under 'result'"),
        (
            '[{"data": {"text": "a"}, "annotations": [{"result": [{"type": "labels"}]}]}]',
            "result 0 of type labels has no",
        ),
        (
            '[{"data": {"text": "a"}, "annotations": [{"result": [{"type": "labels", "value": {"labels": "X"}}]}]}]',
            "line 1: the 'labels' of result 0 are no list",
        ),
        (
            '[{"data": {"text": "a"}, "annotations": '
            '[{"result": [{"type": "labels", "value": {"start": 0, "end": 1, "labels": [{}]}}]}]}]',
            "line 1: found the label an object, expected a name",
        ),
        ('[{"data": {"text": "\\ud800"}, "annotations": [{"result": []}]}]', "line 1: found half a surrogate pair"),
        ('[{"id": [], "data": {"text": "a"}, "annotations": [{"result": []}]}]', "found a list under 'id', expected"),
    ],
)
def test_errors_say_what_where_and_what_to_try(tmp_path: Path, text: str, message: str):
    path = tmp_path / "tiny.json"
    path.write_text(text)
    with pytest.raises(DataError) as caught:
        read_corpus(path, ReadOptions(format="label-studio"))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_many_tasks_take_seconds(read: Callable[..., Corpus]):
    """Nothing is done for each task that takes longer the more tasks there are."""
    corpus = read(*(usual(id=number) for number in range(5000)))
    labels = [["B-LOC" if label == "B-ORG" else label for label in s.labels] for s in corpus.sentences]
    pairs = zip(corpus.sentences, labels, strict=True)
    start = time.process_time()
    write_corpus(corpus.with_sentences(s.with_labels(new) for s, new in pairs), corpus.path.with_name("fixed.json"))
    assert time.process_time() - start < 20
    assert corpus.path.read_text().replace('"ORG"', '"LOC"') == corpus.path.with_name("fixed.json").read_text()


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('[{"id": 1, "data": {"text": "sea"}, "annotations": [{"result": []}]}]', "label-studio"),
        ('\ufeff\n[\n  {\n    "id": 1, "data": {"text": "sea"}, "annotations": [{"result": []}]}]', "label-studio"),
        ('[{\n"id": 1, "data": {"text": "sea"}, "annotations": [{"result": []}]}]', "label-studio"),
        ("[ O\nsea O\n", "conll"),
        ("[\nsea\n", "conll"),
        ("[\n{\nsea\n", "conll"),
        ('[\n{\n"\nsea\n', "conll"),
        ("[{ O\nsea O\n", "conll"),
        ("[\tO\n\n{\tO\n", "conll"),
        ('{"text": "sea", "label": [[0, 3, "X"]]}', "doccano"),
        ('{"tokens": ["["], "tags": ["O"]}', "jsonl"),
    ],
)
def test_is_told_from_its_neighbours(tmp_path: Path, text: str, name: str):
    path = tmp_path / "tiny.json"
    path.write_text(text)
    assert read_corpus(path, require_labels=False).format == name


@given(st.integers(0, 2**64 - 1).map(Random))
def test_generated_files_are_edited_in_one_place(tmp_path_factory: pytest.TempPathFactory, rng: Random):
    path = tmp_path_factory.mktemp("tasks") / "file"
    path.write_text(annotated.label_studio(rng), newline="")
    annotated.is_read(
        path, annotated.label_studio_relabelled, "found no sentences|tells the 'from_name'|may be the text"
    )


@given(st.integers(0, 2**64 - 1).map(Random))
def test_a_label_changed_and_changed_back_gives_the_same_bytes(tmp_path_factory: pytest.TempPathFactory, rng: Random):
    annotated.check_there_and_back(tmp_path_factory.mktemp("tasks"), annotated.label_studio(rng), "label-studio", rng)


def test_many_strings_are_not_all_compared_with_all_regions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    labelled = {"start": 0, "end": 3, "text": "Ada", "labels": ["PER"]}
    data = {**{f"key {number}": "x" for number in range(500)}, "text": "Ada said"}
    task = {"data": data, "annotations": [{"result": [{"type": "labels", "to_name": "text", "value": labelled}]}]}
    path, fits, compared = tmp_path / "x.json", Region.fits, list[Region]()
    path.write_text(json.dumps([task]))
    monkeypatch.setattr(Region, "fits", lambda region, offsets: compared.append(region) or fits(region, offsets))
    assert read_corpus(path).sentences[0].labels == ("B-PER", "O")
    assert 1 < len(compared) < 2 * MOST_STRINGS


def test_the_beginning_of_a_file_is_looked_at_once(tmp_path: Path) -> None:
    """What backtracks takes minutes here."""
    path = tmp_path / "x"
    path.write_bytes(b" " * 300_000 + b"x\n")
    with pytest.raises(DataError):
        read_corpus(path)
