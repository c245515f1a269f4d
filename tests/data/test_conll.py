"""CoNLL files: columns, documents, comments, numbers, odd spaces, errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tagtrace._checks import DataError
from tagtrace.data import Corpus, ReadOptions, read_corpus
from tagtrace.data.columns.fields import field_spans, split_fields

Reader = Callable[..., Corpus]


@pytest.fixture
def read(tmp_path: Path) -> Reader:
    def read_text(text: str | bytes, **options) -> Corpus:
        path = tmp_path / "tiny.conll"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_corpus(path, ReadOptions(**options))

    return read_text


def tokens(corpus: Corpus) -> list[list[str]]:
    return [list(sentence.tokens) for sentence in corpus.sentences]


def labels(corpus: Corpus) -> list[list[str]]:
    return [list(sentence.labels) for sentence in corpus.sentences]


def test_sentences_lines_and_offsets(read: Reader):
    corpus = read("Orla B-PER\nsang O\n\n\nFenwick B-LOC\n")
    assert tokens(corpus) == [["Orla", "sang"], ["Fenwick"]]
    assert labels(corpus) == [["B-PER", "O"], ["B-LOC"]]
    assert [list(s.lines) for s in corpus.sentences] == [[1, 2], [5]]
    assert [s.offset for s in corpus.sentences] == [0, 2]
    assert [s.id for s in corpus.sentences] == ["tiny:0", "tiny:1"]
    assert [s.document for s in corpus.sentences] == ["", ""]
    assert [s.pos for s in corpus.sentences] == [None, None]
    assert corpus.documents == ()
    assert corpus.num_tokens == 3


def test_documents_are_counted_from_0(read: Reader):
    text = "a O\n\n-DOCSTART- O\n\n-DOCSTART-\n\nb O\n\nc O\n-DOCSTART- x y z\nd O\n"
    corpus = read(text)
    assert [s.document for s in corpus.sentences] == ["", "tiny-1", "tiny-1", "tiny-2"]
    assert [s.id for s in corpus.sentences] == ["tiny:0", "tiny-1:0", "tiny-1:1", "tiny-2:0"]
    assert corpus.documents == ("tiny-1", "tiny-2")


@pytest.mark.parametrize("space", ["\u00a0", "\u2028", "\u2029", "\u0085", "\u3000", "\x0b", "\x0c", "\x1c", "\u200b"])
@pytest.mark.parametrize("separator", ["\t", " "])
def test_only_tabs_and_ascii_spaces_separate(read: Reader, space: str, separator: str):
    corpus = read(f"12{space}000{separator}O\n{space}{separator}O\nx{space}{separator}B-N\n")
    assert tokens(corpus) == [[f"12{space}000", space, f"x{space}"]]


def test_tabs_win_over_spaces(read: Reader):
    assert tokens(read("New Fenwick\tB-LOC\n sea \t O \n")) == [["New Fenwick", "sea"]]
    assert labels(read("New Fenwick\tB-LOC\n sea \t O \n")) == [["B-LOC", "O"]]


@pytest.mark.parametrize("end", ["\n", "\r\n", " \t\r\n", "  \n"])
@pytest.mark.parametrize("blank", ["", " ", "\t", " \t "])
@pytest.mark.parametrize("start", ["", "\ufeff", "\ufeff\n", "\n\n"])
def test_line_ends_blank_lines_and_byte_order_marks(read: Reader, end: str, blank: str, start: str):
    corpus = read(f"{start}Orla  B-PER{end}sang   O{end}{blank}{end}{blank}{end}sea O")
    assert tokens(corpus) == [["Orla", "sang"], ["sea"]]
    assert labels(corpus) == [["B-PER", "O"], ["O"]]


def test_a_stray_byte_order_mark_is_a_blank_line(read: Reader):
    assert tokens(read("a O\n\ufeff\nb O\n")) == [["a"], ["b"]]


class TestColumns:
    TEXT = "Orla NNP I-NP B-PER\nsang VBD I-VP O\n"

    def test_token_first_label_last_pos_second(self, read: Reader):
        corpus = read(self.TEXT)
        assert labels(corpus) == [["B-PER", "O"]]
        assert corpus.sentences[0].pos == ("NNP", "VBD")
        options = corpus.options
        assert (options.token_column, options.label_column, options.pos_column) == (0, 3, 1)

    def test_chosen_columns(self, read: Reader):
        corpus = read(self.TEXT, label_column=-2, pos_column=3, token_column=1)
        assert tokens(corpus) == [["NNP", "VBD"]]
        assert labels(corpus) == [["B-NP", "B-VP"]]
        assert corpus.sentences[0].pos == ("B-PER", "O")

    def test_the_label_column_is_not_pos(self, read: Reader):
        corpus = read(self.TEXT, label_column=1)
        assert corpus.scheme == "plain"
        assert corpus.sentences[0].pos is None

    @pytest.mark.parametrize("text", ["Orla NN B-PER\nsang NN O\n", "a B-X O\nb O O\n"])
    def test_filler_and_segment_labels_are_not_pos(self, read: Reader, text: str):
        corpus = read(text)
        assert corpus.sentences[0].pos is None
        assert corpus.options.pos_column is None

    def test_filler_that_was_asked_for(self, read: Reader):
        assert read("Orla NN B-PER\nsang NN O\n", pos_column=1).sentences[0].pos == ("NN", "NN")

    def test_unlabelled(self, read: Reader):
        assert tokens(read("Orla\nsang\n\nsea\n", labelled=False)) == [["Orla", "sang"], ["sea"]]
        corpus = read(self.TEXT, labelled=False)
        assert corpus.scheme == "none"
        assert not corpus.sentences[0].is_labelled
        assert corpus.sentences[0].pos == ("NNP", "VBD")


class TestNumbers:
    TEXT = "# source 1 of 2\n1 Orla B-PER\n2 sang O\n\n#\tx\n1 sea O\n"

    def test_numbered_tokens(self, read: Reader):
        corpus = read(self.TEXT)
        assert tokens(corpus) == [["Orla", "sang"], ["sea"]]
        assert corpus.num_comments == 2
        assert corpus.options.token_column == 1

    def test_comments_with_all_columns(self, read: Reader):
        assert tokens(read("#\turl\t[date]\n1\tOrla\tO\n2\t#\tO\n")) == [["Orla", "#"]]

    def test_ranges_and_empty_nodes_are_skipped_and_listed(self, read: Reader):
        text = "1-2\tdon't\t_\n1\tdo\tVERB\n2\tn't\tPART\n2.1\tgo\tVERB\n"
        corpus = read(text)
        assert tokens(corpus) == [["do", "n't"]]
        assert list(corpus.sentences[0].lines) == [2, 3]
        assert corpus.skipped == (
            (1, "multiword range or empty node 1-2"),
            (4, "multiword range or empty node 2.1"),
        )

    @pytest.mark.parametrize(
        "text",
        [
            "1 O\n2 O\n",  # too few columns for a number, a token and a label
            "1 CD O\n3 CD O\n",
            "1 CD O\n\n1 CD O\n",  # never beyond 1
            "1 CD O\n2 CD O\n\n2 CD O\n",
        ],
    )
    def test_numbers_that_are_tokens(self, read: Reader, text: str):
        corpus = read(text)
        assert corpus.options.token_column == 0
        assert all(token.isdecimal() for sentence in tokens(corpus) for token in sentence)

    def test_forced_token_column(self, read: Reader):
        corpus = read("1 CD O\n2 CD O\n", token_column=0)
        assert tokens(corpus) == [["1", "2"]]


class TestComments:
    def test_hash_is_a_token_where_it_has_the_columns_of_one(self, read: Reader):
        corpus = read("# newdoc id = 7\n#\tO\n#rain\tO\n# O\nsea\tO\n")
        assert tokens(corpus) == [["#", "#rain", "sea"]]
        assert corpus.num_comments == 2

    def test_comments_do_not_end_a_sentence(self, read: Reader):
        corpus = read("a O\n# one two three\nb O\n")
        assert tokens(corpus) == [["a", "b"]]
        assert corpus.sentences[0].lines == (1, 3)

    def test_a_file_of_hashtags(self, read: Reader):
        assert tokens(read("#a\tO\n#b\tO\n")) == [["#a", "#b"]]
        assert tokens(read("# a comment\n#a\tO\n#b\tO\n")) == [["#a", "#b"]]

    def test_a_long_header(self, read: Reader):
        assert tokens(read("# a b c\n\n" * 3000 + "x O\n")) == [["x"]]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("a O\n\nb\n", {}, "line 3: found 1 columns in 'b', expected 2 as in the first token line; separate"),
        ("a\tO\nb c\tO\td\n", {}, "line 2: found 3 columns in 'b c\\tO\\td', expected 2"),
        ("a\n", {}, "line 1: found 1 column in 'a', expected a token and a label; separate them"),
        (
            "a O\n",
            {"label_column": 2},
            "line 1: found 2 columns, expected a label in column 2 (the first is 0); choose",
        ),
        ("a O\n", {"token_column": -3}, "line 1: found 2 columns, expected a token in column -3"),
        ("a O\n", {"token_column": 1}, "column 1 cannot be both the token and the label; choose"),
        ("\ta\tO\n", {}, "line 1: found an empty token in '\\ta\\tO'; fill it"),
        ("a\tO\tx\nb\t\tx\n", {"label_column": 1}, "line 2: found an empty label in 'b\\t\\tx'; fill it"),
        ("a O\rb O\r", {}, "line 1: found a carriage return inside 'a O\\rb O'; end every line"),
        ("1 a O\n2 b O\n\n" * 600 + "x c O\n", {}, "line 1801: found 'x' in the first column, expected the number"),
        (b"a O\nb\xff O\n", {}, "line 2: byte 5 is not UTF-8; convert the file to UTF-8"),
        ("a B-X\nb X-foo\n", {}, "line 2: label 'X-foo' does not belong to the scheme iob2; expected O, B-TYPE"),
        ("a B-X\nb I-\n", {}, "line 2: label 'I-' has no type; expected O, B-TYPE, I-TYPE; fix it"),
        ("", {}, "found no sentences; check"),
        ("\n \n\t\n", {}, "found no sentences; check"),
        ("-DOCSTART- O\n\n", {}, "found no sentences; check"),
    ],
)
def test_errors_say_what_where_and_what_to_try(read: Reader, text: str | bytes, options: dict, message: str):
    with pytest.raises(DataError) as caught:
        read(text, format="conll", **options)
    shown = str(caught.value)
    assert message in shown
    assert "tiny.conll" in shown
    assert "\n" not in shown
    assert ";" in shown  # what to try


@given(st.text("ab \t#-\u00a0", max_size=12))
def test_spans_are_where_the_fields_are(text: str):
    text = text.rstrip(" \t")
    assert [text[start:stop] for start, stop in field_spans(text)] == split_fields(text)
