"""The labels of a tagger from elsewhere, by the names of its outputs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tagtrace._checks import TaggerError, TagtraceError
from tagtrace.data.labels import LabelSet

_PREFIXED = re.compile(r"[BIESLU]-.")
_NUMBERED = re.compile(r"LABEL_\d+")


def label_set(id2label: Mapping[Any, Any], num_outputs: int) -> LabelSet:
    """The names of a model's outputs, in their order; raises TaggerError if they are not the names of labels.

    >>> label_set({0: "O", 1: "I-LOC", 2: "B-LOC"}, 3)
    LabelSet(labels=('O', 'I-LOC', 'B-LOC'), scheme='iob2')
    >>> label_set({0: "NOUN", 1: "VERB"}, 2).scheme, label_set({0: "LOC", 1: "O"}, 2).scheme
    ('plain', 'io')
    """
    by_number = {str(number): str(name) for number, name in id2label.items()}
    known = tuple(by_number[str(number)] for number in range(num_outputs) if by_number.get(str(number)))
    if not len(known) == len(by_number) == num_outputs:
        raise TaggerError(f"id2label does not name each of the {num_outputs} outputs of the model once; correct it")
    unnamed = next((name for name in known if _NUMBERED.fullmatch(name)), None)
    if unnamed is not None:
        raise TaggerError(
            f"its labels have no names ({unnamed}, ...); write those that it was trained with, in the order of its "
            "outputs, into id2label of its config.json"
        )
    try:
        return LabelSet(known, _scheme(known))
    except TagtraceError as error:
        raise TaggerError(f"id2label: {error}") from None


def _scheme(names: tuple[str, ...]) -> str:
    """The scheme in which these outputs stand for segments; ``plain`` if they are not those of ours.

    Outputs E-, S-, L- and U-, or I- without B-, have no equal among B- and I-: such a model labels token by token.
    """
    prefixed = [name for name in names if _PREFIXED.match(name)]
    if not any(name[0] in "BI" for name in prefixed):
        return "io" if "O" in names and not prefixed else "plain"
    is_iob2 = all(name == "O" or (name in prefixed and name[0] in "BI") for name in names)
    return "iob2" if is_iob2 and any(name[0] == "B" for name in prefixed) else "plain"
