"""Text-only retrieval: find an image by one caption among the other captions of all images, without using the image.

This is the task of Lymperaiou et al. (2022). A system that uses the images should beat it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from limner.core.arrays import array
from limner.core.collection import Collection
from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError, UnknownName
from limner.core.ids import Ids
from limner.core.judgements import Judgements
from limner.encoders.contract import Encoder, TwoSided, encoded
from limner.papers.corpora import Summarise
from limner.scores import Scores

Vectors = npt.NDArray[np.floating]
Encode = Encoder | TwoSided | Callable[[Sequence[str]], Vectors]

CORPUS = ("mean", "joined", "summary")
SORTED = 1.3
"""Captions count as sorted by length if the first has this many times the words of the last, on average."""
MEASURES = "R@1 R@5 R@10 MRR@5 MRR@10 MRR MedR"


def text_only(
    collection: Collection,
    encode: Encode,
    *,
    query: int = 0,
    corpus: str = "mean",
    summarise: Summarise | None = None,
    regions: Mapping[str, Sequence[str]] | None = None,
) -> tuple[Scores, Judgements]:
    """Scores one caption of every image against the other captions of all images.

    Args:
        collection: Every image must have two captions or more.
        encode: An encoder, or a function that turns a list of texts into vectors, one row per text.
        query: Which caption of each image is the query, counted from 0. In Flickr30k captions are sorted by length:
            the longest, #0, finds far more than the shortest, #4 (see `length_note`).
        corpus: How an image is represented: "mean", the mean vector of its other captions; "joined", the vector of
            these captions joined by spaces into one text; "summary", the vector of their summary (see `summarise`).
        summarise: For "summary": a function from the other captions of an image to one text (`limner.papers.corpora`).
        regions: Texts that represent each image instead of its other captions, by image id, such as Visual Genome's
            region descriptions (`limner.papers.corpora.read_regions`). Images without any are left out.

    Returns:
        Scores from texts to images, and the judgements to evaluate them with.

    >>> import limner
    >>> world = limner.load("scenes", images=3)
    >>> letters = lambda texts: np.array([[t.count(c) for c in "abcdefgh"] for t in texts], dtype=float)
    >>> scores, right = text_only(world, letters)
    >>> scores.shape, len(right)
    ((3, 3), 3)
    """
    if corpus not in CORPUS:
        raise UnknownName("corpus", corpus, CORPUS)
    if (corpus == "summary") != (summarise is not None):
        raise LimnerError("a summariser needs corpus='summary' and the reverse: give both or neither")
    texts = dict(zip(collection.texts.ids, collection.texts.values, strict=True))
    if regions is None:
        queries_asked, other_captions = parted(collection, query)
        image_ids, corpora = collection.images.ids, [[texts[t] for t in each] for each in other_captions]
    else:
        image_ids, queries_asked, corpora = _with_regions(collection, query, regions)
    queries = Embeddings(Ids(queries_asked, what="text"), _vectors(encode, [texts[t] for t in queries_asked]))
    images = Embeddings(image_ids, _corpus(encode, corpora, corpus, summarise))
    pairs = Judgements.from_pairs(
        zip(queries_asked, image_ids, strict=True), queries=queries.ids, candidates=images.ids, name="text only"
    )
    return Scores.from_embeddings(queries, images), pairs


def parted(collection: Collection, query: int) -> tuple[list[str], list[list[str]]]:
    """The query caption of every image, and its other captions, by id."""
    pairs = collection.judgements.relevant
    queries, rest_of_captions = [], []
    for row, image in enumerate(collection.images.ids):
        texts = [pairs.candidates[int(c)] for c in pairs.columns[pairs.indptr[row] : pairs.indptr[row + 1]]]
        if len(texts) < 2 or not 0 <= query < len(texts):
            raise LimnerError(
                f"image {image!r} has {len(texts)} captions: text-only retrieval needs two or more, and uses "
                f"caption {query} (counted from 0) as the query; leave such images out with collection.restrict"
            )
        queries.append(texts[query])
        rest_of_captions.append([t for at, t in enumerate(texts) if at != query])
    return queries, rest_of_captions


def _with_regions(
    collection: Collection, query: int, regions: Mapping[str, Sequence[str]]
) -> tuple[Ids, list[str], list[list[str]]]:
    """The images with region descriptions, the query caption of each, and the descriptions."""
    pairs = collection.judgements.relevant
    image_ids, queries = [], []
    for row, image in enumerate(collection.images.ids):
        texts = pairs.columns[pairs.indptr[row] : pairs.indptr[row + 1]]
        if regions.get(image):
            if not 0 <= query < len(texts):
                raise LimnerError(
                    f"image {image!r} has {len(texts)} captions: there is no caption {query} to use as the query"
                )
            image_ids.append(image)
            queries.append(pairs.candidates[int(texts[query])])
    if not image_ids:
        raise LimnerError(
            f"no image of {collection.name!r} has region descriptions, e.g. {next(iter(collection.images.ids), '')!r}: "
            f"they are of {len(regions):,} images, e.g. {next(iter(regions), '')!r}; do the ids need image_data.json?"
        )
    return Ids(image_ids, what="image"), queries, [list(regions[image]) for image in image_ids]


def queries_of(collection: Collection, scores: Scores) -> Collection:
    """The collection with the captions that are queries as its only texts, and the images that they are compared with.

    Args:
        collection: The collection with all captions.
        scores: What `text_only` gave for it.
    """
    part = collection.restrict(scores.candidates)
    texts = part.texts.subset(scores.queries)

    def narrowed(all_judgements: Mapping[str, Judgements]) -> dict[str, Judgements]:
        return {name: each.restrict(candidates=texts.ids) for name, each in all_judgements.items()}

    pairs = part.judgements.restrict(candidates=texts.ids)
    reverse = {name: each.restrict(queries=texts.ids) for name, each in part.reverse.items()}
    return replace(
        part,
        texts=texts,
        judgements=pairs,
        extra=narrowed(part.extra),
        ratings=narrowed(part.ratings),
        reverse=reverse,
    )


def words_by_number(collection: Collection) -> list[float]:
    """Mean number of words of the first, second, ... caption of each image, as far as every image has one."""
    pairs = collection.judgements.relevant
    counted = [len(text.split()) for text in collection.texts.values]
    positions = collection.texts.ids.find(pairs.candidates)
    fewest = int(min(pairs.counts, default=0))
    firsts = pairs.indptr[:-1]
    return [float(np.mean([counted[positions[c]] for c in pairs.columns[firsts + n]])) for n in range(fewest)]


def length_note(collection: Collection, query: int) -> list[str]:
    """A note if captions are sorted by length, so that the choice of the query caption matters."""
    words = words_by_number(collection)
    falls = all(a >= b for a, b in pairwise(words))
    if len(words) < 2 or not (falls or words == sorted(words)) or max(words) < SORTED * min(words):
        return []
    listed = ", ".join(f"#{number} {mean:.1f}" for number, mean in enumerate(words))
    return [
        f"captions are sorted by length (mean words {listed}): a longer query is more precise, so the result "
        f"depends on which caption is the query; here it is #{query} (query={query}, -O query={query})"
    ]


def _corpus(
    encode: Encode, captions: list[list[str]], corpus: str, summarise: Summarise | None
) -> npt.NDArray[np.float32]:
    if corpus == "joined":
        return _vectors(encode, [" ".join(each) for each in captions])
    if summarise is not None:
        summarise_all = getattr(summarise, "many", None)  # a model that encodes several texts at a time
        summaries = [summarise(each) for each in captions] if summarise_all is None else summarise_all(captions)
        return _vectors(encode, summaries)
    flat = _vectors(encode, [text for each in captions for text in each])
    ends = np.cumsum([len(each) for each in captions])
    return np.stack([part.mean(axis=0) for part in np.split(flat, ends[:-1])])


def _vectors(encode: Encode, texts: Sequence[str]) -> npt.NDArray[np.float32]:
    if isinstance(encode, (Encoder, TwoSided)):
        return encoded(encode, texts).matrix
    vectors = np.asarray(array(encode(texts), "what the encoder gave"), dtype=np.float32)
    if vectors.ndim != 2 or len(vectors) != len(texts):
        raise LimnerError(
            f"the encoder gave an array of shape {vectors.shape} for {len(texts)} texts: expected one row per text"
        )
    return vectors
