"""`proofs/table_seven_queries.py`: what drawing and halving the queries say where the answer is known."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture
def proof(proof_script):
    return proof_script("table_seven_queries")


def measured(proof, of, **others):
    """The same values for every measure but those that are given; the median rank has ranks of its own."""
    rng = np.random.default_rng(5)
    return {m: others.get(m, of) for m in proof.MEASURES} | {"MedR": rng.integers(1, 99, of.shape).astype(float)}


def hits(shares, seed=0, queries=400):
    return (np.random.default_rng(seed).random((len(shares), queries)) < np.array(shares)[:, None]).astype(float)


def test_equal_systems_have_no_reliable_order_and_unlike_ones_have(proof):
    alike, unlike = hits([0.3] * 12), hits(np.linspace(0.05, 0.95, 12))
    halves = proof.Halves.of(measured(proof, alike, RP=unlike), splits=60)
    assert halves.reliability("RP") == pytest.approx(1, abs=0.03)
    # Around 0 for another 400 queries: of twelve equal systems some are ahead by chance of these.
    assert halves.reliability("R@1") == pytest.approx(0, abs=0.4)


def test_two_measures_that_count_the_same_hits_agree_on_the_same_half_only(proof):
    halves = proof.Halves.of(measured(proof, hits([0.3] * 12)), splits=60)
    assert halves.agreement(("R@1", "S@1"), same=True) == pytest.approx(1)
    assert halves.agreement(("R@1", "S@1"), same=False) == pytest.approx(halves.reliability("R@1"))
    assert halves.agreement(("R@1", "S@1"), same=False) == pytest.approx(0, abs=0.4)


def test_noise_alone_keeps_measures_of_the_same_systems_at_the_most_that_it_allows(proof):
    shares = np.linspace(0.2, 0.5, 15)
    held = measured(proof, hits(shares, 1, 1000), RP=hits(shares, 2, 1000))
    halves = proof.Halves.of(held, splits=100)
    assert halves.agreement(("R@1", "RP"), same=False) == pytest.approx(halves.most(("R@1", "RP")), abs=0.05)


def test_a_draw_has_the_correlation_of_its_queries(proof):
    one, two = hits(np.linspace(0.2, 0.5, 9), 1), hits(np.linspace(0.2, 0.5, 9), 2)
    drawn = proof.redrawn(measured(proof, one, RP=two), draws=3, seed=4)
    places = np.random.default_rng(4).integers(0, 400, 400)
    from scipy.stats import spearmanr

    expected = spearmanr(one[:, places].mean(axis=1), two[:, places].mean(axis=1)).statistic
    assert drawn["R@1", "RP"][0] == pytest.approx(expected)
    assert (drawn["R@1", "S@1"] == pytest.approx(1)) and len(drawn["R@1", "RP"]) == 3


def test_the_share_of_draws_as_published_counts_those_where_r1_is_below_all_others(proof):
    drawn = {pair: np.array([0.9, 0.9, 0.9, 0.9]) for pair in proof.ALL}
    drawn["R@1", "RP"], drawn["R@5", "RP"] = np.array([0.5, 0.8, 0.9, 0.95]), np.array([0.7, 0.7, 0.95, 0.99])
    found = proof.Found("annotation", "", {}, {}, drawn, None)
    assert found.as_published("R-precision") == 25 and found.as_published("S@k") == 0


def test_the_order_of_systems_is_that_of_all_with_pyramids_and_the_same_every_time(proof):
    names = proof.order()
    assert len(names) == 22 == len(set(names)) and names == proof.order()
    assert not any(name.startswith("NN") or name.endswith("/histogram") for name in names)
