"""Scores of training labels by what they do to trusted ones: labels that oppose trusted labels are suspicious.

Every trusted token is a query: its gold label given the gold labels around it, loss CL_q with gradient g_q. Removing
the label of training token k changes that loss by g_q^T K^-1 g_k / N (positive = supporter), so

    suspicion of k  =  the aggregate over queries of  -d_q . g_k / size_k

| method | d_q | size_k |
|---|---|---|
| ``identity`` | g_q / N | 1 |
| ``curvature`` | K^-1 g_q / N | 1 |
| ``cosine`` | g_q / norm(g_q) | norm(g_k) |
| ``relative`` | K^-1 g_q | sqrt(g_k^T K^-1 g_k) |

aggregated by ``sum``, or by ``top``: the mean of the ``top_k`` largest (the paper's choice, with 10). A sum needs one
direction, sum_q d_q, and one pass over the training tokens; ``top`` takes a few queries at a time and keeps the largest
values of each token. ``size_k`` does not depend on the query and divides last.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import torch
from torch import Tensor

from tagtrace._checks import DataError, OptionError, TaggerError
from tagtrace._progress import Progress
from tagtrace.data.sentence import Sentence
from tagtrace.findings.judges.probabilities import token_segments
from tagtrace.index import Index, Shard, token_errors
from tagtrace.influence import Candidates, Explainer, Screen, find_candidates, gradient_norms, self_influence
from tagtrace.influence.curvature.choice import make_solver
from tagtrace.influence.curvature.solvers import Cholesky, Direct
from tagtrace.influence.scoring.norms import dense_gradients
from tagtrace.influence.scoring.scorer import MAX_WORK
from tagtrace.influence.scoring.token_pass import TokenPass
from tagtrace.tagger import Rows, Tagger

TrustedMethod = Literal["identity", "curvature", "cosine", "relative"]
QueryAggregate = Literal["sum", "top"]

MAX_QUERIES = 64
"""Maximum number of queries whose products with all training tokens are in memory at once."""

NEIGHBOURS = 1024
"""Number of training tokens whose products with all trusted tokens are in memory at once."""


@dataclass(frozen=True)
class Queries:
    """Labelled sentences, and those of their tokens that are queries."""

    rows: Rows
    """Features (n, D), labels (n,), lengths."""
    tokens: Tensor
    """Rows of the tokens that are queries, (Q,)."""

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def segments(self) -> Tensor:
        """(sentence, start, stop) of the queries, (Q, 3)."""
        return token_segments(self.rows.lengths)[self.tokens]


@dataclass(frozen=True)
class Trusted(Queries):
    """Queries with gold labels, and the predictions for them."""

    predicted: Tensor
    """The predictions of the index's head, (n,)."""
    documents: tuple[str, ...] = ()
    """The name of each sentence's document; empty if they are not known."""

    def mispredicted(self) -> Trusted:
        """Only the tokens that are predicted wrongly."""
        tokens = self.tokens[(self.predicted != self.rows.labels)[self.tokens]]
        if len(tokens) == 0:
            raise DataError(
                "every trusted token is predicted correctly; use all of them as queries, or give more trusted data"
            )
        return replace(self, tokens=tokens)

    def confused(self, index: Index, pair: str) -> Trusted:
        """Only the tokens of one kind of error: ``ORG:LOC``, labelled ORG and predicted LOC (types or labels)."""
        gold, predicted = map(torch.as_tensor, index.labels.pair_masks(pair))
        tokens = self.tokens[(gold[self.rows.labels] & predicted[self.predicted])[self.tokens]]
        if len(tokens) == 0:
            raise DataError(
                f"no trusted token is labelled {' and predicted '.join(pair.split(':'))}; give more trusted data"
            )
        return replace(self, tokens=tokens)


def read_trusted(
    index: Index, tagger: Tagger, sentences: Sequence[Sentence], progress: Progress | None = None
) -> Trusted:
    """Encode trusted sentences with the index's tagger, and predict them with its head; every token is a query."""
    if tagger.labels != index.labels or tagger.encoder.dim != index.head.dim:
        raise TaggerError(f"{index.folder}: the tagger has different labels or features; give the index's own tagger")
    sentences = [sentence for sentence in sentences if len(sentence) > 0]
    joined = tagger.labelled(sentences, "trusted")
    classes = {index.labels.type_of[label] for sentence in joined for label in index.labels.encode(sentence.labels)}
    if len(classes) < 2:
        raise DataError(f"the trusted data has only one class ({classes.pop()}); add sentences with other classes")
    rows = tagger.rows(sentences, progress=progress)
    predicted = [label for path in index.head.decode(rows.features, rows.lengths) for label in path]
    documents = tuple(sentence.document for sentence in joined)
    return Trusted(rows, torch.arange(len(rows.labels)), torch.tensor(predicted), documents)


def trusted_scores(
    explainer: Explainer,
    trusted: Trusted,
    method: TrustedMethod = "identity",
    aggregate: QueryAggregate = "top",
    top_k: int = 10,
    progress: Progress | None = None,
) -> Tensor:
    """The suspicion of every training token, (N,), higher = more suspicious.

    ``explainer`` has the curvature for the methods ``curvature`` and ``relative``. ``progress`` counts queries.
    """
    _check_options(method, aggregate, top_k)
    passes = [TokenPass(explainer.head, shard) for shard in explainer.shards]
    done = 0
    if aggregate == "sum":
        total = torch.zeros_like(explainer.head.flat())
        for gradients in _gradients(explainer, trusted.rows, trusted.segments, method):  # (q, P)
            total, done = total + gradients.sum(0), done + len(gradients)
            _report(progress, done, trusted)
        direction = -_directions(explainer, total.unsqueeze(0), method)
        parts = [one.products(direction)[0] for one in passes]
    else:
        best = [torch.zeros(0, len(shard.labels), device=explainer.device) for shard in explainer.shards]  # (top_k, n)
        for opposed in _opposition(explainer, trusted, method, passes):
            best = [_largest(torch.cat(pair), top_k) for pair in zip(best, opposed, strict=True)]
            done += len(opposed[0])
            _report(progress, done, trusted)
        parts = [part.double().mean(0) for part in best]
    candidates = find_candidates(explainer.index, "token")
    return _quotient(torch.cat(parts).cpu(), _sizes(explainer, candidates, method))


def _report(progress: Progress | None, done: int, trusted: Trusted) -> None:
    if progress is not None:
        progress(done, len(trusted))


def _opposition(
    explainer: Explainer, trusted: Trusted, method: TrustedMethod, passes: Sequence[TokenPass]
) -> Iterator[list[Tensor]]:
    """-d_q . g_k of a few queries at a time, (q, n) for each pass."""
    if method in ("curvature", "relative"):
        for gradients in _gradients(explainer, trusted.rows, trusted.segments, method):  # (q, P)
            directions = -_directions(explainer, gradients, method)
            yield [one.products(directions) for one in passes]
        return
    rows = trusted.rows.to(explainer.device)
    errors = token_errors(explainer.head, rows)
    queries = TokenPass(explainer.head, Shard(rows.features, errors, rows.labels, rows.lengths, 0, 0), torch.float64)
    norms = queries.norms().clamp(min=torch.finfo(torch.float64).tiny)
    sizes = -norms if method == "cosine" else torch.full_like(norms, -float(explainer.index.num_sentences))
    for tokens in trusted.tokens.to(explainer.device).split(MAX_QUERIES):
        yield [one.pair_products(queries, tokens, sizes[tokens]) for one in passes]


def instance_scores(explainer: Explainer, trusted: Trusted, method: TrustedMethod = "identity") -> Tensor:
    """The suspicion of every training sentence as a whole, (B,): the mean over the trusted sentences.

    The same formula with joint losses of whole sentences in place of conditional losses of tokens. Every trusted
    sentence that contains a query token is a query.
    """
    _check_options(method, "sum", 1)
    candidates = find_candidates(explainer.index, "sentence")
    sentences = trusted.segments[:, 0].unique()
    whole = torch.stack([sentences, torch.zeros_like(sentences), trusted.rows.lengths[sentences]], 1)
    parts = [part.sum(0) for part in _gradients(explainer, trusted.rows, whole, method)]
    direction = -_directions(explainer, torch.stack(parts).sum(0, keepdim=True), method) / len(sentences)
    found = Screen(explainer.head, explainer.rows, candidates.segments).products(direction)[0]
    return _quotient(found, _sizes(explainer, candidates, method))


@torch.no_grad()
def neighbour_scores(
    index: Index, trusted: Trusted, metric: Literal["dot", "cosine"] = "dot", top_k: int = 10
) -> Tensor:
    """Similarity to trusted tokens of another class, (N,): the mean of the ``top_k`` largest products of features.

    A class is a type of label, without B- and I-. If there are fewer than ``top_k`` such tokens, the mean of all.
    """
    if metric not in ("dot", "cosine") or top_k < 1:
        raise OptionError(f"metric {metric!r}, top_k {top_k}: expected dot or cosine, and at least 1")
    types = index.labels.type_of
    classes = torch.tensor([types.index(type_) for type_ in types])  # (C,)
    theirs = classes[trusted.rows.labels[trusted.tokens]]  # (Q,)
    if len(theirs.unique()) < 2:
        raise DataError("the trusted tokens have only one class; give tokens of several classes")
    features = trusted.rows.features[trusted.tokens].float()  # (Q, D)
    vectors = _unit(features) if metric == "cosine" else features
    found = []
    for shard in index.shards:
        ours = classes[shard.labels]  # (n,)
        for part, own in zip(shard.features.split(NEIGHBOURS), ours.split(NEIGHBOURS), strict=True):
            some = _unit(part.float()) if metric == "cosine" else part.float()
            products = (some @ vectors.T).masked_fill(own.unsqueeze(1) == theirs, -torch.inf)  # (n, Q)
            best = products.topk(min(top_k, len(theirs)), 1).values.double()
            count = best.isfinite().sum(1)
            found.append(best.masked_fill(best.isinf(), 0.0).sum(1) / count)
    return torch.cat(found)


def _gradients(explainer: Explainer, rows: Rows, segments: Tensor, method: TrustedMethod) -> Iterator[Tensor]:
    """g_q of the queries ``segments`` (Q, 3) of ``rows``, with norm 1 for ``cosine``; (q, P), a few at a time."""
    there = rows.to(explainer.device)
    for _, gradients in dense_gradients(explainer.head, there, Candidates(segments), MAX_QUERIES):
        yield _unit(gradients) if method == "cosine" else gradients


def _directions(explainer: Explainer, gradients: Tensor, method: TrustedMethod) -> Tensor:
    """d_q from g_q, or the sum of d_q from the sum of g_q, (q, P)."""
    if method in ("curvature", "relative"):
        gradients = explainer.solver.solve(gradients).value
    return gradients / explainer.index.num_sentences if method in ("identity", "curvature") else gradients


def _sizes(explainer: Explainer, candidates: Candidates, method: TrustedMethod) -> Tensor:
    """size_k of every candidate, (K,).

    If exact self-influences are too much work (a solve for each candidate), Kronecker factors are used.
    """
    index, head = explainer.index, explainer.head
    if method in ("identity", "curvature"):
        return torch.ones(len(candidates), dtype=torch.float64)
    if method == "cosine":
        if candidates.kind == "token":
            return torch.cat([TokenPass(head, shard).norms() for shard in explainer.shards]).cpu()
        return gradient_norms(head, explainer.rows, candidates)
    solver = explainer.solver
    work = (
        float(head.num_parameters) ** 2
        if isinstance(solver, Cholesky)
        else 40.0 * index.num_tokens * head.weight.numel()
    )
    if not isinstance(solver, Direct) and len(candidates) * work > MAX_WORK:
        solver = make_solver("kronecker", explainer.objective, head, explainer.damping)
    return self_influence(head, explainer.rows, candidates, solver).clamp(min=0.0).sqrt()


def _largest(values: Tensor, top_k: int) -> Tensor:
    """The ``top_k`` largest of each column of (q, N), (at most top_k, N)."""
    if len(values) <= top_k:
        return values
    return values.T.contiguous().topk(top_k, 1, sorted=False).values.T


def _unit(vectors: Tensor) -> Tensor:
    """Rows scaled to norm 1; rows of zeros stay zero."""
    return vectors / vectors.norm(dim=1, keepdim=True).clamp(min=torch.finfo(vectors.dtype).tiny)


def _quotient(values: Tensor, sizes: Tensor) -> Tensor:
    """values / sizes in float64, zero where the size is zero."""
    return torch.where(sizes > 0, values.double() / sizes.clamp(min=1e-300), 0.0)


def _check_options(method: TrustedMethod, aggregate: QueryAggregate, top_k: int) -> None:
    if method not in get_args(TrustedMethod):
        raise OptionError(f"method {method!r}: expected one of {', '.join(get_args(TrustedMethod))}")
    if aggregate not in get_args(QueryAggregate):
        raise OptionError(f"aggregate {aggregate!r}: expected one of {', '.join(get_args(QueryAggregate))}")
    if top_k < 1:
        raise OptionError(f"top_k {top_k}: must be at least 1")
