r"""Vectors in int8 or bfloat16 with rigorous bounds; the loops that use them are in `filter_kernels`.

A vector x is also stored as x', with fewer bits per number. On a CPU it is rounded to int8: whole multiples from -127
to 127 of a scale of its own, max |x_i| / 127 (a vector whose scale would be below 2^-100 becomes 0). On a GPU it is
rounded to bfloat16 (numbers below 2^-126 become 0). Vectors with a few numbers far above the others have a coarse
scale; such vectors are rotated first (`Rotation`), which changes no product. The lengths |x|, |x'| and
|x - x'| are computed in double precision and rounded up. For a query a and a candidate b, let s be the exact product,
f the float32 score that limner reports and s' the low-precision product, read as bfloat16:

    |f - s'| <= eps |s'| + E,    E = |a| (|b - b'| + g |b|) + (|a - a'| + g |a'|) |b'| + t

Where the terms come from (Cauchy-Schwarz, and Higham 2002, section 3.1, for sums in any order):

- a.b - a'.b' = a.(b - b') + (a - a').b', so it is at most |a| |b - b'| + |a - a'| |b'|: the effect of rounding.
- A bfloat16 unit of a GPU adds up d products in float32 with an error of at most g |a'| |b'|, where
  g = d 2^-22 / (1 - d 2^-22). That allows four times the error of rounding to nearest in every step, since some units
  truncate instead. `int8_products` tests units before they are used. Sums of int8 products are exact integers.
- f itself is within d 2^-24 / (1 - d 2^-24) |a| |b| of s, which is less than g |a| |b|.
- Rounding the sum to bfloat16 changes it by at most 2^-8 of it: eps = 2^-8 + 2^-14 covers this, written in terms of s'.
  It also covers the three roundings of an int8 sum, when it becomes float32 and is multiplied by both scales.
- t = 2^-125 (d + sqrt(d) (|a| + max |b|)) covers numbers below 2^-126 that either unit flushes to 0.

With vectors that are rotated, T a and T b take the place of a and b in the first line, since T a . T b = a.b and
|T a| = |a|. T x is known up to w |x| + z (`Rotation`), which is added to |x - x'|.

The bounds themselves are computed in float32. The factors are rounded up by 2^-16 and eps is larger than necessary,
which more than covers the rounding of the bounds.

Pairs that the first bound leaves undecided are computed in float32, summed in any order, and compared by twice the
second bound, |f - s| <= d 2^-24 / (1 - d 2^-24) |a| |b| + t, which holds for this sum as for f. Pairs that are still
undecided, and every score that is returned, are read from the float32 tiles of `VectorScores`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]
Bits = npt.NDArray[np.uint16]


@dataclass(frozen=True)
class Rotation:
    """A fixed orthogonal map T that spreads a few large numbers over all dimensions.

    Embeddings of trained models often have a few dimensions whose numbers are far above the others (in CLIP's the
    largest is 9 to 15 times the root mean square). One scale for all numbers of a vector is then coarse for most of
    them. After random signs and a Walsh-Hadamard transform every number is a sum of all others with random signs, and
    none stands out. T a . T b = a . b, so nothing else changes.

    The transform needs a power of two. Other numbers of dimensions are divided into blocks, largest first: 768 into 512
    and 256. A second round, with signs of its own and the largest block last, takes every dimension through a large
    one.

    **Bound.** A round multiplies by 1 / sqrt(size) and adds or subtracts numbers in log2(size) steps, each of which is
    orthogonal up to a factor. In float32 every number is rounded once per step, by at most 2^-24 of itself, and 1 /
    sqrt(d) is rounded too. So with m steps in all the length of what rounding changes is at most ((1 + 2^-24)^(m + 2) -
    1) |x|, which is below 2^-23 (m + 2) |x|. Numbers below 2^-126 that are flushed to 0 add less than m sqrt(d) 2^-126.
    Hence |y - T x| <= w |x| + z for a computed vector y and |x| < 2^108; w and z have a factor of two or more to spare.

    >>> rotated = Rotation(4)(np.array([[100.0, 0.0, 0.0, 0.0]], dtype=np.float32))
    >>> np.abs(rotated).tolist()
    [[50.0, 50.0, 50.0, 50.0]]
    """

    dimensions: int

    @cached_property
    def rounds(self) -> tuple[tuple[Float32, npt.NDArray[np.int64]], ...]:
        """A sign for every dimension, and blocks as (first dimension, size); one round for a power of two."""
        sizes = [1 << bit for bit in reversed(range(self.dimensions.bit_length())) if self.dimensions >> bit & 1]
        blocks = np.stack([np.cumsum([0, *sizes[:-1]]), sizes], axis=1).astype(np.int64)
        mirrored = np.stack([self.dimensions - blocks.sum(axis=1), blocks[:, 1]], axis=1)
        rng = np.random.default_rng(self.dimensions)
        signs = rng.choice(np.array([-1, 1], np.float32), (2, self.dimensions))
        return tuple(zip(signs, (blocks, mirrored)[: 1 + (len(sizes) > 1)], strict=False))

    @property
    def share(self) -> float:
        """w: what rounding changes, as a share of the length."""
        return 2.0**-22 * 2 * (self.dimensions.bit_length() + 1)  # two rounds at most, of so many steps at most

    @property
    def flush_error(self) -> float:
        """z: what flushing small numbers to 0 changes."""
        return self.dimensions * 2.0**-120

    def __call__(self, vectors: Float32) -> Float32:
        """The vectors rotated, one per row."""
        from limner.scores.lowprecision.filter_kernels import rotate_rows

        rotated = vectors
        for signs, blocks in self.rounds:
            rotated = rotated * signs
            rotate_rows(rotated, blocks)
        return rotated


READ = 2.0**-8 + 2.0**-14
"""eps: the largest relative change of a product that is read as bfloat16."""
SLACK = 1 + 2.0**-16
"""Bounds computed in float32 are multiplied by this, which more than covers their own rounding."""


def accumulation(dimensions: int, unit: float = 2.0**-22) -> float:
    """The relative error of a sum of this many products, in any order, with an error of at most `unit` per step.

    >>> accumulation(1024) < 2.5e-4
    True
    """
    share = dimensions * unit
    return share / (1 - share)


@dataclass(frozen=True, eq=False)
class Rounded:
    """Vectors in int8, and the lengths that bound the rounding error.

    Args:
        codes: One row per vector; empty rows if only the lengths are needed.
        length: At least |x| of every vector.
        rounded: At least |x'|, the length after rounding.
        residual: At least |x - x'|, the length of the difference.
        scale: What the numbers of every vector are multiplied by; empty if only the lengths are needed.

    >>> Rounded.int8(np.array([[127.0, 63.7, -2.0]], dtype=np.float32)).values.tolist()
    [[127.0, 64.0, -2.0]]
    """

    codes: npt.NDArray[np.int8]
    length: Float32
    rounded: Float32
    residual: Float32
    scale: Float32 = field(default_factory=lambda: np.zeros(0, np.float32))

    @classmethod
    def int8(cls, vectors: Float32, *, rotation: Rotation | None = None) -> Rounded:
        """Rounds to the nearest multiple of the scale of each vector; a vector with a scale below 2^-100 becomes 0.

        Args:
            vectors: One row per vector.
            rotation: How they are rotated first.
        """
        from limner.scores.lowprecision.filter_kernels import scale_rows

        rotated = _frozen(vectors if rotation is None else rotation(vectors))
        codes, scale = np.empty(rotated.shape, np.int8), np.empty(len(rotated), np.float32)
        squares = np.empty((3, len(rotated)))
        scale_rows(rotated, rotated.view(np.int32), codes, scale, *squares)
        length, rounded, residual = _lengths(squares, rotated.shape[1])
        if rotation is not None:
            length = upward(length.astype(np.float64) * (1 + 2 * rotation.share) + rotation.flush_error)
            residual = upward(residual + rotation.share * length.astype(np.float64) + rotation.flush_error)
        return cls(codes, length, rounded, residual, scale)

    @property
    def values(self) -> Float32:
        """The rounded vectors as float32, rounded once more."""
        return self.codes * self.scale[:, None]

    @cached_property
    def factors(self) -> tuple[Float32, Float64, float]:
        """The factors of candidates in `Bounds`, rounded up, their lengths, and the largest; computed once."""
        b = self.length.astype(np.float64)
        residual = self.residual + accumulation(self.codes.shape[1]) * b
        return upward(np.stack([residual, self.rounded.astype(np.float64)])), b, float(b.max(initial=0.0))


def _frozen(vectors: Float32) -> Float32:
    """The vectors in one block, never writable: numba would compile a loop a second time for writable arrays."""
    contiguous = np.ascontiguousarray(vectors, dtype=np.float32).view()
    contiguous.flags.writeable = False
    return contiguous


def _lengths(squares: Float64, dimensions: int) -> tuple[Float32, Float32, Float32]:
    exact = 1 + (dimensions + 4) * 2.0**-52  # the sums of squares are rounded too
    before, after, between = upward(np.sqrt(squares * exact))
    return before, after, between


def upward(values: Float64) -> Float32:
    """float32 numbers that are not smaller than these."""
    return np.nextafter(values.astype(np.float32), np.float32(np.inf))


@dataclass(frozen=True, eq=False)
class Bounds:
    """The factors of E for a block of queries against all candidates: E = a p + b m + t, see above.

    Args:
        query: (queries, 3) of float32: a = |a|, b = |a - a'| + g |a'|, and t.
        candidate: (2, candidates) of float32: p = |b - b'| + g |b|, m = |b'|.
        close: (queries,) and (candidates,) of float64, whose product plus t bounds |f - s|.
    """

    query: Float32
    candidate: Float32
    close: tuple[Float64, Float64]

    @classmethod
    def of(cls, queries: Rounded, candidates: Rounded) -> Bounds:
        """The factors, rounded up."""
        d = queries.codes.shape[1]
        g, a, (candidate, b, longest) = accumulation(d), queries.length.astype(np.float64), candidates.factors
        tiny = 2.0**-125 * (d + np.sqrt(d) * (a + longest))
        query = np.stack([a, queries.residual + g * queries.rounded.astype(np.float64), tiny], axis=1)
        close = accumulation(d, 2.0**-24) * (1 + 2.0**-10) * a, b
        return cls(upward(query * SLACK), candidate, close)


@dataclass(frozen=True, eq=False)
class Keys:
    """The sort key: scale s - shift(candidate), with an allowance for rounding.

    Args:
        scale: A power of two.
        shift: One number per candidate; all 0 for scores themselves.
        allowance: One number per query: how far rounding can move a key.
    """

    scale: float
    shift: Float64
    allowance: Float64

    @classmethod
    def plain(cls, queries: int, candidates: int) -> Keys:
        """The scores themselves."""
        return cls(1.0, np.zeros(candidates), np.zeros(queries))
