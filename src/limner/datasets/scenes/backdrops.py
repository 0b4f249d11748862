"""The six backgrounds. Each draws on a sheet twice as fine as the picture, in picture coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from math import pi, sin
from typing import TYPE_CHECKING

from limner.datasets.scenes.dice import Dice
from limner.datasets.scenes.layout import BACKDROP
from limner.datasets.scenes.pen import Colour, mix
from limner.datasets.scenes.scene import Scene
from limner.datasets.scenes.world import SIDE

if TYPE_CHECKING:
    from PIL.Image import Image

FINE = 2


def _fine(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Points in sheet coordinates, rounded so that the last bit of a sine never moves a pixel."""
    return [(round(x * FINE, 3), round(y * FINE, 3)) for x, y in points]


class Sheet:
    """A sheet for one background: bands of colour, hills, clouds, stars."""

    def __init__(self, scene: Scene) -> None:
        """An empty sheet with the heights of the scene and chance of its own."""
        from PIL import Image, ImageDraw

        self.image = Image.new("RGB", (SIDE * FINE, SIDE * FINE))
        self.draw = ImageDraw.Draw(self.image)
        self.dice = Dice(scene.seed, scene.index, BACKDROP)
        self.horizon, self.shore = scene.horizon, scene.shore

    def band(
        self, top: float, bottom: float, first: Colour, last: Colour, *, left: float = 0, right: float = SIDE
    ) -> None:
        """A band shading from one colour to another in steps too small to see, across the picture unless said."""
        steps = max(1, round((bottom - top) / 3))
        height = (bottom - top) / steps
        for step in range(steps):
            y = top + step * height
            self.rectangle(left, y, right, y + height, mix(first, last, step / max(1, steps - 1)))

    def rectangle(self, x0: float, y0: float, x1: float, y1: float, fill: Colour) -> None:
        """A filled rectangle."""
        self.draw.rectangle((x0 * FINE, y0 * FINE, x1 * FINE, y1 * FINE), fill=fill)

    def oval(self, x: float, y: float, rx: float, ry: float, fill: Colour) -> None:
        """A filled ellipse around a centre."""
        self.draw.ellipse(((x - rx) * FINE, (y - ry) * FINE, (x + rx) * FINE, (y + ry) * FINE), fill=fill)

    def polygon(self, points: Sequence[tuple[float, float]], fill: Colour) -> None:
        """A filled polygon."""
        self.draw.polygon(_fine(points), fill=fill)

    def line(self, points: Sequence[tuple[float, float]], fill: Colour, width: float = 1.0) -> None:
        """A line."""
        self.draw.line(_fine(points), fill=fill, width=max(1, round(width * FINE)))

    def hills(self, base: float, height: float, fill: Colour) -> None:
        """Rolling hills that end at the line `base`."""
        phase, waves = self.dice.fraction() * 2 * pi, 1.2 + self.dice.fraction()
        steps = [(x, phase + waves * 2 * pi * x / SIDE) for x in range(0, SIDE + 8, 8)]
        crest = [(x, base - height * (0.55 + 0.45 * sin(angle))) for x, angle in steps]
        self.polygon([(0, base), *crest, (SIDE, base)], fill)

    def clouds(self, fill: Colour) -> None:
        """One to three clouds."""
        for _ in range(self.dice.between(1, 3)):
            x, y = self.dice.between(5, SIDE - 5), self.dice.between(8, max(10, self.horizon - 30))
            for dx, dy, r in ((-11, 2, 6), (0, 0, 9), (11, 2, 6)):
                self.oval(x + dx, y + dy, r * 1.3, r * 0.75, fill)

    def flecks(self, top: float, count: int, fill: Colour, *, rx: float = 2.0, ry: float = 0.7) -> None:
        """Small marks strewn over the ground."""
        for _ in range(count):
            self.oval(self.dice.between(0, SIDE), self.dice.between(top + 3, SIDE - 2), rx, ry, fill)

    def waves(self, fill: Colour) -> None:
        """Short bright lines on the water."""
        for _ in range(9):
            x, y = self.dice.between(0, SIDE - 14), self.dice.between(self.horizon + 4, self.shore - 4)
            self.line([(x, y), (x + self.dice.between(7, 15), y)], fill)


def beach(sheet: Sheet) -> None:
    """Sun, sea and sand."""
    sheet.band(0, sheet.horizon, (150, 212, 246), (214, 240, 252))
    x = sheet.dice.between(16, SIDE - 16)
    sheet.oval(x, 17, 10, 10, (255, 236, 140))
    sheet.clouds((246, 251, 255))
    sheet.band(sheet.horizon, sheet.shore, (58, 148, 200), (108, 200, 222))
    sheet.waves((160, 222, 238))
    sheet.band(sheet.shore, SIDE, (240, 222, 168), (228, 202, 140))
    edge = [(x, sheet.shore + 2 * sin(x / 9)) for x in range(0, SIDE + 4, 4)]
    sheet.line(edge, (250, 252, 250), 2.5)
    sheet.flecks(sheet.shore + 4, 22, (214, 186, 124), rx=1.0)


def meadow(sheet: Sheet) -> None:
    """Green hills, a lake and grass."""
    sheet.band(0, sheet.horizon, (142, 204, 248), (206, 234, 252))
    sheet.clouds((248, 252, 255))
    sheet.hills(sheet.horizon, 26, (142, 196, 142))
    sheet.hills(sheet.horizon, 15, (118, 182, 112))
    sheet.band(sheet.horizon, sheet.shore, (92, 170, 216), (138, 202, 230))
    sheet.waves((178, 222, 240))
    sheet.band(sheet.shore, SIDE, (142, 204, 94), (112, 182, 74))
    for _ in range(34):
        x, y = sheet.dice.between(0, SIDE), sheet.dice.between(sheet.shore + 5, SIDE)
        sheet.line([(x - 2, y - 4), (x, y), (x + 2, y - 4)], (92, 160, 62), 0.8)


def snow(sheet: Sheet) -> None:
    """Mountains, fir trees far off, snow on the ground and in the air."""
    sheet.band(0, sheet.horizon, (176, 196, 216), (216, 226, 236))
    for _ in range(3):
        x, height = sheet.dice.between(0, SIDE), sheet.dice.between(24, 42)
        top = sheet.horizon - height
        sheet.polygon([(x - 44, sheet.horizon), (x, top), (x + 44, sheet.horizon)], (150, 166, 190))
        cap = [(x - 12, top + 12), (x, top), (x + 12, top + 12), (x + 4, top + 9), (x - 3, top + 14)]
        sheet.polygon(cap, (238, 244, 250))
    for _ in range(5):
        x, y = sheet.dice.between(0, SIDE), sheet.horizon + 2
        sheet.polygon([(x - 5, y), (x, y - 14), (x + 5, y)], (96, 130, 126))
    sheet.band(sheet.horizon, SIDE, (226, 234, 244), (242, 246, 252))
    sheet.flecks(sheet.horizon + 8, 14, (208, 220, 236), rx=7.0, ry=1.0)
    for _ in range(36):
        sheet.oval(sheet.dice.between(0, SIDE), sheet.dice.between(0, sheet.horizon), 1.0, 1.0, (250, 252, 255))


def street(sheet: Sheet) -> None:
    """A row of facades, a pavement and a road."""
    sheet.band(0, sheet.horizon, (206, 214, 222), (226, 228, 226))
    x = -sheet.dice.between(0, 20)
    walls: tuple[Colour, ...] = ((188, 160, 148), (172, 172, 182), (198, 182, 152), (160, 152, 158), (182, 190, 176))
    while x < SIDE:
        width, top = sheet.dice.between(22, 38), sheet.horizon - sheet.dice.between(26, 50)
        wall = sheet.dice.choose(walls)
        sheet.rectangle(x, top, x + width, sheet.horizon + 4, wall)
        _windows(sheet, x, top, width, mix(wall, (70, 80, 100), 0.55))
        x += width
    sheet.band(sheet.horizon + 4, sheet.horizon + 26, (190, 188, 184), (178, 176, 172))
    sheet.rectangle(0, sheet.horizon + 26, SIDE, sheet.horizon + 28, (140, 138, 136))
    sheet.band(sheet.horizon + 28, SIDE, (118, 120, 126), (104, 106, 112))
    middle = (sheet.horizon + 28 + SIDE) / 2
    for start in range(sheet.dice.between(-20, 0), SIDE, 30):
        sheet.rectangle(start, middle, start + 16, middle + 2.5, (226, 222, 200))


def _windows(sheet: Sheet, x: float, top: float, width: float, fill: Colour) -> None:
    for row in range(round(top) + 5, sheet.horizon - 6, 11):
        for column in range(4, round(width) - 6, 9):
            sheet.rectangle(x + column, row, x + column + 4, row + 6, fill)


def room(sheet: Sheet) -> None:
    """A papered wall with a window or a picture, skirting board and a wooden floor."""
    papers: tuple[Colour, ...] = ((236, 222, 200), (214, 226, 216), (222, 216, 232))
    wall = sheet.dice.choose(papers)
    floor = sheet.horizon + 8
    sheet.rectangle(0, 0, SIDE, floor, wall)
    for x in range(sheet.dice.between(0, 14), SIDE, 16):
        sheet.rectangle(x, 0, x + 7, floor, mix(wall, (255, 255, 255), 0.3))
    x = sheet.dice.between(12, SIDE - 56)
    sheet.rectangle(x, 8, x + 42, 42, (252, 250, 244))
    sheet.band(11, 39, (168, 214, 244), (206, 232, 220), left=x + 3, right=x + 39)
    sheet.rectangle(x + 20, 8, x + 22, 42, (252, 250, 244))
    sheet.rectangle(x, 24, x + 42, 26, (252, 250, 244))
    sheet.band(floor, SIDE, (206, 164, 118), (188, 144, 100))
    sheet.rectangle(0, floor - 4, SIDE, floor, (250, 246, 238))
    for y in range(floor + 10, SIDE, 14):
        sheet.line([(0, y), (SIDE, y)], (172, 130, 90), 0.7)


def night(sheet: Sheet) -> None:
    """Moon and stars over a lake and dark grass."""
    sheet.band(0, sheet.horizon, (26, 32, 74), (62, 70, 124))
    for _ in range(42):
        size = sheet.dice.choose((0.5, 0.6, 0.9))
        sheet.oval(sheet.dice.between(0, SIDE), sheet.dice.between(0, sheet.horizon), size, size, (240, 240, 214))
    x = sheet.dice.between(18, SIDE - 18)
    sheet.oval(x, 18, 10, 10, (250, 244, 206))
    sheet.oval(x + 5, 15, 8.5, 8.5, (30, 37, 80))
    sheet.hills(sheet.horizon, 18, (38, 48, 82))
    sheet.band(sheet.horizon, sheet.shore, (46, 62, 118), (60, 82, 140))
    sheet.waves((104, 126, 176))
    sheet.band(sheet.shore, SIDE, (54, 84, 82), (40, 66, 66))
    sheet.flecks(sheet.shore + 5, 26, (70, 104, 96), rx=1.5)


BACKDROPS = {f.__name__: f for f in (beach, meadow, snow, street, room, night)}


def backdrop(scene: Scene) -> Image:
    """The background of a scene, without any object."""
    sheet = Sheet(scene)
    BACKDROPS[scene.background](sheet)
    return sheet.image.reduce(FINE)
