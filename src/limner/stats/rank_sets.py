"""Which ranks in a leaderboard are significant? Simultaneous confidence sets for the ranks of systems.

A system's rank is 1 plus the number of systems whose true value is higher. System i is declared better than j if a
one-sided test of "i is not better than j" rejects; the tests of all ordered pairs hold simultaneously at the level.
Then the rank of j is at least 1 plus the number declared better than j, and at most K minus the number declared worse
(Mogstad, Romano, Shaikh & Wilhelm 2024; Klein, Wright & Wieczorek 2020). The sets cover the ranks of all systems
simultaneously, ties included, because a set is wrong only if a test is.

`rank_sets` uses the values of each query: differences are paired, by cluster where queries belong together, and the
critical value is that of the largest of all studentised differences, with the correlation of the data (max-t,
step-down: Romano & Wolf 2005). `rank_sets_of_means` has only means and numbers of queries: it assumes the largest
variance that values between the bounds can have, and uses Holm's correction, which is valid for any correlation.
`proofs/rank_sets.py` measures the coverage of both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from limner.core.errors import LimnerError
from limner.stats.bootstrap import Part
from limner.stats.inputs import Vector, joint_codes, numbers, refuse_non_finite, share, vector, whole_number
from limner.stats.paired import holm

Flags = npt.NDArray[np.bool_]
Ranks = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class RankSets:
    """Confidence sets for the ranks of K systems; higher values rank first.

    Attributes:
        estimates: the value of each system.
        lowest: the best rank that each system may have, from 1.
        highest: the worst rank it may have, up to K.
        better: K by K, whether the row's system is declared better than the column's.
        error: K by K, the standard error of each difference.
        critical: how many standard errors a difference needs to be significant in the first step.
        level: the coverage of all sets together.
        method: description of the tests.
    """

    estimates: Vector
    lowest: Ranks
    highest: Ranks
    better: Flags
    error: Vector
    critical: float
    level: float
    method: str

    def detectable(self, a: int, b: int, *, power: float = 0.8) -> float:
        """The smallest true difference of two systems that would be detected with probability `power`."""
        return (self.critical + _normal_quantile(power)) * float(self.error[a, b])


def rank_sets(
    values: npt.ArrayLike,
    *,
    clusters: npt.ArrayLike | None = None,
    level: float = 0.95,
    samples: int = 10_000,
    seed: int = 0,
) -> RankSets:
    """Confidence sets for the ranks of systems by mean, from their values on the same queries.

    Args:
        values: one row per query, one column per system; higher is better.
        clusters: a label per query, for queries that belong together, such as the captions of one image.
        level: the probability that every set holds the true rank of its system.
        samples: draws for the critical value.
        seed: the same seed gives the same sets.

    Returns:
        The sets.

    >>> rng = np.random.default_rng(0)
    >>> found = rank_sets(rng.random((400, 3)) < [0.9, 0.5, 0.5])
    >>> list(zip(found.lowest.tolist(), found.highest.tolist()))
    [(1, 1), (2, 3), (2, 3)]
    """
    table = _table(values)
    groups = np.arange(len(table)) if clusters is None else clusters
    return rank_sets_of_sum([Part(table, groups)], level=level, samples=samples, seed=seed)


def rank_sets_of_sum(parts: Sequence[Part], *, level: float = 0.95, samples: int = 10_000, seed: int = 0) -> RankSets:
    """`rank_sets` for a sum of means over sets of queries that share clusters, such as rsum.

    Args:
        parts: the means to add; `values` has a column per system, and the same label is the same cluster everywhere.
        level: the probability that every set holds the true rank of its system.
        samples: draws for the critical value.
        seed: the same seed gives the same sets.

    Returns:
        The sets.
    """
    level, samples = share(level, "level"), whole_number(samples, "samples", minimum=100)
    estimates, total, spread = _by_cluster(parts)
    units = len(total)
    if units < 2:
        raise LimnerError(f"got {units} independent queries or clusters, expected two or more to estimate a variance")
    covariance = spread.T @ spread * (units / (units - 1))
    variance = _of_differences(covariance)
    error = np.sqrt(variance + 2 * _largest_single(total) ** 2)
    drawn = _draws(covariance, units, samples, whole_number(seed, "seed", minimum=0))
    better, critical = _significant_pairs(_studentised(estimates, error), drawn, np.sqrt(variance), level)
    return _sets(estimates, better, error, critical, level, "paired, max-t by " + _unit(parts))


def rank_sets_of_means(
    means: npt.ArrayLike, queries: npt.ArrayLike, *, bounds: tuple[float, float] = (0.0, 1.0), level: float = 0.95
) -> RankSets:
    """Confidence sets for ranks from means and numbers of independent queries alone.

    The variance of a value between 0 and 1 with mean p is at most p (1 - p), that of hits and misses. Differences are
    tested with the pooled score test, as if the systems had different queries. This is conservative if they share
    queries and their hits are positively correlated.

    Args:
        means: one per system; higher is better.
        queries: number of independent queries behind each mean; clusters, if queries belong together.
        bounds: the smallest and the largest value of a query.
        level: the probability that every set holds the true rank of its system.

    Returns:
        The sets.

    >>> found = rank_sets_of_means([0.9, 0.5, 0.5], [400, 400, 400])
    >>> list(zip(found.lowest.tolist(), found.highest.tolist()))
    [(1, 1), (2, 3), (2, 3)]
    """
    level, (low, high) = share(level, "level"), bounds
    column, sizes = vector(means, "means", minimum=2), vector(queries, "queries", minimum=2)
    if len(sizes) != len(column) or (sizes < 1).any():
        raise LimnerError(
            f"queries: got {sizes.tolist()} for {len(column)} means, expected one positive count per mean"
        )
    if (column < low).any() or (column > high).any():
        raise LimnerError(f"means: got {column.min():g} to {column.max():g}, expected {low:g} to {high:g}")
    rate = (column - low) / (high - low)
    hits, pairs = sizes * rate, sizes[:, None] + sizes[None, :]
    # one hit and one miss are added: 0 of n is not certainty
    pooled = (hits[:, None] + hits[None, :] + 1) / (pairs + 2)
    error = np.sqrt(pooled * (1 - pooled) * (1 / sizes[:, None] + 1 / sizes[None, :])) * (high - low)
    better = _by_holm(_studentised(column, error), level)
    comparisons = len(column) * (len(column) - 1)
    critical = _normal_quantile(1 - (1 - level) / comparisons)
    return _sets(column, better, error, critical, level, "unpaired, Holm, largest possible variance")


def queries_needed(difference: float, error: float, queries: float, critical: float, *, power: float = 0.8) -> float:
    """How many queries are needed to detect a true difference with probability `power`.

    `n ((critical + z_power) error / difference)^2`; infinite for no difference. Assumes that further queries vary like
    those at hand.

    Args:
        difference: the true difference of two systems.
        error: the standard error of their difference on the queries at hand.
        queries: number of queries at hand.
        critical: how many standard errors a difference needs; see `RankSets`.
        power: the probability of detecting it.

    >>> round(queries_needed(0.02, 0.01, 1000, 1.96))
    1962
    """
    if difference == 0:
        return math.inf
    needed = queries * ((critical + _normal_quantile(power)) * error / difference) ** 2
    return float(max(needed, 2.0))


def _normal_quantile(probability: float) -> float:
    from scipy.special import ndtri

    return float(ndtri(share(probability, "power")))


def _table(values: npt.ArrayLike) -> Vector:
    table = numbers(values, "values")
    if table.ndim != 2 or table.shape[1] < 2 or not len(table):
        raise LimnerError(f"values: got shape {table.shape}, expected a row per query and two systems or more")
    refuse_non_finite(table, "values")
    return table


def _unit(parts: Sequence[Part]) -> str:
    alone = all(len(np.unique(np.asarray(part.clusters))) == len(np.asarray(part.values)) for part in parts)
    return "query" if alone and len(parts) == 1 else "cluster"


def _by_cluster(parts: Sequence[Part]) -> tuple[Vector, Vector, Vector]:
    """The estimates, the contribution of each cluster, and its difference from the expected contribution."""
    tables = [_table(part.values) for part in parts]
    if len({table.shape[1] for table in tables}) != 1:
        raise LimnerError("parts: got different numbers of systems, expected the same columns in every part")
    owners = joint_codes([part.clusters for part in parts], [table[:, 0] for table in tables], "clusters")
    units, systems = 1 + max(int(owner.max()) for owner in owners), tables[0].shape[1]
    estimates, total, spread = np.zeros(systems), np.zeros((units, systems)), np.zeros((units, systems))
    for part, table, owner in zip(parts, tables, owners, strict=True):
        weight, mean = part.scale / len(table), table.mean(axis=0)
        estimates += part.scale * mean
        np.add.at(total, owner, weight * table)
        np.add.at(spread, owner, weight * (table - mean))
    return estimates, total, spread


def _of_differences(covariance: Vector) -> Vector:
    """The variances of all differences; rounding residues of equal columns count as 0."""
    variances = np.diag(covariance)
    differences = variances[:, None] + variances[None, :] - 2 * covariance
    scale = np.maximum(variances[:, None], variances[None, :])
    return np.where(differences > 1e-12 * scale, differences, 0.0)


def _largest_single(total: Vector) -> Vector:
    """The largest difference between two systems from a single cluster; an unseen cluster may add as much."""
    return np.stack([np.abs(total - total[:, [i]]).max(axis=0) for i in range(total.shape[1])])


def _draws(covariance: Vector, units: int, samples: int, seed: int) -> Vector:
    """Draws errors of the systems from a multivariate Student's t with this covariance."""
    rng, systems = np.random.default_rng(seed), len(covariance)
    ridge = 1e-12 * max(float(np.trace(covariance)), 1e-300)
    factor = np.linalg.cholesky(covariance + ridge * np.eye(systems))
    scale = np.sqrt(rng.chisquare(units - 1, size=samples) / (units - 1))
    return np.asarray(rng.standard_normal((samples, systems)) @ factor.T / scale[:, None])


def _studentised(estimates: Vector, error: Vector) -> Vector:
    """(i, j): by how many standard errors i is better than j; 0 if they do not differ."""
    difference = estimates[:, None] - estimates[None, :]
    return np.divide(difference, error, out=np.zeros_like(difference), where=error > 0)


def _significant_pairs(observed: Vector, drawn: Vector, spread: Vector, level: float) -> tuple[Flags, float]:
    """Step-down max-t test over all ordered pairs: the significant pairs, and the critical value of the first step."""
    open_ = spread > 0
    significant, critical = np.zeros_like(open_), math.nan
    while open_.any():
        bound = _upper(_largest(drawn, spread, open_), level)
        critical = bound if math.isnan(critical) else critical
        new = open_ & (observed > bound)
        if not new.any():
            break
        significant |= new
        open_ &= ~new
    return significant | ((spread == 0) & (observed > critical)), critical if critical == critical else math.inf


def _largest(drawn: Vector, spread: Vector, open_: Flags) -> Vector:
    """The largest studentised difference of each draw, over the pairs that are still open."""
    largest = np.full(len(drawn), -np.inf)
    for i in np.flatnonzero(open_.any(axis=1)):
        rivals = np.flatnonzero(open_[i])
        differences = (drawn[:, [i]] - drawn[:, rivals]) / spread[i, rivals]
        np.maximum(largest, differences.max(axis=1), out=largest)
    return largest


def _upper(drawn: Vector, level: float) -> float:
    """The order statistic that is exceeded with probability at most 1 - level."""
    place = min(math.ceil(level * (len(drawn) + 1)), len(drawn))
    return float(np.partition(drawn, place - 1)[place - 1])


def _by_holm(observed: Vector, level: float) -> Flags:
    from scipy.special import ndtr

    off = ~np.eye(len(observed), dtype=bool)
    significant = np.zeros_like(off)
    significant[off] = holm(ndtr(-observed[off])) <= 1 - level
    return significant


def _sets(estimates: Vector, better: Flags, error: Vector, critical: float, level: float, method: str) -> RankSets:
    lowest = 1 + better.sum(axis=0, dtype=np.int64)
    highest = len(estimates) - better.sum(axis=1, dtype=np.int64)
    return RankSets(estimates, lowest, highest, better, error, critical, level, method)
