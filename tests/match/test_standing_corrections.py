"""Standing differential test: every correction against its formula in double precision, on every path.

Processor and torch; own bank, other bank, statistics used again in memory and from a file, for other queries, for rows
of the bank in any order, for queries that only share their ids; lists cut off; forbidden pairs, ties, clusters.
"""

import tempfile

import numpy as np
import pytest
import slow
from hypothesis import strategies as st
from standing import PATHS, blocks, matrices, refused, same_numbers, same_order, shapes, standing, twins_are_tied

from limner import Embeddings, Scores
from limner.match import CORRECTIONS
from limner.scores.correction import Statistics

BETAS = st.sampled_from([0.5, 5.0, 30.0, 200.0])
OPTIONS = {
    "csls": {"k": st.integers(1, 12)},
    "inverted_softmax": {"beta": BETAS},
    "dual_softmax": {"beta": BETAS},
    "dynamic_inverted_softmax": {"beta": BETAS},
    "nnn": {"k": st.integers(1, 12), "alpha": st.sampled_from([0.25, 0.75, 1.0])},
    "centred": {"alpha": st.sampled_from([0.25, 0.75, 1.0])},
    "sinkhorn": {"beta": BETAS, "rounds": st.integers(1, 6)},
}


def test_every_correction_is_here():
    assert set(OPTIONS) == set(CORRECTIONS) == set(slow.CORRECTIONS)


class Case:
    """One draw: a matrix of queries, a bank, a correction with options, a path."""

    def __init__(self, data, *, min_rows=2):
        self.name = data.draw(st.sampled_from(sorted(OPTIONS)))
        self.options = {key: data.draw(values) for key, values in OPTIONS[self.name].items()}
        self.path = data.draw(st.sampled_from(PATHS))
        self.step = data.draw(st.sampled_from([1, 2, 3, 256]))
        self.s = data.draw(matrices(shapes(min_rows)))
        self.b = data.draw(matrices((data.draw(st.integers(2, 9)), self.s.shape[1])))
        self.scale = self.rounding(self.s, self.b)

    def rounding(self, *sources):
        """What rounding is relative to, beside the result: 1, and what is held in between.

        CSLS and dual softmax take off the share of the column, then that of the row; Sinkhorn holds beta s from round
        to round; sums are held in double precision, whose last place shows where the scores have it too.
        """
        largest = max((np.abs(m[np.isfinite(m)]).max(initial=0.0) for m in sources), default=0.0)
        share = {"csls": 0.1, "dual_softmax": 0.1, "sinkhorn": 8.0}.get(self.name, 0.0)
        share = max(share, 1e-3) if self.path.endswith("float64") else share
        return 1.0 + share * self.options.get("beta", 1.0) * largest

    def oracle(self, s, bank, bank_rows=False):
        return slow.CORRECTIONS[self.name](s, bank, bank_rows=bank_rows, **self.options)

    def scores(self, matrix, **names):
        return blocks(matrix, self.path, step=self.step, **names)

    def correct(self, scores, **bank):
        return scores.correct(self.name, **self.options, **bank)

    def assert_equal(self, corrected, expected):
        same_numbers(corrected.matrix(), expected, self.path, scale=self.scale)


def check_own_bank(data):
    case = Case(data)
    corrected = case.correct(case.scores(case.s))
    expected = case.oracle(case.s, case.s, bank_rows=True)
    case.assert_equal(corrected, expected)
    k = data.draw(st.integers(1, case.s.shape[1]))
    same_order(corrected.top(k).indices, expected, case.path, scale=case.scale)
    twins_are_tied(corrected.matrix(), case.s)
    turned = case.s.T
    if len(turned) > 1:
        case.assert_equal(corrected.T, case.oracle(turned, turned, bank_rows=True))


def check_other_bank(data):
    case = Case(data, min_rows=1)
    expected = case.oracle(case.s, case.b)
    for name in ("b", "q"):  # ids that bank and queries share say nothing
        corrected = case.correct(case.scores(case.s), bank=case.scores(case.b, queries=name))
        case.assert_equal(corrected, expected)
        twins_are_tied(corrected.matrix(), case.s, case.b)
    same_order(corrected.top(3).indices, expected, case.path, scale=case.scale)


def check_statistics_used_again(data):
    case = Case(data, min_rows=1)
    bank = case.scores(case.b)
    statistics = case.correct(bank).statistics
    if data.draw(st.booleans()):
        with tempfile.TemporaryDirectory() as folder:
            statistics = Statistics.load(statistics.save(f"{folder}/s.npz"))
    of_bank = case.oracle(case.b, case.b, bank_rows=True)
    case.assert_equal(bank.correct(statistics), of_bank)
    rows = data.draw(st.permutations(range(len(case.b))))[: data.draw(st.integers(1, len(case.b)))]
    case.assert_equal(bank.restrict(queries=[f"q{r}" for r in rows]).correct(statistics), of_bank[list(rows)])
    of_queries = case.oracle(case.s, case.b)
    case.assert_equal(case.scores(case.s, queries="o").correct(statistics), of_queries)
    is_bank_row = [r < len(case.b) and np.array_equal(row, case.b[r]) for r, row in enumerate(case.s)]
    expected = np.array([of_bank[r] if from_bank else of_queries[r] for r, from_bank in enumerate(is_bank_row)])
    case.assert_equal(case.scores(case.s).correct(statistics), expected)


def check_paths_agree(data):
    """The same matrix on every path: the same lists, where the numbers are whole and nothing is rounded before."""
    case = Case(data)
    paths = [path for path in PATHS if path.endswith(case.path.split()[-1])]
    results = [case.correct(blocks(case.s, path, step=case.step)) for path in paths]
    for result in results[1:]:
        same_numbers(result.matrix(), results[0].matrix().astype(np.float64), case.path, scale=case.scale)
        same_order(result.top(3).indices, results[0].matrix().astype(np.float64), case.path, scale=case.scale)


EXTREMES = st.sampled_from([0.0, 1.0, -1.0, 1e-30, 1e10, -1e20, 3e38, np.inf])


def check_never_nan(data):
    """Whatever the numbers: the right answer, or one clear refusal; never NaN, never +inf."""
    case = Case(data)
    elements = st.one_of(EXTREMES, st.just(-np.inf))
    matrix = data.draw(matrices(shapes(2), elements)).astype(np.float32).astype(np.float64)
    corrected = case.correct(blocks(matrix, case.path, step=case.step))
    actual = refused(corrected.matrix, "overflows", "cannot be corrected")
    if actual is None:
        return
    assert np.isfinite(matrix[matrix > -np.inf]).all()
    assert not np.isnan(actual).any() and not np.isposinf(actual).any()
    assert np.array_equal(np.isneginf(actual), np.isneginf(matrix))


def check_vectors(data):
    """Corrections of products, with banks of embeddings, on the processor and through torch."""
    case = Case(data)
    d, n, m = data.draw(st.integers(1, 4)), len(case.s), case.s.shape[1]
    element = st.integers(-3, 3).map(float)
    sides = [np.array(data.draw(st.lists(element, min_size=k * d, max_size=k * d))).reshape(k, d) for k in (n, m, 4)]
    for side in sides:
        side[~side.any(axis=1), 0] = 1.0
    queries, candidates, bank = (
        Embeddings([f"{name}{i}" for i in range(len(side))], side) for name, side in zip("qcb", sides, strict=True)
    )
    s, b = sides[0] @ sides[1].T, sides[2] @ sides[1].T
    case.scale = case.rounding(s, b)
    for device in (None, "cpu") if len(PATHS) > 2 else (None,):
        scores, case.path = Scores.from_embeddings(queries, candidates, similarity="dot", device=device), "float32"
        case.assert_equal(case.correct(scores), case.oracle(s, s, bank_rows=True))
        case.assert_equal(case.correct(scores, bank=bank), case.oracle(s, b))
        twins_are_tied(case.correct(scores).matrix(), sides[1].T)


test_own_bank, test_own_bank_long = standing(check_own_bank)
test_other_bank, test_other_bank_long = standing(check_other_bank)
test_statistics_used_again, test_statistics_used_again_long = standing(check_statistics_used_again)
test_paths_agree, test_paths_agree_long = standing(check_paths_agree)
test_never_nan, test_never_nan_long = standing(check_never_nan)
test_vectors, test_vectors_long = standing(check_vectors)


@pytest.mark.parametrize("name", OPTIONS)
def test_the_oracles_agree_with_themselves_turned(name):
    """A sanity check of the oracles: a bank that is the queries gives what the own bank gives, but for the own term."""
    matrix = np.random.default_rng(0).standard_normal((6, 5))
    if name != "inverted_softmax":
        assert np.array_equal(
            slow.CORRECTIONS[name](matrix, matrix, bank_rows=True), slow.CORRECTIONS[name](matrix, matrix)
        )
