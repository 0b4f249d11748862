"""Data transfer to the workers: large arrays once, ids as a count, files on shared storage by name."""

from __future__ import annotations

import io
import pickle
import uuid
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from limner.core.arrays import Array
from limner.core.embeddings import Embeddings
from limner.core.ids import Ids
from limner.scores.vectors import VectorScores

LARGE = 1 << 20
"""Arrays of at least this many bytes go into the object store: each node holds one copy, which workers map."""


@dataclass(frozen=True)
class Unnamed:
    """A placeholder for ids where only their number matters: blocks use positions."""

    count: int

    def __len__(self) -> int:
        return self.count


@dataclass(frozen=True)
class Mapped:
    """An array in a file on shared storage."""

    path: str
    dtype: str
    offset: int
    shape: tuple[int, ...]
    order: str

    def open(self) -> Array:
        """Maps the file; pages are read when a product needs them."""
        return np.memmap(self.path, self.dtype, "r", self.offset, self.shape, self.order)  # type: ignore[call-overload,no-any-return]


@dataclass
class Post:
    """Sends arrays once per connection, even if several passes use them."""

    shared: Path | None = None
    _sent: dict[tuple[int, int, int], tuple[weakref.ref[Array], object]] = field(default_factory=dict)

    def rows(self, array: Array, low: int, high: int) -> object:
        """Rows of an array as an argument for a task: a reference into the object store, or the file's location."""
        import ray

        if (mapped := self.mapped(array[low:high])) is not None:
            return mapped
        key = (id(array), low, high)
        if key not in self._sent:
            reference = ray.put(np.asarray(array[low:high]))
            self._sent[key] = weakref.ref(array, lambda _: self._sent.pop(key, None)), reference
        return self._sent[key][1]

    def mapped(self, array: Array) -> Mapped | None:
        """The location of an array on shared storage, or None."""
        order = "C" if array.flags.c_contiguous else "F" if array.flags.f_contiguous else None
        if self.shared is None or order is None or not isinstance(array, np.memmap) or not array.filename:
            return None
        if not Path(array.filename).resolve().is_relative_to(self.shared.resolve()):
            return None
        file = array
        while isinstance(file.base, np.memmap):
            file = file.base
        offset = file.offset + array.ctypes.data - file.ctypes.data
        return Mapped(str(Path(array.filename).resolve()), array.dtype.str, offset, array.shape, order)

    def pack(self, value: object) -> Packed:
        """Pickles an object, with its large arrays stored separately."""
        from ray.cloudpickle import CloudPickler

        post, arrays, buffer = self, list[object](), io.BytesIO()

        class Packer(CloudPickler):  # type: ignore[misc]  # Ray publishes no types for it
            def persistent_id(self, part: object) -> int | None:
                if (
                    not isinstance(part, np.ndarray)
                    or type(part) not in (np.ndarray, np.memmap)
                    or part.nbytes < LARGE
                    or part.dtype.hasobject
                ):
                    return None
                arrays.append(post.rows(part, 0, len(part)))
                return len(arrays) - 1

            def reducer_override(self, part: object) -> object:
                return (Unnamed, (len(part),)) if isinstance(part, Ids) else super().reducer_override(part)

        Packer(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
        return Packed(uuid.uuid4().hex, buffer.getvalue(), tuple(arrays))


@dataclass(frozen=True)
class Packed:
    """A serialised object: its pickle, and references to its large arrays."""

    key: str
    head: bytes
    arrays: tuple[object, ...]

    def open(self) -> Any:
        """The object; its large arrays are views of shared memory. The last one is cached for the next task."""
        if self.key not in _OPENED:
            _OPENED.clear()
            _OPENED[self.key] = _Unpacker(self.head, self._array).load()
        return _OPENED[self.key]

    def _array(self, number: int) -> Array:
        import ray

        array = self.arrays[number]
        return array.open() if isinstance(array, Mapped) else ray.get(array)


class _Unpacker(pickle.Unpickler):
    def __init__(self, head: bytes, array: Callable[[int], Array]) -> None:
        super().__init__(io.BytesIO(head))
        self.persistent_load = array  # type: ignore[method-assign]  # documented as a method or attribute


_OPENED: dict[str, object] = {}


def opened(array: Array | Mapped) -> Array:
    """The array behind a task argument."""
    return array.open() if isinstance(array, Mapped) else array


def products(queries: Array, candidates: Array) -> VectorScores:
    """Scores of vectors that are already validated: nothing is copied, and rows have no ids."""
    return VectorScores(_unnamed(queries), _unnamed(candidates))


def _unnamed(matrix: Array) -> Embeddings:
    vectors = object.__new__(Embeddings)
    object.__setattr__(vectors, "ids", Unnamed(len(matrix)))
    object.__setattr__(vectors, "matrix", matrix)
    object.__setattr__(vectors, "max_norm", 1.0)  # products that might overflow are not computed in shards
    return vectors
