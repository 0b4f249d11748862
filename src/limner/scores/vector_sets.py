"""Items with several vectors each, with a reader and a writer."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from limner.core.arrays import Array, Float32, IntArray
from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError, UnknownName, shown
from limner.core.files import replacing
from limner.core.ids import Ids
from limner.core.paths import damage_told, parse_json, read_arrays, read_text, refuse_irregular

ENDINGS = (".npz", ".safetensors")
VECTORS, COUNTS, IDS = "vectors", "counts", "ids"
"""The arrays of a file: one row per vector, the number of vectors of every item, and the ids of the items."""


@dataclass(frozen=True, eq=False)
class VectorSets:
    """Items with any number of vectors each, at least one.

    Args:
        ids: One unique id per item.
        vectors: All vectors in the order of the items, those of one item together.
        starts: Where the vectors of each item begin, followed by the number of vectors.

    >>> sets = VectorSets.of({"a": np.eye(2), "b": np.array([[3.0, 4.0]])})
    >>> len(sets), sets.starts.tolist(), sets.subset(["b"]).vectors.matrix.tolist()
    (2, [0, 2, 3], [[3.0, 4.0]])
    """

    ids: Ids
    vectors: Embeddings
    starts: IntArray

    def __post_init__(self) -> None:
        """Checks that every item has vectors, and every vector an item."""
        starts = np.asarray(self.starts)
        fits = starts.shape == (len(self.ids) + 1,) and starts[0] == 0 and starts[-1] == len(self.vectors)
        if not fits or (np.diff(starts) < 1).any():
            raise LimnerError(
                f"{len(self.ids):,} items with {len(self.vectors):,} vectors begin at {shown(starts.ravel())}: "
                "expected starts from 0 that grow with every item and end with the number of vectors (see in_order)"
            )

    @classmethod
    def of(cls, sets: Mapping[str, object]) -> VectorSets:
        """Builds vector sets from {id: array with one row per vector}."""
        parts = [np.atleast_2d(np.asarray(vectors)) for vectors in sets.values()]
        ids = Ids(sets, what="item")
        for name, part in zip(ids, parts, strict=True):
            if part.ndim != 2 or len(part) == 0 or part.shape[1] != parts[0].shape[1]:
                raise LimnerError(
                    f"item {name!r} has vectors of shape {part.shape}: expected one row or more, of "
                    f"{parts[0].shape[1]} numbers as the first item's"
                )
        if not parts:
            raise LimnerError("no items: expected {id: vectors} with at least one item")
        return cls.in_order(ids, np.concatenate(parts), [len(part) for part in parts])

    @classmethod
    def in_order(cls, ids: Iterable[object], vectors: Array, counts: object) -> VectorSets:
        """Builds vector sets from all vectors in the order of the items, and the number of vectors of each item.

        Args:
            ids: One unique id per item.
            vectors: One row per vector, those of one item together.
            counts: One whole number per item, at least 1.

        >>> VectorSets.in_order(["a", "b"], np.eye(3), [2, 1]).starts.tolist()
        [0, 2, 3]
        """
        ids, counted = Ids(ids, what="item"), _counts(counts)
        if not len(ids):
            raise LimnerError("no items: expected at least one")
        if len(counted) != len(ids):
            raise LimnerError(f"{len(counted):,} counts for {len(ids):,} items: expected one count per item")
        bad = np.flatnonzero((counted < 1) | (counted > len(vectors)))
        if len(bad):
            raise LimnerError(
                f"item {ids[int(bad[0])]!r} has {counted[bad[0]]:,} of {len(vectors):,} vectors: expected at least "
                "one, and no more than there are; leave out items without vectors"
            )
        starts = np.concatenate([[0], np.cumsum(counted)]).astype(np.int64)
        if starts[-1] != len(vectors):
            raise LimnerError(f"counts add up to {starts[-1]:,}, but there are {len(vectors):,} vectors")
        return cls(ids, Embeddings(vector_names(ids, starts), vectors), starts)

    @property
    def dim(self) -> int:
        """Dimension of the vectors."""
        return self.vectors.dim

    @property
    def counts(self) -> IntArray:
        """The number of vectors of every item."""
        return np.diff(self.starts)

    def normalised(self) -> VectorSets:
        """Every vector divided by its norm."""
        return VectorSets(self.ids, self.vectors.normalised(), self.starts)

    def subset(self, ids: Iterable[object]) -> VectorSets:
        """These items, in this order."""
        chosen = Ids(ids, what="item")
        rows = self.ids.positions(chosen)
        lengths = np.diff(self.starts)[rows]
        starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        vector_rows = np.repeat(self.starts[rows] - starts[:-1], lengths) + np.arange(starts[-1])
        return VectorSets(chosen, Embeddings(self.vectors.ids[vector_rows], self.vectors.matrix[vector_rows]), starts)

    def part(self, low: int, high: int) -> VectorSets:
        """The items low:high; their vectors are not copied.

        >>> VectorSets.of({"a": np.eye(2), "b": np.ones((1, 2))}).part(1, 2).starts.tolist()
        [0, 1]
        """
        first, last = int(self.starts[low]), int(self.starts[high])
        vectors = Embeddings(self.vectors.ids[first:last], self.vectors.matrix[first:last])
        return VectorSets(self.ids[low:high], vectors, self.starts[low : high + 1] - first)

    def save(self, path: str | Path) -> Path:
        """Writes npz (arrays `vectors`, `counts`, `ids`) or safetensors (the ids are in its metadata)."""
        target = Path(path)
        ending = _ending(target)
        arrays: dict[str, Any] = {VECTORS: np.ascontiguousarray(self.vectors.matrix), COUNTS: self.counts}
        with replacing(target) as file:
            if ending == ".npz":
                np.savez(file, **arrays, ids=np.array(list(self.ids), dtype=np.str_))
            else:
                from safetensors.numpy import save_file

                save_file(arrays, file, {IDS: json.dumps(list(self.ids))})
        return target

    @classmethod
    def load(cls, path: str | Path, *, ids: str | Path | None = None) -> VectorSets:
        """Reads what `save` writes; the arrays `vectors` and `counts` may come from any program.

        Args:
            path: An npz or safetensors file.
            ids: A text file with one id per line; by default the ids in the file, or else row numbers.
        """
        source = Path(path)
        ending = _ending(source)
        refuse_irregular(source, what="vector sets")
        if not source.is_file():
            raise LimnerError(f"no file {source}: expected vector sets, {' or '.join(ENDINGS)}")
        with damage_told(source, what="file of vector sets", mend="save it again"):
            arrays, stored = _npz(source) if ending == ".npz" else _safetensors(source)
            if VECTORS not in arrays or COUNTS not in arrays:
                raise LimnerError(
                    f"{source} holds {shown(arrays)}: expected the arrays {VECTORS!r}, one row per vector, and "
                    f"{COUNTS!r}, the number of vectors of every item"
                )
            vectors, counts = np.asarray(arrays[VECTORS]), np.asarray(arrays[COUNTS])
        if ids is not None:
            stored = read_text(ids, what="file of ids").splitlines()
        try:
            if vectors.ndim != 2:
                raise LimnerError(f"vectors have shape {vectors.shape}: expected one row per vector")
            return cls.in_order(range(counts.size) if stored is None else stored, vectors, counts)
        except LimnerError as error:
            raise LimnerError(f"{source}: {error}") from error

    def __len__(self) -> int:
        return len(self.ids)


def vector_names(ids: Iterable[str], starts: IntArray) -> Ids:
    """Ids of the vectors, for messages: the id of the item and the place in it.

    >>> list(vector_names(["a", "b"], np.array([0, 2, 3])))
    ['a#0', 'a#1', 'b#0']
    """
    lengths = np.diff(starts).tolist()
    return Ids((f"{key}#{n}" for key, count in zip(ids, lengths, strict=True) for n in range(count)), what="vector")


def holds_sets(path: str | Path) -> bool:
    """Whether a file holds vector sets rather than one vector per item: whether it has an array `counts`."""
    file = Path(path)
    if file.suffix.lower() not in ENDINGS or not file.is_file():
        return False
    try:
        if file.suffix.lower() == ".npz":
            with zipfile.ZipFile(file) as archive:
                return f"{COUNTS}.npy" in archive.namelist()
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(file, framework="numpy") as arrays:
                return COUNTS in arrays.keys()  # noqa: SIM118  # not a mapping
        except SafetensorError:
            return False
    except (zipfile.BadZipFile, OSError, NotImplementedError, ValueError):  # told when it is read
        return False


def _ending(path: Path) -> str:
    if path.suffix.lower() not in ENDINGS:
        raise UnknownName("ending of a file of vector sets", path.suffix or path.name, ENDINGS)
    return path.suffix.lower()


def _npz(path: Path) -> tuple[dict[str, Array], list[str] | None]:
    arrays = read_arrays(path, what="vector sets")
    return arrays, [str(key) for key in arrays[IDS]] if IDS in arrays else None


def _safetensors(path: Path) -> tuple[dict[str, Array], list[str] | None]:
    from safetensors import safe_open

    with safe_open(path, framework="numpy") as archive:
        metadata = archive.metadata() or {}
        arrays: dict[str, Float32] = {name: archive.get_tensor(name) for name in archive.keys()}  # noqa: SIM118
    if IDS not in metadata:
        return arrays, None
    ids = parse_json(metadata[IDS], where=f"the list of ids in {path}")
    if not isinstance(ids, list):
        raise LimnerError(f"the ids in {path} are of type {type(ids).__name__}: expected a list, one id per item")
    return arrays, [str(key) for key in ids]


def _counts(values: object) -> IntArray:
    counts = np.asarray(values)
    if counts.ndim != 1 or not np.issubdtype(counts.dtype, np.integer):
        raise LimnerError(
            f"counts have shape {counts.shape} and type {counts.dtype}: expected one whole number per item"
        )
    if counts.dtype == np.uint64 and len(counts) and counts.max() > np.iinfo(np.int64).max:
        raise LimnerError(f"a count is {counts.max():,}: expected the number of vectors of an item")
    return counts.astype(np.int64)
