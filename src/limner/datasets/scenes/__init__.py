"""Scenes: a small synthetic data set in which every true match is known.

It works offline, in seconds. Because the meaning of every caption is known, *all* images that it describes are known
too: `extra["complete"]` has them, in addition to the usual five captions per image.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from limner.core.collection import Collection, Items
from limner.core.errors import LimnerError
from limner.core.files import replacing, replacing_folder, write_text
from limner.core.ids import Ids
from limner.core.judgements import Judgements
from limner.datasets.scenes.grammar import captions
from limner.datasets.scenes.layout import compose
from limner.datasets.scenes.meaning import Entity, Meaning, complete_judgements, graded_judgements
from limner.datasets.scenes.scene import Scene, SceneObject
from limner.datasets.scenes.world import BACKGROUNDS, CATEGORIES, COLOURS, KINDS, RELATIONS, SIDE, SIZES

if TYPE_CHECKING:
    from PIL.Image import Image
else:
    from limner.core.extras import submodules

    __getattr__ = submodules(__name__)

__all__ = [
    "BACKGROUNDS",
    "CATEGORIES",
    "COLOURS",
    "KINDS",
    "RELATIONS",
    "SIDE",
    "SIZES",
    "Drawing",
    "Entity",
    "Meaning",
    "Scene",
    "SceneObject",
    "captions",
    "compose",
    "load",
    "write",
]

PER_IMAGE = 5
_SPLITS = ("train", "train", "train", "dev", "test")


@dataclass(frozen=True)
class Drawing:
    """An image that is drawn when called; only its scene is pickled."""

    scene: Scene

    def __call__(self) -> Image:
        """Draws the image."""
        from limner.datasets.scenes.drawing import render

        return render(self.scene)


MOST = 1_000_000
"""The maximum number of images, limited by the digits in the ids."""


def load(
    path: str | Path | None = None, *, split: str | None = None, images: int = 2000, seed: int = 0, graded: bool = False
) -> Collection:
    """Loads the scenes as a collection; images are drawn only when they are opened.

    For a given seed, image i does not depend on the number of images. Of every five consecutive images, three are for
    training, one for development and one for testing.

    Args:
        path: Must be left out: the images are drawn, not read.
        split: "train", "dev" or "test"; everything by default.
        images: Number of images.
        seed: Seed of the scenes.
        graded: Whether to add the judgements "graded": 1 for a true pair, 0.5 if exactly one detail is wrong.

    Returns:
        Images with the fields `scene`, `objects`, `relations` and `background`; texts with `meaning` and `image`;
        the usual pairs, and the extra judgements "complete".

    >>> world = load(images=10)
    >>> len(world.texts), len(world.test.images), len(world.extra["complete"]) >= 50
    (50, 2, True)
    """
    _refuse_bad(path, images, seed)
    scenes = [compose(seed, index) for index in range(images)]
    described = [caption for scene in scenes for caption in captions(scene, count=PER_IMAGE)]
    image_items = _images(scenes)
    texts = _texts(image_items.ids, described)
    pairs = _pairs(image_items.ids, texts.ids)
    meanings = [meaning for _, meaning in described]
    extra = {"complete": complete_judgements(image_items.ids, scenes, texts.ids, meanings)}
    if graded:
        extra["graded"] = graded_judgements(image_items.ids, scenes, texts.ids, meanings)
    splits = {
        name: [i for n, i in enumerate(image_items.ids) if _SPLITS[n % 5] == name] for name in ("train", "dev", "test")
    }
    collection = Collection("scenes", image_items, texts, pairs, splits, extra)
    return collection if split is None else collection.split(split)


def _refuse_bad(path: str | Path | None, images: int, seed: int) -> None:
    if path is not None:
        raise LimnerError(f"scenes are drawn, not read, and take no path; got {str(path)!r}: leave it out")
    if not 1 <= images <= MOST:
        raise LimnerError(f"scenes: expected 1 to {MOST:,} images; got images={images}")
    if seed < 0:
        raise LimnerError(f"the seed of scenes must be 0 or above; got seed={seed}")


def _images(scenes: Sequence[Scene]) -> Items:
    fields: dict[str, Sequence[object]] = {
        "scene": scenes,
        "objects": [[o.as_dict() for o in scene.objects] for scene in scenes],
        "relations": [scene.relations for scene in scenes],
        "background": [scene.background for scene in scenes],
    }
    ids = Ids((f"scene-{scene.index:06d}" for scene in scenes), what="image")
    return Items(ids, [Drawing(scene) for scene in scenes], fields, kind="image")


def _texts(images: Ids, described: Sequence[tuple[str, Meaning]]) -> Items:
    sources = [image for image in images for _ in range(PER_IMAGE)]
    ids = Ids((f"{image}#{n % PER_IMAGE}" for n, image in enumerate(sources)), what="text")
    fields: dict[str, Sequence[object]] = {"meaning": [meaning for _, meaning in described], "image": sources}
    return Items(ids, [text for text, _ in described], fields, kind="text")


def _pairs(images: Ids, texts: Ids) -> Judgements:
    columns = np.arange(len(texts))
    return Judgements(images, texts, columns // PER_IMAGE, columns, np.ones(len(texts)), "pairs")


FILES = ("images", "captions.csv", "objects.json", "complete.qrels")
"""All files that are written."""


def write(collection: Collection, folder: str | Path) -> Path:
    """Writes a collection of scenes as files and returns the folder.

    - `images/*.png`: the images;
    - `captions.csv`: image, image_id, caption, id, split (readable as a plain table of captions);
    - `objects.json`: per image its background, objects with boxes, and relations; per text its meaning;
    - `complete.qrels`: every true pair, as TREC judgements text -> image.

    Args:
        collection: The result of `load`, or a split of it.
        folder: The output folder; created if missing, but its parent must exist.
    """
    replaceable = FILES if (Path(folder) / "complete.qrels").is_file() else ()
    with replacing_folder(folder, head="captions.csv", own=replaceable) as draft:
        (draft / "images").mkdir()
        for row, name in enumerate(collection.images.ids):
            collection.images.open(row).save(draft / "images" / f"{name}.png")
        _write_captions(collection, draft / "captions.csv")
        write_text(draft / "objects.json", json.dumps(_described(collection), indent=1) + "\n")
        lines = (f"{text} 0 {image} 1\n" for text, image, grade in collection.judged("complete", "t2i") if grade)
        write_text(draft / "complete.qrels", "".join(lines))
    return Path(folder)


def _write_captions(collection: Collection, path: Path) -> None:
    split_of = {image: name for name, ids in collection.splits.items() for image in ids}
    texts = collection.texts
    with replacing(path) as draft, draft.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["image", "image_id", "caption", "id", *(["split"] if split_of else [])])
        for name, caption, image in zip(texts.ids, texts.values, texts.field("image"), strict=True):
            writer.writerow([f"{image}.png", image, caption, name, *([split_of[image]] if split_of else [])])


def _described(collection: Collection) -> dict[str, object]:
    images, texts = collection.images, collection.texts
    columns = (images.ids, images.field("background"), images.field("objects"), images.field("relations"))
    return {
        "images": {
            image: {"background": background, "objects": objects, "relations": relations}
            for image, background, objects, relations in zip(*columns, strict=True)
        },
        "texts": {text: meaning.as_dict() for text, meaning in zip(texts.ids, texts.field("meaning"), strict=True)},
    }
