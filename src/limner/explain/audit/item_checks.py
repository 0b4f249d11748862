"""Images that are broken, tiny, the same, or nearly the same; captions that repeat, are empty, or name their image.

The same: the same pixels after decoding. Files that do not open are broken, and not the same, whatever their bytes.
Nearly the same: a perceptual hash of 64 bits finds candidates (the signs of the lowest frequencies of a 32 x 32 grey
image, Zauner 2010), and a region-by-region comparison confirms them: after scaling brightness and contrast, no region
of a 12 x 12 grid may differ much. So compressed, resized or brightened copies are found, but two images of the same
place with different objects are not reported. The hash and the regions of the mirrored image find mirrored copies.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from limner.core.arrays import FloatArray
from limner.core.collection import Collection, Items
from limner.core.errors import LimnerError
from limner.core.progress import ProgressLike, as_progress
from limner.explain.audit.findings import Defect
from limner.language.identification import main_language, other_language

if TYPE_CHECKING:
    from PIL.Image import Image

GRID, HASHED, LOW = 12, 32, 8
NEAR_BITS = 12
"""Hashes of the same image may differ in at most this many bits."""
NEAR_LEVELS = 18.0
"""Regions of the same image may differ by at most this many of 255 levels."""

LIMITS = (
    "copies are found if they were compressed, resized or mirrored; in part if they were brightened, made grey, "
    "cropped by 2% or rotated by 1 degree; not if they were cropped by 5% or more, framed, turned or marked with a logo"
)
"""Which copies of 60 photographs of Flickr8k are found."""

Pairs = list[tuple[int, int]]


@dataclass(frozen=True, eq=False)
class Prints:
    """The fingerprint of every image.

    Args:
        exact: A hash of its pixels; "" if it does not open.
        hashes: The perceptual hash.
        mirrored: The perceptual hash of the mirrored image.
        regions: Mean colours of the regions, brightness and contrast scaled.
        sides: Length of the shorter side; 0 if it does not open.
        problems: Why it does not open, by row.
    """

    exact: list[str]
    hashes: npt.NDArray[np.uint64]
    mirrored: npt.NDArray[np.uint64]
    regions: FloatArray
    sides: list[int]
    problems: dict[int, str]


def prints(images: Items, progress: ProgressLike = None) -> Prints:
    """Opens every image once. Images without a file (None) are left out of all checks.

    Args:
        images: The images.
        progress: Called with (images done, images in total).
    """
    progress = as_progress(progress)
    n = len(images)
    hashes, mirrored_hashes = np.zeros((2, n), np.uint64)
    fingerprints = Prints([""] * n, hashes, mirrored_hashes, np.zeros((n, GRID, GRID, 3)), [0] * n, {})
    for row, value in enumerate(images.values):
        if value is not None:
            _look(images, row, fingerprints)
        progress(row + 1, n)
    return fingerprints


def _look(images: Items, row: int, fingerprints: Prints) -> None:
    try:
        image = images.open(row)
    except LimnerError as error:
        fingerprints.problems[row] = str(error)
        return
    fingerprints.exact[row] = hashlib.blake2b(image.tobytes() + repr(image.size).encode(), digest_size=16).hexdigest()
    fingerprints.sides[row] = min(image.size)
    fingerprints.hashes[row], fingerprints.mirrored[row] = perceptual_hashes(image)
    fingerprints.regions[row] = _regions(image)


@cache
def _cosines() -> FloatArray:
    """The lowest rows of the discrete cosine transform."""
    place, wave = np.arange(HASHED) + 0.5, np.arange(LOW)
    return np.cos(np.pi / HASHED * np.outer(wave, place))


def perceptual_hashes(image: Image) -> tuple[np.uint64, np.uint64]:
    """A 64-bit hash that copies of an image share, and that of the mirrored image."""
    grey = np.asarray(image.convert("L").resize((HASHED, HASHED), 1), dtype=np.float64)
    return _hash(grey), _hash(grey[:, ::-1])


def _hash(grey: FloatArray) -> np.uint64:
    """Which of its lowest frequencies are above their median."""
    low = _cosines() @ grey @ _cosines().T
    bits = low.ravel() > np.median(low.ravel()[1:])
    return np.uint64(np.packbits(bits).view(np.uint64)[0])


def _regions(image: Image) -> FloatArray:
    small = np.asarray(image.convert("RGB").resize((GRID, GRID), 4), dtype=np.float64)  # 4: box, exact means
    mean, spread = small.mean(), max(float(small.std()), 8.0)
    return np.asarray((small - mean) / spread * 48.0)


def unopened(images: Items, fingerprints: Prints) -> Iterator[Defect]:
    """Images that do not open."""
    for row, problem in sorted(fingerprints.problems.items()):
        yield Defect("broken-image", (images.ids[row],), problem)


def tiny(images: Items, fingerprints: Prints, min_side: int) -> Iterator[Defect]:
    """Images whose shorter side has fewer pixels than `min_side`."""
    for row, side in enumerate(fingerprints.sides):
        if 0 < side < min_side:
            yield Defect("tiny-image", (images.ids[row],), f"{side} pixels, expected {min_side} or more")


def same_pixels(fingerprints: Prints) -> Pairs:
    """Pairs of images with the same pixels; each copy is paired with the first."""
    first: dict[str, int] = {}
    return [
        (first[key], row) for row, key in enumerate(fingerprints.exact) if key and first.setdefault(key, row) != row
    ]


def look_alikes(fingerprints: Prints, reported: Pairs) -> Pairs:
    """Pairs of images that look the same in every region, except exact copies."""
    return list(_look_alikes(fingerprints, fingerprints.hashes, fingerprints.regions, set(reported)))


def mirrored(fingerprints: Prints, reported: Pairs) -> Pairs:
    """Pairs in which one image is a mirrored copy of the other, except pairs found in another way."""
    return list(_look_alikes(fingerprints, fingerprints.mirrored, fingerprints.regions[:, :, ::-1], set(reported)))


def _look_alikes(
    fingerprints: Prints, hashes: npt.NDArray[np.uint64], regions: FloatArray, reported: set[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    """Pairs of an image and one with these hashes and regions that look the same."""
    opened = np.array([row for row, key in enumerate(fingerprints.exact) if key], dtype=np.int64)
    for block in np.array_split(opened, max(1, len(opened) // 512)):
        if not len(block):
            continue
        distances = np.bitwise_count(fingerprints.hashes[block, None] ^ hashes[None, opened])
        for at, column in np.argwhere(distances <= NEAR_BITS):
            a, b = int(block[at]), int(opened[column])
            if (
                a < b
                and (a, b) not in reported
                and fingerprints.exact[a] != fingerprints.exact[b]
                and _alike(fingerprints.regions[a], regions[b])
            ):
                yield a, b


def _alike(one: FloatArray, two: FloatArray) -> bool:
    return float(np.abs(one - two).mean(axis=2).max()) <= NEAR_LEVELS


_WORD = re.compile(r"\w+")
_LEAST_NAME = 5
"""File names shorter than this may be ordinary words."""


def plain(text: str) -> str:
    """A caption in lower case, without punctuation and spacing.

    >>> plain("A dog, running.") == plain("a dog running")
    True
    """
    return " ".join(_WORD.findall(text.casefold()))


def images_of(collection: Collection) -> list[list[int]]:
    """The rows of the images that each text matches."""
    owners: list[list[int]] = [[] for _ in collection.texts.ids]
    pairs = collection.judgements.relevant
    for row, column in zip(pairs.rows, pairs.columns, strict=True):
        if column < len(owners):
            owners[column].append(int(row))
    return owners


def repeated(collection: Collection) -> Iterator[Defect]:
    """Captions shared by several images, and captions that occur twice for one image."""
    owners, ids = images_of(collection), collection.texts.ids
    rows: dict[str, list[int]] = {}
    for row, text in enumerate(collection.texts.values):
        if key := plain(text):
            rows.setdefault(key, []).append(row)
    for rows_alike in (group for group in rows.values() if len(group) > 1):
        caption = str(collection.texts.values[rows_alike[0]])
        by_image: dict[int, list[int]] = {}
        for row in rows_alike:
            for image in owners[row]:
                by_image.setdefault(image, []).append(row)
        if len(by_image) > 1:
            yield Defect(
                "repeated-caption", tuple(ids[row] for row in rows_alike), f"{len(by_image)} images: {caption!r}"
            )
        for image, twice in by_image.items():
            for row in twice[1:]:
                detail = f"{collection.images.ids[image]}: {caption!r}"
                yield Defect("caption-twice", (ids[twice[0]], ids[row]), detail)


def empty(collection: Collection) -> Iterator[Defect]:
    """Captions without words; collections that only have ids, so that all captions are empty, are not checked."""
    texts = collection.texts
    if any(plain(text) for text in texts.values):
        for row, text in enumerate(texts.values):
            if not plain(text):
                yield Defect("empty-caption", (texts.ids[row],), repr(text))


def self_matches(collection: Collection) -> Iterator[Defect]:
    """Captions that contain the file name of their image, so that a system need not look at the image."""
    owners = images_of(collection)
    for row, text in enumerate(collection.texts.values):
        folded = text.casefold()
        for image in owners[row]:
            name = Path(collection.images.ids[image]).stem.casefold()
            if len(name) >= _LEAST_NAME and any(c.isdigit() for c in name) and name in folded:
                yield Defect("self-match", (collection.texts.ids[row],), f"{text!r} holds {name!r}")
                break


def other_languages(collection: Collection) -> Iterator[Defect]:
    """Captions that are clearly in another language than their field `language`, or than most captions."""
    texts = collection.texts
    languages = texts.fields.get("language")
    main = "" if languages is not None else main_language(texts.values)
    for row, text in enumerate(texts.values):
        expected = str(languages[row]) if languages is not None else main
        if expected and (language := other_language(text, expected)):
            yield Defect("other-language", (texts.ids[row],), f"{language}, expected {expected}: {text!r}")
