"""Encodes items with a trained module, in chunks, without gradients."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from limner.core.errors import LimnerError
from limner.core.ids import Ids
from limner.scores import VectorSets
from limner.systems.towers.data import Packing, Texts
from limner.systems.towers.models import Compared, Joint
from limner.systems.towers.vocabulary import Tokens

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
