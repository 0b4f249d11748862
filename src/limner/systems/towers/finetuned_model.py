"""A fine-tuned two-tower model: scores and vectors; saved as trained weights and the name of the pretrained model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from limner.core import model_store
from limner.core.collection import Collection, Items
from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError
from limner.core.files import write_text
from limner.core.paths import damage_told
from limner.core.progress import Progress, ProgressLike, as_progress
from limner.core.torch_device import device_named
from limner.encoders.opening import EncodedVectors, load_source
from limner.scores import Scores
from limner.systems.towers import cards, checkpoints, randomness, tuned
from limner.systems.towers.encoding import as_array, device_of
from limner.systems.towers.settings import settings
from limner.systems.towers.shape import Margin
from limner.systems.towers.tuned import TunedTowers, Tuning, tunable
from limner.systems.trained_on import TrainedOn, saved_record

KIND = "finetuned"
ABOUT = "A pretrained model with one space for images and texts, fine-tuned (mode {!r}); compared by the cosine."


@dataclass(frozen=True, eq=False)
class FinetunedModel:
    """A pretrained two-tower model, such as CLIP, with its trained weights.

    Args:
        name: Name in reports.
        module: The weights.
        base: The pretrained encoder as it was given.
        settings: Settings of the training, by group.
        trained: Training record and results.
        trained_on: The training items; None if unknown.
    """

    name: str
    module: TunedTowers
    base: EncodedVectors
    settings: Mapping[str, Mapping[str, object]]
    trained: Mapping[str, Any]
    trained_on: TrainedOn | None = None

    @property
    def dim(self) -> int:
        """Dimension of the vectors."""
        return self.module.encoder.dim

    def scores(self, collection: Collection, *, progress: ProgressLike = None) -> Scores:
        """Cosine similarities of every image and every text of a collection, computed lazily."""
        images = self.encode_images(collection.images, progress=progress)
        return Scores.from_embeddings(images, self.encode_texts(collection.texts))

    def encode_images(self, items: Items, *, progress: ProgressLike = None) -> Embeddings:
        """Images in the joint space."""
        progress = as_progress(progress)
        return self._encoded(items, self.module.image_map, progress)

    def encode_texts(self, items: Items, *, progress: ProgressLike = None) -> Embeddings:
        """Texts in the joint space."""
        progress = as_progress(progress)
        return self._encoded(items, self.module.text_map, progress)

    def _encoded(self, items: Items, mapped: torch.nn.Module, progress: Progress) -> Embeddings:
        self.module.eval()
        rows = torch.from_numpy(np.array(self.module.encoder.encode(items, progress=progress)))
        with torch.inference_mode():
            vectors = torch.nn.functional.normalize(mapped(rows.to(device_of(self.module))), dim=-1)
        return Embeddings(items.ids, as_array(vectors))

    def to(self, device: str) -> FinetunedModel:
        """The same model, moved to another device."""
        place_on(self.module, device_named(device))
        return self

    @cached_property
    def fingerprint(self) -> str:
        """Identifies the model by the pretrained model and the trained weights."""
        about = str(self.module.encoder.identity)
        return f"finetuned {self.module.mode} {checkpoints.short_fingerprint(self.module, about)}"

    def export(self, path: str | Path) -> Path:
        """Writes a folder of transformers with all weights, which 'clip(model=FOLDER)' and other tools open."""
        return tuned.export(self.module, path)

    def save(self, path: str | Path) -> Path:
        """Writes a folder: the trained weights, config.json with the name of the pretrained model, and a model card."""
        about = {name: _resolved(value) for name, value in self.base.about().items()}
        config = {
            "name": self.name,
            "encoder": about,
            "pretrained": self.module.encoder.identity,
            "settings": {group: dict(values) for group, values in self.settings.items()},
            "trained": dict(self.trained),
        }
        content, weights = {**config, **saved_record(self.trained_on)}, checkpoints.arrays(self.module)
        return model_store.write(path, KIND, content, weights=weights, beside=partial(self._write_card, config))

    def _write_card(self, config: Mapping[str, object], folder: Path) -> None:
        text = cards.card(config, about=ABOUT.format(self.module.mode), learned=self.module.trained_count)
        write_text(folder / cards.CARD, text)

    @classmethod
    def load(cls, path: str | Path, *, device: str = "auto", trust: bool = False) -> FinetunedModel:
        """Reads a saved model; refuses a damaged folder, or a different pretrained model.

        Args:
            path: The folder.
            device: Device of the weights.
            trust: Whether the model may name a custom encoder or loss as "module:thing".
        """
        saved = model_store.read(path, KIND)
        config = saved.content
        with damage_told(path, what="saved model", mend="save it again"):
            groups = config["settings"]
            tuning = settings(Tuning, groups["tuning"], owner=KIND)
            saved.refuse_larger({"rank": tuning.rank})
            base = load_source(config["encoder"], option="encoder", trust=trust)
            if not isinstance(base, EncodedVectors):
                raise LimnerError(
                    f"{path} was tuned from an encoder object that only its maker has: train from a named one, such "
                    "as encoder='clip(model=DIR)', to open it again"
                )
            module = rebuilt(base, tuning, groups, trust=trust)
            _refuse_other(path, module, config["pretrained"])
        checkpoints.fill(module, saved)
        place_on(module, device_named(device)).eval()
        record = TrainedOn.from_content(config.get("trained_on"))
        return cls(config["name"], module, base, groups, config["trained"], record)


def rebuilt(base: EncodedVectors, tuning: Tuning, groups: Mapping[str, Any], *, trust: bool) -> TunedTowers:
    """The module for settings by group, with the weights of the pretrained model."""
    from limner.systems.towers import losses

    losses.loss(groups["margin"]["loss"], trusted=trust)  # refuses the name of a loss that is not limner's own
    with randomness.seeded(0):
        return TunedTowers(tunable(base.encoder), tuning, settings(Margin, groups["margin"], owner=KIND).function())


def place_on(module: TunedTowers, device: torch.device) -> TunedTowers:
    """The module on a device; its encoder sends batches there too."""
    module.to(device)
    module.encoder.device = device
    return module


def _refuse_other(path: str | Path, module: TunedTowers, expected: str) -> None:
    if module.encoder.identity != expected:
        raise LimnerError(
            f"{path} was tuned from another pretrained model ({expected}) than the one that is there now "
            f"({module.encoder.identity}): put that one back"
        )


def _resolved(value: object) -> object:
    """An option of the encoder as stored in config.json: paths are absolute, so that they work from any folder."""
    if isinstance(value, (str, Path)) and Path(value).exists():
        return str(Path(value).resolve())
    return str(value) if isinstance(value, Path) else value
