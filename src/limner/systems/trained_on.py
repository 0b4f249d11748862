"""The training items of a model, stored with it, so that it is never evaluated on them.

Images and captions are stored as 8-byte hashes: they are small and do not reveal the training data.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from limner.core.collection import Collection

Hashes = npt.NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class TrainedOn:
    """The training items of a model.

    Args:
        collection: Its name.
        images: Hashes of the ids of its images, sorted.
        texts: Hashes of its captions, sorted.
    """

    collection: str
    images: Hashes
    texts: Hashes

    @classmethod
    def of(cls, collection: Collection) -> TrainedOn:
        """The record of a training collection."""
        texts = np.unique(_hashed(collection.texts.values))
        return cls(collection.name, np.unique(_hashed(collection.images.ids)), texts)

    def joined(self, earlier: TrainedOn | None) -> TrainedOn:
        """The union of both records, for a model that was trained further on new items."""
        if earlier is None:
            return self
        images, texts = np.union1d(self.images, earlier.images), np.union1d(self.texts, earlier.texts)
        return TrainedOn(f"{earlier.collection} + {self.collection}", images, texts)

    def saw(self, collection: Collection) -> npt.NDArray[np.bool_]:
        """Which images of a collection were trained on.

        An id alone is not enough: two folders may both contain IMG_0001.jpg. An image is recognised by its id and one
        of its captions; without captions, by its id.
        """
        is_trained = np.isin(_hashed(collection.images.ids), self.images)
        if not is_trained.any():
            return is_trained
        pairs = collection.judgements.relevant.restrict(candidates=collection.texts.ids)
        captions = np.isin(_hashed(collection.texts.values), self.texts)[pairs.columns]
        counts = np.bincount(pairs.rows, minlength=len(is_trained))
        shared = np.bincount(pairs.rows, weights=captions, minlength=len(is_trained))
        return np.asarray(is_trained & ((counts == 0) | (shared > 0)))

    def content(self) -> dict[str, object]:
        """The record as stored in a saved model."""
        counts = {"images": len(self.images), "texts": len(self.texts)}
        hashes = {"images": self.images.view(np.int64), "texts": self.texts.view(np.int64)}
        return {"collection": self.collection, **counts, "hashes": hashes}

    @classmethod
    def from_content(cls, content: Mapping[str, Any] | None) -> TrainedOn | None:
        """Reads what `content` wrote; None for a model without a record."""
        if content is None:
            return None
        images, texts = (np.asarray(content["hashes"][side]).view(np.uint64) for side in ("images", "texts"))
        return cls(str(content["collection"]), images, texts)


def _hashed(values: Iterable[str]) -> Hashes:
    digests = (hashlib.blake2b(str(value).encode(), digest_size=8).digest() for value in values)
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


def saved_record(record: TrainedOn | None) -> dict[str, object]:
    """The part of a saved model's content with its training items; empty if they are unknown."""
    return {} if record is None else {"trained_on": record.content()}
