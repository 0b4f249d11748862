"""Pairs of images and texts as tensors on their device, split into batches that are the same on every machine.

Features and words are moved to the device once. The order depends only on seed and epoch; inside a batch, texts are
sorted by length, longest first, so that the GRU runs on a packed sequence without padding. `images_seen` and
`texts_seen` encode items with a trained module, in chunks, without gradients.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from limner.core.arrays import IntArray
from limner.core.collection import Collection
from limner.core.errors import LimnerError
from limner.core.ids import Ids
from limner.scores import VectorSets
from limner.systems.towers.distributed import Group, epoch_order
from limner.systems.towers.models import Compared, Joint
from limner.systems.towers.vocabulary import Tokens

Texts = Tokens | npt.NDArray[np.float32]


class TowersBatch(NamedTuple):
    """This process's share of a batch, and the positives of the whole batch."""

    images: Tensor
    texts: Tensor | PackedSequence
    positives: Tensor


@dataclass(frozen=True, eq=False)
class Packing:
    """A packed sequence: at step n, all texts that have an n-th word.

    Args:
        places: Positions of the words in the concatenated array.
        sizes: Number of texts with an n-th word.
    """

    places: IntArray
    sizes: IntArray

    @classmethod
    def of(cls, tokens: Tokens, rows: IntArray) -> Packing:
        """Packs these texts, longest first."""
        lengths = tokens.lengths[rows]
        reached = np.arange(lengths[0])[:, None] < lengths[None, :]
        step, column = np.nonzero(reached)
        return cls(tokens.starts[rows[column]] + step, reached.sum(axis=1))


class PairIndex:
    """Which images and texts of a collection match, as rows.

    Args:
        collection: The collection.
        device: Device of the tensors.
    """

    def __init__(self, collection: Collection, *, device: torch.device) -> None:
        judged = collection.judgements.relevant.restrict(candidates=collection.texts.ids)
        if len(collection.images) < 2 or not len(judged.rows):
            raise LimnerError(
                f"{collection.name!r} has {len(collection.images)} images and {len(judged.rows)} pairs to train on: "
                "expected at least 2 images with texts"
            )
        self.image_of, self.text_of = judged.rows, judged.columns
        self.device, self.width = device, len(collection.texts)

    def __len__(self) -> int:
        return len(self.image_of)

    def positives(self, images: Tensor, texts: Tensor) -> Tensor:
        """Which of these images and texts match, images by texts."""
        if self._one_image_each is not None:
            return images[:, None] == self._one_image_each[texts][None, :]
        keys = images[:, None] * self.width + texts[None, :]
        places = torch.searchsorted(self._keys, keys).clamp(max=len(self._keys) - 1)
        return self._keys[places] == keys

    @cached_property
    def _one_image_each(self) -> Tensor | None:
        """The image of each text, if no text has two images."""
        if len(np.unique(self.text_of)) < len(self.text_of):
            return None
        image = np.full(self.width, -1)
        image[self.text_of] = self.image_of
        return torch.from_numpy(image).to(self.device)

    @cached_property
    def _keys(self) -> Tensor:
        return torch.from_numpy(np.sort(self.image_of * self.width + self.text_of)).to(self.device)


class TrainingPairs(PairIndex):
    """The training pairs of a collection, with the inputs of a model.

    Args:
        collection: The collection.
        features: One row per image: its vector, or its pixels, which stay in main memory if a GPU has no room.
        texts: Tokens, or one row of numbers per text.
        device: Device of the tensors.
    """

    def __init__(self, collection: Collection, features: Tensor, texts: Texts, *, device: torch.device) -> None:
        super().__init__(collection, device=device)
        self.texts = texts
        self.features = features.to(device) if features.ndim == 2 or _fits(features, device) else features
        values = texts.flat if isinstance(texts, Tokens) else np.array(texts, dtype=np.float32)
        self.text_values = torch.from_numpy(values).to(device)

    def images(self, rows: Tensor) -> Tensor:
        """These images on the device."""
        return self.features[rows.to(self.features.device)].to(self.device)

    def rows(self, rows: IntArray) -> Tensor | PackedSequence:
        """These texts as input for a model; tokens must be sorted by length, longest first."""
        if not isinstance(self.texts, Tokens):
            return self.text_values[torch.from_numpy(rows).to(self.device)]
        packing = Packing.of(self.texts, rows)
        places = torch.from_numpy(packing.places).to(self.device)
        return PackedSequence(self.text_values[places], torch.from_numpy(packing.sizes))


@dataclass(frozen=True, eq=False)
class Batches:
    """The batches of every epoch; an incomplete last batch is dropped.

    Args:
        pairs: The pairs to draw from.
        size: Pairs per batch, over all processes.
        seed: Seed of the random order.
        group: The process group.
    """

    pairs: TrainingPairs
    size: int
    seed: int
    group: Group

    @property
    def count(self) -> int:
        """Number of batches in an epoch."""
        return len(self.pairs) // self._size

    @property
    def _size(self) -> int:
        return min(self.size, len(self.pairs) - len(self.pairs) % self.group.size)

    def epoch(self, number: int, start: int = 0) -> Iterator[TowersBatch]:
        """The batches of an epoch, starting with number `start`; the order is copied to the device once."""
        ordered_batches = self._order(number)
        images, texts = (
            torch.from_numpy(of[ordered_batches]).to(self.pairs.device)
            for of in (self.pairs.image_of, self.pairs.text_of)
        )
        share = self.group.share(self._size)
        readers = self._readers(self.pairs.text_of[ordered_batches[start:, share]])
        for number, read in enumerate(readers, start=start):
            features = self.pairs.images(images[number, share])
            yield TowersBatch(features, read, self.pairs.positives(images[number], texts[number]))

    def _order(self, epoch: int) -> IntArray:
        """Batches by pairs; in each process's share, texts are sorted by length, longest first."""
        order = epoch_order(len(self.pairs), seed=self.seed, epoch=epoch)[: self.count * self._size]
        batches = order.reshape(self.count, self._size)
        if not isinstance(self.pairs.texts, Tokens):
            return batches
        shares = batches.reshape(self.count, self.group.size, -1)
        lengths = self.pairs.texts.lengths[self.pairs.text_of[shares]]
        longest_first = np.argsort(-lengths, axis=2, kind="stable")
        return np.take_along_axis(shares, longest_first, axis=2).reshape(self.count, -1)

    def _readers(self, rows: IntArray) -> Iterator[Tensor | PackedSequence]:
        """The texts of each batch; the positions of all words are sent to the device at once."""
        if not isinstance(self.pairs.texts, Tokens):
            yield from (self.pairs.text_values[each] for each in torch.from_numpy(rows).to(self.pairs.device))
            return
        packings = [Packing.of(self.pairs.texts, each) for each in rows]
        places = torch.from_numpy(np.concatenate([p.places for p in packings])).to(self.pairs.device)
        for packing, part in zip(packings, torch.split(places, [len(p.places) for p in packings]), strict=True):
            yield PackedSequence(self.pairs.text_values[part], torch.from_numpy(packing.sizes))


def _fits(features: Tensor, device: torch.device) -> bool:
    """Whether a device has room for all pixels at once: they may take a quarter of what is free on a GPU."""
    return device.type == "cuda" and 4 * features.nbytes <= torch.cuda.mem_get_info(device)[0]


_AT_ONCE = 1024
_PIXELS_AT_ONCE = 64


def images_seen(module: Joint, features: Tensor) -> Compared:
    """Images in the joint space.

    Args:
        module: A model of `limner.systems.towers.models`.
        features: One row per image, its vector or its pixels, on any device.
    """
    device, at_once = device_of(module), _AT_ONCE if features.ndim == 2 else _PIXELS_AT_ONCE
    with torch.inference_mode():
        pieces = [module.image_vectors(piece.to(device)) for piece in torch.split(features, at_once)]
    return _joined(pieces)


def texts_seen(module: Joint, texts: Texts) -> Compared:
    """Texts in the joint space, in the order they were given.

    Args:
        module: A model of `limner.systems.towers.models`.
        texts: Tokens, or one row of numbers per text.
    """
    if not len(texts):
        raise LimnerError("no texts to encode: expected at least one")
    device = device_of(module)
    if not isinstance(texts, Tokens):
        rows = torch.from_numpy(np.array(texts, dtype=np.float32))
        with torch.inference_mode():
            return _joined([module.text_vectors(piece.to(device)) for piece in torch.split(rows, _AT_ONCE)])
    order = np.argsort(-texts.lengths, kind="stable")
    back = torch.from_numpy(np.argsort(order, kind="stable")).to(device)
    with torch.inference_mode():
        pieces = [module.text_vectors(_packed(texts, rows, device)) for rows in _pieces(order)]
    return tuple(tensor[back] for tensor in _joined(pieces))


def as_array(tensor: Tensor) -> npt.NDArray[np.float32]:
    """The values of a tensor as an array."""
    return np.asarray(tensor.detach().float().cpu().numpy())


def as_sets(ids: Ids, vectors: Tensor) -> VectorSets:
    """Vectors (items by vectors by dimensions) as sets."""
    several = vectors if vectors.ndim == 3 else vectors[:, None]
    return VectorSets.of(dict(zip(ids, as_array(several), strict=True)))


def device_of(module: nn.Module) -> torch.device:
    """The device of a module."""
    return next(module.parameters()).device


def _pieces(order: np.ndarray) -> list[np.ndarray]:
    return np.split(order, range(_AT_ONCE, len(order), _AT_ONCE))


def _packed(texts: Tokens, rows: np.ndarray, device: torch.device) -> PackedSequence:
    packing = Packing.of(texts, rows)
    return PackedSequence(torch.from_numpy(texts.flat[packing.places]).to(device), torch.from_numpy(packing.sizes))


def _joined(pieces: list[Compared]) -> Compared:
    return tuple(torch.cat(each) for each in zip(*pieces, strict=True))
