"""Items as stored in an index, item lists in common file formats, and the encoding of items for search."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

from limner.core.collection import Items
from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError, NothingKnown, ZeroVectors, shown
from limner.core.ids import Ids
from limner.core.images import NoImage, Unreadable, open_image
from limner.core.progress import ProgressLike
from limner.datasets import text_files
from limner.datasets.image_folder import IMAGE_ENDINGS, photos
from limner.encoders.contract import (
    encoded,
    encoded_sets,
)
from limner.scores import VectorSets
from limner.scores.parallel_blocks import usable_cores
from limner.scores.vector_sets import holds_sets

SIDE = 144
"""The longer side of a thumbnail in pixels."""
CAPTIONS = "captions"
"""The field of images that holds the texts about each of them."""
LONGEST, MOST_VALUES = 200, 50
"""Characters of a field's value, and values in a list, that an index keeps."""
VECTOR_ENDINGS = (".npy", ".npz", ".safetensors", ".parquet", ".pt", ".pth")
TEXT_COLUMNS = ("text", "caption", "query", "sentence")
IMAGE_COLUMNS = ("image", "path", "file", "file_name", "filename")


def stored_item(items: Items, row: int) -> dict[str, object]:
    """The stored form of one item: its value, captions and fields.

    The value is a text or an absolute path; for an image without a path, a thumbnail is stored. Captions are the field
    "captions" of images. Other fields are stored if they are texts, numbers, booleans or lists of texts.
    """
    value, image = _value(items.values[row], items.kind)
    captions = items.fields.get(CAPTIONS) if items.kind == "image" else None
    fields = kept_fields(items, row)
    return {
        "value": value,
        "picture": image,
        "captions": None if captions is None else [str(text) for text in captions[row]],
        "fields": json.dumps(fields, ensure_ascii=False) if fields else None,
    }


def kept_fields(items: Items, row: int) -> dict[str, object]:
    """The fields of one item that can be filtered by."""
    return {name: plain for name, column in items.fields.items() if (plain := _plain(name, column[row])) is not None}


def _value(value: object, kind: str) -> tuple[str | None, bytes | None]:
    if value is None:
        return None, None
    if kind == "text":
        return str(value), None
    if isinstance(value, (str, Path)):
        return (str(value) if "://" in str(value) else os.path.abspath(value)), None
    return None, small(value, name="image")


def _plain(name: str, value: object) -> str | float | bool | list[str] | None:
    """A value to filter by; None if it is not a text, number, boolean or short list of texts."""
    value = value.item() if hasattr(value, "item") and not getattr(value, "ndim", 0) else value
    if name == CAPTIONS or (isinstance(value, float) and value != value):
        return None
    if isinstance(value, (list, tuple)):
        short = 0 < len(value) <= MOST_VALUES and all(isinstance(each, str) and len(each) <= LONGEST for each in value)
        return list(value) if short else None
    if isinstance(value, str):
        return value if len(value) <= LONGEST else None
    return value if isinstance(value, (bool, int, float)) else None


def small(value: Any, *, name: str, side: int = SIDE) -> bytes:
    """A thumbnail of an image, as the bytes of a file."""
    from PIL import features

    out = io.BytesIO()
    open_image(value, name=name, side=side).save(out, "webp" if features.check("webp") else "jpeg", quality=76)
    return out.getvalue()


def read(path: str | Path) -> Items | Embeddings | VectorSets:
    """Reads a list of texts or images, or embeddings: one vector per item, or several.

    Args:
        path: A text file, one text or one path of an image per line; csv, tsv or jsonl with a column of texts or images
            and optionally "id"; one image; a folder of images; or npy, npz, safetensors or parquet with vectors; npz or
            safetensors with the arrays `vectors` and `counts` if items have several (see
            `limner.scores.VectorSets.load`).
    """
    source = Path(path)
    ending = source.suffix.lower()
    if source.is_dir():
        return _folder(source)
    if not source.exists():
        raise LimnerError(f"no file {source}: expected texts, images or embeddings")
    if holds_sets(source):
        return VectorSets.load(source)
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
    listed = photos(folder)
    if not listed.names:
        why = "; ".join(listed.warnings()) or f"expected files that end in {', '.join(IMAGE_ENDINGS)}"
        raise LimnerError(f"no images in {folder}: {why}")
    return listed.items()


def _lines(path: Path) -> Items:
    """Texts, one per line; or images, if all lines are paths of image files."""
    rows = [(str(number), line.strip()) for number, line in text_files.filled_lines(path)]
    if not rows:
        raise LimnerError(f"{path} is empty: expected one text per line")
    lines = [line for _, line in rows]
    is_image = [_image_name(line).lower().endswith(IMAGE_ENDINGS) for line in lines]
    if all(is_image):
        return _image_paths(path, lines)
    if 2 * sum(is_image) > len(lines) or any(
        listed and _place(path, line) for listed, line in zip(is_image, lines, strict=True)
    ):
        (first, _), (other, text) = rows[is_image.index(True)], rows[is_image.index(False)]
        raise LimnerError(
            f"{path}, line {first} is an image file, and line {other} is not ({text[:50]!r}): expected images "
            f"that end in {', '.join(IMAGE_ENDINGS)}, or texts"
        )
    if _place(path, lines[0]) and _place(path, lines[-1]):
        raise LimnerError(
            f"{path} lists files, such as {lines[0]!r}: expected texts, or images that end in "
            f"{', '.join(IMAGE_ENDINGS)}"
        )
    return Items(Ids(key for key, _ in rows), lines, kind="text")


def _image_name(line: str) -> str:
    """The path in a line of a list, without the quotes or the scheme that file managers write.

    >>> _image_name('"my photos/a.jpg"'), _image_name("file:///photos/a%20b.jpg"), _image_name("a dog")
    ('my photos/a.jpg', '/photos/a b.jpg', 'a dog')
    """
    if line.lower().startswith("file://"):
        return unquote(line[len("file://") :])
    return line[1:-1] if len(line) > 2 and line[0] == line[-1] and line[0] in "\"'" else line


def _image_paths(path: Path, lines: list[str]) -> Items:
    """The images of a list; a path is relative to the folder of the list, or to the working directory."""
    lines = [_image_name(line) for line in lines]
    places = [_place(path, line) for line in lines]
    if not any(places):
        raise LimnerError(
            f"{path} lists {len(lines):,} image files, and none of them exists, such as {lines[0]!r}: expected paths "
            f"relative to {path.absolute().parent}, or to the working directory"
        )
    return Items(Ids(lines), [str(place or path.parent / line) for place, line in zip(places, lines, strict=True)])


def _place(path: Path, line: str) -> Path | None:
    """The image file that a line of a list names; None if there is none."""
    name = _image_name(line)
    return next((place for place in (path.parent / name, Path(name)) if os.path.isfile(place)), None)


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
    extra = [name for name in names if name not in (column, "id", *TEXT_COLUMNS, *IMAGE_COLUMNS)]
    return Items(Ids(ids), values, {name: [row.get(name) for _, row in rows] for name in extra}, kind=kind)


def _rows(path: Path, ending: str) -> Iterator[tuple[text_files.At, Mapping[str, object]]]:
    if ending == ".jsonl":
        return text_files.json_lines(path)
    return text_files.table(path, delimiter="\t" if ending == ".tsv" else ",")


def _column(path: Path, names: list[str]) -> tuple[str, str]:
    """The column with the texts (preferred if a table has both) or the images."""
    for columns, kind in ((TEXT_COLUMNS, "text"), (IMAGE_COLUMNS, "image")):
        matching = [name for name in columns if name in names]
        if matching:
            return matching[0], kind
    raise LimnerError(
        f"{path} has columns {shown(names, most=6)}: expected a column of texts ({', '.join(TEXT_COLUMNS)}) or of "
        f"images ({', '.join(IMAGE_COLUMNS)})"
    )


Result = TypeVar("Result")
Row = dict[str, Any]
"""A row of the table of an index: its columns by name."""


def encoded_known(
    system: Any, items: Items, *, sets: bool = False, queries: bool = False, progress: ProgressLike = None
) -> tuple[Embeddings | VectorSets | None, Items, Items]:
    """Encodes the items that a system knows something of; texts without a known word have a vector of zeros.

    Args:
        system: The system.
        items: The items.
        sets: Whether the index has several vectors per item.
        queries: Whether the items are queries; it matters only for several vectors per item.
        progress: Called with (items done, items in total).

    Returns:
        The vectors, None if there are none; the items they belong to; and the items that are left out.
    """
    if sets:
        return encoded_sets(system, items, queries=queries, progress=progress), items, items[[]]
    try:
        return encoded(system, items, progress=progress), items, items[[]]
    except ZeroVectors as error:
        lost = set(error.rows)
        readable = [row for row in range(len(items)) if row not in lost]
    left = items[sorted(lost)]
    return (encoded(system, items[readable], progress=progress) if readable else None), items[readable], left


def encoded_readable(encode: Callable[[Items], Result], items: Items) -> tuple[Result | None, Items, dict[str, str]]:
    """Encodes the images of a large collection that open; for an index, not for an evaluation.

    Args:
        encode: Encodes items.
        items: The items.

    Returns:
        The result, None if no image opens; the items it belongs to; and the reason for each image that does not open.
    """
    try:
        return encode(items), items, {}
    except LimnerError:
        broken = unreadable(items)
        if not broken:
            raise
    readable = items.subset([key for key in items.ids if key not in broken])
    return (encode(readable) if len(readable) else None), readable, broken


def unreadable(items: Items) -> dict[str, str]:
    """Opens all images; for each one that does not open, the reason."""

    def reason(row: int) -> str | None:
        try:
            with items.opened(row):
                return None
        except (Unreadable, NoImage) as error:
            return str(error)

    if items.kind != "image":
        return {}
    with ThreadPoolExecutor(usable_cores()) as pool:
        reasons = pool.map(reason, range(len(items)))
        return {key: why for key, why in zip(items.ids, reasons, strict=True) if why is not None}


def encoded_queries(system: Any, queries: Items, *, sets: bool = False) -> Embeddings | VectorSets:
    """Encodes queries; those that a system cannot tell from any other are refused.

    With several vectors per item, texts are encoded as queries; an image is encoded as it is in the index.
    """
    if sets:
        return encoded_sets(system, queries, queries=queries.kind == "text")
    try:
        return encoded(system, queries)
    except ZeroVectors as error:
        lost = queries[list(error.rows)]
    if lost.kind == "text":
        raise NothingKnown(f"the system knows no word of {str(lost.values[0])[:80]!r}: search for other words")
    raise NothingKnown(f"the system finds nothing in the image {lost.ids[0]!r}: search with another image")
