"""The nearest-neighbour systems: candidates are compared with the counterpart of the query's nearest training item.

    search:      f(i, s) = K_image(i_t, i),  t = argmax f_text(s, s_t)
    annotation:  f(i, s) = f_text(s_t, s),   t = argmax K_image(i, i_t)

over the training pairs (i_t, s_t), where s_t is all captions of i_t as one document. With the F1 of idf-weighted bags
of words as f_text this is NN5-idf-F1 (Hodosh, Young & Hockenmaier 2013, section 3.1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from limner.core.arrays import Array
from limner.core.collection import Collection
from limner.core.progress import ProgressLike, Stages
from limner.scores import Scores
from limner.systems.classic.kernel_model import (
    FeatureSource,
    KernelModel,
    WordSampling,
    documents_of,
    features_file,
    fit_images,
    image_features,
    image_kernel,
    refuse_few,
    text_kernel,
)
from limner.systems.classic.kernels import Kernel
from limner.systems.classic.models import TwoWayScores
from limner.systems.classic.visualwords import IMAGES as WORD_IMAGES
from limner.systems.hold_out import TrainedOn


@dataclass(frozen=True, eq=False)
class NearestModel(KernelModel):
    """A nearest-neighbour system: kernels and the training items."""

    KIND = "nearest"

    def scores(
        self, collection: Collection, *, features: FeatureSource = None, progress: ProgressLike = None
    ) -> Scores:
        """Similarity of every candidate to the matching item of the training pair nearest to the query.

        Args:
            collection: Images and texts.
            features: Features of the images, if they are not computed from the images.
            progress: Called with (images done, images in total).
        """
        image_rows = self.image_rows(collection.images, features=features, progress=progress)
        text_rows = self.text_rows(collection.texts)
        forward = nearest_scores(image_rows, text_rows)
        backward = nearest_scores(text_rows, image_rows)
        return TwoWayScores(collection.images.ids, collection.texts.ids, forward, backward)


def nearest_scores(query_rows: Array, candidate_rows: Array) -> Array:
    """Scores of candidates through the training pair nearest to each query; the first one if tied.

    Args:
        query_rows: Queries by training items, similarities in the modality of the queries.
        candidate_rows: Candidates by training items, similarities in their modality, which must be symmetric.

    >>> nearest_scores(np.array([[0.1, 0.9]]), np.array([[0.3, 0.5], [0.8, 0.2], [0.1, 0.6]])).tolist()
    [[0.5, 0.2, 0.6]]
    """
    return np.ascontiguousarray(candidate_rows[:, query_rows.argmax(axis=1)].T)


def train(
    collection: Collection,
    *,
    images: str | Kernel = "pyramid",
    texts: str | Kernel = "f1",
    weights: str | None = None,
    features: FeatureSource = None,
    side: int = 192,
    points: int = 250,
    seed: int = 0,
    name: str = "nearest",
    workers: int | None = None,
    progress: ProgressLike = None,
) -> NearestModel:
    """Nearest neighbours among the training pairs; NN5-idf-F1 by default.

    Args:
        collection: The training collection: images, each with one or more texts.
        images: The image kernel: "pyramid" or "histogram" of visual words, "linear", "rbf" or "chi2" of features, or
            a kernel.
        texts: The similarity of texts: "f1", "bow", "trigrams", "tagrank", or a kernel.
        weights: Word weights for a named similarity: "idf" (by default), "root idf" or "none".
        features: Precomputed features of all images by id.
        side: The shorter side of images in pixels.
        points: Number of points sampled from each of 200 images to learn visual words.
        seed: Seed of this sample.
        name: Name of the system in reports.
        workers: Threads; all cores by default.
        progress: Called with (work done, work in total), counted in images.
    """
    refuse_few(collection)
    documents = documents_of(collection)
    sampling: WordSampling = {"side": side, "points": points, "seed": seed, "workers": workers}
    kernel = image_kernel(images, features=features is not None, **sampling)
    words = text_kernel(texts, weights, usual="idf").fit(documents)
    n_images = 0 if features is not None else len(collection.images)
    stages = Stages(progress, words=min(2 * WORD_IMAGES, n_images), images=n_images)
    compared = fit_images(kernel, collection, features, progress=stages["words"])
    image_inputs = image_features(compared, collection.images, features, progress=stages["images"])
    record = TrainedOn.of(collection)
    file = features_file(features)
    return NearestModel(name, compared, words, image_inputs, documents, trained_on=record, features_file=file)
