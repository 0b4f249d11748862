"""Images of a collection, accessed only by id: looked up, decoded, downscaled, re-encoded and cached.

No name or path from a client reaches the file system: an id must be one of the collection's ids.
"""

from __future__ import annotations

import hashlib
import io
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from limner.core.errors import LimnerError, UnknownId
from limner.web.uploads import bare

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

    def _remember(self, key: tuple[str, str, str], made: EncodedImage) -> EncodedImage:
        with self._lock:
            if key not in self._held:
                self._held[key] = made
                self._size += len(made.data)
            while self._size > self._limit and len(self._held) > 1:
                _, old = self._held.popitem(last=False)
                self._size -= len(old.data)
        return made


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
