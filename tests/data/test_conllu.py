"""Universal Dependencies files: ten numbered columns, labelled by part of speech unless told otherwise."""

from __future__ import annotations

from pathlib import Path

from tagtrace.data import ReadOptions, read_corpus

ROWS = "1\tCats\tcat\tNOUN\tNNS\t_\t2\tnsubj\t_\t_\n2\tsleep\tsleep\tVERB\tVBP\t_\t0\troot\t_\tSpaceAfter=No\n"


def test_the_fourth_column_is_the_label(tmp_path: Path) -> None:
    path = tmp_path / "cats.conllu"
    path.write_text(f"# text = Cats sleep\n{ROWS}\n")
    corpus = read_corpus(path)
    assert corpus.scheme == "plain"
    assert corpus.sentences[0].tokens == ("Cats", "sleep")
    assert corpus.sentences[0].labels == ("NOUN", "VERB")
    assert corpus.sentences[0].pos is None, "a lemma is no part of speech"
    assert read_corpus(path, ReadOptions(label_column=4)).sentences[0].labels == ("NNS", "VBP")
