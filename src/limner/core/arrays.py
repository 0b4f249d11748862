"""What people give as numbers, as arrays: lists, tensors, sparse and masked matrices, whole numbers of any size.

Nothing is lost on the way in silence: a number that the target type cannot hold is refused, with its row and column.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from limner.core.errors import LimnerError

Array = npt.NDArray[Any]
_AT_ONCE = 1 << 22  # numbers that are looked at together, so that a mapped file stays on disk


def array(given: Any, what: str) -> Array:
    """An array from whatever holds numbers; a mapped or masked array stays one. What sparse matrices leave out is 0.

    Args:
        given: An array, a list of rows, a torch tensor on any device, a scipy sparse matrix.
        what: What it is, for messages.

    >>> array([[1, 2], [3, 4]], "similarity matrix").shape
    (2, 2)
    """
    if hasattr(given, "detach"):
        given = given.detach().cpu()
        given = given.float().numpy() if str(given.dtype) == "torch.bfloat16" else given.numpy()
    if hasattr(given, "toarray"):
        given = given.toarray()
    if isinstance(given, np.ndarray) and not isinstance(given, np.matrix):
        return given
    try:
        return np.asarray(given)
    except ValueError as error:
        raise LimnerError(f"{what}: expected an array, or rows of one length ({error})") from error


def numbers(given: Array, what: str) -> Array:
    """The same array; refuses what is no real number, and what float64, the widest type here, cannot hold exactly."""
    if not np.issubdtype(given.dtype, np.number) or np.iscomplexobj(given):
        raise LimnerError(f"{what} of type {given.dtype}: expected real numbers")
    if given.dtype.itemsize > 8 or (given.dtype.itemsize == 8 and given.dtype.kind in "iu"):
        for start, rows in pieces(given):
            wrong = _inexact(np.ma.filled(rows, 0))
            refuse(wrong, start, given, what, "which double precision cannot hold exactly: take off a constant")
    return given


def unmasked(given: Array, what: str, *, fill: float | None = None) -> Array:
    """A masked array without its mask: masked cells are filled, or refused where nothing could stand for them."""
    if not isinstance(given, np.ma.MaskedArray):
        return given
    mask = np.ma.getmaskarray(given)
    if fill is None:
        refuse(mask, 0, given, what, "masked: leave it out, or fill it")
    return np.where(mask, fill, given.data) if fill is not None and mask.any() else np.asarray(given.data)


def pieces(given: Array) -> Iterator[tuple[int, Array]]:
    """(first row, some rows) of an array."""
    step = max(1, _AT_ONCE // max(1, given[:1].size))
    return ((low, given[low : low + step]) for low in range(0, len(given) if given.ndim else 0, step))


def refuse(wrong: npt.NDArray[np.bool_], start: int, given: Array, what: str, why: str) -> None:
    """Refuses an array where any cell of the rows from `start` on is wrong, and names the first."""
    if not wrong.any():
        return
    first = np.argwhere(wrong)[0]
    value = given[(start + first[0], *first[1:])]
    names = (f"{name} {at}" for name, at in zip(("row", "column"), (start + first[0], *first[1:]), strict=False))
    raise LimnerError(f"{what}: {', '.join(names)} is {value}, {why}")


def _inexact(given: Array) -> npt.NDArray[np.bool_]:
    """Which numbers float64 cannot hold."""
    if np.issubdtype(given.dtype, np.floating):
        with np.errstate(over="ignore"):
            return np.asarray((given.astype(np.float64).astype(given.dtype) != given) & ~np.isnan(given))
    held = given.astype(np.float64)
    top = 2.0**63 if given.dtype == np.int64 else 2.0**64  # just beyond: the cast back would wrap
    fits = held < top
    return np.asarray(~fits | (np.where(fits, held, 0.0).astype(given.dtype) != given))
