"""Images inside of Parquet files, read one by one: a file of gigabytes is never in memory as a whole."""

from __future__ import annotations

import hashlib
import os
import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from limner.core.arrow_tables import parquet_module
from limner.core.errors import LimnerError
from limner.core.images import NoImage, open_image
from limner.core.paths import damage_told, refuse_bomb

if TYPE_CHECKING:
    from PIL.Image import Image

_AT_ONCE, _BATCHES, _OPEN_FILES = 16, 8, 4
"""Rows per batch, batches of a file that stay in memory, and files that stay open."""


@dataclass(frozen=True)
class InParquet:
    """An image in a column of a Parquet file, read when it is called.

    Args:
        path: The file.
        row: Its row in the file.
        column: The column: bytes, or {bytes, path} of the datasets library.
        name: Name in error messages.
    """

    path: str
    row: int
    column: str
    name: str

    def content(self) -> bytes:
        """The encoded image."""
        with damage_told(self.path, what="parquet file of images", mend="download it again"):
            content = _reader(self.path).cell(self.row, self.column)
        if not isinstance(content, bytes):
            raise NoImage(f"image {self.name!r} (row {self.row:,} of {self.path}) has no bytes: remove the row")
        return content

    def __call__(self) -> Image:
        """Opens the image."""
        return open_image(self.content(), name=self.name)


@lru_cache(maxsize=_OPEN_FILES)
def _reader(path: str) -> RowReader:
    return RowReader(path)


class RowReader:
    """Cells of a Parquet file by row: cheap in order, and within the last batches in any order.

    Args:
        path: The file.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._file: Any = parquet_module("images in a Parquet file").ParquetFile(path, memory_map=True)
        about = self._file.metadata
        groups = [about.row_group(group) for group in range(about.num_row_groups)]
        refuse_bomb(sum(int(group.total_byte_size) for group in groups), os.path.getsize(path), where=path)
        self._starts = [0]
        for group in groups:
            self._starts.append(self._starts[-1] + int(group.num_rows))
        self._lock = threading.Lock()
        self._batches: deque[tuple[str, int, list[bytes | None]]] = deque(maxlen=_BATCHES)
        self._stream: Iterator[Any] = iter(())
        self._position = ("", -1, 0)  # column, row group and next row of the stream

    def cell(self, row: int, column: str) -> bytes | None:
        """The bytes in one cell."""
        if not 0 <= row < self._starts[-1]:
            raise LimnerError(f"row {row:,} of {self.path}, which has {self._starts[-1]:,} rows")
        with self._lock:
            for name, start, cells in self._batches:
                if name == column and start <= row < start + len(cells):
                    return cells[row - start]
            return self._read(row, column)

    def _read(self, row: int, column: str) -> bytes | None:
        """Reads on to a row, or again from the beginning of its row group."""
        group = next(number for number, end in enumerate(self._starts[1:]) if row < end)
        if self._position[:2] != (column, group) or self._position[2] > row:
            self._stream = self._file.iter_batches(_AT_ONCE, row_groups=[group], columns=[column], use_threads=False)
            self._position = column, group, self._starts[group]
        while True:
            start, cells = self._position[2], image_bytes(next(self._stream).column(0))
            self._position = column, group, start + len(cells)
            self._batches.append((column, start, cells))
            if row < start + len(cells):
                return cells[row - start]


def image_bytes(array: Any) -> list[bytes | None]:
    """The encoded images of an Arrow column: bytes, or {bytes, path} of the datasets library."""
    return list((array.field("bytes") if hasattr(array, "field") else array).to_pylist())


def content_hashes(path: str, column: str) -> Iterator[str]:
    """A hash of each image of a column, in order."""
    with parquet_module("images in a Parquet file").ParquetFile(path, memory_map=True) as file:
        for batch in file.iter_batches(_AT_ONCE, columns=[column], use_threads=False):
            for content in image_bytes(batch.column(0)):
                yield hashlib.sha256(content or b"").hexdigest()[:20]
