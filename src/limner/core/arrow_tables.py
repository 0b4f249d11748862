"""Tables: Arrow, Parquet files, and one mixin for everything that has named columns (pandas, polars, Arrow)."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from limner.core.extras import needed
from limner.core.paths import refuse_bomb

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

Batch = Any
"""A batch of rows of pyarrow, which has no types."""
BATCH_ROWS = 1024
_LARGEST_BATCH = 2**28
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}
"""Bytes of a decoded value by its physical type; a text takes at least its place in a dictionary."""


def arrow_module(feature: str) -> ModuleType:
    """The package pyarrow.

    Args:
        feature: What needs it, for the message.
    """
    return _imported("pyarrow", feature)


def parquet_module(feature: str = "a Parquet file") -> ModuleType:
    """The part of pyarrow that reads and writes Parquet files."""
    return _imported("pyarrow.parquet", feature)


def parquet_batches(path: str | Path, *, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """The rows of a Parquet file, piece by piece; refuses a decompression bomb before it is decoded.

    A dictionary and run lengths store a repeated value once, so that kilobytes can stand for gigabytes, and neither the
    size of the file nor that of its pages tells. Numbers are counted from the head of the file, and the texts of a row
    group stay in their dictionary until the bytes of its decoded rows are counted.

    Args:
        path: The file.
        columns: Names of top-level columns; others are not decoded. A name that the file does not have is left out.
    """
    with parquet_module().ParquetFile(path) as file:
        about, names = file.metadata, file.schema_arrow.names
        chunks = [_chunk(about, group, at) for group in range(about.num_row_groups) for at in range(about.num_columns)]
    budget = _Budget(str(path), os.path.getsize(path))
    budget.spend(sum(int(chunk.num_values) * _WIDTHS.get(chunk.physical_type, 4) for chunk in chunks))
    largest = max((int(chunk.total_uncompressed_size) for chunk in chunks), default=1)
    budget.spend(largest)
    selected = names if columns is None else [name for name in names if name in columns]
    texts = {chunk.path_in_schema for chunk in chunks if chunk.physical_type == "BYTE_ARRAY"}
    if any("DELTA_BYTE_ARRAY" in chunk.encodings for chunk in chunks):  # cannot be read as a dictionary
        yield from _in_small_batches(path, selected, budget, rows=_LARGEST_BATCH // max(largest, 1))
    else:
        yield from _group_by_group(path, selected, budget, texts=sorted(texts))


@dataclass
class _Budget:
    """What a file may still unpack to."""

    where: str
    packed: int
    unpacked: int = 0

    def spend(self, size: int) -> None:
        self.unpacked += size
        refuse_bomb(self.unpacked, self.packed, where=self.where)


def _group_by_group(path: str | Path, columns: list[str], budget: _Budget, *, texts: list[str]) -> Iterator[Batch]:
    with parquet_module().ParquetFile(path, read_dictionary=texts) as file:
        for group in range(file.num_row_groups):
            table = file.read_row_group(group, columns=columns, use_threads=False)
            budget.spend(sum(decoded_bytes(chunk) for column in table.columns for chunk in column.chunks))
            for batch in table.to_batches(max_chunksize=BATCH_ROWS):
                yield _without_dictionaries(batch)


def _in_small_batches(path: str | Path, columns: list[str], budget: _Budget, *, rows: int) -> Iterator[Batch]:
    with parquet_module().ParquetFile(path) as file:
        size = max(1, min(BATCH_ROWS, rows))
        for batch in file.iter_batches(batch_size=size, columns=columns, use_threads=False):
            budget.spend(batch.nbytes)
            yield batch


def _without_dictionaries(batch: Batch) -> Batch:
    pa = arrow_module("a Parquet file")
    plain = [c.dictionary_decode() if pa.types.is_dictionary(c.type) else c for c in batch.columns]
    return pa.RecordBatch.from_arrays(plain, names=batch.schema.names)


def parquet_columns(path: str | Path) -> list[str]:
    """The names of the top-level columns of a Parquet file."""
    with parquet_module().ParquetFile(path) as file:
        return list(file.schema_arrow.names)


def decoded_bytes(array: Any) -> int:
    """Bytes of an Arrow array whose dictionaries are written out.

    >>> pa = arrow_module("this example")
    >>> decoded_bytes(pa.array(["three", "three"]).dictionary_encode()), decoded_bytes(pa.array([1, 2]))
    (10, 16)
    """
    pa = arrow_module("a Parquet file")
    kind = array.type
    if pa.types.is_dictionary(kind):
        import pyarrow.compute as pc

        lengths = pc.binary_length(array.dictionary)
        return int(pc.sum(pc.cast(lengths.take(array.indices), pa.int64())).as_py() or 0)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return decoded_bytes(array.flatten())
    if pa.types.is_struct(kind):
        return sum(map(decoded_bytes, array.flatten()))
    if pa.types.is_map(kind):
        return decoded_bytes(array.keys) + decoded_bytes(array.items)
    return int(array.nbytes)


def _chunk(about: Any, group: int, column: int) -> Any:
    return about.row_group(group).column(column)


def _imported(name: str, feature: str) -> ModuleType:
    return needed(name, what=feature)


class Tabular(ABC):
    """A mixin for objects that can be shown as a table: `_columns()` returns the columns by name."""

    @abstractmethod
    def _columns(self) -> Mapping[str, Sequence[object]]:
        """The columns by name, all of the same length."""

    def to_arrow(self) -> pa.Table:
        """The table as an Arrow table."""
        table: pa.Table = arrow_module("a table as Arrow").table(dict(self._columns()))
        return table

    def to_pandas(self) -> pd.DataFrame:
        """The table as a pandas DataFrame; pandas has to be installed."""
        frame: pd.DataFrame = _library("pandas").DataFrame(dict(self._columns()))
        return frame

    def to_polars(self) -> pl.DataFrame:
        """The table as a polars DataFrame; polars has to be installed."""
        frame: pl.DataFrame = _library("polars").from_arrow(self.to_arrow())
        return frame

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The table through Arrow's C interface: `pl.DataFrame(report)`, `pa.table(report)`, duckdb."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)


def by_column(records: Sequence[Mapping[str, object]]) -> dict[str, list[object]]:
    """Turns flat records into columns; missing values are None.

    >>> by_column([{"a": 1}, {"a": 2, "b": 3}])
    {'a': [1, 2], 'b': [None, 3]}
    """
    names = dict.fromkeys(name for record in records for name in record)
    return {name: [record.get(name) for record in records] for name in names}


def _library(name: str) -> ModuleType:
    return needed(name, what=f"a table as {name}")
