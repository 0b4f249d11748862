"""What the standing differential tests share: draws of hard matrices, scores that come as any kind of block, two forms.

A check takes hypothesis' `data`, draws a case and compares limner with a slow oracle. `standing` makes two tests of it:
a short form for every run, and a long one, of minutes, behind the marker `long`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limner import Ids, LimnerError, Scores

SHORT, LONG = 40, 1500
try:
    import torch
except ModuleNotFoundError:
    torch = None
DEVICE = "cuda" if torch and torch.cuda.is_available() else "cpu"
PATHS = ["float32", "float64", *(["torch float32", "torch float64"] if torch else [])]


def standing(check: Callable[[Any], None], *, short: int = SHORT, long: int = LONG) -> tuple[Any, Any]:
    """The short and the long form of one check."""

    @settings(max_examples=short)
    @given(st.data())
    def quick(data):
        check(data)

    @pytest.mark.long
    @settings(max_examples=long)
    @given(st.data())
    def thorough(data):
        check(data)

    return quick, thorough


@dataclass(frozen=True, eq=False)
class Blocks(Scores):
    """A matrix read in blocks of any height, as arrays or as tensors: what a source of your own may be."""

    values: Any
    queries: Any
    candidates: Any
    step: int = 256
    tensors: bool = False

    @property
    def T(self):
        return Blocks(np.ascontiguousarray(self.values.T), self.candidates, self.queries, self.step, self.tensors)

    @property
    def dtype(self):
        return self.values.dtype

    @property
    def block_rows(self):
        return self.step

    def block(self, start, stop, out=None):
        block = self.values[start:stop].copy()
        return torch.as_tensor(block, device=DEVICE) if self.tensors else block


def blocks(matrix, path="float64", *, step=256, queries="q", candidates="c"):
    """The matrix on a path: its type, and whether blocks are tensors."""
    ids = [Ids([f"{name}{i}" for i in range(n)]) for name, n in zip((queries, candidates), matrix.shape, strict=True)]
    values = np.ascontiguousarray(matrix, dtype=path.split()[-1])
    return Blocks(values, *ids, step, path.startswith("torch"))


# --- draws --------------------------------------------------------------------------------------------------------

TIED = st.integers(-2, 2).map(float)
SMALL = st.floats(-1, 1, width=32)
PLAIN = st.one_of(SMALL, TIED)
LARGE = st.floats(-900, 900, width=32)
HOLED = st.one_of(SMALL, TIED, st.just(-np.inf))


def shapes(smallest=1, largest=9):
    return st.tuples(st.integers(smallest, largest), st.integers(1, largest))


@st.composite
def matrices(draw, shape, elements=None):
    """A matrix of one temper: plain, tied, large or with forbidden pairs; clustered: rows and columns that repeat."""
    elements = draw(st.sampled_from([PLAIN, TIED, LARGE, HOLED])) if elements is None else elements
    n, m = draw(shape) if not isinstance(shape, tuple) else shape
    flat = draw(st.lists(elements, min_size=n * m, max_size=n * m))
    matrix = np.array(flat, dtype=np.float32).reshape(n, m).astype(np.float64)
    if draw(st.booleans()):
        matrix = matrix[draw(st.lists(st.integers(0, n - 1), min_size=n, max_size=n))]
    if draw(st.booleans()):
        matrix = matrix[:, draw(st.lists(st.integers(0, m - 1), min_size=m, max_size=m))]
    if draw(st.integers(0, 3)) == 0:
        matrix[:, draw(st.integers(0, m - 1))] = -np.inf
    return matrix


def refused(act: Callable[[], Any], *words: str) -> Any:
    """What an act gives; None if it is refused, which must be in one of these words."""
    try:
        return act()
    except LimnerError as error:
        message = str(error)
    assert any(word in message for word in words), message
    return None


# --- comparing ----------------------------------------------------------------------------------------------------


def room(expected, path, *, scale=1.0):
    """How far rounding may move a number: a few units of its own last place, or of what was added up for it."""
    unit = 1e-11 if path.endswith("float64") else 4e-6
    size = np.where(np.isfinite(expected), np.abs(expected), 0.0)
    return unit * (scale + size)


def same_numbers(actual, expected, path, *, scale=1.0):
    """Equal but for rounding; -inf where the oracle has it, and no NaN."""
    assert actual.shape == expected.shape and not np.isnan(actual).any()
    assert np.array_equal(np.isneginf(actual), np.isneginf(expected))
    finite = ~np.isneginf(expected)
    distance = np.abs(actual[finite] - expected[finite])
    assert (distance <= room(expected, path, scale=scale)[finite]).all(), (distance.max(), actual, expected)


def same_order(indices, expected, path, *, scale=1.0):
    """Every list goes down by the oracle's numbers, but for what rounding cannot tell apart."""
    slack = 2 * room(expected, path, scale=scale)
    for row, listed in enumerate(indices):
        listed = listed[listed >= 0]
        left = np.setdiff1d(np.arange(expected.shape[1]), listed)
        for place, c in enumerate(listed):
            remaining = np.concatenate([listed[place + 1 :], left])
            if len(remaining):
                ahead = expected[row, remaining].max()
                assert expected[row, c] >= ahead - slack[row, c] or expected[row, c] == ahead


def twins_are_tied(actual, *sources):
    """Candidates that no source tells apart must not be told apart by rounding."""
    stacked = np.concatenate(sources)
    for a in range(stacked.shape[1]):
        for b in range(a):
            if np.array_equal(stacked[:, a], stacked[:, b]):
                assert np.array_equal(actual[:, a], actual[:, b]), (a, b, actual)
