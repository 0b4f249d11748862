"""Strata and shares of a draw, and what predicts a unit."""

import numpy as np
import pytest

from limner.annotate.allocation import cut, shares_of, strata_for
from limner.annotate.estimate import Predicted
from limner.stats import stratified
from limner.stats.sampling import draw


def test_first_places_are_strata_of_their_own_and_a_judge_cuts_in_proportion():
    deeper = np.arange(100) >= 25
    assert np.bincount(cut(deeper, None, 4)).tolist() == [25, 75]
    scores = np.random.default_rng(0).random(100)
    codes = cut(deeper, scores, 4)
    assert np.bincount(codes).tolist() == [25, 25, 25, 25]
    assert set(codes[~deeper]) == {0} and scores[codes == 1].max() < scores[codes == 3].min()
    assert np.bincount(cut(deeper, scores, 1)).tolist() == [25, 75], "each part has one stratum at least"


def test_a_judge_alone_counts_the_less_the_more_is_drawn():
    size, labels = np.array([100, 100]), np.array([30.0, 10.0])
    assert shares_of(labels, size, 20, answered=True).tolist() == pytest.approx([0.625, 0.375])
    drawn_20, drawn_150, every = (shares_of(labels, size, n, answered=False)[0] for n in (20, 150, 200))
    assert 0.625 > drawn_20 > drawn_150 > every == pytest.approx(0.5)


def test_there_are_fewer_strata_where_few_or_nearly_all_units_are_drawn():
    assert [strata_for(n, 10**6, 4) for n in (10, 60, 120, 250, 10**5)] == [1, 1, 2, 4, 4]
    assert [strata_for(n, 400, 4) for n in (100, 200, 300, 350, 400)] == [2, 4, 3, 2, 1]


def test_strata_of_a_useless_judge_cost_no_width_where_most_units_are_drawn():
    """150 of 178 units: three strata of random numbers make the interval more than 3% wider, so there is one."""
    random = np.random.default_rng(3)
    values, useless = (random.random(178) < 0.4).astype(float), random.random(178)

    def width(strata):
        codes = cut(np.zeros(178, dtype=bool), useless, strata)
        half_widths = []
        for seed in range(150):
            units = draw(codes, 150, pilot=1, seed=seed).units
            half_widths.append(stratified(values[units], codes[units], np.bincount(codes)).half_width)
        return float(np.mean(half_widths))

    assert width(3) > 1.03 * width(1)
    assert width(strata_for(150, 178, 4)) == width(1)


def test_predictions_have_means_and_corners_of_each_stratum():
    """Every unit that matters lies between the corners of its stratum: within their convex hull, column by column."""
    random = np.random.default_rng(1)
    codes, scores = random.integers(0, 3, 60), random.random(60)
    matter = np.flatnonzero(random.random(60) < 0.7)
    signs = np.where(random.random(len(matter)) < 0.5, 1.0, -1.0)
    assert Predicted.of(matter, codes, None, None) is None
    predicted = Predicted.of(matter, codes, scores, signs)
    np.testing.assert_allclose(predicted.columns[matter], np.column_stack([signs, signs * scores[matter]]))
    assert not predicted.columns[np.setdiff1d(np.arange(60), matter)].any()
    for h in range(3):
        stratum = predicted.columns[matter[codes[matter] == h]]
        np.testing.assert_allclose(predicted.means[h], stratum.mean(axis=0))
        for slope in random.normal(size=(20, 2)):
            ends = predicted.corners[h] @ slope
            assert ends.min() - 1e-12 <= (stratum @ slope).min() and (stratum @ slope).max() <= ends.max() + 1e-12
