"""Vectors are rotated before int8 rounds them where a few numbers are far above the others; nothing else changes."""

import numpy as np
import pytest
from forced_filter import PLAIN, ROTATED, disable_filter, force
from test_low_precision import KINDS, vectors

from limner import Embeddings, Scores
from limner.scores.base import Best
from limner.scores.lowprecision import ListRequest, cpu_filter
from limner.scores.lowprecision.int8_products import suited
from limner.scores.lowprecision.rounding_bounds import Rotation, Rounded

SIZES = [1, 2, 3, 5, 64, 129, 300, 512, 768]


def slowly(rotation, vectors):
    """The same map by definition, in double precision: signs, then every block times the Hadamard matrix."""
    rotated = vectors.astype(np.float64)
    for signs, blocks in rotation.rounds:
        rotated = rotated * signs
        for low, size in blocks.tolist():
            matrix = np.ones((1, 1))
            while len(matrix) < size:
                matrix = np.block([[matrix, matrix], [matrix, -matrix]])
            rotated[:, low : low + size] = rotated[:, low : low + size] @ matrix / np.sqrt(size)
    return rotated


def outlying(rng, n, d, by=15.0):
    """Vectors whose few largest numbers stand in the same dimensions, as those of trained models."""
    rows = rng.standard_normal((n, d)).astype(np.float32)
    rows[:, [0, d // 3, d - 1]] *= np.float32(by)
    return rows


@pytest.mark.parametrize("d", SIZES)
def test_it_is_orthogonal(d):
    matrix = slowly(Rotation(d), np.eye(d))
    assert np.abs(matrix @ matrix.T - np.eye(d)).max() < 1e-12


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("d", SIZES)
def test_it_is_computed_within_its_bound(d, kind):
    rotation, rows = Rotation(d), vectors(np.random.default_rng(d), kind, 50, d)
    away = np.linalg.norm(rotation(rows) - slowly(rotation, rows), axis=1)
    assert (away <= rotation.share * np.linalg.norm(rows.astype(np.float64), axis=1) + rotation.flush_error).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("d", [3, 64, 300])
def test_lengths_are_those_of_the_given_vectors_or_more(d, kind):
    rows = vectors(np.random.default_rng(d), kind, 50, d)
    rounded = Rounded.int8(rows, rotation=Rotation(d))
    exact, codes = slowly(Rotation(d), rows), rounded.codes * rounded.scale.astype(np.float64)[:, None]
    for bound, of in ((rounded.length, exact), (rounded.rounded, codes), (rounded.residual, exact - codes)):
        assert (bound >= np.linalg.norm(of, axis=1)).all()


def test_dimensions_that_are_no_power_of_two_are_all_spread():
    """A single number is spread over many others, wherever it stands; the same signs twice would bring it back."""
    for d in (300, 768, 1000):
        spread = np.abs(Rotation(d)(np.eye(d, dtype=np.float32)))
        assert spread.max() < 0.25


def test_vectors_are_turned_where_rounding_loses_clearly_less():
    rng = np.random.default_rng(0)
    even, odd = rng.standard_normal((100, 512)).astype(np.float32), outlying(rng, 100, 512)
    assert suited(odd, odd).rotated and suited(even, odd).rotated
    assert not suited(even, even).rotated and not suited(np.eye(512, dtype=np.float32)).rotated
    assert not suited(even[:0], even).rotated


@pytest.mark.parametrize("d", [512, 768])
def test_outlying_numbers_leave_little_to_verify(d, monkeypatch):
    """Without rotation the bounds rule out next to nothing, and the float32 way is taken."""
    rng = np.random.default_rng(1)
    queries, candidates = outlying(rng, 300, d), outlying(rng, 4000, d)
    queries[:, [0, d // 3, d - 1]] *= rng.choice([-1, 1], (300, 1)).astype(np.float32)
    scores = Scores.from_embeddings(Embeddings(range(300), queries), Embeddings(range(4000), candidates))
    undecided = {}
    for form in (PLAIN, ROTATED):
        products = cpu_filter.Filter(scores, form).products(0, 256)
        query, candidate = products.bounds.query.astype(np.float64), products.bounds.candidate.astype(np.float64)
        undecided[form.rotated] = float((query[:, :1] * candidate[0] + query[:, 1:2] * candidate[1]).mean())
    assert undecided[True] < undecided[False] / 2
    disable_filter(monkeypatch)
    plain = scores.top(10)
    force(monkeypatch)
    assert cpu_filter.filter_of(scores, ListRequest(Best(10)).verified).form.rotated
    filtered = scores.top(10)
    assert np.array_equal(plain.indices, filtered.indices) and np.array_equal(plain.scores, filtered.scores)
