"""Loops over the tokens of sentences, compiled by numba (extra ``fast``): recursions, their tangents, scores."""

from __future__ import annotations

import numpy as np

from tagtrace.tagger.convex.compiled_products import compiled


@compiled
def forward_backward(emissions, starts, lengths, matrix, first, final, alpha, beta, right, log_z):
    """Rabiner's scaled recursions (``recursions.ScaledRun``) over sentences whose tokens are rows of (n, C).

    ``matrix`` = exp(A), ``first`` = exp(start) and ``final`` = exp(end), each up to a factor. Fills alpha, beta and
    right = psi beta / scale, (n, C), and log Z up to those factors, (B,); returns the smallest scale.
    """
    C = len(first)
    step, smallest = np.zeros(C), 1.0
    for b in range(len(starts)):
        begin, stop = starts[b], starts[b] + lengths[b]
        total_log = 0.0
        for t in range(begin, stop):
            peak = emissions[t].max()
            if t == begin:
                step[:] = first
            else:
                step[:] = 0.0
                for i in range(C):
                    a = alpha[t - 1, i]
                    for j in range(C):
                        step[j] += a * matrix[i, j]
            total = 0.0
            for j in range(C):
                psi = np.exp(emissions[t, j] - peak)
                right[t, j] = psi
                step[j] *= psi
                total += step[j]
            smallest = min(smallest, total)
            total = max(total, 1e-300)
            for j in range(C):
                alpha[t, j] = step[j] / total
                right[t, j] /= total
            total_log += np.log(total) + peak
        last = 0.0
        for j in range(C):
            last += alpha[stop - 1, j] * final[j]
        smallest = min(smallest, last)
        last = max(last, 1e-300)
        log_z[b] = total_log + np.log(last)
        for j in range(C):
            beta[stop - 1, j] = final[j] / last
            right[stop - 1, j] *= beta[stop - 1, j]
        for t in range(stop - 1, begin, -1):
            for i in range(C):
                total = 0.0
                for j in range(C):
                    total += matrix[i, j] * right[t, j]
                beta[t - 1, i] = total
                right[t - 1, i] *= total
    return smallest


@compiled
def edge_sum(alpha, right, starts, lengths, matrix, out):
    """out (C, C) += sum over sentences and steps of the edge marginals."""
    C = len(matrix)
    for b in range(len(starts)):
        for t in range(starts[b] + 1, starts[b] + lengths[b]):
            for i in range(C):
                a = alpha[t - 1, i]
                for j in range(C):
                    out[i, j] += a * matrix[i, j] * right[t, j]


@compiled
def tangent(
    moved,
    alpha,
    beta,
    right,
    starts,
    lengths,
    begins,
    ends,
    matrix,
    edges,
    start,
    end,
    edges_out,
    first_out,
    last_out,
    tiny,
):
    """How marginals change along Q directions (``tangents``), for tokens as rows.

    moved (n, C, Q), edges (C, C, Q), start and end (C, Q) are the directions. Replaces ``moved`` by the change of the
    marginals, and adds to ``edges_out`` (C, C, Q), ``first_out`` and ``last_out`` (C, Q). ``begins`` and ``ends`` (B,)
    say whether a piece begins or ends its sentence. Transitions with a probability up to ``tiny`` are left out.
    """
    C, Q = start.shape
    longest = lengths.max() if len(lengths) else 0
    ahead = np.zeros((longest, C, Q), moved.dtype)
    behind, later = np.zeros((C, Q), moved.dtype), np.zeros((C, Q), moved.dtype)
    log_z, totals = np.zeros(Q, moved.dtype), np.zeros(C, moved.dtype)
    for b in range(len(starts)):
        begin, T = starts[b], lengths[b]
        ahead[0] = moved[begin]
        if begins[b]:
            ahead[0] += start
        for t in range(1, T):
            row = begin + t
            totals[:] = 0.0
            for i in range(C):
                for j in range(C):
                    totals[j] += alpha[row - 1, i] * matrix[i, j]
            ahead[t] = moved[row]
            for j in range(C):
                scale = 1.0 / totals[j] if totals[j] > 0 else 0.0
                for i in range(C):
                    weight = alpha[row - 1, i] * matrix[i, j]
                    if weight * right[row, j] > tiny:
                        weight *= scale
                        for q in range(Q):
                            ahead[t, j, q] += weight * (ahead[t - 1, i, q] + edges[i, j, q])
        row = begin + T - 1
        behind[:] = 0.0
        if ends[b]:
            behind += end
        log_z[:] = 0.0
        for j in range(C):
            p = alpha[row, j] * beta[row, j]
            for q in range(Q):
                log_z[q] += p * (ahead[T - 1, j, q] + behind[j, q])
        for t in range(T - 1, -1, -1):
            row = begin + t
            for j in range(C):
                p = alpha[row, j] * beta[row, j]
                for q in range(Q):
                    later[j, q] = moved[row, j, q] + behind[j, q]
                    moved[row, j, q] = p * (ahead[t, j, q] + behind[j, q] - log_z[q])
            if t == T - 1 and ends[b]:
                last_out += moved[row]
            if t == 0:
                break
            behind[:] = 0.0
            for i in range(C):
                scale = 1.0 / beta[row - 1, i] if beta[row - 1, i] > 0 else 0.0
                for j in range(C):
                    weight = matrix[i, j] * right[row, j]
                    share, pair = weight * scale, alpha[row - 1, i] * weight
                    if pair > tiny:
                        for q in range(Q):
                            onward = edges[i, j, q] + later[j, q]
                            behind[i, q] += share * onward
                            edges_out[i, j, q] += pair * (ahead[t - 1, i, q] + onward - log_z[q])
        if begins[b]:
            first_out += moved[begin]


@compiled
def tangent_one(
    moved,
    alpha,
    beta,
    right,
    starts,
    lengths,
    begins,
    ends,
    matrix,
    edges,
    start,
    end,
    edges_out,
    first_out,
    last_out,
):
    """``tangent`` for one direction: moved (n, C), edges (C, C), start and end (C,).

    The loops go over labels. With left_i = alpha_i (a'_i - log Z') and u = de + b', the edges change by
    M (left x right + alpha x (right u) + dA (alpha x right)), summed before M is applied.
    """
    C = len(start)
    kind = moved.dtype
    longest = lengths.max() if len(lengths) else 0
    ahead, behind, later = np.zeros((longest, C), kind), np.zeros(C, kind), np.zeros(C, kind)
    weighted, turned = matrix * edges, (matrix * edges).T.copy()
    matrix_turned = matrix.T.copy()
    step, total = np.zeros(C, kind), np.zeros(C, kind)
    pairs, sums = np.zeros((C, C), kind), np.zeros((C, C), kind)
    for b in range(len(starts)):
        begin, T = starts[b], lengths[b]
        for j in range(C):
            ahead[0, j] = moved[begin, j] + (start[j] if begins[b] else kind.type(0))
        for t in range(1, T):
            row = begin + t
            step[:] = 0.0
            total[:] = 0.0
            for i in range(C):
                a = alpha[row - 1, i]
                w = a * ahead[t - 1, i]
                for j in range(C):
                    step[j] += w * matrix[i, j] + a * weighted[i, j]
                    total[j] += a * matrix[i, j]
            for j in range(C):
                ahead[t, j] = moved[row, j] + (step[j] / total[j] if total[j] > 0 else kind.type(0))
        row = begin + T - 1
        log_z = kind.type(0)
        for j in range(C):
            behind[j] = end[j] if ends[b] else kind.type(0)
            log_z += alpha[row, j] * beta[row, j] * (ahead[T - 1, j] + behind[j])
        for t in range(T - 1, -1, -1):
            row = begin + t
            for j in range(C):
                later[j] = right[row, j] * (moved[row, j] + behind[j])
                moved[row, j] = alpha[row, j] * beta[row, j] * (ahead[t, j] + behind[j] - log_z)
            if t == T - 1 and ends[b]:
                last_out += moved[row]
            if t == 0:
                break
            for i in range(C):
                a = alpha[row - 1, i]
                w = a * (ahead[t - 1, i] - log_z)
                for j in range(C):
                    pairs[i, j] += w * right[row, j] + a * later[j]
                    sums[i, j] += a * right[row, j]
            step[:] = 0.0
            for j in range(C):
                r, u = right[row, j], later[j]
                for i in range(C):
                    step[i] += u * matrix_turned[j, i] + r * turned[j, i]
            for i in range(C):
                behind[i] = step[i] / beta[row - 1, i] if beta[row - 1, i] > 0 else kind.type(0)
        if begins[b]:
            first_out += moved[begin]
    edges_out += matrix * pairs + weighted * sums


@compiled
def nearby_marginals(potentials, moved, before, starts, lengths, matrices, first, final, edges_out):
    """How marginals change when theta makes Q moves, for tokens as rows.

    potentials (n, C) = exp(emissions), up to a factor for each token, and ``before`` (n, C) the marginals at theta;
    matrices (Q, C, C), first and final (Q, C) are exp of the scores after each move, up to a factor. Replaces the
    change of the logits above the first label, moved (n, C - 1, Q), by that of the marginals, and adds the edge
    marginals after the move to edges_out (Q, C, C). Returns the smallest scale.
    """
    Q, C = first.shape
    longest = lengths.max() if len(lengths) else 0
    alpha, psi, scales = np.zeros((longest, C)), np.zeros((longest, C)), np.zeros(longest)
    beta, right, step = np.zeros(C), np.zeros(C), np.zeros(C)
    sums = np.zeros((Q, C, C))
    turned = np.zeros((Q, C, C))
    for q in range(Q):
        turned[q] = matrices[q].T
    smallest = 1.0
    for b in range(len(starts)):
        begin, T = starts[b], lengths[b]
        for q in range(Q):
            matrix, back, edges = matrices[q], turned[q], sums[q]
            for t in range(T):
                row = begin + t
                if t == 0:
                    step[:] = first[q]
                else:
                    step[:] = 0.0
                    for i in range(C):
                        a = alpha[t - 1, i]
                        for j in range(C):
                            step[j] += a * matrix[i, j]
                psi[t, 0] = potentials[row, 0]
                for j in range(1, C):
                    d = np.float64(moved[row, j - 1, q])
                    if abs(d) < 0.01:
                        psi[t, j] = potentials[row, j] * (1.0 + d * (1.0 + d * (0.5 + d * (1.0 / 6.0 + d / 24.0))))
                    else:
                        psi[t, j] = potentials[row, j] * np.exp(d)
                total = 0.0
                for j in range(C):
                    step[j] *= psi[t, j]
                    total += step[j]
                smallest = min(smallest, total)
                scales[t] = 1.0 / max(total, 1e-300)
                for j in range(C):
                    alpha[t, j] = step[j] * scales[t]
            last = 0.0
            for j in range(C):
                last += alpha[T - 1, j] * final[q, j]
            smallest = min(smallest, last)
            for j in range(C):
                beta[j] = final[q, j] / max(last, 1e-300)
            for t in range(T - 1, -1, -1):
                row = begin + t
                for j in range(1, C):
                    moved[row, j - 1, q] = alpha[t, j] * beta[j] - before[row, j]
                if t == 0:
                    break
                for j in range(C):
                    right[j] = psi[t, j] * beta[j] * scales[t]
                for i in range(C):
                    a = alpha[t - 1, i]
                    for j in range(C):
                        edges[i, j] += a * right[j]
                beta[:] = 0.0
                for j in range(C):
                    r = right[j]
                    for i in range(C):
                        beta[i] += r * back[j, i]
    edges_out += matrices * sums
    return smallest


@compiled
def score_segments(moved, tokens, errors, left, right, labels, before, after, into, out_of, edges, matrix, out):
    """out[s] = V . g of segments of L tokens (``screen``).

    moved (n, C): the direction's logits of tokens. tokens, labels (S, L), errors (S, L, C), left, right (S, L - 1, C):
    edge marginals left_i M_ij right_j. into, out_of (C + 1, C), edges V_A, matrix M (C, C).
    """
    S, L, C = errors.shape
    for s in range(S):
        total = out.dtype.type(0)
        for t in range(L):
            r = tokens[s, t]
            for c in range(C):
                total += errors[s, t, c] * moved[r, c]
        for c in range(C):
            total += errors[s, 0, c] * into[before[s], c] + errors[s, L - 1, c] * out_of[after[s], c]
        for t in range(L - 1):
            given = edges[labels[s, t], labels[s, t + 1]]
            for i in range(C):
                a = left[s, t, i]
                if a > 0:
                    for j in range(C):
                        total += a * matrix[i, j] * right[s, t, j] * (edges[i, j] - given)
        out[s] = total
