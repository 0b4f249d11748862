"""Tables as pandas, polars and Arrow: one mixin for everything that has named columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING

from limner.core.arrow import arrow_module
from limner.core.extras import needed

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa


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
    return needed(name, what=f"a table as {name}", extra="frames")
