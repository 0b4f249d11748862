"""Checkpoints and logs: a run that was stopped goes on to the bit, and what is damaged or foreign is refused."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from tower_toys import OPTIONS, world

import limner
from limner.core.errors import LimnerError, MissingExtra

torch = pytest.importorskip("torch", reason="training needs torch")
torch.set_num_threads(1)

from limner.systems.towers.checkpoints import read, write  # noqa: E402
from limner.systems.towers.fit import CHECKPOINT, fit  # noqa: E402
from limner.systems.towers.settings import Training  # noqa: E402

RUN = {**OPTIONS, "dropout": 0.3, "tensorboard": False, "lr_decay_every": 2, "epochs": 5}


class Stopped(Exception):
    pass


def stopping(at):
    """A progress that stops the run after so many steps, as a person or a power cut would."""

    def stop(done, total):
        if done >= at:
            raise Stopped

    return stop


@pytest.fixture(scope="module")
def toy_world():
    return world()


def train(toy_world, variant="towers", **options):
    collection, features = toy_world
    return limner.train(collection, variant, features=features, **{**RUN, **options})


def without_time(history):
    return [{name: value for name, value in row.items() if name != "seconds"} for row in history]


@pytest.mark.parametrize("at", [2, 3, 8, 10])
@pytest.mark.parametrize("variant", ["towers", "pcme"])
def test_a_resumed_run_equals_an_uninterrupted_one(toy_world, tmp_path, monkeypatch, variant, at):
    monkeypatch.setattr("limner.systems.towers.logs._SECONDS", 0.0)
    uninterrupted = train(toy_world, variant)
    checkpoints = {"checkpoint_dir": str(tmp_path), "checkpoint_every": 2}
    with pytest.raises(Stopped):
        train(toy_world, variant, progress=stopping(at), **checkpoints)
    assert (tmp_path / CHECKPOINT).is_file() == (at > 2)
    resumed = train(toy_world, variant, **checkpoints)
    for name, tensor in uninterrupted.module.state_dict().items():
        assert torch.equal(tensor, resumed.module.state_dict()[name]), name
    assert without_time(resumed.trained["history"]) == without_time(uninterrupted.trained["history"])
    assert resumed.trained["best_epoch"] == uninterrupted.trained["best_epoch"]


def test_a_finished_run_is_not_trained_again_and_can_be_made_longer(toy_world, tmp_path):
    first = train(toy_world, checkpoint_dir=str(tmp_path), epochs=2)
    model = train(toy_world, checkpoint_dir=str(tmp_path), epochs=2, progress=stopping(0))
    assert without_time(model.trained["history"]) == without_time(first.trained["history"])
    longer = train(toy_world, checkpoint_dir=str(tmp_path), epochs=5)
    assert without_time(longer.trained["history"]) == without_time(train(toy_world).trained["history"])


def test_logs_hold_every_epoch(toy_world, tmp_path):
    pytest.importorskip("tensorboard", reason="a log for TensorBoard needs tensorboard")
    model = train(toy_world, checkpoint_dir=str(tmp_path), epochs=3, tensorboard=True)
    with (tmp_path / "log.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["epoch"]) for row in rows] == [1, 2, 3]
    assert [float(row["rate"]) for row in rows] == pytest.approx([0.01, 0.01, 0.001])
    assert float(rows[2]["rsum"]) == model.trained["history"][2]["rsum"]
    assert float(rows[0]["loss"]) > float(rows[2]["loss"]) > 0
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [e.step for e in events.Scalars("loss")] == [1, 2, 3]
    assert events.Scalars("t2i/R@1")[2].value == pytest.approx(model.trained["history"][2]["t2i R@1"])


def test_a_log_for_tensorboard_needs_tensorboard(toy_world, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "tensorboard", None)
    with pytest.raises(MissingExtra, match="tensorboard=False leaves it out"):
        train(toy_world, checkpoint_dir=str(tmp_path), tensorboard=True)


def damaged(path, damage):
    good = path.read_bytes()
    path.write_bytes({
        "a bit": good[:-9] + bytes([good[-9] ^ 4]) + good[-8:],
        "the end": good[: len(good) // 2],
        "the head": b"nonsense" + good[8:],
        "all": b"",
    }[damage])  # fmt: skip


@pytest.mark.parametrize("damage", ["a bit", "the end", "the head", "all"])
def test_a_damaged_checkpoint_is_refused(toy_world, tmp_path, damage):
    train(toy_world, checkpoint_dir=str(tmp_path), epochs=1)
    damaged(tmp_path / CHECKPOINT, damage)
    with pytest.raises(LimnerError, match=r"checkpoint.*restore a good copy, or remove it"):
        train(toy_world, checkpoint_dir=str(tmp_path))


def test_a_checkpoint_of_another_run_is_refused(toy_world, tmp_path):
    train(toy_world, checkpoint_dir=str(tmp_path), epochs=1)
    with pytest.raises(LimnerError, match=r"was made with learning_rate=0\.01, this run has 0\.02"):
        train(toy_world, checkpoint_dir=str(tmp_path), learning_rate=0.02)
    with pytest.raises(LimnerError, match="was made with hidden_dim=16, this run has 8"):
        train(toy_world, checkpoint_dir=str(tmp_path), hidden_dim=8)
    with pytest.raises(LimnerError, match="was made with loss=adaptive, this run has max"):
        train(toy_world, checkpoint_dir=str(tmp_path), loss="max")
    with pytest.raises(LimnerError, match="was made with system=towers, this run has pcme"):
        train(toy_world, "pcme", checkpoint_dir=str(tmp_path))
    with pytest.raises(LimnerError, match="was made with pairs=60, this run has 90"):
        train(world(60), checkpoint_dir=str(tmp_path))


def test_a_checkpoint_from_before_a_setting_was_there_goes_on(toy_world, tmp_path):
    train(toy_world, checkpoint_dir=str(tmp_path), epochs=1)
    tensors, about = read(tmp_path / CHECKPOINT)
    about["settings"].pop("precision")
    write(tmp_path / CHECKPOINT, tensors, about)
    assert len(train(toy_world, checkpoint_dir=str(tmp_path), epochs=2).trained["history"]) == 2
    with pytest.raises(LimnerError, match="was made with precision=float32, this run has bfloat16"):
        train(toy_world, checkpoint_dir=str(tmp_path), epochs=3, precision="bfloat16")


def test_what_limner_did_not_write_is_refused(tmp_path):
    from safetensors.torch import save_file

    save_file({"a": torch.zeros(2)}, tmp_path / "other.safetensors")
    with pytest.raises(LimnerError, match="was not written by limner"):
        read(tmp_path / "other.safetensors")
    with pytest.raises(LimnerError, match="no checkpoint"):
        read(tmp_path / "missing.safetensors")
    write(tmp_path / "new.safetensors", {"a": torch.zeros(2)}, {"format": 99})
    with pytest.raises(LimnerError, match="has format 99"):
        read(tmp_path / "new.safetensors")


def test_what_is_written_is_read(tmp_path):
    tensors = {
        "a": torch.randn(3, 2),
        "half": torch.ones(2, dtype=torch.bfloat16),
        "n": torch.tensor(7),
        "none": torch.ones(0),
    }
    write(tmp_path / "x.safetensors", tensors, {"epoch": 3})
    stored, about = read(tmp_path / "x.safetensors")
    assert all(torch.equal(stored[name], tensor) for name, tensor in tensors.items()) and about["epoch"] == 3


class Scripted:
    """A task whose dev values are written down beforehand, and whose one weight counts the steps."""

    def __init__(self, values):
        self.module = torch.nn.Linear(1, 1, bias=False)
        torch.nn.init.zeros_(self.module.weight)
        self.values, self.asked, self.steps = values, 0, 1

    def batches(self, epoch, start):
        yield from range(start, self.steps)

    def loss(self, batch):
        return -self.module.weight.sum()

    def measure(self):
        self.asked += 1
        return {"rsum": self.values[self.asked - 1]}


@pytest.mark.parametrize(("patience", "epochs", "stopped"), [(2, 5, True), (None, 8, False), (6, 8, False)])
def test_training_stops_early_and_keeps_the_best(patience, epochs, stopped):
    task = Scripted([10, 30, 50, 40, 50, 20, 45, 49])
    outcome = fit(task, Training(epochs=8, patience=patience, device="cpu", learning_rate=0.1, lr_decay=1.0))
    assert (outcome.best_epoch, len(outcome.history), outcome.stopped) == (3, epochs, stopped)
    assert task.module.weight.item() == pytest.approx(0.3, abs=1e-5), "three steps of Adam at rate 0.1"


def test_without_a_dev_collection_the_last_epoch_is_kept(toy_world):
    collection, features = toy_world
    model = limner.train(collection.train, "towers", features=features, **{**RUN, "epochs": 2})
    assert (model.trained["best_epoch"], model.trained["metrics"], model.trained["dev"]) == (2, {}, None)
    assert np.isfinite(model.scores(collection.dev).matrix()).all()
