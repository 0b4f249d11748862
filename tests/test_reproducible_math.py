"""Elementary functions that every processor computes alike: right, and the same bits everywhere."""

from __future__ import annotations

import hashlib
import math
import struct

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limner.core import reproducible_math

FUNCTIONS = {
    "sine": (reproducible_math.sine, lambda x: math.sin(2 * math.pi * x), -3.0, 3.0),
    "cosine": (reproducible_math.cosine, lambda x: math.cos(2 * math.pi * x), -3.0, 3.0),
    "exponential": (reproducible_math.exponential, math.exp, -30.0, 3.0),
    "logarithm": (reproducible_math.logarithm, math.log, 1e-9, 1e9),
    "arctangent": (reproducible_math.arctangent, lambda x: math.atan(x) / (2 * math.pi), 0.0, 1.0),
}
BITS = {
    "sine": "0237d4a871561d28",
    "cosine": "1d683566fe3607f5",
    "exponential": "d990b773ce3e120c",
    "logarithm": "d60fa4b534189512",
    "arctangent": "8c16a7eae4216622",
}


@pytest.mark.parametrize("name", FUNCTIONS)
@given(share=st.floats(0, 1))
def test_they_are_what_mathematics_says(name, share):
    function, oracle, low, high = FUNCTIONS[name]
    x = low + share * (high - low)
    assert function(x) == pytest.approx(oracle(x), rel=1e-13, abs=2e-14)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_bit_is_frozen(name):
    """The same on every processor: where this fails, some operation is not rounded as IEEE 754 says."""
    function, _, low, high = FUNCTIONS[name]
    values = [function(low + k / 999 * (high - low)) for k in range(1000)]
    assert hashlib.sha256(struct.pack("<1000d", *values)).hexdigest()[:16] == BITS[name]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_compiled_they_are_the_same(name):
    function, _, low, high = FUNCTIONS[name]
    compiled = numba.njit(function) if name != "cosine" else numba.njit(lambda x: sine(x + 0.25))
    assert all(compiled(x) == function(x) for x in (low + k / 99 * (high - low) for k in range(100)))


sine = numba.njit(reproducible_math.sine)


@given(st.integers(0, 2**32))
def test_signs_do_not_depend_on_what_a_decomposition_chose(seed):
    rng = np.random.default_rng(seed)
    vectors = rng.standard_normal((9, 4))
    turned = vectors * rng.choice([-1.0, 1.0], 4)
    fixed = turned * reproducible_math.signs(turned)
    np.testing.assert_array_equal(fixed, vectors * reproducible_math.signs(vectors))
    assert (np.abs(fixed) == np.abs(vectors)).all()
    assert all(column[np.argmax(2 * np.abs(column) >= np.abs(column).max())] > 0 for column in fixed.T)


def test_whole_numbers_are_the_same_whatever_the_last_digits():
    values = np.random.default_rng(0).standard_normal((50, 40))
    steps = reproducible_math.rounded_to_bits(values, 20)
    assert (steps == np.rint(steps)).all() and 2**19 <= np.abs(steps).max() <= 2**20
    np.testing.assert_array_equal(steps, reproducible_math.rounded_to_bits(values * (1 + 1e-14), 20))
    np.testing.assert_allclose(steps / steps.max(), values / values.max(), atol=2e-6)
