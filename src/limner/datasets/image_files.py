"""Files of images: which endings they have, and how the images of a collection are written."""

from __future__ import annotations

import shutil
from pathlib import Path

from limner.core.collection import Items
from limner.core.errors import LimnerError

IMAGE_ENDINGS = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".avif", ".heic", ".heif")
UNREAD_ENDINGS = (".arw", ".cr2", ".cr3", ".dng", ".jp2", ".jxl", ".nef", ".orf", ".psd", ".raf", ".rw2", ".svg")
"""Endings of images that limner does not read: counted, never taken for another kind of file."""


def new_folder(path: str | Path) -> Path:
    """The folder to write to, which has to be empty or missing."""
    folder = Path(path)
    if folder.is_dir() and any(folder.iterdir()):
        raise LimnerError(f"{folder} is not empty: give a new folder")
    return folder


def write_image(images: Items, row: int, folder: Path) -> str | None:
    """Writes an image to a folder and returns its file name; None if only its id is known.

    Files are copied, and drawn images are written as PNG.
    """
    value, key = images.values[row], images.ids[row]
    if value is None:
        return None
    drawn = not isinstance(value, (str, Path, bytes))
    name = _safe_name(key, row, ".png" if drawn else _ending(value))
    if isinstance(value, (str, Path)):
        shutil.copyfile(value, folder / name)
    elif isinstance(value, bytes):
        (folder / name).write_bytes(value)
    else:
        (value() if callable(value) else value).save(folder / name)
    return name


def _safe_name(key: str, row: int, ending: str) -> str:
    """A unique file name: the id itself if it is valid, else the row number."""
    plain = all(c.isalnum() or c in "._-" for c in key) and not key.startswith(".") and len(key) < 120
    if not plain:
        return f"{row:08d}{ending}"
    return key if key.lower().endswith(IMAGE_ENDINGS) else key + ending


def _ending(value: str | Path | bytes) -> str:
    if not isinstance(value, bytes):
        return Path(value).suffix.lower() or ".jpg"
    return ".png" if value.startswith(b"\x89PNG") else ".jpg"
