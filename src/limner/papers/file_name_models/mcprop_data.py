"""Images with file names, and captions, as tensors: the training data of MCProp and CRank."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from limner.core.arrays import IntArray
from limner.core.collection import Collection
from limner.core.errors import LimnerError
from limner.datasets.wikipedia import image_names
from limner.papers.file_name_models.text_readers import Read, TextReader
from limner.systems.sources import Source


@dataclass(frozen=True, eq=False)
class Data:
    """A collection as tensors.

    Args:
        collection: The collection.
        names: File names, tokenised.
        captions: The texts.
        features: One row per image.
        image_of: The image of each pair.
        text_of: The text of each pair.
        dev: The dev data.
    """

    collection: Collection
    names: Read
    captions: Read
    features: Tensor
    image_of: IntArray
    text_of: IntArray
    dev: Data | None = None

    @classmethod
    def of(
        cls, collection: Collection, reader: TextReader, features: Source, device: torch.device, dev: Data | None = None
    ) -> Data:
        """Reads a collection."""
        if len(collection.images) < 2 or not len(collection.judgements):
            raise LimnerError(
                f"{collection.name!r} has {len(collection.images)} images and {len(collection.judgements)} pairs: "
                "expected at least 2 images with texts"
            )
        pairs = collection.judgements.relevant.restrict(candidates=collection.texts.ids)
        rows = torch.from_numpy(np.array(features.vectors(collection.images), dtype=np.float32)).to(device)
        names, captions = reader.read(image_names(collection.images)), reader.read(collection.texts.values)
        return cls(collection, names, captions, rows, pairs.rows, pairs.columns, dev)

    def related(self, images: IntArray, texts: IntArray) -> npt.NDArray[np.bool_]:
        """Which of these images and texts match, images by texts."""
        keys = images[:, None] * len(self.captions) + texts[None, :]
        places = np.searchsorted(self._keys, keys).clip(max=len(self._keys) - 1)
        return np.asarray(self._keys[places] == keys)

    @cached_property
    def _keys(self) -> IntArray:
        return np.sort(self.image_of * len(self.captions) + self.text_of)
