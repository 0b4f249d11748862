"""Image decoding: one code path for all modes, with EXIF orientation and size limits.

Collections, encoders, pages, uploads, reports and indexes all open images here. The result is RGB, rotated by its EXIF
orientation, with transparency on white, 16-bit grey scaled to 8 bits, and the first frame of an animation. Files are
untrusted: only a few formats are read, an image above `PIXEL_LIMIT` pixels is refused, and at most `AT_ONCE` pixels are
decoded at any time, whatever the number of threads; further images wait. An image is refused, too, if one side is more
than `RATIO_LIMIT` times the other, unless it is only shown.
"""

from __future__ import annotations

import ctypes
import io
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from limner.core.errors import LimnerError
from limner.core.paths import refuse_irregular

if TYPE_CHECKING:
    from PIL.Image import Image

Value = Union[str, Path, bytes, Callable[[], "Image"], "Image", None]
"""An image as stored in `Items`: a file, its bytes, a function that draws it, a Pillow image, or None."""

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")
"""Formats that every installation reads, with Pillow's names; `readable_formats` lists those of this one."""
PIXEL_LIMIT = 128_000_000
"""An image with more pixels than this is refused before it is decoded: a 20 KB file can decode to gigabytes."""
RATIO_LIMIT = 100
"""An image with a longer side than this many times the shorter one is no input for a model: models scale the shorter
side to a fixed length, and 20,000 x 1 pixels in 143 bytes grow to gigabytes."""
AT_ONCE = 128_000_000
"""Pixels that may be decoded at the same time in this process, at about 8 bytes each."""
# pixels: up to the first size an image never waits; from the second on, freed memory is returned to the system
_FREE, _LARGE = 1_000_000, 16_000_000
_UPRIGHT = {2: "FLIP_LEFT_RIGHT", 3: "ROTATE_180", 4: "FLIP_TOP_BOTTOM", 5: "TRANSPOSE", 6: "ROTATE_270",
            7: "TRANSVERSE", 8: "ROTATE_90"}  # fmt: skip
_ORIENTATION = 0x0112


class Unreadable(LimnerError):
    """An image that is too large, damaged, or in an unknown format.

    Args:
        name: Name of the image in error messages.
        source: Its file, or its size in bytes.
        reason: A short description of the problem.
    """

    def __init__(self, name: str, source: object, reason: str) -> None:
        super().__init__(f"image {name!r} ({source}) does not open: {reason}; replace or remove the file")
        self.reason = reason


class NoImage(LimnerError):
    """An image of which only the id is known, or whose file does not exist."""


def as_value(image: Any, *, name: str) -> Value:
    """Converts an image to the form that `Items` store.

    Args:
        image: A path, the bytes of a file, a Pillow image, an array of pixels (height by width, by 3 or 4 channels,
            uint8), `{"bytes": ..., "path": ...}` of the datasets library, or a function that draws it.
        name: Name in error messages.
    """
    if image is None or isinstance(image, (str, Path, bytes)) or callable(image) or hasattr(image, "getexif"):
        return image  # type: ignore[no-any-return]
    if isinstance(image, (bytearray, memoryview, io.BytesIO)):
        return image.getvalue() if isinstance(image, io.BytesIO) else bytes(image)
    if isinstance(image, dict) and {"bytes", "path"} & set(image):
        return as_value(image.get("bytes") or image.get("path"), name=name)
    if isinstance(image, np.ndarray) and image.dtype == np.uint8 and image.shape[2:] in ((), (3,), (4,)):
        return _pillow().fromarray(image)  # type: ignore[no-any-return]
    about = f" of shape {tuple(image.shape)} and type {image.dtype}" if hasattr(image, "shape") else ""
    raise LimnerError(
        f"image {name!r} is a {type(image).__name__}{about}: expected a path, bytes, a Pillow image, or a "
        "numpy array of height by width by 3 whole numbers from 0 to 255 (uint8)"
    )


def open_image(value: Value, *, name: str, side: int | None = None) -> Image:
    """Decodes one image to upright RGB.

    Args:
        value: As `Items.values` holds it.
        name: Name in error messages.
        side: Downscale so that no side is longer than this; a JPEG is then decoded at a smaller scale.
    """
    with opened(value, name=name, side=side) as image:
        return image


@contextmanager
def opened(
    value: Value,
    *,
    name: str,
    side: int | None = None,
    shortest: int | None = None,
    formats: tuple[str, ...] | None = None,
    limit: int = PIXEL_LIMIT,
) -> Iterator[Image]:
    """Like `open_image`, but a context manager that makes other large images wait, for work on full-size images.

    Args:
        value: As `Items.values` holds it.
        name: Name in error messages.
        side: As for `open_image`.
        shortest: Decode a JPEG at a smaller scale, as long as its short side stays at least twice as long as this.
        formats: Accepted formats, with Pillow's names; `readable_formats` by default.
        limit: Maximum number of pixels.
    """
    if value is None:
        raise NoImage(f"image {name!r} has only an id, no pixels: give the folder with images when loading")
    if callable(value) or hasattr(value, "getexif"):
        drawn: Any = value() if callable(value) else value
        _refuse_extreme(drawn, name, "drawn", side)
        yield _smaller(upright(drawn), side)
        return
    with _lazily(value, name, formats or readable_formats()) as image:
        _refuse_large(image, name, _source_of(value), limit)
        _refuse_extreme(image, name, _source_of(value), side)
        with _explained(value, name):
            pixels = _drafted(image, side, shortest)
        with _waiting.turn(pixels):
            with _explained(value, name):
                decoded = _decoded(image, side)
            if pixels >= _LARGE:
                give_back()
            yield decoded


@contextmanager
def _lazily(value: str | Path | bytes, name: str, formats: tuple[str, ...]) -> Iterator[Image]:
    """Opens the image and reads its header, without decoding it."""
    pil = _pillow()
    if not isinstance(value, bytes):
        refuse_irregular(value, what=f"image {name!r}")
    with _explained(value, name):
        image = pil.open(io.BytesIO(value) if isinstance(value, bytes) else value, formats=formats)
    with image:
        yield image


@contextmanager
def _explained(value: str | Path | bytes, name: str) -> Iterator[None]:
    """Turns any decoder exception into one clear error."""
    try:
        yield
    except LimnerError:
        raise
    except FileNotFoundError:
        raise NoImage(f"image {name!r}: no file {Path(str(value))}; check the folder with images") from None
    except (Exception, _pillow().DecompressionBombWarning) as error:  # decoders raise almost any exception
        reason = "it is of another kind" if "cannot identify" in str(error) else str(error) or type(error).__name__
        raise Unreadable(name, _source_of(value), reason[:200]) from error


@contextmanager
def header(value: str | Path | bytes, *, name: str) -> Iterator[Image]:
    """An image of which only the header is read, as Pillow's object: size, metadata; not rotated.

    Args:
        value: The file or its bytes.
        name: Name in error messages.
    """
    with _lazily(value, name, readable_formats()) as image:
        yield image


def refuse_header(value: str | Path | bytes, *, name: str) -> None:
    """Refuses an image by its first bytes: of another kind, too large, or too narrow; decodes nothing.

    Args:
        value: The file or its bytes.
        name: Name in error messages.
    """
    with _lazily(value, name, readable_formats()) as image:
        _refuse_large(image, name, _source_of(value), PIXEL_LIMIT)
        _refuse_extreme(image, name, _source_of(value), None)


@cache
def readable_formats() -> tuple[str, ...]:
    """The image formats that are read here, with Pillow's names: AVIF and HEIF depend on what is installed."""
    from PIL import features

    heif = find_spec("pillow_heif") is not None
    if heif:
        import_module("pillow_heif").register_heif_opener()
    return (*FORMATS, *(("AVIF",) if features.check("avif") else ()), *(("HEIF",) if heif else ()))


def _refuse_large(image: Image, name: str, source: object, limit: int) -> None:
    if image.width * image.height > limit:
        size = f"{image.width} x {image.height} pixels; the limit is {limit:,}"
        raise Unreadable(name, source, f"it has {size}")


def _refuse_extreme(image: Image, name: str, source: object, side: int | None) -> None:
    """Refuses a very long and narrow image, unless it is downscaled in proportion to be shown."""
    if side is None and max(image.size) > RATIO_LIMIT * min(image.size):
        size = f"{image.width:,} x {image.height:,} pixels; one side may be {RATIO_LIMIT} times the other"
        raise Unreadable(name, source, f"it has {size}")


def _source_of(value: str | Path | bytes) -> object:
    return f"{len(value):,} bytes" if isinstance(value, bytes) else value


def _drafted(image: Image, side: int | None, shortest: int | None) -> int:
    """Decodes a JPEG at a smaller scale if that is enough; returns the number of decoded pixels."""
    full_size = image.width * image.height
    if side is not None or shortest is not None:
        share = 2 * side / max(image.size) if side is not None else 2 * (shortest or 1) / min(image.size)
        image.draft(None, (max(1, int(image.width * share)), max(1, int(image.height * share))))
    is_progressive = "progressive" in image.info  # held in memory at full size, whatever the scale
    return full_size if is_progressive else image.width * image.height


def _decoded(image: Image, side: int | None) -> Image:
    """The image as RGB, no larger than `side`; the original is released."""
    image.load()  # first: reading the EXIF block of a PNG decodes it, and hides that it is damaged
    turn = _orientation(image)
    if side is not None and image.mode in ("RGB", "L") and "transparency" not in image.info:
        _smaller(image, side)  # before anything is copied
    scaled = _smaller(_turned(_rgb(image), turn), side)
    image.close()
    return scaled


@cache
def _pillow() -> ModuleType:
    """Imports Pillow without its warnings about large images and damaged EXIF blocks: limner has its own limits."""
    from PIL import Image

    warnings.filterwarnings("ignore", module=r"PIL\.")
    return Image


# --- modes and orientation --------------------------------------------------------------------------------------


def upright(image: Image) -> Image:
    """The image as it should be displayed: RGB, rotated by its EXIF orientation, transparency on white.

    >>> from PIL import Image
    >>> upright(Image.new("LA", (1, 1), (0, 128))).getpixel((0, 0))
    (127, 127, 127)
    """
    return _turned(_rgb(image), _orientation(image))


def _turned(image: Image, orientation: int) -> Image:
    image.info = {}  # a copy keeps neither the GPS position nor the old orientation
    turn = _UPRIGHT.get(orientation)
    return image if turn is None else image.transpose(getattr(_pillow().Transpose, turn))


def _orientation(image: Image) -> int:
    try:
        return int(image.getexif().get(_ORIENTATION, 1))
    except Exception:  # a damaged EXIF block is ignored; the image itself may be fine
        return 1


def _rgb(image: Image) -> Image:
    image.load()
    if image.mode == "RGB" and "transparency" not in image.info:
        return image.copy()  # independent of its file, which is closed
    if image.mode.startswith("I"):
        return _eight_bits(image).convert("RGB")
    if image.mode in ("LA", "PA", "RGBA", "La", "RGBa") or "transparency" in image.info:
        return _on_white(image)
    return image.convert("RGB")


def _eight_bits(image: Image) -> Image:
    """Converts 16-bit grey to 8-bit grey: 65535 becomes 255."""
    values = np.asarray(image)
    rounded = (np.clip(values, 0, 65535).astype(np.uint32) + 128) // 257
    return _pillow().fromarray(rounded.astype(np.uint8))  # type: ignore[no-any-return]


def _on_white(image: Image) -> Image:
    pil = _pillow()
    plain = image.convert({"La": "LA", "RGBa": "RGBA"}.get(image.mode, image.mode))
    layers = plain.convert("RGBA")
    white = pil.new("RGB", layers.size, (255, 255, 255))
    white.paste(layers, mask=layers.getchannel("A"))
    return white  # type: ignore[no-any-return]


def _smaller(image: Image, side: int | None) -> Image:
    if side is not None:
        image.thumbnail((side, side), _pillow().Resampling.LANCZOS)
    return image


# --- bounded memory -------------------------------------------------------------------------


class Turns:
    """A weighted semaphore: work waits, first come, first served, until it fits within the total.

    Args:
        total: Total size that may run at once. Anything larger waits until it can run alone.
        free: Work up to this size never waits.
    """

    def __init__(self, total: int, *, free: int = 0) -> None:
        self.total, self.free, self.taken = total, free, 0
        self._line: deque[object] = deque()
        self._changed = threading.Condition()
        self._mine = threading.local()

    @contextmanager
    def turn(self, size: int) -> Iterator[None]:
        """Reserves a part of the total; a thread that already holds some does not wait for more."""
        if size <= self.free or getattr(self._mine, "holds", False):
            yield
            return
        self._wait(size)
        self._mine.holds = True
        try:
            yield
        finally:
            self._mine.holds = False
            with self._changed:
                self.taken -= size
                self._changed.notify_all()

    def _wait(self, size: int) -> None:
        me = object()
        with self._changed:
            self._line.append(me)
            try:
                self._changed.wait_for(
                    lambda: self._line[0] is me and (self.taken == 0 or self.taken + size <= self.total)
                )
                self.taken += size
            finally:
                self._line.remove(me)
                self._changed.notify_all()


_waiting = Turns(AT_ONCE, free=_FREE)


def give_back() -> None:
    """Makes the C library return free memory, which it would keep for each thread that once needed much."""
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> Callable[[int], int] | None:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):  # another C library or operating system
        return None
