"""The mispredictions of held-out data, computed in the background and filtered for the page."""

from __future__ import annotations

import logging
import math
import threading
from collections import Counter
from typing import Any

from tagtrace._checks import OptionError, TagtraceError
from tagtrace.data import Corpus
from tagtrace.data.sentence import Sentence
from tagtrace.review.model.jobs import why_failed
from tagtrace.review.model.listings import page
from tagtrace.review.training_data import context, lowered
from tagtrace.tagger import Misprediction, Tagger
from tagtrace.tagger.mispredictions import predict_batches

_log = logging.getLogger(__name__)


class HeldOut:
    """Held-out sentences and the mispredictions in them, which ``work`` computes."""

    sentences: list[Sentence]
    number_of: dict[str, int]
    num_predicted: int

    def __init__(self, tagger: Tagger, corpus: Corpus) -> None:
        self.tagger = tagger
        tagger.check_scheme(corpus)
        tagger.encoder.check_corpus(corpus)
        self.sentences = tagger.labelled(corpus.sentences, "dev")
        self.number_of = {sentence.id: number for number, sentence in reversed(list(enumerate(self.sentences)))}
        self.found: list[Misprediction] = []
        self.num_predicted = 0
        self.problem: str | None = None
        """Why the sentences could not be predicted."""
        self._ready = threading.Event()
        self.is_stopped = False
        """Set this to end ``work`` after the current batch."""

    @property
    def is_ready(self) -> bool:
        return self._ready.is_set() and self.problem is None

    @property
    def progress(self) -> tuple[int, int] | None:
        """The number of predicted sentences and of all sentences; None once ``work`` has ended."""
        return None if self._ready.is_set() else (self.num_predicted, len(self.sentences))

    def work(self) -> None:
        """Predict all sentences, batch by batch."""
        try:
            for batch in predict_batches(self.tagger, self.sentences):
                self.found.extend(batch.mispredictions)
                self.num_predicted += len(batch.predicted)
                if self.is_stopped:
                    return
        except (TagtraceError, OSError) as error:
            self.problem = why_failed(error)
        except Exception as error:
            _log.exception("predicting the held-out data failed")
            self.problem = (
                f"the held-out data could not be predicted ({type(error).__name__}); see the server's messages"
            )
        finally:
            self._ready.set()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until ``work`` has ended; returns whether it has."""
        return self._ready.wait(seconds)


def misprediction_json(one: Misprediction) -> dict[str, Any]:
    """A misprediction as the page shows it."""
    return {
        "sentence": one.sentence.id,
        "document": one.sentence.document,
        "sentence_number": None,
        "start": one.start,
        "stop": one.stop,
        **context(one.sentence, one.start, one.stop),
        "gold": list(one.gold_labels),
        "predicted": list(one.predicted_labels),
        "loss": one.loss if math.isfinite(one.loss) else None,
        "pair": one.pair,
    }


def list_mispredictions(
    held: HeldOut,
    pair: str = "",
    text: str = "",
    document: str = "",
    min_loss: float = -math.inf,
    sort: str = "loss",
    offset: int = 0,
    limit: int = 50,
) -> dict[str, Any]:
    """One page of the mispredictions that match all filters, by falling loss or in the order of the data."""
    if sort not in ("loss", "place"):
        raise OptionError(f"unknown order {sort!r}; expected loss or place")
    found = held.found if held.is_ready else []
    if text:
        found = [one for one in found if text.lower() in lowered(one.sentence)]
    if document:
        found = [one for one in found if document.lower() in one.sentence.document.lower()]
    found = [one for one in found if one.loss >= min_loss]
    pairs = Counter(one.pair for one in found).most_common()
    if pair:
        found = [one for one in found if one.pair == pair]
    if sort == "loss":
        found = sorted(found, key=lambda one: -one.loss)
    return {
        "total": len(found),
        "items": [misprediction_json(one) for one in page(found, offset, limit)],
        "pairs": [list(each) for each in pairs],
        "preparing": held.progress,
    }
