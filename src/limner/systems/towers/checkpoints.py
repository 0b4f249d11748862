"""Checkpoints: tensors and metadata in one safetensors file, with a fingerprint to detect damage; model cards.

Files are written atomically. They contain no code, so reading one is always safe.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from limner.core.errors import LimnerError
from limner.core.files import replacing, write_text
from limner.core.model_store import Arrays, Content, SavedModel, sha256_of
from limner.core.paths import damage_told, parse_json, refuse_irregular

FORMAT = 1


def write(path: str | Path, tensors: Mapping[str, Tensor], about: Mapping[str, object]) -> Path:
    """Writes named tensors and metadata.

    Args:
        path: The file.
        tensors: On any device.
        about: JSON values.
    """
    from safetensors.torch import save_file

    target = Path(path)
    contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    header = json.dumps({"format": FORMAT, **about})
    with replacing(target) as file:
        save_file(contiguous, file, {"limner": header, "sha256": fingerprint(contiguous, header)})
    return target


def read(path: str | Path, *, kind: str = "checkpoint") -> tuple[dict[str, Tensor], Content]:
    """Reads a file written by `write`; refuses a damaged, truncated or foreign file.

    Args:
        path: The file.
        kind: Expected kind of file; only used in messages.
    """
    from safetensors import safe_open

    refuse_irregular(path, what=kind)
    if not Path(path).is_file():
        raise LimnerError(f"no {kind} {path}: expected a .safetensors file")
    with damage_told(path, what=kind, mend=_MEND), safe_open(path, framework="pt") as archive:
        about = archive.metadata() or {}
        tensors = {name: archive.get_tensor(name) for name in archive.keys()}  # noqa: SIM118  # it is no mapping
    if "limner" not in about or "sha256" not in about:
        raise LimnerError(f"{kind} {path} was not written by limner: it lacks 'limner' and 'sha256' in its header")
    with damage_told(path, what=kind, mend=_MEND):
        if fingerprint(tensors, about["limner"]) != about["sha256"]:
            raise LimnerError(f"{kind} {path} is damaged: its contents do not match its fingerprint; {_MEND}")
        header: Content = parse_json(about["limner"], where=f"{kind} {path}")
        if header["format"] != FORMAT:
            raise LimnerError(f"{kind} {path} has format {header['format']}: this limner reads format {FORMAT}")
    return tensors, header


_MEND = "restore a good copy, or remove it and train again"


def fingerprint(tensors: Mapping[str, Tensor], about: str) -> str:
    """SHA-256 of all names, types, shapes and values, and of the metadata.

    >>> fingerprint({"a": torch.zeros(2)}, "{}") == fingerprint({"a": torch.zeros(2)}, "{}")
    True
    >>> fingerprint({"a": torch.zeros(2)}, "{}") == fingerprint({"a": torch.zeros(1, 2)}, "{}")
    False
    """
    ordered = ((name, tensors[name].contiguous()) for name in sorted(tensors))
    parts = ((name, _type(tensor), tuple(tensor.shape), _bytes(tensor)) for name, tensor in ordered)
    return sha256_of(parts, about)


def _type(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _bytes(tensor: Tensor) -> object:
    return tensor.reshape(-1).view(torch.uint8).numpy().data


def short_fingerprint(module: nn.Module, about: str) -> str:
    """The beginning of the fingerprint of a module's weights: enough to identify a model."""
    weights = {name: tensor.detach().cpu() for name, tensor in module.state_dict().items()}
    return fingerprint(weights, about)[:16]


def arrays(module: nn.Module) -> Arrays:
    """The weights of a module in the format of `limner.core.model_store`."""
    return {name: tensor.detach().cpu().numpy() for name, tensor in module.state_dict().items()}


def fill(module: nn.Module, saved: SavedModel) -> None:
    """Loads the weights of a saved model into a module; refuses mismatched weights."""
    weights = {name: torch.from_numpy(np.array(array)) for name, array in saved.weights.items()}
    with damage_told(saved.folder, what="model whose weights fit its config.json", mend="save the model again"):
        module.load_state_dict(weights)


def prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same tensors with `prefix/` added to their names."""
    return {f"{prefix}/{name}": tensor for name, tensor in tensors.items()}


def under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin with `prefix/`, with the prefix removed."""
    start = f"{prefix}/"
    return {name.removeprefix(start): tensor for name, tensor in tensors.items() if name.startswith(start)}


CARD = "README.md"
DESCRIPTIONS = {
    "towers": "Two towers: a vector per image and per text, compared by cosine similarity.",
    "pvse": "PVSE: several vectors per image and per text; the score is that of the best pair of vectors.",
    "pcme": "PCME: a mean and a variance per image and per text, which also give an uncertainty.",
}
"""One-line descriptions."""


def card(config: Content, *, about: str, learned: int) -> str:
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


def write_card(folder: Path, module: nn.Module, config: Mapping[str, object], *, about: str) -> None:
    """Writes the model card into its folder."""
    learned = sum(p.numel() for p in module.parameters())
    write_text(folder / CARD, card(config, about=about, learned=learned))


def _measured(trained: Content) -> str:
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
