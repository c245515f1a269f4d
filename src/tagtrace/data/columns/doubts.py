"""What is doubtful about the columns that were guessed for a CoNLL file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tagtrace.data.columns.fields import LINE_END, split_fields
from tagtrace.data.columns.layout import Layout, LineKind
from tagtrace.data.columns.numbering import numbering
from tagtrace.data.options import ReadOptions
from tagtrace.data.source import shown

_ENOUGH_TOKENS = 20
_HEADINGS = frozenset(("token", "tokens", "word", "words", "form", "text"))
_PREFIXES = ("B-", "I-", "S-", "U-")


def column_doubts(layout: Layout, probed: Sequence[tuple[int, str]], options: ReadOptions) -> Iterator[str]:
    """Sentences that say what was guessed from the first lines of a file, why, and what to choose if it is wrong.

    Nothing is doubtful about a column that the options name.
    """
    rows = [
        (number, fields)
        for number, line in probed
        if (fields := split_fields(line.rstrip(LINE_END)))
        and layout.kind(line.rstrip(LINE_END), fields) is LineKind.TOKEN
        and len(fields) == layout.num_columns
    ]
    if not rows:
        return
    if options.token_column is None:
        yield from _about_numbers(layout, probed, labelled=options.labelled)
        yield from _about_a_heading(layout, rows[0])
    if options.label_column is None and layout.label is not None:
        yield from _about_labels(layout, layout.label, [fields for _, fields in rows])


def _about_numbers(layout: Layout, probed: Sequence[tuple[int, str]], *, labelled: bool) -> Iterator[str]:
    found = numbering(probed, labelled=labelled)
    if not found.is_doubtful:
        return
    what = "the first column is mostly numbers, but not a count from 0 or 1"
    if found.first_gap:
        what = "in line {}, the first column has {} after {}".format(*found.first_gap)
    if layout.numbered:
        yield f"{what}; it was read as numbers of the tokens in column 1: if it is the tokens, choose token_column 0"
    else:
        yield f"{what}; it was read as the tokens: if it numbers the tokens, choose token_column 1"


def _about_a_heading(layout: Layout, first: tuple[int, list[str]]) -> Iterator[str]:
    number, fields = first
    if fields[layout.token].lower() in _HEADINGS:
        text = shown(" ".join(fields))
        yield f"line {number} looks like a heading ({text}); it was read as a token: if it is none, remove the line"


def _about_labels(layout: Layout, label: int, rows: Sequence[list[str]]) -> Iterator[str]:
    values = [fields[label] for fields in rows]
    if layout.numbered and layout.num_columns == 10 and any("NER=" in fields[9] for fields in rows):
        yield f"column {label} was read as the label, but column 9 has NER=; if that is it, choose the format conllu"
        return
    if not _are_segment_labels(values):
        others = [k for k in range(layout.num_columns) if k != label and _are_segment_labels([row[k] for row in rows])]
        if others:
            yield (
                f"column {label}, the last, was read as the label, but column {others[0]} has labels such as "
                f"{shown(_an_example(rows, others[0]))}; if those are the labels, choose label_column {others[0]}"
            )
            return
    if len(values) >= _ENOUGH_TOKENS and 2 * len(set(values)) > len(values):
        yield (
            f"column {label} was read as the label, but has {len(set(values))} different values in the first "
            f"{len(values)} tokens; if it is not the label, choose another label_column"
        )


def _are_segment_labels(values: Sequence[str]) -> bool:
    """Whether all values are ``O`` or have a prefix, and some do."""
    return all(value == "O" or value.startswith((*_PREFIXES, "E-", "L-")) for value in values) and any(
        value.startswith(_PREFIXES) for value in values
    )


def _an_example(rows: Sequence[list[str]], column: int) -> str:
    return next(row[column] for row in rows if row[column] != "O")
