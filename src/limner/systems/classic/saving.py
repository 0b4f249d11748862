"""Saved models of this package: a folder with what can be read (config.json) and what is large (model.safetensors)."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from limner.core.errors import LimnerError
from limner.core.files import replacing_model, write_text
from limner.core.ids import Ids
from limner.core.paths import damage_told, read_json
from limner.core.registry import resolve
from limner.encoders.contract import digest
from limner.systems.classic.histograms import Histograms

FORMAT = 1
CONFIG, TENSORS = "config.json", "model.safetensors"
_TENSOR = "tensor"

KERNELS: Mapping[str, str] = MappingProxyType(
    {
        place: place
        for place in (
            "limner.systems.classic.kernels:FittedPyramid",
            "limner.systems.classic.kernels:FittedFeatures",
            "limner.systems.classic.strings:FittedStringKernel",
            "limner.systems.classic.strings:FittedOverlapF1",
            "limner.systems.classic.tagrank:FittedTagRank",
            "limner.systems.classic.lexical:FittedLexicalKernel",
        )
    }
)
"""Fitted kernels that a saved model may name, as it names them; one of your own needs trust."""
_HOME, _OLD_HOME = "limner.systems.classic.", "limner.classic."  # the latter in limner 0.1, as its models name it


def pack(value: Any, tensors: dict[str, npt.NDArray[Any]], name: str) -> Any:
    """Plain JSON values for a nest of dicts, lists and arrays; arrays go to `tensors`, under names that tell where.

    >>> tensors = {}
    >>> pack({"a": [1, np.zeros(2)]}, tensors, "m"), list(tensors)
    ({'a': [1, {'tensor': 'm.a.1'}]}, ['m.a.1'])
    """
    if isinstance(value, np.ndarray):
        tensors[name] = np.ascontiguousarray(value)
        return {_TENSOR: name}
    if isinstance(value, Mapping):
        return {str(key): pack(held, tensors, f"{name}.{key}") for key, held in value.items()}
    if isinstance(value, (list, tuple)):
        return [pack(held, tensors, f"{name}.{place}") for place, held in enumerate(value)]
    return value.item() if isinstance(value, np.generic) else value


def unpack(value: Any, tensors: Mapping[str, npt.NDArray[Any]]) -> Any:
    """What `pack` was given, lists for tuples."""
    if isinstance(value, dict):
        if set(value) == {_TENSOR}:
            return tensors[value[_TENSOR]]
        return {key: unpack(held, tensors) for key, held in value.items()}
    return [unpack(held, tensors) for held in value] if isinstance(value, list) else value


def write(folder: str | Path, kind: str, content: Mapping[str, Any]) -> Path:
    """Writes a model; `kind` is the word by which `limner.systems.load` knows what reads it."""
    from safetensors.numpy import save_file

    tensors: dict[str, npt.NDArray[Any]] = {}
    config = {"limner": kind, "format": FORMAT, **pack(dict(content), tensors, "model")}
    with replacing_model(folder) as draft:
        save_file(tensors, draft / TENSORS)
        write_text(draft / CONFIG, json.dumps(config, ensure_ascii=False, indent=1))
    return Path(folder)


def fingerprint(kind: str, content: Mapping[str, Any]) -> str:
    """A hash of everything in a model but its name; kernels count by their first names, so that indexes stay valid."""
    tensors: dict[str, npt.NDArray[Any]] = {}
    told = json.dumps(pack({key: held for key, held in content.items() if key != "name"}, tensors, "model"))
    told = told.replace(f'"{_HOME}', f'"{_OLD_HOME}')
    return f"{kind} {digest(told, *tensors.values())}"


def read(folder: str | Path, kind: str) -> dict[str, Any]:
    """Reads what `write` wrote, and refuses what it did not."""
    from safetensors.numpy import load_file

    source = Path(folder)
    if not source.is_dir():
        raise LimnerError(f"no model {source}: train one and save it with model.save({str(source)!r})")
    with damage_told(source, what="saved model", mend="save it again"):
        config = read_json(source / CONFIG, what="model")
        if (config.get("limner"), config.get("format")) != (kind, FORMAT):
            raise LimnerError(
                f"{source} is a model of kind {config.get('limner')!r}, format {config.get('format')}: expected "
                f"{kind!r}, format {FORMAT}"
            )
        return dict(unpack(config, load_file(source / TENSORS)))


def kernel_state(kernel: Any) -> dict[str, Any]:
    """A fitted kernel with the name of its class."""
    return {"class": f"{type(kernel).__module__}:{type(kernel).__qualname__}", "state": kernel.state()}


def kernel_from(held: Mapping[str, Any], *, trust: bool) -> Any:
    """The fitted kernel whose `kernel_state` this is.

    Args:
        held: The state, as a file has it.
        trust: Whether the file may name a kernel, or the tagger of one, that is not limner's own.
    """
    place = str(held["class"])
    if place.startswith(_OLD_HOME):
        place = _HOME + place.removeprefix(_OLD_HOME)
    kind = resolve(place, KERNELS, what="kernel", trusted=trust)
    if not hasattr(kind, "from_state"):
        raise LimnerError(f"{held['class']} in a saved model is no kernel: expected a class with from_state")
    told = {"trust": trust} if "trust" in inspect.signature(kind.from_state).parameters else {}
    return kind.from_state(held["state"], **told)


def features_state(features: Any) -> dict[str, Any]:
    """Histograms, or a matrix of features."""
    if isinstance(features, Histograms):
        return {"ids": list(features.ids), "counts": dict(features.counts)}  # the kernel has the words
    return {"matrix": features}


def features_from(held: Mapping[str, Any]) -> Any:
    """What `features_state` was given."""
    if "counts" in held:
        return Histograms(Ids(held["ids"], what="image"), held["counts"])
    return held["matrix"]
