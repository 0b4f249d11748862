"""Two encoders of one kind each, joined: their vectors are mapped into one space in closed form.

An encoder of images and one of texts, such as those whose weights come in packages, have no space in common.
Regularised canonical correlation analysis of the training pairs gives one (`limner.systems.canonical`). The encoders
stay as they are, so there is nothing to train but two matrices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from limner.core import model_store
from limner.core.collection import Collection, Items
from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError
from limner.core.paths import damage_told
from limner.core.progress import SILENT, Progress, ProgressLike, as_progress
from limner.encoders.contract import digest, identity
from limner.encoders.opening import EncodedVectors, Source, VectorSource, load_source, source_of
from limner.encoders.words import BagOfWords
from limner.scores import Scores
from limner.systems.canonical import Side, canonical_maps, pair_weights, refuse_bad
from limner.systems.hold_out import TrainedOn, saved_record

if TYPE_CHECKING:
    from limner.core.arrays import Array

KIND = "aligned"
WORDS = "words"
"""The text encoder that needs no weights: a bag of words, learned from the training texts."""


@dataclass(frozen=True, eq=False)
class AlignedModel:
    """An encoder of images and an encoder of texts with a map each into one space.

    Args:
        name: Name in reports.
        images: Vectors of images.
        texts: Vectors of texts, or a bag of words.
        image_map: From image vectors to the joint space.
        text_map: From text vectors to the joint space.
        options: Training options.
        trained_on: The training items; None if unknown.
    """

    name: str
    images: Source
    texts: Source | BagOfWords
    image_map: Side
    text_map: Side
    options: Mapping[str, object] = field(default_factory=dict)
    trained_on: TrainedOn | None = None

    @cached_property
    def fingerprint(self) -> str:
        """Identifies the model by its encoders and maps."""
        maps = [part for side in (self.image_map, self.text_map) for part in (side.mean, side.weights)]
        side_ids = [_identity(each) for each in (self.images, self.texts)]
        return f"aligned {digest(*side_ids, *maps)}"

    def scores(self, collection: Collection, *, progress: ProgressLike = None) -> Scores:
        """Cosine similarity of every image and every text of a collection, computed lazily."""
        progress = as_progress(progress)
        images = self.encode_images(collection.images, progress=progress)
        progress.step(f"encoding {len(collection.texts):,} texts")
        return Scores.from_embeddings(images, self.encode_texts(collection.texts), similarity="dot")

    def encode_images(self, items: Items, *, progress: ProgressLike = None) -> Embeddings:
        """Images in the joint space, L2-normalised."""
        progress = as_progress(progress)
        return Embeddings.of_length_one(items.ids, self.image_map(_rows(self.images, items, progress)))

    def encode_texts(self, items: Items, *, progress: ProgressLike = None) -> Embeddings:
        """Texts in the joint space, L2-normalised."""
        progress = as_progress(progress)
        return Embeddings.of_length_one(items.ids, self.text_map(_rows(self.texts, items, progress)))

    def save(self, path: str | Path) -> Path:
        """Writes the model as a folder, which `limner.systems.load` reads."""
        bag = self.texts if isinstance(self.texts, BagOfWords) else None
        content = {
            "name": self.name,
            "options": dict(self.options),
            "images": self.images.about(),
            "texts": {WORDS: list(bag.vocabulary)} if bag is not None else self.texts.about(),  # type: ignore[union-attr]
            "idf": np.zeros(0) if bag is None else bag.weights,
            "image_map": vars(self.image_map),
            "text_map": vars(self.text_map),
        }
        return model_store.write(path, KIND, {**content, **saved_record(self.trained_on)})

    @classmethod
    def load(cls, path: str | Path, *, trust: bool = False) -> AlignedModel:
        """Reads a saved model; `trust` allows it to name an encoder as "module:thing"."""
        content = model_store.read(path, KIND).content
        with damage_told(path, what="saved model", mend="save it again"):
            image_map, text_map = (Side(**content[f"{side}_map"]) for side in ("image", "text"))
            about, record = content["texts"], TrainedOn.from_content(content.get("trained_on"))
            bag = BagOfWords(tuple(map(str, about[WORDS])), content["idf"]) if WORDS in about else None
            name, options = str(content["name"]), content["options"]
            if bag is not None and len(bag.vocabulary) != len(text_map.mean):
                raise LimnerError(f"{len(bag.vocabulary)} words for a map of {len(text_map.mean)}: expected as many")
        images = _saved_source(content["images"], "images", trust)
        texts = bag if bag is not None else _saved_source(about, "texts", trust)
        return cls(name, images, texts, image_map, text_map, options, record)


def train_aligned(
    collection: Collection,
    *,
    images: VectorSource | None = None,
    texts: VectorSource | None = None,
    ridge: float = 1.0,
    dimensions: int = 256,
    cache: str | Path | None = None,
    name: str = "aligned",
    progress: ProgressLike = None,
) -> AlignedModel:
    """An encoder of images and one of texts, mapped into a joint space in closed form.

    Args:
        collection: The training collection; relevant pairs are weighted by their grade.
        images: Encoder of images, such as "efficientnet-lite", or vectors; colours and shapes by default.
        texts: Encoder of texts, such as "minilm"; a bag of words by default.
        ridge: Smoothing of the maps; see `limner.systems.canonical`.
        dimensions: Dimensions of the joint space.
        cache: Folder for vectors; by default the one that all commands share.
        name: Name of the system in reports.
        progress: Called with (images done, images in total).
    """
    progress = as_progress(progress)
    refuse_bad(collection, ridge, dimensions)
    image_side = source_of(images, kind="image", cache=cache)
    text_side: Source | BagOfWords = BagOfWords.fit(collection.texts.values)
    if texts is not None and texts != WORDS:
        text_side = source_of(texts, kind="text", cache=cache)
    rows = _rows(image_side, collection.images, progress)
    progress.step(f"encoding {len(collection.texts):,} texts")
    text_rows = _rows(text_side, collection.texts, SILENT)
    progress.step("solving for the joint space")
    sides = canonical_maps(rows, text_rows, pair_weights(collection), ridge=ridge, dimensions=dimensions)
    options = {"ridge": ridge, "dimensions": dimensions}
    return AlignedModel(name, image_side, text_side, *sides, options, TrainedOn.of(collection))


def _rows(side: Source | BagOfWords, items: Items, progress: Progress) -> Array:
    """Vectors of length one."""
    if isinstance(side, BagOfWords):
        sparse: Any = side.vectors(items.values)
        return sparse  # type: ignore[no-any-return]  # the maps take sparse rows too
    rows = side.vectors(items, progress).astype(np.float64)
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12))


def _identity(side: Source | BagOfWords) -> str:
    if isinstance(side, BagOfWords):
        return " ".join(side.vocabulary)
    return str(identity(side.encoder) if isinstance(side, EncodedVectors) else side.path)


def _saved_source(about: object, side: str, trust: bool) -> Source:
    vectors = load_source(about, option=side, trust=trust)
    if vectors is None:
        raise LimnerError(
            f"the encoder of {side} was an object of Python and is not in the saved model: train it again"
        )
    return vectors
