"""Slow, obvious versions of what `limner.match` computes, in double precision on whole matrices.

A score of -inf is a pair that must not be: it stays -inf, and no mean or sum takes it in. A statistic of a candidate of
which the bank says nothing is the mean of that statistic over the others, 0 if there are none.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from statistics import median

import numpy as np


def neutral(values):
    """The statistics of all candidates; None stands for one of which the bank says nothing."""
    numbers = [v for v in values if v is not None]
    return [math.fsum(numbers) / len(numbers) if v is None and numbers else v or 0.0 for v in values]


def admissible(values):
    return [float(v) for v in values if v > -np.inf]


def mean_of_best(values, k):
    """The mean of the k highest, of all where there are fewer; None if there are none."""
    best = sorted(admissible(values), reverse=True)[:k]
    return math.fsum(best) / len(best) if best else None


def log_sum(values):
    """log of the sum of exponentials; None if there is nothing to add up."""
    values = admissible(values)
    if not values:
        return None
    top = max(values)
    return top + math.log(math.fsum(math.exp(v - top) for v in values))


def columns(matrix, of):
    return neutral([of(matrix[:, t]) for t in range(matrix.shape[1])])


def rows(matrix, of):
    return np.array([of(row) or 0.0 for row in matrix])[:, None]


def csls(s, bank, *, bank_rows=False, k=10):
    return 2 * s - columns(bank, lambda c: mean_of_best(c, k)) - rows(s, lambda r: mean_of_best(r, k))


def nnn(s, bank, *, bank_rows=False, k=16, alpha=0.75):
    return s - alpha * np.array(columns(bank, lambda c: mean_of_best(c, k)))


def centred(s, bank, *, bank_rows=False, alpha=1.0):
    return s - alpha * np.array(columns(bank, lambda c: mean_of_best(c, len(bank))))


def inverted_softmax(s, bank, *, bank_rows=False, beta=30.0):
    """`bank_rows`: which row of the bank each query is, -1 for none; True: the bank is the queries; False: none."""
    bank_rows = np.arange(len(s)) if bank_rows is True else np.full(len(s), -1) if bank_rows is False else bank_rows
    sums = columns(beta * bank, log_sum)
    leaders = bank.argmax(axis=0)
    without_leader = neutral([log_sum(beta * np.delete(bank[:, t], leaders[t])) for t in range(s.shape[1])])
    result = beta * s - np.array(sums)
    for i, row in enumerate(bank_rows):
        for t in range(s.shape[1]) if row >= 0 else ():
            if s[i, t] > -np.inf:
                remaining_sum = log_sum(beta * np.delete(bank[:, t], row))
                result[i, t] = beta * s[i, t] - (without_leader[t] if remaining_sum is None else remaining_sum)
    return result


def dual_softmax(s, bank, *, bank_rows=False, beta=30.0):
    return 2 * beta * s - columns(beta * bank, log_sum) - rows(beta * s, log_sum)


def dynamic_inverted_softmax(s, bank, *, bank_rows=False, beta=20.0):
    active = {int(row.argmax()) for row in bank if row.max() > -np.inf}
    sums = np.array(columns(beta * bank, log_sum))
    return np.array([beta * row - sums if int(row.argmax()) in active else row for row in s])


def sinkhorn(s, bank, *, bank_rows=False, beta=30.0, rounds=5):
    v, has_sum = np.zeros(s.shape[1]), [log_sum(column) is not None for column in bank.T]
    for _ in range(rounds):
        u = -rows(beta * bank + v, log_sum)
        v = np.array([-(log_sum(column) or 0.0) for column in (beta * bank + u).T])
    v = np.array(neutral([value if is_finite else None for value, is_finite in zip(v, has_sum, strict=True)]))
    return beta * s + v - rows(beta * s + v, log_sum)


CORRECTIONS = {
    "csls": csls,
    "inverted_softmax": inverted_softmax,
    "dual_softmax": dual_softmax,
    "dynamic_inverted_softmax": dynamic_inverted_softmax,
    "nnn": nnn,
    "centred": centred,
    "sinkhorn": sinkhorn,
}


# --- assignment ---------------------------------------------------------------------------------------------------


def assignments(matrix):
    """Every way to give partners to the whole smaller side: (total, pairs), none with a pair that must not be."""
    turned = matrix.shape[0] > matrix.shape[1]
    m = matrix.T if turned else matrix
    complete = []
    for chosen in itertools.permutations(range(m.shape[1]), m.shape[0]):
        pairs = [(j, i) if turned else (i, j) for i, j in enumerate(chosen)]
        total = math.fsum(matrix[pair] for pair in pairs)
        if total > -np.inf:
            complete.append((total, frozenset(pairs)))
    return complete


def best_round(matrix):
    """(pairs, total): as many pairs as there can be, then the highest total, by trying everything."""
    n, m = matrix.shape
    for size in range(min(n, m), 0, -1):
        tried = (
            math.fsum(matrix[i, j] for i, j in zip(rows, columns, strict=True))
            for rows in itertools.combinations(range(n), size)
            for columns in itertools.permutations(range(m), size)
        )
        best = max(tried)
        if best > -np.inf:
            return size, best
    return 0, 0.0


# --- fusion -------------------------------------------------------------------------------------------------------


def ranks_of(row):
    """{candidate: rank from 1}, equals sharing the mean of theirs; `row` is {candidate: score} or scores in order."""
    row = dict(enumerate(row)) if not isinstance(row, dict) else row
    order = sorted(row, key=lambda j: -row[j])
    equals = {j: [place for place, peer in enumerate(order, 1) if row[peer] == row[j]] for j in order}
    return {j: Fraction(sum(places), len(places)) for j, places in equals.items()}


def borda(lists, n):
    """lists: one {candidate: rank} per system."""
    everybody = sorted({c for ranks in lists for c in ranks})
    full = [{c: ranks.get(c, Fraction(len(ranks) + 1 + n, 2)) for c in everybody} for ranks in lists]
    points = {c: sum(n - (ranks[c] - 1) for ranks in full) for c in everybody}
    return sorted(everybody, key=lambda c: (-points[c], median(ranks[c] for ranks in full), c))


def reciprocal(lists, k):
    """{candidate: sum} as fractions, and the order, equal sums in candidate order."""
    everybody = sorted({c for ranks in lists for c in ranks})
    sums = {c: sum(1 / (Fraction(k) + Fraction(r[c])) for r in lists if c in r) for c in everybody}
    return sums, sorted(everybody, key=lambda c: (-sums[c], c))


def normal(row, method):
    """Scores normalised, by fractions but for the root; None for a pair that must not be."""
    finite = [Fraction(float(v)) for v in row if np.isfinite(v)]
    if method is None or not finite:
        return [float(v) if np.isfinite(v) else None for v in row]
    low = sum(finite) / len(finite) if method == "zscore" else min(finite)
    square = sum((v - low) ** 2 for v in finite) / len(finite) if method == "zscore" else (max(finite) - low) ** 2
    scale = max(abs(v - low) for v in finite) or 1
    span = float(square / scale**2) ** 0.5
    placed = [None if not np.isfinite(v) else float((Fraction(float(v)) - low) / scale) for v in row]
    return [v if v is None else v / span if span else 0.0 for v in placed]
