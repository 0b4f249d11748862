"""Paired tests by cluster: against listing every pattern of signs, and against what they are without clusters."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

import oracles
from limner import stats
from limner.core.errors import LimnerError

TESTS = {"mcnemar": stats.mcnemar, "sign": stats.sign_test, "wilcoxon": stats.wilcoxon}


def signed(name: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """What a test adds up: differences, their signs, or their signed ranks among all that differ."""
    difference = a - b
    if name != "wilcoxon":
        return np.sign(difference)
    ranks = np.zeros(len(difference))
    differing = difference != 0
    ranks[differing] = scipy_stats.rankdata(np.abs(difference[differing]))
    return ranks * np.sign(difference)


def clustered(values):
    return st.integers(1, 14).flatmap(
        lambda n: st.tuples(
            st.lists(values, min_size=n, max_size=n),
            st.lists(values, min_size=n, max_size=n),
            st.lists(st.integers(0, 5), min_size=n, max_size=n),
        )
    )


@pytest.mark.parametrize("name", TESTS)
@given(st.data())
def test_whole_clusters_are_swapped(name, data):
    values = st.integers(0, 1) if name == "mcnemar" else st.integers(0, 6).map(lambda v: v / 2)
    a, b, clusters = data.draw(clustered(values))
    a, b = np.array(a, dtype=float), np.array(b, dtype=float)
    result = TESTS[name](a, b, clusters=clusters)
    assert result.p_value == pytest.approx(oracles.share_of_swaps(signed(name, a, b), clusters))
    assert (result.n, result.differing) == (len(a), (a != b).sum())
    if len(set(clusters)) < len(a):
        assert "by cluster" in result.method and result.statistic == pytest.approx(signed(name, a, b).sum())


@pytest.mark.parametrize("name", TESTS)
def test_clusters_of_one_query_change_nothing(name):
    rng = np.random.default_rng(0)
    a, b = (rng.integers(0, 2, 80).astype(float) for _ in range(2))
    assert TESTS[name](a, b, clusters=np.arange(80)) == TESTS[name](a, b)


@pytest.mark.parametrize("name", TESTS)
def test_many_clusters_are_normal(name):
    """Beyond the exact range: near the same test by random swaps, which is right for any number of clusters."""
    rng = np.random.default_rng(1)
    images = np.repeat(np.arange(150), 5)
    a, b = ((rng.normal(size=150)[images] + rng.normal(size=750) > 0.2) * 1.0 for _ in range(2))
    result = TESTS[name](a, b, clusters=images)
    terms = signed(name, a, b)
    swapped = stats.randomisation(terms, np.zeros(750), clusters=images, samples=50_000)
    assert result.method.endswith("by cluster, normal")
    assert result.p_value == pytest.approx(swapped.p_value, abs=0.01)


@pytest.mark.parametrize("name", TESTS)
def test_correlated_captions_are_no_evidence_each(name):
    """One image whose five captions all changed is one piece of evidence, not five."""
    a, b = np.ones(10), np.zeros(10)
    clusters = np.repeat([0, 1], 5)
    assert TESTS[name](a, b).p_value < 0.01
    assert TESTS[name](a, b, clusters=clusters).p_value == 0.5  # two clusters: two of four patterns


@pytest.mark.parametrize("name", TESTS)
def test_bad_clusters_are_refused(name):
    with pytest.raises(LimnerError, match="clusters: got shape"):
        TESTS[name]([1, 0], [0, 0], clusters=["a"])
    with pytest.raises(LimnerError, match="clusters: got NaN as a label"):
        TESTS[name]([1, 0], [0, 0], clusters=[1.0, math.nan])
