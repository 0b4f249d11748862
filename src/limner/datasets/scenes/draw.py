"""Drawing a scene: the background, then every object from far to near."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from limner.datasets.scenes import creatures, things
from limner.datasets.scenes.backdrops import backdrop
from limner.datasets.scenes.pen import FINE, Pen
from limner.datasets.scenes.scene import Scene, SceneObject
from limner.datasets.scenes.world import KINDS

if TYPE_CHECKING:
    from PIL.Image import Image

_SHADOW = (24, 28, 40)

SHAPES = {name: getattr(creatures, name, None) or getattr(things, name) for name in KINDS}


def render(scene: Scene) -> Image:
    """Draws a scene as an RGB picture."""
    picture = backdrop(scene)
    for thing in scene.objects:
        if thing.place == "ground":
            _cast(picture, thing)
        stamp = sticker(thing)
        picture.paste(stamp, thing.box[:2], stamp)
    return picture


def sticker(thing: SceneObject) -> Image:
    """One object alone, cut out, exactly as large as its box."""
    x0, y0, x1, y1 = thing.box
    return _sticker(thing.kind, thing.colour, x1 - x0, y1 - y0, thing.flip, thing.place == "air")


def _cast(picture: Image, thing: SceneObject) -> None:
    """A soft shadow under an object that stands on the ground, inside its box so that the box stays the whole truth."""
    x0, _, x1, y1 = thing.box
    shade = _shade(x1 - x0)
    picture.paste(_SHADOW, (x0, y1 - shade.height, x1, y1), shade)


@lru_cache(maxsize=128)
def _shade(width: int) -> Image:
    from PIL import Image, ImageDraw

    sheet = Image.new("L", (width * FINE, (3 + width // 16) * FINE), 0)
    ImageDraw.Draw(sheet).ellipse((0, 0, sheet.width - 1, sheet.height - 1), fill=85)
    return sheet.reduce(FINE)


@lru_cache(maxsize=4096)
def _sticker(kind: str, colour: str, width: int, height: int, flip: bool, flying: bool) -> Image:
    pen = Pen(KINDS[kind].grid, width=width, colour=colour, flying=flying)
    SHAPES[kind](pen)
    return pen.cut(width=width, height=height, flip=flip)
