"""`proofs/table_six.py`: the probability that a test finds a gain, beside the test itself applied draw by draw."""

from __future__ import annotations

import numpy as np
import pytest

from limner.stats import randomisation


@pytest.fixture
def table_six(proof_script):
    return proof_script("table_six")


@pytest.fixture
def difference():
    """R-precision of two systems on 1,000 queries: most do not differ."""
    return np.random.default_rng(3).choice([-100.0, -50.0, 0.0, 50.0, 100.0], 1000, p=[0.01, 0.04, 0.88, 0.05, 0.02])


def test_p_is_that_of_the_randomisation_test(table_six, difference):
    drawn = table_six.Drawn(difference, draws=40, seed=1)
    places = np.random.default_rng(1).integers(0, 1000, (40, 1000), dtype=np.int32)
    moved = difference - difference.mean() + 1.2
    for p, place in zip(drawn.p_values(1.2), places, strict=True):
        own = moved[place]
        assert own.mean() > 0 and p == pytest.approx(randomisation(own, 0 * own).p_value, abs=0.01)


def test_without_a_gain_a_test_finds_one_as_often_as_its_level_allows(table_six, difference):
    assert table_six.Drawn(difference).found(0.0) == pytest.approx(2.5, abs=0.6)


def test_a_test_finds_the_least_gain_as_often_as_was_asked(table_six, difference):
    drawn = table_six.Drawn(difference)
    assert drawn.found(drawn.least(likely=0.8)) == pytest.approx(80, abs=1)
    assert drawn.least(0.0001) > drawn.least(0.05)
