"""Rotation of vectors: a fixed orthogonal map T that spreads a few large numbers over all dimensions.

Embeddings of trained models often have a few dimensions whose numbers are far above the others (in CLIP's the largest
is 9 to 15 times the root mean square). One scale for all numbers of a vector is then coarse for most of them. After
random signs and a Walsh-Hadamard transform every number is a sum of all others with random signs, and none stands out.
T a . T b = a . b, so nothing else changes.

The transform needs a power of two. Other numbers of dimensions are divided into blocks, largest first: 768 into 512 and
256. A second round, with signs of its own and the largest block last, takes every dimension through a large one.

**Bound.** A round multiplies by 1 / sqrt(size) and adds or subtracts numbers in log2(size) steps, each of which is
orthogonal up to a factor. In float32 every number is rounded once per step, by at most 2^-24 of itself, and 1 / sqrt(d)
is rounded too. So with m steps in all the length of what rounding changes is at most ((1 + 2^-24)^(m + 2) - 1) |x|,
which is below 2^-23 (m + 2) |x|. Numbers below 2^-126 that are flushed to 0 add less than m sqrt(d) 2^-126. Hence
|y - T x| <= w |x| + z for a computed vector y and |x| < 2^108; w and z have a factor of two or more to spare.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

Float32 = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Rotation:
    """The map T for vectors with this many dimensions, always the same one.

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
