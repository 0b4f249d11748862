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


def array(data: object, name: str) -> Array:
    """Converts anything that holds numbers to an array; missing entries of sparse matrices become 0.

    Args:
        data: An array, a list of rows, a torch tensor of any type on any device (or a list of them), a scipy sparse
            matrix, a pandas, polars or Arrow table or column of vectors, or `Embeddings`.
        name: Used in error messages.

    >>> array([[1, 2], [3, 4]], "similarity matrix").shape
    (2, 2)
    """
    plain = _on_host(data)
    if isinstance(plain, (list, tuple)) and any(hasattr(row, "detach") for row in plain):
        plain = [_on_host(row) for row in plain]
    try:
        converted = plain if type(plain) is np.memmap or isinstance(plain, np.ma.MaskedArray) else np.asarray(plain)
        return _plain(converted) if converted.dtype == object and converted.ndim and len(converted) else converted
    except ValueError as error:
        raise LimnerError(f"{name}: expected an array, or rows of one length ({error})") from error


def _on_host(data: Any) -> object:
    """Copies GPU data, sparse data and types that numpy does not have to an array in memory."""
    if hasattr(data, "detach"):
        return _tensor(data.detach())
    if is_lazy(data):
        return data.collect()
    if hasattr(data, "toarray"):
        return data.toarray()
    return data.get() if hasattr(data, "__cuda_array_interface__") and hasattr(data, "get") else data


def _tensor(tensor: Any) -> Array:
    """Converts a tensor of any type, on any device, to an array in memory."""
    if str(tensor.device) == "meta":
        raise LimnerError(
            f"a tensor of shape {tuple(tensor.shape)} on the device 'meta' holds no numbers: load it first"
        )
    tensor = tensor.dequantize() if tensor.is_quantized else tensor
    tensor = (tensor if str(tensor.layout) == "torch.strided" else tensor.to_dense()).cpu()
    try:
        return np.asarray(tensor.numpy())
    except TypeError:  # bfloat16 and float8
        return np.asarray(tensor.float().numpy())


def _plain(values: Array) -> Array:
    """Converts an object array to numbers if it is a column of vectors, or if it holds only numbers."""
    if values.ndim == 1 or (values.ndim == 2 and values.shape[1] == 1):
        values = _joined(values.reshape(-1))
    is_exact = values.dtype == object and all(_is_exact(value) for value in values.flat)
    return values.astype(np.float64) if is_exact else values


def _is_exact(value: object) -> bool:
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


def is_lazy(data: object) -> bool:
    """Whether this is a polars LazyFrame, which must be collected before it can be read."""
    return hasattr(data, "collect") and hasattr(data, "collect_schema")


def _is_row(data: object) -> bool:
    return isinstance(data, (list, tuple)) or (hasattr(data, "shape") and len(data.shape) == 1)


def is_matrix(data: object) -> bool:
    """Whether this is a two-dimensional input that `array` accepts.

    >>> is_matrix([[1.0, 2.0]]), is_matrix(["a dog", "a cat"]), is_matrix({"q": ["a"]})
    (True, False, False)
    """
    if isinstance(data, (str, bytes, dict)) or not (hasattr(data, "__len__") or hasattr(data, "shape")):
        return False
    if isinstance(data, (list, tuple)) and len(data) and not _is_row(data[0]):
        return False
    try:
        matrix = array(data, "rows")
    except (LimnerError, TypeError):
        return False
    return matrix.ndim == 2 and np.issubdtype(matrix.dtype, np.number)


def numbers(data: Array, name: str) -> Array:
    """Returns the array unchanged; refuses anything but real numbers that float64 represents exactly."""
    if not np.issubdtype(data.dtype, np.number) or np.iscomplexobj(data):
        raise LimnerError(f"{name} of type {data.dtype}: expected real numbers")
    if data.dtype.itemsize > 8 or (data.dtype.itemsize == 8 and data.dtype.kind in "iu"):
        for start, rows in pieces(data):
            wrong = _inexact(np.ma.filled(rows, 0))
            refuse(wrong, start, data, name, "which double precision cannot hold exactly: subtract a constant")
    return data


def unmasked(data: Array, name: str, *, fill: float | None = None) -> Array:
    """Removes the mask of a masked array: masked cells are filled, or refused if there is no fill value."""
    if not isinstance(data, np.ma.MaskedArray):
        return data
    mask = np.ma.getmaskarray(data)
    if fill is None:
        refuse(mask, 0, data, name, "masked: leave it out, or fill it")
    return np.where(mask, fill, data.data) if fill is not None and mask.any() else np.asarray(data.data)


def pieces(data: Array) -> Iterator[tuple[int, Array]]:
    """Yields an array in blocks, as (number of the first row, rows)."""
    step = max(1, _AT_ONCE // max(1, data[:1].size))
    return ((low, data[low : low + step]) for low in range(0, len(data) if data.ndim else 0, step))


def refuse(wrong: npt.NDArray[np.bool_], start: int, data: Array, name: str, why: str) -> None:
    """Raises an error that names the first wrong cell, if there is one; the block begins at row `start`."""
    if not wrong.any():
        return
    first = np.argwhere(wrong)[0]
    value = data[(start + first[0], *first[1:])]
    names = (f"{axis} {at}" for axis, at in zip(("row", "column"), (start + first[0], *first[1:]), strict=False))
    raise LimnerError(f"{name}: {', '.join(names)} is {value}, {why}")


def _inexact(data: Array) -> npt.NDArray[np.bool_]:
    """A mask of the numbers that float64 cannot represent exactly."""
    if np.issubdtype(data.dtype, np.floating):
        with np.errstate(over="ignore"):
            return np.asarray((data.astype(np.float64).astype(data.dtype) != data) & ~np.isnan(data))
    doubles = data.astype(np.float64)
    top = 2.0**63 if data.dtype == np.int64 else 2.0**64  # just out of range: casting back would wrap around
    fits = doubles < top
    return np.asarray(~fits | (np.where(fits, doubles, 0.0).astype(data.dtype) != data))
