"""Which ranking do people prefer? Counted votes, and Bradley-Terry scores of them.

The study of Chun et al. (2022, appendix D.1): five rankings with known faults, every two of them shown side by side.
Their counts are `limner.evaluation.published.table("eccv-d1")`. The scores of its rows A to E are 10.66, 4.89, 70.85,
13.15 and 0.44, which are the values of the paper's text under other names (A 70.85, B 13.15, C 10.66, D 4.89, E 0.44):
the labels of the table's rows, not its numbers, are off.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from limner.annotate.store.votes import Rivals, Vote
from limner.core.errors import LimnerError, MissingExtra, shown

FloatArray = npt.NDArray[np.float64]
FAULTS = {
    "A": "only the first is wrong",
    "B": "only the first is right",
    "C": "the first five are wrong",
    "D": "only the fifth is right",
    "E": "all are wrong",
}
"""The five rankings of the paper's study."""
_LIMIT = 100_000
_TOLERANCE = 1e-10


@dataclass(frozen=True)
class Preference:
    """Scores of rankings from votes.

    Args:
        names: The rankings.
        scores: Their Bradley-Terry scores, which sum to 100.
        low: Lower ends of the intervals.
        high: Upper ends.
        votes: How many votes they rest on.
    """

    names: tuple[str, ...]
    scores: FloatArray
    low: FloatArray
    high: FloatArray
    votes: float


def counted(votes: Iterable[Vote], names: Sequence[str] | None = None) -> tuple[tuple[str, ...], FloatArray]:
    """How often each ranking (row) was preferred to each other (column); a tie counts half for both."""
    listed = list(votes)
    found = tuple(names) if names is not None else tuple(sorted({n for v in listed for n in (v.left, v.right)}))
    row = {name: number for number, name in enumerate(found)}
    counts = np.zeros((len(found), len(found)))
    for vote in listed:
        left, right = row[vote.left], row[vote.right]
        share = {"left": 1.0, "right": 0.0, "tie": 0.5}[vote.choice]
        counts[left, right] += share
        counts[right, left] += 1 - share
    return found, counts


def bradley_terry(
    counts: npt.ArrayLike, names: Sequence[str], *, samples: int = 1000, confidence: float = 0.95, seed: int = 0
) -> Preference:
    """Bradley-Terry scores: `P(i preferred to j) = p_i / (p_i + p_j)`, scaled to sum to 100.

    Bradley & Terry 1952; fitted by evalica. The scores exist only where every ranking was preferred, through others if
    need be, to every other; where not, the fit drifts to nothing without a word, so that is refused here. Intervals
    are percentiles of a bootstrap over votes.

    Args:
        counts: (rankings, rankings) how often the row was preferred to the column; the diagonal is ignored.
        names: The rankings.
        samples: Bootstrap samples; 0 for no intervals (NaN).
        confidence: Of the intervals.
        seed: Of the bootstrap.

    >>> bradley_terry([[0, 3], [1, 0]], ["good", "bad"], samples=0).scores.round(2)
    array([75., 25.])
    """
    table = _checked(counts, names)
    unlinked = apart(table)
    if unlinked:
        raise LimnerError(
            f"no Bradley-Terry scores: {shown(names[i] for i in unlinked)} never won against, or never lost to, the "
            "rest, even through others; collect more votes, or leave them out"
        )
    scores = _fitted(table)
    drawn = _bootstrap(table, samples, seed)
    tail = 50 * (1 - confidence)
    empty = np.full(len(names), np.nan)
    low, high = np.percentile(drawn, [tail, 100 - tail], axis=0) if len(drawn) else (empty, empty)
    return Preference(tuple(names), scores, low, high, float(table.sum()))


def _checked(counts: npt.ArrayLike, names: Sequence[str]) -> FloatArray:
    table = np.array(counts, dtype=np.float64)
    if table.shape != (len(names), len(names)) or len(names) < 2:
        raise LimnerError(f"counts of shape {table.shape} for {len(names)} rankings: expected a square, two or more")
    if not np.isfinite(table).all() or (table < 0).any():
        raise LimnerError("counts of votes: got one that is not finite or below 0")
    np.fill_diagonal(table, 0)
    return table


def apart(counts: FloatArray) -> list[int]:
    """The rankings outside the largest group within which everybody beat everybody, directly or through others."""
    from scipy.sparse.csgraph import connected_components

    _, group = connected_components(counts > 0, directed=True, connection="strong")
    return [int(i) for i in np.flatnonzero(group != np.bincount(group).argmax())]


def _fitted(table: FloatArray) -> FloatArray:
    try:
        import evalica
    except ImportError as error:
        raise MissingExtra("Bradley-Terry scores", "evalica", "web") from error
    rows, columns = np.nonzero(table)
    found = evalica.bradley_terry(
        rows.tolist(), columns.tolist(), [evalica.Winner.X] * len(rows),
        weights=table[rows, columns].tolist(), tolerance=_TOLERANCE, limit=_LIMIT,
    )  # fmt: skip
    if found.iterations >= _LIMIT:
        raise LimnerError(f"Bradley-Terry scores did not settle in {_LIMIT:,} rounds: collect more votes")
    scores = np.array([float(found.scores[row]) for row in range(len(table))])
    scaled: FloatArray = 100 * scores / scores.sum()
    return scaled


def _bootstrap(table: FloatArray, samples: int, seed: int) -> FloatArray:
    """Scores of resampled votes; samples without scores of their own are left out."""
    draw = np.random.default_rng(seed)
    total = np.rint(table.sum()).astype(int)
    share = (table / table.sum()).ravel()
    drawn = (draw.multinomial(total, share).reshape(table.shape).astype(np.float64) for _ in range(samples))
    found = [_fitted(each) for each in drawn if not apart(each)]
    return np.array(found).reshape(-1, len(table))


def study(positives: Sequence[str], others: Sequence[str], query: str, *, length: int | None = None) -> list[Rivals]:
    """The ten comparisons of the paper's study for one query: rankings A to E, each with its known fault.

    Args:
        positives: Right answers, five or more; as many places are shown as there are.
        others: Wrong answers, at least as many.
        query: The query's id.
        length: Places shown; the number of positives where left out.
    """
    size = length or len(positives)
    if len(positives) < 5 or size < 5 or len(others) < size or len(positives) < size:
        raise LimnerError(
            f"{len(positives)} right and {len(others)} wrong answers: expected 5 or more, and as many wrong"
        )
    places = {
        "A": [place != 0 for place in range(size)],
        "B": [place == 0 for place in range(size)],
        "C": [place >= 5 for place in range(size)],
        "D": [place == 4 for place in range(size)],
        "E": [False] * size,
    }
    lists = {name: _mixed(right, positives, others) for name, right in places.items()}
    if size == 5:
        del lists["C"]  # with five positives it would be E
    return [Rivals(query, one, two, lists[one], lists[two]) for one, two in combinations(lists, 2)]


def _mixed(right: Sequence[bool], positives: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    good, bad = iter(positives), iter(others)
    return tuple(next(good) if each else next(bad) for each in right)
