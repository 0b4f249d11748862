"""Draws a scene: the background, then the objects from far to near. All pixel arithmetic uses integers."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from limner.datasets.scenes import artefacts, creatures
from limner.datasets.scenes.backdrops import backdrop
from limner.datasets.scenes.pen import FINE, Pen
from limner.datasets.scenes.raster import STEPS, Form, Numbers, Pixels, Sheet, Sums
from limner.datasets.scenes.scene import Scene, SceneObject
from limner.datasets.scenes.world import KINDS

if TYPE_CHECKING:
    from PIL.Image import Image

_SHADOW = np.array((24, 28, 40, 0), np.uint16)
_WHOLE = FINE * FINE  # canvas pixels per image pixel

SHAPES = {name: getattr(creatures, name, None) or getattr(artefacts, name) for name in KINDS}


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
