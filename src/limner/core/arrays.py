"""Converts numeric input to arrays: lists, tensors, sparse and masked matrices, integers of any size.

Nothing is lost silently: a number that the target type cannot hold is refused, with its row and column.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from limner.core.errors import LimnerError

Array = npt.NDArray[Any]
"""Numbers of any type."""
BoolArray = npt.NDArray[np.bool_]
Float32 = npt.NDArray[np.float32]
FloatArray = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
IntArray = npt.NDArray[np.int64]
_AT_ONCE = 1 << 22  # numbers per step, so that a memory-mapped file stays on disk


def array(given: object, what: str) -> Array:
    """Converts anything that holds numbers to an array; missing entries of sparse matrices become 0.

    Args:
        given: An array, a list of rows, a torch tensor of any type on any device (or a list of them), a scipy sparse
            matrix, a pandas, polars or Arrow table or column of vectors, or `Embeddings`.
        what: Used in error messages.

    >>> array([[1, 2], [3, 4]], "similarity matrix").shape
    (2, 2)
    """
    plain = _on_host(given)
    if isinstance(plain, (list, tuple)) and any(hasattr(row, "detach") for row in plain):
        plain = [_on_host(row) for row in plain]
    try:
        found = plain if type(plain) is np.memmap or isinstance(plain, np.ma.MaskedArray) else np.asarray(plain)
        return _plain(found) if found.dtype == object and found.ndim and len(found) else found
    except ValueError as error:
        raise LimnerError(f"{what}: expected an array, or rows of one length ({error})") from error


def _on_host(given: Any) -> object:
    """Copies GPU data, sparse data and types that numpy does not have to an array in memory."""
    if hasattr(given, "detach"):
        return _tensor(given.detach())
    if is_lazy(given):
        return given.collect()
    if hasattr(given, "toarray"):
        return given.toarray()
    return given.get() if hasattr(given, "__cuda_array_interface__") and hasattr(given, "get") else given


def _tensor(held: Any) -> Array:
    """Converts a tensor of any type, on any device, to an array in memory."""
    if str(held.device) == "meta":
        raise LimnerError(f"a tensor of shape {tuple(held.shape)} on the device 'meta' holds no numbers: load it first")
    held = held.dequantize() if held.is_quantized else held
    held = (held if str(held.layout) == "torch.strided" else held.to_dense()).cpu()
    try:
        return np.asarray(held.numpy())
    except TypeError:  # bfloat16 and float8
        return np.asarray(held.float().numpy())


def _plain(found: Array) -> Array:
    """Converts an object array to numbers if it is a column of vectors, or if it holds only numbers."""
    if found.ndim == 1 or (found.ndim == 2 and found.shape[1] == 1):
        found = _joined(found.reshape(-1))
    held = found.dtype == object and all(_is_held(value) for value in found.flat)
    return found.astype(np.float64) if held else found


def _is_held(value: object) -> bool:
    """Whether a number is certainly exact in double precision."""
    if isinstance(value, (int, np.integer)):
        return abs(int(value)) <= 1 << 53
    return isinstance(value, (float, np.floating))


def _joined(column: Array) -> Array:
    """Stacks a column of vectors into a matrix."""
    first = _on_host(column[0])
    if not isinstance(first, (list, tuple, np.ndarray)) or np.ndim(first) != 1:
        return column
    return np.stack([np.asarray(_on_host(row)) for row in column])


def is_lazy(given: object) -> bool:
    """Whether this is a polars LazyFrame, which must be collected before it can be read."""
    return hasattr(given, "collect") and hasattr(given, "collect_schema")


def _is_row(given: object) -> bool:
    return isinstance(given, (list, tuple)) or (hasattr(given, "shape") and len(given.shape) == 1)


def is_matrix(given: object) -> bool:
    """Whether this is a two-dimensional input that `array` accepts.

    >>> is_matrix([[1.0, 2.0]]), is_matrix(["a dog", "a cat"]), is_matrix({"q": ["a"]})
    (True, False, False)
    """
    if isinstance(given, (str, bytes, dict)) or not (hasattr(given, "__len__") or hasattr(given, "shape")):
        return False
    if isinstance(given, (list, tuple)) and len(given) and not _is_row(given[0]):
        return False
    try:
        found = array(given, "rows")
    except (LimnerError, TypeError):
        return False
    return found.ndim == 2 and np.issubdtype(found.dtype, np.number)


def numbers(given: Array, what: str) -> Array:
    """Returns the array unchanged; refuses anything but real numbers that float64 represents exactly."""
    if not np.issubdtype(given.dtype, np.number) or np.iscomplexobj(given):
        raise LimnerError(f"{what} of type {given.dtype}: expected real numbers")
    if given.dtype.itemsize > 8 or (given.dtype.itemsize == 8 and given.dtype.kind in "iu"):
        for start, rows in pieces(given):
            wrong = _inexact(np.ma.filled(rows, 0))
            refuse(wrong, start, given, what, "which double precision cannot hold exactly: subtract a constant")
    return given


def unmasked(given: Array, what: str, *, fill: float | None = None) -> Array:
    """Removes the mask of a masked array: masked cells are filled, or refused if there is no fill value."""
    if not isinstance(given, np.ma.MaskedArray):
        return given
    mask = np.ma.getmaskarray(given)
    if fill is None:
        refuse(mask, 0, given, what, "masked: leave it out, or fill it")
    return np.where(mask, fill, given.data) if fill is not None and mask.any() else np.asarray(given.data)


def pieces(given: Array) -> Iterator[tuple[int, Array]]:
    """Yields an array in blocks, as (number of the first row, rows)."""
    step = max(1, _AT_ONCE // max(1, given[:1].size))
    return ((low, given[low : low + step]) for low in range(0, len(given) if given.ndim else 0, step))


def refuse(wrong: npt.NDArray[np.bool_], start: int, given: Array, what: str, why: str) -> None:
    """Raises an error that names the first wrong cell, if there is one; the block begins at row `start`."""
    if not wrong.any():
        return
    first = np.argwhere(wrong)[0]
    value = given[(start + first[0], *first[1:])]
    names = (f"{name} {at}" for name, at in zip(("row", "column"), (start + first[0], *first[1:]), strict=False))
    raise LimnerError(f"{what}: {', '.join(names)} is {value}, {why}")


def _inexact(given: Array) -> npt.NDArray[np.bool_]:
    """A mask of the numbers that float64 cannot represent exactly."""
    if np.issubdtype(given.dtype, np.floating):
        with np.errstate(over="ignore"):
            return np.asarray((given.astype(np.float64).astype(given.dtype) != given) & ~np.isnan(given))
    held = given.astype(np.float64)
    top = 2.0**63 if given.dtype == np.int64 else 2.0**64  # just out of range: casting back would wrap around
    fits = held < top
    return np.asarray(~fits | (np.where(fits, held, 0.0).astype(given.dtype) != given))
