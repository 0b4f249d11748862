"""Images that are broken, tiny, the same, or nearly the same.

The same: the same bytes, or the same pixels after decoding. Nearly the same: a perceptual hash of 64 bits finds
candidates (the signs of the lowest frequencies of a 32 x 32 grey image, Zauner 2010), and a region-by-region comparison
confirms them: after scaling brightness and contrast, no region of a 12 x 12 grid may differ much. So compressed,
resized or brightened copies are found, but two images of the same place with different objects are not reported. Crops
and mirrored copies are not found.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from limner.core.arrays import FloatArray
from limner.core.collection import Items
from limner.core.errors import LimnerError
from limner.core.progress import Progress
from limner.explain.audit.findings import Finding

if TYPE_CHECKING:
    from PIL.Image import Image

GRID, HASHED, LOW = 12, 32, 8
NEAR_BITS = 12
"""Hashes of the same image may differ in at most this many bits."""
NEAR_LEVELS = 18.0
"""Regions of the same image may differ by at most this many of 255 levels."""

Pairs = list[tuple[int, int]]


@dataclass(frozen=True, eq=False)
class Prints:
    """The fingerprint of every image.

    Args:
        exact: A hash of its pixels, or of its bytes; "" if it does not open.
        hashes: The perceptual hash.
        regions: Mean colours of the regions, brightness and contrast scaled.
        sides: Length of the shorter side; 0 if it does not open.
        problems: Why it does not open, by row.
    """

    exact: list[str]
    hashes: npt.NDArray[np.uint64]
    regions: FloatArray
    sides: list[int]
    problems: dict[int, str]


def prints(images: Items, progress: Progress | None = None) -> Prints:
    """Opens every image once. Images without a file (None) are left out of all checks.

    Args:
        images: The images.
        progress: Called with (images done, images in total).
    """
    n = len(images)
    found = Prints([""] * n, np.zeros(n, np.uint64), np.zeros((n, GRID, GRID, 3)), [0] * n, {})
    for row, value in enumerate(images.values):
        if value is not None:
            _look(images, row, found)
        if progress is not None:
            progress(row + 1, n)
    return found


def _look(images: Items, row: int, found: Prints) -> None:
    try:
        image = images.open(row)
    except LimnerError as error:
        found.problems[row] = str(error)
        return
    found.exact[row] = hashlib.blake2b(image.tobytes() + repr(image.size).encode(), digest_size=16).hexdigest()
    found.sides[row] = min(image.size)
    found.hashes[row] = perceptual_hash(image)
    found.regions[row] = _regions(image)


@cache
def _cosines() -> FloatArray:
    """The lowest rows of the discrete cosine transform."""
    place, wave = np.arange(HASHED) + 0.5, np.arange(LOW)
    return np.cos(np.pi / HASHED * np.outer(wave, place))


def perceptual_hash(image: Image) -> np.uint64:
    """A 64-bit hash that copies of an image share: which of its lowest frequencies are above their median."""
    grey = np.asarray(image.convert("L").resize((HASHED, HASHED), 1), dtype=np.float64)
    low = _cosines() @ grey @ _cosines().T
    bits = low.ravel() > np.median(low.ravel()[1:])
    return np.uint64(np.packbits(bits).view(np.uint64)[0])


def _regions(image: Image) -> FloatArray:
    small = np.asarray(image.convert("RGB").resize((GRID, GRID), 4), dtype=np.float64)  # 4: box, exact means
    mean, spread = small.mean(), max(float(small.std()), 8.0)
    return np.asarray((small - mean) / spread * 48.0)


def unopened(images: Items, seen: Prints) -> Iterator[Finding]:
    """Images that do not open."""
    for row, problem in sorted(seen.problems.items()):
        yield Finding("broken-image", (images.ids[row],), problem)


def tiny(images: Items, seen: Prints, min_side: int) -> Iterator[Finding]:
    """Images whose shorter side has fewer pixels than `min_side`."""
    for row, side in enumerate(seen.sides):
        if 0 < side < min_side:
            yield Finding("tiny-image", (images.ids[row],), f"{side} pixels, expected {min_side} or more")


def same(images: Items, seen: Prints) -> Pairs:
    """Pairs of images with the same pixels or the same bytes; each copy is paired with the first."""
    first: dict[str, int] = {}
    pairs: dict[tuple[int, int], None] = {}
    for row, value in enumerate(images.values):
        broken = row in seen.problems
        for key in filter(None, (seen.exact[row], _bytes(value) if broken else "")):
            if first.setdefault(key, row) != row:
                pairs[first[key], row] = None
    return list(pairs)


def _bytes(value: object) -> str:
    """A hash of an image's bytes, for images that do not open."""
    try:
        data = value if isinstance(value, bytes) else Path(str(value)).read_bytes()
    except (OSError, ValueError):
        return ""
    return "b" + hashlib.blake2b(data, digest_size=16).hexdigest() if data else ""


def near(seen: Prints, taken: Pairs) -> Pairs:
    """Pairs of images that look the same in every region, except exact copies."""
    opened = np.array([row for row, key in enumerate(seen.exact) if key], dtype=np.int64)
    done, found = set(taken), []
    for block in np.array_split(opened, max(1, len(opened) // 512)):
        if not len(block):
            continue
        apart = np.bitwise_count(seen.hashes[block, None] ^ seen.hashes[None, opened])
        for at, other in np.argwhere(apart <= NEAR_BITS):
            a, b = int(block[at]), int(opened[other])
            if a < b and (a, b) not in done and seen.exact[a] != seen.exact[b] and _alike(seen, a, b):
                found.append((a, b))
    return found


def _alike(seen: Prints, a: int, b: int) -> bool:
    return float(np.abs(seen.regions[a] - seen.regions[b]).mean(axis=2).max()) <= NEAR_LEVELS
