"""Data files: read, check, change and write back labelled sentences."""

from tagtrace.data.convert import Converted, convert
from tagtrace.data.corpus import Corpus, read_corpus
from tagtrace.data.detection import detect_scheme
from tagtrace.data.labels import LabelSet
from tagtrace.data.options import ReadOptions
from tagtrace.data.predictions import write_predictions
from tagtrace.data.rewrite import write_corpus
from tagtrace.data.schemes import (
    SCHEMES,
    Scheme,
    denormalise,
    differences,
    named_scheme,
    normalise,
    normalised_scheme,
    segments,
    violations,
)
from tagtrace.data.sentence import Segment, Sentence, join, join_documents
from tagtrace.data.summary import Summary, summarise

__all__ = [
    "SCHEMES",
    "Converted",
    "Corpus",
    "LabelSet",
    "ReadOptions",
    "Scheme",
    "Segment",
    "Sentence",
    "Summary",
    "convert",
    "denormalise",
    "detect_scheme",
    "differences",
    "join",
    "join_documents",
    "named_scheme",
    "normalise",
    "normalised_scheme",
    "read_corpus",
    "segments",
    "summarise",
    "violations",
    "write_corpus",
    "write_predictions",
]
