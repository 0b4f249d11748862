"""A map of images and texts: their embeddings in two dimensions, coloured by what goes wrong.

Distances on a map are not distances in the embedding: two dimensions cannot keep them. Its trustworthiness (Venna &
Kaski 2001) says how many neighbours on the map are also neighbours in the embedding: 1 if all are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from limner.core.arrays import Array, FloatArray, IntArray
from limner.core.collection import Collection
from limner.core.errors import LimnerError, UnknownName
from limner.core.files import write_text
from limner.core.markup import template
from limner.core.progress import Progress, ProgressLike, as_progress, counting
from limner.evaluation.reports.report import Hubs
from limner.explain.map_projection import METHODS, MapProjection, Reducer, project
from limner.scores import Scores
from limner.scores.vectors import VectorScores

if TYPE_CHECKING:
    from limner.explain.failures import Failure

LIMIT = 5000
"""Points that are drawn; a random choice where there are more."""
NEAREST = 10
"""Nearest candidates that hubness counts."""
CHUNK = 1000
"""Points in a line of the stream."""
MOST_VALUES = 10
"""Values of a field up to which points are coloured by it."""
GRID = 65_535
"""Positions along a side, as whole numbers."""
RIGHT, WRONG = "right", "wrong, no class"
ENDINGS = (".html", ".json")
Classes = Mapping[str, Mapping[str, str]]
"""The class of each query that fails: by direction, then by its id."""


@dataclass(frozen=True, eq=False)
class MapColour:
    """One way to colour the points.

    Args:
        name: Its name.
        codes: A number for each point; -1 if unknown.
        values: The values of the codes; empty if the codes are quantities.
    """

    name: str
    codes: IntArray
    values: tuple[str, ...] = ()

    @classmethod
    def of(cls, name: str, values: Sequence[str | None]) -> MapColour:
        """A colour for each value; the most frequent first."""
        present = [value for value in values if value is not None]
        order = sorted(set(present), key=lambda value: (-present.count(value), value))
        at = {value: code for code, value in enumerate(order)}
        return cls(name, np.array([-1 if v is None else at[v] for v in values], dtype=np.int64), tuple(order))


@dataclass(frozen=True, eq=False)
class EmbeddingMap:
    """Images and texts as points.

    Args:
        name: The collection.
        ids: Ids of images and texts.
        is_text: Which of them are texts.
        points: (points, 2) positions between 0 and 1.
        labels: A caption for each point.
        colours: Ways to colour them.
        projection: How the positions were computed, and how reliable they are.
        total: Number of all images and texts; larger than the number of points if a random sample is shown.
    """

    name: str
    ids: tuple[str, ...]
    is_text: Array
    points: FloatArray
    labels: tuple[str, ...]
    colours: tuple[MapColour, ...]
    projection: MapProjection
    total: int

    def __len__(self) -> int:
        return len(self.ids)

    def __str__(self) -> str:
        """A description of the map, with its trustworthiness."""
        size = f"{len(self):,} points" if len(self) == self.total else f"{len(self):,} of {self.total:,} points"
        return f"{size} of {self.name} by {self.projection}"

    def head(self) -> dict[str, object]:
        """The first line of the stream."""
        return {
            "name": self.name,
            "points": len(self),
            "total": self.total,
            "about": str(self),
            "method": self.projection.method,
            "trustworthiness": self.projection.trustworthiness,
            "neighbours": self.projection.neighbours,
            "measured_on": self.projection.measured_on,
            "colours": [{"name": each.name, "values": list(each.values)} for each in self.colours],
        }

    def lines(self) -> Iterator[str]:
        """The map as lines of JSON: its head, then points, a thousand at a time."""
        yield json.dumps(self.head(), ensure_ascii=False) + "\n"
        places = np.rint(self.points * GRID).astype(np.int64)
        for low in range(0, len(self), CHUNK):
            chunk = slice(low, low + CHUNK)
            part = {
                "ids": self.ids[chunk],
                "texts": self.is_text[chunk].astype(int).tolist(),
                "x": places[chunk, 0].tolist(),
                "y": places[chunk, 1].tolist(),
                "labels": self.labels[chunk],
                "colours": [each.codes[chunk].tolist() for each in self.colours],
            }
            yield json.dumps(part, ensure_ascii=False) + "\n"

    def as_dict(self) -> dict[str, object]:
        """Everything as plain data."""
        named = {each.name: _named(each) for each in self.colours}
        return {
            **self.head(),
            "items": [
                {
                    "id": key,
                    "kind": "text" if self.is_text[row] else "image",
                    "x": float(self.points[row, 0]),
                    "y": float(self.points[row, 1]),
                    "label": self.labels[row],
                    **{name: values[row] for name, values in named.items()},
                }
                for row, key in enumerate(self.ids)
            ],
        }

    def html(self) -> str:
        """A self-contained page with the map; it needs no server."""
        parts = {name: files("limner.explain").joinpath(name).read_text(encoding="utf-8") for name in _PARTS}
        page = template("limner.explain", "map.html")
        data = "".join(self.lines()).replace("<", "\\u003c")
        return page.render(name=self.name, script=parts["map.js"], style=parts["map.css"], data=data)

    def save(self, path: str | Path) -> Path:
        """Writes .html or .json, atomically."""
        target = Path(path)
        ending = target.suffix.lower()
        if ending not in ENDINGS:
            raise LimnerError(f"{target} ends in {ending!r}: a map is written as {', '.join(ENDINGS)}")
        plain = json.dumps(self.as_dict(), ensure_ascii=False, indent=1) + "\n" if ending == ".json" else ""
        write_text(target, plain or self.html())
        return target


_PARTS = ("map.js", "map.css")


def _named(colour: MapColour) -> list[object]:
    if not colour.values:
        return [int(code) if code >= 0 else None for code in colour.codes]
    return [colour.values[int(code)] if code >= 0 else None for code in colour.codes]


def embedding_map(
    scores: Scores,
    collection: Collection,
    *,
    classes: Classes | None = None,
    method: str | Reducer = "tsne",
    limit: int = LIMIT,
    seed: int = 0,
    progress: ProgressLike = None,
) -> EmbeddingMap:
    """Draws a map of the images and texts of a collection.

    Args:
        scores: Images by texts, from embeddings.
        collection: The same images and texts; there may be no texts.
        classes: The class of failure of each query that fails, as `failure_classes` finds them; without it, points are
            not coloured by failure.
        method: "tsne", "pca", or an object with `fit_transform` such as `umap.UMAP()`.
        limit: Maximum number of points; a random sample is drawn if there are more.
        seed: Seed of the choice and of the projection.
        progress: Called with (iterations of t-SNE done, iterations at most).

    >>> vectors = np.random.default_rng(0).standard_normal((2, 40, 8))
    >>> pairs = Collection.in_order(range(40), range(40))
    >>> found = embedding_map(Scores.from_embeddings(*vectors), pairs, method="pca")
    >>> len(found), bool(np.all((found.points >= 0) & (found.points <= 1))), [each.name for each in found.colours]
    (80, True, ['kind', 'hubness', 'fold'])
    """
    progress = as_progress(progress)
    if isinstance(method, str) and method not in METHODS:
        raise UnknownName("projection", method, METHODS)
    if limit < 3:
        raise LimnerError(f"a map of at most {limit} points: expected 3 or more")
    if not isinstance(scores, VectorScores):
        raise LimnerError("a map needs embeddings of images and texts: a matrix of similarities or a run has none")
    images, texts = scores.query_vectors, scores.candidate_vectors
    total = len(images) + len(texts)
    rows = np.arange(total)
    if total > limit:
        rows = np.sort(np.random.default_rng(seed).choice(total, limit, replace=False))
    vectors = np.concatenate([images.normalised().matrix, texts.normalised().matrix])[rows]
    projection = project(vectors, method, seed=seed, progress=progress)
    ids, is_text = [*images.ids, *texts.ids], np.arange(total) >= len(images)
    colours = _colours(scores, collection, ids, is_text, classes, progress)
    labels = _labels(collection)
    return EmbeddingMap(
        collection.name,
        tuple(ids[row] for row in rows),
        is_text[rows],
        projection.points,
        tuple(labels.get((bool(is_text[row]), ids[row]), "") for row in rows),
        tuple(MapColour(each.name, each.codes[rows], each.values) for each in colours),
        projection,
        total,
    )


def _labels(collection: Collection) -> dict[tuple[bool, str], str]:
    """A caption for each text and image; for an image, its first caption."""
    from limner.search.item_texts import with_captions

    labels = {(True, key): str(text) for key, text in zip(collection.texts.ids, collection.texts.values, strict=True)}
    images = with_captions(collection)
    for key, captions in zip(images.ids, images.fields.get("captions", [()] * len(images)), strict=True):
        labels[False, key] = captions[0] if captions else ""
    return labels


def _colours(
    scores: VectorScores,
    collection: Collection,
    ids: Sequence[str],
    is_text: Array,
    classes: Classes | None,
    progress: Progress,
) -> list[MapColour]:
    """By kind, failure, hubness, and every field with a few values; images without texts by their fields alone."""
    if not min(scores.shape):  # images alone
        return list(_fields(collection, ids, is_text))
    colours = [MapColour.of("kind", ["text" if text else "image" for text in is_text])]
    if classes is not None:
        classes_of_kind = [classes["t2i"] if text else classes["i2t"] for text in is_text]
        colours.append(
            MapColour.of(
                "failure", [of_item.get(key, RIGHT) for key, of_item in zip(ids, classes_of_kind, strict=True)]
            )
        )
    k = min(NEAREST, *scores.shape)
    images, texts = (
        Hubs.of(each.top(k, progress=progress.step(f"counting hubs among {searched}", "queries")), k=k).counts
        for each, searched in ((scores.T, "images"), (scores, "texts"))
    )
    colours.append(MapColour("hubness", np.concatenate([images, texts])))
    return [*colours, *_fields(collection, ids, is_text)]


def _fields(collection: Collection, ids: Sequence[str], is_text: Array) -> Iterator[MapColour]:
    """Fields of images or texts with a few values each, including splits."""
    from limner.search.item_texts import ItemTexts, with_captions

    values_by_kind = {}
    for text, side in ((False, "images"), (True, "texts")):
        items = with_captions(collection, side)
        item_texts = ItemTexts.of_items(items)
        rows = dict(zip(items.ids, item_texts.fields, strict=True))
        names = [name for name, values in item_texts.choices.items() if len(values) <= MOST_VALUES]
        values_by_kind[text] = {name: {key: fields.get(name) for key, fields in rows.items()} for name in names}
    for name in sorted({*values_by_kind[False], *values_by_kind[True]}):
        values = [values_by_kind[bool(text)].get(name, {}).get(key) for key, text in zip(ids, is_text, strict=True)]
        yield MapColour.of(name, [_one(value) for value in values])


def _one(value: object) -> str | None:
    if isinstance(value, list):
        return ", ".join(value) or None
    return None if value is None else str(value)


def failure_classes(
    scores: Scores, collection: Collection, background: Collection | None = None, *, progress: ProgressLike = None
) -> Classes:
    """The class of every query, text ("t2i") or image ("i2t"), whose first answer is wrong.

    Args:
        scores: Images by texts.
        collection: The searched collection.
        background: The collection that words for settings are learned from; the same by default.
        progress: A display, which shows the steps: ranking, reading, comparing.
    """
    progress = as_progress(progress)
    scores_by_direction = {"t2i": scores.T, "i2t": scores}
    return {
        name: _classes(direction_scores, collection, background or collection, name, progress)
        for name, direction_scores in scores_by_direction.items()
    }


def _classes(
    scores: Scores, collection: Collection, background: Collection, direction: str, progress: Progress
) -> dict[str, str]:
    from limner.explain.failures import failures

    step = progress.step(f"looking for failures, {direction}", "queries", total=len(scores.queries))
    wrong = failures(scores, collection, direction=direction, judgements=collection.judgements.name, progress=step)
    return classified(wrong, collection, background, progress=progress)


def classified(
    wrong: Sequence[Failure], collection: Collection, background: Collection, *, progress: ProgressLike = None
) -> dict[str, str]:
    """The class of every failure, by query: from annotated objects, or else from the captions of both images.

    Args:
        wrong: The failures.
        collection: The searched collection.
        background: The collection that words for settings are learned from.
        progress: A display, which shows the steps.
    """
    progress = as_progress(progress)
    from limner.explain.failure_classes import ClaimReader, caption_class, label, setting_words
    from limner.explain.failures import explain
    from limner.language.wordnet import WordNet

    if not wrong:
        return {}
    wordnet = WordNet.load()
    done = explain(wrong, collection, wordnet=wordnet, progress=progress)
    reader = ClaimReader(wordnet, setting_words(background, wordnet))
    step = progress.step("classifying failures", "failures", total=len(wrong))
    annotated = "objects" in collection.images.fields
    classes = {}
    for each in counting(done.failures, step):
        images = done.concepts[each.truth], done.concepts[each.returned]
        classes[each.query] = (
            class_of(label(each, *images, reader)) if annotated else caption_class(each, *images, reader)
        )
    return classes


def class_of(labels: frozenset[str] | None) -> str:
    """One class of a failure for a colour: the first in the order of `CLASSES`, or its class by captions."""
    from limner.explain.failure_classes import CAPTION_CLASSES, CLASSES

    return next((name for name in (*CLASSES, *CAPTION_CLASSES) if name in (labels or ())), WRONG)
