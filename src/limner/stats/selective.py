"""A threshold with guaranteed precision: answers below it are not shown.

Each query has a list of answers with confidences. Answers at or above the threshold are shown; a query without any
gets no answer. Precision is the mean share of right answers among those shown, over the queries that get an answer:
every query counts alike, however many its cluster (the queries of an image) has. A share a of future queries may have
no right answer: a query stands for one of these with probability a, by its list without its right answers.

One part of the clusters proposes thresholds; the other tests them, from the most promising one downwards, until one
fails (fixed sequence testing; Angelopoulos et al. 2021, "Learn then Test"). Two tests hold for any distribution and any
number of clusters, and the first part chooses the one that promises more:

- drawn answers: each cluster gives at most one query, drawn with a probability proportional to the number of its
  queries, and each answered query one of its shown answers, drawn at random. Whether that answer is right is then an
  independent draw with a probability equal to the precision, so that the exact binomial test applies (Clopper and
  Pearson 1934). It is best where most clusters have one query.
- bets: the gain of a query is (1 - a) (share right - p) if it is answered as it is, less a p if it is answered without
  its right answers; a fixed stake is bet on the sum of the gains of each cluster. If the precision is below p, the
  capital does not grow in expectation, so it exceeds 1 / (1 - level) with probability at most 1 - level (Markov). It is
  best where clusters have several queries.

The largest cluster of the part that proposes bounds the size of a draw and the loss of a bet: the guarantee is for
clusters of at most that size, and larger ones do not take part in the test.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from limner.core.errors import LimnerError
from limner.stats.inputs import Vector, codes, share

Matrix = npt.NDArray[np.float64]
THRESHOLDS = 60
"""Number of proposed thresholds: quantiles of the confidences of the part that proposes, denser near the top."""
PROPOSING_SHARE = 3
"""One cluster in this many proposes."""
STAKES = np.linspace(0.04, 0.98, 16)
"""Stakes to try, as the share of the capital that the largest possible loss would cost."""


@dataclass(frozen=True)
class Responses:
    """What queries (rows) show at thresholds (columns).

    Args:
        answered: Whether any answer is shown.
        right: The share of right answers among those shown, 0 if there are none.
        fooled: Whether any answer is shown when the right ones are removed.
    """

    answered: npt.NDArray[np.bool_]
    right: Matrix
    fooled: npt.NDArray[np.bool_]

    def share_answered(self, absent: float) -> Matrix:
        """The probability that a query shows something, if a share of queries has no right answer."""
        return np.asarray((1 - absent) * self.answered + absent * self.fooled)

    def gains(self, precision: float, absent: float) -> Matrix:
        """The gain of each query at each threshold: 0 on average where the precision is the given one."""
        right = (1 - absent) * (self.right - precision * self.answered)
        return np.asarray(right - absent * precision * self.fooled)

    def precision(self, absent: float) -> Vector:
        """The precision over the queries at each threshold; nan if nothing is shown."""
        answered = self.share_answered(absent).sum(axis=0)
        right = (1 - absent) * self.right.sum(axis=0)
        return np.where(answered > 0, right / np.maximum(answered, 1e-300), np.nan)


@dataclass(frozen=True, eq=False)
class Answers:
    """Confidences of the answers to queries, best first, and which of them are right.

    Args:
        confidence: One row per query; -inf where a list is shorter.
        right: Whether each answer is right.
        without: Confidences of the list when all right answers are removed from the candidates.
        clusters: A label per query; queries with the same label are not independent.
        proposing: The queries that propose thresholds and test none; by default those of a random third of the
            clusters.
    """

    confidence: Matrix
    right: npt.NDArray[np.bool_]
    without: Matrix
    clusters: npt.ArrayLike
    proposing: npt.NDArray[np.bool_] | None = None

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
        return replace(self, confidence=self.confidence[:, :k], right=self.right[:, :k], without=self.without[:, :k])

    def sets(self, k: int, confidence: Callable[[Matrix], Vector]) -> Answers:
        """Each list as one answer, its first k together, which is right if any of them is.

        Args:
            k: The number of answers in a set.
            confidence: Computes the confidence of each set from those of its answers, one row per set.
        """
        first = self.first(k)
        right = np.asarray(first.right.any(axis=1))[:, None]
        best, without = (confidence(each)[:, None] for each in (first.confidence, first.without))
        return replace(self, confidence=best, right=right, without=without)

    def take(self, rows: npt.NDArray[np.bool_ | np.integer]) -> Answers:
        """The answers of some of the queries."""
        labels = np.asarray(self.clusters)[rows]
        proposing = None if self.proposing is None else self.proposing[rows]
        return Answers(self.confidence[rows], self.right[rows], self.without[rows], labels, proposing)

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """The number of queries of each cluster."""
        return np.bincount(codes(self.clusters, len(self.confidence), "clusters"))

    def responses(self, thresholds: Vector) -> Responses:
        """What each query shows at each threshold, given in ascending order."""
        counts = _counts_reaching(self.confidence, np.ones_like(self.right), thresholds)
        right = _counts_reaching(self.confidence, self.right, thresholds) / np.maximum(counts, 1)
        fooled = self.without.max(axis=1, initial=-np.inf)[:, None] >= thresholds
        return Responses(counts > 0, right, fooled)

    def measured(self, threshold: float, *, absent: float = 0.5) -> tuple[float, float]:
        """The precision over queries (nan if none is answered), and the share of queries answered as they are."""
        responses = self.responses(np.array([threshold]))
        return float(responses.precision(absent)[0]), float(responses.answered.mean())

    def proposed_answered(self, precision: float, *, absent: float = 0.5) -> float:
        """The largest share of the proposing queries that is answered at a threshold with this precision among them."""
        tried = self if self.proposing is None else self.take(self.proposing)
        responses = tried.responses(_quantiles(tried))
        right = (1 - absent) * responses.right.sum(axis=0)
        precise = right >= precision * (1 + responses.share_answered(absent).sum(axis=0))
        return float(responses.answered.mean(axis=0)[precise].max(initial=0.0))


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
        absent: The share of future queries that have no right answer; the guarantee also holds for fewer. 0 if every
            query has one.
        level: The probability that the guarantee holds.
        seed: Seed of the random parts and draws.

    >>> rng = np.random.default_rng(0)
    >>> right = rng.random(2000) < 0.5
    >>> confidence, without = (2.0 * right + rng.random(2000))[:, None], rng.random((2000, 1))
    >>> found = precision_threshold(Answers(confidence, right[:, None], without, np.arange(2000)), precision=0.9)
    >>> 0.8 < found.value < 2.1, round(found.answered, 1)
    (True, 0.5)
    """
    precision, level = share(precision, "precision"), share(level, "level")
    absent = share(absent, "absent") if absent else 0.0
    tried, tests, largest = _parts(answers, seed)
    proposal = _proposed(tried, precision, absent, level, len(tests.sizes), largest)
    if proposal.stakes is None:
        passed = _draws_pass(tests, proposal.grid, precision, absent, level, largest, seed)
    else:
        growth = np.log1p(_cluster_gains(tests, proposal.grid, precision, absent, largest) * proposal.stakes)
        passed = growth.sum(axis=0) >= -np.log(1 - level)
    last = int(np.logical_and.accumulate(passed).sum())
    value = None if not last else float(proposal.grid[last - 1])
    answered = 0.0 if value is None else tests.measured(value, absent=absent)[1]
    return Threshold(value, precision, level, absent, answered, len(tests.sizes), largest)


def _draws_pass(
    tests: Answers, grid: Vector, precision: float, absent: float, level: float, largest: int, seed: int
) -> npt.NDArray[np.bool_]:
    """Whether each threshold passes the binomial test of drawn answers."""
    from scipy.stats import binom

    answered, right = _drawn(tests, grid, absent, largest, seed)
    return np.asarray((answered > 0) & (binom.sf(right - 1, answered, precision) <= 1 - level))


def _drawn(
    tests: Answers, grid: Vector, absent: float, largest: int, seed: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The number of drawn queries that are answered at each threshold, and of those whose drawn answer is right."""
    rng = np.random.default_rng([seed, len(tests.confidence)])
    owner = codes(tests.clusters, len(tests.confidence), "clusters")
    order = np.argsort(owner, kind="stable")
    sizes = np.bincount(owner)
    place = np.floor(rng.random(len(sizes)) * largest).astype(np.int64)
    rows = order[(np.cumsum(sizes) - sizes + place)[place < sizes]]
    responses = tests.take(rows).responses(grid[::-1])
    missing, draw = rng.random((2, len(rows), 1))
    missing = missing < absent
    answered = np.where(missing, responses.fooled, responses.answered)
    right = ~missing & (draw < responses.right)
    return answered.sum(axis=0)[::-1], right.sum(axis=0)[::-1]


def _cluster_gains(tests: Answers, grid: Vector, precision: float, absent: float, largest: int) -> Matrix:
    """The sums of the gains of each cluster at each threshold, over the largest number of queries."""
    owner = codes(tests.clusters, len(tests.confidence), "clusters")
    gains = tests.responses(grid[::-1]).gains(precision, absent)[:, ::-1]
    order = np.argsort(owner, kind="stable")
    starts = np.searchsorted(owner[order], np.arange(int(owner.max(initial=-1)) + 1))
    return np.asarray(np.add.reduceat(gains[order], starts, axis=0) / largest) if len(starts) else gains


def _counts_reaching(confidence: Matrix, counted: npt.NDArray[np.bool_], thresholds: Vector) -> Matrix:
    """The number of counted answers of each query that reach each threshold."""
    passed = np.searchsorted(thresholds, confidence, side="right")  # number of thresholds passed, from the lowest
    width = len(thresholds) + 1
    flat = (np.arange(len(confidence))[:, None] * width + passed)[counted]
    counts = np.bincount(flat, minlength=len(confidence) * width).reshape(len(confidence), width)
    return np.asarray(counts[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:])


def _quantiles(tried: Answers) -> Vector:
    """The thresholds to consider, in ascending order."""
    best = tried.confidence.max(axis=1, initial=-np.inf)
    finite = best[np.isfinite(best)]
    return np.unique(np.quantile(finite, 1 - np.geomspace(1, 0.002, THRESHOLDS))) if len(finite) else np.array([np.inf])


@dataclass(frozen=True)
class _Proposal:
    """Thresholds from the most promising one downwards.

    Args:
        grid: The thresholds.
        power: About 1 if the first of them can be expected just to pass; more is better.
        stakes: The stake on each, for bets.
    """

    grid: Vector
    power: float
    stakes: Vector | None = None


def _proposed(tried: Answers, precision: float, absent: float, level: float, clusters: int, largest: int) -> _Proposal:
    """The proposal of the test that promises more; bets only pay where clusters have several queries."""
    draws = _for_draws(tried, precision, absent, level, clusters)
    bets = _for_bets(tried, precision, absent, level, clusters) if largest > 1 else draws
    return max(draws, bets, key=lambda proposal: proposal.power)


def _for_draws(tried: Answers, precision: float, absent: float, level: float, clusters: int) -> _Proposal:
    """By the z-score to expect; the precision is drawn towards the one to guarantee by one answered cluster."""
    from scipy.special import ndtri

    levels, sizes = _quantiles(tried), tried.sizes
    responses = tried.responses(levels)
    answered = responses.share_answered(absent).sum(axis=0) / max(int(sizes.max(initial=1)), 1)
    right = (1 - absent) * responses.right.sum(axis=0) / max(int(sizes.max(initial=1)), 1)
    over = (right + precision) / (answered + 1) - precision
    expected = over * np.sqrt(answered * clusters / len(sizes) / (precision * (1 - precision)))
    start = int(expected.argmax())
    return _Proposal(levels[start::-1], float(expected[start] / ndtri(level)))


def _for_bets(tried: Answers, precision: float, absent: float, level: float, clusters: int) -> _Proposal:
    """By the growth of the capital to expect, at the best stake; growth is like half the square of a z-score."""
    levels = _quantiles(tried)
    gains = _cluster_gains(tried, levels[::-1], precision, absent, max(int(tried.sizes.max(initial=1)), 1))[:, ::-1]
    stakes = STAKES / precision  # a gain is never below -precision
    growth = np.array([np.log1p(gains * stake).mean(axis=0) for stake in stakes])
    start = int(growth.max(axis=0).argmax())
    power = np.sqrt(max(float(growth.max()), 0.0) * clusters / -np.log(1 - level))
    return _Proposal(levels[start::-1], float(power), stakes[growth.argmax(axis=0)][start::-1])


def precision_within_reach(answers: Answers, *, absent: float = 0.5, level: float = 0.95, seed: int = 0) -> float:
    """The highest precision, in steps of 0.05, that `precision_threshold` can be expected to guarantee.

    It uses only the part of the queries that proposes thresholds, so that a guarantee is still possible afterwards.

    Args:
        answers: As for `precision_threshold`, like the other arguments.
        absent: The share of queries without a right answer.
        level: The probability that the guarantee holds.
        seed: Seed of the random parts.
    """
    tried, tests, largest = _parts(answers, seed)
    for precision in np.arange(19, 0, -1) / 20:
        if _proposed(tried, float(precision), absent, level, len(tests.sizes), largest).power >= 1:
            return float(precision)
    return 0.0


def _parts(answers: Answers, seed: int) -> tuple[Answers, Answers, int]:
    """The queries that propose, those that test, without clusters above the largest size in the first; that size."""
    owner = codes(answers.clusters, len(answers.confidence), "clusters")
    sizes = answers.sizes
    if len(sizes) < 4:
        raise LimnerError(f"got queries of {len(sizes)} clusters (images): expected at least 4, preferably hundreds")
    proposing = answers.proposing
    if proposing is None:
        order = np.random.default_rng(seed).permutation(len(sizes))
        proposing = np.isin(owner, order[: max(len(order) // PROPOSING_SHARE, 1)])
    largest = int(sizes[owner[proposing]].max(initial=0))
    return answers.take(proposing), answers.take(~proposing & (sizes[owner] <= largest)), largest
