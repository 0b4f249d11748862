"""The structure of a tower model: its settings, and the module built from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from torch import Tensor

from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError
from limner.encoders import TwoSided
from limner.encoders.opening import VectorSource
from limner.systems.towers import losses
from limner.systems.towers.branches import Vectors, Words
from limner.systems.towers.models import AttentionHeads, Joint, ManyVectors, Probabilistic, TwoTowers
from limner.systems.towers.settings import refuse_below
from limner.systems.towers.unfrozen import Unfrozen

if TYPE_CHECKING:
    from limner.encoders.torch_encoders import TorchEncoder


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """The inputs.

    Args:
        features: Image features: `Embeddings`, their file, or an encoder; colours and shapes by default.
        texts: "gru" for a GRU over words that is trained too; or text vectors, given as for `features`.
        word_vectors: Initial word vectors (`Embeddings` with words as ids, or their file); random by default.
        min_count: Words that occur in fewer training texts are treated as unknown.
        max_tokens: Words per text; longer texts are truncated.
        name: Name of the system in reports.
        init_from: A trained model of the same variant, or its folder: training continues from its weights, with its
            vocabulary and sizes.
        unfreeze: Whether the image encoder is trained too. Usually the second of two stages: first train with frozen
            features, then continue from that model with a lower learning rate.
    """

    features: VectorSource | None = None
    texts: VectorSource = "gru"
    word_vectors: str | Path | Embeddings | None = None
    min_count: int = 2
    max_tokens: int = 64
    name: str | None = None
    init_from: str | Path | TwoSided | None = None
    unfreeze: bool = False

    def __post_init__(self) -> None:
        """Checks the values."""
        refuse_below(self, 1, "min_count", "max_tokens")
        if self.init_from is not None and self.word_vectors is not None:
            raise LimnerError(
                "word_vectors= with init_from=: that model has its own word vectors; leave one of the two out"
            )


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The sizes of the towers.

    Args:
        word_dim: Dimension of the word vectors.
        hidden_dim: Dimension of the recurrent layer states.
        embedding_dim: Dimension of the joint space.
        cell: The recurrent layer that reads words: "gru" or "lstm".
        pooling: Pooling of the states: "last", "mean" or "max".
        dropout: Dropout of the inputs, in training.
    """

    word_dim: int = 300
    hidden_dim: int = 1024
    embedding_dim: int = 1024
    cell: str = "gru"
    pooling: str = "last"
    dropout: float = 0.0

    def __post_init__(self) -> None:
        """Checks the values."""
        refuse_below(self, 1, "word_dim", "hidden_dim", "embedding_dim")
        if not 0 <= self.dropout < 1:
            raise LimnerError(f"dropout={self.dropout}: expected a share from 0 to below 1")


@dataclass(frozen=True, kw_only=True)
class Margin:
    """The loss of towers and PVSE.

    Args:
        loss: A key of `limner.systems.LOSSES`, "module:function", or a function.
        margin: The margin.
        k: Number of nearest negatives that "knn" uses (3 by default).
    """

    loss: str | Callable[..., Tensor] = "adaptive"
    margin: float = losses.MARGIN
    k: int | None = None

    def __post_init__(self) -> None:
        """Refuses an option that the loss does not have."""
        if self.loss == "adaptive" and self.k is not None:
            raise LimnerError(f"k={self.k}: loss 'adaptive' chooses k itself; for a fixed k, give loss='knn' too")
        self.function()

    def function(self) -> Callable[..., Tensor]:
        """The loss with its options set."""
        if self.k is None:
            return losses.loss(self.loss, margin=self.margin)
        return losses.loss(self.loss, margin=self.margin, k=self.k)


@dataclass(frozen=True, kw_only=True)
class Several:
    """The additional settings of PVSE.

    Args:
        heads: Vectors per item.
        diversity: Weight of the similarity of the views of an item.
        discrepancy: Weight of the distance between the distributions of images and texts.
    """

    heads: int = 2
    diversity: float = 0.1
    discrepancy: float = 0.01

    def __post_init__(self) -> None:
        """Checks the values."""
        refuse_below(self, 1, "heads")
        refuse_below(self, 0, "diversity", "discrepancy")


@dataclass(frozen=True, kw_only=True)
class Uncertain:
    """The additional settings of PCME.

    Args:
        samples: Samples of each item, in training and for matching probabilities.
        kl: Weight of the divergence from the unit normal.
    """

    samples: int = 7
    kl: float = 1e-4

    def __post_init__(self) -> None:
        """Checks the values."""
        refuse_below(self, 1, "samples")
        refuse_below(self, 0, "kl")


VARIANTS: Mapping[str, tuple[type, ...]] = MappingProxyType(
    {"towers": (Margin,), "pvse": (Margin, Several), "pcme": (Uncertain,)}
)
"""The variants of tower models, and the settings of each in addition to `Inputs`, `Shape` and `Training`."""


def built(
    variant: str,
    shape: Shape,
    variant_settings: tuple[Any, ...],
    *,
    features: int,
    texts: int,
    reads: bool,
    encoder: TorchEncoder | None = None,
) -> Joint:
    """The module of a variant, with weights drawn from the current seed.

    Args:
        variant: A key of `VARIANTS`.
        shape: Sizes.
        variant_settings: The variant's own settings, in the order of `VARIANTS`.
        features: Dimension of the image vectors.
        texts: Vocabulary size, or dimension of the text vectors.
        reads: Whether texts are encoded by a GRU.
        encoder: The image encoder, if it is trained too.
    """
    head = Vectors(features, shape.embedding_dim, dropout=shape.dropout)
    images = head if encoder is None else Unfrozen(encoder, head)
    side = (
        _reader(shape, texts, parts=variant == "pvse")
        if reads
        else Vectors(texts, shape.embedding_dim, dropout=shape.dropout)
    )
    if variant == "towers":
        return TwoTowers(images, side, variant_settings[0].function())
    if variant == "pcme":
        return Probabilistic(
            images,
            side,
            embedding_dim=shape.embedding_dim,
            samples=variant_settings[0].samples,
            kl=variant_settings[0].kl,
        )
    several = variant_settings[1]
    heads = tuple(
        AttentionHeads(shape.embedding_dim, several.heads, parts=parts)
        for parts in (None, shape.hidden_dim if reads else None)
    )
    weights = {"diversity": several.diversity, "discrepancy": several.discrepancy}
    return ManyVectors(images, side, variant_settings[0].function(), heads=(heads[0], heads[1]), **weights)


def _reader(shape: Shape, size: int, *, parts: bool) -> Words:
    sizes = {"word_dim": shape.word_dim, "hidden_dim": shape.hidden_dim, "embedding_dim": shape.embedding_dim}
    return Words(size, **sizes, cell=shape.cell, pooling=shape.pooling, dropout=shape.dropout, parts=parts)
