"""Training data of the classical systems: each image, with all its captions as one document."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from limner.core.collection import Collection, Items
from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError
from limner.core.paths import damage_told, refuse_irregular
from limner.core.progress import Progress, ProgressLike, progress_for
from limner.core.registry import Registry
from limner.systems.classic.histograms import WordHistograms
from limner.systems.classic.kernels import KINDS, Featured, Features, Pyramid

Documents = Sequence[Sequence[str]]
FeatureSource = Embeddings | WordHistograms | str | Path | None
"""Features of images by id, in memory or in a file; None to compute them from the images."""

TEXTS: Registry[Callable[..., object]] = Registry(
    "text kernel",
    {
        "bow": "limner.systems.classic.pairs:bow",
        "trigrams": "limner.systems.classic.pairs:trigrams",
        "tagrank": "limner.papers.tagrank:TagRank",
        "f1": "limner.systems.classic.strings:OverlapF1",
    },
)
"""Text kernels by name; "module:thing" names a custom one, or pass the kernel itself."""
IMAGES: Registry[Callable[..., object]] = Registry(
    "image kernel",
    {
        "pyramid": "limner.systems.classic.kernels:Pyramid",
        "histogram": "limner.systems.classic.kernels:Pyramid",
        **dict.fromkeys(KINDS, "limner.systems.classic.kernels:Features"),
    },
)
"""Image kernels by name; the last three need features."""


def bow(*, weights: str) -> object:
    """The bag of words: the string kernel of single words."""
    from limner.systems.classic.strings import StringKernel

    return StringKernel(length=1, weights=weights)


def trigrams(*, weights: str) -> object:
    """The string kernel of up to three words."""
    from limner.systems.classic.strings import StringKernel

    return StringKernel(length=3, weights=weights)


def documents_of(collection: Collection) -> list[list[str]]:
    """The captions of each image, in the order of the images; images without captions are refused."""
    pairs = collection.judgements.relevant.restrict(candidates=collection.texts.ids)
    values = collection.texts.values
    captions_of: list[list[str]] = [[] for _ in range(len(collection.images))]
    for row, column in zip(pairs.rows, pairs.columns, strict=True):
        captions_of[row].append(values[column])
    alone = [collection.images.ids[row] for row, texts in enumerate(captions_of) if not texts]
    if alone:
        raise LimnerError(
            f"{len(alone)} images of {collection.name!r} have no text, e.g. {alone[0]!r}: expected at least one "
            f"per image; leave those images out with collection.restrict"
        )
    return captions_of


def refuse_few(collection: Collection) -> None:
    """Refuses a collection that is too small."""
    if len(collection.images) < 5:
        raise LimnerError(
            f"{collection.name!r} has {len(collection.images)} training images: expected at least 5 with texts"
        )


def text_kernel(kernel: object, weights: str | None = None, *, usual: str = "root idf") -> Any:
    """A text kernel by name with the given or default word weights; or the kernel itself."""
    if not isinstance(kernel, str):
        if weights is not None:
            raise LimnerError(f"weights={weights!r} with a kernel object: set them in the kernel")
        return kernel
    factory = TEXTS.find(kernel)
    weighted = "weights" in inspect.signature(factory).parameters
    if weights is not None and not weighted:
        raise LimnerError(f"weights={weights!r} for the text kernel {kernel!r}, which has no weights: leave them out")
    return factory(weights=weights or usual) if weighted else factory()


def image_kernel(kernel: object, options: Mapping[str, Any], *, features: bool) -> object:
    """An image kernel by name with its options, or the kernel itself."""
    if not isinstance(kernel, str):
        return kernel
    if kernel in KINDS:
        if not features:
            raise LimnerError(f"the image kernel {kernel!r} compares rows of features: give features=, or use pyramid")
        return Features(kernel)
    if kernel in ("pyramid", "histogram"):
        return Pyramid(levels=3 if kernel == "pyramid" else 1, **options)
    return IMAGES.find(kernel)()


def image_features(kernel: object, items: Items, source: FeatureSource, *, progress: ProgressLike = None) -> Any:
    """The input of a fitted image kernel: given features, in the order of the items, or computed ones."""
    if isinstance(source, (str, Path)):
        source = read_features(source)
    if source is not None:
        vectors = source.subset(items.ids)
        return vectors.matrix if isinstance(vectors, Embeddings) else vectors
    return kernel.features(items, progress=progress) if isinstance(kernel, Featured) else items


def features_file(source: FeatureSource) -> str | None:
    """The file of features that a model stores, so that features of other images can be looked up in it."""
    return str(Path(source).resolve()) if isinstance(source, (str, Path)) else None


def usable(features: FeatureSource, remembered: str | None, items: Items) -> FeatureSource:
    """The given features; otherwise the file that the model was trained on, if it contains these images too."""
    if features is not None or remembered is None or not Path(remembered).is_file():
        return features
    stored = read_features(remembered)
    return stored if (stored.ids.find(items.ids) >= 0).all() else None


def fit_images(kernel: Any, collection: Collection, features: FeatureSource, *, progress: Progress) -> Any:
    """An image kernel fitted to training images, or to their features."""
    if features is not None:
        return kernel.fit(image_features(kernel, collection.images, features))
    return kernel.fit(collection.images, **progress_for(kernel.fit, progress))


def read_features(path: str | Path) -> Embeddings | WordHistograms:
    """Reads a file of embeddings, or of histograms of visual words."""
    if Path(path).suffix == ".safetensors":
        from safetensors import safe_open

        refuse_irregular(path, what="features")
        with damage_told(path, what="safetensors file"), safe_open(path, framework="numpy") as archive:
            about = archive.metadata() or {}
        if "limner" in about:
            return WordHistograms.load(path)[0]
    return Embeddings.load(path)
