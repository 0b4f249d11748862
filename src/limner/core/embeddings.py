"""Embeddings: one float32 vector per id, with readers and writers for common file formats."""

from __future__ import annotations

import json
import os
import re
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from limner.core.arrays import Array, Float32, array, is_lazy, pieces, refuse, unmasked
from limner.core.arrow_tables import arrow_module, parquet_batches, parquet_module
from limner.core.errors import LimnerError, UnknownName, ZeroVectors, shown
from limner.core.files import replacing, write_text
from limner.core.ids import Ids
from limner.core.paths import damage_told, parse_json, read_arrays, read_text, refuse_irregular
from limner.core.tensors import read_array, read_tensors, write_tensors

_STEPS = 4096  # for unit vectors, dot products on this grid add up to at most 2 ** 24
_ROWS_AT_ONCE = (
    65_536  # checks and conversions go through the matrix in pieces, so that a memory-mapped file stays on disk
)
_ROWS_IN_CACHE = 256  # double precision, which nothing but a few rows at a time is computed in


@dataclass(frozen=True, eq=False)
class Embeddings:
    """Vectors with ids. Refuses NaN, infinite and all-zero rows, and names the first such row.

    Args:
        ids: One unique id per row.
        matrix: Rows by dimensions: an array, a list of rows, a torch tensor, or anything `limner.core.arrays.array`
            accepts. Kept unchanged if it is float32 (a memory-mapped file stays mapped), converted otherwise.

    >>> e = Embeddings(["a", "b"], np.array([[3.0, 4.0], [0.0, 2.0]]))
    >>> e.normalised().matrix.tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 1.0]]
    """

    ids: Ids
    matrix: Float32
    max_norm: float = field(init=False, repr=False)
    """The largest Euclidean norm: no score exceeds the product of the two largest norms."""

    def __post_init__(self) -> None:
        """Checks shapes and values and freezes the matrix."""
        object.__setattr__(self, "ids", Ids(self.ids, what="embedding"))
        matrix = unmasked(array(self.matrix, "embeddings"), "embeddings")
        if matrix.ndim != 2 or matrix.shape[1] == 0:
            raise LimnerError(
                f"embeddings have shape {matrix.shape}: expected rows by dimensions, at least one dimension"
            )
        _refuse_type(matrix)
        if len(self.ids) != len(matrix):
            raise LimnerError(f"{len(self.ids)} ids for {len(matrix)} rows of embeddings: expected one id per row")
        with np.errstate(over="ignore"):  # refused below
            single = matrix.astype(np.float32, copy=False).view()
        single.flags.writeable = False
        object.__setattr__(self, "matrix", single)
        self._refuse_bad_rows(matrix)

    def _refuse_bad_rows(self, values: Array) -> None:
        max_norm = 0.0
        for low in range(0, len(self.matrix), _ROWS_AT_ONCE):
            squares = _squares(self.matrix[low : low + _ROWS_AT_ONCE])  # NaN and infinity survive them
            if not 0 < squares.min() <= squares.max() < np.inf:
                bad = np.flatnonzero(~np.isfinite(squares) | (squares == 0))
                at = low + int(bad[0])
                message = (
                    f"embedding row {at} (id {self.ids[at]!r}) {_kind(values[at])}: {len(bad)} such rows in rows {low} "
                    f"to {low + len(squares) - 1}; encode that item again or leave it out"
                )
                if squares[bad[0]] == 0:
                    raise ZeroVectors(message, np.flatnonzero(~self.matrix.any(axis=1)).tolist())
                raise LimnerError(message)
            max_norm = max(max_norm, float(np.sqrt(squares.max())))
        object.__setattr__(self, "max_norm", max_norm)

    @classmethod
    def of(cls, vectors: object, *, ids: Iterable[object] | None = None, prefix: str = "") -> Embeddings:
        """Converts anything that holds vectors to `Embeddings`; `Embeddings` are returned unchanged.

        Args:
            vectors: Embeddings, {id: vector}, a table with a column "id" and one of vectors, or what
                `limner.core.arrays.array` accepts. The index of a pandas DataFrame gives the ids, unless it only
                numbers the rows.
            ids: Ids of rows without ids; row numbers by default.
            prefix: Prefix of the row numbers.

        >>> list(Embeddings.of([[1.0, 0.0]], prefix="image-").ids)
        ['image-0']
        """
        if isinstance(vectors, Embeddings):
            return vectors
        named = named_vectors(vectors)
        if named is not None:
            return cls(Ids(named[0] if ids is None else ids, what="embedding"), named[1])
        matrix = array(vectors, "embeddings")
        rows = len(matrix) if matrix.ndim else 0
        return cls(Ids((f"{prefix}{row}" for row in range(rows)) if ids is None else ids, what="embedding"), matrix)

    @property
    def dim(self) -> int:
        """Dimension of the vectors."""
        return int(self.matrix.shape[1])

    def normalised(self) -> Embeddings:
        """The L2-normalised vectors."""
        unit = np.empty(self.matrix.shape, np.float32)
        for low in range(0, len(unit), _ROWS_IN_CACHE):
            rows = self.matrix[low : low + _ROWS_IN_CACHE]
            unit[low : low + _ROWS_IN_CACHE] = rows / np.sqrt(_squares(rows))[:, None]
        return Embeddings(self.ids, unit)

    @classmethod
    def of_length_one(cls, ids: Iterable[object], vectors: Array) -> Embeddings:
        """L2-normalised vectors; double precision input is rounded to a grid on which every dot product is exact.

        Two CPUs, or two versions of a linear algebra library, differ in the last digit of a double. Rounded to
        multiples of 1 / 4096, their vectors are the same, except for one in many millions that lies within 1e-12 of a
        midpoint. Products of such vectors are multiples of 2 ** -24, and single precision represents every sum of them
        up to 1 exactly: scores, ranks and ties do not depend on the order of summation. A score is off by about 1e-4.

        Single precision vectors are normalised and not rounded.

        Args:
            ids: One unique id per row.
            vectors: Rows by dimensions.

        >>> Embeddings.of_length_one(["a"], np.array([[3.0, 4.0]])).matrix.tolist()
        [[0.599853515625, 0.7998046875]]
        """
        squares = np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)
        unit = vectors / np.sqrt(np.where(squares > 0, squares, 1.0))[:, None]
        rounded = _on_grid(unit) if vectors.dtype == np.float64 else unit
        return cls(Ids(ids, what="embedding"), rounded.astype(np.float32))

    def subset(self, ids: Iterable[object]) -> Embeddings:
        """These rows, in this order; refuses ids that have no embedding."""
        chosen = Ids(ids, what="embedding")
        return self if chosen == self.ids else Embeddings(chosen, self.matrix[self.ids.positions(chosen)])

    def save(self, path: str | Path) -> Path:
        """Writes npy, npz, safetensors, parquet or pt, depending on the file extension.

        An npy file stores the ids after the array, where other programs ignore them; for those, `<name>.ids.txt` is
        written next to it.
        """
        target = Path(path)
        write = _format(target).write
        with replacing(target) as file:
            write(file, self)
        if target.suffix.lower() == ".npy":
            write_text(_ids_file(target), _lines(self.ids))
        return target

    @classmethod
    def load(cls, path: str | Path, *, ids: Iterable[object] | str | Path | None = None) -> Embeddings:
        """Reads npy, npz, safetensors, parquet, or pt (a tensor, or {"embeddings": tensor, "ids": [...]}).

        Args:
            path: The file. An npy file is memory-mapped. Or a folder of npy files whose names end in their number, such
                as `img_emb` of clip-retrieval: they are joined in that order.
            ids: Ids, or a text file with one per line, for files without ids; `<name>.ids.txt` next to the file is
                found automatically, and without it rows are numbered from 0. An npy file saved by limner contains its
                ids: a different list next to it is refused.
        """
        source = Path(path)
        if os.path.isdir(source):
            matrix = _joined(source)
            row_ids = _read_ids(ids) if isinstance(ids, (str, Path)) else ids
            return cls(Ids(range(len(matrix)) if row_ids is None else row_ids, what="embedding"), matrix)
        refuse_irregular(source, what="embeddings")
        if not os.path.isfile(source):
            raise LimnerError(f"no embeddings file {source}: expected .npy, .npz, .safetensors, .parquet or .pt")
        with damage_told(source, what="file of embeddings", mend="save them again"):
            matrix, stored = _format(source).read(source)
        if not np.size(matrix) or not np.ndim(matrix):
            raise LimnerError(f"{source} holds no vectors: its shape is {np.shape(matrix)}; encode some items first")
        row_ids = _read_ids(ids) if isinstance(ids, (str, Path)) else ids
        if row_ids is None:
            row_ids = _found_ids(source, stored, len(matrix))
        try:
            return cls(Ids(row_ids, what="embedding"), matrix)
        except LimnerError as error:
            raise LimnerError(f"{source}: {error}") from error

    def __len__(self) -> int:
        return len(self.ids)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        """The vectors, for numpy and libraries built on it."""
        return np.array(self.matrix, dtype=dtype, copy=copy)

    def __repr__(self) -> str:
        return f"Embeddings({len(self):,} x {self.dim})"


def _joined(folder: Path) -> Array:
    """The vectors of all npy files of a folder, by the number at the end of their names."""
    numbered = {file: re.search(r"(\d+)$", file.stem) for file in sorted(folder.glob("*.npy"))}
    files = sorted((int(match[1]), file) for file, match in numbered.items() if match)
    if not files:
        raise LimnerError(
            f"{folder} contains no embeddings: expected .npy files whose names end in a number, such as img_emb_0.npy"
        )
    parts = []
    for _, file in files:
        refuse_irregular(file, what="embeddings")
        with damage_told(file, what="file of embeddings", mend="save them again"):
            parts.append(np.asarray(_format(file).read(file)[0]))
        if parts[-1].ndim != 2 or parts[-1].shape[1:] != parts[0].shape[1:]:
            raise LimnerError(
                f"{file} has shape {parts[-1].shape}, but {files[0][1].name} has {parts[0].shape}: expected vectors of "
                "the same dimension"
            )
    return np.concatenate(parts)


def named_vectors(data: Any) -> tuple[list[object], Any] | None:
    """Returns (ids, vectors) of an object that holds both; None for anything else.

    >>> named_vectors({"a": [1.0, 2.0]})
    (['a'], [[1.0, 2.0]])
    """
    if isinstance(data, Mapping):
        return list(data), list(data.values())
    table = data.collect() if is_lazy(data) else data
    names = getattr(table, "column_names", getattr(table, "columns", None))
    if names is None or not hasattr(table, "__getitem__"):
        return None
    keys = [name for name in names if name in ("id", "ids")]
    columns = [name for name in names if name not in keys]
    if len(keys) == len(columns) == 1:
        return _listed(table[keys[0]]), table[columns[0]]
    index = getattr(table, "index", None)
    if index is not None and type(index).__name__ != "RangeIndex" and index.is_unique:
        return list(index), table
    return (list(range(len(table[columns[0]]))), table[columns[0]]) if len(names) == 1 == len(columns) else None


def _listed(column: Iterable[object]) -> list[object]:
    return list(column.to_pylist() if hasattr(column, "to_pylist") else column)


def _squares(rows: Float32) -> npt.NDArray[np.float64]:
    """The squared length of every row, in double precision."""
    squares = np.empty(len(rows))
    for low in range(0, len(rows), _ROWS_IN_CACHE):
        part = rows[low : low + _ROWS_IN_CACHE].astype(np.float64)
        squares[low : low + _ROWS_IN_CACHE] = np.vecdot(part, part)
    return squares


def _kind(row: Array) -> str:
    """Describes what is wrong with a row."""
    if not np.isfinite(row).all():
        return "holds NaN or an infinite value"
    if np.abs(row).max() > np.finfo(np.float32).max:
        return "holds a number too large for single precision"
    return "is all zeros" if not row.any() else "is all zeros in single precision"


@dataclass(frozen=True)
class _Format:
    read: Callable[[Path], tuple[Array, list[str] | None]]
    write: Callable[[Path, Embeddings], None]


def _format(path: Path) -> _Format:
    formats = {".npy": _NPY, ".npz": _NPZ, ".safetensors": _SAFETENSORS, ".parquet": _PARQUET, ".pt": _TORCH}
    formats[".pth"] = _TORCH
    if path.suffix.lower() not in formats:
        raise UnknownName("embeddings file ending", path.suffix or path.name, formats)
    return formats[path.suffix.lower()]


def _on_grid(unit: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Unit vectors on the grid; vectors that rounding would make longer than 1 are scaled down first."""
    steps, shorter = np.rint(unit * _STEPS), 0.0
    while len(long := np.flatnonzero(np.einsum("ij,ij->i", steps, steps) > _STEPS**2)):
        shorter += 0.5
        steps[long] = np.rint(unit[long] * (_STEPS - shorter))
    return steps / _STEPS


def _refuse_type(matrix: Array) -> None:
    """Refuses non-numbers, and integers that single precision cannot represent."""
    if np.issubdtype(matrix.dtype, np.floating):
        return
    if not np.issubdtype(matrix.dtype, np.integer):
        raise LimnerError(f"embeddings are of type {matrix.dtype}: expected floating point or whole numbers")
    for start, rows in pieces(matrix):
        wrong = np.asarray(np.abs(rows.astype(np.float64)) > 2.0**24)
        refuse(
            wrong, start, matrix, "embeddings", "which single precision cannot hold: expected floating point numbers"
        )


def _ids_file(path: Path) -> Path:
    return path.with_suffix(".ids.txt")


def _lines(ids: Iterable[str]) -> str:
    return "".join(f"{key}\n" for key in ids)


def _found_ids(source: Path, stored: list[str] | None, rows: int) -> Iterable[object]:
    """The ids in the file, or next to it, or else row numbers; if both lists exist, they must agree."""
    id_list = _ids_file(source)
    if source.suffix.lower() != ".npy" or not id_list.is_file():
        return range(rows) if stored is None else stored
    listed = _read_ids(id_list)
    if stored is not None and stored != listed:
        raise LimnerError(
            f"{id_list} is not the list of ids that {source} was saved with: remove it to use those ids, or pass it "
            "with ids= (--ids) to use it anyway"
        )
    return listed


def _read_ids(path: str | Path) -> list[str]:
    return read_text(path, what="file of ids").splitlines()


def _chosen(names: Iterable[str], path: Path) -> str:
    """The array that holds the vectors: the only one, or one with the usual name."""
    arrays = [n for n in names if n != "ids"]
    usual = [n for n in ("embeddings", "matrix", "vectors", "features") if n in arrays]
    if len(arrays) == 1 or usual:
        return usual[0] if usual else arrays[0]
    raise LimnerError(f"{path} holds {shown(arrays)}: expected one array, or one named 'embeddings'")


def _read_npy(path: Path) -> tuple[Array, list[str] | None]:
    return read_array(path, what="embeddings"), _ids_behind(path)


def _write_npy(path: Path, embeddings: Embeddings) -> None:
    np.save(path, embeddings.matrix)
    listed = _lines(embeddings.ids).encode()
    with path.open("ab") as file:
        file.write(listed + _BEHIND.pack(len(listed), _MARK))


_MARK, _BEHIND = b"limnerid", struct.Struct("<Q8s")


def _ids_behind(path: Path) -> list[str] | None:
    """The ids that `_write_npy` wrote after the array; None for a file from another program."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _BEHIND.size))
        length, mark = _BEHIND.unpack(file.read().rjust(_BEHIND.size))
        if mark != _MARK or length > size - _BEHIND.size:
            return None
        file.seek(size - _BEHIND.size - length)
        return file.read(length).decode("utf-8", "replace").splitlines()


def _read_npz(path: Path) -> tuple[Array, list[str] | None]:
    arrays = read_arrays(path, what="numbers")
    ids = [str(i) for i in arrays["ids"]] if "ids" in arrays else None
    return arrays[_chosen(arrays, path)], ids


def _write_npz(path: Path, embeddings: Embeddings) -> None:
    np.savez(path, ids=np.array(list(embeddings.ids), dtype=np.str_), embeddings=embeddings.matrix)


def _read_safetensors(path: Path) -> tuple[Array, list[str] | None]:
    from safetensors import safe_open

    with safe_open(path, framework="numpy") as archive:
        metadata = archive.metadata() or {}
        ids = _parsed_ids(metadata["ids"], path) if "ids" in metadata else None
        return archive.get_tensor(_chosen(archive.keys(), path)), ids


def _parsed_ids(text: str, path: Path) -> list[str]:
    """Parses the ids in the metadata of a file, which is JSON."""
    ids = parse_json(text, where=f"the list of ids in {path}")
    if not isinstance(ids, list):
        raise LimnerError(f"the ids in {path} are of type {type(ids).__name__}: expected a list, one id per row")
    return ids


def _write_safetensors(path: Path, embeddings: Embeddings) -> None:
    from safetensors.numpy import save_file

    save_file({"embeddings": np.ascontiguousarray(embeddings.matrix)}, path, {"ids": json.dumps(list(embeddings.ids))})


def _read_parquet(path: Path) -> tuple[Array, list[str] | None]:
    pa = arrow_module("a Parquet file")
    batches = list(parquet_batches(path))
    if not batches:
        raise LimnerError(f"{path} holds no vectors: encode some items first")
    table = pa.Table.from_batches(batches)
    name = _chosen([n for n in table.column_names if n != "id"], path)
    column = table[name].combine_chunks()
    if not pa.types.is_list(column.type) and not pa.types.is_fixed_size_list(column.type):
        raise LimnerError(f"{path}: column {name!r} holds {column.type}: expected lists of numbers, one per item")
    lengths = np.unique(np.asarray(column.value_lengths().fill_null(0)))
    if len(lengths) != 1:
        raise LimnerError(
            f"{path}: column {name!r} has vectors of {len(lengths)} different lengths: expected one length"
        )
    matrix = column.flatten().to_numpy(zero_copy_only=False).reshape(len(table), int(lengths[0]))
    ids = next((table[n].to_pylist() for n in ("id", "ids") if n in table.column_names), None)
    return matrix, None if ids is None else [str(i) for i in ids]


def _write_parquet(path: Path, embeddings: Embeddings) -> None:
    pa, pq = arrow_module("a Parquet file"), parquet_module()

    flat = pa.array(np.ascontiguousarray(embeddings.matrix).ravel())
    vectors = pa.FixedSizeListArray.from_arrays(flat, embeddings.dim)
    pq.write_table(pa.table({"id": pa.array(list(embeddings.ids)), "embedding": vectors}), path)


_NPY = _Format(_read_npy, _write_npy)
_NPZ = _Format(_read_npz, _write_npz)
_SAFETENSORS = _Format(_read_safetensors, _write_safetensors)
_PARQUET = _Format(_read_parquet, _write_parquet)
_TORCH = _Format(read_tensors, lambda path, given: write_tensors(path, given.matrix, list(given.ids)))
