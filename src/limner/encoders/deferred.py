"""Encoders that are opened only if something has to be encoded.

Vectors in a cache belong to a model, which is identified by its files. To know the identity, a model had to be opened,
with torch, even if all its vectors were there. So the identity is stored beside the vectors, with a hash of the model's
files. As long as the files, the options, limner, torch and the GPUs are the same, the model stays closed.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from limner.core.arrays import Float32
from limner.core.cache_dir import vectors_folder
from limner.core.collection import Items
from limner.core.errors import LimnerError
from limner.core.files import write_text
from limner.core.paths import folder_for, read_json
from limner.core.version import VERSION
from limner.encoders import ENCODERS, encoder_named
from limner.encoders.contract import digest, encoded
from limner.encoders.offline import fingerprint_of
from limner.scores import Progress

_GPUS = ("nvidia[0-9]*", "kfd", "dxg")
"""Device files of GPUs on Linux."""
_VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
_TYPES = {"fingerprint": str, "identity": str, "dim": int, "kinds": list, "files": dict}


class Deferred:
    """An encoder whose identity is known, opened by the first `encode`.

    Args:
        name: Its name in `limner.encoders.ENCODERS`.
        options: Its options.
        known: What an earlier run stored: `fingerprint`, `identity`, `dim` and `kinds`.
    """

    def __init__(self, name: str, options: Mapping[str, object], known: Mapping[str, Any]) -> None:
        self.name, self.options = name, dict(options)
        self.fingerprint, self.identity = str(known["fingerprint"]), str(known["identity"])
        self.dim, self.kinds = int(known["dim"]), tuple(map(str, known["kinds"]))

    @cached_property
    def encoder(self) -> Any:
        """The encoder itself; refused if it is not the one that was stored."""
        made: Any = encoder_named(self.name, self.options)
        if made.fingerprint != self.fingerprint:
            raise LimnerError(
                f"encoder {self.name!r} is {made.fingerprint!r}, and its cache was written by {self.fingerprint!r}: "
                "delete the files encoder-*.json in the cache folder"
            )
        return made

    def encode(self, items: Items | Sequence[str], *, progress: Progress | None = None) -> Float32:
        """Vectors of items, one row per item."""
        return np.asarray(encoded(self.encoder, items, progress=progress).matrix)


def opened(name: str, options: Mapping[str, object], cache: str | Path | None = None) -> Any:
    """An encoder by name for use with a cache; it is deferred if an earlier run stored its identity there.

    Args:
        name: A key of `limner.encoders.ENCODERS`, options in parentheses allowed, or "module:thing".
        options: Options of the encoder.
        cache: The cache folder; by default the one that all commands share.
    """
    name, options = ENCODERS.parsed(name, options)
    folder = vectors_folder() if cache is None else Path(cache)
    if folder is None or name not in ENCODERS.homes:
        return encoder_named(name, options)
    file = folder / f"encoder-{_key(name, options)}.json"
    known = _read(file)
    if known is not None:
        return Deferred(name, options, known)
    made = encoder_named(name, options)
    _write(file, made)
    return made


def _key(name: str, options: Mapping[str, object]) -> str:
    """A hash of everything besides the model's files that decides its identity."""
    named = {key: _absolute(value) for key, value in sorted(options.items())}
    devices = sorted(place.name for pattern in _GPUS for place in Path("/dev").glob(pattern))
    visible = {variable: os.environ.get(variable) for variable in _VISIBLE}
    machine = [platform.system(), platform.machine(), devices, visible]
    return digest(json.dumps([name, named, VERSION, _torch(), machine], default=str))


def _absolute(value: object) -> object:
    return str(Path(value).resolve()) if isinstance(value, (str, Path)) and Path(value).exists() else value


def _torch() -> str:
    try:
        return version("torch")
    except PackageNotFoundError:
        return ""


def _read(file: Path) -> dict[str, Any] | None:
    """What was stored; None if there is nothing, or if a file of the model has changed."""
    if not file.is_file():
        return None
    try:
        held = read_json(file, what="identity of an encoder")
    except LimnerError:
        return None
    if not isinstance(held, dict) or not all(isinstance(held.get(key), kind) for key, kind in _TYPES.items()):
        return None
    same = all(Path(name).exists() and fingerprint_of(name) == was for name, was in held["files"].items())
    return held if same and held["files"] else None


def _write(file: Path, made: Any) -> None:
    """Stores the identity of an encoder whose files are known; a model of the hub may change and is always opened."""
    files = [Path(each).resolve() for each in getattr(made, "files", ())]
    if not files or any(part.startswith("models--") for each in files for part in each.parts):
        return
    known = {"fingerprint": made.fingerprint, "identity": made.identity, "dim": int(made.dim)}
    held = {**known, "kinds": list(made.kinds), "files": {str(each): fingerprint_of(each) for each in files}}
    folder_for(file.parent)
    write_text(file, json.dumps(held, indent=1))
