r"""WebAnno TSV 3, as INCEpTION and WebAnno export a document: a line for each token, columns for layers of annotations.

    #FORMAT=WebAnno TSV 3.3
    #T_SP=de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity|identifier|value

    #Text=Ada Lovelace lives
    1-1<tab>0-3<tab>Ada<tab>*[1]<tab>PER[1]<tab>
    1-2<tab>4-12<tab>Lovelace<tab>*[1]<tab>PER[1]<tab>
    1-3<tab>13-18<tab>lives<tab>_<tab>_<tab>

Labels are the feature ``value`` of the layer Named entity; ``_`` is no annotation, ``*`` one without a value. Rows with
the same number in brackets are one annotation, ``|`` separates several on one token (``cells``). Lines such as
``1-1.1`` stand for parts of tokens (``document``). Offsets count UTF-16 code units. A changed entity keeps its number
and its other features; a removed one must not be what a relation or a slot refers to (``cell_edits``).

The rules are those of INCEpTION's documentation of the format and of the source of its reader and writer, which decides
where the documentation is silent. Not verified: nothing was loaded into INCEpTION itself. Files of version 3.0 and 3.1
follow the rules that its reader has for them, without an example of those versions. Entities with slots were tried on
invented files only. Files whose ``#Text=`` escapes more than control characters and backslashes, as one may understand
the documentation, are out of step for INCEpTION too, and refused.
"""

from __future__ import annotations

from collections.abc import Iterator

from tagtrace.data.formats.webanno_tsv.cell_edits import Editor
from tagtrace.data.formats.webanno_tsv.document import parsed
from tagtrace.data.formats.webanno_tsv.entities import marked_text
from tagtrace.data.marked.marks import Edits, MarkedText
from tagtrace.data.options import ReadOptions
from tagtrace.data.source import SourceFile


def texts(source: SourceFile, data: bytes, options: ReadOptions) -> Iterator[MarkedText]:
    yield marked_text(parsed(source, data), labelled=options.labelled)


def edited(source: SourceFile, data: bytes, options: ReadOptions, edits: Edits) -> bytes:  # noqa: ARG001
    editor = Editor(parsed(source, data))
    for some in edits.values():
        editor.edit(some)
    return editor.written()
