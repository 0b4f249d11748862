"""Saved models of MCProp and CRank: a folder with weights, config.json and a card of what was measured."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from limner.core.collection import Collection, Items
from limner.core.errors import LimnerError
from limner.core.files import write_text
from limner.core.paths import damage_told, read_json
from limner.core.version import VERSION
from limner.datasets.wikipedia import image_names
from limner.systems.towers import checkpoints
from limner.systems.towers.cards import card

WEIGHTS, CONFIG, CARD = "model.safetensors", "config.json", "README.md"
FORMAT = 1


def names_of(of: Collection | Items) -> list[str]:
    """What the file names of images say."""
    return image_names(of.images if isinstance(of, Collection) else of)


def write(folder: Path, module: nn.Module, config: Mapping[str, Any], *, about: str) -> None:
    """Writes weights, config and card.

    Args:
        folder: A draft of the model's folder.
        module: What was learned.
        config: With the kind of model under "limner", its "name", "settings" by group and what it was "trained" on.
        about: What the model is, in a sentence.
    """
    checkpoints.write(folder / WEIGHTS, module.state_dict(), {"kind": config["limner"]})
    learned = sum(p.numel() for p in module.parameters())
    write_text(folder / CARD, card(config, about=about, learned=learned))
    write_text(folder / CONFIG, json.dumps({"format": FORMAT, **config}, indent=2, ensure_ascii=False) + "\n")


def read(folder: str | Path, kind: str) -> dict[str, Any]:
    """The config of a saved model of this kind."""
    path = Path(folder) / CONFIG
    if not path.exists():
        raise LimnerError(f"no model {folder}: expected a folder with {CONFIG}, as model.save writes it")
    config: dict[str, Any] = read_json(path, what="model")
    if not isinstance(config, dict):
        raise LimnerError(f"{path} is no description of a model: save the model again")
    if config.get("limner") != kind or config.get("format") != FORMAT:
        raise LimnerError(
            f"{folder} is a model of kind {config.get('limner')!r}, format {config.get('format')}: expected {kind!r}, "
            f"format {FORMAT}"
        )
    return config


def fill(module: nn.Module, folder: str | Path) -> None:
    """Puts saved weights into a module; refuses damaged ones."""
    path = Path(folder) / WEIGHTS
    weights, _ = checkpoints.read(path, what="model")
    with damage_told(path, what=f"file of weights that fits its {CONFIG}", mend="save the model again"):
        module.load_state_dict(weights)


def trained_on(collection: Collection, dev: Collection | None, fitted: Any, measures: Sequence[str]) -> dict[str, Any]:
    """What a saved model says of its training."""
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
    }
