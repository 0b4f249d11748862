"""Standing differential test: every source of scores against plain loops in double precision.

Matrices of any kind, products of vectors on the processor and through torch, sets of vectors, kernels, pair scorers,
parts of any of them; whole, turned, cut off, counted, and in pieces of rows; ties, clusters, forbidden pairs, overflow,
queries and candidates that share their ids.
"""

import math
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import strategies as st
from scipy import sparse
from standing import DEVICE, HOLED, PATHS, PLAIN, TIED, blocks, matrices, refused, same_numbers, shapes, standing, torch

from limner import Embeddings, Ids, Judgements, Scores
from limner.evaluation.placements import RankOptions, RankRequest, place
from limner.scores.base import RUNNER

DEVICES = [None, "cpu", *({DEVICE} - {"cpu"})] if torch else [None]


# --- oracles ------------------------------------------------------------------------------------------------------


def listed(matrix, k):
    """The k best of every row, equals in candidate order."""
    return [sorted(range(len(row)), key=lambda c, row=row: (-row[c], c))[:k] for row in matrix]


def counted(matrix, row, column):
    """(above, equal, equal before) of one pair."""
    value = matrix[row, column]
    values = matrix[row].tolist()
    return sum(v > value for v in values), sum(v == value for v in values), sum(v == value for v in values[:column])


@contextmanager
def in_pieces(width):
    """Passes over products of vectors in pieces of so many candidates, as a cluster does with too many of them."""
    token = RUNNER.set(Pieces(width))
    try:
        yield
    finally:
        RUNNER.reset(token)


class Pieces:
    """A runner that cuts rows into pieces and joins what was found in them."""

    def __init__(self, width):
        self.width = width

    def stream(self, scores, consume, *, progress=None):
        matrix = np.concatenate([scores.block(r, r + 1) for r in range(scores.shape[0])])
        divided = consume.divided(lambda rows, columns: matrix[rows, columns]) if hasattr(consume, "divided") else None
        if divided is None:
            yield from (consume(r, matrix[r : r + 1].copy()) for r in range(len(matrix)))
            return
        lows = range(0, matrix.shape[1], self.width)
        for r in range(len(matrix)):
            yield divided.join(
                [divided.piece(r, low, matrix[r : r + 1, low : low + self.width].copy()) for low in lows]
            )

    def fold(self, scores, add, merge, *, steady, progress=None):
        raise NotImplementedError


def as_expected(scores, matrix, data):
    """Everything that is asked of scores, against the numbers they must have, exactly."""
    n, m = matrix.shape
    assert scores.shape == (n, m) and np.array_equal(scores.matrix(), matrix)
    assert np.array_equal(scores.T.matrix(), matrix.T)
    k = data.draw(st.integers(1, m + 1))
    top = scores.top(k)
    assert top.indices.tolist() == listed(matrix, k) and top.truncated == (k < m)
    assert np.array_equal(top.scores, np.take_along_axis(matrix, top.indices.astype(np.int64), axis=1))
    assert scores.ranking().indices.tolist() == listed(matrix, m)
    rows = data.draw(st.permutations(range(n)))[: data.draw(st.integers(1, n))]
    columns = data.draw(st.permutations(range(m)))[: data.draw(st.integers(1, m))]
    part = scores.restrict(
        queries=[scores.queries[r] for r in rows], candidates=[scores.candidates[c] for c in columns]
    )
    assert np.array_equal(part.matrix(), matrix[np.ix_(rows, columns)])
    places_as_expected(scores, matrix, data)


def places_as_expected(scores, matrix, data):
    """Where positives stand, in the whole pool and in folds, and with the best kept beside."""
    n, m = matrix.shape
    pairs = sorted({(data.draw(st.integers(0, n - 1)), data.draw(st.integers(0, m - 1))) for _ in range(4)})
    truth = Judgements.from_pairs([(scores.queries[r], scores.candidates[c]) for r, c in pairs])
    (placed,), ranking = place(scores, [RankRequest(truth)], RankOptions(keep=2))
    counts = {
        (str(placed.queries[q]), int(a), int(t))
        for q, a, t in zip(placed.query, placed.above, placed.tied, strict=True)
    }
    assert counts == {(str(scores.queries[r]), *counted(matrix, r, c)[:2]) for r, c in pairs}
    assert ranking.indices.tolist() == listed(matrix, 2)
    (ordered,), _ = place(scores, [RankRequest(truth)], RankOptions(ties="order"))
    ranks = sorted(sum(counted(matrix, r, c)[::2]) for r, c in pairs)
    assert sorted(ordered.above.tolist()) == ranks


# --- matrices -----------------------------------------------------------------------------------------------------


def kinds(matrix):
    """The same matrix as whatever people have."""
    yield "array", matrix
    yield "fortran", np.asfortranarray(matrix)
    yield "list", matrix.tolist()
    yield "swapped", matrix.astype(matrix.dtype.newbyteorder())
    if np.isfinite(matrix).all():
        yield "sparse", sparse.csr_array(matrix)
        if np.array_equal(matrix, matrix.astype(np.int64)):
            yield "whole", matrix.astype(np.int64)
    holes = np.isneginf(matrix)
    yield "masked", np.ma.masked_array(np.where(holes, np.nan, matrix), mask=holes)
    if torch:
        yield "tensor", torch.as_tensor(matrix)


def check_matrices(data):
    matrix = data.draw(matrices(shapes(1, 6), data.draw(st.sampled_from([PLAIN, TIED, HOLED]))))
    _, array = data.draw(st.sampled_from(list(kinds(matrix))), label="kind")
    ids = ["x", "x"] if data.draw(st.booleans()) else ["q", "c"]
    keys = [[f"{prefix}{i}" for i in range(size)] for prefix, size in zip(ids, matrix.shape, strict=True)]
    as_expected(Scores.from_matrix(array, *keys), matrix, data)


def check_blocks(data):
    """A source of your own: arrays or tensors, single or double, in blocks of any height."""
    matrix = data.draw(matrices(shapes(1, 6), data.draw(st.sampled_from([PLAIN, TIED, HOLED]))))
    path, step = data.draw(st.sampled_from(PATHS)), data.draw(st.sampled_from([1, 2, 256]))
    as_expected(blocks(matrix, path, step=step, queries="x", candidates="x"), matrix.astype(path.split()[-1]), data)


# --- vectors ------------------------------------------------------------------------------------------------------

WHOLE = st.integers(-3, 3).map(float)
ANY = st.floats(-2, 2, width=32)


def vectors(data, n, d, elements):
    """Vectors, some of them repeated; none is all zeros."""
    rows = np.array(data.draw(st.lists(elements, min_size=n * d, max_size=n * d))).reshape(n, d)
    rows = rows[data.draw(st.lists(st.integers(0, n - 1), min_size=n, max_size=n))]
    rows[np.abs(rows).max(axis=1) < 1e-3, 0] = 1.0
    return rows


def sides(data, elements):
    d = data.draw(st.integers(1, 5))
    arrays = [vectors(data, data.draw(st.integers(1, 6)), d, elements) for _ in range(2)]
    shared = data.draw(st.booleans())
    names = ("x", "x") if shared else ("q", "c")
    return arrays, [
        Embeddings([f"{name}{i}" for i in range(len(side))], side) for name, side in zip(names, arrays, strict=True)
    ]


def check_whole_products(data):
    """Products of small whole numbers are exact in any order of adding: every path gives the very same numbers."""
    (a, b), (queries, candidates) = sides(data, WHOLE)
    device = data.draw(st.sampled_from(DEVICES))
    scores = Scores.from_embeddings(queries, candidates, similarity="dot", device=device)
    as_expected(scores, np.float32(a @ b.T), data)
    if torch:
        tensors = Scores.from_tensors(
            torch.as_tensor(a), torch.as_tensor(b), queries.ids, candidates.ids, similarity="dot"
        )
        assert np.array_equal(tensors.matrix(), a @ b.T)
    if device is None:
        plain = scores.top(3), place(scores, [RankRequest(own_truth(scores))], RankOptions(keep=2))
        with in_pieces(data.draw(st.integers(1, 4))):
            pieces = scores.top(3), place(scores, [RankRequest(own_truth(scores))], RankOptions(keep=2))
        assert np.array_equal(plain[0].indices, pieces[0].indices)
        assert np.array_equal(plain[1][0][0].above, pieces[1][0][0].above)
        assert np.array_equal(plain[1][0][0].tied, pieces[1][0][0].tied)
        assert np.array_equal(plain[1][1].indices, pieces[1][1].indices)


def own_truth(scores):
    return Judgements.from_pairs([(q, scores.candidates[r % scores.shape[1]]) for r, q in enumerate(scores.queries)])


def check_products(data):
    """Any vectors, cosine and dot: near the product in double precision, and equal vectors are never told apart."""
    (a, b), (queries, candidates) = sides(data, ANY)
    similarity, device = data.draw(st.sampled_from(["cosine", "dot"])), data.draw(st.sampled_from(DEVICES))
    actual = Scores.from_embeddings(queries, candidates, similarity=similarity, device=device).matrix()
    a, b = np.float64(np.float32(a)), np.float64(np.float32(b))
    if similarity == "cosine":
        a, b = (m / np.linalg.norm(m, axis=1, keepdims=True) for m in (a, b))
    same_numbers(actual, a @ b.T, "float32", scale=1.0 + np.abs(a @ b.T).max())
    for x in range(len(b)):
        for y in range(x):
            if np.array_equal(b[x], b[y]):
                assert np.array_equal(actual[:, x], actual[:, y])


HUGE = st.sampled_from([1.0, -1.0, 0.0, 1e-20, 1e10, -1e19, 1e20, 3e38, -3e38])


def check_overflow(data):
    """Right in single precision, or refused with both lengths; never NaN, never infinite."""
    (a, b), (queries, candidates) = sides(data, HUGE)
    device = data.draw(st.sampled_from(DEVICES))
    scores = Scores.from_embeddings(queries, candidates, similarity="dot", device=device)
    actual = refused(scores.matrix, "overflows single precision")
    exact = np.array(
        [[math.fsum(x * y for x, y in zip(p, q, strict=True)) for q in np.float64(b)] for p in np.float64(a)]
    )
    lengths = np.linalg.norm(a, axis=1)[:, None] * np.linalg.norm(b, axis=1)
    if actual is None:
        assert lengths.max() > 3e38
        return
    assert np.isfinite(actual).all() and (np.abs(actual - exact) <= 1e-6 * lengths + 1e-36).all()
    cosine = Scores.from_embeddings(queries, candidates, device=device).matrix()
    assert np.isfinite(cosine).all() and (np.abs(cosine) <= 1 + 1e-6).all()


# --- sets, kernels, scorers ---------------------------------------------------------------------------------------


def check_sets(data):
    """Items of several vectors: the best pair, or a smooth maximum, by a loop over pairs."""
    d, similarity = data.draw(st.integers(1, 4)), data.draw(st.sampled_from(["cosine", "dot"]))
    pooling, gamma = (
        data.draw(st.sampled_from(["max", "smooth", "maxsim"])),
        data.draw(st.sampled_from([0.5, 10.0, 200.0])),
    )
    sets = [
        {f"{name}{i}": vectors(data, data.draw(st.integers(1, 3)), d, ANY) for i in range(data.draw(st.integers(1, 4)))}
        for name in "qc"
    ]
    scores = Scores.from_sets(*sets, similarity=similarity, pooling=pooling, gamma=gamma)
    expected = np.array(
        [[pooled(p, q, similarity, pooling, gamma) for q in sets[1].values()] for p in sets[0].values()]
    )
    same_numbers(scores.matrix(), expected, "float32", scale=1.0 + np.abs(expected).max())
    same_numbers(scores.T.matrix(), expected.T, "float32", scale=1.0 + np.abs(expected).max())


def pooled(p, q, similarity, pooling, gamma):
    p, q = np.float64(np.float32(p)), np.float64(np.float32(q))
    if similarity == "cosine":
        p, q = (m / np.linalg.norm(m, axis=1, keepdims=True) for m in (p, q))
    if pooling == "maxsim":
        return math.fsum(max(float(v) for v in row) for row in p @ q.T)
    values = [float(v) for v in (p @ q.T).ravel()]
    top = max(values)
    return top if pooling == "max" else top + math.log(math.fsum(math.exp(gamma * (v - top)) for v in values)) / gamma


class Looked:
    """A scorer that looks pairs up."""

    def __init__(self, matrix):
        self.matrix = matrix

    def score_pairs(self, queries, candidates):
        return [self.matrix[q, c] for q, c in zip(queries, candidates, strict=True)]


def check_functions(data):
    """Kernels and scorers of single pairs are asked for the very pairs they are said to be of."""
    matrix = data.draw(matrices(shapes(1, 6), data.draw(st.sampled_from([PLAIN, TIED, HOLED]))))
    items = [np.arange(size) for size in matrix.shape]
    ids = {"queries": [f"x{i}" for i in items[0]], "candidates": [f"x{i}" for i in items[1]]}
    if data.draw(st.booleans()):
        scores = Scores.from_kernel(lambda a, b: matrix[np.ix_(a, b)], *items, **ids)
    else:
        scores = Scores.from_scorer(Looked(matrix), *items, **ids, batch=data.draw(st.integers(1, 9)))
    as_expected(scores, matrix, data)
    hole = matrix.copy()
    row, column = data.draw(st.integers(0, len(matrix) - 1)), data.draw(st.integers(0, matrix.shape[1] - 1))
    hole[row, column] = np.nan
    broken = Scores.from_kernel(lambda a, b: hole[np.ix_(a, b)], *items, **ids)
    assert refused(broken.matrix, f"NaN (row {row}, column {column})") is None


test_matrices, test_matrices_long = standing(check_matrices)
test_blocks, test_blocks_long = standing(check_blocks)
test_whole_products, test_whole_products_long = standing(check_whole_products)
test_products, test_products_long = standing(check_products)
test_overflow, test_overflow_long = standing(check_overflow)
test_sets, test_sets_long = standing(check_sets)
test_functions, test_functions_long = standing(check_functions)


@pytest.mark.skipif(torch is None, reason="torch is not installed")
def test_the_torch_path_is_among_them():
    assert "cpu" in DEVICES and "torch float32" in PATHS
    scores = Scores.from_embeddings(*(Embeddings(Ids(["a"]), [[1.0]]) for _ in range(2)), device="cpu")
    assert isinstance(scores.block(0, 1), torch.Tensor)
