"""Experiment trackers: what a training run logs, with modules that have the interface of the real ones."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

import limner
from limner.core.errors import LimnerError, UnknownName

pytest.importorskip("torch", reason="towers need torch")
SIZES = {"word_dim": 4, "hidden_dim": 4, "embedding_dim": 4, "device": "cpu", "tensorboard": False, "min_count": 1}


@pytest.fixture(scope="module")
def pairs():
    return limner.load("scenes", images=20)


def like_wandb(calls):
    """A module with the functions of wandb and trackio that a run uses."""
    module = ModuleType("wandb")
    module.init = lambda *, project, config: calls.append(("init", project, config))
    module.log = lambda metrics, *, step: calls.append(("log", step, metrics))
    module.finish = lambda: calls.append(("finish",))
    return module


def like_mlflow(calls, active=None):
    """A module with the functions of mlflow that a run uses, which refuses the names that mlflow refuses."""

    def log_metrics(metrics, *, step):
        assert not any("@" in name for name in metrics), "mlflow allows letters, digits and _-. :/"
        calls.append(("log", step, metrics))

    module = ModuleType("mlflow")
    module.active_run = lambda: active
    module.start_run = lambda: calls.append(("start",))
    module.log_params = lambda params: calls.append(("params", params))
    module.log_metrics = log_metrics
    module.end_run = lambda: calls.append(("end",))
    return module


def train(pairs, **options):
    return limner.train(pairs.train, "towers", dev=pairs.dev, epochs=2, **SIZES, **options)


@pytest.mark.parametrize("name", ["wandb", "trackio"])
def test_wandb_and_trackio(pairs, monkeypatch, name):
    calls = []
    monkeypatch.setitem(sys.modules, name, like_wandb(calls))
    history = train(pairs, track=name).trained["history"]
    assert [call[0] for call in calls] == ["init", "log", "log", "finish"]
    assert calls[0][1] == "limner" and calls[0][2]["epochs"] == 2
    assert [call[1] for call in calls[1:3]] == [1, 2]
    assert calls[2][2]["loss"] == history[1]["loss"] and calls[2][2]["t2i/R@1"] == history[1]["t2i R@1"]


@pytest.mark.parametrize("active", [None, "a run of the user"])
def test_mlflow(pairs, monkeypatch, active):
    calls = []
    monkeypatch.setitem(sys.modules, "mlflow", like_mlflow(calls, active))
    history = train(pairs, track="mlflow").trained["history"]
    own = [] if active else ["start"]
    assert [call[0] for call in calls] == [*own, "params", "log", "log", *(["end"] if own else [])]
    logged = [call for call in calls if call[0] == "log"]
    assert logged[1][1] == 2 and logged[1][2]["t2i/R_at_1"] == history[1]["t2i R@1"]


def test_a_run_that_fails_is_ended(pairs, monkeypatch):
    calls = []
    monkeypatch.setitem(sys.modules, "wandb", like_wandb(calls))

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(pairs, track="wandb", progress=stop)
    assert calls[-1] == ("finish",)


def test_a_tracker_that_is_not_installed_or_not_known(pairs, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(LimnerError, match="track=wandb needs the package 'wandb', .* pip install wandb"):
        train(pairs, track="wandb")
    with pytest.raises(UnknownName, match="did you mean 'wandb'"):
        train(pairs, track="wandd")
