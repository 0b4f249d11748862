"""Refuses scores that cannot be ordered (NaN, and products that overflow) and names the pair."""

from __future__ import annotations

import numpy as np

from limner.core.errors import LimnerError
from limner.scores.base import Scores
from limner.scores.parallel_blocks import Block, on_host


def refuse_nan(scores: Scores, block: Block, start: int, mend: str) -> None:
    """Refuses a block with NaN, which cannot be ordered, and names the pair."""
    if np.isnan(block).any():
        row, column = (int(at) for at in np.argwhere(np.isnan(block))[0])
        raise LimnerError(
            f"the similarity of query {scores.queries[start + row]!r} and candidate {scores.candidates[column]!r} is "
            f"NaN (row {start + row}, column {column}): its place in the order is undefined; {mend}"
        )


def refuse_overflow(scores: Scores, block: object, start: int, lengths: tuple[float, float]) -> None:
    """Refuses products of vectors that single precision cannot hold, and names the pair.

    Args:
        scores: The scores, for the ids in the message.
        block: The products.
        start: The query of its first row.
        lengths: Lengths of the longest query vector and the longest candidate vector.
    """
    finite = np.isfinite(on_host(block))
    if not finite.all():
        row, column = (int(at) for at in np.argwhere(~finite)[0])
        raise LimnerError(
            f"the product of query {scores.queries[start + row]!r} and candidate {scores.candidates[column]!r} (row "
            f"{start + row}, column {column}) overflows single precision: the longest vectors have lengths of "
            f"{lengths[0]:.3g} and {lengths[1]:.3g}; normalise them (similarity='cosine'), divide them by a constant, "
            "or give the products in double precision to Scores.from_matrix"
        )
