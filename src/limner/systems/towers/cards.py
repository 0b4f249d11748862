"""The model card of a saved model: description, training data and results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from limner.core.collection import Collection
from limner.core.files import write_text
from limner.core.version import VERSION

if TYPE_CHECKING:
    from limner.systems.towers.fit import Fitted

CARD = "README.md"
ABOUT = {
    "towers": "Two towers: a vector per image and per text, compared by cosine similarity.",
    "pvse": "PVSE: several vectors per image and per text; the score is that of the best pair of vectors.",
    "pcme": "PCME: a mean and a variance per image and per text, which also give an uncertainty.",
}
"""One-line descriptions."""


def card(config: Mapping[str, Any], *, about: str, learned: int) -> str:
    """The model card in Markdown, from config.json.

    Args:
        config: Contains the model's "name", its "settings" by group and its training record, "trained".
        about: A one-sentence description of the model.
        learned: Number of parameters.
    """
    trained = config["trained"]
    parts = [
        f"# {config['name']}",
        f"{about} {learned:,} parameters. Trained with limner {trained['version']}.",
        "## Trained on",
        f"{trained['collection']}: {trained['images']:,} images, {trained['texts']:,} texts"
        + (f", {trained['pairs']:,} pairs." if "pairs" in trained else "."),
        "## Measured",
        _measured(trained),
        "## Settings",
        *(_table(("setting", "value"), values.items()) for values in config["settings"].values() if values),
        "## Use",
        'With this folder as `FOLDER`:\n\n    from limner import systems\n\n    model = systems.load("FOLDER")\n'
        "    scores = model.scores(collection)",
    ]
    return "\n\n".join(parts) + "\n"


def write(folder: Path, module: nn.Module, config: Mapping[str, object], *, about: str) -> None:
    """Writes the model card into its folder."""
    learned = sum(p.numel() for p in module.parameters())
    write_text(folder / CARD, card(config, about=about, learned=learned))


def summary(
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


def _measured(trained: Mapping[str, Any]) -> str:
    if not trained["metrics"]:
        return (
            f"Not evaluated, since there was no dev split. The weights are those of the last epoch, "
            f"{trained['best_epoch']}."
        )
    heading = f"On {trained['dev']}, after epoch {trained['best_epoch']} of {trained['epochs']}, the best one:"
    rows = [(name, f"{value:.4g}") for name, value in trained["metrics"].items()]
    return heading + "\n\n" + _table(("measure", "value"), rows)


def _table(head: tuple[str, str], rows: Iterable[tuple[object, object]]) -> str:
    lines = [f"| {name} | {value} |" for name, value in rows]
    return "\n".join([f"| {head[0]} | {head[1]} |", "|---|---|", *lines])
