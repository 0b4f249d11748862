"""The network of MCProp: transformer heads over a text backbone, and the fusion of a file name and an image."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from limner.core.errors import LimnerError, UnknownName
from limner.papers.file_name_models.fusion import Fused, fusion
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
        own = reader.has_first and shape.first == OWN
        self.first = None if own else nn.Parameter(torch.randn(shape.hidden_dim) * 0.02)
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
        seen, whole = self.see(states, read)
        if self.first is None:
            rows = seen + self.places[: seen.shape[1]]
            own: Tensor = self.encoder(rows, src_key_padding_mask=~read.filled)[:, 0]
            return own
        first = self.first.expand(len(seen), -1) if whole is None else self.first + whole
        rows = torch.cat([first[:, None], seen], 1) + self.places[: seen.shape[1] + 1]
        filled = read.filled
        mask = torch.cat([filled.new_ones(len(filled), 1), filled], 1)
        out: Tensor = self.encoder(rows, src_key_padding_mask=~mask)[:, 0]
        return out if whole is None else out + whole


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
        found: Tensor = self.captions(self.states(captions, reader), captions)
        return found
