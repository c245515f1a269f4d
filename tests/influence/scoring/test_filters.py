"""Filters against their definition, token by token, and filters before the strongest are picked."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tagtrace._checks import DataError, OptionError
from tagtrace.data import LabelSet, read_corpus
from tagtrace.data.invented import generate, write_invented
from tagtrace.index import Index, IndexOptions, build_index
from tagtrace.influence import Explainer, Filter, Query, find_candidates
from tagtrace.tagger import Lexical, LexicalOptions, new_tagger

KINDS = ["token", "entity", "segment", "sentence", "document"]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    folder = tmp_path_factory.mktemp("filters")
    write_invented(generate(num_documents=20), folder)
    corpus = read_corpus(folder / "train.conll")
    torch.manual_seed(0)
    encoder = Lexical(LexicalOptions(buckets=64, width=4, hidden=4))
    tagger = new_tagger(encoder, LabelSet.from_sentences(corpus.sentences, "iob2"))
    return build_index(tagger, corpus, folder / "index", IndexOptions(dtype="float32", shard_tokens=300))


def query_of(index: Index, types: tuple[str, ...]) -> Query:
    """A query whose segment has one token of each of these labels."""
    rows = index.sentence_rows(1, torch.float64)
    labels = rows.labels.clone()
    labels[: len(types)] = torch.tensor(index.labels.encode(types))
    return Query(rows.features, labels, 0, len(types))


class Token:
    """What a filter may ask of one training token."""

    def __init__(self, index: Index, sentence_number: int, t: int) -> None:
        sentence = index.sentence(sentence_number)
        self.label, self.document = sentence.labels[t], sentence.document
        self.type = self.label.split("-")[-1]
        p = index.errors(sentence_number)[t].double().clone()
        p[index.labels.index(self.label)] += 1.0
        self.probabilities = dict(zip(index.labels.labels, p.tolist(), strict=True))

    def likelier(self, given: str, likely: str) -> bool:
        p = {
            name: sum(v for label, v in self.probabilities.items() if label.endswith(name)) for name in (given, likely)
        }
        return self.type == given and p[likely] > p[given]


Check = Callable[[list[Token], bool], bool]
CASES: list[tuple[Filter, Check]] = [
    (Filter(only="same"), lambda s, whole: {"ORG"} <= types(s) if whole else types(s) == {"ORG"}),
    (Filter(only="other"), lambda s, whole: not ({"ORG"} <= types(s) if whole else types(s) == {"ORG"})),
    (Filter(label="LOC"), lambda s, whole: "LOC" in types(s) if whole else types(s) == {"LOC"}),
    (Filter(label="O"), lambda s, whole: "O" in types(s) if whole else types(s) == {"O"}),
    (Filter(label="I-PER"), lambda s, whole: (any if whole else all)(t.label == "I-PER" for t in s)),
    (
        Filter(pair="LOC:ORG"),
        lambda s, whole: (whole or types(s) == {"LOC"}) and any(t.likelier("LOC", "ORG") for t in s),
    ),
    (Filter(document="train-5"), lambda s, _: {t.document for t in s} == {"train-5"}),
    (
        Filter("other", "PER", document="train-3"),
        lambda s, whole: (
            s[0].document == "train-3"
            and ("PER" in types(s) and "ORG" not in types(s) if whole else types(s) == {"PER"})
        ),
    ),
]  # fmt: skip


def types(segment: list[Token]) -> set[str]:
    return {token.type for token in segment}


@pytest.mark.parametrize("kind", KINDS)
def test_filters_are_their_definition(index: Index, kind: str) -> None:
    candidates = find_candidates(index, kind)  # type: ignore[arg-type]
    tokens = {(c, t): Token(index, c, t) for c, n in enumerate(index.lengths.tolist()) for t in range(n)}
    segments = [
        [
            tokens[sentence_number, t]
            for sentence_number, start, stop in candidates.parts(number)
            for t in range(start, stop)
        ]
        for number in range(len(candidates))
    ]
    query = query_of(index, ("B-ORG", "I-ORG"))
    num_kept = 0
    for filter_, check in CASES:
        expected = [check(segment, kind in ("sentence", "document")) for segment in segments]
        assert filter_.keep(index, candidates, query).tolist() == expected, filter_
        num_kept += sum(expected)
        assert not all(expected) or kind in ("sentence", "document")
    assert num_kept > 0
    assert kind == "document" or sum(CASES[5][0].keep(index, candidates, query)) > 0


def test_a_query_of_two_types_has_the_label_of_segments_with_both(index: Index) -> None:
    candidates = find_candidates(index, "segment")
    kept = Filter("same").keep(index, candidates, query_of(index, ("B-PER", "O")))
    expected = []
    for number, start, stop in candidates.segments.tolist():
        held = {label.split("-")[-1] for label in index.sentence(number).labels[start:stop]}
        expected.append(held == {"PER", "O"})
    assert kept.tolist() == expected
    assert any(expected)


def test_filters_come_before_the_strongest(index: Index) -> None:
    explainer, query = Explainer(index), query_of(index, ("B-ORG",))
    everything = explainer.explain(query, top=10**6)
    filtered = explainer.explain(query, top=3, where=Filter(label="PER"))
    labels = {(c, t): label for c in range(index.num_sentences) for t, label in enumerate(index.sentence(c).labels)}
    for all_of_them, found in (
        (everything.supporters, filtered.supporters),
        (everything.opposers, filtered.opposers),
    ):
        expected = [one for one in all_of_them if labels[one.sentence_number, one.start].endswith("PER")][:3]
        assert found == expected
        assert len(found) == 3
    assert filtered.num_candidates == sum(label.endswith("PER") for label in labels.values())


@pytest.mark.parametrize("score", ["influence", "cosine", "relative", "neighbour-label"])
@pytest.mark.parametrize("kind", KINDS)
def test_where_nothing_is_left_both_sides_are_empty(index: Index, score: str, kind: str) -> None:
    keep = Filter(label="MISC", pair="LOC:PER") if kind not in ("sentence", "document") else None
    keep = keep or Filter("other", document="train-5", label="ORG")
    found = Explainer(index).explain(query_of(index, ("B-ORG",)), score, kind, keep=keep)  # type: ignore[arg-type]
    assert (found.supporters, found.opposers, found.num_candidates) == ([], [], 0)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Filter(only="similar"), OptionError, "expected same or other"),  # type: ignore[arg-type]
        (lambda: Filter(pair="LOC"), OptionError, "expected GIVEN:LIKELY"),
        (lambda: Filter(label="WINE"), OptionError, "unknown label 'WINE'; the index knows LOC, MISC, O, ORG, PER"),
        (lambda: Filter(pair="LOC:WINE"), OptionError, "unknown label 'WINE'"),
        (lambda: Filter(pair="LOC:B-LOC"), OptionError, "nothing in common"),
        (lambda: Filter(document="train-99"), DataError, "no document 'train-99'; it has train-0, "),
    ],
)
def test_bad_filters(index: Index, make: Callable[[], Filter], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make().keep(index, find_candidates(index, "token"), query_of(index, ("O",)))
