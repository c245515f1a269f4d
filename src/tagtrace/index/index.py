"""An index opened for reading: everything memory-mapped, text decoded on demand."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from copy import deepcopy
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from tagtrace._checks import DataError, TaggerError
from tagtrace._markup import counted
from tagtrace._places import find_place
from tagtrace._table import Described, Table, fact_table
from tagtrace._tensor_files import not_finite
from tagtrace.data.corpus import Corpus
from tagtrace.data.labels import LabelSet
from tagtrace.data.sentence import Sentence
from tagtrace.index.checksums import check_contents
from tagtrace.index.files import IndexFolderError, check_file, map_tensors
from tagtrace.index.fingerprints import content_fingerprint, tagger_fingerprint
from tagtrace.index.manifest import HEAD, MARKER, Manifest, read_manifest
from tagtrace.index.options import megabytes
from tagtrace.index.shards import Shard, read_errors, read_rows, read_text
from tagtrace.index.text import number_words, read_documents, read_ids, read_sentence
from tagtrace.tagger.folder import is_tagger, load_tagger
from tagtrace.tagger.foreign.huggingface import is_checkpoint
from tagtrace.tagger.head import Head, HeadOptions, head_of
from tagtrace.tagger.rows import RowParts, Rows, token_places
from tagtrace.tagger.tagger import Tagger


class Index(Described):
    """N tokens in B sentences: their features and conditional errors, and the head that belongs to them.

    Rows are tokens in the order of the data; row r of the index is row ``r - first_token`` of its shard.
    """

    folder: Path
    manifest: Manifest

    def __init__(self, folder: Path, manifest: Manifest, head: Head, tagger_folder: str | Path | None = None) -> None:
        self.folder, self.manifest, self._tagger_folder = folder, manifest, tagger_folder
        self.head = head
        """In float64, at the optimum of the objective on the stored features unless ``manifest.fit`` says otherwise."""
        self._text: dict[int, dict[str, Tensor]] = {}
        self._built_with: Tagger | None = None

    def __repr__(self) -> str:
        return f"<Index {self.folder}: {self.num_sentences:,} sentences, {self.num_tokens:,} tokens>"

    def __str__(self) -> str:
        size, per_token = megabytes(self.num_bytes), self.num_bytes / self.num_tokens / 1000
        return (
            f"{self.folder}: {self.num_tokens:,} tokens in {self.num_sentences:,} sentences, {size}, "
            f"{per_token:.2f} KB per token, max |gradient| {self.manifest.fit.max_gradient:.1e}"
        )

    def describe(self) -> list[str | Table]:
        fit, data, tagger = self.manifest.fit, self.manifest.data, self.manifest.tagger
        num_shards = counted(len(self.manifest.shards), "shard")
        facts = {
            "training data": f"{data.path}: {self.num_sentences:,} sentences, {self.num_tokens:,} tokens",
            "labels": f"{len(self.labels)}, {self.labels.scheme}: {' '.join(self.labels.labels)}",
            "tagger": f"{tagger.path or 'in memory'}: {tagger.encoder}, {self.manifest.dim} features",
            "head": f"{self.manifest.head}, {'refitted' if fit.refit else 'as trained'}, "
            f"max |gradient| {fit.max_gradient:.1e}",
            "size": f"{megabytes(self.num_bytes)}, {self.manifest.dtype}, {num_shards}",
        }
        return [fact_table(f"index {self.folder}", facts)]

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
        """Size on disk."""
        return sum(file.num_bytes for file in self.manifest.files()) + (self.folder / MARKER).stat().st_size

    @cached_property
    def shards(self) -> tuple[Shard, ...]:
        """All shards, memory-mapped."""
        shards: list[Shard] = []
        first_token = first_sentence = 0
        for number, record in enumerate(self.manifest.shards):
            rows = read_rows(self.folder, number, len(self.labels))
            if (
                rows.features.shape != (record.num_tokens, self.manifest.dim)
                or len(rows.lengths) != record.num_sentences
            ):
                raise IndexFolderError(
                    f"{self.folder}: shard {number} does not match the manifest; build the index again"
                )
            errors = read_errors(self.folder, number, (record.num_tokens, len(self.labels)))
            shards.append(Shard(rows.features, errors, rows.labels, rows.lengths, first_token, first_sentence))
            first_token, first_sentence = first_token + record.num_tokens, first_sentence + record.num_sentences
        return tuple(shards)

    @cached_property
    def lengths(self) -> Tensor:
        """The number of tokens of each sentence, (B,)."""
        return torch.cat([shard.lengths for shard in self.shards])

    @cached_property
    def starts(self) -> Tensor:
        """The row of each sentence's first token, (B,)."""
        return self.lengths.cumsum(0) - self.lengths

    @cached_property
    def label_ids(self) -> Tensor:
        """The label number of every token, (N,)."""
        return torch.cat([shard.labels for shard in self.shards])

    @cached_property
    def documents(self) -> list[str]:
        """The document of every sentence; empty for sentences without a document."""
        return [name for number in range(len(self.shards)) for name in read_documents(self._columns(number))]

    @cached_property
    def ids(self) -> list[str]:
        """The id of every sentence."""
        return [name for number in range(len(self.shards)) for name in read_ids(self._columns(number))]

    def words(self) -> tuple[np.ndarray, list[str]]:
        """The number of each token's word, (N,), and the words by number."""
        return number_words([self._columns(number) for number in range(len(self.shards))])

    def sentence_number(self, sentence_id: str) -> int:
        """The number of the sentence with an id."""
        found = self._numbers.get(sentence_id, [])
        if len(found) == 1:
            return found[0]
        problem = "several training sentences have" if found else "no training sentence has"
        raise DataError(f"{self.folder}: {problem} the id {sentence_id!r}; check the id")

    @cached_property
    def _numbers(self) -> dict[str, list[int]]:
        numbers: dict[str, list[int]] = {}
        for number, name in enumerate(self.ids):
            numbers.setdefault(name, []).append(number)
        return numbers

    @cached_property
    def rows(self) -> RowParts:
        """Features and labels of all sentences as they are stored, memory-mapped."""
        return RowParts(tuple(shard.rows() for shard in self.shards))

    def sentence_rows(self, sentence_number: int, dtype: torch.dtype | None = None) -> Rows:
        """Features and labels of one sentence."""
        shard, start, stop = self._place(sentence_number)
        features = shard.features[start:stop]
        return Rows(features.to(dtype or features.dtype), shard.labels[start:stop], torch.tensor([stop - start]))

    def rows_where(self, keep: Tensor) -> Iterator[tuple[Tensor, Rows]]:
        """The sentences where ``keep`` (B,) is True, shard by shard: their numbers, and their features as stored."""
        for shard in self.shards:
            kept = keep[shard.first_sentence : shard.first_sentence + len(shard.lengths)]
            if bool(kept.any()):
                numbers = kept.nonzero().squeeze(1)
                tokens = token_places(shard.lengths, numbers)
                part = Rows(shard.features[tokens], shard.labels[tokens], shard.lengths[numbers])
                yield numbers + shard.first_sentence, part

    def errors(self, sentence_number: int) -> Tensor:
        """The conditional errors (T, C) of one sentence's tokens."""
        shard, start, stop = self._place(sentence_number)
        return shard.errors[start:stop]

    def sentence(self, sentence_number: int) -> Sentence:
        """One sentence for display: its tokens, labels, id, document and source lines."""
        shard, start, stop = self._place(sentence_number)
        labels = self.labels.decode(shard.labels[start:stop].tolist())
        return read_sentence(
            self._columns(self._shard_number(sentence_number)), sentence_number - shard.first_sentence, start, labels
        )

    def locate(self, row: int) -> tuple[int, int]:
        """The sentence of a row, and the token's position in it."""
        if not 0 <= row < self.num_tokens:
            raise IndexError(f"row {row} is outside the index; it has rows 0 to {self.num_tokens - 1}")
        number = int(torch.searchsorted(self.starts, row, right=True)) - 1
        return number, row - int(self.starts[number])

    def added_folder(self, name: str) -> Path:
        """A folder of the index that is written later; raises IndexFolderError if it is a link."""
        folder = self.folder / name
        if folder.is_symlink():
            raise IndexFolderError(f"{folder}: a link, where the index should have its own folder; remove the link")
        return folder

    def verify(self) -> None:
        """Read every file and raise IndexFolderError if one is not what was written."""
        check_contents(self.folder, tuple(self.manifest.files()), again=True)

    def tagger(self, folder: str | Path | None = None) -> Tagger:
        """The tagger that the index was built with, with the head of the index; a new object at every call.

        It is loaded from ``folder`` (default: where it was when the index was built).
        """
        tagger = self.trained_tagger(folder)
        tagger.head = deepcopy(self.head).to(tagger.device)
        tagger.is_fitted = True
        return tagger

    def trained_tagger(self, folder: str | Path | None = None) -> Tagger:
        """Like ``tagger``, with the head as it was trained."""
        if folder is None and self._built_with is not None and self._is_own(self._built_with):
            return deepcopy(self._built_with).eval()
        place = folder or self._tagger_folder or self._tagger_path()
        tagger = load_tagger(place, pooling=self.manifest.tagger.pooling if is_checkpoint(Path(place)) else None)
        self.check_tagger(tagger)
        return tagger

    def built_with(self, tagger: Tagger) -> Index:
        """This index, which uses this tagger in memory for as long as its weights do not change."""
        self._built_with = tagger
        return self

    def _is_own(self, tagger: Tagger) -> bool:
        return tagger_fingerprint(tagger) == self.manifest.tagger.fingerprint

    def data_path(self) -> Path:
        """Where the training data is: relative to the index as it was or, if nothing is there, where it was."""
        saved = self.manifest.data
        return find_place(self.folder, "data", saved.path, saved.from_index)

    def _tagger_path(self) -> Path:
        saved = self.manifest.tagger
        return find_place(self.folder, "tagger", saved.path, saved.from_index)

    def check_tagger(self, tagger: Tagger) -> None:
        """Raise IndexFolderError unless the index was built with this tagger."""
        if tagger.labels != self.labels:
            raise self._refusal("the tagger's labels differ from the index's")
        if not self._is_own(tagger):
            raise self._refusal(f"built with another tagger (from {self.manifest.tagger.path or 'memory'})")

    def check_corpus(self, corpus: Corpus) -> None:
        """Raise IndexFolderError unless the index was built from this data."""
        data = self.manifest.data
        if corpus.fingerprint != data.fingerprint:
            raise self._refusal(f"built from other data ({data.path}), not from {corpus.path}")
        if content_fingerprint(corpus) != data.content:
            raise self._refusal(f"the sentences or labels of {corpus.path} differ from the index's")

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
        """The text of a shard."""
        if number not in self._text:
            self._text[number] = read_text(self.folder, number, self.shards[number])
        return self._text[number]


def open_index(folder: str | Path, *, verify: bool = False, tagger: str | Path | None = None) -> Index:
    """Open the index that ``build_index`` wrote; the sizes of its files and the checksum of its head are compared.

    With ``verify`` all checksums are compared. That reads every file, unless the checksums were correct before and no
    file has changed since. ``tagger`` is the folder of its tagger, if that has been moved.
    """
    folder = Path(folder)
    manifest = read_manifest(folder)
    files = tuple(manifest.files())
    if verify:
        check_contents(folder, files)
    for file in files:
        check_file(file, folder)
    check_file(manifest.head_file, folder, contents=True)
    head = read_head(folder, manifest.dim, manifest.labels, manifest.head)
    return Index(folder, manifest, head, tagger)


def open_index_or_tagger(folder: str | Path) -> Index | Tagger:
    """The index or the tagger in a folder; the contents of an index are checked."""
    if (Path(folder) / MARKER).is_file():
        return open_index(folder, verify=True)
    if is_tagger(folder):
        return load_tagger(folder)
    raise TaggerError(f"{folder}: neither an index nor a tagger; give a folder that one of them was saved to")


def read_head(folder: Path, dim: int, labels: LabelSet, options: HeadOptions) -> Head:
    """The head stored in a folder, in float64."""
    weights = map_tensors(folder / HEAD)
    try:
        head = head_of(weights, dim, labels, options).double()
    except TaggerError as error:
        raise IndexFolderError(
            f"{folder}: the head does not fit the manifest ({error}); build the index again"
        ) from error
    if not_finite(dict(head.named_parameters())):
        raise IndexFolderError(f"{folder / HEAD}: the weights are not finite numbers; build the index again")
    return head
