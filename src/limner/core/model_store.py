"""Saved models: one versioned folder format for every kind of model, written atomically and checked when it is read.

    config.json         kind, format, version, name, options and training data of the model; human-readable
    model.safetensors   every array, and in its header the SHA-256 of names, types, shapes and numbers
    ...                 further files of a kind: a model card, a vocabulary, a figure

A folder contains no code, so it is safe to read one from any source.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from limner.core.arrays import Array
from limner.core.errors import LimnerError
from limner.core.files import replacing_model, write_text
from limner.core.paths import damage_told, parse_json, read_json, refuse_irregular
from limner.core.version import VERSION

Arrays = Mapping[str, Array]
FORMAT = 1
CONFIG, WEIGHTS = "config.json", "model.safetensors"
_TENSOR, _CONTENT, _MODULE = "tensor", "content", "weights."
_REPAIR = "put back a good copy, or save the model again"


Content = Mapping[str, Any]
"""Values of a JSON object by name, with arrays in it; who reads a value checks it."""


@dataclass(frozen=True, eq=False)
class SavedModel:
    """The contents of a model folder.

    Args:
        folder: The folder.
        kind: The kind of model, which determines its loader.
        content: Contents of config.json, with the arrays filled in.
        weights: Parameters of a network by name; empty for a model that has none.
    """

    folder: Path
    kind: str
    content: Content
    weights: Arrays

    def refuse_larger(self, *sizes: Mapping[str, object]) -> None:
        """Refuses a setting larger than every dimension of the stored weights, before such a network is built.

        Args:
            sizes: Settings by name; only whole numbers are checked.
        """
        shapes = [array.shape for array in self.weights.values()]
        largest = max((len(shapes), *(size for shape in shapes for size in shape)))
        for name, value in ((name, value) for group in sizes for name, value in group.items()):
            if isinstance(value, int) and value > largest:
                raise LimnerError(
                    f"{self.folder}: {name}={value:,} is larger than any of these weights ({largest:,}); {_REPAIR}"
                )


def write(
    path: str | Path,
    kind: str,
    content: Mapping[str, object],
    *,
    weights: Arrays | None = None,
    beside: Callable[[Path], object] | None = None,
) -> Path:
    """Writes a model folder, replacing an existing one.

    Args:
        path: The folder.
        kind: The kind of model, which determines its loader.
        content: Values for config.json: nested dicts, lists, plain values and arrays.
        weights: Parameters of a network by name.
        beside: Function that writes further files into the folder; `limner.core.files.MODEL` lists their names.
    """
    from safetensors.numpy import save_file

    tensors: dict[str, Array] = {
        f"{_MODULE}{name}": np.ascontiguousarray(array) for name, array in (weights or {}).items()
    }
    config = {"limner": kind, "format": FORMAT, "version": VERSION, **pack(dict(content), tensors, _CONTENT)}
    head = json.dumps({"kind": kind, "format": FORMAT, "sha256": fingerprint(tensors, kind)})
    with replacing_model(path) as draft:
        save_file(tensors, draft / WEIGHTS, {"limner": head})  # a single entry: the order of several is not fixed
        if beside is not None:
            beside(draft)
        write_text(draft / CONFIG, json.dumps(config, ensure_ascii=False, indent=1) + "\n")
    return Path(path)


def read(path: str | Path, kind: str) -> SavedModel:
    """Reads a model folder; refuses another kind, an unknown format and damaged files."""
    folder = Path(path)
    if not (folder / CONFIG).exists():
        raise LimnerError(
            f"no model {folder}: expected a folder with {CONFIG}, as model.save({str(folder)!r}) writes it"
        )
    config = _config(folder)
    with damage_told(folder, what="saved model", mend="save it again"):
        number = config.get("format")
        if config.get("limner") != kind or number != FORMAT:
            raise LimnerError(
                f"{folder} is a model of kind {config.get('limner')!r}, format {number}: expected {kind!r}, format "
                f"{FORMAT}"
            )
        tensors = _tensors(folder / WEIGHTS)
        weights = {name.removeprefix(_MODULE): a for name, a in tensors.items() if name.startswith(_MODULE)}
        return SavedModel(folder, kind, unpack(config, tensors), weights)


def kind_of(path: str | Path) -> str:
    """The kind of the model in a folder; refuses a folder that is not a model."""
    folder = Path(path)
    try:
        return str(_config(folder)["limner"])
    except (LimnerError, KeyError) as error:
        raise LimnerError(
            f"{folder} is not a saved model: expected a config.json with a kind under 'limner' in it ({error})"
        ) from error


def is_model(path: str | Path) -> bool:
    """Whether a folder is marked as a saved model of limner."""
    try:
        return Path(path).is_dir() and bool(kind_of(path))
    except LimnerError:
        return False


def part(path: str | Path, name: str) -> Any:
    """One entry of a model's config.json, with its arrays, or None; the other arrays are not read."""
    from safetensors import safe_open

    folder = Path(path)
    entry = _config(folder).get(name)
    if entry is None:
        return None
    with damage_told(folder, what="saved model", mend=_REPAIR), safe_open(folder / WEIGHTS, "numpy") as archive:
        return unpack(entry, {key: archive.get_tensor(key) for key in _names(entry)})


def _names(value: object) -> list[str]:
    """The names of the tensors in a packed value."""
    if isinstance(value, dict):
        return [value[_TENSOR]] if set(value) == {_TENSOR} else [n for item in value.values() for n in _names(item)]
    return [n for item in value for n in _names(item)] if isinstance(value, list) else []


def _config(folder: Path) -> dict[str, object]:
    config = read_json(folder / CONFIG, what="model")
    if not isinstance(config, dict):
        raise LimnerError(f"{folder / CONFIG} does not describe a model: save the model again")
    return config


def _tensors(file: Path) -> dict[str, Array]:
    from safetensors import safe_open

    refuse_irregular(file, what="model")
    if not file.is_file():
        raise LimnerError(f"no model {file}: expected a .safetensors file")
    with damage_told(file, what="model", mend=_REPAIR), safe_open(file, framework="numpy") as archive:
        head = archive.metadata() or {}
        tensors = {name: archive.get_tensor(name) for name in archive.keys()}  # noqa: SIM118  # it is no mapping
    with damage_told(file, what="model", mend=_REPAIR):
        promised = parse_json(head["limner"], where="header of a model")
        about, expected = str(promised["kind"]), str(promised["sha256"])
    if fingerprint(tensors, about) != expected:
        raise LimnerError(f"model {file} is damaged: its contents do not match its fingerprint; {_REPAIR}")
    return tensors


def fingerprint(tensors: Arrays, about: str) -> str:
    """SHA-256 of all names, types, shapes and values, and of the metadata.

    >>> fingerprint({"a": np.zeros(2)}, "{}") == fingerprint({"a": np.zeros(2)}, "{}")
    True
    >>> fingerprint({"a": np.zeros(2)}, "{}") == fingerprint({"a": np.zeros((1, 2))}, "{}")
    False
    """
    named = ((name, array.dtype.name, array.shape, array) for name, array in sorted(tensors.items()))
    return sha256_of(((name, kind, shape, _bytes(content)) for name, kind, shape, content in named), about)


def sha256_of(parts: Iterable[tuple[str, str, tuple[int, ...], Any]], about: str) -> str:
    """SHA-256 of arrays in the order of their names: (name, type, shape, bytes), with torch's names of types."""
    digest = hashlib.sha256(about.encode())
    for name, kind, shape, content in parts:
        digest.update(f"{name} torch.{kind} {tuple(shape)}".encode())
        digest.update(content)
    return digest.hexdigest()


def _bytes(array: Array) -> object:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def pack(value: object, tensors: dict[str, Array], name: str) -> Any:
    """Converts nested dicts, lists and arrays to JSON values; arrays go to `tensors`, named by their position.

    >>> tensors = {}
    >>> pack({"a": [1, np.zeros(2)]}, tensors, "m"), list(tensors)
    ({'a': [1, {'tensor': 'm.a.1'}]}, ['m.a.1'])
    """
    if isinstance(value, np.ndarray):
        tensors[name] = np.ascontiguousarray(value)
        return {_TENSOR: name}
    if isinstance(value, Mapping):
        return {str(key): pack(item, tensors, f"{name}.{key}") for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [pack(item, tensors, f"{name}.{place}") for place, item in enumerate(value)]
    return value.item() if isinstance(value, np.generic) else value


def unpack(value: object, tensors: Arrays) -> Any:
    """The inverse of `pack`, with lists in place of tuples."""
    if isinstance(value, dict):
        if set(value) == {_TENSOR}:
            return tensors[value[_TENSOR]]
        return {key: unpack(item, tensors) for key, item in value.items()}
    return [unpack(item, tensors) for item in value] if isinstance(value, list) else value
