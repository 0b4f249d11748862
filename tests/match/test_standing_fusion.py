"""Standing differential test: every way to fuse against fractions, whatever the systems are given as.

Scores as arrays or tensors in blocks of any height, whole and cut-off rankings that number their ids otherwise, orders
without scores; ties, forbidden pairs, clusters, very large scores, queries and candidates that share their ids.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import slow
from hypothesis import strategies as st
from standing import HOLED, LARGE, PATHS, PLAIN, TIED, blocks, matrices, standing

from limner import Ranking
from limner.match.fusion import FUSIONS, borda, fuse, mean, reciprocal_rank

SIZES = st.tuples(st.integers(1, 4), st.integers(1, 6))


@dataclass
class System:
    """One system as limner gets it, and as the oracles do: of every query, {candidate: score}; no score, no order."""

    given: Any
    listed: list[dict[int, float]]
    ordered: bool


def system(data, matrix, names, *, only=("scores", "ranking", "cut", "order")):
    kind = data.draw(st.sampled_from(only))
    plain = blocks(matrix, "float64", **names)
    if kind == "scores":
        path, step = data.draw(st.sampled_from(PATHS)), data.draw(st.sampled_from([1, 2, 256]))
        return System(blocks(matrix, path, step=step, **names), [dict(enumerate(row)) for row in matrix], False)
    depth = matrix.shape[1] if kind == "ranking" else data.draw(st.integers(1, matrix.shape[1]))
    top = plain.top(depth)
    listed = [dict(zip(map(int, i), map(float, s), strict=True)) for i, s in zip(top.indices, top.scores, strict=True)]
    if kind == "order":
        listed = [{c: -place for place, c in enumerate(row)} for row in listed]
    rows, columns = (data.draw(st.permutations(range(size))) for size in matrix.shape)
    numbers = np.argsort(columns)[top.indices][list(rows)]
    scores = None if kind == "order" else np.asarray(top.scores)[list(rows)]
    turned = Ranking(plain.queries[list(rows)], plain.candidates[list(columns)], numbers, scores, matrix.shape[1])
    return System(turned, listed, kind == "order")


def drawn(data, *, elements=None, **options):
    """Systems over the same ids; those of queries and candidates may be the same words."""
    shape = data.draw(SIZES)
    names = data.draw(st.sampled_from([{"queries": "q", "candidates": "c"}, {"queries": "x", "candidates": "x"}]))
    count = data.draw(st.integers(1, 4))
    stack = [data.draw(matrices(shape, elements)) for _ in range(count)]
    return [system(data, matrix, names, **options) for matrix in stack], shape


def rows_of(fused, systems, prefix):
    """The fused list of every query, in the order of the oracle: candidates by number."""
    return [[int(c[1:]) for c in fused[f"{prefix}{q}"]] for q in range(len(systems[0].listed))]


def prefix_of(systems):
    return systems[0].given.queries[0][0]


def check_ranks(data):
    systems, (n, m) = drawn(data)
    inputs, depth = [s.given for s in systems], data.draw(st.one_of(st.none(), st.integers(1, m)))
    k = data.draw(st.sampled_from([0, 1, 60, 0.1]))
    fused, reciprocals = borda(inputs, depth=depth), reciprocal_rank(inputs, k=k, depth=depth)
    leads = next((s for s in systems if not isinstance(s.given, Ranking)), systems[0]).given
    numbers = [int(c[1:]) for c in leads.candidates]  # ties go by the order of the system that leads
    ranked = rows_of(fused, systems, prefix_of(systems)), rows_of(reciprocals, systems, prefix_of(systems))
    for q in range(n):
        lists = [{numbers.index(c): r for c, r in slow.ranks_of(s.listed[q]).items()} for s in systems]
        assert ranked[0][q] == [numbers[c] for c in slow.borda(lists, m)][:depth]
        sums, order = slow.reciprocal(lists, k)
        assert ranked[1][q] == [numbers[c] for c in order][:depth]
        scores = reciprocals.scores[reciprocals.queries.index(f"{prefix_of(systems)}{q}")]
        for place, c in enumerate(order[:depth]):
            assert scores[place] == pytest.approx(float(sums[c]), rel=1e-14)


MEANS = st.sampled_from([PLAIN, TIED, LARGE, HOLED, st.sampled_from([-np.inf, 0.0, 1.0, 3e37, -3e37, 1e-30])])


def check_mean(data):
    systems, (n, m) = drawn(data, elements=data.draw(MEANS), only=("scores", "ranking", "cut"))
    normalisation = data.draw(st.sampled_from(["zscore", "minmax", None]))
    fused = mean([s.given for s in systems], normalise=normalisation)
    single = fused.dtype == np.float32
    fused_matrix = fused.restrict(
        queries=[f"{prefix_of(systems)}{q}" for q in range(n)],
        candidates=[f"{systems[0].given.candidates[0][0]}{c}" for c in range(m)],
    ).matrix()
    assert not np.isnan(fused_matrix).any()
    for q in range(n):
        rows = [spread(s.listed[q], m, normalisation) for s in systems]
        for c in range(m):
            parts = [row[c] for row in rows]
            if None in parts:
                assert fused_matrix[q, c] == -np.inf
            else:
                exact = float(sum(map(Fraction, parts)) / len(parts))
                size = max(map(abs, parts)) if normalisation is None else 1.0
                assert fused_matrix[q, c] == pytest.approx(exact, rel=1e-6 if single else 1e-9, abs=1e-9 * size + 1e-12)


def spread(listed, m, method):
    """A system's normalised scores of all candidates; those it does not list count as the last that has a number."""
    normalised = dict(zip(listed, slow.normal(list(listed.values()), method), strict=True))
    last = min((v for v in normalised.values() if v is not None), default=0.0)
    return [normalised.get(c, last) for c in range(m)]


def check_cut(data):
    """Any depth is the head of the whole list, by every method and on every path."""
    systems, (_, m) = drawn(data, only=("scores", "ranking"))
    method, depth = data.draw(st.sampled_from(sorted(FUSIONS))), data.draw(st.integers(1, m))
    full, head = (fuse([s.given for s in systems], method, depth=d) for d in (None, depth))
    assert np.array_equal(full.indices[:, :depth], head.indices)
    assert np.array_equal(full.scores[:, :depth], head.scores)


test_ranks, test_ranks_long = standing(check_ranks)
test_mean, test_mean_long = standing(check_mean)
test_cut, test_cut_long = standing(check_cut)
