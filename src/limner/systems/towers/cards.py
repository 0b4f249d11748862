"""The card of a saved model: what it is, what it was trained on, and what was measured, for a person to read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ABOUT = {
    "towers": "Two towers: a vector per image and per text, compared by the cosine.",
    "pvse": "PVSE: several vectors per image and per text; the best pair of them counts.",
    "pcme": "PCME: a mean and a variance per image and per text, which also say how sure the model is.",
}
"""What each kind of towers is, in a sentence."""


def card(config: Mapping[str, Any], *, about: str, learned: int) -> str:
    """The card as Markdown, from what config.json holds.

    Args:
        config: With the model's "name", its "settings" by group and what it was "trained" on.
        about: What the model is, in a sentence.
        learned: How many numbers were learned.
    """
    trained = config["trained"]
    parts = [
        f"# {config['name']}",
        f"{about} {learned:,} learned numbers. Made with limner {trained['version']}.",
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


def _measured(trained: Mapping[str, Any]) -> str:
    if not trained["metrics"]:
        return f"Nothing: there was no dev split. The weights are those of the last epoch, {trained['best_epoch']}."
    told = f"On {trained['dev']}, after epoch {trained['best_epoch']} of {trained['epochs']}, the best one:"
    rows = [(name, f"{value:.4g}") for name, value in trained["metrics"].items()]
    return told + "\n\n" + _table(("measure", "value"), rows)


def _table(head: tuple[str, str], rows: Any) -> str:
    lines = [f"| {name} | {value} |" for name, value in rows]
    return "\n".join([f"| {head[0]} | {head[1]} |", "|---|---|", *lines])
