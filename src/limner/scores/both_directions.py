"""Low-precision products that a pass over scores leaves for the pass over the transposed scores.

Both directions of an evaluation need the same products. The bound of `limner.core.lowprecision` holds for a product in
either direction, so those of one pass are kept in memory, if they are few enough, and read by column in the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from limner.core.embeddings import Embeddings
from limner.core.lowprecision import Bits
from limner.scores.base import TILE_ROWS
from limner.scores.formats import Format

MOST = 1 << 28
"""The products take at most this many bytes."""

Keys = npt.NDArray[np.int16]


@dataclass(eq=False)
class KeptProducts:
    """Products of all queries and candidates, in order.

    Args:
        queries: Vectors of the queries.
        candidates: Vectors of the candidates.
        form: The format of the products, whose bound holds for them in both directions.
        bits: Memory of the products, queries by candidates.
        done: The first query of every block that was computed and put in order.
    """

    queries: Embeddings
    candidates: Embeddings
    form: Format
    bits: Bits
    done: set[int] = field(default_factory=set)

    def rows(self, start: int, stop: int) -> Bits:
        """Memory of the products of some queries."""
        return self.bits[start:stop]

    def columns(self, start: int, stop: int, out: Bits) -> tuple[Keys, Keys]:
        """The products of some candidates with all queries in order, and the highest of every group of queries."""
        from limner.core.count_kernels import transpose
        from limner.core.group_kernels import GROUP

        keys, tops = out.view(np.int16), np.empty((stop - start, -(-len(self.bits) // GROUP)), np.int16)
        transpose(self.bits.view(np.int16), start, keys, tops)
        return keys, tops

    @property
    def complete(self) -> bool:
        """Whether all products are there."""
        return len(self.done) == -(-len(self.bits) // TILE_ROWS)


_KEPT: ContextVar[list[KeptProducts] | None] = ContextVar("_KEPT", default=None)


@contextmanager
def both_directions() -> Iterator[None]:
    """Products of a pass are kept for a pass over the transposed scores, until the end of this context."""
    token = _KEPT.set([])
    try:
        yield
    finally:
        _KEPT.reset(token)


def kept_for(
    queries: Embeddings, candidates: Embeddings, form: Format
) -> tuple[KeptProducts | None, KeptProducts | None]:
    """Where the products of these vectors are kept, and those of the other direction; None for those that are not.

    Args:
        queries: Vectors of the queries.
        candidates: Vectors of the candidates.
        form: The format of the products, if they are kept.
    """
    held = _KEPT.get()
    if held is None or 2 * len(queries) * len(candidates) > MOST:
        return None, None
    for each in held:
        if each.queries is candidates and each.candidates is queries and each.complete:
            return None, each
    if held:
        return None, None
    held.append(KeptProducts(queries, candidates, form, np.empty((len(queries), len(candidates)), np.uint16)))
    return held[0], None
