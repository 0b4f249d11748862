"""Why a file of an image cannot be used, from its first and last bytes; it is decoded only if they leave doubt."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from limner.core.errors import LimnerError
from limner.core.images import Unreadable, opened, readable_formats, refuse_header

_TAIL = 64
_HEIF = (".heic", ".heif")


def image_fault(path: str | Path, *, decode: bool = False) -> str | None:
    """Why an image does not open, as a clause; None if it does.

    Args:
        path: The file.
        decode: Decode every image, which also finds damage in the middle of a file.
    """
    try:
        size = os.stat(path).st_size
    except (OSError, ValueError) as error:
        return f"it cannot be read ({getattr(error, 'strerror', None) or error})"
    if not size:
        return "it is empty"
    if Path(path).suffix.lower() in _HEIF and "HEIF" not in readable_formats():
        return "HEIC needs the package 'pillow-heif': pip install 'limner[heic]'"
    try:
        refuse_header(path, name=str(path))
        if decode or not _is_complete(path, size):
            with opened(path, name=str(path)):
                pass
    except Unreadable as error:
        return error.reason
    except LimnerError as error:
        return str(error)
    return None


def _is_complete(path: str | Path, size: int) -> bool:
    """Whether the file ends where its format says; False if that takes decoding."""
    try:
        with open(path, "rb") as file:
            head = file.read(16)
            file.seek(max(size - _TAIL, 0))
            tail = file.read().rstrip(b"\0\r\n ")
            is_complete = next((ends for magic, ends in _ENDS.items() if magic in head[:12]), _unknown_end)
            return is_complete(head, tail, size, file)
    except OSError:
        return False


def _unknown_end(head: bytes, tail: bytes, size: int, file: BinaryIO) -> bool:
    return False


def _jpeg(head: bytes, tail: bytes, size: int, file: BinaryIO) -> bool:
    return tail.endswith(b"\xff\xd9")


def _png(head: bytes, tail: bytes, size: int, file: BinaryIO) -> bool:
    return tail.endswith(b"IEND\xaeB`\x82")


def _riff(head: bytes, tail: bytes, size: int, file: BinaryIO) -> bool:
    return bool(struct.unpack("<I", head[4:8])[0] + 8 <= size)


def _boxes(head: bytes, tail: bytes, size: int, file: BinaryIO) -> bool:
    """AVIF and HEIC: boxes that begin with their length follow each other to the end of the file."""
    at = 0
    while at < size:
        file.seek(at)
        box = file.read(16)
        length = struct.unpack(">I", box[:4])[0] if len(box) >= 8 else -1
        if length == 1 and len(box) == 16:
            length = struct.unpack(">Q", box[8:])[0]
        if length == 0:  # the last box reaches to the end
            return True
        if length < 8:
            return False
        at += length
    return at == size


_ENDS: dict[bytes, Callable[[bytes, bytes, int, BinaryIO], bool]] = {
    b"\xff\xd8\xff": _jpeg,
    b"\x89PNG": _png,
    b"WEBP": _riff,
    b"ftyp": _boxes,
}
