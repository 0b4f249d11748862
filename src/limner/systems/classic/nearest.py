"""The nearest-neighbour systems: candidates are compared with the other half of the training pair nearest to the query.

    search:      f(i, s) = K_image(i_t, i),  t = argmax f_text(s, s_t)
    annotation:  f(i, s) = f_text(s_t, s),   t = argmax K_image(i, i_t)

over the training pairs (i_t, s_t), s_t being all captions of i_t as one document. With the F1 of idf-weighted bags of
words as f_text this is NN5-idf-F1 (Hodosh, Young & Hockenmaier 2013, section 3.1).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from limner.core import model_store
from limner.core.arrays import Array
from limner.core.collection import Collection
from limner.core.paths import damage_told
from limner.scores import Progress, Scores
from limner.systems.classic import kernel_state
from limner.systems.classic.models import TwoWayScores
from limner.systems.classic.pairs import (
    Documents,
    FeatureSource,
    Stages,
    documents_of,
    features_file,
    fit_images,
    image_features,
    image_kernel,
    refuse_few,
    text_kernel,
    usable,
)
from limner.systems.classic.visualwords import IMAGES as WORD_IMAGES
from limner.systems.trained_on import TrainedOn, kept

KIND = "nearest"


@dataclass(frozen=True, eq=False)
class NearestModel:
    """A nearest-neighbour system: kernels and the training items.

    Args:
        name: Name in reports.
        image_kernel: Fitted image kernel.
        text_kernel: Fitted text kernel.
        images: Features of the training images.
        documents: Captions of each training image.
        trained_on: The training items; None if unknown.
        features_file: The file of features that it was trained on, if it was; new images may be in it too.
    """

    name: str
    image_kernel: Any
    text_kernel: Any
    images: Any
    documents: Documents
    trained_on: TrainedOn | None = None
    features_file: str | None = None

    def scores(
        self, collection: Collection, *, features: FeatureSource = None, progress: Progress | None = None
    ) -> Scores:
        """Similarity of every candidate to the other half of the training pair nearest to the query.

        Args:
            collection: Images and texts.
            features: Features of the images, if they are not computed from the images.
            progress: Called with (images done, images in total).
        """
        used = usable(features, self.features_file, collection.images)
        held = image_features(self.image_kernel, collection.images, used, progress=progress)
        image_rows = np.asarray(self.image_kernel(held, self.images))
        texts = [[text] for text in collection.texts.values]
        text_rows = np.asarray(self.text_kernel(texts, self.documents))
        forward = nearest_scores(image_rows, text_rows)
        backward = nearest_scores(text_rows, image_rows)
        return TwoWayScores(collection.images.ids, collection.texts.ids, forward, backward)

    @cached_property
    def fingerprint(self) -> str:
        """Kernels and training items."""
        return kernel_state.fingerprint(KIND, self._content())

    def save(self, path: str | Path) -> Path:
        """Writes the model as a folder, which `limner.systems.load` reads."""
        return model_store.write(
            path, KIND, {**self._content(), "features_file": self.features_file, **kept(self.trained_on)}
        )

    def _content(self) -> dict[str, object]:
        return {
            "name": self.name,
            "image_kernel": kernel_state.kernel_state(self.image_kernel),
            "text_kernel": kernel_state.kernel_state(self.text_kernel),
            "images": kernel_state.features_state(self.images),
            "documents": [list(document) for document in self.documents],
        }

    @classmethod
    def load(cls, path: str | Path, *, trust: bool = False) -> NearestModel:
        """Reads a model that was saved; with `trust`, also one with custom kernels or taggers."""
        held = model_store.read(path, KIND).content
        with damage_told(path, what="saved model", mend="save it again"):
            images, texts = (
                kernel_state.kernel_from(held[f"{side}_kernel"], trust=trust) for side in ("image", "text")
            )
            features, record = (
                kernel_state.features_from(held["images"]),
                TrainedOn.from_content(held.get("trained_on")),
            )
            return cls(held["name"], images, texts, features, held["documents"], record, held.get("features_file"))


def nearest_scores(query_rows: Array, candidate_rows: Array) -> Array:
    """Scores of candidates for queries through the training pair nearest to each query, the first of equals.

    Args:
        query_rows: Queries by training items, similarities on the queries' side.
        candidate_rows: Candidates by training items, similarities on the candidates' side, which must be symmetric.

    >>> nearest_scores(np.array([[0.1, 0.9]]), np.array([[0.3, 0.5], [0.8, 0.2], [0.1, 0.6]])).tolist()
    [[0.5, 0.2, 0.6]]
    """
    return np.ascontiguousarray(candidate_rows[:, query_rows.argmax(axis=1)].T)


def train(
    collection: Collection,
    *,
    images: Any = "pyramid",
    texts: Any = "f1",
    weights: str | None = None,
    features: FeatureSource = None,
    side: int = 192,
    points: int = 250,
    seed: int = 0,
    name: str = "nearest",
    workers: int | None = None,
    progress: Progress | None = None,
) -> NearestModel:
    """Nearest neighbours among the training pairs; NN5-idf-F1 by default.

    Args:
        collection: The training collection: images, each with one or more texts.
        images: The image kernel: "pyramid" or "histogram" of visual words, "linear", "rbf" or "chi2" of features, or
            a kernel.
        texts: The similarity of texts: "f1", "bow", "trigrams", "tagrank", or a kernel.
        weights: Weights of words, for one by name: "idf" (by default), "root idf" or "none".
        features: Precomputed features of all images by id.
        side: The shorter side of pictures in pixels.
        points: Points of each of 200 pictures that visual words are learned from.
        seed: Draws those.
        name: Name of the system in reports.
        workers: Threads; all cores by default.
        progress: Called with (work done, work in total), counted in pictures.
    """
    refuse_few(collection)
    documents = documents_of(collection)
    options = {"side": side, "points": points, "seed": seed, "workers": workers}
    kernel = image_kernel(images, options, features=features is not None)
    words = text_kernel(texts, weights, usual="idf").fit(documents)
    pictures = 0 if features is not None else len(collection.images)
    stages = Stages(progress, words=min(2 * WORD_IMAGES, pictures), images=pictures)
    kernel = fit_images(kernel, collection, features, progress=stages["words"])
    held = image_features(kernel, collection.images, features, progress=stages["images"])
    return NearestModel(name, kernel, words, held, documents, TrainedOn.of(collection), features_file(features))
