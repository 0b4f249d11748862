"""Draws a scene: one of six backgrounds, then the objects from far to near. All pixel arithmetic uses integers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING

import numpy as np

from limner.core.reproducible_math import PI, sine
from limner.datasets.scenes import artefacts
from limner.datasets.scenes.layout import BACKDROP
from limner.datasets.scenes.pen import FINE, Pen, mix
from limner.datasets.scenes.raster import STEPS, Colour, Form, Numbers, Pixels, Sheet, Sums
from limner.datasets.scenes.scene import Scene, SceneObject
from limner.datasets.scenes.world import KINDS, SIDE, Dice

if TYPE_CHECKING:
    from PIL.Image import Image

DOUBLE = 2


def _steps(*lengths: float) -> list[int]:
    """Converts lengths in image pixels to steps of the canvas."""
    return [round(length * DOUBLE * STEPS) for length in lengths]


@lru_cache(maxsize=64)
def _shape(shape: str, numbers: tuple[float, ...]) -> Form:
    """A shape that is drawn repeatedly."""
    return Form.of(shape, _steps(*numbers))


class Scenery:
    """A canvas for one background: bands of colour, hills, clouds, stars."""

    def __init__(self, scene: Scene) -> None:
        """Creates an empty canvas with the heights of the scene and its own random stream."""
        self.sheet = Sheet(SIDE, SIDE, DOUBLE)
        self.dice = Dice(scene.seed, scene.index, BACKDROP)
        self.horizon, self.shore = scene.horizon, scene.shore

    def band(
        self, top: float, bottom: float, first: Colour, last: Colour, *, left: float = 0, right: float = SIDE
    ) -> None:
        """A band with a colour gradient, across the whole image by default."""
        x0, y0, x1, y1 = (round(length * DOUBLE) for length in (left, top, right, bottom))
        self.sheet.shade(x0, y0, x1, y1, first, last)

    def rectangle(self, x0: float, y0: float, x1: float, y1: float, fill: Colour) -> None:
        """A filled rectangle."""
        self.band(y0, y1, fill, fill, left=x0, right=x1)

    def oval(self, x: float, y: float, rx: float, ry: float, fill: Colour) -> None:
        """A filled ellipse around a centre."""
        self.sheet.paint(Form.of("oval", _steps(x - rx, y - ry, x + rx, y + ry)), fill)

    def polygon(self, points: Sequence[tuple[float, float]], fill: Colour) -> None:
        """A filled polygon."""
        self.sheet.paint(Form.of("poly", _steps(*(n for point in points for n in point))), fill)

    def strew(self, shape: str, numbers: tuple[float, ...], places: Iterable[tuple[int, int]], fill: Colour) -> None:
        """Draws the same shape in many places."""
        self.sheet.strew(_shape(shape, numbers), fill, [(x * DOUBLE, y * DOUBLE) for x, y in places])

    def hills(self, base: float, height: float, fill: Colour) -> None:
        """Rolling hills that end at the line `base`."""
        phase, waves = self.dice.fraction(), 1.2 + self.dice.fraction()
        turns = [(x, phase + waves * x / SIDE) for x in range(0, SIDE + 4, 4)]
        crest = [(x, base - height * (0.55 + 0.45 * sine(turn))) for x, turn in turns]
        self.polygon([(0, base), *crest, (SIDE, base)], fill)

    def clouds(self, fill: Colour) -> None:
        """One to three clouds."""
        for _ in range(self.dice.between(1, 3)):
            x, y = self.dice.between(5, SIDE - 5), self.dice.between(8, max(10, self.horizon - 30))
            self.strew("oval", (-7.8, -4.5, 7.8, 4.5), [(x - 11, y + 2), (x + 11, y + 2)], fill)
            self.strew("oval", (-11.7, -6.75, 11.7, 6.75), [(x, y)], fill)

    def dots(self, rx: float, ry: float, places: Iterable[tuple[int, int]], fill: Colour) -> None:
        """Small ovals around the centres of canvas pixels."""
        self.strew("oval", (-rx, -ry, rx + 1 / DOUBLE, ry + 1 / DOUBLE), places, fill)

    def spots(self, count: int, top: float, bottom: float) -> list[tuple[int, int]]:
        """Random positions between two heights."""
        return [(self.dice.between(0, SIDE), self.dice.between(top, bottom)) for _ in range(count)]

    def flecks(self, top: float, count: int, fill: Colour, *, rx: float = 2.0, ry: float = 0.7) -> None:
        """Small marks scattered over the ground."""
        self.dots(rx, ry, self.spots(count, top + 3, SIDE - 2), fill)

    def waves(self, fill: Colour) -> None:
        """Short bright lines on the water."""
        for _ in range(9):
            x, y = self.dice.between(0, SIDE - 14), self.dice.between(self.horizon + 4, self.shore - 4)
            self.rectangle(x, y, x + self.dice.between(7, 15), y + 1, fill)


def beach(sheet: Scenery) -> None:
    """Sun, sea and sand."""
    sheet.band(0, sheet.horizon, (150, 212, 246), (214, 240, 252))
    x = sheet.dice.between(16, SIDE - 16)
    sheet.oval(x, 17, 10, 10, (255, 236, 140))
    sheet.clouds((246, 251, 255))
    sheet.band(sheet.horizon, sheet.shore, (58, 148, 200), (108, 200, 222))
    sheet.waves((160, 222, 238))
    sheet.band(sheet.shore, SIDE, (240, 222, 168), (228, 202, 140))
    sheet.strew("line", _surf(), [(0, sheet.shore)], (250, 252, 250))
    sheet.flecks(sheet.shore + 4, 22, (214, 186, 124), rx=1.0)


@cache
def _surf() -> tuple[float, ...]:
    """A wavy line along the shore."""
    return (1.25, *(n for x in range(0, SIDE + 4, 4) for n in (x, 2 * sine(x / (18 * PI)))))


def meadow(sheet: Scenery) -> None:
    """Green hills, a lake and grass."""
    sheet.band(0, sheet.horizon, (142, 204, 248), (206, 234, 252))
    sheet.clouds((248, 252, 255))
    sheet.hills(sheet.horizon, 26, (142, 196, 142))
    sheet.hills(sheet.horizon, 15, (118, 182, 112))
    sheet.band(sheet.horizon, sheet.shore, (92, 170, 216), (138, 202, 230))
    sheet.waves((178, 222, 240))
    sheet.band(sheet.shore, SIDE, (142, 204, 94), (112, 182, 74))
    sheet.strew("line", (0.4, -2, -4, 0, 0, 2, -4), sheet.spots(34, sheet.shore + 5, SIDE), (92, 160, 62))


def snow(sheet: Scenery) -> None:
    """Mountains, distant fir trees, snow on the ground and in the air."""
    sheet.band(0, sheet.horizon, (176, 196, 216), (216, 226, 236))
    for _ in range(3):
        x, height = sheet.dice.between(0, SIDE), sheet.dice.between(24, 42)
        top = sheet.horizon - height
        sheet.polygon([(x - 44, sheet.horizon), (x, top), (x + 44, sheet.horizon)], (150, 166, 190))
        cap = [(x - 12, top + 12), (x, top), (x + 12, top + 12), (x + 4, top + 9), (x - 3, top + 14)]
        sheet.polygon(cap, (238, 244, 250))
    foot = sheet.horizon + 2
    sheet.strew("poly", (-5, 0, 0, -14, 5, 0), [(sheet.dice.between(0, SIDE), foot) for _ in range(5)], (96, 130, 126))
    sheet.band(sheet.horizon, SIDE, (226, 234, 244), (242, 246, 252))
    sheet.flecks(sheet.horizon + 8, 14, (208, 220, 236), rx=7.0, ry=1.0)
    sheet.dots(1.0, 1.0, sheet.spots(36, 0, sheet.horizon), (250, 252, 255))


def street(sheet: Scenery) -> None:
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


def _windows(sheet: Scenery, x: int, top: int, width: int, fill: Colour) -> None:
    rows, columns = range(top + 5, sheet.horizon - 6, 11), range(x + 4, x + width - 6, 9)
    sheet.strew("box", (0, 0, 4, 6, 0), [(column, row) for row in rows for column in columns], fill)


def room(sheet: Scenery) -> None:
    """A wall with wallpaper, a window or a painting, a skirting board and a wooden floor."""
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
        sheet.rectangle(0, y, SIDE, y + 0.5, (172, 130, 90))


def night(sheet: Scenery) -> None:
    """Moon and stars over a lake and dark grass."""
    sheet.band(0, sheet.horizon, (26, 32, 74), (62, 70, 124))
    for size in (0.5, 0.7, 0.9):
        sheet.dots(size, size, sheet.spots(14, 0, sheet.horizon), (240, 240, 214))
    x = sheet.dice.between(18, SIDE - 18)
    sheet.oval(x, 18, 10, 10, (250, 244, 206))
    sheet.oval(x + 5, 15, 8.5, 8.5, (30, 37, 80))
    sheet.hills(sheet.horizon, 18, (38, 48, 82))
    sheet.band(sheet.horizon, sheet.shore, (46, 62, 118), (60, 82, 140))
    sheet.waves((104, 126, 176))
    sheet.band(sheet.shore, SIDE, (54, 84, 82), (40, 66, 66))
    sheet.flecks(sheet.shore + 5, 26, (70, 104, 96), rx=1.5)


BACKDROPS = {f.__name__: f for f in (beach, meadow, snow, street, room, night)}


def backdrop(scene: Scene) -> Pixels:
    """The background of a scene, without objects."""
    scenery = Scenery(scene)
    BACKDROPS[scene.background](scenery)
    return scenery.sheet.image()


_SHADOW = np.array((24, 28, 40, 0), np.uint16)
_WHOLE = FINE * FINE  # canvas pixels per image pixel

SHAPES = {name: getattr(artefacts, name) for name in KINDS}


def render(scene: Scene) -> Image:
    """Draws a scene as an RGB image."""
    from PIL import Image

    image = backdrop(scene)
    for item in scene.objects:
        if item.place == "ground":
            _cast(image, item)
        x0, y0, x1, y1 = item.box
        under = image[y0:y1, x0:x1]
        sums, clear = _sticker(*_form(item))
        under[:] = (sums + under * clear) // _WHOLE
    return Image.frombytes("RGB", (image.shape[1], image.shape[0]), image, "raw", "RGBX")


def sticker(item: SceneObject) -> Image:
    """One object alone, cut out at exactly the size of its box."""
    from PIL import Image

    stuck, clear = _sticker(*_form(item))
    sums, painted = stuck.astype(np.int64) - _WHOLE // 2, _WHOLE - clear
    colours = (2 * sums + painted) // np.maximum(2 * painted, 1)
    colours[..., 3] = painted[..., 0] * 255 // _WHOLE
    return Image.fromarray(colours.astype(np.uint8))


def _form(item: SceneObject) -> tuple[str, str, int, int, bool, bool]:
    x0, y0, x1, y1 = item.box
    return item.kind, item.colour, x1 - x0, y1 - y0, item.flip, item.place == "air"


def _cast(image: Pixels, item: SceneObject) -> None:
    """A soft shadow under an object on the ground, drawn inside its box so that the box stays exact."""
    x0, _, x1, y1 = item.box
    shade = _shade(x1 - x0)
    under, total = image[y1 - len(shade) : y1, x0:x1], 3 * _WHOLE  # darkens by a third
    under[:] = (under * (total - shade) + _SHADOW * shade + total // 2) // total


@lru_cache(maxsize=128)
def _shade(width: int) -> Sums:
    """The share of each pixel that a shadow covers."""
    sheet, height = Sheet(width, 3 + width // 16, FINE), 3 + width // 16
    sheet.paint(Form.of("oval", (0, 0, width * FINE * STEPS, height * FINE * STEPS)), (0, 0, 0))
    return sheet.sums()[..., 3:]


@lru_cache(maxsize=4096)
def _sticker(kind: str, colour: str, width: int, height: int, flip: bool, flying: bool) -> tuple[Sums, Sums]:
    """An object alone: its sums (see `Sheet.sums`) plus a half for rounding, and the uncovered share of each pixel."""
    if flip:
        sums, clear = _sticker(kind, colour, width, height, False, flying)
        return np.ascontiguousarray(sums[:, ::-1]), np.ascontiguousarray(clear[:, ::-1])
    sums = _pen(kind, colour, width, flying).coloured(_outlined(kind, width, height, flying))
    return sums + np.uint16(_WHOLE // 2), np.repeat(_WHOLE - sums[..., 3:], 4, axis=2)


@lru_cache(maxsize=512)
def _outlined(kind: str, width: int, height: int, flying: bool) -> Numbers:
    """The shapes of an object, the same for all colours: objects have ten colours and few sizes."""
    return _pen(kind, "red", width, flying).outlined(width=width, height=height)


def _pen(kind: str, colour: str, width: int, flying: bool) -> Pen:
    pen = Pen(KINDS[kind].grid, width=width, colour=colour, flying=flying)
    SHAPES[kind](pen)
    return pen
