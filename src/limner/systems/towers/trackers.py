"""Experiment trackers: the metrics of every epoch in wandb, mlflow or trackio."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import ModuleType
from typing import Protocol

from limner.core.errors import LimnerError

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
