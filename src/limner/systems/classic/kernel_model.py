"""The base class of models with two kernels: kernels, training items, saving and loading."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from limner.core import model_store
from limner.core.arrays import Array
from limner.core.collection import Items
from limner.core.errors import LimnerError
from limner.core.ids import Ids
from limner.core.model_store import pack
from limner.core.options import checked
from limner.core.paths import damage_told
from limner.core.progress import ProgressLike
from limner.core.registry import Registry
from limner.encoders.contract import digest
from limner.systems.classic.histograms import WordHistograms
from limner.systems.classic.kernels import FittedFeatures, FittedPyramid
from limner.systems.classic.pairs import Documents, FeatureSource, image_features, usable
from limner.systems.trained_on import TrainedOn, saved_record

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
    image_kernel: Any
    text_kernel: Any
    images: Any
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
            self.image_kernel.features(self.images)
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


def kernel_state(kernel: Any) -> dict[str, object]:
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


def features_from(saved: Mapping[str, Any]) -> object:
    """The inverse of `features_state`."""
    if "counts" in saved:
        return WordHistograms(Ids(saved["ids"], what="image"), saved["counts"])
    return saved["matrix"]
