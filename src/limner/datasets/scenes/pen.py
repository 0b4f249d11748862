"""A pen that draws an object from simple shapes, with one clean outline around the parts that belong together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from limner.datasets.scenes.raster import STEPS, Colour, Form, Numbers, Sheet, Sums

Point = tuple[float, float]
Shape = tuple[Any, ...]

PAINT: dict[str, Colour] = {
    "red": (222, 48, 52),
    "orange": (245, 135, 31),
    "yellow": (250, 210, 50),
    "green": (64, 160, 72),
    "blue": (48, 108, 214),
    "purple": (136, 70, 176),
    "pink": (246, 140, 182),
    "brown": (140, 92, 54),
    "black": (54, 54, 62),
    "white": (248, 248, 244),
}
INK: Colour = (38, 34, 40)
CREAM: Colour = (250, 236, 212)
GLASS: Colour = (190, 226, 244)
GREY: Colour = (160, 164, 172)
WOOD: Colour = (150, 104, 66)
LEAF: Colour = (74, 148, 66)

FINE = 4
"""Each image pixel is drawn as FINE x FINE pixels, which are then averaged for smooth edges."""


def mix(a: Colour, b: Colour, share: float) -> Colour:
    """A colour between a and b, with this share of b."""
    red, green, blue = (round(x + (y - x) * share) for x, y in zip(a, b, strict=True))
    return red, green, blue


@dataclass(frozen=True)
class PenShape:
    """One shape in the units of the grid, and its colour.

    Args:
        shape: "oval", "ring", "box", "poly" or "line".
        points: Its points.
        wide: Its margin beyond the points on all sides.
        size: The radius of a box's corners, or the width of a ring.
        colour: Its colour.
    """

    shape: str
    points: tuple[Point, ...]
    wide: float
    size: float
    colour: Colour

    def extent(self) -> tuple[float, float, float, float]:
        """Left, top, right and bottom."""
        across, down = zip(*self.points, strict=True)
        return min(across) - self.wide, min(down) - self.wide, max(across) + self.wide, max(down) + self.wide

    def grown(self, wide: float, colour: Colour) -> PenShape:
        """The same shape, wider on all sides."""
        return PenShape(self.shape, self.points, self.wide + wide, self.size, colour)


class Pen:
    """Draws in the units of a kind's grid; the drawing is then cut out and filled.

    A shape is a tuple: ("oval", x0, y0, x1, y1), ("ring", x, y, radius, width), ("box", x0, y0, x1, y1, radius),
    ("poly", point, point, ...) or ("line", width, point, point, ...).

    Args:
        grid: Width and height of the grid.
        width: Width of the drawn object in image pixels.
        colour: Name of the object's colour.
        flying: Whether the object is in the air, which changes the wings of a bird.
    """

    def __init__(self, grid: tuple[int, int], *, width: int, colour: str, flying: bool = False) -> None:
        pixel = grid[0] / width
        self.edge = pixel * (0.75 if width < 26 else 1.0)
        self._thin = pixel * 0.8
        self._marks: list[PenShape] = []
        self.body = PAINT[colour]
        self.dark = mix(self.body, (0, 0, 0), 0.62 if colour == "black" else 0.42)
        self.light = mix(self.body, (255, 255, 255), 0.3 if colour == "black" else 0.45)
        if colour == "white":  # white has no lighter shade, so grey is used
            self.light = (218, 222, 232)
        self.flying = flying

    def join(self, *shapes: Shape, fill: Colour | None = None, edge: Colour | None = None) -> None:
        """Fills shapes as one form with one outline around all of them."""
        marks = [self._mark(shape, fill or self.body) for shape in shapes]
        self._marks += [mark.grown(self.edge, edge or self.dark) for mark in marks]
        self._marks += marks

    def fill(self, *shapes: Shape, fill: Colour) -> None:
        """Fills shapes without an outline."""
        self._marks += [self._mark(shape, fill) for shape in shapes]

    def dot(self, x: float, y: float, radius: float, fill: Colour = INK) -> None:
        """A filled circle."""
        self.fill(("oval", x - radius, y - radius, x + radius, y + radius), fill=fill)

    def eye(self, x: float, y: float, radius: float) -> None:
        """An eye that is visible on any colour: a dark pupil in a white rim, with a highlight."""
        self.dot(x, y, radius * 1.45, (255, 255, 255))
        self.dot(x, y, radius)
        self.dot(x + radius * 0.3, y - radius * 0.35, radius * 0.35, (255, 255, 255))

    def outlined(self, *, width: int, height: int) -> Numbers:
        """The drawing, stretched to a box of width x height image pixels: which shape each canvas pixel shows, from 1.

        It does not depend on the colour of the object, so one result serves `coloured` of all pens of a kind.
        """
        extents = zip(*(mark.extent() for mark in self._marks), strict=True)
        left, top, right, bottom = (limit(ends) for limit, ends in zip((min, min, max, max), extents, strict=True))
        sheet = Sheet(width, height, FINE)
        steps = FINE * STEPS
        frame = Frame(left, top, width * steps / (right - left), height * steps / (bottom - top))
        for number, mark in enumerate(self._marks, start=1):
            for shape, numbers in frame.place(mark):
                sheet.number(Form.of(shape, numbers), number)
        return sheet.numbers()

    def coloured(self, outlined: Numbers) -> Sums:
        """The drawing in the colours of this pen, as sums over FINE x FINE pixels each."""
        return Sheet.of(outlined, [mark.colour for mark in self._marks], FINE).sums()

    def _mark(self, shape: Shape, colour: Colour) -> PenShape:
        name, *numbers = shape
        if name == "poly":
            return PenShape(name, tuple(numbers), 0.0, 0.0, colour)
        if name == "line":
            width, *points = numbers
            return PenShape(name, tuple(points), max(width, self._thin) / 2, 0.0, colour)
        if name == "ring":
            x, y, radius, width = numbers
            corners = (x - radius, y - radius), (x + radius, y + radius)
            return PenShape(name, corners, width / 2, width, colour)
        x0, y0, x1, y1, *radius = numbers
        return PenShape(name, ((x0, y0), (x1, y1)), 0.0, radius[0] if radius else 0.0, colour)


@dataclass(frozen=True)
class Frame:
    """Where the grid lies on a canvas: steps = (units - origin) * scale, rounded."""

    left: float
    top: float
    across: float
    down: float

    def place(self, mark: PenShape) -> Iterator[tuple[str, list[int]]]:
        """The raster shapes that make up a mark."""
        points = [n for x, y in mark.points for n in self._at(x, y)]
        wide, size = self._length(mark.wide), self._length(mark.size)
        if mark.shape == "poly":
            yield "poly", points
            if wide:
                yield "line", [wide, *points, *points[:2]]
        elif mark.shape == "line":
            yield "line", [wide, *points]
        else:
            corners = [points[0] - wide, points[1] - wide, points[2] + wide, points[3] + wide]
            yield mark.shape, corners + {"oval": [], "ring": [size], "box": [size + wide]}[mark.shape]

    def _at(self, x: float, y: float) -> tuple[int, int]:
        return round((x - self.left) * self.across), round((y - self.top) * self.down)

    def _length(self, length: float) -> int:
        return round(length * (self.across + self.down) / 2)
