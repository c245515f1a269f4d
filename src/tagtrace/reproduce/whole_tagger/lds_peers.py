"""Influence on the whole tagger by two other libraries, for comparison in ``lds``; neither is a dependency.

kronfluence 1.0.1 (Grosse et al., 2023): EK-FAC of the linear layers of the encoder and of the head's emissions, without
embeddings, normalisations and transitions. The Fisher matrix is that of all training sentences with labels sampled from
the CRF, as kronfluence recommends; padding is masked. The damping is its heuristic, 0.1 times the mean eigenvalue of
each layer; the rest are its defaults (float32, eigenvectors in float64). A score is g_q^T H^-1 g_i with the gradients
of the conditional loss of a query and of the joint loss of a sentence.

TRAK 0.3.2 (Park et al., 2023): one model, gradients of all parameters, projected by its ``BasicProjector`` in float32.
The output function is its own for classifiers, the log-odds log p / (1 - p), where p is the probability of a sentence's
labels, or of a query's label given the others. Its default of no ridge needs many more sentences than dimensions, or
X^T X has no inverse; here the ridge is the mean squared length of the rows of X.

Log-probabilities are computed in float64, so that the gradients of labels that are nearly certain are right.
"""
# pyright: reportMissingImports=false
# ruff: noqa: PLC0415  (both libraries are optional)

from __future__ import annotations

import io
import logging
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from copy import deepcopy
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn

from tagtrace._checks import OptionError
from tagtrace.data import Sentence
from tagtrace.tagger import Tagger, crf
from tagtrace.tagger.encoders.pieces import Pieces
from tagtrace.tagger.recursions import run
from tagtrace.tagger.rows import pad_rows, unpad_rows
from tagtrace.tagger.scores import Scores, length_mask
from tagtrace.tagger.tagger import Example, lengths_of, padded_labels

BATCH = 32
"""Sentences and queries that go through the tagger at once in kronfluence."""
DAMPING: float | None = None
"""What kronfluence adds to eigenvalues; None: 0.1 times their mean."""
TRAK_DIM = {"cpu": 512, "cuda": 2048}
"""Dimensions of the projection; 2048 is TRAK's default."""
TRAK_RIDGE = 1.0
"""What is added to the diagonal of X^T X, as a part of the mean squared length of the rows of X."""
BYTES = {"cpu": 2 << 30, "cuda": 40 << 30}
"""The most memory for each of: queries' gradients, a batch of gradients, a block of the projection."""


def peer_scores(
    tagger: Tagger,
    sentences: Sequence[Sentence],
    query_sentences: Sequence[Sentence],
    segments: Tensor,
    report: Callable[[str], None],
) -> dict[str, Tensor]:
    """By library, the influence of every training sentence on every query, (Q, N) float64 on the CPU.

    A query is a segment of a labelled sentence, ``segments`` (Q, 3). A positive influence supports the query's labels.
    A library that is not installed is reported and left out.
    """
    train, asked = ([tagger.prepare(sentence) for sentence in group] for group in (sentences, query_sentences))
    rows = segments.tolist()
    cases = Cases(train + [asked[row] for row, _, _ in rows], [(start, stop) for _, start, stop in rows])
    found: dict[str, Tensor] = {}
    for name, compute in PEERS.items():
        report(f"influence by {name}")
        start, copied = time.monotonic(), deepcopy(tagger).eval().requires_grad_(True)
        try:
            with _quiet(), copied.encoder.narrowed([example.prepared for example in cases.examples]):
                scores = compute(copied, cases)
        except ImportError as error:
            report(f"{name} is left out: {error}")
            continue
        found[name] = scores.double().cpu()
        report(f"{name}: {time.monotonic() - start:.1f} s")
    return found


@dataclass(frozen=True)
class Cases:
    """Training sentences 0, ..., N - 1 and queries N, ..., N + Q - 1."""

    examples: list[Example]
    """N + Q; a sentence may have several queries."""
    places: list[tuple[int, int]]
    """First token and the one after the last of each query, Q."""

    def numbers(self) -> tuple[Tensor, Tensor]:
        """Those of sentences, shortest first so that batches have little padding, (N,), and of queries (Q,)."""
        num_train = len(self.examples) - len(self.places)
        return lengths_of(self.examples[:num_train]).argsort(stable=True), torch.arange(num_train, len(self.examples))

    def losses(self, numbers: Tensor, scores_of: Callable[[list[Example]], Scores]) -> Tensor:
        """Joint losses of sentences, or conditional losses of queries, (n,) in float64."""
        batch = [self.examples[number] for number in numbers.tolist()]
        scores, labels = _in_float64(scores_of(batch)), padded_labels(batch)
        num_train = len(self.examples) - len(self.places)
        if int(numbers[0]) < num_train:
            return crf.joint_loss(scores, labels)
        places = [self.places[number - num_train] for number in numbers.tolist()]
        return crf.conditional_loss(scores, labels, torch.tensor([[row, *place] for row, place in enumerate(places)]))


def _in_float64(scores: Scores) -> Scores:
    emissions, edges = scores.emissions.double(), scores.transitions.double()
    return Scores(emissions, edges, scores.start.double(), scores.end.double(), scores.lengths)


class PaddedLinear(nn.Module):
    """A layer that is given the rows of all sentences, (R, d_in), but computes (B, T, d_in), as kronfluence needs."""

    linear: nn.Linear
    in_features: int
    lengths: Tensor

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.linear, self.in_features = linear, linear.in_features
        self.lengths = torch.ones(1, dtype=torch.long)

    def forward(self, rows: Tensor) -> Tensor:
        return unpad_rows(self.linear(pad_rows(rows, self.lengths)), self.lengths)


class Linears(nn.Module):
    """A tagger as kronfluence can read it: the emissions of the head are a linear layer too, ``emit``."""

    tagger: Tagger
    emit: nn.Linear
    padded: list[PaddedLinear]
    names: list[str]
    num_weights: int

    def __init__(self, tagger: Tagger) -> None:
        super().__init__()
        self.tagger, weight = tagger, tagger.head.weight.detach()  # (C, D + 1)
        self.emit = nn.Linear(weight.shape[1] - 1, len(weight)).to(weight)
        self.emit.weight.data, self.emit.bias.data = weight[:, :-1].clone(), weight[:, -1].clone()
        self.padded = [] if tagger.encoder.kind == "transformer" else _pad_layers(tagger.encoder)
        linear = {name: one for name, one in self.named_modules() if isinstance(one, nn.Linear)}
        self.names = [name for name in linear if "pooler" not in name]  # BERT has one that no tagger uses
        self.num_weights = sum(linear[name].weight.numel() for name in self.names)

    def forward(self, batch: list[Example]) -> Scores:
        self._check(batch)
        lengths = lengths_of(batch)
        for layer in self.padded:
            layer.lengths = lengths
        features = pad_rows(self.tagger.encode(batch).to(self.emit.weight), lengths)  # (B, T, D)
        return Scores(self.emit(features), *self.tagger.head.edge_scores(), lengths)

    def masks(self, batch: list[Example]) -> dict[str, Tensor]:
        """By layer, which rows are no padding, (B, rows): tokens, or the pieces of a transformer."""
        counts = [len(one.prepared.windows[0]) if isinstance(one.prepared, Pieces) else one.length for one in batch]
        device = self.emit.weight.device
        inner = length_mask(torch.tensor(counts), max(counts), device)
        outer = length_mask(lengths_of(batch), max(one.length for one in batch), device)
        return {name: outer if name == "emit" else inner for name in self.names}

    def _check(self, batch: list[Example]) -> None:
        """Raise unless the layers are called once, with one row of windows or tokens for each sentence."""
        calls = self.tagger.encoder.layer_rows([one.prepared for one in batch])
        if len(calls) > 1 or any(isinstance(one.prepared, Pieces) and len(one.prepared.windows) > 1 for one in batch):
            raise OptionError("kronfluence cannot be used with sentences this long: they are read in several parts")


def _pad_layers(encoder: nn.Module) -> list[PaddedLinear]:
    """Replace all linear layers of an encoder."""
    found: list[PaddedLinear] = []
    for name, layer in list(encoder.named_modules()):
        if isinstance(layer, nn.Linear):
            parent, _, own = name.rpartition(".")
            found.append(PaddedLinear(layer))
            setattr(encoder.get_submodule(parent), own, found[-1])
    return found


def kronfluence_scores(tagger: Tagger, cases: Cases) -> Tensor:
    """EK-FAC influence (Q, N)."""
    from kronfluence.analyzer import Analyzer, prepare_model
    from kronfluence.arguments import FactorArguments, ScoreArguments

    model, device = Linears(tagger), tagger.device.type
    steps = max(BYTES[device] // (4 * BATCH * model.num_weights), 1)  # batches of queries that are kept together
    task, (train, queries) = _kronfluence_task(model, cases), cases.numbers()
    with TemporaryDirectory() as folder:
        prepared = prepare_model(model, task)
        analyzer = Analyzer("tagger", prepared, task, cpu=device == "cpu", disable_tqdm=True, output_dir=folder)
        everything = FactorArguments("ekfac", covariance_max_examples=None, lambda_max_examples=None)
        analyzer.fit_all_factors("factors", train, per_device_batch_size=BATCH, factor_args=everything)
        arguments = ScoreArguments(damping_factor=DAMPING, query_gradient_accumulation_steps=steps)
        analyzer.compute_pairwise_scores("scores", "factors", queries, train, BATCH, BATCH, score_args=arguments)
        found = analyzer.load_pairwise_scores("scores")["all_modules"]  # (Q, N), shortest sentences first
    return found[:, train.argsort()]


def _kronfluence_task(model: Linears, cases: Cases) -> Any:
    from kronfluence.task import Task

    generator = torch.Generator().manual_seed(0)

    class Labelling(Task):
        """A batch is the numbers of cases, (n,)."""

        def compute_train_loss(self, batch: Tensor, model: Linears, sample: bool = False) -> Tensor:
            if not sample:
                return self.compute_measurement(batch, model)
            scores = _in_float64(model([cases.examples[number] for number in batch.tolist()]))
            return crf.joint_loss(scores, sample_labels(scores, generator)).sum()

        def compute_measurement(self, batch: Tensor, model: Linears) -> Tensor:
            return cases.losses(batch, model).sum()

        def get_influence_tracked_modules(self) -> list[str]:
            return model.names

        def get_attention_mask(self, batch: Tensor) -> dict[str, Tensor]:
            return model.masks([cases.examples[number] for number in batch.tolist()])

    return Labelling()


@torch.no_grad()
def sample_labels(scores: Scores, generator: torch.Generator) -> Tensor:
    """Labels (B, T) drawn from the CRF, on the CPU; anything after a sentence's end."""
    recursion = run(scores)
    nodes, edges = recursion.nodes().cpu(), recursion.edges().cpu()  # (B, T, C), (B, T - 1, C, C)
    labels = [torch.multinomial(nodes[:, 0], 1, generator=generator).squeeze(1)]
    for t in range(1, nodes.shape[1]):
        joint = edges[torch.arange(len(nodes)), t - 1, labels[-1]]  # p(y_{t-1}, y_t = c), (B, C)
        joint[scores.lengths <= t] = 1.0
        labels.append(torch.multinomial(joint.clamp(min=1e-30), 1, generator=generator).squeeze(1))
    return torch.stack(labels, 1)


def trak_scores(tagger: Tagger, cases: Cases) -> Tensor:
    """TRAK influence (Q, N)."""
    from trak import TRAKer
    from trak.projectors import BasicProjector, ProjectionType

    device, num_weights = tagger.device.type, sum(parameter.numel() for parameter in tagger.parameters())
    dim, at_once = TRAK_DIM[device], max(BYTES[device] // (4 * num_weights), 1)
    kind = ProjectionType.rademacher if device == "cuda" else ProjectionType.normal  # TRAK's own choices
    block = min(at_once, -(-dim // 2))  # with one block alone, TRAK forgets the matrix before it scores
    projector = BasicProjector(num_weights, dim, 0, kind, device, block_size=block)
    (train, queries), weights = cases.numbers(), tagger.state_dict()
    with TemporaryDirectory() as folder:
        traker = TRAKer(
            tagger, None, len(train), save_dir=folder, device=device, gradient_computer=_log_odds_gradients(cases),
            projector=projector, logging_level=logging.ERROR, use_half_precision=False,
        )  # fmt: skip
        traker.load_checkpoint(weights, 0)
        for numbers in train.split(at_once):
            traker.featurize((numbers,), inds=numbers.numpy())
        rows = torch.from_numpy(traker.saver.current_store["grads"])  # X (N, dim)
        traker.score_computer.lambda_reg = TRAK_RIDGE * float(rows.square().sum(1).mean())
        traker.finalize_features()
        traker.start_scoring_checkpoint("queries", weights, 0, len(queries))
        for numbers in queries.split(at_once):
            traker.score((numbers,), num_samples=len(numbers))
        return torch.from_numpy(traker.finalize_scores("queries").copy()).T  # (Q, N)


def _log_odds_gradients(cases: Cases) -> type:
    """What computes gradients for TRAK; a batch is one tensor, the numbers of cases (n,)."""
    from trak.gradient_computers import IterativeGradientComputer

    class LogOddsGradients(IterativeGradientComputer):
        """As its base, but with one sentence at a time in a pass, and with no copy of all gradients on the CPU."""

        def compute_per_sample_grad(self, batch: tuple[Tensor]) -> Tensor:
            """Of log p / (1 - p) = -log(e^L - 1), (n, weights)."""
            found = torch.empty(len(batch[0]), self.grad_dim, device=self.device)
            for row, number in zip(found, batch[0].split(1), strict=True):
                loss = cases.losses(number, self.model.scores).clamp(min=1e-12)
                output = (-loss - (-torch.expm1(-loss)).log()).sum()
                parts = torch.autograd.grad(output, self.model_params, allow_unused=True, materialize_grads=True)
                torch.cat([part.flatten() for part in parts], out=row)
            return found

        @torch.no_grad()
        def compute_loss_grad(self, batch: tuple[Tensor]) -> Tensor:
            """1 - p, (n, 1)."""
            return -torch.expm1(-cases.losses(batch[0], self.model.scores)).unsqueeze(1)

    return LogOddsGradients


PEERS: dict[str, Callable[[Tagger, Cases], Tensor]] = {"kronfluence, EK-FAC": kronfluence_scores, "TRAK": trak_scores}


@contextmanager
def _quiet() -> Iterator[None]:
    """Progress bars and warnings are hidden, and handlers that a library adds to the root logger are removed."""
    root = logging.getLogger()
    handlers = list(root.handlers)
    try:
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        root.handlers[:] = handlers
