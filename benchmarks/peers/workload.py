"""The softmax workload that all libraries answer, and the exact answer, in numpy alone.

Invented features of N tokens in sentences of 20, in groups by label around means of their own; the shares of the labels
are those of CoNLL-2003, and a few labels are changed at random. The head is a softmax with bias at the optimum of

    J(theta) = (1/N) sum_k L(z_k, theta) + (lambda/2) |theta|^2,   lambda = 1 / (number of sentences) = 20 / N,

and the influence of token k on query q is g_q^T H^-1 g_k / N, with gradients g of losses and the Hessian H of J.
Features are rounded to float16, so that every library sees the same numbers whatever it stores.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

D = 384
SHARES = np.array([0.833, 0.032, 0.022, 0.031, 0.018, 0.035, 0.006, 0.017, 0.006])
"""The share of each of the 9 labels."""
CHANGED = 0.02
"""Share of tokens whose label is drawn again."""
SEPARATION = 0.15
"""Size of the means of the labels relative to the features around them."""
SENTENCE = 20
NUM_QUERIES = 50
BLOCK = 20_000
"""Tokens that are drawn together; N tokens are the first of any larger number."""
CHUNK = 8_192
"""Tokens in one product."""
SAMPLE = 8_000
"""Tokens in the preconditioner of the fit."""
TOLERANCE = 1e-13


@dataclass(frozen=True)
class Workload:
    """Features (N, D), labels (N,), a head (C, D + 1) with the bias last, and Q queries (Q, D) with labels (Q,)."""

    features: np.ndarray
    labels: np.ndarray
    head: np.ndarray
    queries: np.ndarray
    query_labels: np.ndarray

    @property
    def l2(self) -> float:
        """lambda"""
        return SENTENCE / len(self.labels)

    def save(self, folder: Path) -> None:
        for name, array in vars(self).items():
            np.save(folder / f"{name}.npy", array)

    @classmethod
    def load(cls, folder: Path) -> Workload:
        return cls(**{name: np.load(folder / f"{name}.npy", allow_pickle=False) for name in cls.__dataclass_fields__})


def make_workload(num_tokens: int, seed: int = 0) -> Workload:
    parts = [draw(BLOCK, seed, number) for number in range(-(-num_tokens // BLOCK))]
    features = np.concatenate([part[0] for part in parts])[:num_tokens]  # (N, D) float32
    labels = np.concatenate([part[1] for part in parts])[:num_tokens]  # (N,)
    queries, query_labels = draw(BLOCK, seed, 10_000)
    turn = [np.flatnonzero(query_labels == label) for label in range(len(SHARES))]
    chosen = [turn[place % len(SHARES)][place // len(SHARES)] for place in range(NUM_QUERIES)]  # each label in turn
    head = fit(features, labels, SENTENCE / num_tokens)
    return Workload(features, labels, head, queries[chosen], query_labels[chosen])


def draw(count: int, seed: int, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Features (count, D) that are exact in float16, and labels (count,)."""
    shape = np.random.default_rng(seed)  # the same for every block
    spread = np.arange(1, D + 1) ** -0.5  # a few directions vary most, as in real encoders
    spread *= 0.5 / np.sqrt((spread**2).mean())
    rotation = np.linalg.qr(shape.normal(size=(D, D)))[0]
    means = SEPARATION * spread * shape.normal(size=(len(SHARES), D))  # (C, D)
    rng = np.random.default_rng([seed, number])
    labels = rng.choice(len(SHARES), count, p=SHARES)
    features = (means[labels] + spread * rng.normal(size=(count, D))) @ rotation
    again = rng.random(count) < CHANGED
    labels[again] = rng.choice(len(SHARES), int(again.sum()), p=SHARES)
    return features.astype(np.float16).astype(np.float32), labels.astype(np.int64)


def with_bias(features: np.ndarray) -> np.ndarray:
    """(n, D) to float64 (n, D + 1)"""
    return np.concatenate([features.astype(np.float64), np.ones((len(features), 1))], 1)


def probabilities(head: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """(n, C) for rows (n, D + 1)."""
    logits = rows @ head.T
    found = np.exp(logits - logits.max(1, keepdims=True))
    return found / found.sum(1, keepdims=True)


def errors_of(head: np.ndarray, rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """e = p - onehot(y), (n, C): the gradient of a token's loss is e f^T. Precise even where p(y) rounds to 1."""
    errors = probabilities(head, rows)
    places = np.arange(len(labels))
    errors[places, labels] = 0.0
    errors[places, labels] = -errors.sum(1)
    return errors


def fit(features: np.ndarray, labels: np.ndarray, l2: float) -> np.ndarray:
    """The optimum of J (C, D + 1): Newton steps, solved by conjugate gradients with the Hessian of some tokens."""
    rows, C = with_bias(features), len(SHARES)
    head, some = np.zeros((C, D + 1)), rows[:: max(len(rows) // SAMPLE, 1)]
    sampled, steps = None, 0
    for _ in range(50):
        gradient = errors_of(head, rows, labels).T @ rows / len(rows) + l2 * head  # (C, D + 1)
        if np.abs(gradient).max() < TOLERANCE:
            return head
        if sampled is None or steps > 15:  # the preconditioner is worth computing again
            sampled = np.linalg.inv(hessian(head, some, l2))  # (P, P)
        step, steps = solve(hessian_product(head, rows, l2), sampled, gradient.ravel())
        head = descend(head, step.reshape(C, -1), rows, labels, l2)
    raise RuntimeError("the head of the workload was not fitted")


def hessian_product(head: np.ndarray, rows: np.ndarray, l2: float) -> Callable[[np.ndarray], np.ndarray]:
    """v (P,) to H v (P,)."""
    p = probabilities(head, rows)  # (N, C)

    def product(v: np.ndarray) -> np.ndarray:
        weighted = p * (rows @ v.reshape(head.shape).T)  # (N, C)
        weighted -= p * weighted.sum(1, keepdims=True)
        return (weighted.T @ rows).ravel() / len(rows) + l2 * v

    return product


def descend(head: np.ndarray, step: np.ndarray, rows: np.ndarray, labels: np.ndarray, l2: float) -> np.ndarray:
    """The head after the step, which is halved until J does not grow."""

    def value(theta: np.ndarray) -> float:
        chosen = probabilities(theta, rows)[np.arange(len(rows)), labels]
        return float(-np.log(np.maximum(chosen, 1e-300)).mean() + 0.5 * l2 * (theta**2).sum())

    before = value(head)
    for _ in range(20):
        if value(head - step) <= before + 1e-12:
            break
        step = step / 2
    return head - step


def solve(
    product: Callable[[np.ndarray], np.ndarray], inverse: np.ndarray, right: np.ndarray
) -> tuple[np.ndarray, int]:
    """Conjugate gradients with the preconditioner ``inverse`` (P, P): the solution (P,) and the number of steps."""
    x, residual, number = np.zeros_like(right), right.copy(), 0
    turned = inverse @ residual
    direction, now = turned, residual @ turned
    for number in range(1, 101):
        image = product(direction)
        length = now / (direction @ image)
        x, residual = x + length * direction, residual - length * image
        if np.linalg.norm(residual) <= 1e-3 * np.linalg.norm(right):
            return x, number
        turned = inverse @ residual
        now, before = residual @ turned, now
        direction = turned + now / before * direction
    return x, number


def hessian(head: np.ndarray, rows: np.ndarray, l2: float) -> np.ndarray:
    """H (P, P) of J from rows (N, D + 1): its block of labels b and c is the mean of p_b (1[b = c] - p_c) f f^T."""
    C, width = head.shape
    blocks = np.zeros((C, C, width, width))
    for start in range(0, len(rows), CHUNK):
        part = rows[start : start + CHUNK]
        roots = np.sqrt(probabilities(head, part))  # (n, C)
        for b in range(C):
            for c in range(b):
                scaled = (roots[:, b] * roots[:, c])[:, None] * part  # (n, D + 1)
                blocks[b, c] -= scaled.T @ scaled / len(rows)
    for b in range(C):
        for c in range(b):
            blocks[c, b] = blocks[b, c]
    for b in range(C):
        blocks[b, b] = -(blocks[b].sum(0))  # the probabilities of a token sum to 1
    return blocks.transpose(0, 2, 1, 3).reshape(C * width, C * width) + l2 * np.eye(C * width)


def exact_influences(work: Workload) -> np.ndarray:
    """g_q^T H^-1 g_k / N in float64, (Q, N)."""
    rows, C = with_bias(work.features), len(work.head)
    factor = np.linalg.cholesky(hessian(work.head, rows, work.l2))  # (P, P)
    asked = with_bias(work.queries)  # (Q, D + 1)
    gradients = np.einsum("qc,qd->qcd", errors_of(work.head, asked, work.query_labels), asked).reshape(len(asked), -1)
    directions = np.linalg.solve(factor.T, np.linalg.solve(factor, gradients.T)).T  # (Q, P)
    found = np.empty((len(asked), len(rows)))
    for start in range(0, len(rows), CHUNK):
        part = slice(start, start + CHUNK)
        errors = errors_of(work.head, rows[part], work.labels[part])  # (n, C)
        moved = (rows[part] @ directions.reshape(-1, D + 1).T).reshape(len(errors), -1, C)  # (n, Q, C)
        found[:, part] = np.einsum("nqc,nc->qn", moved, errors) / len(rows)
    return found


def describe(work: Workload) -> dict[str, float]:
    """Figures of the workload, for the results."""
    p = probabilities(work.head, with_bias(work.features))
    return {
        "tokens": len(work.labels),
        "features": work.features.shape[1],
        "labels": len(work.head),
        "parameters": work.head.size,
        "queries": len(work.queries),
        "lambda": work.l2,
        "share_of_commonest_label": round(float(np.bincount(work.labels).max() / len(work.labels)), 4),
        "train_accuracy": round(float((p.argmax(1) == work.labels).mean()), 4),
        "mean_probability_of_label": round(float(p[np.arange(len(p)), work.labels].mean()), 4),
    }


def spearman(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Rank correlation of each row of (Q, N) with the same row of the other, (Q,). Equal values are rare: no ties."""
    found = []
    for pair in zip(first, second, strict=True):
        ranks = [values.argsort().argsort().astype(np.float64) for values in pair]
        found.append(np.corrcoef(*ranks)[0, 1])
    return np.array(found)


if __name__ == "__main__":
    print(json.dumps(describe(make_workload(2_000)), indent=1))
