"""A threshold with guaranteed precision: answers below it are not shown.

Each query has a list of answers with confidences. Answers at or above the threshold are shown; a query without any
gets no answer. Precision is the mean share of right answers among those shown, over the queries that get an answer:
every query counts alike, however many its cluster (the queries of an image) has. Each query is used twice, as it is and
with its right answers removed, with weights 1 - a and a: the guarantee then holds if at most a share a of future
queries has no right answer.

The gain of a query is (1 - a) (share right - p) if it is answered as it is, and - a p if it is answered without its
right answers; that of a cluster is their sum. Clusters are drawn independently, and a threshold reaches precision p if
the mean gain of a cluster is at least 0: the precision is a ratio of two means over clusters. Half of the clusters
propose thresholds and stakes; the other half tests them, from the most promising one downwards, until one fails (fixed
sequence testing; Angelopoulos et al. 2021, "Learn then Test"). The test bets a fixed stake on the gain of every
cluster: if the precision is below p, the capital does not grow in expectation, so it exceeds 1 / (1 - level) with
probability at most 1 - level (Markov), for any distribution and any number of clusters. A bet needs a bound on what can
be lost: the largest cluster of the half that proposes. The guarantee is for clusters of at most that size, and larger
ones do not take part in the test.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from limner.core.errors import LimnerError
from limner.stats.inputs import Vector, codes, share

Matrix = npt.NDArray[np.float64]
THRESHOLDS = 60
"""Number of proposed thresholds: quantiles of the confidences of half of the queries, denser near the top."""
STAKES = np.linspace(0.04, 0.98, 16)
"""Stakes to try, as the share of the capital that the largest possible loss would cost."""


@dataclass(frozen=True, eq=False)
class Answers:
    """Confidences of the answers to queries, best first, and which of them are right.

    Args:
        confidence: One row per query; -inf where a list is shorter.
        right: Whether each answer is right.
        without: Confidences of the list when all right answers are removed from the candidates.
        clusters: A label per query; queries with the same label are not independent.
    """

    confidence: Matrix
    right: npt.NDArray[np.bool_]
    without: Matrix
    clusters: npt.ArrayLike

    def __post_init__(self) -> None:
        """Checks the shapes."""
        shape = np.shape(self.confidence)
        if len(shape) != 2 or shape != np.shape(self.right) or len(self.without) != shape[0]:
            raise LimnerError(
                f"confidences {shape}, right {np.shape(self.right)}, without {np.shape(self.without)}: expected one "
                "row per query in each, and the same shape for the first two"
            )

    def first(self, k: int) -> Answers:
        """The same lists, cut after k answers."""
        return Answers(self.confidence[:, :k], self.right[:, :k], self.without[:, :k], self.clusters)

    def take(self, rows: npt.NDArray[np.bool_ | np.integer]) -> Answers:
        """The answers of some of the queries."""
        labels = np.asarray(self.clusters)[rows]
        return Answers(self.confidence[rows], self.right[rows], self.without[rows], labels)

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """The number of queries of each cluster."""
        return np.bincount(codes(self.clusters, len(self.confidence), "clusters"))

    def gains(self, thresholds: Vector, *, precision: float, absent: float, largest: int | None = None) -> Matrix:
        """The gain of each cluster (rows) at each threshold (columns, in ascending order).

        Args:
            thresholds: Thresholds.
            precision: The precision that gives a gain of 0.
            absent: The share of queries without a right answer.
            largest: Gains are divided by this number of queries, so that none is below `-precision`; by default that of
                the largest cluster.
        """
        owner = codes(self.clusters, len(self.confidence), "clusters")
        answered = _counts_reaching(self.confidence, np.ones_like(self.right), thresholds)
        right = _counts_reaching(self.confidence, self.right, thresholds)
        over = np.where(answered > 0, right / np.maximum(answered, 1) - precision, 0.0)
        fooled = self.without.max(axis=1, initial=-np.inf)[:, None] >= thresholds
        gain = (1 - absent) * over - absent * precision * fooled
        order = np.argsort(owner, kind="stable")
        starts = np.searchsorted(owner[order], np.arange(int(owner.max(initial=-1)) + 1))
        return np.asarray(np.add.reduceat(gain[order], starts, axis=0) / (largest or self.sizes.max(initial=1)))

    def measured(self, threshold: float, *, absent: float = 0.5) -> tuple[float, float]:
        """The precision over queries (nan if none is answered), and the share of queries answered as they are."""
        spent = -self.gains(np.array([threshold]), precision=1.0, absent=absent).mean()  # answered, but wrong
        won = self.gains(np.array([threshold]), precision=0.0, absent=absent).mean()
        answered = (self.confidence >= threshold).any(axis=1)
        return float(won / (won + spent)) if won + spent > 0 else float("nan"), float(answered.mean())


@dataclass(frozen=True)
class Threshold:
    """A threshold with guaranteed precision.

    Args:
        value: Answers with at least this confidence are shown; None if no threshold can be guaranteed.
        precision: The guaranteed precision.
        level: The probability that the guarantee holds.
        absent: The largest share of queries without a right answer for which it holds.
        answered: The share of test queries that get an answer when none of their right answers are removed.
        clusters: The number of clusters it was tested on.
        largest: The guarantee is for queries of clusters with at most so many.
    """

    value: float | None
    precision: float
    level: float
    absent: float
    answered: float
    clusters: int
    largest: int = 1


def precision_threshold(
    answers: Answers, *, precision: float = 0.9, absent: float = 0.5, level: float = 0.95, seed: int = 0
) -> Threshold:
    """The lowest threshold whose precision is at least the given one, with probability at least `level`.

    Args:
        answers: Answers to queries whose clusters are drawn at random from those of future queries.
        precision: The precision to guarantee.
        absent: The share of future queries that have no right answer; the guarantee also holds for fewer.
        level: The probability that the guarantee holds.
        seed: Seed of the random halves.

    >>> rng = np.random.default_rng(0)
    >>> right = rng.random(2000) < 0.5
    >>> confidence, without = (2.0 * right + rng.random(2000))[:, None], rng.random((2000, 1))
    >>> found = precision_threshold(Answers(confidence, right[:, None], without, np.arange(2000)), precision=0.9)
    >>> 0.8 < found.value < 2.1, round(found.answered, 1)
    (True, 0.5)
    """
    precision, absent, level = (
        share(value, name) for value, name in ((precision, "precision"), (absent, "absent"), (level, "level"))
    )
    tried, tests, largest = _halves(answers, seed)
    grid, stakes, _ = _proposed(tried, precision, absent)
    gains = tests.gains(grid[::-1], precision=precision, absent=absent, largest=largest)[:, ::-1]
    capital = np.log1p(gains * stakes).sum(axis=0)
    passed = int(np.logical_and.accumulate(capital >= -np.log(1 - level)).sum())
    value = None if not passed else float(grid[passed - 1])
    answered = 0.0 if value is None else tests.measured(value, absent=absent)[1]
    return Threshold(value, precision, level, absent, answered, len(gains), largest)


def _counts_reaching(confidence: Matrix, counted: npt.NDArray[np.bool_], thresholds: Vector) -> Matrix:
    """The number of counted answers of each query that reach each threshold."""
    passed = np.searchsorted(thresholds, confidence, side="right")  # number of thresholds passed, from the lowest
    width = len(thresholds) + 1
    flat = (np.arange(len(confidence))[:, None] * width + passed)[counted]
    counts = np.bincount(flat, minlength=len(confidence) * width).reshape(len(confidence), width)
    return np.asarray(counts[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:])


def _proposed(tried: Answers, precision: float, absent: float) -> tuple[Vector, Vector, float]:
    """Thresholds from the most promising one downwards, the stake on each, and the expected growth per cluster."""
    best = tried.confidence.max(axis=1, initial=-np.inf)
    levels = np.unique(np.quantile(best[np.isfinite(best)], 1 - np.geomspace(1, 0.002, THRESHOLDS)))
    gains = tried.gains(levels, precision=precision, absent=absent)
    stakes = STAKES / precision  # a gain is never below -precision
    growth = np.array([np.log1p(gains * stake).mean(axis=0) for stake in stakes])
    chosen = stakes[growth.argmax(axis=0)]
    start = int(growth.max(axis=0).argmax())
    return levels[start::-1], chosen[start::-1], float(growth.max())


def precision_within_reach(answers: Answers, *, absent: float = 0.5, level: float = 0.95, seed: int = 0) -> float:
    """The highest precision, in steps of 0.05, that `precision_threshold` can be expected to guarantee.

    It uses only the half of the queries that proposes thresholds, so that a guarantee is still possible afterwards.

    Args:
        answers: As for `precision_threshold`, like the other arguments.
        absent: The share of queries without a right answer.
        level: The probability that the guarantee holds.
        seed: Seed of the random halves.
    """
    tried, tests, _ = _halves(answers, seed)
    for precision in np.arange(19, 0, -1) / 20:
        if len(tests.sizes) * _proposed(tried, float(precision), absent)[2] >= -np.log(1 - level):
            return float(precision)
    return 0.0


def _halves(answers: Answers, seed: int) -> tuple[Answers, Answers, int]:
    """Two random halves by cluster, the second without clusters above the largest size in the first; that size."""
    owner = codes(answers.clusters, len(answers.confidence), "clusters")
    order = np.random.default_rng(seed).permutation(int(owner.max(initial=-1)) + 1)
    if len(order) < 4:
        raise LimnerError(f"got queries of {len(order)} clusters (images): expected at least 4, preferably hundreds")
    sizes, first = answers.sizes, order[: len(order) // 2]
    largest = int(sizes[first].max())
    tests = ~np.isin(owner, first) & (sizes[owner] <= largest)
    return answers.take(np.isin(owner, first)), answers.take(tests), largest
