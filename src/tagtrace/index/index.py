"""An index opened for reading: everything memory-mapped, text decoded on demand."""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from tagtrace.data.corpus import Corpus
from tagtrace.data.labels import LabelSet
from tagtrace.data.sentence import Sentence
from tagtrace.index.checksums import check_contents
from tagtrace.index.files import IndexFolderError, map_tensors
from tagtrace.index.fingerprints import content_fingerprint, tagger_fingerprint
from tagtrace.index.manifest import HEAD, MARKER, Manifest, read_manifest
from tagtrace.index.shards import Shard, join_rows, read_errors, read_rows, text_name
from tagtrace.index.text import Strings, read_sentence
from tagtrace.tagger.head import Head, HeadOptions
from tagtrace.tagger.rows import Rows
from tagtrace.tagger.tagger import Tagger


class Index:
    """N tokens in B sentences: their features and conditional errors, and the head that belongs to them.

    Rows are tokens in the order of the data; row r of the index is row ``r - first_token`` of its shard.
    """

    def __init__(self, folder: Path, manifest: Manifest, head: Head) -> None:
        self.folder, self.manifest = folder, manifest
        self.head = head
        """In float64, at the optimum of the objective on the stored features unless ``manifest.fit`` says otherwise."""
        self._text: dict[int, dict[str, Tensor]] = {}

    @property
    def labels(self) -> LabelSet:
        return self.manifest.labels

    @property
    def num_tokens(self) -> int:
        return self.manifest.num_tokens

    @property
    def num_sentences(self) -> int:
        return self.manifest.num_sentences

    @property
    def num_bytes(self) -> int:
        """What the index takes on the disk."""
        return sum(file.num_bytes for file in self.manifest.files()) + (self.folder / MARKER).stat().st_size

    @cached_property
    def shards(self) -> tuple[Shard, ...]:
        """All shards, memory-mapped."""
        shards: list[Shard] = []
        first_token = first_sentence = 0
        for number, record in enumerate(self.manifest.shards):
            rows = read_rows(self.folder, number)
            if (
                rows.features.shape != (record.num_tokens, self.manifest.dim)
                or len(rows.lengths) != record.num_sentences
            ):
                raise IndexFolderError(f"{self.folder}: shard {number} is not the one in the manifest; build it again")
            errors = read_errors(self.folder, number, (record.num_tokens, len(self.labels)))
            shards.append(Shard(rows.features, errors, rows.labels, rows.lengths, first_token, first_sentence))
            first_token, first_sentence = first_token + record.num_tokens, first_sentence + record.num_sentences
        return tuple(shards)

    @cached_property
    def lengths(self) -> Tensor:
        """Tokens of each sentence, (B,)."""
        return torch.cat([shard.lengths for shard in self.shards])

    @cached_property
    def starts(self) -> Tensor:
        """The row of each sentence's first token, (B,)."""
        return self.lengths.cumsum(0) - self.lengths

    def rows(self, dtype: torch.dtype | None = None) -> Rows:
        """Features and labels of all sentences, for refits and Hessians, in the stored dtype or another.

        Several shards, or another dtype, are copied into memory; one shard in its own dtype stays memory-mapped.
        """
        return join_rows([shard.rows() for shard in self.shards], dtype)

    def sentence_rows(self, sentence_number: int, dtype: torch.dtype | None = None) -> Rows:
        """Features and labels of one sentence."""
        shard, start, stop = self._place(sentence_number)
        features = shard.features[start:stop]
        return Rows(features.to(dtype or features.dtype), shard.labels[start:stop], torch.tensor([stop - start]))

    def errors(self, sentence_number: int) -> Tensor:
        """The conditional errors (T, C) of one sentence's tokens."""
        shard, start, stop = self._place(sentence_number)
        return shard.errors[start:stop]

    def sentence(self, sentence_number: int) -> Sentence:
        """One sentence for display: its tokens, labels, names and source lines."""
        shard, start, stop = self._place(sentence_number)
        labels = self.labels.decode(shard.labels[start:stop].tolist())
        return read_sentence(
            self._columns(self._shard_number(sentence_number)), sentence_number - shard.first_sentence, start, labels
        )

    def ids(self) -> list[str]:
        """The id of every sentence, in order; the rest of the text is not decoded."""
        found: list[str] = []
        for number, record in enumerate(self.manifest.shards):
            columns = self._columns(number)
            found += Strings(columns["ids"], columns["ids.places"]).range(0, record.num_sentences)
        return found

    def locate(self, row: int) -> tuple[int, int]:
        """The sentence of a row, and the token's position in it."""
        if not 0 <= row < self.num_tokens:
            raise IndexError(f"row {row} is outside the index; it has rows 0 to {self.num_tokens - 1}")
        number = int(torch.searchsorted(self.starts, row, right=True)) - 1
        return number, row - int(self.starts[number])

    def verify(self) -> None:
        """Read every file and raise IndexFolderError where one is not what was written."""
        check_contents(self.folder, tuple(self.manifest.files()), again=True)

    def check_tagger(self, tagger: Tagger) -> None:
        """Raise IndexFolderError unless the index was built with this tagger."""
        if tagger.labels != self.labels:
            raise self._refusal("the tagger's labels are others than the index's")
        if tagger_fingerprint(tagger) != self.manifest.tagger["fingerprint"]:
            raise self._refusal(f"built with another tagger (from {self.manifest.tagger['path'] or 'memory'})")

    def check_corpus(self, corpus: Corpus) -> None:
        """Raise IndexFolderError unless the index was built from this data."""
        data = self.manifest.data
        if corpus.fingerprint != data["fingerprint"]:
            raise self._refusal(f"built from other data than {corpus.path} (from {data['path']})")
        if content_fingerprint(corpus) != data["content"]:
            raise self._refusal(f"{corpus.path} was read otherwise: other sentences or labels than the index's")

    def _refusal(self, reason: str) -> IndexFolderError:
        return IndexFolderError(f"{self.folder}: {reason}; give the one it was built with, or build the index again")

    @cached_property
    def _first_sentences(self) -> list[int]:
        return [shard.first_sentence for shard in self.shards]

    def _shard_number(self, sentence_number: int) -> int:
        if not 0 <= sentence_number < self.num_sentences:
            raise IndexError(
                f"sentence {sentence_number} is outside the index; it has sentences 0 to {self.num_sentences - 1}"
            )
        return bisect_right(self._first_sentences, sentence_number) - 1

    def _place(self, sentence_number: int) -> tuple[Shard, int, int]:
        """The sentence's shard and its rows ``start:stop`` there."""
        shard = self.shards[self._shard_number(sentence_number)]
        start = int(self.starts[sentence_number]) - shard.first_token
        return shard, start, start + int(self.lengths[sentence_number])

    def _columns(self, number: int) -> dict[str, Tensor]:
        if number not in self._text:
            self._text[number] = map_tensors(self.folder / text_name(number))
        return self._text[number]


def open_index(folder: str | Path, *, verify: bool = False) -> Index:
    """The index ``build_index`` wrote, whose files have the right sizes, and whose head the right checksum.

    With ``verify`` all checksums are compared, which reads every file, unless they were right before and no file has
    changed since.
    """
    folder = Path(folder)
    manifest = read_manifest(folder)
    files = tuple(manifest.files())
    if verify:
        check_contents(folder, files)
    for file in files:
        file.check(folder)
    manifest.head_file.check(folder, contents=True)
    head = read_head(folder, manifest.dim, manifest.labels, manifest.head)
    return Index(folder, manifest, head)


def read_head(folder: Path, dim: int, labels: LabelSet, options: HeadOptions) -> Head:
    """The head stored in a folder, in float64."""
    with torch.random.fork_rng(devices=[]):  # a new head draws numbers that nobody needs
        head = Head(dim, labels, options).double()
    try:
        head.load_state_dict(map_tensors(folder / HEAD))
    except RuntimeError as error:
        raise IndexFolderError(f"{folder}: the head does not fit the manifest; build the index again") from error
    return head
