"""An index stores what was computed, whatever the shards, and its head is the optimum on the stored features."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
import torch
from torch import Tensor, nn

from tagtrace.data import Corpus, LabelSet, ReadOptions, Sentence
from tagtrace.data.invented import generate
from tagtrace.index import Index, IndexOptions, build_index, estimate_size, open_index, token_errors
from tagtrace.tagger import Encoder, HeadOptions, RefitOptions, Tagger, new_tagger, refit_head
from tagtrace.tagger.convex.objective import Objective
from tests.strategies import HEADS, LABELS

WORDS = ["Oslo", "in", "Zürich", "der", "Bank", "東京", "a", "b", "c", "."]


class Spelt(Encoder):
    """A row of a table for each word: exact, whatever the batch. Counts the sentences it encodes."""

    kind = "spelt"
    trainable = True

    def __init__(self, dim: int = 6, seed: int = 0, scale: float = 1.0) -> None:
        super().__init__()
        self.dim, self.num_encoded = dim, 0
        self.table = nn.Parameter(scale * torch.randn(64, dim, generator=torch.Generator().manual_seed(seed)))

    def prepare(self, sentence: Sentence) -> list[int]:
        return [crc32(token.encode()) % 64 for token in sentence.tokens]

    def forward(self, batch: Sequence[list[int]]) -> Tensor:
        self.num_encoded += len(batch)
        return self.table[torch.tensor([row for prepared in batch for row in prepared])]

    def save(self, folder: Path) -> None:
        raise NotImplementedError

    @classmethod
    def load(cls, folder: Path) -> Spelt:
        raise NotImplementedError


def make_tagger(seed: int = 0, head: HeadOptions | None = None, unit: Any = "sentence", **encoder: Any) -> Tagger:
    tagger = new_tagger(Spelt(**encoder), LABELS, head, unit)
    generator = torch.Generator().manual_seed(seed)
    tagger.head.set_flat(0.1 * torch.randn(tagger.head.num_parameters, generator=generator))
    return tagger


def make_corpus(num_sentences: int = 12, seed: int = 0, name: str = "train.conll") -> Corpus:
    """Sentences of 1 to 7 tokens, three a document."""
    rng = random.Random(seed)
    sentences, offset = [], 0
    for number in range(num_sentences):
        tokens = tuple(rng.choices(WORDS, k=rng.randint(1, 7)))
        labels: list[str] = []
        for _ in tokens:
            labels.append(rng.choice(["O", "B-X", "I-X"] if labels and labels[-1] != "O" else ["O", "B-X"]))
        document, lines = f"doc-{number // 3}", range(offset + 2 * number + 1, offset + 2 * number + 1 + len(tokens))
        sentences.append(Sentence(tokens, tuple(labels), f"s:{number}", document, name, lines, offset))
        offset += len(tokens)
    return Corpus(Path(name), tuple(sentences), "iob2", ReadOptions(), f"{name}{seed}")


def plain(sentence: Sentence) -> Sentence:
    """A sentence as an index gives it back: lines as a tuple, parts of speech left out."""
    return Sentence(
        sentence.tokens, sentence.labels, sentence.id, sentence.document, sentence.path,
        tuple(sentence.lines), sentence.offset,
    )  # fmt: skip


def max_gradient(index: Index) -> float:
    return Objective(index.head, index.rows.joined(), index.manifest.l2).evaluate(index.head.flat()).max_gradient


@pytest.mark.parametrize("head", HEADS, ids=str)
def test_the_index_stores_what_was_computed(tmp_path: Path, head: HeadOptions) -> None:
    tagger, corpus = make_tagger(head=head), make_corpus()
    index = build_index(tagger, corpus, tmp_path / "index", IndexOptions(shard_tokens=16))
    rows, stored = tagger.rows(corpus.sentences), index.rows.joined()
    assert len(index.shards) > 2
    assert torch.equal(stored.features, rows.features.half())
    assert torch.equal(stored.labels, rows.labels)
    assert torch.equal(index.lengths, rows.lengths)
    assert (index.num_tokens, index.num_sentences) == (corpus.num_tokens, len(corpus.sentences))
    fitted = refit_head(tagger.head, stored, RefitOptions()).head
    torch.testing.assert_close(index.head.flat(), fitted.flat(), rtol=0, atol=1e-4)
    assert index.head.weight.dtype == torch.float64
    errors = torch.cat([shard.errors for shard in index.shards])
    torch.testing.assert_close(errors, token_errors(fitted, stored).float(), rtol=0, atol=1e-4)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index"]
    assert not (tmp_path / "index" / "progress.json").exists()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_head_is_the_optimum_on_the_stored_features(tmp_path: Path, dtype: Any) -> None:
    tagger = make_tagger()
    before = tagger.head.flat()
    index = build_index(tagger, make_corpus(40), tmp_path / "index", IndexOptions(dtype))
    assert index.manifest.fit.refit
    assert index.manifest.fit.max_gradient == max_gradient(index) <= 1e-6
    assert torch.equal(tagger.head.flat(), before)
    exact = refit_head(tagger.head, tagger.rows(make_corpus(40).sentences)).head
    unrounded = Objective(exact, index.rows.joined(), 1.0).evaluate(exact.flat()).max_gradient
    assert (unrounded > 1e-6) == (dtype != "float32")  # without the refit on rounded features it would not hold


@pytest.mark.parametrize(("dtype", "accuracy"), [("float16", 2**-11), ("bfloat16", 2**-8), ("float32", 0.0)])
def test_rounding_of_features(tmp_path: Path, dtype: Any, accuracy: float) -> None:
    tagger, corpus = make_tagger(), make_corpus()
    index = build_index(tagger, corpus, tmp_path / "index", IndexOptions(dtype))
    exact = tagger.rows(corpus.sentences).features
    assert index.shards[0].features.dtype == getattr(torch, dtype)
    off = (index.rows.joined().features - exact).abs() / exact.abs()
    assert off.max() <= accuracy
    assert off.max() >= accuracy / 4


@pytest.mark.parametrize("shard_tokens", [1, 10, 25])
def test_size_of_shards_changes_nothing(tmp_path: Path, shard_tokens: int) -> None:
    tagger, corpus = make_tagger(), make_corpus()
    one = build_index(tagger, corpus, tmp_path / "one")
    many = build_index(tagger, corpus, tmp_path / "many", IndexOptions(shard_tokens=shard_tokens))
    assert len(one.shards) == 1 < len(many.shards) <= len(corpus.sentences)
    assert shard_tokens > 1 or len(many.shards) == len(corpus.sentences)
    assert torch.equal(one.rows.joined().features, many.rows.joined().features)
    torch.testing.assert_close(one.head.flat(), many.head.flat(), rtol=0, atol=1e-4)  # max |gradient| is below 1e-6
    torch.testing.assert_close(
        one.shards[0].errors, torch.cat([shard.errors for shard in many.shards]), rtol=0, atol=1e-4
    )
    for number in range(one.num_sentences):
        assert one.sentence(number) == many.sentence(number) == plain(corpus.sentences[number])
        assert torch.equal(one.sentence_rows(number).features, many.sentence_rows(number).features)
        assert torch.equal(one.sentence_rows(number).labels, many.sentence_rows(number).labels)
        torch.testing.assert_close(one.errors(number), many.errors(number), rtol=0, atol=1e-4)


def test_every_row_finds_its_token(tmp_path: Path) -> None:
    corpus = make_corpus()
    index = build_index(make_tagger(), corpus, tmp_path / "index", IndexOptions(shard_tokens=9))
    places = [(i, t) for i, sentence in enumerate(corpus.sentences) for t in range(len(sentence))]
    assert [index.locate(row) for row in range(index.num_tokens)] == places
    for shard in index.shards:
        assert index.locate(shard.first_token) == (shard.first_sentence, 0)
        assert index.starts[shard.first_sentence] == shard.first_token
    for outside in (-1, index.num_tokens):
        with pytest.raises(IndexError, match="outside the index"):
            index.locate(outside)
    for outside in (-1, index.num_sentences):
        with pytest.raises(IndexError, match="outside the index"):
            index.sentence(outside)


def test_documents_as_sentences(tmp_path: Path) -> None:
    tagger, corpus = make_tagger(unit="document"), make_corpus(12)
    index = build_index(tagger, corpus, tmp_path / "index", IndexOptions(shard_tokens=20))
    assert index.num_sentences == 4
    assert index.manifest.unit == "document"
    assert [index.sentence(i) for i in range(4)] == [plain(number) for number in tagger.joined(corpus.sentences)]
    assert index.sentence(2).tokens == sum((s.tokens for s in corpus.sentences[6:9]), ())
    assert torch.equal(index.rows.joined().features, tagger.rows(corpus.sentences).features.half())


def test_without_refit_the_manifest_says_so(tmp_path: Path) -> None:
    tagger = make_tagger()
    index = build_index(tagger, make_corpus(), tmp_path / "index", IndexOptions(refit=False, l2=3.0))
    assert torch.equal(index.head.flat(), tagger.head.flat().double())
    saved = json.loads((tmp_path / "index" / "manifest.json").read_text())
    assert saved["fit"]["refit"] is False
    assert saved["fit"]["max_gradient"] == max_gradient(index) > 1e-3
    expected = token_errors(index.head, index.rows.joined()).float()
    assert torch.equal(index.shards[0].errors, expected)


def test_l2_is_kept_and_matters(tmp_path: Path) -> None:
    weak = build_index(make_tagger(), make_corpus(), tmp_path / "weak", IndexOptions(l2=0.1))
    strong = build_index(make_tagger(), make_corpus(), tmp_path / "strong", IndexOptions(l2=10.0))
    assert (weak.manifest.l2, strong.manifest.l2) == (0.1, 10.0)
    assert max(max_gradient(weak), max_gradient(strong)) <= 1e-6
    assert weak.head.flat().norm() > 2 * strong.head.flat().norm()


def test_manifest_names_where_it_came_from(tmp_path: Path) -> None:
    options = IndexOptions("bfloat16", l2=2.0, shard_tokens=30)
    index = build_index(make_tagger(), make_corpus(), tmp_path / "index", options, tagger_path="some/tagger")
    saved = json.loads((tmp_path / "index" / "manifest.json").read_text())
    assert saved["format"] == 2
    assert saved["options"] == options.to_json()
    for name, place in {"tagger": Path("some/tagger"), "data": Path("train.conll")}.items():
        assert saved[name]["path"] == str(place.absolute())
        assert (tmp_path / "index" / saved[name]["from_index"]).resolve() == place.resolve()
    assert LabelSet.from_json(saved["labels"]) == index.labels == LABELS
    assert sum(shard["num_tokens"] for shard in saved["shards"]) == saved["num_tokens"] == index.num_tokens
    assert index.num_bytes == sum(path.stat().st_size for path in (tmp_path / "index").iterdir())
    modes = {path.stat().st_mode & 0o777 for path in (tmp_path / "index").iterdir()}
    assert len(modes) == 1  # safetensors makes private files; the index has ordinary ones


def test_features_are_mapped_and_safe_from_writes(tmp_path: Path) -> None:
    index = build_index(make_tagger(dim=512), make_corpus(40), tmp_path / "index")
    for tensor, name in ((index.shards[0].features, "shard-00000"), (index.shards[0].errors, "errors-00000")):
        assert any(name in line and _within(tensor.data_ptr(), line) for line in _maps())
    assert index.rows.joined().features.data_ptr() == index.shards[0].features.data_ptr()
    index.shards[0].features.zero_()
    open_index(tmp_path / "index", verify=True)


def _maps() -> list[str]:
    maps = Path("/proc/self/maps")
    return maps.read_text().splitlines() if maps.exists() else pytest.skip("needs /proc")


def _within(address: int, line: str) -> bool:
    start, stop = (int(end, 16) for end in line.split(maxsplit=1)[0].split("-"))
    return start <= address < stop


def test_progress_counts_all_sentences(tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    steps: list[int] = []
    build_index(
        make_tagger(), make_corpus(), tmp_path / "index", IndexOptions(shard_tokens=10),
        lambda done, total: calls.append((done, total)),
        refit_progress=lambda step, *_: steps.append(step),
    )  # fmt: skip
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)
    assert calls[-1] == (12, 12)
    assert steps[:2] == [1, 2]


def test_at_most_1700_bytes_a_token(tmp_path: Path) -> None:
    """Everything but features and errors is measured on newswire; D = 768, C = 9 then follow."""
    sentences = generate(num_documents=150).train
    labels = LabelSet.from_sentences(sentences, "iob2")
    corpus = Corpus(Path("train.conll"), tuple(sentences), "iob2", ReadOptions(), "0")
    index = build_index(new_tagger(Spelt(4), labels), corpus, tmp_path / "index", IndexOptions(refit=False))
    rest = index.num_bytes / index.num_tokens - 2 * 4 - 4 * len(labels)
    assert index.num_tokens > 10_000
    assert rest + 2 * 768 + 4 * 9 <= 1700
    estimate = estimate_size(index.num_tokens, 768, 9) / index.num_tokens
    assert abs(estimate - (rest + 2 * 768 + 4 * 9)) < 0.01 * estimate
