"""Logs of a training run: CSV and TensorBoard files, a live progress line, and wandb, mlflow or trackio."""

from __future__ import annotations

import csv
import importlib
import io
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

from limner.core.errors import LimnerError
from limner.core.extras import require
from limner.core.files import write_text
from limner.core.paths import folder_for
from limner.core.progress import SILENT, Callback, Progress
from limner.evaluation.measures import MEASURES, Measure

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from torch import Tensor

TRACKERS = ("none", "wandb", "mlflow", "trackio")
PROJECT = "limner"


class Tracker(Protocol):
    """Where the metrics of a run go."""

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Logs the metrics of an epoch."""

    def close(self) -> None:
        """Ends the run."""


def open_tracker(name: str, settings: Mapping[str, object]) -> Tracker | None:
    """Begins a run; None for "none".

    Args:
        name: One of `TRACKERS`.
        settings: What the run was started with.
    """
    if name == "none":
        return None
    try:
        library = importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise LimnerError(
            f"track={name} needs the package {name!r}, which is not installed: pip install {name}"
        ) from error
    return _MlflowRun(library, settings) if name == "mlflow" else _WandbRun(library, settings)


class _WandbRun:
    """A run of wandb or of trackio, which has the same functions."""

    def __init__(self, library: ModuleType, settings: Mapping[str, object]) -> None:
        self._library = library
        library.init(project=PROJECT, config=dict(settings))

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        self._library.log(dict(metrics), step=step)

    def close(self) -> None:
        self._library.finish()


class _MlflowRun:
    """A run of mlflow; the user's own run, if there is one, is used and stays open."""

    def __init__(self, library: ModuleType, settings: Mapping[str, object]) -> None:
        self._library, self._is_own = library, library.active_run() is None
        if self._is_own:
            library.start_run()
        library.log_params(dict(settings))

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Logs the metrics; their names may have no @ there."""
        self._library.log_metrics({name.replace("@", "_at_"): value for name, value in metrics.items()}, step=step)

    def close(self) -> None:
        if self._is_own:
            self._library.end_run()


Row = Mapping[str, float]
_SECONDS = 0.2  # minimum time between updates of the live line: reading the loss waits for the GPU


def _no_tracker() -> Tracker | None:
    return None


class Log:
    """One row per epoch: `log.csv`, rewritten in full, and scalars for TensorBoard under `tensorboard/`.

    Args:
        folder: The run's folder; None writes no files.
        tensorboard: Whether to write a TensorBoard log too.
        tracker: Begins the run in an experiment tracker that gets the metrics too, if there is one.
    """

    def __init__(
        self, folder: str | Path | None, *, tensorboard: bool, tracker: Callable[[], Tracker | None] = _no_tracker
    ) -> None:
        self.folder = None if folder is None else Path(folder)
        self.writer: Any = None
        if self.folder is not None:
            folder_for(self.folder)
            self.writer = _writer(self.folder / "tensorboard") if tensorboard else None
        self.tracker = tracker()  # last: what fails before leaves no run open

    def epoch(self, history: Sequence[Row]) -> None:
        """Logs the epochs so far, of which the last one is new."""
        metrics = {name.replace(" ", "/"): value for name, value in history[-1].items()}
        if self.tracker is not None:
            self.tracker.log(metrics, step=int(metrics["epoch"]))
        if self.folder is None:
            return
        write_text(self.folder / "log.csv", as_csv(history))
        if self.writer is not None:
            for name, value in metrics.items():
                self.writer.add_scalar(name, value, int(metrics["epoch"]))
            self.writer.flush()

    def close(self) -> None:
        """Ends the log."""
        if self.tracker is not None:
            self.tracker.close()
        if self.writer is not None:
            self.writer.close()


def as_csv(history: Sequence[Row]) -> str:
    """Rows as CSV, with all column names in the header.

    >>> print(as_csv([{"epoch": 1, "loss": 2.5}, {"epoch": 2, "loss": 1.25, "rsum": 30.0}]), end="")
    epoch,loss,rsum
    1,2.5,
    2,1.25,30.0
    """
    names = list(dict.fromkeys(name for row in history for name in row))
    text = io.StringIO()
    rows = csv.DictWriter(text, names, lineterminator="\n")
    rows.writeheader()
    rows.writerows(history)
    return text.getvalue()


def _writer(folder: Path) -> object:
    require("tensorboard", what="a log for TensorBoard (tensorboard=False leaves it out)")
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(folder))


def _is_headline(name: str) -> bool:
    """Whether a metric is shown during training: a composite measure, or hits at rank 1; "i2t R@1" has a direction.

    >>> [_is_headline(name) for name in ("rsum", "t2i R@1", "t2i R@5", "AUC")]
    [True, True, False, False]
    """
    text = name.split()[-1]
    if text.partition("@")[0] not in MEASURES:
        return False
    measure = Measure.parse(text)
    return measure.kind.composite is not None or (measure.kind.hit and measure.k == 1)


class Live:
    """Reports progress, the loss and the last dev values: on a terminal, or through `progress`.

    Args:
        steps: Steps of the whole run.
        progress: Counts the steps; its note is the loss and dev values. Where it is silent, a progress line is
            shown on a terminal, and nothing otherwise.
        quiet: Whether to print nothing; for all processes except the main one.
    """

    def __init__(self, steps: int, *, progress: Progress, quiet: bool = False) -> None:
        self.steps = steps
        self.dev = ""
        self._said = 0.0
        self._bar: Bar | None = None
        self._progress = SILENT if quiet else progress if progress is not SILENT else self._terminal_progress()

    def _terminal_progress(self) -> Progress:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        console = Console(stderr=True)
        if not console.is_terminal:
            return SILENT
        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
        bar = self._bar = Bar(*columns, console=console, transient=True)
        self._task = bar.add_task("training", total=self.steps)
        bar.start()
        return Callback(lambda done, total: bar.update(self._task, completed=done, total=total))

    def step(self, done: int, epoch: str, loss: Tensor | float) -> None:
        """Records a step; the loss is read only from time to time, since reading it waits for the GPU."""
        time_now = time.monotonic()
        if self._progress is SILENT or (time_now - self._said < _SECONDS and done < self.steps):
            return
        self._said = time_now
        self._progress(done, self.steps)
        self._note(f"{epoch} loss {float(loss):.3f}{self.dev}")

    def epoch(self, measured: Row) -> None:
        """Records the metrics of an epoch."""
        headlines = [f"{name} {value:.1f}" for name, value in measured.items() if _is_headline(name)]
        self.dev = f", dev {', '.join(headlines)}" if headlines else ""

    def _note(self, text: str) -> None:
        if self._bar is not None:
            self._bar.update(self._task, description=text)
        else:
            self._progress.note(text)

    def close(self) -> None:
        """Clears the line."""
        if self._bar is not None:
            self._bar.stop()
