"""The trainer: Adam with learning rate decay, early stopping, checkpoints and logs.

It is independent of images and texts. A `Task` provides batches, the loss of a batch, and metrics after each epoch; the
best epoch by one of these is kept. With a folder, an interrupted run continues with bit-identical results: weights,
optimizer moments, random states, the position in the epoch, and the best weights so far are all in the checkpoint.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from limner.core.collection import Collection
from limner.core.errors import LimnerError
from limner.core.model_store import Content
from limner.core.progress import Progress, ProgressLike, as_progress
from limner.core.tensors import device_named
from limner.core.version import VERSION
from limner.systems.towers import checkpoints
from limner.systems.towers.adamp import AdamP
from limner.systems.towers.distributed import Group, joined, random_states, restore_random, seeded
from limner.systems.towers.logs import Live, Log, Row, open_tracker
from limner.systems.towers.settings import CHANGEABLE, Training

CHECKPOINT = "checkpoint.safetensors"


class Task(Protocol):
    """The task to learn.

    If it also has `settings`, a mapping of plain values, these must be the same when a run is resumed. If it has
    `decoupled` and that is true, weight decay is decoupled (AdamW: Loshchilov & Hutter 2017).
    """

    @property
    def module(self) -> nn.Module:
        """The module to train, already on its device."""

    @property
    def steps(self) -> int:
        """Number of batches in an epoch."""

    def batches(self, epoch: int, start: int) -> Iterator[Any]:
        """The batches of an epoch, starting with number `start`; the same on every call."""

    def loss(self, batch: Any) -> Tensor:
        """The loss value."""

    def measure(self) -> Mapping[str, float]:
        """Metrics of the current weights on held-out data; empty if there is none."""


@dataclass
class State:
    """The state of a run."""

    epoch: int = 0
    step: int = 0
    loss: Tensor = field(default_factory=lambda: torch.zeros(()))
    history: list[dict[str, float]] = field(default_factory=list)
    best: dict[str, Tensor] = field(default_factory=dict)
    best_epoch: int = 0
    best_value: float = -math.inf


@dataclass(frozen=True)
class Fitted:
    """The result of a run; the module has the best weights.

    Args:
        best_epoch: The epoch whose weights are kept, counted from 1.
        history: A row per epoch: epoch, steps, seconds, learning rate, loss and metrics.
        stopped: Whether it stopped before the last epoch.
        resumed: Number of epochs already done in the checkpoint.
    """

    best_epoch: int
    history: tuple[Row, ...]
    stopped: bool
    resumed: int = 0


def fit(
    task: Task,
    training: Training,
    *,
    criterion: str = "rsum",
    group: Group | None = None,
    progress: ProgressLike = None,
) -> Fitted:
    """Trains, and leaves the best weights in the task's module.

    Args:
        task: The task to learn.
        training: Training settings.
        criterion: The metric that selects the best epoch, higher is better; without it the last epoch is kept.
        group: The processes that train together; detected by default.
        progress: Called with (steps done, steps in total).
    """
    progress = as_progress(progress)
    group = group or joined(device_named(training.device))
    with seeded(training.seed + 1000 * group.rank):
        return _Run(task, training, criterion, group, progress).run()


def training_record(
    collection: Collection, dev: Collection | None, fitted: Fitted, measures: Sequence[str]
) -> dict[str, object]:
    """The training record of a saved model: data, duration, and results at the best epoch."""
    best = fitted.history[fitted.best_epoch - 1]
    return {
        "version": VERSION,
        "collection": collection.name,
        "images": len(collection.images),
        "texts": len(collection.texts),
        "dev": None if dev is None else dev.name,
        "best_epoch": fitted.best_epoch,
        "epochs": len(fitted.history),
        "metrics": {name: best[name] for name in measures if name in best},
        "history": [dict(row) for row in fitted.history],
        **({"resumed": fitted.resumed} if fitted.resumed else {}),
    }


class _Run:
    def __init__(self, task: Task, training: Training, criterion: str, group: Group, progress: Progress) -> None:
        self.task, self.training, self.criterion, self.group = task, training, criterion, group
        self.parameters = [p for p in task.module.parameters() if p.requires_grad]
        self.device = self.parameters[0].device
        self.optimiser = _optimiser(self.parameters, training, decoupled=getattr(task, "decoupled", False))
        self.state = State(loss=torch.zeros((), device=self.device))
        self.folder = None if training.checkpoint_dir is None else Path(training.checkpoint_dir)
        self.live = Live(training.epochs * task.steps, progress=progress, quiet=not group.main)
        begun = partial(open_tracker, training.track if group.main else "none", asdict(training))
        self.log = Log(self.folder if group.main else None, tensorboard=training.tensorboard, tracker=begun)

    def run(self) -> Fitted:
        try:
            self._resume()
            resumed = self.state.epoch
            while not self._done():
                self._epoch()
        finally:
            self.live.close()
            self.log.close()
        self.task.module.load_state_dict(self.state.best)
        self.task.module.eval()
        stopped = self.state.epoch < self.training.epochs
        return Fitted(self.state.best_epoch, tuple(self.state.history), stopped, resumed)

    def _done(self) -> bool:
        waited = self.state.epoch - self.state.best_epoch
        patience = self.training.patience
        return self.state.epoch >= self.training.epochs or (patience is not None and waited >= patience)

    def _epoch(self) -> None:
        began = time.perf_counter()
        rate = self.training.rate_at(self.state.epoch)
        for each in self.optimiser.param_groups:
            each["lr"] = rate
        self.task.module.train()
        for batch in self.task.batches(self.state.epoch, self.state.step):
            self._step(batch)
        self._finish(rate, began)

    def _step(self, batch: object) -> None:
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.training.precision == "bfloat16"):
            loss = self.task.loss(batch)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self.group.average(self.parameters)
        if self.training.max_grad_norm is not None:
            nn.utils.clip_grad_norm_(self.parameters, self.training.max_grad_norm)
        self.optimiser.step()
        self.state.step += 1
        self.state.loss += loss.detach()
        done, label = self.state.epoch * self.task.steps + self.state.step, f"epoch {self.state.epoch + 1}"
        self.live.step(done, f"{label}/{self.training.epochs}", loss.detach())
        if (
            self.training.checkpoint_every
            and self.state.step % self.training.checkpoint_every == 0
            and self.state.step < self.task.steps
        ):
            self._keep()

    def _finish(self, rate: float, began: float) -> None:
        """Evaluates after an epoch, keeps the best weights, and writes the log and the checkpoint."""
        state, mean = self.state, float(self.state.loss) / max(self.task.steps, 1)
        if not math.isfinite(mean):
            raise LimnerError(
                f"the loss became {mean} in epoch {state.epoch + 1}: try a lower learning_rate than {rate:g}"
            )
        self.task.module.eval()
        measured: dict[str, float] = self.group.agree(dict(self.task.measure()) if self.group.main else None)
        self.live.epoch(measured)
        state.epoch, state.step = state.epoch + 1, 0
        state.loss = torch.zeros((), device=self.device)
        row = {"epoch": state.epoch, "steps": state.epoch * self.task.steps, "rate": rate, "loss": mean}
        state.history.append({**row, **measured, "seconds": round(time.perf_counter() - began, 3)})
        self._compare(measured.get(self.criterion, math.nan))
        self.log.epoch(state.history)
        self._keep()

    def _compare(self, value: float) -> None:
        """Keeps these weights if they are the best so far, or if there is no metric."""
        if value > self.state.best_value or math.isnan(value):
            weights = self.task.module.state_dict()
            self.state.best = {name: tensor.detach().clone() for name, tensor in weights.items()}
            self.state.best_epoch = self.state.epoch
            self.state.best_value = self.state.best_value if math.isnan(value) else value

    def _keep(self) -> None:
        if self.folder is None:
            return
        everyone = self.group.everyone(random_states(self.device))
        if not self.group.main:
            return
        generators = {f"{rank}/{name}": t for rank, each in enumerate(everyone) for name, t in each.items()}
        tensors = checkpoints.prefixed("module", self.task.module.state_dict())
        tensors |= checkpoints.prefixed("best", self.state.best) | checkpoints.prefixed("generators", generators)
        tensors |= checkpoints.prefixed("moments", _moments(self.optimiser)) | {"loss": self.state.loss}
        checkpoints.write(self.folder / CHECKPOINT, tensors, {**self._place(), "settings": self._fixed()})

    def _place(self) -> dict[str, object]:
        value = None if math.isinf(self.state.best_value) else self.state.best_value
        best = {"best_epoch": self.state.best_epoch, "best_value": value}
        return {"epoch": self.state.epoch, "step": self.state.step, "history": self.state.history, **best}

    def _fixed(self) -> dict[str, object]:
        """Settings that must be the same when the run is resumed."""
        fixed = {name: value for name, value in asdict(self.training).items() if name not in CHANGEABLE}
        fixed |= {"epochs": self.training.epochs} if self.training.schedule == "cosine" else {}
        shape = {"steps": self.task.steps, "processes": self.group.size}
        return {**fixed, **getattr(self.task, "settings", {}), **shape}

    def _resume(self) -> None:
        """Continues from the checkpoint in the folder, if there is one."""
        path = None if self.folder is None else self.folder / CHECKPOINT
        if path is None or not path.is_file():
            return
        tensors, about = checkpoints.read(path)
        self._refuse_other(path, about)
        self.task.module.load_state_dict(checkpoints.under("module", tensors))
        _set_moments(self.optimiser, checkpoints.under("moments", tensors), self.device)
        restore_random(checkpoints.under(f"generators/{self.group.rank}", tensors), self.device)
        value = -math.inf if about["best_value"] is None else about["best_value"]
        best = {name: tensor.to(self.device) for name, tensor in checkpoints.under("best", tensors).items()}
        place = about["epoch"], about["step"], tensors["loss"].to(self.device), about["history"]
        self.state = State(*place, best, about["best_epoch"], value)

    def _refuse_other(self, path: Path, about: Content) -> None:
        """Refuses a checkpoint of another run."""
        current = self._fixed()
        stored = {
            **asdict(Training()),
            **about["settings"],
        }  # defaults for settings that the checkpoint does not have
        for name, value in current.items():
            if stored.get(name) != value:
                raise LimnerError(
                    f"checkpoint {path} was made with {name}={stored.get(name)}, this run has {value}: use another "
                    "folder, remove the checkpoint, or train with the setting it was made with"
                )


def _optimiser(parameters: list[nn.Parameter], training: Training, *, decoupled: bool) -> torch.optim.Optimizer:
    rate, decay = training.learning_rate, training.weight_decay
    if training.optimizer == "adamp":
        return AdamP(parameters, lr=rate, weight_decay=decay)
    return (torch.optim.AdamW if decoupled else torch.optim.Adam)(parameters, lr=rate, weight_decay=decay, fused=True)


def _moments(optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    state = optimiser.state_dict()["state"]
    return {f"{number}/{name}": tensor for number, each in state.items() for name, tensor in each.items()}


def _set_moments(optimiser: torch.optim.Optimizer, moments: Mapping[str, Tensor], device: torch.device) -> None:
    by_parameter: dict[int, dict[str, Tensor]] = {}
    for name, tensor in moments.items():
        number, _, moment = name.partition("/")
        by_parameter.setdefault(int(number), {})[moment] = tensor.to(device)
    optimiser.load_state_dict({"state": by_parameter, "param_groups": optimiser.state_dict()["param_groups"]})
