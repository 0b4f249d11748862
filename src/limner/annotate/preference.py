"""Preference between rankings: votes, counted for `limner.stats.bradley_terry`, and the study that collects them.

The study of Chun et al. (2022, appendix D.1): five rankings with known faults, every two of them shown side by side.
Their counts are `limner.evaluation.published.table("eccv-d1")`. The scores of its rows A to E are 10.66, 4.89, 70.85,
13.15 and 0.44, which are the values of the paper's text under other names (A 70.85, B 13.15, C 10.66, D 4.89, E 0.44):
the labels of the table's rows, not its numbers, are off.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np

from limner.annotate.store.votes import Rivals, Vote
from limner.core.errors import LimnerError
from limner.stats.inputs import Vector

FAULTS = {
    "A": "only the first is wrong",
    "B": "only the first is right",
    "C": "the first five are wrong",
    "D": "only the fifth is right",
    "E": "all are wrong",
}
"""The five rankings of the paper's study."""


def counted(votes: Iterable[Vote], names: Sequence[str] | None = None) -> tuple[tuple[str, ...], Vector]:
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


def study(positives: Sequence[str], others: Sequence[str], query: str, *, length: int | None = None) -> list[Rivals]:
    """The ten comparisons of the paper's study for one query: rankings A to E, each with its known error.

    Args:
        positives: Right answers, five or more; as many places are shown as there are.
        others: Wrong answers, at least as many.
        query: The query's id.
        length: Places shown; the number of positives by default.
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
