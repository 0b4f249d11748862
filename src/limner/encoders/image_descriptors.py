"""Histogram descriptors of images: the layout of colours and the directions of edges.

Both are computed for a grid of cells and for the whole image. The descriptors are the square roots of shares, so that
the dot product of two descriptors is the sum of their Bhattacharyya coefficients (the Hellinger kernel), which suits
histograms better than the plain dot product.

Pixels are compared and counted with integers, so that the result is the same on every CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from limner.core.arrays import Float32, FloatArray
from limner.core.collection import Items
from limner.core.errors import UnknownName
from limner.core.progress import ProgressLike, as_progress
from limner.core.reproducible_math import cosine, sine
from limner.scores.parallel_blocks import usable_cores

if TYPE_CHECKING:
    from PIL.Image import Image

Pixels = npt.NDArray[np.uint8]
Whole = npt.NDArray[np.int32]

SIDE = 160  # images are scaled to SIDE x SIDE pixels first
GRID = 4  # cells along each side
HUES, GREYS, DIRECTIONS = 12, 6, 12
_LEVELS = 32  # steps per colour channel in the table of colour names


def colours(pixels: Pixels) -> Float32:
    """The share of each colour in each cell and in the whole image.

    Colours are 12 hues in two saturations and three brightnesses, and 6 greys.
    """
    table = _colour_table()
    steps = (pixels >> 3).astype(np.uint16)  # 256 values in _LEVELS steps
    code = table.take((steps[..., 0] << 10) | (steps[..., 1] << 5) | steps[..., 2])
    return _histograms(code, int(table.max()) + 1, None)


def shapes(pixels: Pixels) -> Float32:
    """The strength of edges in each of 12 directions, in each cell and in the whole image, at two scales."""
    grey = pixels[..., 0].astype(np.int32) + pixels[..., 1] + pixels[..., 2]  # 32 bits hold all squares below
    rows = grey[::2] + grey[1::2]
    coarse = rows[:, ::2] + rows[:, 1::2]
    return np.concatenate([_edges(grey), _edges(coarse)])


DESCRIPTIONS: Mapping[str, Callable[[Pixels], Float32]] = MappingProxyType({"colours": colours, "shapes": shapes})
"""Descriptors by name; each has its own dimension, and all have equal weight."""


def describe(
    items: Items, names: Sequence[str], *, workers: int | None = None, progress: ProgressLike = None
) -> Float32:
    """One row per image: its concatenated descriptors, each with Euclidean norm 1.

    Args:
        items: The images.
        names: Keys of `DESCRIPTIONS`.
        workers: Threads; all cores by default.
        progress: Called with (images done, images in total).
    """
    progress = as_progress(progress)
    for name in names:
        if name not in DESCRIPTIONS:
            raise UnknownName("image descriptor", name, DESCRIPTIONS)

    def work(row: int) -> Float32:
        with items.opened(row) as image:
            return describe_one(image, names)

    rows = []
    with ThreadPoolExecutor(workers or usable_cores()) as pool:
        for row in pool.map(work, range(len(items))):
            rows.append(row)
            progress(len(rows), len(items))
    return np.stack(rows) if rows else np.zeros((0, _dim(names)), dtype=np.float32)


def _dim(names: Sequence[str]) -> int:
    blank = np.zeros((SIDE, SIDE, 3), dtype=np.uint8)
    return sum(len(DESCRIPTIONS[name](blank)) for name in names)


@dataclass(frozen=True)
class Histograms:
    """The built-in image encoder, which needs no weights: concatenated descriptors.

    Args:
        names: Keys of `DESCRIPTIONS`.
    """

    names: tuple[str, ...] = ("colours", "shapes")
    kinds = ("image",)

    @cached_property
    def dim(self) -> int:
        """Dimension of the vectors."""
        return _dim(self.names)

    def encode(self, items: Items, *, workers: int | None = None, progress: ProgressLike = None) -> Float32:
        """One row per image; see `describe`."""
        return describe(Items.of(items, kind="image"), self.names, workers=workers, progress=progress)


def describe_one(image: Image, names: Sequence[str]) -> Float32:
    """The concatenated descriptors of one image."""
    from PIL.Image import Resampling

    scaled = image if image.size == (SIDE, SIDE) else image.resize((SIDE, SIDE), Resampling.BOX)
    pixels = np.asarray(scaled.convert("RGB"))
    return np.concatenate([_of_length_one(DESCRIPTIONS[name](pixels)) for name in names])


def _of_length_one(part: Float32) -> Float32:
    """Normalises a descriptor. Shares sum to 1 over the cells and over the image, so its squared norm is an integer."""
    squared = round(float(part @ part))
    return np.asarray(part / np.sqrt(np.float32(max(squared, 1))), dtype=np.float32)


def _edges(grey: Whole) -> Float32:
    down, right = _slopes(grey), np.ascontiguousarray(_slopes(grey.T).T)
    strength = np.rint(16 * np.sqrt(down**2 + right**2))
    return _histograms(_directions(down, right), DIRECTIONS, strength)


def _slopes(grey: Whole) -> Whole:
    """Twice the gradient along rows: central differences, and one-sided differences at the edges."""
    slopes = np.empty_like(grey)
    slopes[1:-1] = grey[2:] - grey[:-2]
    slopes[0], slopes[-1] = 2 * (grey[1] - grey[0]), 2 * (grey[-1] - grey[-2])
    return slopes


def _directions(down: Whole, right: Whole) -> npt.NDArray[np.intp]:
    """Which of the 12 directions in a half circle a gradient has; opposite gradients are the same edge."""
    right = np.where((down < 0) | ((down == 0) & (right < 0)), -right, right)
    down = np.abs(down)
    left = right < 0
    side = np.where(left, -right, down)  # right and up to left, or up
    turned = side / np.maximum(down + np.abs(right), 1)
    turned += left
    passed = np.zeros(turned.shape, np.uint8)
    for bound in _bounds():
        passed += turned >= bound
    return passed.astype(np.intp)


@cache
def _bounds() -> tuple[float, ...]:
    """Where each direction after the first begins, as y / (|x| + y): 0 is right, 1 is up, 2 is left."""
    points = [(cosine(k / 2 / DIRECTIONS), sine(k / 2 / DIRECTIONS)) for k in range(1, DIRECTIONS)]
    return tuple(round(1 - x / (y - x) if x < 0 else y / (x + y), 12) for x, y in points)


def _histograms(code: npt.NDArray[np.intp], kinds: int, weights: FloatArray | None) -> Float32:
    """Square roots of shares, for each cell and then for the whole image; 0 if there is nothing to count."""
    flat = None if weights is None else weights.ravel()
    counted = np.bincount((_cells(len(code)) * kinds + code).ravel(), flat, GRID * GRID * kinds)
    cells = counted.reshape(GRID * GRID, kinds)
    return np.sqrt(np.concatenate([cells, cells.sum(axis=0)[None]]).ravel() / max(float(cells.sum()), 1e-12)).astype(
        np.float32
    )


@cache
def _cells(side: int) -> npt.NDArray[np.intp]:
    """The number of the grid cell that each pixel is in."""
    band = np.arange(side) * GRID // side
    return band[:, None] * GRID + band[None, :]


@cache
def _colour_table() -> npt.NDArray[np.intp]:
    """The number of the colour for every combination of red, green and blue steps."""
    steps: FloatArray = (np.indices((_LEVELS,) * 3).reshape(3, -1) + 0.5) / _LEVELS
    red, green, blue = steps
    value, spread = steps.max(axis=0), steps.max(axis=0) - steps.min(axis=0)
    safe = np.where(spread == 0, 1, spread)
    sixth = np.where(
        value == red,
        (green - blue) / safe % 6,
        np.where(value == green, (blue - red) / safe + 2, (red - green) / safe + 4),
    )
    hue = (sixth * HUES / 6 + 0.5).astype(np.intp) % HUES  # shifted by half a step, so that red is one hue
    vivid = (spread / value > 0.55).astype(np.intp)
    bright = np.minimum((value * 3).astype(np.intp), 2)
    grey = np.minimum((value * GREYS).astype(np.intp), GREYS - 1)
    named = np.where(spread / value < 0.15, grey, GREYS + (hue * 2 + vivid) * 3 + bright)
    return np.asarray(named, dtype=np.intp)
