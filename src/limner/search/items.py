"""Items as stored in an index, and item lists in common file formats."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from limner.core.collection import Items
from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError, shown
from limner.core.ids import Ids
from limner.core.images import open_image
from limner.datasets import _read
from limner.datasets.tables import IMAGE_ENDINGS

SIDE = 144
"""The longer side of a thumbnail in pixels."""
VECTOR_ENDINGS = (".npy", ".npz", ".safetensors", ".parquet", ".pt", ".pth")
TEXT_COLUMNS = ("text", "caption", "query", "sentence")
IMAGE_COLUMNS = ("image", "path", "file", "file_name", "filename")


def kept(value: Any, kind: str) -> tuple[str | None, bytes | None]:
    """The stored form of one value: a text, an absolute path, or a thumbnail of an image without a path."""
    if value is None:
        return None, None
    if kind == "text":
        return str(value), None
    if isinstance(value, (str, Path)):
        return (str(value) if "://" in str(value) else os.path.abspath(value)), None
    return None, small(value, name="picture")


def small(value: Any, *, name: str) -> bytes:
    """A thumbnail of an image, as the bytes of a file."""
    from PIL import features

    out = io.BytesIO()
    open_image(value, name=name, side=SIDE).save(out, "webp" if features.check("webp") else "jpeg", quality=76)
    return out.getvalue()


def read(path: str | Path) -> Items | Embeddings:
    """Reads a list of texts or images, or embeddings.

    Args:
        path: A text file, one text per line; csv, tsv or jsonl with a column of texts or images and optionally "id";
            one image; a folder of images; or npy, npz, safetensors or parquet with vectors.
    """
    source = Path(path)
    ending = source.suffix.lower()
    if source.is_dir():
        return _folder(source)
    if not source.exists():
        raise LimnerError(f"no file {source}: expected texts, images or embeddings")
    if ending in VECTOR_ENDINGS:
        return Embeddings.load(source)
    if ending in IMAGE_ENDINGS:
        return Items(Ids([source.name]), [str(source)])
    if ending in (".csv", ".tsv", ".jsonl"):
        return _table(source, ending)
    if ending in (".txt", ""):
        return _lines(source)
    endings = (".txt", ".csv", ".tsv", ".jsonl", *VECTOR_ENDINGS, *IMAGE_ENDINGS)
    raise LimnerError(f"{source} ends in {ending!r}: expected a folder or a file that ends in {', '.join(endings)}")


def _folder(folder: Path) -> Items:
    files = sorted(file for file in folder.rglob("*") if file.suffix.lower() in IMAGE_ENDINGS)
    if not files:
        raise LimnerError(f"no images in {folder}: expected files that end in {', '.join(IMAGE_ENDINGS)}")
    return Items(Ids(file.relative_to(folder).as_posix() for file in files), [str(file) for file in files])


def _lines(path: Path) -> Items:
    rows = [(str(number), line.strip()) for number, line in _read.filled_lines(path)]
    if not rows:
        raise LimnerError(f"{path} is empty: expected one text per line")
    return Items(Ids(key for key, _ in rows), [text for _, text in rows], kind="text")


def _table(path: Path, ending: str) -> Items:
    rows = list(_rows(path, ending))
    if not rows:
        raise LimnerError(f"{path} has no rows: expected a column of texts or images")
    names = list(rows[0][1])
    column, kind = _column(path, names)
    ids = [str(row.get("id") or at.line) for at, row in rows]
    values = [row.get(column) for _, row in rows]
    for (at, _), value in zip(rows, values, strict=True):
        if not isinstance(value, str) or not value.strip():
            raise LimnerError(f"{at}: column {column!r} is empty or not text: expected text in every row")
    if kind == "image":
        values = [str(path.parent / str(value)) for value in values]
    return Items(Ids(ids), values, kind=kind)


def _rows(path: Path, ending: str) -> Iterator[tuple[_read.At, Mapping[str, object]]]:
    if ending == ".jsonl":
        return _read.json_lines(path)
    return _read.table(path, delimiter="\t" if ending == ".tsv" else ",")


def _column(path: Path, names: list[str]) -> tuple[str, str]:
    """The column with the texts (preferred if a table has both) or the images."""
    for known, kind in ((TEXT_COLUMNS, "text"), (IMAGE_COLUMNS, "image")):
        found = [name for name in known if name in names]
        if found:
            return found[0], kind
    raise LimnerError(
        f"{path} has columns {shown(names, most=6)}: expected a column of texts ({', '.join(TEXT_COLUMNS)}) or of "
        f"images ({', '.join(IMAGE_COLUMNS)})"
    )
