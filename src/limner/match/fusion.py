"""Fusion: combines several systems over the same queries and candidates into one.

Fusion is by rank, which makes no assumption about the scores (`borda`, `reciprocal_rank`), or by score, normalised per
query (`mean`). Systems are `Scores`, read in blocks, or `Ranking`s such as run files, which may be truncated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import numpy.typing as npt

from limner.core.arrays import Array, FloatArray
from limner.core.errors import LimnerError, UnknownName, shown
from limner.core.ids import Ids
from limner.core.progress import Progress, ProgressLike, as_progress
from limner.core.ranking import Ranking
from limner.core.registry import Registry, checked
from limner.scores import Scores
from limner.scores.parallel_blocks import Block, on_host

System = Scores | Ranking
Normalise = Literal["zscore", "minmax"] | None


def borda(systems: Sequence[System], *, depth: int | None = None, progress: ProgressLike = None) -> Ranking:
    """Borda count: with N candidates, each system gives N - r points to the candidate at rank r = 0, 1, ..., N - 1.

    Equal sums are ordered by the median rank over the systems, lowest first, then in candidate order (Hodosh, Young &
    Hockenmaier 2013, section 4.1). Candidates with equal scores in a system share the mean of their ranks there.
    Candidates missing from a truncated list share the mean of the ranks below it, so that every system gives the same
    number of points; candidates that are in no list are not in the result.

    Args:
        systems: Scores or rankings of the same queries and candidates. If no system knows the size of its pool, as with
            run files, N is the number of candidates that are named in any of them.
        depth: Number of candidates to keep per query; all by default, which takes as much memory as the matrix.
        progress: Called with (queries done, queries in total).

    Returns:
        A ranking. Its scores are the sums plus less than half a point for the median rank, so that their order follows
        the rule.

    >>> a = Ranking.from_lists({"q": ["x", "y", "z"]}, candidates="xyz")
    >>> b = Ranking.from_lists({"q": ["y", "z", "x"]}, candidates="xyz")
    >>> borda([a, b])["q"]
    ['y', 'x', 'z']
    """
    progress = as_progress(progress)
    return _by_rank(systems, -1.0, depth, progress)


def reciprocal_rank(
    systems: Sequence[System], *, k: float = 60.0, depth: int | None = None, progress: ProgressLike = None
) -> Ranking:
    """Reciprocal rank fusion: the sum of 1 / (k + rank), ranks from 1. Cormack, Clarke & Büttcher 2009.

    Candidates with equal scores in a system share the mean of their ranks there; candidates missing from a list get
    nothing from it. Equal sums keep candidate order.

    Args:
        systems: Scores or rankings of the same queries and candidates.
        k: Damping constant; the larger it is, the less the first ranks stand out.
        depth: Number of candidates to keep per query; all by default.
        progress: Called with (queries done, queries in total).

    >>> a = Ranking.from_lists({"q": ["x", "y", "z"]}, candidates="xyz")
    >>> b = Ranking.from_lists({"q": ["y", "z", "x"]}, candidates="xyz")
    >>> reciprocal_rank([a, b])["q"]
    ['y', 'x', 'z']
    """
    progress = as_progress(progress)
    if not k >= 0:
        raise LimnerError(f"reciprocal_rank: k is {k}, expected 0 or more (60 is usual)")
    return _by_rank(systems, float(k), depth, progress)


def mean(systems: Sequence[System], *, normalise: Normalise = "zscore") -> FusedScores:
    """The mean of the scores of several systems, computed lazily, block by block.

    Args:
        systems: Scores of the same queries and candidates; or rankings with scores, where a candidate missing from a
            truncated list gets the score of its last candidate.
        normalise: How to normalise the scores of each query, because systems use different scales: "zscore" (subtract
            the mean, divide by the standard deviation), "minmax" (from 0 to 1), or None. If all scores are equal, they
            become 0.

    >>> a = Scores.from_matrix(np.array([[0.9, 0.8, 0.1]]), ["q"], "xyz")
    >>> b = Scores.from_matrix(np.array([[10.0, 30.0, 20.0]]), ["q"], "xyz")
    >>> mean([a, b], normalise="minmax").matrix()
    array([[0.5   , 0.9375, 0.25  ]])
    """
    if normalise not in ("zscore", "minmax", None):
        raise UnknownName("normalisation", str(normalise), ("zscore", "minmax", "None"))
    pool = _Pool.of(systems)
    return FusedScores(tuple(systems), normalise, pool)


def mean_ranking(
    systems: Sequence[System],
    *,
    normalise: Normalise = "zscore",
    depth: int | None = None,
    progress: ProgressLike = None,
) -> Ranking:
    """The mean of the scores of several systems as a ranking; arguments as for `mean` and `borda`."""
    fused = mean(systems, normalise=normalise)
    return fused.top(depth or fused.shape[1], progress=progress)


FUSIONS: Registry[Callable[..., Ranking]] = Registry(
    "fusion",
    {
        "borda": "limner.match.fusion:borda",
        "mean": "limner.match.fusion:mean_ranking",
        "reciprocal_rank": "limner.match.fusion:reciprocal_rank",
    },
    filled=1,
)
"""All fusion methods by name; each takes systems and returns a ranking."""


def fuse(systems: Sequence[System], method: str | Callable[..., Ranking] = "borda", **options: object) -> Ranking:
    """Fuses several systems into one ranking.

    Args:
        systems: Scores or rankings of the same queries and candidates.
        method: A key of `FUSIONS` or "module:function", either with options such as "reciprocal_rank(k=10)"; or a
            function that takes systems and returns a ranking.
        options: `depth` and `progress`; `k` of "reciprocal_rank"; `normalise` of "mean".

    >>> a = Ranking.from_lists({"q": ["x", "y", "z"]}, candidates="xyz")
    >>> b = Ranking.from_lists({"q": ["y", "z", "x"]}, candidates="xyz")
    >>> fuse([a, b], "reciprocal_rank", depth=1)["q"]
    ['y']
    """
    if isinstance(method, str):
        method, options = FUSIONS.parsed(method, options)
    fusion = FUSIONS.find(method) if isinstance(method, str) else method
    label = f"fusion {method if isinstance(method, str) else FUSIONS.name_of(method)!r}"
    fused = fusion(systems, **checked(fusion, options, what=label, filled=FUSIONS.filled))
    if not isinstance(fused, Ranking):
        raise LimnerError(f"{label} gave {type(fused).__name__}: expected a Ranking, such as scores.top(100)")
    return fused


@dataclass(frozen=True, eq=False)
class _Pool:
    """The ids that all systems share, and the number of candidates."""

    queries: Ids
    candidates: Ids
    size: int
    known: bool

    @classmethod
    def of(cls, systems: Sequence[System]) -> _Pool:
        """Refuses systems with different queries or candidates."""
        if isinstance(systems, (Scores, Ranking)) or not systems:
            raise LimnerError("no systems to fuse: give a list [a, b, ...] of Scores or Rankings")
        for number, system in enumerate(systems, start=1):
            if not isinstance(system, (Scores, Ranking)):
                raise LimnerError(f"system {number} is a {type(system).__name__}: expected Scores or a Ranking")
        scored = next((s for s in systems if isinstance(s, Scores)), None)  # the ids of the first are used for all
        first = scored or systems[0]
        complete = scored or next((s for s in systems if _knows_pool(s)), None)
        candidates = _named_by(systems) if complete is None else complete.candidates
        sizes = [s.n_candidates or 0 for s in systems if isinstance(s, Ranking)]
        size = max([len(candidates), *sizes])
        pool = cls(first.queries, candidates, size, complete is not None or max(sizes) > 0)
        for number, system in enumerate(systems, start=1):
            pool._refuse_other(system, number)
        return pool

    def _refuse_other(self, system: System, number: int) -> None:
        """Refuses a system with different queries or candidates. In rankings they may be in any order."""
        for side, first_ids, ids in (
            ("queries", self.queries, system.queries),
            ("candidates", self.candidates, system.candidates),
        ):
            if ids == first_ids:
                continue
            may_lack = side == "candidates" and isinstance(system, Ranking) and not _knows_pool(system)
            outside, missing = [i for i in ids if i not in first_ids], [i for i in first_ids if i not in ids]
            if outside or (missing and not may_lack):
                detail = f"it has {shown(outside)}" if outside else f"it lacks {shown(missing)}"
                raise LimnerError(
                    f"system {number} has other {side} than the first ({len(ids)}, not {len(first_ids)}; {detail}): "
                    "fuse systems with the same ids"
                )
            if isinstance(system, Scores):
                raise LimnerError(
                    f"system {number} has the {side} in another order: give all scores the same order of ids"
                )

    def lists(self, ranking: Ranking, start: int, stop: int) -> tuple[Array, Array | None]:
        """Candidate positions and scores of these queries, from a ranking that numbers its candidates differently."""
        rows = (
            slice(start, stop)
            if ranking.queries == self.queries
            else ranking.queries.positions(self.queries[start:stop])
        )
        indices = ranking.indices[rows]
        if ranking.candidates != self.candidates:
            numbers = np.append(self.candidates.positions(ranking.candidates), -1)
            indices = numbers[indices]
        return indices, None if ranking.scores is None else ranking.scores[rows]


def _knows_pool(system: System) -> bool:
    return isinstance(system, Scores) or system.n_candidates == len(system.candidates)


def _named_by(systems: Iterable[System]) -> Ids:
    """All named candidates, in order of appearance."""
    return Ids(dict.fromkeys(c for system in systems for c in system.candidates), what="candidate")


@dataclass(frozen=True, eq=False)
class FusedScores(Scores):
    """The mean of the scores of several systems, normalised per query; see `mean`."""

    systems: tuple[System, ...]
    normalise: Normalise
    pool: _Pool

    def __post_init__(self) -> None:
        """Sets the ids of queries and candidates."""
        for number, system in enumerate(self.systems, start=1):
            if isinstance(system, Ranking) and system.scores is None:
                raise LimnerError(
                    f"system {number} is a ranking without scores: fuse it by 'borda' or 'reciprocal_rank'"
                )
        object.__setattr__(self, "queries", self.pool.queries)
        object.__setattr__(self, "candidates", self.pool.candidates)

    @property
    def T(self) -> FusedScores:
        """The transposed scores of every system, normalised per candidate."""
        turned = []
        for number, system in enumerate(self.systems, start=1):
            if isinstance(system, Ranking):
                raise LimnerError(f"system {number} is a ranking, which has only one direction: give Scores for both")
            turned.append(system.T)
        return mean(turned, normalise=self.normalise)

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """The most precise dtype of the systems."""
        return np.result_type(*(s.dtype if isinstance(s, Scores) else np.float64 for s in self.systems))

    def prepare(self) -> None:
        """Prepares every system."""
        for system in self.systems:
            if isinstance(system, Scores):
                system.prepare()

    def block(self, start: int, stop: int, out: npt.NDArray[np.float32] | None = None) -> Block:
        """The mean of the systems' blocks; a pair excluded by one of them (-inf) stays excluded."""
        total, lost = np.zeros((2, stop - start, self.shape[1]))
        for number, system in enumerate(self.systems, start=1):
            block = (
                self._spread(system, start, stop)
                if isinstance(system, Ranking)
                else self._normalised_block(system, start, stop)
            )
            self._refuse_infinite(block, start, number)
            total = _add(total, block / len(self.systems), lost)
        return (total + lost).astype(self.dtype)

    def _refuse_infinite(self, block: Block, start: int, number: int) -> None:
        if np.isposinf(block).any():
            row, column = (int(at) for at in np.argwhere(np.isposinf(block))[0])
            raise LimnerError(
                f"system {number}: the score of query {self.queries[start + row]!r} and candidate "
                f"{self.candidates[column]!r} is +inf: the mean would be infinite; use a large finite number instead"
            )

    def _normalised_block(self, system: Scores, start: int, stop: int) -> Block:
        return normalised(on_host(system.block(start, stop)), self.normalise)

    def _spread(self, system: Ranking, start: int, stop: int) -> Block:
        """The scores of a ranking as a block; candidates missing from a list get the score of its last candidate."""
        indices, scores = self.pool.lists(system, start, stop)
        is_listed = indices >= 0
        listed = np.where(is_listed, -np.inf if scores is None else scores, -np.inf)
        normal = normalised(listed.astype(np.float64), self.normalise)
        last = np.where(np.isfinite(normal), normal, np.inf).min(axis=1, initial=np.inf)
        block = np.repeat(np.where(np.isfinite(last), last, 0.0)[:, None], self.shape[1], axis=1)
        rows, places = np.nonzero(is_listed)
        block[rows, indices[rows, places]] = normal[rows, places]
        return block


def _add(total: FloatArray, term: FloatArray, lost: FloatArray) -> FloatArray:
    """Adds to a sum; the rounding error goes to `lost` (Neumaier 1974), so that huge scores may cancel each other."""
    new = total + term
    large, small = np.where(np.abs(total) >= np.abs(term), (total, term), (term, total))
    with np.errstate(invalid="ignore"):
        lost += np.where(np.isfinite(new), (large - new) + small, 0.0)
    return new


def normalised(block: Block, method: Normalise) -> npt.NDArray[np.float64]:
    """Scales rows to mean 0 and standard deviation 1, or to 0 ... 1; infinite values are kept and ignored."""
    wide = block.astype(np.float64)
    if method is None or not block.size:
        return wide
    finite = np.isfinite(wide)
    low = np.where(finite, wide, np.inf).min(axis=1, keepdims=True)
    half = np.where(finite, wide, -np.inf).max(axis=1, keepdims=True) / 2 - low / 2  # halved, to avoid overflow
    some, flat = finite.any(axis=1, keepdims=True), half == 0
    placed = np.where(finite, wide / 2 - np.where(some, low, 0.0) / 2, 0.0) / np.where(some & ~flat, half, 1.0)
    if method == "zscore":  # for positions between 0 and 1
        count = np.maximum(finite.sum(axis=1, keepdims=True), 1)
        placed = np.where(finite, placed - placed.sum(axis=1, keepdims=True) / count, 0.0)
        spread = np.sqrt((placed**2).sum(axis=1, keepdims=True) / count)
        placed = placed / np.where(spread > 0, spread, 1.0)
    return np.where(finite, np.where(flat, 0.0, placed), wide)


@dataclass(frozen=True, eq=False)
class _Queries(Scores):
    """Scores without values: runs a pass over blocks of queries, in threads or on a cluster."""

    systems: tuple[System, ...]
    queries: Ids
    candidates: Ids

    @property
    def T(self) -> Scores:
        """Not available."""
        raise LimnerError("blocks of queries have only one direction")

    def prepare(self) -> None:
        """Prepares every system."""
        for system in self.systems:
            if isinstance(system, Scores):
                system.prepare()

    def block(self, start: int, stop: int, out: npt.NDArray[np.float32] | None = None) -> Block:
        """An empty row for every query."""
        return np.empty((stop - start, 0), dtype=np.float32)


def _by_rank(systems: Sequence[System], k: float, depth: int | None, progress: Progress) -> Ranking:
    """Borda if k is below 0, else reciprocal ranks."""
    if depth is not None and depth < 1:
        raise LimnerError(f"fuse to depth {depth}: expected at least 1, or None for all")
    pool = _Pool.of(systems)
    passes = _Queries(tuple(systems), pool.queries, Ids([], what="candidate"))
    parts = passes.map(partial(_fuse_rows, tuple(systems), pool, k, depth), progress=progress)
    width = max((part[0].shape[1] for part in parts), default=0)
    indices = np.concatenate([_padded(part[0], width, -1) for part in parts])
    scores = np.concatenate([_padded(part[1], width, -np.inf) for part in parts])
    return Ranking(pool.queries, pool.candidates, indices, scores, pool.size if pool.known else None)


def _padded(array: Array, width: int, value: float) -> Array:
    return np.pad(array, ((0, 0), (0, width - array.shape[1])), constant_values=value)


def _fuse_rows(
    systems: tuple[System, ...], pool: _Pool, k: float, depth: int | None, start: int, block: Block
) -> tuple[Array, Array]:
    """The fused lists of one block of queries: candidates and scores."""
    from limner.match import _fusion_kernels

    stop = start + len(block)
    lists = [_ranked(system, pool, start, stop) for system in systems]
    offsets = np.cumsum([0, *(indices.shape[1] for indices, _ in lists)])
    indices, ranks = (np.concatenate(each, axis=1) for each in zip(*lists, strict=True))
    width = min(indices.shape[1], len(pool.candidates), depth or len(pool.candidates))
    best = np.full((len(block), width), -1, dtype=np.int32)
    points = np.full((len(block), width), -np.inf)
    longest = _fusion_kernels.fuse(indices, ranks, offsets, len(pool.candidates), float(pool.size), k, best, points)
    return best[:, :longest], points[:, :longest]


def _ranked(system: System, pool: _Pool, start: int, stop: int) -> tuple[Array, Array]:
    """The candidates of a system for some queries, best first, and their ranks from 1; ties share a rank."""
    from limner.match import _fusion_kernels

    if isinstance(system, Ranking):
        indices, scores = pool.lists(system, start, stop)
        ranked_scores = (
            -np.arange(indices.shape[1], dtype=np.float64)[None].repeat(len(indices), 0) if scores is None else scores
        )
    else:
        block = on_host(system.block(start, stop))
        indices = np.argsort(-block, axis=1, kind="stable")
        ranked_scores = np.take_along_axis(block, indices, axis=1)
    ranks = np.empty(indices.shape)
    _fusion_kernels.shared_ranks(indices, np.ascontiguousarray(ranked_scores), ranks)
    return indices.astype(np.int32), ranks
