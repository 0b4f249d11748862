"""Arrow tables and Parquet files: the package pyarrow, which is an extra, or an error that says how to install it."""

from __future__ import annotations

from types import ModuleType

from limner.core.extras import needed


def arrow_module(feature: str) -> ModuleType:
    """The package pyarrow.

    Args:
        feature: What needs it, for the message.
    """
    return _imported("pyarrow", feature)


def parquet_module(feature: str = "a Parquet file") -> ModuleType:
    """The part of pyarrow that reads and writes Parquet files."""
    return _imported("pyarrow.parquet", feature)


def _imported(name: str, feature: str) -> ModuleType:
    return needed(name, what=feature, extra="arrow")
