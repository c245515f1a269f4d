"""The rule by which texts without tokens of their own are divided into tokens and sentences.

It never looks at marks but to keep a sentence from ending inside one: a text has the same tokens with any labels.

Tokens    letters, digits and what combines with them, together; every character of a script that is written without
          spaces (Chinese, Japanese kana, Thai, Lao, Khmer, Burmese) with what combines with it; a number with its
          points and commas; every other character that is not a space, alone.
Sentences end at a line end, and after ``.``, ``!`` or ``?`` with closing quotes and brackets where a space and then an
          upper-case letter, one without case, a digit or an opening quote follow, but not after a single letter and a
          point; and always after the wide stops of Chinese and Japanese.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence

RULE = "characters-1"
"""The name of the rule, which is recorded with what was read by it."""

_NO_SPACES = (
    (0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x2E80, 0x2FDF), (0x3005, 0x3007), (0x3021, 0x3029),
    (0x3040, 0x30FF), (0x31F0, 0x31FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x3FFFF),
)  # fmt: skip
"""Scripts that do not separate words by spaces."""
_ZWJ = "\u200d"
_JOINERS = "\u200c\u200d\u2060\ufe0e\ufe0f"
_NUMBER = re.compile(r"\d+(?:[.,]\d+)+")
_FULL_STOPS, _WIDE_STOPS = ".!?\u2026", "\u3002\uff01\uff1f"
_CLOSING = "\"'\u201d\u2019\xbb)]"
_OPENING = "\"'\u201c\u2018\xab(["

Range = tuple[int, int]


def tokenise(text: str) -> tuple[Range, ...]:
    """Start and stop of each token.

    >>> [("Ada's 1,000".__getitem__)(slice(*each)) for each in tokenise("Ada's 1,000")]
    ['Ada', "'", 's', '1,000']
    """
    return tuple(_tokens(text))


def _tokens(text: str) -> Iterator[Range]:
    place = 0
    while place < len(text):
        character = text[place]
        if character.isspace() or _is_blank(character):
            place += 1
            continue
        stop = _end_of_token(text, place)
        yield place, stop
        place = stop


def _end_of_token(text: str, start: int) -> int:
    number = _NUMBER.match(text, start)
    if number is not None and not _is_word(text[number.end() : number.end() + 1]):
        return number.end()
    stop = _with_marks(text, start + 1)
    if not _is_word(text[start]) or _is_alone(text[start]):
        return stop
    while stop < len(text) and _is_word(text[stop]) and not _is_alone(text[stop]):
        stop = _with_marks(text, stop + 1)
    return stop


def _with_marks(text: str, place: int) -> int:
    """The first place that is not combined with the character before ``place``."""
    while place < len(text) and _combines(text[place]):
        joins_symbols = text[place] == _ZWJ and unicodedata.category(text[place + 1 : place + 2] or " ") == "So"
        place += 2 if joins_symbols else 1
    return place


def _combines(character: str) -> bool:
    is_mark = unicodedata.category(character) in ("Mn", "Mc", "Me")
    return is_mark or character in _JOINERS or "\U0001f3fb" <= character <= "\U0001f3ff"  # skin tones


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_" or (character != "" and character in _JOINERS)


def _is_blank(character: str) -> bool:
    """Whether nobody can see it: a control or format character that joins nothing."""
    return character not in _JOINERS and unicodedata.category(character) in ("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp")


def _is_alone(character: str) -> bool:
    return any(first <= ord(character) <= last for first, last in _NO_SPACES)


def sentence_ends(text: str, tokens: Sequence[Range], joined: Collection[int]) -> list[int]:
    """The numbers of the tokens behind which a sentence ends, the last one included.

    None ends behind a token in ``joined``, which the next one belongs to.
    """
    return [
        number
        for number in range(len(tokens))
        if number + 1 == len(tokens) or (number not in joined and _ends_after(text, tokens, number))
    ]


def ends_at(breaks: Sequence[int], tokens: Sequence[Range], joined: Collection[int]) -> list[int]:
    """The same for a file that has sentences of its own, which begin and end at ``breaks``.

    >>> ends_at([0, 4, 5, 9], [(0, 3), (3, 4), (5, 9)], ())
    [1, 2]
    """
    passed = [bisect_right(breaks, start) for start, _ in tokens]
    return [
        number
        for number in range(len(tokens))
        if number + 1 == len(tokens) or (number not in joined and passed[number + 1] > passed[number])
    ]


def _ends_after(text: str, tokens: Sequence[Range], number: int) -> bool:
    stop, following = tokens[number][1], tokens[number + 1][0]
    between = text[stop:following]
    if any(end in between for end in "\n\r\u2028\u2029\x0b\x0c\x85"):
        return True
    last = number
    while last > 0 and text[slice(*tokens[last])] in _CLOSING:
        last -= 1
    token = text[slice(*tokens[last])]
    if text[following] in _CLOSING and not between:
        return False
    if token in _WIDE_STOPS:
        return text[following] not in _CLOSING + _WIDE_STOPS + "\u300d\u300f\uff09"
    if token not in _FULL_STOPS or between == "" or _is_initial(text, tokens, last):
        return False
    following_kind = unicodedata.category(text[following])
    return following_kind in ("Lu", "Lt", "Lo", "Nd") or text[following] in _OPENING


def _is_initial(text: str, tokens: Sequence[Range], number: int) -> bool:
    """Whether a token is the point after a single letter, as in ``J. Smith``."""
    if number == 0 or text[slice(*tokens[number])] != ".":
        return False
    start, stop = tokens[number - 1]
    return stop == tokens[number][0] and stop - start == 1 and text[start].isalpha()
