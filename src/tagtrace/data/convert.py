"""Converting data to another format, read back before it takes its name: no label is lost unsaid.

Formats that hold tokens must give the same tokens and labels back. Formats that hold texts with marks must give the
same texts and marks; where their tokens are then made by a rule, it is said how many differ.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, repeat
from pathlib import Path
from tempfile import TemporaryDirectory

from tagtrace._checks import DataError, OptionError, check_type
from tagtrace._files import check_not_input, check_outputs, file_moved_when_whole
from tagtrace._folders import check_replaceable, folder_moved_when_whole
from tagtrace._markup import counted
from tagtrace._pairs import moved_when_whole
from tagtrace._table import Described, Table
from tagtrace.data.corpus import Corpus, read_corpus
from tagtrace.data.formats import FORMATS, Format
from tagtrace.data.formats.fresh import FreshText, fresh_texts, marked_texts
from tagtrace.data.marked.alignment import Alignment
from tagtrace.data.marked.folders import write_files
from tagtrace.data.marked.marks import Mark, MarkedText
from tagtrace.data.marked.tokens import RULE
from tagtrace.data.options import ReadOptions
from tagtrace.data.rewrite import check_source
from tagtrace.data.schemes import normalise, segments
from tagtrace.data.source import compressed, shown
from tagtrace.data.source_folder import DataFolder

FRESH_NAMES = tuple(name for name, one in FORMATS.items() if one.fresh)
"""The names of the formats that data can be converted to."""


@dataclass(frozen=True)
class Converted(Described):
    """Data that was written in another format."""

    path: Path
    format: str
    num_sentences: int
    num_tokens: int
    num_segments: int
    """Entities, or labels of single tokens in plain schemes."""
    notes: tuple[str, ...]
    """What the new data does not have, or has in another form."""

    def describe(self) -> list[str | Table]:
        numbers = {"sentence": self.num_sentences, "token": self.num_tokens, "segment": self.num_segments}
        counts = ", ".join(counted(number, what) for what, number in numbers.items())
        first = f"wrote {self.path}: {FORMATS[self.format].what}, {counts}"
        return [first, *(f"note: {note}" for note in self.notes)]


def convert(corpus: Corpus, path: str | Path, format: str = "auto", *, overwrite: bool = False) -> Converted:
    """Write a corpus to ``path`` in another format: one of ``FRESH_NAMES``, or ``auto`` for what the path's name says.

    Tokens, labels, parts of speech and the names of sentences and documents are written as far as the format can hold
    them; the result says what was lost. Raises DataError, and writes nothing, if labels would be.
    """
    check_type("corpus", corpus, Corpus, "give read_corpus(path)")
    path = Path(path)
    found = format_of(path, format)
    check_target(corpus, path, found, overwrite=overwrite)
    check_source(corpus)
    texts = fresh_texts(corpus)
    with _written(found.load().fresh(texts), corpus, path, overwrite=overwrite) as aside:
        comparison = _Comparison(corpus, texts, found, aside)
        notes = tuple(comparison.notes())
    num_segments = sum(len(one.marks) for one in texts) - comparison.num_left_out()
    return Converted(path, found.name, len(corpus.sentences), corpus.num_tokens, num_segments, notes)


def format_of(path: Path, name: str) -> Format:
    """The format with this name or, for ``auto``, the only one that the path's name may mean."""
    if name != "auto":
        if name not in FRESH_NAMES:
            raise OptionError(f"data cannot be converted to {name!r}; choose one of {', '.join(FRESH_NAMES)}")
        return FORMATS[name]
    ending, formats = path.name.lower().removesuffix(".gz"), [FORMATS[one] for one in FRESH_NAMES]
    possible = [one for one in formats if not one.is_folder and ending.endswith((*one.endings, *one.named, "\0"))]
    if len(possible) != 1:
        names = ", ".join(one.name for one in possible) or ", ".join(FRESH_NAMES)
        raise OptionError(f"{path}: its name does not say its format; name one of {names}")
    return possible[0]


def is_folder(name: str | None) -> bool:
    """Whether new data of a format is a folder; no name of a path says so."""
    return name is not None and FORMATS[name].is_folder


def check_target(corpus: Corpus, path: Path, found: Format, *, overwrite: bool) -> None:
    """Raise if converted data may not be written to ``path``."""
    what, inputs = "the converted data", {"the data": corpus.path}
    if found.is_folder:
        check_not_input(what, path, inputs)
    else:
        check_outputs({what: path}, inputs, overwrite=overwrite)


@contextmanager
def _written(made: bytes | Mapping[str, bytes], corpus: Corpus, path: Path, *, overwrite: bool) -> Iterator[Path]:
    """Write what a format made; it takes its name when the block ends without an error."""
    if not isinstance(made, bytes):
        product, inputs = DataFolder.of(made), {"the data": corpus.path}
        check_replaceable(path, overwrite=overwrite, product=product, inputs=inputs)
        with folder_moved_when_whole(path, overwrite=overwrite, product=product, source=corpus.path) as aside:
            write_files(made, aside)
            yield aside
    elif path.exists() and not path.is_file():  # a pipe or a device cannot be read back
        with TemporaryDirectory() as folder:
            aside = Path(folder) / "converted"
            _write(made, aside, path)
            yield aside
            with file_moved_when_whole(path) as stream:
                stream.write(aside.read_bytes())
    else:
        with moved_when_whole(path, corpus.path) as aside:
            _write(made, aside, path)
            yield aside


def _write(data: bytes, place: Path, path: Path) -> None:
    with place.open("wb") as stream, compressed(stream, path.name.lower().endswith(".gz")) as out:
        out.write(data)


class _Comparison:
    """What was written, read back, beside the data that it was written from."""

    def __init__(self, corpus: Corpus, texts: Sequence[FreshText], found: Format, path: Path) -> None:
        self.corpus, self.texts, self.format, self.path = corpus, texts, found, path
        self.is_text = found.is_marked

    def notes(self) -> Iterator[str]:
        """What was lost; raises DataError if it is a label, or a token of a format that has its own."""
        back, refusal = self._read(ReadOptions())
        if refusal is not None:
            has_scheme = not self.is_text and self.corpus.scheme != "none"
            scheme = self.corpus.scheme if has_scheme else "auto"
            back, refusal = self._read(ReadOptions(format=self.format.name, scheme=scheme))
            if refusal is not None:
                raise refusal
            known = f"the format {self.format.name}{f' and the scheme {scheme}' * has_scheme}"
            yield f"it is not recognised by itself; read it with {known}"
        assert back is not None
        yield from self._lost(back)

    def _read(self, options: ReadOptions) -> tuple[Corpus | None, DataError | None]:
        """What is read with these options, and why it is not the same."""
        try:
            back = read_corpus(self.path, options, require_labels=self.corpus.scheme != "none")
        except DataError as error:
            message = f"{self.corpus.path}: cannot be converted to {self.format.what}, which would not be read back"
            return None, DataError(f"{message} ({error}); choose another format")
        if back.format != self.format.name:
            return None, DataError(f"{self.corpus.path}: would be read back as {FORMATS[back.format].what}")
        return back, self._text_difference(back) if self.is_text else self._row_difference(back)

    def _row_difference(self, back: Corpus) -> DataError | None:
        """The first sentence that differs."""
        rows = [(one, row) for one in self.texts for row in one.rows]
        others = chain(back.sentences, repeat(None))
        for (one, row), other in zip(rows, others, strict=False):
            labels = normalise(row.labels, self.corpus.scheme) if row.labels else ()
            if other is None or (other.tokens, other.labels) != (row.tokens, labels):
                return self._refusal(one.where(row))
        if len(rows) != len(back.sentences) or back.normalised_scheme != self.corpus.normalised_scheme:
            return self._refusal(str(self.corpus.path))
        return None

    def _text_difference(self, back: Corpus) -> DataError | None:
        """The first text that differs in its characters or marks, or in tokens of its own."""
        there = Counter((_content(one.text, one.marks), one.tokens) for one in marked_texts(back))
        for one in self.texts:
            content = _content(one.text, one.marks)
            found = [tokens for tokens in (one.tokens, None) if there[content, tokens] > 0]
            if not found:
                return self._refusal(one.where())
            there[content, found[0]] -= 1
        return None

    def _refusal(self, where: str) -> DataError:
        return DataError(
            f"{where} would not be the same in {self.format.what}: its tokens or labels have characters that this "
            "format cannot hold; convert to JSON lines with tokens (jsonl), or change them"
        )

    def _lost(self, back: Corpus) -> Iterator[str]:
        ours, theirs = self.corpus, back
        if self.is_text:
            yield from self._tokens_lost(back)
        elif num_left_out := self.num_left_out():
            yield f"spans of characters that labels of tokens cannot spell are left out: {num_left_out:,}"
        if len(ours.sentences) != len(theirs.sentences):
            yield f"sentences are divided in another way: {len(ours.sentences):,} become {len(theirs.sentences):,}"
        else:
            yield from _renamed("sentence", [one.id for one in ours.sentences], [one.id for one in theirs.sentences])
        if ours.documents and len(ours.documents) != len(theirs.documents):
            yield f"documents are divided in another way: {len(ours.documents):,} become {len(theirs.documents):,}"
        elif ours.documents:
            yield from _renamed("document", ours.documents, theirs.documents)
        if any(one.pos is not None for one in ours.sentences) and all(one.pos is None for one in theirs.sentences):
            yield "parts of speech are left out"
        if ours.scheme == "none" and theirs.scheme != "none":
            yield "the data has no labels, which this format cannot say: read the copy without labels"
        elif ours.normalised_scheme != theirs.normalised_scheme:
            yield f"labels of the scheme {ours.scheme} are marks of entities"
        odd = [f"{one.name}: {what}" for one in self.texts for what in one.odd]
        if odd:
            yield f"annotations of other kinds are left out: {len(odd):,} (the first is of {odd[0]})"
        if ours.num_comments:
            yield f"comments are left out: {ours.num_comments:,}"

    def num_left_out(self) -> int:
        """The number of marks that labels of tokens cannot spell: they fit no tokens, overlap, or repeat others."""
        if self.is_text:
            return 0
        rows = [row for one in self.texts for row in one.rows if row.labels]
        num_spelled = sum(len(segments(row.labels, self.corpus.scheme)) for row in rows)
        return sum(len(one.marks) for one in self.texts) - num_spelled

    def _tokens_lost(self, back: Corpus) -> Iterator[str]:
        """How many tokens and marks a reader that makes its own tokens sees in another way."""
        there = defaultdict[object, list[MarkedText]](list)
        for marked in marked_texts(back):
            there[_content(marked.text, marked.marks)].append(marked)
        num_tokens = num_marks = 0
        for one in self.texts:
            alignment = Alignment.of(there[_content(one.text, one.marks)].pop())
            num_tokens += len(set(one.tokens) - set(alignment.tokens))
            num_marks += len(one.marks) - len(alignment.found) - sum(map(len, alignment.twins.values()))
        if num_tokens:
            yield (
                f"this format has no tokens of its own: tagtrace divides {num_tokens:,} of {self.corpus.num_tokens:,} "
                f"tokens in another way (rule {RULE}); all labels are there as spans of characters"
            )
        if num_marks:
            yield (
                "spans that do not begin and end with tokens of that rule, or overlap, which tagtrace keeps and does "
                f"not learn from: {num_marks:,}"
            )


def _content(text: str, marks: Sequence[Mark]) -> object:
    return text, tuple(sorted((mark.start, mark.stop, mark.label) for mark in marks))


def _renamed(what: str, ours: Sequence[str], theirs: Sequence[str]) -> Iterator[str]:
    """A note if names differ, with the first one that does."""
    if sorted(ours) != sorted(theirs):
        was, now = next((a, b) for a, b in zip(sorted(ours), sorted(theirs), strict=True) if a != b)
        yield f"{what}s have other names: {shown(was)} is {shown(now)}"
    elif list(ours) != list(theirs):
        yield f"{what}s are in another order"
