"""The base class of models with two kernels: kernels, training items, saving and loading.

The captions of a training image are one document.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Self, TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from limner.core import model_store
from limner.core.arrays import Array
from limner.core.collection import Collection, Items
from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError
from limner.core.ids import Ids
from limner.core.model_store import Content, pack
from limner.core.options import checked
from limner.core.paths import damage_told, refuse_irregular
from limner.core.progress import Progress, ProgressLike, progress_for
from limner.core.registry import Registry
from limner.encoders.contract import digest
from limner.systems.classic.kernels import (
    KINDS,
    Featured,
    Features,
    FittedFeatures,
    FittedKernel,
    FittedPyramid,
    Kernel,
    Pyramid,
)
from limner.systems.classic.visualwords import WordHistograms
from limner.systems.hold_out import TrainedOn, saved_record

Documents = Sequence[Sequence[str]]


class WordSampling(TypedDict):
    """How visual words are learned: options of `Pyramid`."""

    side: int
    points: int
    seed: int
    workers: int | None


FeatureSource = Embeddings | WordHistograms | str | Path | None
"""Features of images by id, in memory or in a file; None to compute them from the images."""

TEXTS: Registry[Callable[..., Kernel]] = Registry(
    "text kernel",
    {
        "bow": "limner.systems.classic.kernel_model:bow",
        "trigrams": "limner.systems.classic.kernel_model:trigrams",
        "tagrank": "limner.papers.tagrank:TagRank",
        "chunks": "limner.papers.chunk_kernel:chunk_kernel",
        "f1": "limner.systems.classic.strings:OverlapF1",
    },
)
"""Text kernels by name; "module:thing" names a custom one, or pass the kernel itself."""
IMAGES: Registry[Callable[..., Kernel]] = Registry(
    "image kernel",
    {
        "pyramid": "limner.systems.classic.kernels:Pyramid",
        "histogram": "limner.systems.classic.kernels:Pyramid",
        **dict.fromkeys(KINDS, "limner.systems.classic.kernels:Features"),
    },
)
"""Image kernels by name; the last three need features."""


def bow(*, weights: str) -> Kernel:
    """The bag of words: the string kernel of single words."""
    from limner.systems.classic.strings import StringKernel

    return StringKernel(length=1, weights=weights)


def trigrams(*, weights: str) -> Kernel:
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


def text_kernel(kernel: str | Kernel, weights: str | None = None, *, usual: str = "root idf") -> Kernel:
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


def image_kernel(kernel: str | Kernel, *, features: bool, **sampling: Unpack[WordSampling]) -> Kernel:
    """An image kernel by name with its options, or the kernel itself."""
    if not isinstance(kernel, str):
        return kernel
    if kernel in KINDS:
        if not features:
            raise LimnerError(f"the image kernel {kernel!r} compares rows of features: give features=, or use pyramid")
        return Features(kernel)
    if kernel in ("pyramid", "histogram"):
        return Pyramid(levels=3 if kernel == "pyramid" else 1, **sampling)
    return IMAGES.find(kernel)()


def image_features(kernel: object, items: Items, source: FeatureSource, *, progress: ProgressLike = None) -> Sized:
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


def fit_images(kernel: Kernel, collection: Collection, features: FeatureSource, *, progress: Progress) -> FittedKernel:
    """An image kernel fitted to training images, or to their features."""
    if features is not None:
        return kernel.fit(image_features(kernel, collection.images, features))
    fit: Callable[..., FittedKernel] = kernel.fit
    return fit(collection.images, **progress_for(fit, progress))


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


KERNELS: Registry[object] = Registry(
    "kernel",
    {
        place: place
        for place in (
            "limner.systems.classic.kernels:FittedPyramid",
            "limner.systems.classic.kernels:FittedFeatures",
            "limner.systems.classic.strings:FittedStringKernel",
            "limner.systems.classic.strings:FittedOverlapF1",
            "limner.papers.tagrank:FittedTagRank",
            "limner.papers.lexical_kernel:FittedLexicalKernel",
            "limner.papers.chunk_kernel:FittedChunkKernel",
        )
    },
)
"""Fitted kernels that a saved model may use, by name; your own kernels need `trust`."""


@dataclass(frozen=True, eq=False)
class KernelModel:
    """A fitted kernel of images, one of texts, and the training items. A subclass scores with them.

    Args:
        name: Name in reports.
        image_kernel: Fitted image kernel.
        text_kernel: Fitted text kernel.
        images: Features of the training images.
        documents: Captions of each training image.
        trained_on: The training items; None if unknown.
        features_file: The file of features that it was trained on, if any; it may contain new images too.
    """

    KIND: ClassVar[str]
    """The kind of model in the model store."""

    name: str
    image_kernel: FittedKernel
    text_kernel: FittedKernel
    images: Sized
    documents: Documents
    trained_on: TrainedOn | None = field(default=None, kw_only=True)
    features_file: str | None = field(default=None, kw_only=True)

    def image_rows(
        self, items: Items, *, features: FeatureSource = None, progress: ProgressLike = None
    ) -> npt.NDArray[np.float64]:
        """Similarities of images with every training image."""
        used = usable(features, self.features_file, items)
        rows = image_features(self.image_kernel, items, used, progress=progress)
        return np.asarray(self.image_kernel(rows, self.images))

    def text_rows(self, items: Items) -> npt.NDArray[np.float64]:
        """Similarities of texts, each treated as one document, with every training document."""
        return np.asarray(self.text_kernel([[text] for text in items.values], self.documents))

    @cached_property
    def fingerprint(self) -> str:
        """Identifies the model by its kernels, training items and learned parameters."""
        return _fingerprint(self.KIND, self._content())

    def save(self, path: str | Path) -> Path:
        """Writes the model as a folder, which `limner.systems.load` reads."""
        origin = {"features_file": self.features_file, **saved_record(self.trained_on)}
        return model_store.write(path, self.KIND, {**self._content(), **origin})

    @classmethod
    def load(cls, path: str | Path, *, trust: bool = False) -> Self:
        """Reads a saved model; with `trust`, also one with custom kernels or taggers."""
        content = model_store.read(path, cls.KIND).content
        with damage_told(path, what="saved model", mend="save it again"):
            image, text = (kernel_from(content[f"{s}_kernel"], trust=trust) for s in ("image", "text"))
            images = features_from(content["images"])
            values = {name: content.get(name) for name in ("name", "documents", "features_file")}
            values |= {"image_kernel": image, "text_kernel": text, "images": images, **cls._learned_from(content)}
            record = TrainedOn.from_content(content.get("trained_on"))
            model = cls(**checked(cls, {**values, "trained_on": record}, what=str(path)))
            model._refuse_misfit()
            return model

    def _refuse_misfit(self) -> None:
        """Refuses training images that the kernel cannot compare, or that are not those of the documents."""
        if isinstance(self.image_kernel, (FittedPyramid, FittedFeatures)):
            self.image_kernel.features(self.images)  # type: ignore[arg-type]  # they refuse others
        if len(self.images) != len(self.documents):
            raise LimnerError(f"{len(self.images)} images with {len(self.documents)} documents: expected as many")

    def _content(self) -> dict[str, object]:
        """The content of the model as plain values and arrays; a subclass adds its learned parameters."""
        return {
            "name": self.name,
            "image_kernel": kernel_state(self.image_kernel),
            "text_kernel": kernel_state(self.text_kernel),
            "images": features_state(self.images),
            "documents": [list(document) for document in self.documents],
        }

    @classmethod
    def _learned_from(cls, content: Mapping[str, object]) -> dict[str, object]:
        """The fields of a subclass, from the content of a saved model."""
        return {}


def _fingerprint(kind: str, content: Mapping[str, object]) -> str:
    """A hash of everything in a model except its name."""
    tensors: dict[str, Array] = {}
    described = json.dumps(pack({key: value for key, value in content.items() if key != "name"}, tensors, "model"))
    return f"{kind} {digest(described, *tensors.values())}"


def kernel_state(kernel: FittedKernel) -> dict[str, object]:
    """The state of a fitted kernel, with the name of its class."""
    return {"class": f"{type(kernel).__module__}:{type(kernel).__qualname__}", "state": kernel.state()}


def kernel_from(saved: Mapping[str, object], *, trust: bool) -> object:
    """Restores a fitted kernel from its `kernel_state`.

    Args:
        saved: The state, as read from a file.
        trust: Whether the file may name a custom kernel, or a kernel's custom tagger.
    """
    kind = KERNELS.find(str(saved["class"]), trusted=trust)
    if not hasattr(kind, "from_state"):
        raise LimnerError(f"{saved['class']} in a saved model is not a kernel: expected a class with from_state")
    options = {"trust": trust} if "trust" in inspect.signature(kind.from_state).parameters else {}
    return kind.from_state(saved["state"], **options)


def features_state(features: object) -> dict[str, object]:
    """The state of features: histograms, or a feature matrix."""
    if isinstance(features, WordHistograms):
        return {"ids": list(features.ids), "counts": dict(features.counts)}  # the kernel has the words
    return {"matrix": features}


def features_from(saved: Content) -> object:
    """The inverse of `features_state`."""
    if "counts" in saved:
        return WordHistograms(Ids(saved["ids"], what="image"), saved["counts"])
    return saved["matrix"]
