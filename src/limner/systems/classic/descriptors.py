"""Integer descriptors of image points: colour, texture and shape.

Descriptors are integers from 0 to 255, like Lowe's, so that distances to integer-valued words are exact. They
use operations that every CPU rounds in the same way (`core.reproducible_math`), so that the visual words of an image
are the same everywhere. Images that are downscaled first depend on Pillow, which may differ by a grey level.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from limner.core.arrays import Float32
from limner.core.reproducible_math import cosine, exponential, logarithm, sine
from limner.systems.classic import _loops

if TYPE_CHECKING:
    from PIL.Image import Image

Pixels = npt.NDArray[np.uint8]

SIDE = 192
"""Images whose shorter side is longer are downscaled first."""
_MOST_PIXELS = 15 * 65_535  # counts of a sixteenth of an image fit 16 bits

SCALES, TURNS = (1.0, 2.0, 4.0), 8  # texture filters: standard deviations in pixels, directions of half a circle
_NOISE, _TEXTURE_STEPS = 0.03, 64.0
BINS, DIRECTIONS, STEP = (4, 8), 8, 4  # SIFT: pixels per bin, directions of the circle, pixels between descriptors
_LEAST = 2.0  # descriptors of grey values 0 to 255 with a smaller norm have no contrast


@dataclass(frozen=True, eq=False)
class Points:
    """Descriptors of points in one image.

    Args:
        values: One row of integers per point.
        rows: Distances from the top, in pixels.
        columns: Distances from the left.
        size: (height, width) of the image.
    """

    values: Pixels
    rows: Float32
    columns: Float32
    size: tuple[int, int]


def pixels(image: Image, *, side: int = SIDE) -> Pixels:
    """An image as an array, rows by columns by RGB; downscaled if its shorter side is longer than `side`."""
    from PIL.Image import Resampling

    width, height = image.size
    factor = min(1.0, side / min(width, height), (_MOST_PIXELS / (width * height)) ** 0.5)
    if factor < 1:
        smaller = (max(round(width * factor), 1), max(round(height * factor), 1))
        image = image.resize(smaller, Resampling.LANCZOS)
    return np.asarray(image.convert("RGB"))


def lab(colours: Pixels) -> Pixels:
    """sRGB to CIELAB with the D65 white point, as integers: 2.55 L*, a* + 128, b* + 128 (CIE 1976).

    >>> lab(np.array([[255, 255, 255], [255, 0, 0], [0, 0, 0]], dtype=np.uint8)).tolist()
    [[255, 128, 128], [136, 208, 195], [0, 128, 128]]
    """
    linear = _linear()[colours]
    red, green, blue = linear[..., 0], linear[..., 1], linear[..., 2]
    x, y, z = (_bent()[(r * red + g * green + b * blue) >> _BITS] for r, g, b in _WHITE_XYZ)
    one, half = 1 << _BITS, 1 << _BITS >> 1
    coordinates = ((116 * y - 16 * one) * 255 // 100, 500 * (x - y) + 128 * one, 200 * (y - z) + 128 * one)
    rounded = np.stack([(coordinate + half) >> _BITS for coordinate in coordinates], axis=-1)
    return np.asarray(np.clip(rounded, 0, 255), dtype=np.uint8)


_BITS = 16  # bits of the integers that represent 0 to 1
_XYZ = (
    (0.4124564, 0.3575761, 0.1804375),
    (0.2126729, 0.7151522, 0.0721750),
    (0.0193339, 0.1191920, 0.9503041),
)


def _shares(row: tuple[float, float, float]) -> tuple[int, int, int]:
    """Weights of red, green and blue in a coordinate; white is 1."""
    red, _, blue = (round(value / math.fsum(row) * 2**_BITS) for value in row)
    return red, 2**_BITS - red - blue, blue


_WHITE_XYZ = tuple(map(_shares, _XYZ))


@cache
def _linear() -> npt.NDArray[np.int64]:
    """The linear intensity of each of 256 sRGB levels (IEC 61966-2-1); white is 2 ** _BITS."""
    levels = [level / 255 for level in range(256)]
    light = [v / 12.92 if v <= 0.04045 else exponential(2.4 * logarithm((v + 0.055) / 1.055)) for v in levels]
    return np.array([round(v * 2**_BITS) for v in light], dtype=np.int64)


@cache
def _bent() -> npt.NDArray[np.int64]:
    """The nonlinearity of CIELAB: a cube root, linear near black. Values are relative to white."""
    share = np.arange(2**_BITS + 1) / 2**_BITS
    root = np.ones(len(share))
    for _ in range(12):  # Newton's steps use exactly rounded operations; a library's cube root may not
        root = (2 * root + share / (root * root)) / 3
    bent = np.where(share > 216 / 24389, root, (24389 / 27 * share + 16) / 116)
    return np.asarray(np.rint(bent * 2**_BITS), dtype=np.int64)


def colour(image: Pixels) -> Points:
    """CIELAB coordinates of every pixel."""
    height, width = image.shape[:2]
    rows, columns = _grid(height, width, 0, 0, 1)
    return Points(lab(image).reshape(-1, 3), rows, columns, (height, width))


def texture(image: Pixels, *, step: int = 2) -> Points:
    """Oriented energy around every second pixel of every second row: 8 directions at each of 3 scales.

    With the first and second derivatives of a Gaussian along direction t, which are an odd and an even filter,

        e_t = sqrt((I * G'_t)^2 + (I * G''_t)^2),    e <- e log(1 + |e| / 0.03) / |e|

    Perona & Malik 1990 for the energy of a pair; Varma & Zisserman 2005 for the contrast normalisation (Weber's law).

    >>> edge = np.zeros((32, 32, 3), dtype=np.uint8); edge[:, 16:] = 255
    >>> int(texture(edge).values[8 * 16 + 8, :8].argmax())  # light differs from left to right: direction 0
    0
    """
    grey = _grey(image) / np.float32(255)
    height, width = grey.shape
    shape = ((height + step - 1) // step, (width + step - 1) // step)
    slopes = np.empty((len(SCALES), 2, *shape), np.float32)
    bends = np.empty((len(SCALES), 3, *shape), np.float32)
    for s, scale in enumerate(SCALES):
        _derivatives(grey, scale, step, slopes[s], bends[s])
    out = np.empty((shape[0] * shape[1], len(SCALES) * TURNS), np.uint8)
    flat = slopes.reshape(len(SCALES), 2, -1), bends.reshape(len(SCALES), 3, -1)
    _loops.energies(*flat, *_half_circle(), _NOISE, _TEXTURE_STEPS, out)
    return Points(out, *_grid(*shape, 0, 0, step), (height, width))


@cache
def _half_circle() -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Cosines and sines of the directions."""
    turns = [k / (2 * TURNS) for k in range(TURNS)]
    return np.array([cosine(turn) for turn in turns]), np.array([sine(turn) for turn in turns])


def _derivatives(grey: Float32, scale: float, step: int, slopes: Float32, bends: Float32) -> None:
    """Gaussian derivatives at one scale, normalised across scales: the n-th one times scale ** n."""
    kernels = _gaussians(scale)
    sides = []
    for kernel in kernels:
        filtered = np.empty((grey.shape[0], slopes.shape[2]), np.float32)
        _loops.across(grey, kernel, 0, step, filtered)
        sides.append(filtered)
    for along_x, along_y, out in ((1, 0, slopes[0]), (0, 1, slopes[1])):
        _loops.down(sides[along_x], kernels[along_y], 0, step, out)
    for along_x, along_y, out in ((2, 0, bends[0]), (1, 1, bends[1]), (0, 2, bends[2])):
        _loops.down(sides[along_x], kernels[along_y], 0, step, out)


@cache
def _gaussians(scale: float) -> tuple[Float32, Float32, Float32]:
    """A Gaussian and its first two derivatives, sampled; the derivatives are 0 on a constant image."""
    reach = int(3 * scale + 0.5)
    t = [k / scale for k in range(-reach, reach + 1)]
    bell = _bell(t)
    slope = [u * weight for u, weight in zip(t, bell, strict=True)]  # u, not -u: both polarities count the same
    bend = [(u * u - 1) * weight for u, weight in zip(t, bell, strict=True)]
    flat = math.fsum(bend) / len(bend)
    first, second, third = (np.array(k, np.float32) for k in (bell, slope, [weight - flat for weight in bend]))
    return first, second, third


def _bell(t: Sequence[float]) -> list[float]:
    """exp(-t^2 / 2), normalised to sum 1."""
    heights = [exponential(-u * u / 2) for u in t]
    return [height / math.fsum(heights) for height in heights]


def sift(image: Pixels, *, step: int = STEP) -> Points:
    """SIFT descriptors on a dense grid: 4 x 4 bins of 8 directions, with bin sizes of 4 and 8 pixels.

    Gradients are interpolated over bins and weighted by a Gaussian two bins wide; descriptors are normalised, clipped
    at 0.2, and normalised again. Lowe 2004; Vedaldi & Fulkerson 2008 for the grid.

    >>> sift(np.zeros((64, 48, 3), dtype=np.uint8)).values.shape
    (128, 128)
    """
    grey = _grey(image)
    height, width = grey.shape
    maps = np.zeros((DIRECTIONS, height, width), np.float32)
    _loops.orientations(grey, maps)
    parts = [_sift_of(maps, size, step) for size in BINS]
    values, rows, columns = (np.concatenate(part) for part in zip(*parts, strict=True))
    return Points(values, rows, columns, (height, width))


def _sift_of(maps: Float32, size: int, step: int) -> tuple[Pixels, Float32, Float32]:
    """Descriptors with bins of one size, and the positions of their centres."""
    _, height, width = maps.shape
    reach = 3 * size + size // 2
    rows, columns = (max((length - size // 2 - reach - 1) // step + 1, 0) for length in (height, width))
    if not rows or not columns:
        empty = np.empty(0, np.float32)
        return np.empty((0, 16 * DIRECTIONS), np.uint8), empty, empty
    triangle = (1 - np.abs(np.arange(1 - size, size)) / size).astype(np.float32) / np.float32(size)
    every = math.gcd(size, step)  # only these rows and columns of the filtered maps are read
    high, wide = (((count - 1) * step + 3 * size) // every + 1 for count in (rows, columns))
    spread, one = np.empty((DIRECTIONS, high, wide), np.float32), np.empty((height, wide), np.float32)
    for k in range(DIRECTIONS):
        _loops.across(maps[k], triangle, size // 2, every, one)
        _loops.down(one, triangle, size // 2, every, spread[k])
    out = np.empty((rows, columns, 16 * DIRECTIONS), np.uint8)
    _loops.sift(spread, size // every, step // every, _window(), _LEAST, out)
    middle = size // 2 + 1.5 * size
    return out.reshape(-1, 16 * DIRECTIONS), *_grid(rows, columns, middle, middle, step)


@cache
def _window() -> Float32:
    bell = np.array([exponential(-((k - 1.5) ** 2) / 8) for k in range(4)])
    return np.outer(bell, bell).astype(np.float32)


def _grey(image: Pixels) -> Float32:
    """Luma by ITU-R 601."""
    red, green, blue = (image[..., channel].astype(np.int32) for channel in range(3))
    return np.asarray((299 * red + 587 * green + 114 * blue).astype(np.float32) / np.float32(1000))


def _grid(rows: int, columns: int, top: float, left: float, step: int) -> tuple[Float32, Float32]:
    """Positions of the points of a grid, row by row."""
    down = np.repeat(np.arange(rows, dtype=np.float32) * step + top, columns)
    right = np.tile(np.arange(columns, dtype=np.float32) * step + left, rows)
    return down.astype(np.float32), right.astype(np.float32)


DESCRIPTORS: Mapping[str, Callable[[Pixels], Points]] = MappingProxyType(
    {"colour": colour, "texture": texture, "sift": sift}
)
"""Descriptors by the name of their feature."""
