"""Images on the page: those of a collection, accessed only by id, and uploaded ones.

No name or path from a client reaches the file system: an id must be one of the collection's ids. An upload is limited
in bytes before it is read and in pixels before it is decoded; it is decoded completely and encoded again, and only the
new copy is used. Its file name and declared type are ignored.
"""

from __future__ import annotations

import hashlib
import io
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from limner.core.errors import LimnerError, UnknownId
from limner.core.images import Unreadable
from limner.core.images import opened as opened_image

if TYPE_CHECKING:
    from PIL.Image import Image

    from limner.core.collection import Collection

Opener = Callable[[str, int], "Image"]

SIZES = {"thumb": 220, "card": 420, "view": 640, "full": 1600}
"""The longer side in pixels, by name; a client chooses among these."""

CACHE = 32_000_000
"""Cache size in bytes."""


@dataclass(frozen=True)
class EncodedImage:
    """An encoded image, ready to send."""

    data: bytes
    kind: str
    tag: str


class ServedImages:
    """Encoded copies of images, in an LRU cache."""

    def __init__(self, limit: int = CACHE) -> None:
        """Starts empty."""
        self._held: OrderedDict[tuple[str, str, str], EncodedImage] = OrderedDict()
        self._size = 0
        self._limit = limit
        self._lock = threading.Lock()

    def get(self, name: str, opened: Opener, image: str, size: str) -> EncodedImage:
        """One image of a collection or an index.

        Args:
            name: The collection's name among those served.
            opened: Opens an image by its id, with a maximum side length; refuses unknown ids.
            image: Its id.
            size: A key of `SIZES`.
        """
        if size not in SIZES:
            raise LimnerError(f"size {size[:20]!r}: expected {', '.join(SIZES)}")
        key = (name, image, size)
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
                return self._held[key]
        return self._remember(key, encoded(opened(image, SIZES[size])))

    def _remember(self, key: tuple[str, str, str], encoded_image: EncodedImage) -> EncodedImage:
        with self._lock:
            if key not in self._held:
                self._held[key] = encoded_image
                self._size += len(encoded_image.data)
            while self._size > self._limit and len(self._held) > 1:
                _, old = self._held.popitem(last=False)
                self._size -= len(old.data)
        return encoded_image


def of_collection(name: str, collection: Collection) -> Opener:
    """Opens the images of a collection; an id that is not one of its ids is refused."""

    def opened(image: str, side: int) -> Image:
        if image not in collection.images.ids:
            raise UnknownId(f"no image {image[:80]!r} in {name!r}")
        return collection.images.open(image, side=side)

    return opened


def encoded(image: Image) -> EncodedImage:
    """An image encoded as a file, without the metadata of the original."""
    from PIL import features

    copy = bare(image)
    form = "webp" if features.check("webp") else "jpeg"
    out = io.BytesIO()
    copy.save(out, form, quality=84)
    data = out.getvalue()
    return EncodedImage(data, f"image/{form}", hashlib.sha256(data).hexdigest()[:24])


# --- uploads ----------------------------------------------------------------------------------------------------

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
        with opened_image(data, name="upload", side=SIDE, formats=FORMATS, limit=PIXELS) as image:
            return image
    except Unreadable as error:
        raise Refused(f"this is not a readable {', '.join(FORMATS)} image: {error.reason}") from error


def bare(image: Image) -> Image:
    """Only the pixels, since Pillow would copy a comment or other texts of the old file into the new one."""
    copy = image.convert("RGB")
    copy.info = {}
    return copy


class Uploads:
    """The most recent uploads, in memory, each under an unguessable name."""

    def __init__(self, limit: int = KEPT) -> None:
        """Holds nothing."""
        self._held: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()
        self._most = limit

    def keep(self, data: bytes) -> str:
        """Checks an image and keeps a new copy of it; the oldest one is dropped if there are too many."""
        out = io.BytesIO()
        bare(accepted(data)).save(out, "JPEG", quality=85)
        key = secrets.token_urlsafe(16)
        with self._lock:
            self._held[key] = out.getvalue()
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
