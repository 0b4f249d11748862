"""Vectors for COCO's 5,000 test images and 25,000 captions, in two worlds.

`like_a_model` draws a system whose numbers come near those of a published model, VSE∞ (BUTD region), in the tables of
ECCV Caption (Chun et al. 2022, D.2 and D.3). In percent, 256 dimensions:

                  ECCV mAP@R    R-P   R@1   CxC R@1   COCO 1K R@1   5K R@1   5K R@5   5K R@10
    i2t  model          31.4   42.8  74.9      60.1          79.6     58.3     85.3      92.3
         here           36.2   43.2  90.0      58.0          78.9     54.9     87.7      93.9
    t2i  model          49.6   57.2  90.2      44.7          64.8     42.4     72.7      83.2
         here           47.0   51.8  93.1      43.0          61.0     41.0     67.3      75.7

So, as far as these numbers tell, pairs that CxC and ECCV Caption add have about the signal of a real system, with
one exception: the best caption of an image is judged relevant more often. The weights were found by a search over these
numbers. Pairs that CxC rates too low to be relevant have signal too, in proportion to the rating: the rank correlation
of scores and ratings is 0.60, that of the dual encoder in CxC's paper 0.62 (Parekh et al. 2021, on samples of them).

With more than 256 dimensions the same vectors are turned into them, so that all scores are the same: 1,024 is that
model's own size.

`without_signal` is the worst case for a filter: captions are near their own image, and the pairs that were added later
are as far apart as any other two items, so that a large part of all candidates is near each of them.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix

from limner import Collection

Vectors = tuple[np.ndarray, np.ndarray]

DIMENSIONS, OWN_SIZE = 256, 1024
"""The dimensions in which vectors are drawn, and those of the model."""
TOPICS, TOPIC = 400, 2.0
"""Images share topics, of this weight: they look alike without being relevant to each other's captions."""
NEIGHBOURS = 0.3
"""Weight of the images that captions connect with an image, all together."""
ADDED, ADDED_TO_TEXT = 0.35, 0.5
"""Weight of an image in a caption that was added to it: for the image, or CxC's; and for the caption."""
RELEVANT = 3
"""CxC's rating of a relevant pair. The weight of a lower one grows with the rating."""
IMAGE_NOISE, TEXT_NOISE = 2.5, 8.0


def without_signal(collection: Collection, dimensions: int = DIMENSIONS) -> Vectors:
    """Captions and images near one random point per image."""
    rng = np.random.default_rng(0)
    pairs = collection.judgements.T.relevant
    points = rng.standard_normal((len(collection.images), dimensions), dtype=np.float32)
    images = points + 1.5 * rng.standard_normal(points.shape, dtype=np.float32)
    noise = rng.standard_normal((len(collection.texts), dimensions), dtype=np.float32)
    return images, points[pairs.columns] + 3 * noise


def like_a_model(collection: Collection, dimensions: int = DIMENSIONS) -> Vectors:
    """Images near images that share a topic or captions; captions near all images that they were judged to match."""
    if dimensions > DIMENSIONS:
        return turned(like_a_model(collection), dimensions)
    rng, count = np.random.default_rng(0), len(collection.images)
    topics = rng.standard_normal((TOPICS, dimensions), dtype=np.float32)
    points = rng.standard_normal((count, dimensions), dtype=np.float32)
    points += np.float32(TOPIC) * topics[rng.integers(TOPICS, size=count)]
    captions_of_image, by_image, by_text = added(collection)
    neighbour_rows = neighbours(captions_of_image, by_image + by_text)
    images = points + NEIGHBOURS * (neighbour_rows @ points)
    texts = captions_of_image @ images + (ADDED * (by_image + rated_low(collection)) + ADDED_TO_TEXT * by_text) @ points
    drawn = (rng.standard_normal(side.shape, dtype=np.float32) for side in (images, texts))
    sides = zip((images, texts), (IMAGE_NOISE, TEXT_NOISE), drawn, strict=True)
    images, texts = (np.asarray(side + weight * noise, dtype=np.float32) for side, weight, noise in sides)
    return images, texts


def turned(drawn: Vectors, dimensions: int) -> Vectors:
    """The same vectors in a space of more dimensions, in no special direction: lengths and angles stay."""
    rng = np.random.default_rng(0)
    directions = np.linalg.qr(rng.standard_normal((dimensions, drawn[0].shape[1])))[0].astype(np.float32)
    images, texts = (side @ directions.T for side in drawn)
    return images, texts


def added(collection: Collection) -> tuple[csr_matrix, csr_matrix, csr_matrix]:
    """Texts by images: the original pairs; those added by CxC and for images; those added for texts."""
    captions_of_image = matrix(collection, "pairs", "t2i")
    judged_matrices = [
        matrix(collection, *judgement_name) for judgement_name in (("cxc", "t2i"), ("eccv", "i2t"), ("eccv", "t2i"))
    ]
    cxc, by_image, by_text = (each - each.multiply(captions_of_image) for each in judged_matrices)
    return captions_of_image, once(cxc + by_image), by_text


def rated_low(collection: Collection) -> csr_matrix:
    """Texts by images: CxC's rating of pairs that are not relevant, from 0 to 1 (the lowest of a relevant pair)."""
    rated = collection.ratings["cxc"]
    rows, columns = collection.texts.ids.find(rated.candidates), collection.images.ids.find(rated.queries)
    places, low = (rows[rated.columns], columns[rated.rows]), rated.grades < RELEVANT
    low &= (places[0] >= 0) & (places[1] >= 0)
    size = len(collection.texts), len(collection.images)
    pairs_matrix = csr_matrix((rated.grades[low] / RELEVANT, (places[0][low], places[1][low])), shape=size)
    return pairs_matrix - pairs_matrix.multiply(matrix(collection, "pairs", "t2i"))


def matrix(collection: Collection, name: str, direction: str) -> csr_matrix:
    """The relevant pairs of some judgements, texts by images."""
    judged = collection.judged(name, direction).relevant
    judged = judged if direction == "t2i" else judged.T
    texts, images = collection.texts.ids, collection.images.ids
    rows, columns = texts.find(judged.queries)[judged.rows], images.find(judged.candidates)[judged.columns]
    inside = (rows >= 0) & (columns >= 0)
    places = rows[inside], columns[inside]
    return once(csr_matrix((np.ones(len(places[0])), places), shape=(len(texts), len(images))))


def once(pairs: csr_matrix) -> csr_matrix:
    """The same pairs, each with weight 1."""
    matrix = pairs.tocsr()
    matrix.eliminate_zeros()
    matrix.data = np.ones(len(matrix.data), dtype=np.float32)
    return matrix


def neighbours(captions_of_image: csr_matrix, pairs: csr_matrix) -> csr_matrix:
    """Images by images: how many captions of either match the other, divided by the root of the row's length."""
    counts = captions_of_image.T @ once(pairs)
    counts = (counts + counts.T).tocsr()
    length = np.sqrt(np.asarray(counts.multiply(counts).sum(axis=1)).ravel())
    scale = np.divide(1, np.sqrt(length), out=np.zeros_like(length), where=length > 0)
    return csr_matrix((counts.data * np.repeat(scale, np.diff(counts.indptr)), counts.indices, counts.indptr))
