"""Settings of a training run: frozen dataclasses, with the same names as keywords, in TOML and at the shell."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar

from limner.core.errors import LimnerError, UnknownName
from limner.core.registry import checked, takes
from limner.systems.towers.trackers import TRACKERS

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


def continued(options: Mapping[str, Any], fixed: Mapping[str, Any], *, own_options: Sequence[str]) -> dict[str, Any]:
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


def initial(model: Any, kind: Any) -> Any:
    """The trained model to start from: given as such, or read from its folder; None if there is none."""
    return model if model is None or isinstance(model, kind) else kind.load(model)


def refuse_other_size(size: int | None, expected: int | None) -> None:
    """Refuses image features of another size than those of the initial model."""
    if size != expected:
        raise LimnerError(f"the image features have {size} numbers: the model of init_from= expects {expected}")
