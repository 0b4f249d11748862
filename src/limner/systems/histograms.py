"""The built-in systems: histograms of an image and the words of a text, mapped into a joint space in closed form.

These baselines need no GPU and no download, and they are deterministic.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from limner.core import model_store
from limner.core.collection import Collection, Items
from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError, UnknownName
from limner.core.paths import damage_told
from limner.core.progress import ProgressLike, as_progress
from limner.encoders.contract import digest
from limner.encoders.image_descriptors import DESCRIPTIONS, describe, describe_one
from limner.encoders.words import BagOfWords
from limner.scores import Scores
from limner.systems.canonical import Side, canonical_maps, pair_weights, refuse_bad
from limner.systems.hold_out import TrainedOn, saved_record

KIND = "histograms"
_AT_ONCE = 1024  # images are processed in pieces, to bound memory


@dataclass(frozen=True, eq=False)
class HistogramModel:
    """A trained system: descriptions of images and words of texts, mapped into one space.

    Args:
        name: Name in reports.
        descriptions: Keys of `limner.encoders.image_descriptors.DESCRIPTIONS`.
        bag: The vocabulary.
        image_map: From descriptions to the joint space.
        text_map: From bags of words to the joint space.
        options: Training options.
        trained_on: The training items; None if unknown.
    """

    name: str
    descriptions: tuple[str, ...]
    bag: BagOfWords
    image_map: Side
    text_map: Side
    options: Mapping[str, object] = field(default_factory=dict)
    trained_on: TrainedOn | None = None

    @cached_property
    def fingerprint(self) -> str:
        """Identifies the model by its descriptions, vocabulary and maps."""
        sides = self.image_map, self.text_map
        maps = [part for side in sides for part in (side.mean, side.weights)]
        words = json.dumps([self.descriptions, self.bag.vocabulary])
        return f"histograms {digest(words, self.bag.weights, *maps)}"

    def scores(self, collection: Collection, *, workers: int | None = None, progress: ProgressLike = None) -> Scores:
        """Cosine similarity of every image and every text of a collection, computed lazily."""
        images = self.encode_images(collection.images, workers=workers, progress=progress)
        return Scores.from_embeddings(images, self.encode_texts(collection.texts), similarity="dot")

    def encode_images(self, items: Items, *, workers: int | None = None, progress: ProgressLike = None) -> Embeddings:
        """Images in the joint space, L2-normalised (see `Embeddings.of_length_one`)."""
        progress = as_progress(progress)
        pieces = []
        for low in range(0, max(len(items), 1), _AT_ONCE):
            part_progress = progress.part(low, len(items))
            pieces.append(
                self.image_map(
                    describe(items[low : low + _AT_ONCE], self.descriptions, workers=workers, progress=part_progress)
                )
            )
        return Embeddings.of_length_one(items.ids, np.concatenate(pieces))

    def encode_texts(self, items: Items) -> Embeddings:
        """Texts in the joint space; a text without any known word gets the mean text vector."""
        return Embeddings.of_length_one(items.ids, self.text_map(self.bag.vectors(items.values)))

    def unknown_words(self, text: str) -> list[str]:
        """The words of a text that do not occur in training, or not often enough."""
        return self.bag.unknown(text)

    def save(self, path: str | Path) -> Path:
        """Writes the model as a folder, which `limner.systems.load` reads."""
        content = {
            "name": self.name,
            "options": dict(self.options),
            "descriptions": list(self.descriptions),
            "vocabulary": list(self.bag.vocabulary),
            "idf": self.bag.weights,
            "picture_map": vars(self.image_map),
            "text_map": vars(self.text_map),
        }
        return model_store.write(path, KIND, {**content, **saved_record(self.trained_on)})

    @classmethod
    def load(cls, path: str | Path, *, trust: bool = False) -> HistogramModel:
        """Reads a saved model. It contains no code, so `trust` has no effect."""
        content = model_store.read(path, KIND).content
        with damage_told(path, what="saved model", mend="save it again"):
            images, texts = (Side(**content[f"{side}_map"]) for side in ("picture", "text"))
            bag = BagOfWords(tuple(map(str, content["vocabulary"])), content["idf"])
            record, descriptions = (
                TrainedOn.from_content(content.get("trained_on")),
                tuple(map(str, content["descriptions"])),
            )
            _refuse_misfit(descriptions, images, bag, texts)
            return cls(str(content["name"]), descriptions, bag, images, texts, content["options"], record)


def _refuse_misfit(descriptions: Sequence[str], images: Side, bag: BagOfWords, texts: Side) -> None:
    """Refuses maps of other descriptions or of another vocabulary."""
    from PIL import Image

    for name in descriptions:
        if name not in DESCRIPTIONS:
            raise UnknownName("image descriptor", name, DESCRIPTIONS)
    width = len(describe_one(Image.new("RGB", (8, 8)), descriptions)) if descriptions else 0
    for columns, count, side in (("descriptions of images", width, images), ("words", len(bag.vocabulary), texts)):
        if count != len(side.mean):
            raise LimnerError(f"{count} {columns} for a map of {len(side.mean)}: expected as many")


def train(
    collection: Collection,
    *,
    descriptions: Sequence[str] = ("colours", "shapes"),
    ridge: float = 0.3,
    dimensions: int = 32,
    min_count: int = 2,
    name: str = "histograms",
    workers: int | None = None,
    progress: ProgressLike = None,
) -> HistogramModel:
    """Maps colours and shapes of images and words of texts into a joint space.

    Args:
        collection: The training collection; relevant pairs are weighted by their grade.
        descriptions: Descriptions of images: "colours", "shapes" or both.
        ridge: Smoothing of the map; see `limner.systems.canonical`.
        dimensions: Dimensions of the joint space.
        min_count: Words that occur in fewer texts are left out.
        name: Name of the system in reports.
        workers: Threads; all cores by default.
        progress: Called with (images done, images in total).
    """
    progress = as_progress(progress)
    refuse_bad(collection, ridge, dimensions)
    bag = BagOfWords.fit(collection.texts.values, min_count=min_count)
    images = describe(collection.images, descriptions, workers=workers, progress=progress)
    progress.step("solving for the joint space")
    sides = canonical_maps(
        images, bag.vectors(collection.texts.values), pair_weights(collection), ridge=ridge, dimensions=dimensions
    )
    options = {"ridge": ridge, "dimensions": dimensions, "min_count": min_count}
    return HistogramModel(name, tuple(descriptions), bag, *sides, options, TrainedOn.of(collection))


def train_colours(
    collection: Collection,
    *,
    ridge: float = 0.3,
    dimensions: int = 32,
    min_count: int = 2,
    name: str = "colours",
    workers: int | None = None,
    progress: ProgressLike = None,
) -> HistogramModel:
    """Maps colours of images and words of texts into a joint space.

    Arguments as in `train`.
    """
    return train(
        collection,
        descriptions=("colours",),
        ridge=ridge,
        dimensions=dimensions,
        min_count=min_count,
        name=name,
        workers=workers,
        progress=progress,
    )
