"""Bradley-Terry scores of options, from pairwise comparisons (Bradley & Terry 1952)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from limner.core.errors import LimnerError, shown
from limner.stats.inputs import Vector

_LIMIT = 100_000
_TOLERANCE = 1e-10


@dataclass(frozen=True)
class Preference:
    """Scores of options from votes.

    Args:
        names: The options.
        scores: Their Bradley-Terry scores, which sum to 100.
        low: Lower ends of the intervals.
        high: Upper ends.
        votes: Number of votes.
    """

    names: tuple[str, ...]
    scores: Vector
    low: Vector
    high: Vector
    votes: float


def bradley_terry(
    counts: npt.ArrayLike,
    names: Sequence[str],
    *,
    clusters: npt.ArrayLike | None = None,
    samples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Preference:
    """Bradley-Terry scores: `P(i preferred to j) = p_i / (p_i + p_j)`, scaled to sum to 100.

    Bradley & Terry 1952; fitted by the algorithm of Hunter 2004. The scores exist only if every option beat every other
    one, directly or through a chain of others; otherwise the fit would diverge, so an error is raised. Intervals are
    percentiles of a bootstrap over votes, or over clusters of votes that are not independent, such as those on a query.

    Args:
        counts: (options, options) how often the row was preferred to the column; the diagonal is ignored.
        names: The options.
        clusters: (clusters, options, options) the counts of each cluster, which add up to `counts`; there are no
            intervals (NaN) with fewer than two. By default all votes are independent.
        samples: Bootstrap samples; 0 for no intervals (NaN).
        confidence: Confidence of the intervals.
        seed: Seed of the bootstrap.

    >>> bradley_terry([[0, 3], [1, 0]], ["good", "bad"], samples=0).scores.round(2)
    array([75., 25.])
    """
    table = _checked(counts, names)
    unlinked = disconnected(table)
    if unlinked:
        raise LimnerError(
            f"no Bradley-Terry scores: {shown(names[i] for i in unlinked)} never won against, or never lost to, the "
            "rest, even indirectly; collect more votes, or leave them out"
        )
    scores = _fitted(table[None])[0]
    drawn = _bootstrap(table, _parted(clusters, table), samples, seed)
    tail = 50 * (1 - confidence)
    empty = np.full(len(names), np.nan)
    low, high = np.percentile(drawn, [tail, 100 - tail], axis=0) if len(drawn) else (empty, empty)
    return Preference(tuple(names), scores, low, high, float(table.sum()))


def _checked(counts: npt.ArrayLike, names: Sequence[str]) -> Vector:
    table = np.array(counts, dtype=np.float64)
    if table.shape != (len(names), len(names)) or len(names) < 2:
        raise LimnerError(f"counts of shape {table.shape} for {len(names)} options: expected a square, at least 2 by 2")
    if not np.isfinite(table).all() or (table < 0).any():
        raise LimnerError("counts of votes: expected finite numbers of 0 or above")
    np.fill_diagonal(table, 0)
    return table


def _parted(clusters: npt.ArrayLike | None, table: Vector) -> Vector | None:
    """The counts of each cluster, without the diagonals; None for independent votes."""
    if clusters is None:
        return None
    parts = np.array(clusters, dtype=np.float64)
    if parts.shape[1:] != table.shape:
        raise LimnerError(f"counts of clusters of shape {parts.shape}: expected one table of {table.shape} for each")
    parts *= 1 - np.eye(len(table))
    if not np.allclose(parts.sum(axis=0), table):
        raise LimnerError("counts of clusters: expected them to add up to the counts of all votes")
    return parts


def disconnected(counts: Vector) -> list[int]:
    """The options outside the largest strongly connected group."""
    from scipy.sparse.csgraph import connected_components

    _, group = connected_components(counts > 0, directed=True, connection="strong")
    return [int(i) for i in np.flatnonzero(group != np.bincount(group).argmax())]


def _fitted(tables: Vector) -> Vector:
    """Scores of highest likelihood of each table, in percent, by minorisation and maximisation (Hunter 2004)."""
    wins, games = tables.sum(axis=2), tables + tables.transpose(0, 2, 1)
    scores = np.full(wins.shape, 1 / wins.shape[1])
    moving = np.arange(len(tables))
    for _ in range(_LIMIT):
        current = scores[moving]
        renewed = wins[moving] / (games[moving] / (current[:, :, None] + current[:, None, :])).sum(axis=2)
        renewed /= renewed.sum(axis=1, keepdims=True)
        scores[moving] = renewed
        moving = moving[np.linalg.norm(renewed - current, axis=1) >= _TOLERANCE]
        if not len(moving):
            scaled: Vector = 100 * scores
            return scaled
    raise LimnerError(f"Bradley-Terry scores did not converge in {_LIMIT:,} iterations: collect more votes")


def _bootstrap(table: Vector, clusters: Vector | None, samples: int, seed: int) -> Vector:
    """Scores of resampled votes or clusters; samples without scores are left out."""
    draw = np.random.default_rng(seed)
    if clusters is None:
        total = np.rint(table.sum()).astype(int)
        share = (table / table.sum()).ravel()
        drawn = (draw.multinomial(total, share).reshape(table.shape).astype(np.float64) for _ in range(samples))
    else:
        n_clusters = len(clusters)
        alike = np.full(n_clusters, 1 / n_clusters)
        times = (draw.multinomial(n_clusters, alike) for _ in range(samples if n_clusters > 1 else 0))
        drawn = (np.tensordot(each, clusters, axes=1) for each in times)
    connected = [each for each in drawn if not disconnected(each)]
    return _fitted(np.array(connected)) if connected else np.empty((0, len(table)))
