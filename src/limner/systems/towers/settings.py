"""Settings of a training run: a frozen set of named values, the same names as keywords, in TOML and at the shell."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from limner.core.errors import LimnerError, UnknownName
from limner.core.registry import checked, takes

Kind = TypeVar("Kind")
PRECISIONS = ("float32", "bfloat16")
"""Half precision proper would need its gradients scaled."""
OPTIMIZERS = ("adam", "adamp")
SCHEDULES = ("step", "cosine")


@dataclass(frozen=True, kw_only=True)
class Training:
    """How a run learns, whatever it learns.

    Args:
        epochs: Passes over the pairs.
        batch: Pairs in a step, over all processes.
        rate: Step size of Adam at the start.
        optimizer: "adam", or "adamp" (Heo et al. 2021).
        schedule: Of the rate: "step" multiplies it by `decay` after every `decay_every` epochs, "cosine" lets it fall
            to 0 along half a cosine over all epochs.
        decay: What the rate is multiplied with...
        decay_every: ...after so many epochs.
        weight_decay: Share by which weights shrink, as a penalty in the loss (L2).
        clip: The gradient is scaled down to this length where it is longer; None leaves it.
        patience: Stops after so many epochs without a better dev value; None never stops early.
        seed: Of weights, order and noise.
        device: "auto" (a graphics card where there is one), "cpu", "cuda", "cuda:1", ...
        precision: "float32", or "bfloat16" for mixed precision: single weights, matrices multiplied in 16 bits.
        folder: Where checkpoints and logs are kept; None keeps nothing. A run goes on where the checkpoint there ends.
        every: Also keeps a checkpoint after so many steps; None only at the end of each epoch.
        tensorboard: Whether the folder gets a log for TensorBoard beside the CSV.
    """

    epochs: int = 30
    batch: int = 128
    rate: float = 1e-3
    optimizer: str = "adam"
    schedule: str = "step"
    decay: float = 0.1
    decay_every: int = 10
    weight_decay: float = 0.0
    clip: float | None = None
    patience: int | None = None
    seed: int = 0
    device: str = "auto"
    precision: str = "float32"
    folder: str | None = None
    every: int | None = None
    tensorboard: bool = True

    def __post_init__(self) -> None:
        """Refuses what cannot be trained with."""
        refuse_below(self, 1, "epochs", "batch", "decay_every", "patience", "every")
        refuse_below(self, 0, "weight_decay", "seed")
        for name in ("rate", "decay", "clip"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise LimnerError(f"{name}={value}: expected a number above 0")
        for name, known in (("precision", PRECISIONS), ("optimizer", OPTIMIZERS), ("schedule", SCHEDULES)):
            if getattr(self, name) not in known:
                raise UnknownName(name, getattr(self, name), known)

    def rate_at(self, epoch: int) -> float:
        """The step size in an epoch, counted from 0.

        >>> Training(rate=0.001).rate_at(9), round(Training(rate=0.001).rate_at(10), 6)
        (0.001, 0.0001)
        >>> [round(Training(rate=1.0, epochs=4, schedule="cosine").rate_at(epoch), 3) for epoch in range(4)]
        [1.0, 0.854, 0.5, 0.146]
        """
        if self.schedule == "cosine":
            return self.rate * (1 + math.cos(math.pi * min(epoch / self.epochs, 1))) / 2
        return float(self.rate * self.decay ** (epoch // self.decay_every))


CHANGEABLE = ("epochs", "patience", "device", "folder", "every", "tensorboard")
"""Settings that may change between the halves of a resumed run: they do not change what a step does."""


def refuse_below(settings: Any, least: float, *names: str) -> None:
    """Refuses the first of these settings that is below the least value; None is let through."""
    for name in names:
        value = getattr(settings, name)
        if value is not None and not value >= least:
            raise LimnerError(f"{name}={value}: expected at least {least}")


def settings(kind: type[Kind], options: Mapping[str, Any], *, what: str) -> Kind:
    """Settings of a kind from named values; refuses unknown names and wrong types.

    Args:
        kind: A dataclass of settings.
        options: Values by name; what is not there has its default.
        what: Whose options they are; used in messages only.

    >>> settings(Training, {"epochs": 3, "rate": 1}, what="towers").rate
    1.0
    """
    return kind(**checked(kind, options, what=repr(what), objects=False))


def split(options: Mapping[str, Any], *kinds: type, what: str) -> list[Any]:
    """Settings of several kinds from one set of options: each takes the names it knows, none may be left over."""

    @takes(*kinds)
    def together(**options: Any) -> None: ...

    chosen = checked(together, options, what=repr(what), objects=False)
    names = [{field.name for field in dataclasses.fields(kind)} & chosen.keys() for kind in kinds]
    return [kind(**{name: chosen[name] for name in each}) for kind, each in zip(kinds, names, strict=True)]
