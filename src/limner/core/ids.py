"""Ids: unique strings in a fixed order. Every array is stored with its ids, so that rows are never confused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from hashlib import blake2b
from itertools import repeat
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from limner.core.arrays import Array, IntArray
from limner.core.errors import LimnerError, UnknownId, shown


class _Tables:
    """What is computed from an array of ids on first use; ids that share the array share it."""

    def __init__(self, array: npt.NDArray[np.object_]) -> None:
        self.array = array

    @cached_property
    def positions(self) -> dict[str, int]:
        """The row of every id."""
        return {value: row for row, value in enumerate(self.array)}

    @cached_property
    def hashes(self) -> npt.NDArray[np.uint64]:
        """An eight-byte hash of every id."""
        joined = b"".join([_hash(i.encode()) for i in self.array])
        return np.frombuffer(joined, dtype="<u8").astype(np.uint64)


class Ids(Sequence[str]):
    """Unique, non-empty strings in order, with constant-time look-up of positions.

    Args:
        values: The ids. Integers become decimal strings, so COCO's numeric ids work as they are.
        what: What the ids identify ("image", "text", "query"); used in error messages only.

    >>> ids = Ids(["a", "b", "c"])
    >>> ids.index("b"), list(ids[[2, 0]]), "z" in ids
    (1, ['c', 'a'], False)
    """

    __slots__ = ("_tables", "array", "what")

    def __init__(self, values: Iterable[object], *, what: str = "id") -> None:
        """Copies, checks and freezes the ids."""
        self.what = what
        self.array: npt.NDArray[np.object_]
        self._tables: _Tables
        if isinstance(values, Ids):
            self.array = values.array
            self._tables = values._tables  # both derive from the same array
            return
        listed = [v if type(v) is str else str(v) for v in values]
        self.array = np.empty(len(listed), dtype=object)
        self.array[:] = listed
        self.array.flags.writeable = False
        self._tables = _Tables(self.array)
        self._refuse_bad(listed)

    def _refuse_bad(self, listed: list[str]) -> None:
        distinct = set(listed)
        if len(distinct) != len(listed):
            first: dict[str, int] = {}
            for row, value in enumerate(listed):
                if value in first:
                    raise LimnerError(
                        f"duplicate {self.what} id {value!r} in rows {first[value]} and {row}: ids must be unique; "
                        "rename one or remove the repeated row"
                    )
                first[value] = row
        self._refuse_broken(listed)
        if "" in distinct:
            raise LimnerError(f"empty {self.what} id in row {listed.index('')}: every row needs an id")

    def _refuse_broken(self, listed: list[str]) -> None:
        """Refuses lone surrogates, which come from file names that are not UTF-8: they cannot be printed or saved."""
        try:
            "".join(listed).encode()
        except UnicodeEncodeError:
            row = next(n for n, value in enumerate(listed) if any("\ud800" <= c <= "\udfff" for c in value))
            raise LimnerError(
                f"{self.what} id {listed[row]!a} in row {row} is not valid Unicode: rename the file, or save the "
                "ids as UTF-8"
            ) from None

    @property
    def hashes(self) -> npt.NDArray[np.uint64]:
        """An eight-byte hash of every id, the same on every machine."""
        return self._tables.hashes

    def index(self, value: object, start: int = 0, stop: int | None = None) -> int:
        """The position of one id; refuses an unknown id."""
        try:
            return self._tables.positions[str(value)]
        except KeyError:
            raise UnknownId(
                f"unknown {self.what} id {str(value)!r}: not among the {len(self)} {self.what} ids"
            ) from None

    def positions(self, values: Iterable[object]) -> IntArray:
        """Positions of many ids at once; raises an error that names the first few unknown ids."""
        rows = self.find(values)
        if (rows < 0).any():
            missing = [str(v) for v, row in zip(values, rows, strict=True) if row < 0]
            raise UnknownId(
                f"{len(missing)} of {len(rows)} {self.what} ids are unknown ({shown(missing)}): "
                f"expected ids such as {shown(self, most=2)}"
            )
        return rows

    def find(self, values: Iterable[object]) -> IntArray:
        """Positions of many ids, -1 for unknown ids (for internal joins; `positions` raises an error instead)."""
        if isinstance(values, Ids) and values == self:
            return np.arange(len(self))
        get = self._tables.positions.get
        if isinstance(values, Ids):
            return np.fromiter(map(get, values.array, repeat(-1)), dtype=np.int64, count=len(values))
        return np.fromiter((get(v if type(v) is str else str(v), -1) for v in values), dtype=np.int64)

    def __len__(self) -> int:
        return len(self.array)

    def __iter__(self) -> Iterator[str]:
        return iter(self.array)

    def __contains__(self, value: object) -> bool:
        return value in self._tables.positions

    @overload
    def __getitem__(self, key: int) -> str: ...
    @overload
    def __getitem__(self, key: slice) -> Ids: ...
    @overload
    def __getitem__(self, key: Sequence[int] | Array) -> Ids: ...
    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, (int, np.integer)):
            return self.array[key]
        chosen = self.array[key]
        if isinstance(key, slice) or (isinstance(key, np.ndarray) and _ascending(key)):
            return self._checked(chosen)
        return Ids(chosen, what=self.what)

    def _checked(self, chosen: npt.NDArray[np.object_]) -> Ids:
        """Some of these ids, each at most once, which need no further checks."""
        ids = Ids((), what=self.what)
        ids.array = chosen.copy()
        ids.array.flags.writeable = False
        ids._tables = _Tables(ids.array)
        return ids

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ids) and (self.array is other.array or bool(np.array_equal(self.array, other.array)))

    def __hash__(self) -> int:
        return hash(tuple(self.array))

    def __repr__(self) -> str:
        return f"Ids({len(self)} of {self.what}: {shown(self)})"


_EMPTY = blake2b(digest_size=8)


def _hash(value: bytes) -> bytes:
    """Eight bytes of BLAKE2; copying an empty hash takes less time than making one."""
    digest = _EMPTY.copy()
    digest.update(value)
    return digest.digest()


def _ascending(key: Array) -> bool:
    """Whether an index selects every row at most once, as masks and ascending positions do."""
    if key.ndim != 1 or key.dtype.kind not in "biu":
        return False
    return key.dtype.kind == "b" or (bool((key[1:] > key[:-1]).all()) and (not len(key) or int(key[0]) >= 0))
