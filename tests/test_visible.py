"""What a person cannot see, or a terminal would obey, is shown as an escape; everything else as it is."""

from __future__ import annotations

import subprocess
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tagtrace._checks import DataError, at
from tagtrace._visible import MOST_CHARACTERS, visible, visible_message

SEEN = {"\u0600", "\u0601", "\u0602", "\u0603", "\u0604", "\u0605", "\u06dd", "\u070f", "\u0890", "\u0891", "\u08e2",
        "\U000110bd", "\U000110cd"}  # fmt: skip
"""Format characters that have a shape of their own."""


def test_every_character_that_controls_or_formats_is_escaped() -> None:
    for character in map(chr, range(sys.maxunicode + 1)):
        if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") and character not in SEEN:
            assert visible(character).isascii(), f"U+{ord(character):04X}"
            assert visible(character).isprintable(), f"U+{ord(character):04X}"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Ærø's [red]C:\\new[/red] :cat:",
        "東京 «Нью-Йорк» 100\u00a0000 e\u0301",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",  # the Persian for "I want" needs a joiner
        "क्\u200dष",
        "👩🏽\u200d🚀 ❤\ufe0f 葛\U000e0100",
    ],
)
def test_text_is_shown_as_it_is(text: str) -> None:
    assert visible(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b]0;owned\x07b", r"a\x1b]0;owned\x07b"),
        ("\x9b31mred\x7f\x00", r"\x9b31mred\x7f\x00"),
        ("one\r\n\ttwo\u2028\u0085", r"one\r\n\ttwo\u2028\x85"),
        ("\u202eORP\u2069", r"\u202eORP\u2069"),
        ("pay\u200bpal pay\u200dpal \u200cx", r"pay\u200bpal pay\u200dpal \u200cx"),
        ("\udcff\ud83d", r"\xff\ud83d"),
        ("\U000e0041", r"\U000e0041"),
    ],
)
def test_what_cannot_be_seen_is_escaped(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(st.text())
def test_shown_text_is_one_line_and_stays_as_it_is(text: str) -> None:
    shown = visible(text)
    assert len(shown.splitlines()) <= 1
    assert visible(shown) == shown


def test_an_error_is_one_line_whatever_a_file_is_called() -> None:
    where = at("odd\nname\x1b[2J", 3)
    error = DataError(f"{where}: found \u202e; rename it")
    assert str(error) == r"odd\nname\x1b[2J, line 3: found \u202e; rename it"
    assert str(DataError(f"{error}")) == str(error)


@given(st.text(), st.integers(0, 3))
def test_messages_are_one_line_of_a_readable_length(text: str, times: int) -> None:
    shown = visible_message(text * 10**times)
    assert len(shown) <= 10 * (MOST_CHARACTERS + 5)
    assert shown.isprintable() or all(unicodedata.category(one) != "Cc" for one in shown)
    if len(text) <= MOST_CHARACTERS:
        assert visible_message(text) == visible(text)


def test_a_long_name_in_an_error_leaves_what_to_do() -> None:
    error = str(DataError(f"{'y' * 100_000}: is no file; choose another"))
    assert len(error) < 1000
    assert error.startswith("yyy")
    assert error.endswith("is no file; choose another")


def test_an_unexpected_error_cannot_command_the_terminal() -> None:
    code = "import sys; from tagtrace.cli import main; main.main(['--version'], standalone_mode=False); "
    said = {
        subprocess.run([sys.executable, "-c", code + raising], capture_output=True, text=True, check=False).stderr
        for raising in (RAISES, f"import threading; threading.Thread(target=exec, args=({RAISES!r},)).start()")
    }
    for each in said:
        assert each.startswith("Traceback")
        assert each.endswith("\nValueError: \\x1b]0;evil\\x07\n")


RAISES = "raise ValueError('\\x1b]0;evil\\x07')"
