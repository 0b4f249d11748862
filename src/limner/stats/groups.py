"""Is a group of queries different from the rest? One test per group, with control of the false discovery rate.

The test permutes which queries are in the group. Queries of one cluster, such as the captions of one image, are not
independent, so whole clusters are permuted: a cluster takes over the membership of another cluster of the same size. If
membership is independent of the values, every such permutation is equally likely, and the p-value is exact. The
statistic is studentised (Janssen 1997; Chung & Romano 2013), so that for many clusters, groups with the same mean but a
larger variance are not reported either.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from limner.core.errors import LimnerError
from limner.core.progress import ProgressLike, as_progress
from limner.stats.inputs import Codes, Vector, codes, one_of, share, vector, whole_number

FIRST, BATCH = 50, 400
"""Permutations at once: at first, when most groups are decided, and later."""
SLACK = 1e-7
"""Mathematically equal statistics may differ in the last digits."""
ENOUGH = 20
"""Permutations at least as extreme as the data after which a group is not tested further."""

_Members = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class GroupTest:
    """A group of queries compared with the rest.

    Attributes:
        mean: the mean of the group.
        rest: the mean of all other queries.
        size: number of queries in the group.
        statistic: the difference of the means divided by its standard error, by cluster.
        correlation: correlation of the two means, which share clusters where a cluster is only partly in the group.
        p_value: two-sided, from permutations.
        permutations: number of permutations.
    """

    mean: float
    rest: float
    size: int
    statistic: float
    correlation: float
    p_value: float
    permutations: int

    @property
    def difference(self) -> float:
        """The mean of the group minus that of the rest."""
        return self.mean - self.rest


def group_tests(
    values: npt.ArrayLike,
    members: npt.ArrayLike,
    *,
    clusters: npt.ArrayLike | None = None,
    samples: int = 20_000,
    seed: int = 0,
    progress: ProgressLike = None,
) -> list[GroupTest]:
    """Tests each group of queries against all other queries, by permuting membership of whole clusters.

    `t = (mean(group) - mean(rest)) / se`, where `se^2` is the sum over clusters of squared influences: for each cluster
    `(sum_group - n_group * mean_group) / N_group - (sum_rest - n_rest * mean_rest) / N_rest`. The p-value is
    `(hits + 1) / (permutations + 1)`, where hits counts the permutations with `|t|` at least the observed one. A group
    with 20 hits is not tested further, and its p-value is `hits / permutations` (Besag & Clifford 1991): both are
    valid.

    Args:
        values: one number per query.
        members: a row per group, one boolean per query.
        clusters: a label per query, for queries that are not independent.
        samples: maximum number of permutations for one group; p-values are never below `1 / (samples + 1)`.
        seed: the same seed gives the same p-values.
        progress: called with (groups done, groups in total).

    Returns:
        One test per group, in order.

    >>> hits, dogs = [0] * 10 + [1] * 30, [True] * 10 + [False] * 30
    >>> [test] = group_tests(hits, [dogs], samples=1000)
    >>> test.difference, test.p_value < 0.01
    (-1.0, True)
    """
    progress = as_progress(progress)
    column = vector(values)
    rows = _members(members, len(column))
    samples, seed = whole_number(samples, "samples", minimum=1), whole_number(seed, "seed", minimum=0)
    labels = np.arange(len(column)) if clusters is None else codes(clusters, len(column), "clusters")
    table, rng = _Table.of(column, labels), np.random.default_rng(seed)
    groups = _Groups.of(rows, table)
    observed = _studentised(table, groups, np.arange(len(table.values))[None])[0]
    hits, drawn = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    for order in table.orders(samples, rng):
        active = np.flatnonzero(hits < ENOUGH)
        progress(len(rows) - len(active), len(rows))
        if not len(active):
            break
        hit = np.abs(_studentised(table, groups.only(active), order)) >= np.abs(observed[active]) - SLACK
        before = np.cumsum(hit, axis=0) - hit + hits[active] < ENOUGH  # what comes after enough hits is not drawn
        hits[active] += (hit & before).sum(axis=0)
        drawn[active] += before.sum(axis=0)
    p_values = np.where(hits >= ENOUGH, hits / drawn, (hits + 1) / (drawn + 1))
    return [
        GroupTest(*_means(column, row), int(row.sum()), float(t), _correlation(table, row), float(p), int(n))
        for row, t, p, n in zip(rows, observed, p_values, drawn, strict=True)
    ]


def _members(members: npt.ArrayLike, n: int) -> _Members:
    rows = np.asarray(members)
    if rows.ndim != 2 or rows.shape[1] != n or rows.dtype != np.bool_:
        raise LimnerError(
            f"members: got an array of shape {rows.shape} and type {rows.dtype}, expected a row of {n} booleans for "
            "each group"
        )
    empty = np.flatnonzero(~rows.any(axis=1) | rows.all(axis=1))
    if empty.size:
        raise LimnerError(f"members: group {empty[0]} contains no query or every query, so there is nothing to compare")
    return rows


@dataclass(frozen=True)
class _Table:
    """Values as a row for each cluster, padded with zeros; clusters of the same size are neighbours.

    Attributes:
        values: clusters by places in the cluster.
        where: the row and column of each query.
        sizes: queries of each cluster.
    """

    values: Vector
    where: tuple[Codes, Codes]
    sizes: Codes

    @classmethod
    def of(cls, values: Vector, labels: Codes) -> _Table:
        sizes = np.bincount(labels)
        by_size = np.argsort(sizes, kind="stable")
        row = np.argsort(by_size)[labels]
        order = np.argsort(labels, kind="stable")
        place = np.empty(len(labels), dtype=np.intp)
        place[order] = np.arange(len(labels)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return cls(_placed(values, (row, place), (len(sizes), int(sizes.max()))), (row, place), sizes[by_size])

    def arranged(self, of_queries: _Members) -> Vector:
        """Converts one number per query to the layout of the table."""
        return _placed(of_queries, self.where, self.values.shape)

    @cached_property
    def totals(self) -> Vector:
        """The sum of each cluster."""
        return np.asarray(self.values.sum(axis=1))

    @cached_property
    def squares(self) -> Vector:
        """The products of every pair of values in a cluster."""
        first, second = np.triu_indices(self.values.shape[1])
        return self.values[:, first] * self.values[:, second]

    def orders(self, samples: int, rng: np.random.Generator) -> Iterator[Codes]:
        """Random permutations of clusters of the same size, in batches that grow."""
        ends = np.cumsum(np.unique(self.sizes, return_counts=True)[1]).tolist()
        done, size = 0, FIRST
        while done < samples:
            rows = np.tile(np.arange(len(self.values)), (min(size, samples - done), 1))
            for low, high in zip([0, *ends[:-1]], ends, strict=True):
                rows[:, low:high] = rng.permuted(rows[:, low:high], axis=1)
            yield rows
            done, size = done + len(rows), min(2 * size, BATCH)


def _placed(column: Any, cells: tuple[Codes, Codes], shape: tuple[int, ...]) -> Vector:
    table = np.zeros(shape)
    table[cells] = column
    return table


@dataclass(frozen=True)
class _Groups:
    """Membership of every group: 0 or 1 for each place of the table.

    Attributes:
        weights: groups by clusters by places.
        inside: groups by clusters: queries of a cluster that are in the group.
        pairs: groups by clusters by pairs of places that are both in the group, twice where the two differ.
    """

    weights: Vector
    inside: Vector
    pairs: Vector

    @classmethod
    def of(cls, rows: _Members, table: _Table) -> _Groups:
        weights = np.array([table.arranged(row) for row in rows])
        first, second = np.triu_indices(weights.shape[2])
        twice = np.where(first == second, 1.0, 2.0)
        return cls(weights, weights.sum(axis=2), weights[:, :, first] * weights[:, :, second] * twice)

    def only(self, picks: Codes) -> _Groups:
        """Membership of only some of the groups."""
        return (
            self if len(picks) == len(self.weights) else _Groups(*(getattr(self, f.name)[picks] for f in fields(self)))
        )


def _studentised(table: _Table, groups: _Groups, order: Codes) -> Vector:
    """The statistic of every group (columns) for every order of the clusters (rows).

    The influence of a cluster is `alpha s - beta m + gamma n - S / N_rest`, with s and m the sum and the number of its
    values in the group, S and n those of all its values. The sum of the squares is multiplied out: `square_terms`, and
    twice the products of two terms, `cross`. So everything is a product of two matrices.
    """
    sizes, totals = table.sizes.astype(np.float64), table.totals[order]
    values, weights, inside = table.values[order], groups.weights, groups.inside

    def product(left: Vector, right: Vector) -> Vector:
        return np.asarray(left.reshape(len(left), -1) @ right.reshape(len(right), -1).T)

    sums = product(values, weights)
    one_size = inside.sum(axis=1)
    other_size = sizes.sum() - one_size
    group_mean, rest_mean = sums / one_size, (table.totals.sum() - sums) / other_size
    alpha, beta, gamma = (
        1 / one_size + 1 / other_size,
        group_mean / one_size + rest_mean / other_size,
        rest_mean / other_size,
    )
    square_terms = alpha**2 * product(table.squares[order], groups.pairs) + beta**2 * (inside**2).sum(axis=1)
    square_terms = square_terms + (table.totals**2).sum() / other_size**2 + gamma**2 * (sizes**2).sum()
    cross = alpha * gamma * product(values, weights * sizes[:, None])
    cross -= alpha * beta * product(values, weights * inside[:, :, None])
    cross -= alpha / other_size * product(values * totals[:, :, None], weights)
    cross += beta / other_size * product(totals, inside)
    cross -= beta * gamma * (inside @ sizes) + gamma / other_size * float(table.totals @ sizes)
    difference, spread = group_mean - rest_mean, square_terms + 2 * cross
    constant = spread <= 1e-13 * square_terms  # what is left of equal terms: no value differs within group and rest
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic = np.where(constant, np.inf * np.sign(difference), difference / np.sqrt(spread))
    return np.where(np.abs(difference) > 1e-12, statistic, 0.0)


def _means(values: Vector, row: _Members) -> tuple[float, float]:
    return float(values[row].mean()), float(values[~row].mean())


def _correlation(table: _Table, row: _Members) -> float:
    """Correlation between the means of the group and the rest across clusters; 0 if no cluster is in both."""
    weights = table.arranged(row)
    inside = weights.sum(axis=1)
    sums = (table.values * weights).sum(axis=1)
    group_influence = sums - inside * sums.sum() / inside.sum()
    rest_sums, outside = table.totals - sums, table.sizes - inside
    rest_influence = rest_sums - outside * rest_sums.sum() / outside.sum()
    scale = float(np.sqrt((group_influence**2).sum() * (rest_influence**2).sum()))
    return float((group_influence * rest_influence).sum()) / scale if scale > 0 else 0.0


def false_discovery(p_values: npt.ArrayLike, *, method: str = "by") -> Vector:
    """P-values adjusted for the false discovery rate, the expected share of false positives among all discoveries.

    Sorted ascending, `adjusted_i = min over j >= i of min(1, c m p_j / j)`. "bh" has `c = 1` (Benjamini & Hochberg
    1995) and holds for independent tests, or tests that depend on each other positively. "by" has
    `c = 1 + 1/2 + ... + 1/m` (Benjamini & Yekutieli 2001) and holds for any dependence.

    Args:
        p_values: the p-values of one family of tests.
        method: "by" or "bh".

    Returns:
        The adjusted p-values in the order given.

    >>> false_discovery([0.01, 0.04, 0.03], method="bh")
    array([0.03, 0.04, 0.04])
    """
    from scipy.stats import false_discovery_control

    p = vector(p_values, "p_values")
    outside = p[(p < 0) | (p > 1)]
    if outside.size:
        raise LimnerError(f"p_values: got {outside[0]:g}, expected probabilities between 0 and 1")
    adjusted: Vector = false_discovery_control(p, method=one_of(method, ("by", "bh"), "method"))
    return adjusted


def smallest_needed(groups: int, level: float, *, method: str = "by") -> float:
    """The p-value that a single group needs to be significant: `level / (c m)`, as in `false_discovery`.

    >>> round(smallest_needed(10, 0.05, method="bh"), 4)
    0.005
    """
    factor = float((1 / np.arange(1, groups + 1)).sum()) if method == "by" else 1.0
    return share(level, "level") / (factor * whole_number(groups, "groups", minimum=1))
