"""Uploaded images: limited in size, decoded to prove that they are images, and never stored as received.

An upload is limited in bytes before it is read and in pixels before it is decoded; it is decoded completely and encoded
again, and only the new copy is used. Its file name and declared type are ignored.
"""

from __future__ import annotations

import io
import secrets
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from limner.core.errors import LimnerError, UnknownId
from limner.core.images import Unreadable, opened

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS = ("JPEG", "PNG", "WEBP", "GIF")
BYTES = 12_000_000
PIXELS = 40_000_000
SIDE = 512
KEPT = 64


class Refused(LimnerError):
    """An upload that is refused; the message may be shown to the sender."""


def accepted(data: bytes) -> Image:
    """The image in some bytes, decoded completely, as RGB, with sides of at most `SIDE`.

    Raises:
        Refused: If it is too large, in another format, or does not decode.
    """
    if len(data) > BYTES:
        raise Refused(f"the image has {len(data):,} bytes: at most {BYTES:,} are accepted; scale it down")
    if not data:
        raise Refused("the image is empty: choose a file")
    try:
        with opened(data, name="upload", side=SIDE, formats=FORMATS, limit=PIXELS) as image:
            return image
    except Unreadable as error:
        raise Refused(f"this is not a readable {', '.join(FORMATS)} image: {error.reason}") from error


def as_jpeg(image: Image, *, quality: int = 85) -> bytes:
    """An image re-encoded without metadata or anything else from its file."""
    out = io.BytesIO()
    bare(image).save(out, "JPEG", quality=quality)
    return out.getvalue()


def bare(image: Image) -> Image:
    """Only the pixels, since Pillow would copy a comment or other texts of the old file into the new one."""
    copy = image.convert("RGB")
    copy.info = {}
    return copy


class Uploads:
    """The most recent uploads, in memory, each under an unguessable name."""

    def __init__(self, most: int = KEPT) -> None:
        """Holds nothing."""
        self._held: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()
        self._most = most

    def keep(self, data: bytes) -> str:
        """Checks an image and keeps a new copy of it; the oldest one is dropped if there are too many."""
        copy = as_jpeg(accepted(data))
        key = secrets.token_urlsafe(16)
        with self._lock:
            self._held[key] = copy
            while len(self._held) > self._most:
                self._held.popitem(last=False)
        return key

    def get(self, key: str) -> bytes:
        """An uploaded image.

        Raises:
            UnknownId: If it was never sent, or has been dropped.
        """
        with self._lock:
            if key not in self._held:
                raise UnknownId("this image is no longer here: send it again")
            self._held.move_to_end(key)
            return self._held[key]
