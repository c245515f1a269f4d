"""Taggers: encoders, the CRF head, training and the exact refit of the head."""

from tagtrace.tagger.checkpoint import History, remove_checkpoint
from tagtrace.tagger.convex.refit import RefitOptions, Refitted, refit_head, refit_tagger
from tagtrace.tagger.encoders import (
    Encoder,
    Lexical,
    LexicalOptions,
    Pipeline,
    Precomputed,
    Transformer,
    Vectors,
    build_encoder,
)
from tagtrace.tagger.folder import load_tagger, save_tagger
from tagtrace.tagger.head import Head, HeadOptions
from tagtrace.tagger.metrics import F1Score, Scorecard, score_labels
from tagtrace.tagger.mispredictions import Misprediction, mispredictions
from tagtrace.tagger.rows import Rows
from tagtrace.tagger.scores import Scores
from tagtrace.tagger.tagger import Tagger, new_tagger, pick_device
from tagtrace.tagger.train import train
from tagtrace.tagger.training import Step, TrainOptions, Watch, train_tagger

__all__ = [
    "Encoder",
    "F1Score",
    "Head",
    "HeadOptions",
    "History",
    "Lexical",
    "LexicalOptions",
    "Misprediction",
    "Pipeline",
    "Precomputed",
    "RefitOptions",
    "Refitted",
    "Rows",
    "Scorecard",
    "Scores",
    "Step",
    "Tagger",
    "TrainOptions",
    "Transformer",
    "Vectors",
    "Watch",
    "build_encoder",
    "load_tagger",
    "mispredictions",
    "new_tagger",
    "pick_device",
    "refit_head",
    "refit_tagger",
    "remove_checkpoint",
    "save_tagger",
    "score_labels",
    "train",
    "train_tagger",
]
