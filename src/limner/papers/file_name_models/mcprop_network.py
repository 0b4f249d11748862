"""The network of MCProp: transformer heads over a text backbone, and the fusion of a file name and an image."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from limner.core.arrays import IntArray
from limner.core.collection import Collection
from limner.core.errors import LimnerError, UnknownName
from limner.datasets.wikipedia import image_names
from limner.encoders.opening import Source
from limner.papers.file_name_models.text_readers import Read, Seeing, States, TextReader
from limner.systems.towers.branches import Vectors
from limner.systems.towers.settings import (
    refuse_below,
)

OWN, LEARNED = "own", "learned"


@dataclass(frozen=True, kw_only=True)
class Heads:
    """The heads.

    Args:
        hidden_dim: Dimension of the heads and of the joint space.
        layers: Number of layers of each transformer head.
        heads: Number of attention heads.
        dropout: Dropout rate in training.
        fusion: "attentive", "concat", "text" (file name only) or "image".
        first: The token whose output is the vector of a text: "own" for the backbone's first token if it has one, such
            as `[CLS]`, or "learned" for a token that is trained with the heads.
    """

    hidden_dim: int = 256
    layers: int = 2
    heads: int = 4
    dropout: float = 0.1
    fusion: str = "attentive"
    first: str = OWN

    def __post_init__(self) -> None:
        """Checks the values."""
        refuse_below(self, 1, "hidden_dim", "layers", "heads")
        if self.hidden_dim % self.heads:
            raise LimnerError(
                f"hidden_dim={self.hidden_dim} with heads={self.heads}: expected a multiple of the number of heads"
            )
        if self.first not in (OWN, LEARNED):
            raise UnknownName("first token", self.first, (OWN, LEARNED))


class Head(nn.Module):
    """A transformer encoder over the states of a text; its first output token is the vector of the text."""

    def __init__(self, reader: TextReader, shape: Heads) -> None:
        super().__init__()
        self.see = Seeing(reader, shape.hidden_dim)
        has_own = reader.has_first and shape.first == OWN
        self.first = None if has_own else nn.Parameter(torch.randn(shape.hidden_dim) * 0.02)
        self.places = nn.Parameter(torch.randn(reader.max_tokens + 2, shape.hidden_dim) * 0.02)
        layer = nn.TransformerEncoderLayer(
            shape.hidden_dim,
            shape.heads,
            2 * shape.hidden_dim,
            shape.dropout,
            "gelu",
            batch_first=True,
            norm_first=True,
        )
        self.encoder = nn.TransformerEncoder(
            layer, shape.layers, norm=nn.LayerNorm(shape.hidden_dim), enable_nested_tensor=False
        )

    def forward(self, states: Tensor, read: Read) -> Tensor:
        """Vectors of a batch of texts; the backbone's sentence vector, if it has one, comes first."""
        tokens, pooled = self.see(states, read)
        if self.first is None:
            rows = tokens + self.places[: tokens.shape[1]]
            encoded: Tensor = self.encoder(rows, src_key_padding_mask=~read.filled)[:, 0]
            return encoded
        first = self.first.expand(len(tokens), -1) if pooled is None else self.first + pooled
        rows = torch.cat([first[:, None], tokens], 1) + self.places[: tokens.shape[1] + 1]
        filled = read.filled
        mask = torch.cat([filled.new_ones(len(filled), 1), filled], 1)
        out: Tensor = self.encoder(rows, src_key_padding_mask=~mask)[:, 0]
        return out if pooled is None else out + pooled


class MCProp(nn.Module):
    """Both branches.

    Args:
        reader: The shared text backbone; frozen, so it is not part of the module.
        features: Dimension of the vectors.
        shape: Shape of the heads.
    """

    def __init__(self, reader: TextReader, features: int, shape: Heads) -> None:
        super().__init__()
        self.states = States(reader)
        self.names, self.captions = Head(reader, shape), Head(reader, shape)
        self.images = Vectors(features, shape.hidden_dim, dropout=shape.dropout)
        self.fusion = fusion(shape.fusion, shape.hidden_dim)

    def queries(self, names: Read, features: Tensor, reader: TextReader) -> Fused:
        """Fused queries."""
        fused: Fused = self.fusion(self.names(self.states(names, reader), names), self.images(features).whole)
        return fused

    def texts(self, captions: Read, reader: TextReader) -> Tensor:
        """Captions."""
        vectors: Tensor = self.captions(self.states(captions, reader), captions)
        return vectors


FUSIONS = ("attentive", "concat", "text", "image")


class Fused(NamedTuple):
    """The output of a fusion for a batch.

    Args:
        query: One vector per query.
        weights: Weights of text and image, queries by two.
    """

    query: Tensor
    weights: Tensor


class Attentive(nn.Module):
    """Weights for both parts, chosen for each query (Messina et al. 2022, after Hori et al. 2017).

    (a_u, a_v) = sigmoid(MLP([u, v])),   q = a_u u / |u| + a_v v / |v|

    The two weights need not sum to one, so the model can also scale the query.

    >>> with torch.random.fork_rng():
    ...     _ = torch.manual_seed(0)
    ...     fused = Attentive(3)(torch.ones(2, 3), torch.zeros(2, 3))
    >>> tuple(fused.query.shape), bool(((fused.weights > 0) & (fused.weights < 1)).all())
    ((2, 3), True)
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weigh = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Linear(width, 2))

    def forward(self, text: Tensor, image: Tensor) -> Fused:
        """Fuses a batch."""
        weights = torch.sigmoid(self.weigh(torch.cat([text, image], -1)))
        parts = torch.stack([normalize(text, dim=-1), normalize(image, dim=-1)], 1)
        return Fused((weights[..., None] * parts).sum(1), weights)


class Concatenation(nn.Module):
    """Concatenation with one linear map for all queries: q = W [u / |u|, v / |v|] + b."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.map = nn.Linear(2 * width, width)

    def forward(self, text: Tensor, image: Tensor) -> Fused:
        """Fuses a batch; both parts always have weight 1."""
        joined = torch.cat([normalize(text, dim=-1), normalize(image, dim=-1)], -1)
        return Fused(self.map(joined), torch.ones(len(text), 2, device=text.device))


class One(nn.Module):
    """A single part: q = u, or q = v.

    >>> One(0)(torch.tensor([[3.0, 4.0]]), torch.zeros(1, 2)).query.tolist()
    [[3.0, 4.0]]
    """

    def __init__(self, part: int) -> None:
        super().__init__()
        self.which = part

    def forward(self, text: Tensor, image: Tensor) -> Fused:
        """Takes the part."""
        weights = torch.zeros(len(text), 2, device=text.device)
        weights[:, self.which] = 1
        return Fused((text, image)[self.which], weights)


def fusion(name: str, width: int) -> nn.Module:
    """A fusion by name: "attentive", "concat", "text" or "image".

    >>> type(fusion("concat", 4)).__name__
    'Concatenation'
    """
    if name not in FUSIONS:
        raise UnknownName("fusion", name, FUSIONS)
    if name in ("text", "image"):
        return One(FUSIONS.index(name) - 2)
    return Attentive(width) if name == "attentive" else Concatenation(width)


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
