"""Text from files as it is shown: characters that cannot be seen, or that move or hide others, are written as escapes.

Tokens, labels and names of files may contain anything. A terminal would obey control characters in them, and a person
cannot see that two words differ by one that has no width. Data that is written keeps the exact text.
"""

from __future__ import annotations

import re

_CONTROLS = "\x00-\x1f\x7f-\x9f"
_LINE_ENDS = "\u2028\u2029"
_ORDER = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
"""These change the order in which the characters around them are shown."""
_WITHOUT_WIDTH = (
    "\xad\u034f\u115f\u1160\u17b4\u17b5\u180e\u200b\u2060-\u2065\u206a-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb"
    "\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e00ff\U000e01f0-\U000e0fff"
)
_HALVES = "\ud800-\udfff"
"""Halves of surrogate pairs; the bytes of a file name that are not UTF-8 are among them."""
_JOINERS = "\u200c\u200d"
"""Persian, Indian scripts and emoji are written with them; after nothing and after ASCII they only hide."""

NOT_SEEN = f"{_CONTROLS}{_LINE_ENDS}{_ORDER}{_WITHOUT_WIDTH}{_JOINERS}"
"""For a class of a regular expression: characters that nobody sees, in whatever place."""

MOST_CHARACTERS = 800
"""Of an error message, before any become escapes."""

_UNSEEN = re.compile(
    f"[{_CONTROLS}{_LINE_ENDS}{_ORDER}{_WITHOUT_WIDTH}{_HALVES}]|(?:^|(?<=[\x00-\x7f{_JOINERS}]))[{_JOINERS}]"
)


def visible(text: str) -> str:
    r"""The text in one line, with escapes for what cannot be seen.

    >>> visible("Orla\x1b[31m \u202eevil\n")
    'Orla\\x1b[31m \\u202eevil\\n'
    >>> visible("Ærø 東京 👍🏽 C:\\new")
    'Ærø 東京 👍🏽 C:\\new'
    """
    if text.isascii() and text.isprintable():
        return text
    return _UNSEEN.sub(lambda match: _escape(match[0]), text)


def visible_lines(text: str) -> str:
    """The text with its lines, each of which is visible: a traceback may have anything in it."""
    return "\n".join(map(visible, text.split("\n")))


def visible_message(text: str) -> str:
    """The text of an error: visible, and without its middle if somebody's name or label makes it very long.

    >>> shown = visible_message("no label " + "y" * 100_000 + "; give another")
    >>> len(shown), shown[:12], shown[-14:]
    (805, 'no label yyy', '; give another')
    """
    half = MOST_CHARACTERS // 2
    return visible(text if len(text) <= MOST_CHARACTERS else f"{text[:half]} ... {text[-half:]}")


def _escape(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code < 0xDD00:
        return f"\\x{code - 0xDC00:02x}"  # a byte of a file name
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")
