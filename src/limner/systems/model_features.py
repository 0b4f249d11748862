"""Image features for models that were trained on features."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from limner.core.errors import LimnerError
from limner.core.progress import ProgressLike, progress_for

if TYPE_CHECKING:
    from limner.core.collection import Items
    from limner.core.embeddings import Embeddings


def accepts(function: Any, parameter: str) -> bool:
    """Whether a function accepts a parameter, by name or through **options.

    >>> accepts(lambda features: 1, "features"), accepts(lambda: 1, "features"), accepts(None, "features")
    (True, False, False)
    """
    if function is None:
        return False
    parameters = inspect.signature(function).parameters
    return parameter in parameters or any(each.kind is each.VAR_KEYWORD for each in parameters.values())


def with_features(model: object, features: object) -> Any:
    """A model that encodes images from these features; the model itself without features."""
    return model if features is None else FeatureModel(model, features)


@dataclass(frozen=True, eq=False)
class FeatureModel:
    """A model that was trained on image features, together with the features of the images to encode.

    Args:
        model: The model; everything except image encoding is delegated to it.
        features: Vectors of the images, their file, or the encoder that computes them.
    """

    model: Any
    features: Any

    def __post_init__(self) -> None:
        """Refuses a model that computes its own features."""
        if not accepts(getattr(self.model, "encode_images", None), "features"):
            raise LimnerError(
                f"features for a {type(self.model).__name__}: they are for a model with one space for images and texts "
                "that was trained on features; leave them out"
            )

    def encode_images(self, items: Items, /, *, progress: ProgressLike = None) -> Embeddings:
        """Images in the joint space, encoded from their features."""
        encode = self.model.encode_images
        embeddings: Embeddings = encode(items, features=self.features, **progress_for(encode, progress))
        return embeddings

    def encode_texts(self, items: Items, /, *, progress: ProgressLike = None) -> Embeddings:
        """Texts in the joint space."""
        encode = self.model.encode_texts
        embeddings: Embeddings = encode(items, **progress_for(encode, progress))
        return embeddings

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):  # pickle looks these up before there is a model
            raise AttributeError(name)
        return getattr(self.model, name)
