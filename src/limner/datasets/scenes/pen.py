"""A pen that draws an object from simple shapes, with one clean outline around the parts that belong together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from PIL.Image import Image

Colour = tuple[int, int, int]
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
"""Each picture pixel is drawn as FINE x FINE and then averaged, so that edges are smooth."""


def mix(a: Colour, b: Colour, share: float) -> Colour:
    """A colour between a and b, with this share of b."""
    red, green, blue = (round(x + (y - x) * share) for x, y in zip(a, b, strict=True))
    return red, green, blue


class Pen:
    """Draws on a transparent sheet in the units of a kind's grid.

    A shape is a tuple: ("oval", x0, y0, x1, y1), ("box", x0, y0, x1, y1, radius), ("poly", point, point, ...) or
    ("line", width, point, point, ...).

    Args:
        grid: Width and height of the grid.
        width: Width of the drawn object in picture pixels.
        colour: Name of the object's colour.
        flying: Whether the object is in the air, which changes how a bird holds its wings.
    """

    def __init__(self, grid: tuple[int, int], *, width: int, colour: str, flying: bool = False) -> None:
        """Lays out an empty sheet with a margin for the outline."""
        from PIL import Image, ImageDraw

        self.scale = width * FINE / grid[0]
        self.edge = FINE * (0.75 if width < 26 else 1.0)
        self.margin = 2 * FINE
        width, height = (round(side * self.scale) + 2 * self.margin for side in grid)
        self.sheet = Image.new("RGBA", (width, height), (0, 0, 0, 0))
        self._draw = ImageDraw.Draw(self.sheet)
        self.body = PAINT[colour]
        self.dark = mix(self.body, (0, 0, 0), 0.62 if colour == "black" else 0.42)
        self.light = mix(self.body, (255, 255, 255), 0.3 if colour == "black" else 0.45)
        if colour == "white":  # nothing is lighter: what is light elsewhere is a shade of grey here
            self.light = (218, 222, 232)
        self.flying = flying

    def join(self, *shapes: Shape, fill: Colour | None = None, edge: Colour | None = None) -> None:
        """Fills shapes as one form with one outline around all of them."""
        for shape in shapes:
            self._paint(shape, edge or self.dark, self.edge)
        self.fill(*shapes, fill=fill or self.body)

    def fill(self, *shapes: Shape, fill: Colour) -> None:
        """Fills shapes without an outline."""
        for shape in shapes:
            self._paint(shape, fill, 0.0)

    def dot(self, x: float, y: float, radius: float, fill: Colour = INK) -> None:
        """A filled circle."""
        self.fill(("oval", x - radius, y - radius, x + radius, y + radius), fill=fill)

    def eye(self, x: float, y: float, radius: float) -> None:
        """An eye that can be seen on any colour: a dark pupil in a white rim, with a glint."""
        self.dot(x, y, radius * 1.45, (255, 255, 255))
        self.dot(x, y, radius)
        self.dot(x + radius * 0.3, y - radius * 0.35, radius * 0.35, (255, 255, 255))

    def cut(self, *, width: int, height: int, flip: bool) -> Image:
        """The drawing alone, cropped to what was drawn and averaged down to width x height picture pixels."""
        from PIL import Image, ImageOps

        bounds = self.sheet.getbbox()
        small = self.sheet.resize((width, height), Image.Resampling.BOX, box=bounds)
        return ImageOps.mirror(small) if flip else small

    def _at(self, x: float, y: float) -> Point:
        # Rounded, so that the last bit of a sine, which machines disagree on, never moves a pixel.
        return round(x * self.scale + self.margin, 3), round(y * self.scale + self.margin, 3)

    def _paint(self, shape: Shape, fill: Colour, grow: float) -> None:
        name, *numbers = shape
        getattr(self, f"_{name}")(numbers, fill, grow)

    def _oval(self, numbers: Sequence[float], fill: Colour, grow: float) -> None:
        (x0, y0), (x1, y1) = self._at(*numbers[:2]), self._at(*numbers[2:4])
        self._draw.ellipse((x0 - grow, y0 - grow, x1 + grow, y1 + grow), fill=fill)

    def _box(self, numbers: Sequence[float], fill: Colour, grow: float) -> None:
        (x0, y0), (x1, y1) = self._at(*numbers[:2]), self._at(*numbers[2:4])
        radius = numbers[4] * self.scale + grow
        self._draw.rounded_rectangle((x0 - grow, y0 - grow, x1 + grow, y1 + grow), radius, fill=fill)

    def _poly(self, points: Sequence[Point], fill: Colour, grow: float) -> None:
        corners = [self._at(*p) for p in points]
        self._draw.polygon(corners, fill=fill)
        if grow:
            self._stroke([*corners, corners[0]], fill, 2 * grow)

    def _line(self, numbers: Sequence[Any], fill: Colour, grow: float) -> None:
        width, *points = numbers
        self._stroke([self._at(*p) for p in points], fill, max(width * self.scale, FINE * 0.8) + 2 * grow)

    def _stroke(self, corners: Sequence[Point], fill: Colour, width: float) -> None:
        """A line with round ends and joints."""
        self._draw.line(corners, fill=fill, width=max(round(width), 1))
        half = width / 2
        for x, y in corners:
            self._draw.ellipse((x - half, y - half, x + half, y + half), fill=fill)
