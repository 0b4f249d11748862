"""Input checks for all statistics.

Each function returns the clean array or raises a `LimnerError` that says what was expected.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from limner.core.arrays import Array
from limner.core.errors import LimnerError

Vector = npt.NDArray[np.float64]
Codes = npt.NDArray[np.intp]


def numbers(values: npt.ArrayLike, name: str) -> Vector:
    """The values as a float64 array of any shape, or an error if they are not numbers.

    >>> numbers([True, False], "hits")
    array([1., 0.])
    """
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise LimnerError(f"{name}: got rows of unequal length, expected a rectangular array; pad with NaN") from error
    if array.dtype.kind not in "biuf":
        raise LimnerError(f"{name}: got values of type {array.dtype}, expected numbers; convert them first")
    return array.astype(np.float64)


def vector(values: npt.ArrayLike, name: str = "values", *, minimum: int = 1) -> Vector:
    """The values as one finite column of at least `minimum` numbers.

    >>> vector([1, 2])
    array([1., 2.])
    """
    array = numbers(values, name)
    if array.ndim != 1:
        raise LimnerError(f"{name}: got an array of shape {array.shape}, expected one value per query; pass one column")
    if len(array) < minimum:
        raise LimnerError(f"{name}: got {len(array)} values, expected at least {minimum}; there is nothing to estimate")
    refuse_non_finite(array, name)
    return array


def refuse_non_finite(array: Vector, name: str) -> None:
    """Refuses NaN and infinities and says where the first one is."""
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        place = bad[0, 0] if array.ndim == 1 else tuple(int(i) for i in bad[0])
        raise LimnerError(
            f"{name}: got {array[tuple(bad[0])]} at position {place} ({len(bad)} in total), expected finite "
            "numbers; leave these queries out of every system first"
        )


def paired(a: npt.ArrayLike, b: npt.ArrayLike, *, minimum: int = 1) -> tuple[Vector, Vector]:
    """Checks two columns for the same queries in the same order.

    >>> paired([1, 0], [0, 0])
    (array([1., 0.]), array([0., 0.]))
    """
    first, second = vector(a, "a", minimum=minimum), vector(b, "b", minimum=minimum)
    if len(first) != len(second):
        raise LimnerError(
            f"got {len(first)} values for a and {len(second)} for b, expected the same queries in the same order; "
            "restrict both systems to the queries they share"
        )
    return first, second


def binary(a: npt.ArrayLike, b: npt.ArrayLike) -> tuple[Vector, Vector]:
    """Checks two columns of 0 and 1."""
    first, second = paired(a, b)
    for name, column in (("a", first), ("b", second)):
        odd = column[(column != 0) & (column != 1)]
        if odd.size:
            raise LimnerError(f"{name}: got {odd[0]:g}, expected only 0 and 1; use `randomisation` for graded values")
    return first, second


def columns(values: npt.ArrayLike | None, rows: int, name: str) -> Vector:
    """The values as columns with this many rows; no columns if there are no values.

    >>> columns([1, 2], 2, "predictions").shape, columns(None, 2, "predictions").shape
    ((2, 1), (2, 0))
    """
    if values is None:
        return np.zeros((rows, 0))
    table = numbers(values, name)
    table = table[:, None] if table.ndim == 1 else table
    if table.ndim != 2 or len(table) != rows:
        raise LimnerError(f"{name}: got shape {table.shape}, expected {rows} rows")
    return table


def codes(labels: npt.ArrayLike, n: int, name: str) -> Codes:
    """Labels (of clusters or folds) as integers from 0, one for each of `n` values.

    >>> codes(["img7", "img7", "img2"], 3, "clusters")
    array([1, 1, 0])
    """
    array: Array = np.asarray(labels)
    if array.shape != (n,):
        raise LimnerError(f"{name}: got shape {array.shape} for {n} values, expected one label per value")
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise LimnerError(f"{name}: got NaN as a label, expected a name or number for every value; fill it in")
    if array.dtype.kind == "O":
        array = array.astype(str)
    return np.unique(array, return_inverse=True)[1].astype(np.intp)


def joint_codes(labels: Sequence[npt.ArrayLike], columns: Sequence[Vector], name: str) -> list[Codes]:
    """Labels of several columns as integers, with the same integer for the same label in every column.

    >>> joint_codes([["b", "a"], ["c", "b"]], [np.zeros(2), np.zeros(2)], "clusters")
    [array([1, 0]), array([2, 1])]
    """
    arrays = [np.asarray(part) for part in labels]
    for i, (array, column) in enumerate(zip(arrays, columns, strict=True)):
        codes(array, len(column), f"{name} of part {i}")
    ends = np.cumsum([len(column) for column in columns])
    return np.split(codes(np.concatenate(arrays), int(ends[-1]), name), ends[:-1])


def whole_number(value: object, name: str, *, minimum: int) -> int:
    """Checks that a value is an integer of at least `minimum`."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < minimum:
        raise LimnerError(f"{name}: got {value!r}, expected a whole number of at least {minimum}")
    return int(value)


def share(value: float, name: str) -> float:
    """Checks that a value is strictly between 0 and 1."""
    if not 0 < value < 1:
        raise LimnerError(f"{name}: got {value!r}, expected a number between 0 and 1 such as 0.95")
    return float(value)


def one_of(value: str, choices: tuple[str, ...], name: str) -> str:
    """Checks that a value is one of the known ones."""
    if value not in choices:
        raise LimnerError(f"{name}: got {value!r}, expected one of {', '.join(map(repr, choices))}")
    return value
