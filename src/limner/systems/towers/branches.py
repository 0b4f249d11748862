"""The branches of a tower model: a linear map of vectors, or a GRU or LSTM over words.

`Unfrozen` is an image branch whose encoder is trained too, for a second stage after one with frozen features.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from types import MappingProxyType
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence

from limner.core.collection import Items
from limner.core.errors import LimnerError, UnknownName
from limner.core.progress import ProgressLike, as_progress
from limner.encoders.opening import Source, StoredVectors
from limner.encoders.torch_encoders import TorchEncoder, ahead

POOLINGS = ("last", "mean", "max")
CELLS: Mapping[str, Callable[[int, int], nn.Module]] = MappingProxyType({"gru": nn.GRU, "lstm": nn.LSTM})
"""Recurrent layers by name."""


class BranchOutput(NamedTuple):
    """The output of a branch for a batch.

    Args:
        whole: One vector per item.
        parts: Vectors of its parts (the states of the GRU), items by parts by dimensions; None if there are none.
        filled: Mask of the parts, items by parts.
    """

    whole: Tensor
    parts: Tensor | None = None
    filled: Tensor | None = None


class Vectors(nn.Module):
    """Vectors of a frozen encoder, standardised and mapped by one linear layer.

    Args:
        dim: Dimension of the input.
        embedding_dim: Dimension of the output.
        dropout: Dropout rate in training.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, dim: int, embedding_dim: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("scale", torch.ones(dim))
        self.dropout = nn.Dropout(dropout)
        self.linear = nn.Linear(dim, embedding_dim)
        nn.init.xavier_uniform_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def standardise(self, rows: Tensor) -> None:
        """Learns the mean and standard deviation of each dimension; a constant dimension is left unchanged."""
        spread = rows.std(0)
        self.mean.copy_(rows.mean(0))
        self.scale.copy_(torch.where(spread > 1e-6, 1 / spread.clamp(min=1e-6), 1.0))

    def forward(self, rows: Tensor) -> BranchOutput:
        """Maps a batch of vectors."""
        return BranchOutput(self.linear(self.dropout((rows - self.mean) * self.scale)))


class Words(nn.Module):
    """Word vectors, a GRU or LSTM over them, and pooling of its states (Kiros et al. 2014; Liu & Ye 2019).

    Args:
        size: Vocabulary size, including the unknown word.
        word_dim: Dimension of the word vectors.
        hidden_dim: Dimension of the recurrent layer states.
        embedding_dim: Dimension of the output; if it differs from `hidden_dim`, a linear layer is added.
        cell: The recurrent layer, a key of `CELLS`.
        pooling: "last" state, "mean" or "max" of all states.
        dropout: Dropout rate of the word vectors.
        parts: Whether to return the states too.
    """

    def __init__(
        self,
        size: int,
        *,
        word_dim: int,
        hidden_dim: int,
        embedding_dim: int,
        cell: str = "gru",
        pooling: str = "last",
        dropout: float = 0.0,
        parts: bool = False,
    ) -> None:
        super().__init__()
        if pooling not in POOLINGS:
            raise UnknownName("pooling", pooling, POOLINGS)
        if cell not in CELLS:
            raise UnknownName("cell", cell, CELLS)
        self.pooling, self.parts = pooling, parts
        self.table = nn.Embedding(size, word_dim)
        self.dropout = nn.Dropout(dropout)
        self.gru = CELLS[cell](word_dim, hidden_dim)  # the name of its weights in saved models, whichever cell it is
        self.linear = nn.Linear(hidden_dim, embedding_dim) if hidden_dim != embedding_dim else nn.Identity()
        for weight in self.parameters():
            if weight.ndim == 2:
                nn.init.xavier_uniform_(weight)

    def forward(self, packed: PackedSequence) -> BranchOutput:
        """Encodes a batch of texts, sorted by length, longest first."""
        vectors = self.dropout(self.table(packed.data))
        states, last = self.gru(PackedSequence(vectors, packed.batch_sizes))
        final = last[0][0] if isinstance(last, tuple) else last[0]  # an LSTM also returns its cell state
        if self.pooling == "last" and not self.parts:
            return BranchOutput(self.linear(final))
        parts, filled = self._padded(states)
        pooled = final if self.pooling == "last" else self._pooled(parts, filled)
        return BranchOutput(self.linear(pooled), parts, filled)

    def _padded(self, states: PackedSequence) -> tuple[Tensor, Tensor]:
        parts, lengths = pad_packed_sequence(states, batch_first=True)
        filled = torch.arange(parts.shape[1])[None, :] < lengths[:, None]
        return parts, filled.to(parts.device)

    def _pooled(self, parts: Tensor, filled: Tensor) -> Tensor:
        if self.pooling == "mean":
            return parts.sum(1) / filled.sum(1, keepdim=True)
        return parts.masked_fill(~filled[..., None], -torch.inf).amax(1)


class Unfrozen(nn.Module):
    """An image encoder followed by `Vectors`, with all weights trained.

    The encoder is copied: the given one keeps its weights, and its cached vectors stay valid.

    Args:
        encoder: An image encoder that runs on torch.
        head: Maps its vectors to the joint space.
    """

    def __init__(self, encoder: TorchEncoder, head: Vectors) -> None:
        super().__init__()
        self.encoder = deepcopy(encoder)
        self.backbone: nn.Module = self.encoder.model  # type: ignore[attr-defined]  # of every trainable encoder
        self.head = head
        for weight in self.backbone.parameters():
            weight.requires_grad_(True)

    @property
    def linear(self) -> nn.Linear:
        """The linear layer of the head."""
        return self.head.linear

    def forward(self, pixels: Tensor) -> BranchOutput:
        """Encodes a batch of preprocessed images."""
        output: BranchOutput = self.head(self.encoder.image_vectors(pixels))
        return output


def trainable(features: Source | None) -> TorchEncoder:
    """The image encoder of a source, if its weights can be trained; refuses others."""
    vectors = features.encoder if isinstance(features, StoredVectors) else features
    encoder = None if vectors is None else vectors.encoder
    model = getattr(encoder, "model", None)
    if isinstance(encoder, TorchEncoder) and encoder.kinds == ("image",) and isinstance(model, nn.Module):
        return encoder
    name = "vectors from a file" if vectors is None else type(encoder).__name__
    raise LimnerError(
        f"unfreeze=True trains the image encoder, but the features are those of {name}: expected an image encoder that "
        "runs on torch, such as features='efficientnet-lite' or features='timm(model=NAME)'"
    )


def pixels_of(encoder: TorchEncoder, items: Items, progress: ProgressLike = None) -> Tensor:
    """All images as encoder input, in main memory (150 kB each for EfficientNet-Lite0)."""
    progress = as_progress(progress)
    batches = []
    for rows, pixels in ahead(items, encoder.pixels, batch=encoder.batch_size, shortest=encoder.shortest):
        batches.append(pixels)
        progress(int(rows[-1]) + 1, len(items))
    if not batches:
        raise LimnerError("there are no images to read: expected at least 1")
    return torch.cat(batches)


def unfrozen_state(module: nn.Module, frozen: dict[str, Tensor]) -> dict[str, Tensor]:
    """The weights of a model with frozen features, renamed to fit a model with an unfrozen encoder."""
    moved = {_moved(name): tensor for name, tensor in frozen.items()}
    backbone = {name: tensor for name, tensor in module.state_dict().items() if name.startswith("images.backbone.")}
    return {**backbone, **moved}


def _moved(name: str) -> str:
    return f"images.head.{name.removeprefix('images.')}" if name.startswith("images.") else name
