"""Results of measures that sum others over both directions, such as rsum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from limner.core.arrays import IntArray
from limner.core.ids import Ids
from limner.evaluation.measures import Measure
from limner.evaluation.protocols import View
from limner.evaluation.results import Result


def composite_results(requested: Sequence[View], results: Sequence[Result], images: Ids) -> list[Result]:
    """The composite measures of every view of which both directions were measured."""
    composites = []
    for view in requested:
        for measure in (m for m in view.measures if m.kind.composite):
            parts = [r for r in results if r.view == view.name and r.measure in measure.parts]
            if len(parts) == 2 * len(measure.parts):
                composites.append(_composite(view.name, measure, parts, images))
    return composites


def _composite(view: str, measure: Measure, parts: Sequence[Result], ids: Ids) -> Result:
    """Computes a composite measure and its parts, clustered by image; a text without an image is its own cluster."""
    weight = measure.kind.composite.weight if measure.kind.composite else 1.0
    images = [ids.positions(r.queries) if r.clusters is None else r.clusters for r in parts]
    units = np.flatnonzero(np.bincount(np.concatenate(images)))
    place = np.zeros(int(units.max(initial=-1)) + 1, np.int64)
    place[units] = np.arange(len(units))
    added = [weight * part.contributions / max(len(part.queries), 1) for part in parts]
    shares = np.asarray(np.bincount(place[np.concatenate(images)], np.concatenate(added), len(units)), np.float64)
    by_image = tuple(replace(part, clusters=image) for part, image in zip(parts, images, strict=True))
    names = _unit_names(units, parts, images, ids)
    ends = [part.possible for part in parts if part.possible]
    low, high = (weight * sum(end[side] for end in ends) for side in (0, 1))
    reach = (low, high) if len(ends) == len(parts) else None
    return Result(view, "both", measure, names, len(units) * shares, parts=by_image, possible=reach)


def _unit_names(units: IntArray, parts: Sequence[Result], image: Sequence[IntArray], images: Ids) -> Ids:
    """The ids of images, and names for texts without an image that do not collide with them."""
    names = images[units[units < len(images)]]
    if len(names) == len(units):
        return names
    lone = {
        int(unit): part.queries[int(at)]
        for part, clusters in zip(parts, image, strict=True)
        for at, unit in zip(np.flatnonzero(clusters >= len(images)), clusters[clusters >= len(images)], strict=True)
    }
    new = [f"text {lone[int(unit)]}" for unit in units[units >= len(images)]]
    return Ids([*names, *(f"{name} without image" if name in images else name for name in new)], what="image")
