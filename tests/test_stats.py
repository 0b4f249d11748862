"""Statistics against scipy, statsmodels, krippendorff, scikit-learn, and full enumeration where that is possible."""

from __future__ import annotations

import contextlib
import io
import itertools
import math
import re
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats as scipy_stats

from limner import stats
from limner.core.errors import LimnerError
from limner.stats.bootstrap import bootstrap_sum
from limner.stats.paired import randomisation_of

floats = st.integers(-20, 20).map(lambda v: v / 4)  # quarters: sums are exact, ties are common
columns = st.integers(1, 9).flatmap(
    lambda n: st.tuples(arrays(float, n, elements=floats), arrays(float, n, elements=floats))
)
hits = st.integers(1, 60).flatmap(
    lambda n: st.tuples(arrays(int, n, elements=st.integers(0, 1)), arrays(int, n, elements=st.integers(0, 1)))
)


def sign_flips(n: int) -> np.ndarray:
    """All 2^n patterns of signs."""
    return np.array(list(itertools.product((-1, 1), repeat=n)))


# ---------------------------------------------------------------- paired tests


@given(columns)
@settings(max_examples=40, deadline=None)
def test_randomisation_is_the_share_of_all_sign_flips(pair) -> None:
    a, b = pair
    exact = np.mean(np.abs(sign_flips(len(a)) @ (a - b)) >= abs((a - b).sum()))
    samples = 20_000
    result = stats.randomisation(a, b, samples=samples, seed=3)
    spread = math.sqrt(exact * (1 - exact) / samples)
    assert abs(result.p_value - (exact * samples + 1) / (samples + 1)) <= 5.5 * spread + 1e-12
    assert result.statistic == pytest.approx((a - b).mean())
    assert (result.n, result.differing) == (len(a), (a != b).sum())


def test_randomisation_by_cluster_flips_whole_clusters() -> None:
    rng = np.random.default_rng(0)
    a, b, clusters = rng.normal(size=24), rng.normal(size=24) - 0.4, np.repeat(list("abcdefgh"), 3)
    sums = (a - b).reshape(8, 3).sum(axis=1)
    exact = np.mean(np.abs(sign_flips(8) @ sums) >= abs(sums.sum()) - 1e-9)
    assert stats.randomisation(a, b, clusters=clusters).p_value == pytest.approx(exact, abs=0.006)
    assert stats.randomisation(a, b).p_value != pytest.approx(exact, abs=0.006)


@pytest.mark.parametrize("copies", [1, 40, 300])
def test_many_equal_magnitudes_are_drawn_as_well_as_few(copies: int) -> None:
    """Below and above the size where equal magnitudes become one binomial, against the exact distribution."""
    magnitudes = np.repeat([1.0, 2.0], copies)
    signs = np.where(np.arange(2 * copies) % 20 < 11, 1, -1)
    difference = magnitudes * signs
    chance = np.ones(1)  # the chance of every value of (sum + total) / 2
    for magnitude in magnitudes.astype(int):
        step = np.zeros(magnitude + 1)
        step[[0, magnitude]] = 0.5
        chance = np.convolve(chance, step)
    sums = 2 * np.arange(len(chance)) - magnitudes.sum()
    exact = chance[np.abs(sums) >= abs(difference.sum())].sum()
    result = stats.randomisation(difference, np.zeros(2 * copies), samples=50_000)
    assert result.p_value == pytest.approx(exact, abs=0.012)


def test_randomisation_with_all_magnitudes_different_is_normal_at_large_n() -> None:
    rng = np.random.default_rng(5)
    difference = rng.normal(0.02, 1, 3000)
    result = stats.randomisation(difference, np.zeros(3000), samples=50_000)
    z = difference.sum() / math.sqrt((difference**2).sum())
    assert result.p_value == pytest.approx(2 * scipy_stats.norm.sf(abs(z)), abs=0.012)


def test_randomisation_never_says_zero_and_repeats_itself() -> None:
    a, b = np.arange(500) + 1.0, np.zeros(500)
    assert stats.randomisation(a, b, samples=999).p_value == 1 / 1000
    noise = np.random.default_rng(1).normal(size=(2, 500))
    assert stats.randomisation(*noise, seed=4) == stats.randomisation(*noise, seed=4)
    assert stats.randomisation(*noise, seed=4) != stats.randomisation(*noise, seed=5)


@given(hits)
@settings(deadline=None)
def test_mcnemar_is_statsmodels(pair) -> None:
    from statsmodels.stats.contingency_tables import mcnemar

    a, b = pair
    table = [[((a == i) & (b == j)).sum() for j in (0, 1)] for i in (0, 1)]
    only_a, only_b = table[1][0], table[0][1]
    result = stats.mcnemar(a, b)
    assert result.differing == only_a + only_b
    exact = only_a + only_b < 25
    assert ("exact" in result.method) == exact
    if exact or only_a != only_b:  # statsmodels corrects |0| to 1, past the middle
        assert result.p_value == pytest.approx(min(1, mcnemar(table, exact=exact).pvalue))
    else:
        assert result.p_value == 1


def test_mcnemar_changes_over_at_25_discordant_pairs() -> None:
    for n, word in ((24, "exact"), (25, "corrected")):
        a = np.repeat([1, 0], [n, 10])
        assert word in stats.mcnemar(a, np.zeros(n + 10)).method


@given(columns)
@settings(max_examples=60, deadline=None)
def test_wilcoxon_is_exact_over_all_sign_flips(pair) -> None:
    a, b = pair
    difference = (a - b)[a != b]
    result = stats.wilcoxon(a, b)
    if not len(difference):
        assert result.p_value == 1
        return
    ranks = scipy_stats.rankdata(np.abs(difference))
    smaller = min(ranks[difference > 0].sum(), ranks[difference < 0].sum())
    sums = (sign_flips(len(ranks)) > 0) @ ranks
    assert result.p_value == pytest.approx(min(1, 2 * np.mean(sums <= smaller)))
    assert result.statistic == smaller


@pytest.mark.parametrize(("n", "tied"), [(20, False), (50, False), (51, False), (400, True)])
def test_wilcoxon_is_scipys(n: int, tied: bool) -> None:
    rng = np.random.default_rng(n)
    a, b = rng.normal(0.2, 1, n), rng.normal(0, 1, n)
    if tied:
        a, b = a.round(1), b.round(1)
    assert stats.wilcoxon(a, b).p_value == pytest.approx(scipy_stats.wilcoxon(a, b).pvalue, rel=1e-9)


@given(columns)
@settings(deadline=None)
def test_sign_test_is_the_binomial_test(pair) -> None:
    a, b = pair
    differing = int((a != b).sum())
    expected = scipy_stats.binomtest(int((a > b).sum()), differing).pvalue if differing else 1.0
    assert stats.sign_test(a, b).p_value == pytest.approx(expected)


@given(arrays(float, st.integers(1, 12), elements=st.floats(0, 1)))
@settings(deadline=None)
def test_holm_is_statsmodels(p) -> None:
    from statsmodels.stats.multitest import multipletests

    with patch("gc.collect"):  # statsmodels collects garbage in every call: a second each in a process with all tests
        expected = multipletests(p, method="holm")[1]
    np.testing.assert_allclose(stats.holm(p), expected, atol=1e-15)


@given(columns)
@settings(deadline=None)
def test_swapping_the_systems_changes_the_sign_only(pair) -> None:
    a, b = pair
    for test in (stats.wilcoxon, stats.sign_test):
        assert test(a, b).p_value == pytest.approx(test(b, a).p_value)
    for effect in (stats.rank_biserial, stats.cliff_delta):
        assert effect(a, b) == pytest.approx(-effect(b, a))
        assert -1 <= effect(a, b) <= 1


def test_effects_against_slow_definitions() -> None:
    rng = np.random.default_rng(2)
    a, b = rng.integers(0, 6, 40).astype(float), rng.integers(0, 5, 40).astype(float)
    assert stats.cliff_delta(a, b[:30]) == pytest.approx(np.mean([np.sign(x - y) for x in a for y in b[:30]]))
    assert stats.cohen_d(a, b) == pytest.approx(scipy_stats.ttest_rel(a, b).statistic / math.sqrt(40))
    assert stats.cohen_d([2, 2], [1, 1]) == math.inf
    assert stats.cohen_d([1, 2], [1, 2]) == 0
    assert stats.cohen_g([1, 1, 1], [0, 0, 0]) == 0.5
    assert stats.odds_ratio([1, 1, 1], [0, 0, 0]) == 7.0  # (3 + 1/2) / (0 + 1/2)


# ---------------------------------------------------------------- agreement and correlation


def ratings(rng: np.random.Generator, raters: int, items: int, missing: float) -> np.ndarray:
    """Raters who agree somewhat on values 0 to 4, with gaps."""
    table = np.clip(np.round(rng.integers(0, 5, items) + rng.normal(0, 0.8, (raters, items))), 0, 4)
    table[rng.random(table.shape) < missing] = np.nan
    return table


@pytest.mark.parametrize("level", ["nominal", "ordinal", "interval", "ratio"])
@pytest.mark.parametrize("missing", [0, 0.4])
@pytest.mark.parametrize("raters", [2, 5])
def test_alpha_is_the_krippendorff_package(level: str, missing: float, raters: int) -> None:
    import krippendorff

    table = ratings(np.random.default_rng(raters), raters, 40, missing)
    theirs = krippendorff.alpha(reliability_data=table, level_of_measurement=level)
    assert stats.krippendorff_alpha(table, level=level) == pytest.approx(theirs, abs=1e-12)


def test_alpha_by_definition() -> None:
    """Interval alpha as one minus the mean squared difference within items over that among all values."""
    table = ratings(np.random.default_rng(1), 3, 12, 0.0)
    within_items = np.mean([(x - y) ** 2 for item in table.T for x, y in itertools.permutations(item, 2)])
    among = np.mean([(x - y) ** 2 for x, y in itertools.permutations(table.ravel(), 2)])
    assert stats.krippendorff_alpha(table, level="interval") == pytest.approx(1 - within_items / among)


def test_alpha_refuses_a_table_the_wrong_way_round() -> None:
    table = ratings(np.random.default_rng(1), 3, 12, 0.0)
    with pytest.raises(LimnerError, match="transpose the table, or confirm with raters=12"):
        stats.krippendorff_alpha(table.T)
    with pytest.raises(LimnerError, match="got 12 rows for 3 raters"):
        stats.krippendorff_alpha(table.T, raters=3)
    assert stats.krippendorff_alpha(table.T, raters=12) != pytest.approx(stats.krippendorff_alpha(table, raters=3))


@pytest.mark.parametrize("weights", [None, "linear", "quadratic"])
@pytest.mark.parametrize("labels", [[1, 2, 3, 4], ["no", "weak", "yes"], [0.0, 0.5, 1.0], [True, False]])
def test_kappa_by_definition(weights: str | None, labels: list) -> None:
    rng = np.random.default_rng(3)
    k = len(labels)
    a = rng.integers(0, k, 80)
    b = np.where(rng.random(80) < 0.6, a, rng.integers(0, k, 80))
    distance = np.abs(np.subtract.outer(np.arange(k), np.arange(k)))
    weight = {None: distance > 0, "linear": distance, "quadratic": distance**2}[weights]
    expected = np.mean([weight[x, y] for x in a for y in b])
    ordered = sorted(labels)
    scale = {"labels": ordered} if isinstance(labels[0], str) else {}
    kappa = stats.cohen_kappa([ordered[i] for i in a], [ordered[i] for i in b], weights=weights, **scale)
    assert kappa == pytest.approx(1 - weight[a, b].mean() / expected)


grades = st.integers(2, 30).flatmap(
    lambda n: st.tuples(*(st.lists(st.sampled_from([1, 2, 3, 4]), min_size=n, max_size=n) for _ in range(2)))
)


@given(grades.filter(lambda pair: len({*pair[0], *pair[1]}) > 1), st.sampled_from([None, "linear", "quadratic"]))
def test_kappa_does_not_depend_on_which_labels_were_used(pair, weights) -> None:
    """A grade that nobody gave still lies between its neighbours: 2 and 4 are two steps apart, with or without a 3."""
    from sklearn.metrics import cohen_kappa_score

    expected = cohen_kappa_score(*pair, weights=weights, labels=[1, 2, 3, 4])
    assert stats.cohen_kappa(*pair, weights=weights) == pytest.approx(expected)
    assert stats.cohen_kappa(*pair, weights=weights, labels=[1, 2, 3, 4]) == pytest.approx(expected)
    words = [[["no", "weak no", "weak yes", "yes"][g - 1] for g in side] for side in pair]
    named = stats.cohen_kappa(*words, weights=weights, labels=["no", "weak no", "weak yes", "yes"])
    assert named == pytest.approx(expected)


@given(columns.filter(lambda pair: np.ptp(pair[0]) > 0 and np.ptp(pair[1]) > 0))
@settings(deadline=None)
def test_rank_correlations_are_scipys_and_the_definition(pair) -> None:
    x, y = pair
    assert stats.spearman(x, y) == pytest.approx(scipy_stats.spearmanr(x, y).statistic)
    signs = [(np.sign(x[i] - x[j]), np.sign(y[i] - y[j])) for i, j in itertools.combinations(range(len(x)), 2)]
    over = sum(s * t for s, t in signs)
    under = math.sqrt(sum(s != 0 for s, _ in signs) * sum(t != 0 for _, t in signs))
    assert stats.kendall_tau_b(x, y) == pytest.approx(over / under)


@pytest.mark.parametrize(("method", "of"), [("kendall", stats.kendall_tau_b), ("spearman", stats.spearman)])
def test_a_matrix_holds_every_pair(method: str, of) -> None:
    table = np.random.default_rng(0).integers(0, 9, (12, 4))
    matrix = stats.correlation_matrix(table, method=method)
    for i, j in itertools.product(range(4), repeat=2):
        assert matrix[i, j] == pytest.approx(1 if i == j else of(table[:, i], table[:, j]))


# ---------------------------------------------------------------- what is refused

NAN = float("nan")
PAIRED = [stats.mcnemar, stats.sign_test, stats.wilcoxon, stats.randomisation, stats.bootstrap_difference]
PAIRED += [stats.cohen_d, stats.rank_biserial, stats.cohen_g, stats.odds_ratio, stats.spearman, stats.kendall_tau_b]


@pytest.mark.parametrize("function", PAIRED, ids=lambda f: f.__name__)
@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        ([1, NAN, 0], [1, 1, 0], "a: got nan at position 1 (1 in total), expected finite"),
        ([1, 1, 0], [1, math.inf, 0], "b: got inf at position 1"),
        ([1, 0, 1], [1, 0], "got 3 values for a and 2 for b, expected the same queries in the same order"),
        ([], [], "a: got 0 values, expected at least"),
        (["x", "y"], [1, 0], "expected numbers"),
        ([[1, 0]], [[1, 0]], "a: got an array of shape (1, 2), expected one value per query"),
        ([[1, 0], [1]], [1, 0], "a: got rows of unequal length"),
    ],
)
def test_paired_functions_refuse_bad_columns(function, a, b, message: str) -> None:
    with pytest.raises(LimnerError, match=re.escape(message)):
        function(a, b)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: stats.mcnemar([1, 2], [0, 1]), "a: got 2, expected only 0 and 1; use `randomisation`"),
        (lambda: stats.cohen_g([1, 0], [0, 0.5]), "b: got 0.5, expected only 0 and 1"),
        (lambda: stats.randomisation([1], [0], samples=0), "samples: got 0, expected a whole number of at least 1"),
        (lambda: stats.randomisation([1], [0], seed=-1), "seed: got -1"),
        (lambda: stats.randomisation([1, 0], [0, 0], clusters=["a"]), "clusters: got shape (1,) for 2 values"),
        (lambda: stats.holm([]), "p_values: got 0 values"),
        (lambda: stats.holm([0.1, 1.2]), "p_values: got 1.2, expected probabilities between 0 and 1"),
        (lambda: stats.bootstrap([]), "values: got 0 values"),
        (lambda: stats.bootstrap([1, NAN]), "values: got nan at position 1"),
        (lambda: stats.bootstrap([1, 2], samples=2.5), "samples: got 2.5, expected a whole number"),
        (lambda: stats.bootstrap([1, 2], level=95), "level: got 95, expected a number between 0 and 1"),
        (lambda: stats.bootstrap([1, 2], statistic="mode"), "statistic: got 'mode', expected one of 'mean', 'median'"),
        (lambda: stats.bootstrap([1, 2], method="basic"), "method: got 'basic'"),
        (lambda: stats.bootstrap([1, 2], clusters=[1.0, NAN]), "clusters: got NaN as a label"),
        (lambda: stats.bootstrap([1, 2], folds=[0]), "folds: got shape (1,) for 2 values"),
        (lambda: stats.bootstrap([1, 2, 3], clusters=[0, 0, 1], folds=[0, 1, 1]), "1 clusters that lie in more than"),
        (lambda: stats.bootstrap([1, 2, 3], statistic="median", method="bca"), "inconsistent for the median"),
        (lambda: stats.bootstrap([1, 2, 3], statistic=lambda x: NAN), "the statistic gave nan on a resample"),
        (lambda: bootstrap_sum([]), "got no parts"),
        (lambda: bootstrap_sum([([1, 2], ["a"])]), "clusters of part 0: got shape (1,) for 2 values"),
        (lambda: bootstrap_sum([([1, NAN], ["a", "b"])]), "part 0: got nan at position 1"),
        (lambda: bootstrap_sum([([1, 2], "ab"), ([1], ["c"])]), "got shape () for 2 values"),
        (lambda: bootstrap_sum([([1, 2], ["a", "b"]), ([1], ["c"])]), "too few clusters have any"),
        (lambda: stats.cohen_kappa([1, 1], [1, 1]), "kappa is undefined: both raters gave 1 to all 2 items"),
        (lambda: stats.cohen_kappa([1, 0], [1]), "got 2 labels for a and 1 for b"),
        (lambda: stats.cohen_kappa([1, NAN], [1, 0]), "a: got a label that is not finite"),
        (lambda: stats.cohen_kappa([1, 0], ["1", "0"]), "expected the same type"),
        (lambda: stats.cohen_kappa(["n", "y"], ["y", "y"], weights="linear"), "the order of the names is unknown"),
        (lambda: stats.cohen_kappa([1, 5], [1, 1], labels=[1, 2, 3]), "got the label 5, expected one of 1, 2, 3"),
        (lambda: stats.cohen_kappa([1, 2], [1, 1], labels=[1, 2, 2]), "labels: got 2 twice"),
        (lambda: stats.cohen_kappa([], []), "a: got an array of shape (0,)"),
        (lambda: stats.cohen_kappa([1, 0], [1, 1], weights="cubic"), "weights: got 'cubic'"),
        (lambda: stats.krippendorff_alpha([[1, 1], [1, 1]]), "alpha is undefined: every rating is 1"),
        (lambda: stats.krippendorff_alpha([1, 2, 3]), "expected raters by items"),
        (lambda: stats.krippendorff_alpha([[1, NAN], [NAN, 1]]), "no item has two ratings"),
        (lambda: stats.krippendorff_alpha([[1, math.inf], [1, 1]]), "got an infinite rating"),
        (lambda: stats.krippendorff_alpha([[1, -1], [1, 1]], level="ratio"), "got -1 at level 'ratio'"),
        (lambda: stats.krippendorff_alpha([[1, 2], [1, 1]], level="metric"), "level: got 'metric'"),
        (lambda: stats.krippendorff_alpha([[1, 2], [1]]), "ratings: got rows of unequal length"),
        (lambda: stats.spearman([1, 1], [1, 2]), "all 2 values of the first column are 1"),
        (lambda: stats.kendall_tau_b([1], [1]), "a: got 1 values, expected at least 2"),
        (lambda: stats.correlation_matrix([[1, 2], [NAN, 1]]), "table: got nan at position (1, 0)"),
        (lambda: stats.correlation_matrix([1, 2]), "expected systems by measures"),
        (lambda: stats.correlation_matrix([[1, 2], [2, 1]], method="pearson"), "method: got 'pearson'"),
    ],
)  # fmt: skip
def test_mistakes_are_named(call, message: str) -> None:
    with pytest.raises(LimnerError, match=re.escape(message)):
        call()


def test_nothing_given_is_changed() -> None:
    a, b = np.array([3.0, 1.0, 2.0]), np.array([1.0, 1.0, 1.0])
    for array in (a, b):
        array.flags.writeable = False
    stats.bootstrap(a), stats.bootstrap_difference(a, b), stats.randomisation(a, b), stats.wilcoxon(a, b)
    stats.holm(np.array([0.2, 0.1]))


def test_the_page_prints_what_it_shows() -> None:
    page = (Path(__file__).parents[1] / "docs" / "statistics.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", page, flags=re.DOTALL)
    assert len(blocks) == page.count("```python")
    names: dict[str, object] = {}
    for code, output in blocks:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(code, names)
        assert out.getvalue() == output


def test_randomisation_of_a_mean_is_the_randomisation_test():
    rng = np.random.default_rng(3)
    a, b = rng.normal(0.3, 1, 40), rng.normal(0, 1, 40)
    by_swapping = randomisation_of(np.mean, a, b, samples=4000).p_value
    assert by_swapping == pytest.approx(stats.randomisation(a, b).p_value, abs=0.03)


def test_randomisation_of_equal_medians_finds_nothing():
    a, b = np.array([1.0, 2, 2, 2, 90, 90]), np.array([1.0, 2, 2, 2, 3, 3])
    assert randomisation_of(np.median, a, b, samples=200).p_value == 1.0


def test_randomisation_of_swaps_whole_clusters():
    a, b = np.repeat([5.0, 6.0, 7.0], 30), np.repeat([1.0, 2.0, 3.0], 30)
    by_query = randomisation_of(np.median, a, b, samples=400).p_value
    by_cluster = randomisation_of(np.median, a, b, clusters=np.repeat([0, 1, 2], 30), samples=400).p_value
    assert by_query < 0.05 < by_cluster  # three clusters can never be significant


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=30))
def test_mean_ranks_are_those_of_scipy(values):
    from limner.stats.correlation import mean_ranks

    assert mean_ranks(np.array(values, float)).tolist() == scipy_stats.rankdata(values).tolist()
