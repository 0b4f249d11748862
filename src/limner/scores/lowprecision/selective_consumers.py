"""Consumers of blocks that can also answer from low-precision products: what they provide, and lists of the best."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from limner.scores.base import TILE_ROWS, Best
from limner.scores.parallel_blocks import Block
from limner.scores.shifted_scores import Shifted

VERIFIED = TILE_ROWS // 4
"""Columns of a block that take as long as verifying one candidate for each of its rows in tiles, about."""
VERIFIED_ALONE, LONG = 40, 512
"""The same for pairs that are verified one by one, with vectors of so many dimensions or more. With shorter vectors it
is less, also since finding the best of float32 scores takes part of the time then (`benchmarks/match.py --only long`).
"""


@runtime_checkable
class Selective(Protocol):
    """A consumer of blocks that can also answer from low-precision products."""

    def from_products(self, block: Any) -> Any:
        """The result for the block of these rows; None if the bounds leave too many pairs undecided."""

    def verified(self, width: int, dimensions: int | None = None) -> float:
        """The work beside the low-precision products, as a share of the float32 product.

        Args:
            width: Number of candidates.
            dimensions: Of the vectors, if pairs can be verified one by one; None if only tiles can be computed.
        """


def request_of(consume: object) -> Selective | None:
    """The consumer as one that answers from low-precision products; None if it cannot."""
    if isinstance(consume, Best):
        return ListRequest(consume)
    return consume if isinstance(consume, Selective) else None


def share_verified(k: int, width: int, dimensions: int | None = None) -> float:
    """The work of verifying lists of k, as a share of the float32 product; see `Selective.verified`.

    Every row computes a few candidates again, in float32: as long as so many columns of a block.

    >>> share_verified(100, 10_000, 256), share_verified(100, 10_000)
    (0.2, 0.64)
    """
    each = VERIFIED if dimensions is None else VERIFIED_ALONE * min(dimensions / LONG, 1.0)
    return min(1.0, each * k / max(width, 1))


@dataclass(frozen=True)
class ListRequest:
    """The best of every row."""

    best: Best

    def from_products(self, block: Any) -> tuple[npt.NDArray[np.int32], Block] | None:
        """The k best of every row."""
        return block.best(self.best)  # type: ignore[no-any-return]

    def verified(self, width: int, dimensions: int | None = None) -> float:
        """A few candidates of every row."""
        return share_verified(self.best.k, width, dimensions)

    def __call__(self, start: int, block: Block) -> tuple[npt.NDArray[np.int32], Block]:
        """The same from a block of scores."""
        return self.best(start, block)


@dataclass(frozen=True)
class ShiftedListRequest:
    """Finds the best of shifted scores from low-precision products."""

    best: Best
    shifted: Shifted

    def from_products(self, block: Any) -> tuple[npt.NDArray[np.int32], Block] | None:
        """The k best of every row."""
        return block.best_shifted(self.best, self.shifted)  # type: ignore[no-any-return]

    def verified(self, width: int, dimensions: int | None = None) -> float:
        """A tile reads the best of all its rows, and those that determine the values of the rows."""
        return share_verified(self.best.k, width) + share_verified(self.shifted.own, width)

    def __call__(self, start: int, block: Block) -> tuple[npt.NDArray[np.int32], Block]:
        """The same from a block of scores."""
        return self.best(start, self.shifted.apply(block, np.arange(block.shape[1]), start))
