"""Rasterises shapes with integers, so that every CPU and library version fills the same pixels.

Shapes are drawn on a canvas with several times the resolution of the image, and its pixels are then averaged for smooth
edges. Coordinates are integers, `STEPS` per pixel of the canvas, and a pixel is filled if its centre is inside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

Colour = tuple[int, int, int]
Mask = npt.NDArray[np.bool_]
Whole = npt.NDArray[np.int64]
Sums = npt.NDArray[np.uint16]
Pixels = npt.NDArray[np.uint8]
"""Rows by columns by red, green, blue and an unused byte: four channels are faster than three."""
Packed = npt.NDArray[np.uint32]
Numbers = npt.NDArray[np.uint16]

STEPS = 16
_HALF = STEPS // 2
_STRIP = 64  # rows of the canvas that are averaged together


@dataclass(frozen=True, eq=False)
class Form:
    """A filled shape, ready to be placed.

    Args:
        left: Canvas column of the first column of the mask.
        top: Canvas row of the first row of the mask.
        mask: Which pixels are filled.
    """

    left: int
    top: int
    mask: Mask

    @classmethod
    def of(cls, shape: str, numbers: Sequence[int]) -> Form:
        """Fills a shape; results are cached.

        Args:
            shape: A key of `SHAPES`.
            numbers: Coordinates of the shape.
        """
        points = _POINTS[shape](numbers)
        left, top = min(numbers[i] for i in points) // STEPS, min(numbers[i + 1] for i in points) // STEPS
        moved = list(numbers)
        for i in points:
            moved[i] -= left * STEPS
            moved[i + 1] -= top * STEPS
        reach, mask = _mask(shape, tuple(moved))
        return cls(left - reach, top - reach, mask)


class Sheet:
    """A canvas with `fine` times the resolution of the final image.

    Args:
        width: Width of the image, in pixels.
        height: Height of the image.
        fine: Pixels of the canvas along each side of a pixel of the image: 1, 2, 4, 8 or 16.

    >>> sheet = Sheet(3, 1, 2)
    >>> sheet.paint(Form.of("box", (STEPS, 0, 5 * STEPS, 2 * STEPS, 0)), (8, 0, 0))
    >>> sheet.sums()[..., 0].tolist(), sheet.sums()[..., 3].tolist()  # of red, and of pixels that are painted
    ([[16, 32, 16]], [[2, 4, 2]])
    """

    def __init__(self, width: int, height: int, fine: int) -> None:
        self.fine = fine
        self._pixels = np.zeros((height * fine, width * fine), np.uint32)

    @classmethod
    def of(cls, numbers: Numbers, colours: Sequence[Colour], fine: int) -> Sheet:
        """A canvas from the numbers of its pixels (see `numbers`): number n has the n-th colour, from 1.

        >>> sheet = Sheet(2, 1, 1)
        >>> sheet.number(Form.of("box", (STEPS, 0, 2 * STEPS, STEPS, 0)), 1)
        >>> Sheet.of(sheet.numbers(), [(8, 0, 0)], 1).sums().tolist()
        [[[0, 0, 0, 0], [8, 0, 0, 1]]]
        """
        sheet = cls(0, 0, fine)
        sheet._pixels = np.array([0, *map(_packed, colours)], np.uint32).take(numbers)
        return sheet

    def number(self, form: Form, number: int) -> None:
        """Fills a shape with a number instead of a colour, so that one drawing serves all colours."""
        self._fill(form, number)

    def numbers(self) -> Numbers:
        """The number of every canvas pixel; 0 where nothing is drawn."""
        return self._pixels.astype(np.uint16)

    def paint(self, form: Form, colour: Colour) -> None:
        """Paints a shape; parts outside the canvas are clipped."""
        self._fill(form, _packed(colour))

    def _fill(self, form: Form, value: int) -> None:
        (height, width), (rows, columns), left, top = self._pixels.shape, form.mask.shape, form.left, form.top
        x0, y0, x1, y1 = max(left, 0), max(top, 0), min(left + columns, width), min(top + rows, height)
        if x0 < x1 and y0 < y1:
            inside = form.mask[y0 - top : y1 - top, x0 - left : x1 - left]
            np.copyto(self._pixels[y0:y1, x0:x1], value, where=inside)

    def strew(self, form: Form, colour: Colour, places: Sequence[tuple[int, int]]) -> None:
        """Paints a small form many times, at the given pixel offsets."""
        height, width = self._pixels.shape
        moves = np.array(places, np.int64).reshape(-1, 2)
        down, across = np.nonzero(form.mask)
        y, x = (down + form.top + moves[:, 1:]).ravel(), (across + form.left + moves[:, :1]).ravel()
        inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
        self._pixels[y[inside], x[inside]] = _packed(colour)

    def shade(self, left: int, top: int, right: int, bottom: int, first: Colour, last: Colour) -> None:
        """Paints a rectangle with a vertical gradient from one colour to another."""
        paints = _shades(first, last, bottom - top)[max(-top, 0) : max(len(self._pixels) - top, 0)]
        self._pixels[max(top, 0) : max(bottom, 0), max(left, 0) : max(right, 0)] = paints

    def sums(self) -> Sums:
        """Sums over the canvas pixels in each image pixel: red, green, blue, and the number of painted pixels."""
        total = np.empty((len(self._pixels) // self.fine, self._pixels.shape[1] // self.fine, 4), np.uint16)
        for rows, fields in self._fields():
            for channel, field in enumerate(fields):
                total[rows, :, channel], total[rows, :, channel + 2] = field & np.uint32(0xFFFF), field >> 16
        return total

    def image(self) -> Pixels:
        """The mean colour of each image pixel, for a canvas that is completely painted."""
        packed = np.empty((len(self._pixels) // self.fine, self._pixels.shape[1] // self.fine), "<u4")
        bits = 2 * (self.fine.bit_length() - 1)
        half = np.uint32(0x10001 << bits >> 1)
        for rows, fields in self._fields():
            red_blue, green = (field + half >> bits & np.uint32(0xFF00FF) for field in fields)
            packed[rows] = red_blue | green << 8
        return packed.view(np.uint8).reshape(*packed.shape, 4)

    def _fields(self) -> Iterator[tuple[slice, tuple[Packed, Packed]]]:
        """Sums of red and blue, and of green and painted pixels, 16 bits each, for a few image rows at a time.

        Sixteen bits are enough for 257 pixels, and a few rows fit into the L1 cache.
        """
        steps, fields, eight = range(self.fine), np.uint32(0xFF00FF), np.uint32(8)
        for low in range(0, len(self._pixels), _STRIP):
            strip = self._pixels[low : low + _STRIP]
            rows = [strip[step :: self.fine] for step in steps]
            sides = (
                reduce(np.add, (row & fields for row in rows)),
                reduce(np.add, (row >> eight & fields for row in rows)),
            )
            first, second = (reduce(np.add, (side[:, step :: self.fine] for step in steps)) for side in sides)
            yield slice(low // self.fine, (low + len(strip)) // self.fine), (first, second)


@lru_cache(maxsize=4096)
def _packed(colour: Colour) -> int:
    """Packs red, green, blue and a 1 into one number."""
    red, green, blue = colour
    return red | green << 8 | blue << 16 | 1 << 24


@lru_cache(maxsize=1024)
def _shades(first: Colour, last: Colour, count: int) -> Packed:
    """A gradient from the first colour to the last, packed, one colour per row."""
    parts, row = max(count - 1, 1), np.arange(count)[:, None]
    colours = (2 * ((parts - row) * np.array(first) + row * np.array(last)) + parts) // (2 * parts)
    return np.array([[_packed((red, green, blue))] for red, green, blue in colours.tolist()], np.uint32)


@lru_cache(maxsize=4096)
def _mask(shape: str, numbers: tuple[int, ...]) -> tuple[int, Mask]:
    return SHAPES[shape](numbers)


def _middles(count: int, reach: int = 0) -> Whole:
    """The centres of pixels, starting `reach` pixels before 0."""
    return (np.arange(count, dtype=np.int64) - reach) * STEPS + _HALF


def _pixels(length: int) -> int:
    """The maximum number of pixels that a length covers."""
    return -(-length // STEPS)


def oval(numbers: Sequence[int]) -> tuple[int, Mask]:
    """An ellipse in the box (x0, y0, x1, y1)."""
    *_, right, bottom = numbers
    return 0, _inside(_middles(_pixels(right)), _middles(_pixels(bottom)), numbers)


def ring(numbers: Sequence[int]) -> tuple[int, Mask]:
    """An ellipse without the ellipse that lies `width` inside it: (x0, y0, x1, y1, width)."""
    *outer, width = numbers
    x, y = _middles(_pixels(outer[2])), _middles(_pixels(outer[3]))
    inner = (outer[0] + width, outer[1] + width, outer[2] - width, outer[3] - width)
    return 0, _inside(x, y, outer) & ~_inside(x, y, inner)


def _inside(x: Whole, y: Whole, corners: Sequence[int]) -> Mask:
    """A mask of the points with ((x - cx) / rx)^2 + ((y - cy) / ry)^2 <= 1; all units are doubled."""
    x0, y0, x1, y1 = corners
    wide, high = (x1 - x0) ** 2, (y1 - y0) ** 2
    across, down = (2 * x - (x0 + x1)) ** 2 * high, (2 * y - (y0 + y1)) ** 2 * wide
    return np.asarray(across <= (wide * high - down)[:, None])


def box(numbers: Sequence[int]) -> tuple[int, Mask]:
    """A rectangle with round corners: (x0, y0, x1, y1, radius)."""
    x0, y0, x1, y1, radius = numbers
    radius = min(radius, (x1 - x0) // 2, (y1 - y0) // 2)
    x, y = _middles(_pixels(x1)), _middles(_pixels(y1))
    across, down = _beyond(x, x0 + radius, x1 - radius) ** 2, _beyond(y, y0 + radius, y1 - radius) ** 2
    return 0, across <= (radius**2 - down)[:, None]


def _beyond(values: Whole, low: int, high: int) -> Whole:
    """How far values lie below `low` or above `high`."""
    return np.maximum(np.maximum(low - values, values - high), 0)


def poly(numbers: Sequence[int]) -> tuple[int, Mask]:
    """A polygon: (x, y, x, y, ...). A point is inside if a ray to the left crosses the edges an odd number of times."""
    x, y = np.array(numbers[0::2], np.int64), np.array(numbers[1::2], np.int64)
    width, height = _pixels(int(x.max())), _pixels(int(y.max()))
    upward = y > np.roll(y, -1)
    x0, y0 = np.where(upward, np.roll(x, -1), x), np.where(upward, np.roll(y, -1), y)
    x1, y1 = np.where(upward, x, np.roll(x, -1)), np.where(upward, y, np.roll(y, -1))
    middle = _middles(height)[:, None]
    rows, edges = np.nonzero((y0 <= middle) & (middle < y1))
    run, fall = (x1 - x0)[edges], (y1 - y0)[edges]
    crossed = x0[edges] * fall + (middle[rows, 0] - y0[edges]) * run  # x of the crossing, times the edge's height
    first = np.clip((crossed - _HALF * fall) // (STEPS * fall) + 1, 0, width)  # the first pixel to the right of it
    turns = np.bincount(rows * (width + 1) + first, minlength=height * (width + 1)).reshape(height, width + 1)
    return 0, (np.cumsum(turns, axis=1) & 1).astype(bool)[:, :width]


def line(numbers: Sequence[int]) -> tuple[int, Mask]:
    """A line with round ends and joints: (half of its width, x, y, x, y, ...)."""
    half, *points = numbers
    reach = _pixels(half)
    x, y = points[0::2], points[1::2]
    mask = np.zeros((_pixels(max(y)) + 2 * reach, _pixels(max(x)) + 2 * reach), bool)
    for x0, y0, x1, y1 in zip(x, y, x[1:] or x, y[1:] or y, strict=False):
        rows = slice(min(y0, y1) // STEPS, _pixels(max(y0, y1)) + 2 * reach)
        columns = slice(min(x0, x1) // STEPS, _pixels(max(x0, x1)) + 2 * reach)
        across = _middles(mask.shape[1], reach)[columns] - x0
        down = (_middles(mask.shape[0], reach)[rows] - y0)[:, None]
        mask[rows, columns] |= _inside_stroke(across, down, x1 - x0, y1 - y0, half)
    return reach, mask


def _inside_stroke(across: Whole, down: Whole, run: int, fall: int, half: int) -> Mask:
    """A mask of the points within `half` of the segment from (0, 0) to (run, fall)."""
    square, long = half**2, run**2 + fall**2
    along = across * run + down * fall
    on_segment = (across * fall - down * run) ** 2 <= square * long
    start = across**2 + down**2 <= square
    end = (across - run) ** 2 + (down - fall) ** 2 <= square
    return (on_segment & (along >= 0) & (along <= long)) | start | end if long else start


SHAPES: Mapping[str, Callable[[Sequence[int]], tuple[int, Mask]]] = MappingProxyType(
    {f.__name__: f for f in (oval, ring, box, poly, line)}
)
"""Shapes by name: functions from numbers to a mask, and how far the mask extends beyond its first column and row."""

_POINTS: Mapping[str, Callable[[Sequence[int]], Sequence[int]]] = MappingProxyType(
    {
        "oval": lambda numbers: (0, 2),
        "ring": lambda numbers: (0, 2),
        "box": lambda numbers: (0, 2),
        "poly": lambda numbers: range(0, len(numbers), 2),
        "line": lambda numbers: range(1, len(numbers), 2),
    }
)
"""The position of the first point in a shape's numbers."""
