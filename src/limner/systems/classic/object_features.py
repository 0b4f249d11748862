"""What a detector saw in images as features, from a table of labels and boxes: a kernel of detections.

With `images="linear"` or `"chi2"` and these as `features`, KCCA compares images by their objects (future work in
Hodosh, Young & Hockenmaier 2013, who name the responses of detectors).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError
from limner.core.ids import Ids
from limner.datasets.text_files import table

BOX = ("x", "y", "width", "height")
"""The columns of a box, as shares of the image's width and height, from its upper left corner."""
PLACES = 5
"""Columns of a label: the whole image, and the four quarters by the centre of the box."""


def object_features(path: str | Path, *, labels: Sequence[str] | None = None) -> Embeddings:
    """One row per image: for each label, the sum of its scores in the image, and in each quarter of it.

    The last column is 1 for images without any of the objects.

    Args:
        path: A csv with the columns image and label, and optionally score (1 by default) and a box: x, y, width and
            height, as shares of the image from 0 to 1. Without a box, an object counts for the whole image only. A row
            without a label says that an image has no objects.
        labels: The labels in the order of the columns; by default those of the table, sorted. Others are left out.
            Give them for a second table, so that its columns are those of the first.
    """
    source = Path(path)
    if not source.is_file():
        raise LimnerError(f"no file {source}: expected a csv of objects with the columns image and label")
    rows = [
        (f"{source}, line {at.line}", cells) for at, cells in table(source, delimiter=",", needs=("image", "label"))
    ]
    chosen = sorted({cells["label"] for _, cells in rows if cells["label"]}) if labels is None else list(labels)
    if not chosen or len(set(chosen)) != len(chosen):
        raise LimnerError(f"{source}: {len(chosen)} labels, {len(set(chosen))} different ones: expected each once")
    columns, images = {label: at for at, label in enumerate(chosen)}, dict.fromkeys(cells["image"] for _, cells in rows)
    numbers = {image: at for at, image in enumerate(images)}
    sums = np.zeros((len(images), len(chosen), PLACES), dtype=np.float32)
    for place, cells in rows:
        if not cells["image"]:
            raise LimnerError(f"{place}: no image; expected the id of the image that the object is in")
        if cells["label"] not in columns:
            continue
        counts = sums[numbers[cells["image"]], columns[cells["label"]]]
        score = _number(cells, "score", place, highest=math.inf) if cells.get("score") else 1.0
        counts[0] += score
        if any(cells.get(name) for name in BOX):
            x, y, width, height = (_number(cells, name, place, highest=1.0) for name in BOX)
            counts[1 + (x + width / 2 >= 0.5) + 2 * (y + height / 2 >= 0.5)] += score
    rows_of_images = sums.reshape(len(images), -1)
    is_empty = (rows_of_images == 0).all(axis=1, keepdims=True)
    return Embeddings(Ids(images, what="image"), np.concatenate([rows_of_images, is_empty], axis=1, dtype=np.float32))


def _number(cells: dict[str, str], name: str, place: str, *, highest: float) -> float:
    """A number from 0 up to a largest one."""
    text = cells.get(name) or ""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= highest or math.isinf(value):
        limit = "0 or more" if math.isinf(highest) else f"a share of the image from 0 to {highest:g}"
        raise LimnerError(f"{place}: {name} is {text!r}; expected {limit}")
    return value
