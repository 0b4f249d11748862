"""Settings of a training run: frozen dataclasses, with the same names as keywords, in TOML and at the shell.

`built` makes the module of a tower model from them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from torch import Tensor

from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError, UnknownName
from limner.core.model_store import Content
from limner.core.registry import checked, takes
from limner.encoders import TwoSided
from limner.encoders.opening import VectorSource
from limner.systems.towers import losses
from limner.systems.towers.branches import Unfrozen, Vectors, Words
from limner.systems.towers.logs import TRACKERS
from limner.systems.towers.models import AttentionHeads, Joint, ManyVectors, Probabilistic, TwoTowers

if TYPE_CHECKING:
    from limner.encoders.torch_encoders import TorchEncoder

Kind = TypeVar("Kind")
PRECISIONS = ("float32", "bfloat16")
"""float16 is not offered, since it would need gradient scaling."""
OPTIMIZERS = ("adam", "adamp")
SCHEDULES = ("step", "cosine")


@dataclass(frozen=True, kw_only=True)
class Training:
    """Training settings of any run.

    Args:
        epochs: Passes over the pairs.
        batch_size: Pairs per step, over all processes.
        learning_rate: Initial learning rate of Adam.
        optimizer: "adam", or "adamp" (Heo et al. 2021).
        schedule: "step" multiplies the learning rate by `lr_decay` every `lr_decay_every` epochs, "cosine" decays it to
            0 along half a cosine over all epochs.
        lr_decay: Factor of the learning rate for the schedule "step".
        lr_decay_every: Number of epochs between two decays.
        weight_decay: L2 penalty on the weights.
        max_grad_norm: Gradients are clipped to this norm; None for no clipping.
        patience: Stop early after this many epochs without a better dev value; None to never stop early.
        seed: Seed of the initial weights, the order of the pairs, and sampling.
        device: "auto" (a GPU if there is one), "cpu", "cuda", "cuda:1", ...
        precision: "float32", or "bfloat16" for mixed precision (float32 weights, bfloat16 matrix products).
        checkpoint_dir: Folder for checkpoints and logs; None writes none. A checkpoint found there is resumed.
        checkpoint_every: Also write a checkpoint every this many steps; None for the end of each epoch only.
        tensorboard: Whether to write a TensorBoard log next to the CSV log.
        track: Log every epoch to "wandb", "mlflow" or "trackio" too; "none" by default.
    """

    epochs: int = 30
    batch_size: int = 128
    learning_rate: float = 1e-3
    optimizer: str = "adam"
    schedule: str = "step"
    lr_decay: float = 0.1
    lr_decay_every: int = 10
    weight_decay: float = 0.0
    max_grad_norm: float | None = None
    patience: int | None = None
    seed: int = 0
    device: str = "auto"
    precision: str = "float32"
    checkpoint_dir: str | None = None
    checkpoint_every: int | None = None
    tensorboard: bool = True
    track: str = "none"

    def __post_init__(self) -> None:
        """Checks the values."""
        refuse_below(self, 1, "epochs", "batch_size", "lr_decay_every", "patience", "checkpoint_every")
        refuse_below(self, 0, "weight_decay", "seed")
        for name in ("learning_rate", "lr_decay", "max_grad_norm"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise LimnerError(f"{name}={value}: expected a number above 0")
        for name, allowed in (
            ("precision", PRECISIONS), ("optimizer", OPTIMIZERS), ("schedule", SCHEDULES), ("track", TRACKERS),
        ):  # fmt: skip
            if getattr(self, name) not in allowed:
                raise UnknownName(name, getattr(self, name), allowed)

    def rate_at(self, epoch: int) -> float:
        """The learning rate of an epoch; epochs are counted from 0.

        >>> Training(learning_rate=0.001).rate_at(9), round(Training(learning_rate=0.001).rate_at(10), 6)
        (0.001, 0.0001)
        >>> [round(Training(learning_rate=1.0, epochs=4, schedule="cosine").rate_at(epoch), 3) for epoch in range(4)]
        [1.0, 0.854, 0.5, 0.146]
        """
        if self.schedule == "cosine":
            return self.learning_rate * (1 + math.cos(math.pi * min(epoch / self.epochs, 1))) / 2
        return float(self.learning_rate * self.lr_decay ** (epoch // self.lr_decay_every))


CHANGEABLE = ("epochs", "patience", "device", "checkpoint_dir", "checkpoint_every", "tensorboard", "track")
"""Settings that may change when a run is resumed: they do not affect what a step computes."""


def refuse_below(settings: object, minimum: float, *names: str) -> None:
    """Refuses the first of these settings that is below the minimum; None is allowed."""
    for name in names:
        value = getattr(settings, name)
        if value is not None and not value >= minimum:
            raise LimnerError(f"{name}={value}: expected at least {minimum}")


def settings(kind: type[Kind], options: Mapping[str, object], *, owner: str) -> Kind:
    """Creates settings of a kind from named values; refuses unknown names and wrong types.

    Args:
        kind: A dataclass of settings.
        options: Values by name; missing ones have their defaults.
        owner: Whose options they are; used in messages only.

    >>> settings(Training, {"epochs": 3, "learning_rate": 1}, owner="towers").learning_rate
    1.0
    """
    return kind(**checked(kind, options, what=repr(owner), objects=False))


def split(
    options: Mapping[str, object], *kinds: type, owner: str, defaults: Mapping[str, object] = MappingProxyType({})
) -> list[Any]:
    """Settings of several kinds from one set of options: each takes the names it knows; unknown names are refused.

    Args:
        options: Values by name, as a user gave them.
        kinds: Dataclasses of settings.
        owner: Whose options they are; used in messages only.
        defaults: Default values that differ from those of the dataclasses.
    """

    @takes(*kinds)
    def together(**options: object) -> None: ...

    chosen = {**defaults, **checked(together, options, what=repr(owner), objects=False)}
    names = [{field.name for field in dataclasses.fields(kind)} & chosen.keys() for kind in kinds]
    return [kind(**{name: chosen[name] for name in each}) for kind, each in zip(kinds, names, strict=True)]


def continued(options: Content, fixed: Content, *, own_options: Sequence[str]) -> dict[str, object]:
    """The options of a training that starts from a trained model, with what that model fixes; refuses other values.

    >>> continued({"epochs": 2}, {"heads": 4}, own_options=["backbone"])
    {'heads': 4, 'epochs': 2}

    Args:
        options: The options given.
        fixed: Settings that determine the weights, as the initial model has them.
        own_options: Options whose part that model brings.
    """
    for name, value in fixed.items():
        if options.get(name, value) != value:
            raise LimnerError(f"{name}={options[name]!r} with init_from=: that model has {value!r}; leave it out")
    for name in own_options:
        if options.get(name) is not None:
            raise LimnerError(f"{name}= with init_from=: that model brings its own; leave it out")
    return {**fixed, **options}


def initial(model: object, kind: type[Kind]) -> Kind | None:
    """The trained model to start from: given as such, or read from its folder; None if there is none."""
    return model if model is None or isinstance(model, kind) else kind.load(model)  # type: ignore[attr-defined]


def refuse_other_size(size: int | None, expected: int | None) -> None:
    """Refuses image features of another size than those of the initial model."""
    if size != expected:
        raise LimnerError(f"the image features have {size} numbers: the model of init_from= expects {expected}")


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


VariantSettings = tuple[Any, ...]
"""The settings of a variant, in the order of `VARIANTS`."""


def built(
    variant: str,
    shape: Shape,
    variant_settings: VariantSettings,
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
