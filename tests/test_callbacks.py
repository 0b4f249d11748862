"""Callbacks in real training loops: the values are those of limner.evaluate on the whole validation set."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import limner
from limner.core.errors import LimnerError
from limner.evaluation.callbacks import RetrievalMeter, lightning_callback, measured, trainer_callback

torch = pytest.importorskip("torch", reason="training loops need torch")
SIDE = 24


def data():
    rng = np.random.default_rng(0)
    images = rng.standard_normal((SIDE, 8)).astype(np.float32)
    return images, (images + rng.standard_normal((SIDE, 8))).astype(np.float32)


class Towers(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.image, self.text = torch.nn.Linear(8, 4), torch.nn.Linear(8, 4)

    def forward(self, images=None, texts=None, **_):
        one, two = self.image(images), self.text(texts)
        return {"loss": torch.nn.functional.cross_entropy(one @ two.T, torch.arange(len(one)))}


def feed(model):
    images, texts = (torch.from_numpy(side) for side in data())
    assert not model.training
    with torch.no_grad():
        for low in range(0, SIDE, 10):
            rows = slice(low, low + 10)
            yield {"image_vectors": model.image(images[rows]), "text_vectors": model.text(texts[rows])}


def expected(model):
    with torch.no_grad():
        sides = [
            side.numpy() for side in (model.image(torch.from_numpy(data()[0])), model.text(torch.from_numpy(data()[1])))
        ]
    return limner.evaluate(*sides, measures="R@1").value("R@1", direction="t2i")


def test_the_trainer_of_transformers(tmp_path):
    transformers = pytest.importorskip("transformers", reason="the Trainer is of transformers")
    pytest.importorskip("accelerate", reason="the Trainer needs accelerate")
    images, texts = data()
    rows = [{"images": one, "texts": two} for one, two in zip(images, texts, strict=True)]
    arguments = transformers.TrainingArguments(
        str(tmp_path), num_train_epochs=2, per_device_train_batch_size=8, eval_strategy="epoch", save_strategy="epoch",
        report_to=[], use_cpu=True, load_best_model_at_end=True, metric_for_best_model="eval_t2i R@1",
        remove_unused_columns=False, disable_tqdm=True, learning_rate=0.05,
    )  # fmt: skip
    model, callback = Towers(), trainer_callback(feed, measures="R@1")
    trainer = transformers.Trainer(model, arguments, train_dataset=rows, eval_dataset=rows, callbacks=[callback])
    trainer.train()
    logged = [row["eval_t2i R@1"] for row in trainer.state.log_history if "eval_t2i R@1" in row]
    assert len(logged) == 2 and trainer.state.best_metric == max(logged)
    assert trainer.evaluate()["eval_t2i R@1"] == pytest.approx(expected(model))


def test_lightning():
    lightning = pytest.importorskip("lightning.pytorch", reason="the callback is for Lightning")

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.towers = Towers()

        def training_step(self, batch, index):
            return self.towers(*batch)["loss"]

        def validation_step(self, batch, index):
            return {"image_vectors": self.towers.image(batch[0]), "text_vectors": self.towers.text(batch[1])}

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), 0.01)

    sets = torch.utils.data.TensorDataset(*map(torch.from_numpy, data()))
    loader = torch.utils.data.DataLoader(sets, batch_size=10)
    module, quiet = Module(), {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = lightning.Trainer(
        max_epochs=1, accelerator="cpu", callbacks=[lightning_callback(measures="R@1")], **quiet
    )
    trainer.fit(module, loader, loader)
    assert float(trainer.callback_metrics["val_t2i R@1"]) == pytest.approx(expected(module.towers))


class Base:
    pass


def test_the_hooks_of_lightning_without_it(monkeypatch):
    """Its hooks are called as Lightning calls them: sanity check, batches, several processes."""
    library = type(sys)("pytorch_lightning")
    library.Callback = Base
    monkeypatch.setitem(sys.modules, "lightning", None)
    monkeypatch.setitem(sys.modules, "lightning.pytorch", None)
    monkeypatch.setitem(sys.modules, "pytorch_lightning", library)
    callback = lightning_callback(lambda outputs, batch: outputs, measures="R@1")
    logged = {}
    module = type("Module", (), {"log_dict": staticmethod(logged.update)})()
    trainer = type("Trainer", (), {"world_size": 1, "sanity_checking": True})()
    for sanity in (True, False):
        trainer.sanity_checking = sanity
        callback.on_validation_epoch_start(trainer, module)
        callback.on_validation_batch_end(
            trainer, module, {"image_vectors": np.eye(3), "text_vectors": np.eye(3)}, None, 0
        )
        callback.on_validation_epoch_end(trainer, module)
        assert bool(logged) is not sanity
    assert logged == {"val_i2t R@1": 1.0, "val_t2i R@1": 1.0}
    trainer.world_size = 2
    with pytest.raises(LimnerError, match="only its share"):
        callback.on_validation_epoch_start(trainer, module)


def test_what_is_no_batch_is_refused(monkeypatch):
    for bad in ([1], {"image_vectors": []}, {"image_vectors": [], "text_vectors": [], "more": 1}):
        with pytest.raises(LimnerError, match="expected a dict of image_vectors and text_vectors"):
            measured(RetrievalMeter(), [bad])
    for name in ("lightning", "lightning.pytorch", "pytorch_lightning"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(LimnerError, match="pip install lightning"):
        lightning_callback()
