"""Hub statistics against their definitions in plain loops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limner import Hubs, Ids, LimnerError, Scores

counts_strategy = st.lists(st.integers(0, 30), min_size=1, max_size=20).filter(lambda c: sum(c) > 0)


@given(counts_strategy)
def test_against_plain_loops(counts):
    hubs = Hubs(Ids(range(len(counts))), np.array(counts), 10)
    n, mean = len(counts), sum(counts) / len(counts)
    assert hubs.robin_hood == pytest.approx(sum(abs(c - mean) for c in counts) / (2 * sum(counts)))
    assert hubs.gini == pytest.approx(sum(abs(a - b) for a in counts for b in counts) / (2 * n * sum(counts)))
    variance = sum((c - mean) ** 2 for c in counts) / n
    skewness = sum((c - mean) ** 3 for c in counts) / n / variance**1.5 if variance else 0.0
    assert hubs.skewness == pytest.approx(skewness)
    assert hubs.largest == max(counts)


def test_counts_are_k_occurrences():
    matrix = np.random.default_rng(0).standard_normal((30, 8))
    hubs = Hubs.of(Scores.from_matrix(matrix, range(30), range(8)).top(3), k=3)
    order = np.argsort(-matrix, axis=1)[:, :3]
    assert hubs.counts.tolist() == [(order == c).sum() for c in range(8)]
    assert hubs.greatest(1)[0][1] == hubs.largest


def test_shares_are_the_table_of_liu_and_ye():
    hubs = Hubs(Ids(range(5)), np.array([0, 0, 1, 5, 12]), 10)
    assert hubs.shares() == {"0": 0.4, "1": 0.2, ">=2": 0.4, ">=5": 0.4, ">=10": 0.2}


def test_deeper_than_the_ranking_is_refused():
    with pytest.raises(LimnerError, match="hubs at 5 from a ranking of depth 3"):
        Hubs.of(Scores.from_matrix(np.ones((2, 8)), "ab", range(8)).top(3), k=5)
