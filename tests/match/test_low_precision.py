"""Filter and verify: answers from low-precision products equal those in float32 to the bit, and the bound is a bound.

The low-precision way is forced with every format, so that it is tested on processors that would not choose it; products
without units are emulated. Vectors are drawn to hurt: clusters closer than int8 can tell, copies, ties, holes, lengths
that span the whole range of float32, numbers that have no normal form, one large number beside many small ones.
"""

import importlib
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from forced_filter import (
    EXACT,
    FORMATS,
    PLAIN,
    ROTATED,
    Emulated,
    EmulatedColumns,
    disable_filter,
    emulated,
    force,
    rounded_bits,
)
from hypothesis import strategies as st
from standing import DEVICE, standing

from limner import Embeddings, Judgements, LimnerError, Scores
from limner.evaluation.placements import NEVER, RankOptions, RankRequest, place
from limner.match._edge_lists import EdgeRequest, Edges, Market, _Cells, _Rows
from limner.scores import exact_products, parallel_blocks
from limner.scores.base import Best
from limner.scores.device import TorchScores
from limner.scores.exact_products import sum_ends
from limner.scores.lowprecision import (
    ListRequest,
    cpu_filter,
    gpu_filter,
    gpu_products,
    int8_products,
    product_block,
    share_verified,
)
from limner.scores.lowprecision.cpu_filter import Filter
from limner.scores.lowprecision.int8_products import Int8, keeps_bound, product_share, stored
from limner.scores.lowprecision.ordered_kernels import limits_of, many_reach, put_in_order
from limner.scores.lowprecision.product_block import Ranked
from limner.scores.lowprecision.rounding_bounds import READ, Bounds, Rounded, accumulation
from limner.scores.pair_kernels import scores_of
from limner.scores.vectors import VectorScores

KINDS = ["random", "clustered", "duplicated", "sparse", "huge", "spread", "denormal", "tied", "halfway", "outlying"]
each_format = pytest.mark.parametrize("form", [PLAIN, ROTATED], ids=["plain", "rotated"])


def vectors(rng, kind, n, d):
    """Rows of one kind, none of them all zeros."""
    rows = rng.standard_normal((n, d))
    if kind == "clustered":
        rows = rng.standard_normal((1, d)) + 1e-4 * rows * rng.choice([1e-3, 1.0], (n, 1))
    if kind == "duplicated":
        rows = rows[rng.integers(0, max(1, n // 5), n)]
    if kind == "sparse":
        rows = rows * (rng.random((n, d)) < 0.1)
    if kind == "huge":
        rows = rows * 1e14
    if kind == "spread":
        rows = rows * 10.0 ** rng.integers(-15, 14, (n, 1))
    if kind == "denormal":
        rows = rows * 10.0 ** rng.integers(-43, -18, (n, d))
    if kind == "tied":
        rows = rng.integers(-1, 2, (n, d)).astype(float)
    if kind == "halfway":  # just beside the middle between two bfloat16 numbers, where a GPU's rounding takes the most
        rows = rng.choice([1, -1], (n, d)) * (1 + rng.integers(0, 128, (n, d)) / 128 + (1 / 256 + 1e-6))
    if kind == "outlying":  # int8 keeps nothing but the largest number
        rows[np.arange(n), rng.integers(0, d, n)] = 10.0 ** rng.integers(0, 6, n)
    rows = rows.astype(np.float32)
    rows[~rows.any(axis=1), 0] = rows[rows != 0].min(initial=1.0) if rows.any() else 1.0
    return rows


def only_tiles(patch):
    """No pair is computed by itself, as if the order of the matrix library's sums were unknown."""
    patch.setattr(VectorScores, "sum_ends", np.zeros(0, np.int64))


def ranked(products, indptr, columns):
    """All ranks of these positives."""
    return Ranked(indptr, columns, products.listed(indptr, columns), np.full(len(columns), NEVER))


class Case:
    """Two sets of vectors of any kinds, and which pairs are relevant."""

    def __init__(self, data):
        self.rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
        n, m = data.draw(st.sampled_from([1, 3, 40, 300])), data.draw(st.sampled_from([1, 2, 70, 700, 1500]))
        d = data.draw(st.sampled_from([1, 2, 7, 16, 64, 129]))
        kinds = data.draw(st.sampled_from(KINDS)), data.draw(st.sampled_from(KINDS))
        is_close = data.draw(st.booleans())  # queries close to candidates: products near their upper limit
        columns = vectors(self.rng, kinds[1], m, d)
        rows = columns[self.rng.integers(0, m, n)] if is_close else vectors(self.rng, kinds[0], n, d)
        similarity = data.draw(st.sampled_from(["cosine", "dot"]))
        self.scores = Scores.from_embeddings(
            Embeddings(range(n), rows), Embeddings(range(m), columns), similarity=similarity
        )
        self.k = data.draw(st.sampled_from([1, 2, 10, 60, 200]))
        self.pair_by_pair = data.draw(st.booleans())
        self.form = data.draw(st.sampled_from([None, *FORMATS]))

    def plain_and_filtered(self, ask):
        """The answer of the float32 way, and that of the filter."""
        with pytest.MonkeyPatch.context() as patch:
            disable_filter(patch)
            plain = ask(self.scores)
            force(patch, self.form)
            if not self.pair_by_pair:
                only_tiles(patch)
            return plain, ask(self.scores)

    def all_scores(self):
        """All scores, in double precision: the order of lists and ranks by the slow way."""
        with pytest.MonkeyPatch.context() as patch:
            disable_filter(patch)
            return self.scores.matrix().astype(np.float64)

    def judgements(self):
        n, m = self.scores.shape
        rows = np.sort(self.rng.integers(0, n, min(n * m, 2 * n)))
        pairs = sorted({(int(r), int(c)) for r, c in zip(rows, self.rng.integers(0, m, len(rows)), strict=True)})
        return Judgements.from_pairs([(str(r), str(c)) for r, c in pairs])


def same_lists(data):
    case = Case(data)
    plain, filtered = case.plain_and_filtered(lambda scores: scores.top(case.k))
    assert np.array_equal(plain.indices, filtered.indices)
    assert np.array_equal(plain.scores, filtered.scores)
    all_scores = case.all_scores()
    expected = np.argsort(-all_scores, axis=1, kind="stable")[:, : case.k]  # equal scores in candidate order
    assert np.array_equal(filtered.indices, expected)
    assert np.array_equal(filtered.scores, np.take_along_axis(all_scores, expected, axis=1))


def same_places(data):
    case = Case(data)
    judged, keep = case.judgements(), data.draw(st.sampled_from([0, 5]))
    n, m = case.scores.shape
    graded = replace(judged, grades=case.rng.integers(0, 3, len(judged.grades)).astype(float))
    folds, depths = (case.rng.integers(-1, 3, n), case.rng.integers(-1, 3, m)), [1, 4, 30]
    requests = [
        RankRequest(judged),
        RankRequest(judged, *folds),
        *(RankRequest(graded, depth=depth) for depth in depths),
    ]
    ties = data.draw(st.sampled_from(["expected", "order", "pessimistic"]))
    plain, filtered = case.plain_and_filtered(lambda scores: place(scores, requests, RankOptions(ties=ties, keep=keep)))
    for one, counterpart in zip(plain[0], filtered[0], strict=True):
        assert list(one.queries) == list(counterpart.queries)
        for name in ("indptr", "above", "tied", "grades"):
            assert np.array_equal(getattr(one, name), getattr(counterpart, name)), name
    if keep:
        assert np.array_equal(plain[1].indices, filtered[1].indices)
    if ties == "expected":
        assert_counted(filtered[0][0], judged, case.all_scores())
    exact, _ = place(case.scores, [RankRequest(graded)], RankOptions(ties=ties))
    for depth, (cut,) in zip(depths, zip(filtered[0][2:], strict=True), strict=True):
        assert_seen(cut, exact[0], depth, ties)


def assert_counted(placements, judged, all_scores):
    """How many candidates are above each positive, from all scores in a slow loop."""
    expected = {}
    for row, column in zip(judged.rows, judged.columns, strict=True):
        query, candidate = int(judged.queries[row]), int(judged.candidates[column])
        scores = all_scores[query]
        expected.setdefault(str(query), []).append(int(np.count_nonzero(scores > scores[candidate])))
    for q, query in enumerate(placements.queries):
        assert sorted(placements.above[placements.indptr[q] : placements.indptr[q + 1]]) == sorted(expected[query])


def assert_seen(cut, exact, depth, ties):
    """Ranks below the depth, and the best relevant one of every query, are those of all ranks, in a slow loop."""
    if ties != "expected":
        return  # ranks are moved after they are cut
    assert list(cut.queries) == list(exact.queries)
    for q in range(len(exact.queries)):
        positives = slice(exact.indptr[q], exact.indptr[q + 1])
        best = exact.above[positives].min()
        expected = sorted(rank if rank < depth or rank == best else NEVER for rank in exact.above[positives])
        assert sorted(cut.above[positives]) == expected


def same_corrections(data):
    """CSLS and NNN, the k best of columns, means of columns, inverted softmax: lists of corrected scores."""
    case = Case(data)
    if case.scores.shape[0] < 2:
        return
    name = data.draw(st.sampled_from(["csls", "nnn", "centred", "inverted_softmax"]))
    k = data.draw(st.sampled_from([1, 3, 10]))
    options = {"k": k} if name in ("csls", "nnn") else {}
    if name == "inverted_softmax":
        options["beta"] = data.draw(st.sampled_from([0.01, 1.0, 30.0, 300.0]))
    try:
        plain, filtered = case.plain_and_filtered(lambda scores: scores.correct(name, **options).top(case.k))
    except LimnerError:
        return  # scores that are too large to be corrected
    assert np.array_equal(plain.indices, filtered.indices)
    assert np.array_equal(plain.scores, filtered.scores)


def same_edges(data):
    """The lists of an assignment: several questions with prices and floors, some cells hidden."""
    case = Case(data)
    n, m = case.scores.shape
    if n > m:
        return
    size = float(np.abs(case.scores.block(0, min(n, 256))).max())
    prices = [size * case.rng.standard_normal(m), np.round(case.rng.random(m), 1) * size, np.zeros(m)]
    requests = [EdgeRequest(each, np.where(case.rng.random(n) < 0.2, np.inf, -4 * size)) for each in prices]
    cells = np.unique(case.rng.integers(0, n * m, 3 * n))
    starts = np.searchsorted(cells // m, np.arange(n + 1))
    hidden = Edges(starts, (cells % m).astype(np.int32), np.zeros(len(cells), np.float32))
    plain, filtered = case.plain_and_filtered(
        lambda scores: Market(scores).find(requests, min(case.k, 10), hidden=hidden)
    )
    for one, counterpart in zip(plain, filtered, strict=True):
        for name in ("items", "worths", "profits"):
            assert np.array_equal(getattr(one, name), getattr(counterpart, name)), name


@each_format
def test_inverted_softmax_of_another_bank_is_the_same(form, monkeypatch):
    rng = np.random.default_rng(2)
    scores = Scores.from_embeddings(*(rng.standard_normal((count, 16)) for count in (300, 900)))
    banks = Embeddings(range(50), rng.standard_normal((50, 16))), scores.correct("inverted_softmax").statistics
    searches = [
        lambda: scores.correct("inverted_softmax", bank=banks[0]).top(5),
        lambda: scores.correct(banks[1]).top(5),
    ]
    disable_filter(monkeypatch)
    plain = [ask() for ask in searches]
    force(monkeypatch, form)
    for one, ask in zip(plain, searches, strict=True):
        filtered = ask()
        assert np.array_equal(one.indices, filtered.indices)
        assert np.array_equal(one.scores, filtered.scores)


def bound_holds(data):
    """Searches for a score that lies outside its interval, on the grid and in double precision."""
    case = Case(data)
    scores, n = case.scores, min(case.scores.shape[0], 256)
    sides = scores.query_vectors.matrix, scores.candidate_vectors.matrix
    products = Filter(scores, case.form or emulated(*sides)).products(0, n)
    read = (products.bits.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
    query, candidate = products.bounds.query.astype(np.float64), products.bounds.candidate.astype(np.float64)
    reach = READ * np.abs(read) + query[:, :1] * candidate[0] + query[:, 1:2] * candidate[1] + query[:, 2:]
    a, b = (side.matrix.astype(np.float64) for side in (scores.query_vectors, scores.candidate_vectors))
    exact, grid = a[:n] @ b.T, scores.block(0, n).astype(np.float64)
    assert (np.abs(exact - read) <= reach).all()
    assert (np.abs(grid - read) <= reach).all()
    close = products.bounds.close[0][:, None] * products.bounds.close[1] + query[:, 2:]
    assert (np.abs(grid - exact) <= close).all()
    resummed = np.einsum("id,jd->ij", scores.query_vectors.matrix[:n], scores.candidate_vectors.matrix)  # another order
    assert (np.abs(grid - resummed) <= 2 * close).all()


test_lists_are_the_same, test_lists_are_the_same_long = standing(same_lists)
test_places_are_the_same, test_places_are_the_same_long = standing(same_places)
test_corrections_are_the_same, test_corrections_are_the_same_long = standing(same_corrections)
test_edges_are_the_same, test_edges_are_the_same_long = standing(same_edges)
test_no_score_is_outside_its_bound, test_no_score_is_outside_its_bound_long = standing(bound_holds, short=80)


@each_format
def test_the_filter_decides_and_keeps_few(form):
    rng = np.random.default_rng(0)
    scores = Scores.from_embeddings(rng.standard_normal((300, 128)), rng.standard_normal((5000, 128)))
    filtered = Filter(scores, form).products(0, 256).candidates(10)
    assert filtered is not None
    assert 10 <= len(filtered[1]) / 256 < 11


@each_format
def test_the_filter_answers_for_an_assignment_and_leaves_closed_items_to_float32(form):
    rng = np.random.default_rng(0)
    scores = Scores.from_embeddings(rng.standard_normal((256, 64)), rng.standard_normal((5000, 64)))
    products, prices = Filter(scores, form).products(0, 256), rng.random(5000) / 10
    none, floors = _Cells(np.zeros(0, np.int32), np.zeros(0, np.int32)), np.full(256, -np.inf)
    edges = _Rows([EdgeRequest(prices, floors)], 5, none).from_products(products)
    assert edges is not None
    assert np.array_equal(edges[0].items[:, 0], np.argmax(scores.matrix() - prices, axis=1))
    prices[3] = np.inf
    assert _Rows([EdgeRequest(prices, floors)], 5, none).from_products(products) is None


@pytest.mark.parametrize("calls", [0.0, np.inf])
def test_rows_verified_together_or_few_at_a_time_are_the_same(calls, monkeypatch):
    rng = np.random.default_rng(3)
    scores = Scores.from_embeddings(rng.standard_normal((300, 64)), rng.standard_normal((9000, 64)))
    expected = scores.top(10)
    force(monkeypatch)
    only_tiles(monkeypatch)
    monkeypatch.setattr(exact_products, "CALLS", calls)
    monkeypatch.setattr(exact_products, "COLUMN", 0.0)
    steps, step = [], exact_products.rows_at_once
    monkeypatch.setattr(exact_products, "rows_at_once", lambda *given: steps.append(step(*given)) or steps[-1])
    ranking = scores.top(10)
    assert np.array_equal(ranking.indices, expected.indices)
    assert np.array_equal(ranking.scores, expected.scores)
    probed = [cpu_filter.PROBED] * 2
    assert sorted(steps) == ([*probed, 44, 256] if calls else [scores.few_rows] * 4)


@each_format
def test_a_bound_that_is_too_small_loses_candidates(form, monkeypatch):
    """The comparisons above can fail: with a tenth of the bound, rows are refused, and others lose a candidate."""
    rng = np.random.default_rng(0)
    scores = Scores.from_embeddings(rng.standard_normal((256, 32)), rng.standard_normal((3000, 32)))
    best, bounds_of = scores.top(10).indices, Bounds.of

    def tenth(queries, candidates):
        bounds = bounds_of(queries, candidates)
        return Bounds((bounds.query * 0.1).astype(np.float32), bounds.candidate, bounds.close)

    def outcomes():
        scores_filter = Filter(scores, form)
        candidates = [scores_filter.products(row, row + 1).candidates(10) for row in range(256)]
        lost = sum(each is not None and not set(best[row]) <= set(each[1]) for row, each in enumerate(candidates))
        return sum(each is None for each in candidates), lost

    assert outcomes() == (0, 0)
    monkeypatch.setattr(product_block, "READ", 0.1 * READ)
    monkeypatch.setattr(Bounds, "of", staticmethod(tenth))
    assert min(outcomes()) > 0


@each_format
def test_a_block_that_stays_open_goes_the_float32_way(form, monkeypatch):
    """Candidates that the format cannot tell apart: nothing is ruled out, and the answer is the same."""
    rng = np.random.default_rng(0)
    close = rng.standard_normal(64) + 1e-6 * rng.standard_normal((30_000, 64))
    scores = Scores.from_embeddings(rng.standard_normal((700, 64)), close)
    products = Filter(scores, form).products(0, 256)
    assert products.candidates(10) is None
    disable_filter(monkeypatch)
    plain = scores.top(10)
    force(monkeypatch, form)
    assert np.array_equal(plain.indices, scores.top(10).indices)


def test_no_block_is_filtered_in_vain_where_the_first_rows_stay_open():
    rng, calls = np.random.default_rng(0), []
    scores = Scores.from_embeddings(rng.standard_normal((8 * 256, 8)), rng.standard_normal((100, 8)))

    def ask(products):
        calls.append((products.start, len(products.bits)))

    answers = list(Filter(scores, PLAIN).answers(ask, lambda start, stop: (start, stop), workers=8))
    assert answers == [(start, start + 256) for start in range(0, 2048, 256)]
    assert sorted(calls) == [(0, cpu_filter.PROBED), (1024, cpu_filter.PROBED)]


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("dimensions", [1, 33, 256, 1000])
def test_single_pairs_are_those_of_blocks(dimensions, alone, monkeypatch):
    if not alone:
        only_tiles(monkeypatch)
    rng = np.random.default_rng(3)
    sides = [rng.standard_normal((n, dimensions)) * 2.0 ** rng.integers(-9, 9, (n, dimensions)) for n in (600, 1500)]
    scores = Scores.from_embeddings(*sides, similarity="dot")
    rows, columns = rng.integers(0, 600, 5000), rng.integers(0, 1500, 5000)
    assert np.array_equal(scores.pairs(rows, columns), scores.matrix()[rows, columns])
    assert len(scores.pairs(rows[:0], columns[:0])) == 0


def in_parts(x, y, ends):
    """A score in a slow loop: every product is added in exact fractions, and rounded once."""
    total, start = np.float32(0), 0
    for end in ends:
        part = np.float32(0)
        for i in range(start, end):
            exact = Fraction(float(x[i])) * Fraction(float(y[i])) + Fraction(float(part))
            part = np.float32(exact.numerator / exact.denominator)
        total, start = np.float32(total + part), end
    return total


@pytest.mark.parametrize("layout", [np.array, np.asfortranarray, lambda rows: np.repeat(rows, 2, axis=1)[:, ::2]])
@pytest.mark.parametrize("ends", [(1,), (7,), (8,), (4, 7), (1, 2, 7), (5, 9, 22)])
def test_a_pair_is_summed_in_the_parts_that_are_given(ends, layout):
    rng = np.random.default_rng(0)
    query, candidates = (rng.integers(-999, 999, (n, ends[-1])).astype(np.float32) / 7 for n in (1, 11))
    expected = np.array([in_parts(query[0], candidate, ends) for candidate in candidates])
    for count in (1, 3, 4, 5, 9, 15, 16, 17, 20, 33):
        sums, places = np.full(count + 1, 7, np.float32), rng.integers(0, len(candidates), count)
        scores_of(layout(query)[0], layout(candidates), places, np.array(ends), sums)
        assert sums.tolist() == [*expected[places], 7]


def test_the_order_of_sums_is_found_only_if_all_bits_agree(monkeypatch):
    uncached = sum_ends.__wrapped__
    ends = uncached(96)
    monkeypatch.setattr(exact_products.np, "matmul", lambda x, y: x.astype(np.float64) @ y)
    assert len(uncached(96)) == 0
    assert ends.tolist() in ([], [96])


def test_int8_rounds_to_the_nearest_multiple_and_lengths_are_rounded_up():
    values = np.array([[254.0, 3.2, -5.1, 0.0], [1e-38, 0.0, -3e-39, 1e-45], [0.0, -127e10, 2.6e10, 1.0]])
    rounded = Rounded.int8(values.astype(np.float32))
    assert rounded.codes.tolist() == [[127, 2, -3, 0], [0, 0, 0, 0], [0, -127, 3, 0]]
    assert rounded.scale.tolist() == [2.0, 0.0, 1e10]
    exact = np.linalg.norm(
        values.astype(np.float32) - rounded.codes * rounded.scale[:, None].astype(np.float64), axis=1
    )
    assert (exact <= rounded.residual).all()
    assert (rounded.residual <= exact * (1 + 1e-6)).all()


def test_int8_sums_are_exact_integers_also_beyond_the_precision_of_float32():
    for d in (5, EXACT + 100):
        rows = np.random.default_rng(d).integers(-127, 128, (20, d)).astype(np.float32)
        rows[:, 0] = 127  # a scale of 1
        sums = (rows.astype(np.int64) @ rows.astype(np.int64).T).astype(np.float32)
        expected = rounded_bits(sums)
        for form in (form for form in FORMATS if not form.rotated):
            out = np.empty((20, 20), np.uint16)
            stored(form, rows).multiply(form.round(rows), out)
            assert np.array_equal(out, expected)


EDGES = [(1, 1, 1), (7, 11, 3), (8, 12, 4), (9, 13, 5), (17, 49, 511), (5, 6145, 6), (40, 97, 70)]


@pytest.mark.parametrize("shape", EDGES, ids=str)
def test_compiled_products_of_int8_are_those_of_emulated_ones_at_every_edge(shape):
    if not int8_products.has_units():
        pytest.skip("no int8 units here: neither AVX-512 VNNI nor the dot products of Arm")
    rows, count, dimensions = shape
    rng = np.random.default_rng(sum(shape))
    queries, candidates = (
        rng.choice([-1.0, 1.0, 0.3, 0.0], (n, dimensions), p=[0.4, 0.4, 0.1, 0.1]).astype(np.float32)
        for n in (rows, count)
    )
    outputs = []
    for form in (PLAIN, Int8()):
        out = np.empty((rows, count), np.uint16)
        stored(form, candidates).multiply(form.round(queries), out)
        outputs.append(out)
    assert np.array_equal(*outputs)


def test_bounds_are_rounded_up():
    rng = np.random.default_rng(5)
    one, candidates = (Rounded.int8(rng.standard_normal((50, 40)).astype(np.float32)) for _ in range(2))
    bounds = Bounds.of(one, candidates)
    lowest = candidates.residual + accumulation(40) * candidates.length.astype(np.float64)
    assert (bounds.candidate[0] >= lowest).all()


@pytest.fixture
def units(monkeypatch):
    """A CPU with int8 units that are as fast as one likes, and vectors for which the filter is worth its while."""
    rng = np.random.default_rng(0)
    monkeypatch.setattr(cpu_filter, "LEAST", 0)
    monkeypatch.setattr(cpu_filter, "has_units", lambda: True)
    monkeypatch.setattr(cpu_filter, "seconds_of_float32", lambda d: 1e9)
    monkeypatch.setattr(cpu_filter, "product_share", lambda d: 0.1)
    monkeypatch.setattr(int8_products, "Int8", Emulated)
    keeps_bound.cache_clear()
    yield lambda d: Scores.from_embeddings(rng.standard_normal((300, d)), rng.standard_normal((2000, d)))
    keeps_bound.cache_clear()


def test_units_that_violate_the_bound_are_never_used(units, monkeypatch):
    assert cpu_filter.filter_of(units(40), lambda *given: 0.0) is not None
    keeps_bound.cache_clear()

    def coarse(self, rows, out):
        out[:] = rounded_bits(rows.values @ (self.codes * self.scale[:, None]).T) & 0xFFF0

    monkeypatch.setattr(EmulatedColumns, "multiply", coarse)
    assert cpu_filter.filter_of(units(40), lambda *given: 0.0) is None


def test_units_are_tested_with_the_number_of_dimensions_that_is_used(units, monkeypatch):
    """A unit whose products are wrong in the dimensions that are left over, as 129 are for steps of 64."""
    multiply = EmulatedColumns.multiply

    def multiply_whole_groups(self, rows, out):
        width = self.codes.shape[1] - self.codes.shape[1] % 64
        codes, self.codes = self.codes, self.codes[:, :width]
        multiply(self, replace(rows, codes=rows.codes[:, :width]), out)
        self.codes = codes

    monkeypatch.setattr(EmulatedColumns, "multiply", multiply_whole_groups)
    for dimensions, used in ((128, True), (129, False), (191, False)):
        chosen_filter = cpu_filter.filter_of(units(dimensions), lambda *given: 0.0)
        assert (chosen_filter is not None) == used, dimensions


class TestChoice:
    """The filter is used if it saves time, whatever this processor has."""

    @pytest.fixture
    def scores(self, units, monkeypatch):
        monkeypatch.setattr(cpu_filter, "keeps_bound", lambda d: True)
        return units(8)

    @pytest.mark.parametrize(
        ("share", "verified", "used"), [(0.15, 0.1, True), (0.2, 0.5, False), (0.7, 0.0, False), (np.inf, 0.0, False)]
    )
    def test_it_is_used_where_product_and_verification_take_less(self, scores, share, verified, used, monkeypatch):
        monkeypatch.setattr(cpu_filter, "product_share", lambda d: share)
        assert (cpu_filter.filter_of(scores, lambda *given: verified) is not None) == used

    def test_without_units_it_is_not_used(self, scores, monkeypatch):
        monkeypatch.setattr(cpu_filter, "has_units", lambda: False)
        assert cpu_filter.filter_of(scores, lambda *given: 0.0) is None

    @pytest.mark.parametrize(("ends", "dimensions"), [([0, 8], 8), ([], None)])
    def test_the_work_beside_is_asked_for_pairs_or_tiles(self, scores, ends, dimensions, monkeypatch):
        calls = []
        monkeypatch.setattr(VectorScores, "sum_ends", property(lambda self: np.array(ends)))
        cpu_filter.filter_of(scores, lambda *given: calls.append(given) or 0.1)
        assert calls == [(2000, dimensions)]

    def test_long_lists_are_filtered_where_candidates_are_many(self):
        """As measured: 100 of 10,000 pay with short vectors, 100 of 5,000 with 512 dimensions do not."""
        shares = [share_verified(100, width, d) for width, d in ((10_000, 64), (10_000, 256), (5_000, 512))]
        assert shares == pytest.approx([0.05, 0.2, 0.8])
        assert share_verified(100, 10_000) == pytest.approx(0.64)  # in tiles

    @pytest.mark.parametrize(
        ("seconds", "loaded", "compiled", "used"),
        [
            (0.1, False, True, False),
            (3.0, False, True, True),
            (3.0, False, False, False),
            (99.0, False, False, True),
            (0.1, True, False, True),
        ],
    )
    def test_a_short_pass_does_not_load_or_compile_the_loops(
        self, scores, seconds, loaded, compiled, used, monkeypatch
    ):
        work = 300 * 2000 * 64 / parallel_blocks.usable_cores()
        monkeypatch.setattr(cpu_filter, "is_compiled", lambda module: compiled)
        monkeypatch.setattr(cpu_filter, "seconds_of_float32", lambda d: seconds / work)
        monkeypatch.setattr(cpu_filter, "sys", SimpleNamespace(modules={cpu_filter.LOOPS: None} if loaded else {}))
        assert (cpu_filter.filter_of(scores, lambda *given: 0.0) is not None) == used

    @pytest.mark.parametrize("name", [cpu_filter.LOOPS, cpu_filter.COMPILED])
    def test_the_name_of_the_loops_is_that_of_a_module(self, name):
        assert importlib.import_module(name).__name__ == name

    def test_the_share_of_a_product_is_measured(self, monkeypatch):
        monkeypatch.setattr(int8_products, "Int8", Emulated)
        assert 0 < product_share.__wrapped__(64) < np.inf


def test_vectors_that_may_overflow_are_left_to_the_float32_way(monkeypatch):
    force(monkeypatch)
    scores = Scores.from_embeddings(np.full((2, 2), 1e20), np.full((2, 2), 1e19), similarity="dot")
    with pytest.raises(LimnerError, match="overflows"):
        scores.top(1)


class TestCard:
    """The way of a graphics card, on the processor's tensors and on a card where there is one."""

    @pytest.fixture(autouse=True)
    def forced(self, monkeypatch):
        pytest.importorskip("torch", reason="torch is not installed")
        monkeypatch.setattr(gpu_filter, "ROWS", 64)
        monkeypatch.setattr(gpu_filter, "COLUMNS", 256)
        monkeypatch.setattr(gpu_filter, "TILES", 3)
        monkeypatch.setattr(gpu_filter, "AT_ONCE", 128 * 1500)
        monkeypatch.setattr(gpu_filter, "saves_time", lambda scores: True)
        monkeypatch.setattr(gpu_filter, "same_bits", lambda *shape: True)
        if DEVICE == "cpu":
            products = lambda rows, columns: (rows.float() @ columns.float().T).bfloat16()  # noqa: E731
            monkeypatch.setattr(gpu_products, "low_products", products)
            monkeypatch.setattr(gpu_filter, "low_products", products)

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("similarity", ["cosine", "dot"])
    def test_lists_and_corrections_are_those_of_float32(self, kind, similarity, monkeypatch):
        """Float32 products of any shape may have other bits than tiles: here blocks are read from tiles."""
        import torch

        def block(self, start, stop, out=None):
            result = torch.zeros(stop - start, self.shape[1], device=DEVICE)
            for top in range(0, stop - start, 64):
                rows = torch.zeros(64, self.query_vectors.shape[1], device=DEVICE)
                rows[: min(64, stop - start - top)] = self.query_vectors[start + top : min(start + top + 64, stop)]
                for low in range(0, self.shape[1], 256):
                    columns = torch.zeros(256, rows.shape[1], device=DEVICE)
                    part = self.candidate_vectors[low : low + 256]
                    columns[: len(part)] = part
                    tiled = gpu_filter.tiles(rows.expand(3, -1, -1), columns.expand(3, -1, -1))[0]
                    tile = result[top : top + 64, low : low + 256]
                    tile.copy_(tiled[: tile.shape[0], : tile.shape[1]])
            return result

        monkeypatch.setattr(TorchScores, "block", block)
        rng = np.random.default_rng(7)
        sides = vectors(rng, kind, 90, 24), vectors(rng, kind, 900, 24)
        scores = Scores.from_embeddings(*sides, similarity=similarity, device=DEVICE)
        searches = [
            lambda: scores.top(10),
            lambda: scores.correct("csls").top(5),
            lambda: scores.T.correct("nnn").top(3),
        ]
        searches.append(lambda: scores.correct("inverted_softmax").top(4))
        rankings = [ask() for ask in searches]
        monkeypatch.setattr(gpu_filter, "saves_time", lambda scores: False)
        for ask, filtered in zip(searches, rankings, strict=True):
            plain = ask()
            assert np.array_equal(plain.indices, filtered.indices)
            assert np.array_equal(plain.scores, filtered.scores)

    def test_it_is_used_where_tiles_have_the_bits_of_blocks(self, monkeypatch):
        import torch

        device, tiled = torch.device(DEVICE), gpu_filter.tiles
        monkeypatch.undo()
        same_bits = gpu_filter.same_bits.__wrapped__
        assert same_bits(device, 300, 700, 1)  # single products are not added up
        monkeypatch.setattr(gpu_filter, "tiles", lambda *sides: tiled(*sides) * (1 + 2**-20))
        assert not same_bits(device, 300, 700, 1)
        monkeypatch.setattr(gpu_filter, "tiles", lambda *sides: tiled(*(side.flip(-1) for side in sides)))
        assert not same_bits(device, 300, 700, 300)

    def test_few_vectors_and_cards_without_units_are_left_to_float32(self, monkeypatch):
        monkeypatch.undo()
        scores = Scores.from_embeddings(np.eye(3), np.eye(3), device=DEVICE)
        assert scores.filter(None, ListRequest(Best(1))) is None
        monkeypatch.setattr(gpu_filter, "LEAST", 0)
        assert gpu_filter.saves_time(scores) == (DEVICE != "cpu")

    def test_ranks_are_counted_in_float32(self):
        rng = np.random.default_rng(8)
        sides = rng.standard_normal((100, 16)), rng.standard_normal((300, 16))
        pairs = Judgements.from_pairs([(str(n // 3), str(n)) for n in range(300)])
        on_device, plain = (
            place(Scores.from_embeddings(*sides, device=d), [RankRequest(pairs)])[0][0] for d in (DEVICE, None)
        )
        assert np.array_equal(on_device.above, plain.above)

    @pytest.mark.parametrize("dimensions", [1, 24, 768])
    def test_sums_of_a_device_are_tested_before_they_are_used(self, dimensions, monkeypatch):
        rng = np.random.default_rng(7)
        sides = rng.standard_normal((64, dimensions)), rng.standard_normal((300, dimensions))
        scores = Scores.from_embeddings(*sides, similarity="dot", device=DEVICE)
        assert scores.filter(None, ListRequest(Best(10))) is not None
        gpu_products._tested.cache_clear()
        products = gpu_products.low_products
        monkeypatch.setattr(gpu_products, "low_products", lambda *given: products(*given) * (1 + 2**-6))
        try:
            assert scores.filter(None, ListRequest(Best(10))) is None
        finally:
            gpu_products._tested.cache_clear()

    def test_sums_of_few_bits_do_not_keep_the_bound(self, monkeypatch):
        """As a card that keeps 14 bits of a sum, which is what FP8 products of some have."""

        def summed(rows, columns):
            total = (rows[:, None, :1].float() * columns[None, :, :1].float())[..., 0]
            for at in range(1, rows.shape[1]):
                total = total + rows[:, at, None].float() * columns[None, :, at].float()
                total = (total.view(torch.int32) & ~0x3FF).view(torch.float32)
            return total.bfloat16()

        torch = pytest.importorskip("torch")
        rows, columns = (torch.as_tensor(each).bfloat16() for each in int8_products.trial(256))
        exact = [each.float().numpy() for each in (rows, columns)]
        assert int8_products.within_bound(gpu_products.low_products(rows, columns).float().numpy(), *exact)
        assert not int8_products.within_bound(summed(rows, columns).float().numpy(), *exact)

    def test_the_filter_decides(self):
        rng = np.random.default_rng(7)
        scores = Scores.from_embeddings(rng.standard_normal((64, 48)), rng.standard_normal((3000, 48)), device=DEVICE)
        rows, _ = scores.filter(None, ListRequest(Best(10))).products(0).candidates(10)
        assert 640 <= len(rows) < 700


@each_format
@pytest.mark.parametrize("width", [1, 2, 63, 64, 65, 129])
def test_groups_of_candidates_that_are_not_full_are_complete(form, width, monkeypatch):
    """Lists, ties and counts at the edge of a group, where products and what fills the group are negative."""
    rng = np.random.default_rng(width)
    columns = -np.abs(rng.integers(1, 4, (width, 8))).astype(np.float32)
    rows = np.abs(rng.integers(1, 4, (5, 8))).astype(np.float32)
    scores = Scores.from_embeddings(rows, columns, similarity="dot")
    pairs = Judgements.from_pairs([(str(row), str(width - 1)) for row in range(5)])
    searches = [lambda: scores.top(3).indices, lambda: place(scores, [RankRequest(pairs)])[0][0].above]
    searches += [
        lambda: place(scores, [RankRequest(pairs)])[0][0].tied,
        lambda: scores.correct("csls", k=2).top(3).indices,
    ]
    disable_filter(monkeypatch)
    plain = [ask() for ask in searches]
    force(monkeypatch, form)
    assert all(np.array_equal(one, ask()) for one, ask in zip(plain, searches, strict=True))


@each_format
def test_counts_of_a_good_system_are_made_without_float32(form):
    rng = np.random.default_rng(0)
    points = rng.standard_normal((256, 128))
    scores = Scores.from_embeddings(points, np.repeat(points, 4, axis=0) + 0.3 * rng.standard_normal((1024, 128)))
    products = Filter(scores, form).products(0, 256)
    ranks = products.count_above(ranked(products, np.arange(257) * 4, np.arange(1024)))
    assert ranks is not None
    counted, positive_of_pair = ranks.counts, ranks.whose
    assert len(positive_of_pair) < 50
    assert not len(ranks.rows)
    block = scores.block(0, 256)
    positive_scores = block[np.arange(1024) // 4, np.arange(1024)]
    n_above = (block[np.arange(1024) // 4] > positive_scores[:, None]).sum(axis=1)
    assert (np.abs(counted - n_above) <= np.bincount(positive_of_pair, minlength=1024)).all()


@each_format
@pytest.mark.parametrize("keep", [0, 5])
def test_a_row_that_ties_with_everything_is_counted_in_float32_and_the_others_are_not(form, keep, monkeypatch):
    """Three queries score 0 with all candidates; one has a positive among a thousand equal ones; some have none."""
    rng = np.random.default_rng(1)
    points = rng.standard_normal((600, 64)).astype(np.float32)
    columns = np.repeat(points, 4, axis=0) + 0.3 * rng.standard_normal((2400, 64)).astype(np.float32)
    columns[:1000] = columns[0] + 1e-6 * columns[:1000]
    columns[:, -1] = 0
    points[[5, 300, 599]] = np.eye(64)[-1]
    points[17] = columns[0]
    pairs = [(str(row), str(4 * row + n)) for row in range(250, 600) for n in range(4)]
    hard = [("5", "100"), ("5", "2000"), ("17", "500"), ("300", "0")]
    judged = Judgements.from_pairs(sorted({*pairs, *hard}))
    scores = Scores.from_embeddings(Embeddings(range(600), points), Embeddings(range(2400), columns), similarity="dot")
    requests = [RankRequest(judged), RankRequest(judged, np.arange(600) % 2, (np.arange(2400) // 4) % 2)]
    disable_filter(monkeypatch)
    plain, _ = place(scores, requests, RankOptions(keep=keep))
    force(monkeypatch, form)
    monkeypatch.setattr(product_block, "MANY", 1.0)
    blocks, block = [], type(scores).block
    monkeypatch.setattr(type(scores), "block", lambda self, *given: blocks.append(self.shape) or block(self, *given))
    placed, _ = place(scores, requests, RankOptions(keep=keep))
    for one, counterpart in zip(plain, placed, strict=True):
        for name in ("indptr", "above", "tied", "grades"):
            assert np.array_equal(getattr(one, name), getattr(counterpart, name)), name
    assert 2400 in plain[0].tied
    if not keep:  # the best of a row that ties with everything are found in float32 for its whole block
        assert blocks == [(4, 2400)]


def test_a_block_whose_rows_are_mostly_open_goes_the_float32_way():
    rng = np.random.default_rng(0)
    columns = rng.standard_normal((3000, 8)) * [0, *[1] * 7]
    scores = Scores.from_embeddings(np.tile(np.eye(8)[0], (30, 1)), columns, similarity="dot")
    products = Filter(scores, PLAIN).products(0, 30)
    assert products.count_above(ranked(products, np.arange(31), np.arange(30))) is None
    assert products.count_above(ranked(products, np.zeros(31, np.int64), np.zeros(0, np.int64))) is not None


@pytest.mark.parametrize("only", ["pairs", "tiles"])
def test_lists_of_a_hundred_are_decided(only, monkeypatch):
    rng = np.random.default_rng(0)
    scores = Scores.from_embeddings(rng.standard_normal((32, 128)), rng.standard_normal((10_000, 128)))
    if only == "tiles":
        only_tiles(monkeypatch)
    indices, values = Filter(scores, PLAIN).products(0, 32).best(Best(100))
    expected = Best(100)(0, scores.block(0, 32))
    assert np.array_equal(indices, expected[0])
    assert np.array_equal(values, expected[1])


def test_products_that_were_put_in_order_have_no_bits():
    rng = np.random.default_rng(0)
    scores = Scores.from_embeddings(rng.standard_normal((9, 8)), rng.standard_normal((99, 8)))
    products = Filter(scores, PLAIN).products(0, 9)
    keys, tops = products.put_in_order()
    assert np.array_equal(tops, [[row[:64].max(), row[64:].max()] for row in keys])
    with pytest.raises(RuntimeError, match="lost"):
        products.candidates(3)


def test_keys_are_in_the_order_of_all_bfloat16_numbers():
    bits = np.arange(2**16, dtype=np.uint16)
    numbers = (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    keys, tops = bits.view(np.int16).reshape(1, -1).copy(), np.empty((1, 2**10), np.int16)
    put_in_order(keys, tops)
    finite = np.isfinite(numbers)
    order = np.argsort(numbers[finite], kind="stable")
    steps = np.diff(numbers[finite][order]), np.diff(keys[0][finite][order].astype(int))
    assert np.array_equal(steps[0] > 0, steps[1] > 0)
    assert (steps[1] >= 0).all()


@pytest.mark.parametrize("width", [1, 63, 64, 391, 2**15, 2**15 + 1, 2**17])
def test_the_keys_that_reach_a_limit_are_counted_in_rows_longer_than_16_bits_count(width):
    row = np.random.default_rng(0).integers(-5, 6, width).astype(np.int16)
    assert many_reach(row, np.int16(-5)) == width
    assert many_reach(row, np.int16(2)) == (row >= 2).sum()


@pytest.mark.parametrize("reach", [0.0, 1e-6, 0.01, 3.0])
def test_limits_leave_out_only_what_the_bound_rules_out(reach):
    """Every bfloat16 number, by the inequality itself in exact fractions."""
    rng, eps = np.random.default_rng(0), Fraction(READ)
    numbers = np.sort(np.concatenate([np.ldexp(rng.choice(256, 60) / 128, e) for e in (-140, -9, -1, 0, 1)]))
    numbers = np.concatenate([-numbers[::-1], numbers]).astype(np.float32)
    numbers = (numbers.view(np.uint32) >> np.uint32(16) << np.uint32(16)).view(np.float32)
    keys = (numbers.view(np.uint32) >> np.uint32(16)).astype(np.uint16).view(np.int16).reshape(1, -1).copy()
    put_in_order(keys, np.empty((1, -(-keys.size // 64)), np.int16))
    for positive_score in [0.0, *rng.standard_normal(20), 1e-30, -1e-30, *numbers[::97].astype(float)]:
        lowest, highest = limits_of(positive_score, reach, READ)
        for key, value in zip(keys[0], (Fraction(float(each)) for each in numbers), strict=True):
            error = eps * abs(value) + Fraction(reach)
            assert key <= highest or value - error > Fraction(positive_score)
            assert key >= lowest or value + error < Fraction(positive_score)


def test_a_few_pairs_load_no_compiled_loops():
    """Loading them takes longer than the tiles of a few pairs."""
    code = (
        "import sys, numpy as np\nfrom limner import Scores\n"
        "vectors = np.random.default_rng(0).standard_normal((50, 64), dtype=np.float32)\n"
        "scores = Scores.from_embeddings(vectors, vectors)\n"
        "found = scores.pairs(np.arange(5), np.arange(5))\n"
        "assert 'numba' not in sys.modules\n"
        "scores.top(10)\nimport limner.scores.pair_kernels\n"
        "assert np.array_equal(found, scores.pairs(np.arange(5), np.arange(5)))\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
