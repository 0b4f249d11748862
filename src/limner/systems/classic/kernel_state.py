"""The saved state of fitted kernels and their features."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from typing import Any

from limner.core.arrays import Array
from limner.core.errors import LimnerError
from limner.core.ids import Ids
from limner.core.model_store import pack
from limner.core.registry import Registry
from limner.encoders.contract import digest
from limner.systems.classic.histograms import WordHistograms

KERNELS: Registry[object] = Registry(
    "kernel",
    {
        place: place
        for place in (
            "limner.systems.classic.kernels:FittedPyramid",
            "limner.systems.classic.kernels:FittedFeatures",
            "limner.systems.classic.strings:FittedStringKernel",
            "limner.systems.classic.strings:FittedOverlapF1",
            "limner.papers.tagrank:FittedTagRank",
            "limner.papers.lexical_kernel:FittedLexicalKernel",
        )
    },
)
"""Fitted kernels that a saved model may use, by name; your own kernels need `trust`."""


def fingerprint(kind: str, content: Mapping[str, object]) -> str:
    """A hash of everything in a model except its name."""
    tensors: dict[str, Array] = {}
    described = json.dumps(pack({key: value for key, value in content.items() if key != "name"}, tensors, "model"))
    return f"{kind} {digest(described, *tensors.values())}"


def kernel_state(kernel: Any) -> dict[str, object]:
    """The state of a fitted kernel, with the name of its class."""
    return {"class": f"{type(kernel).__module__}:{type(kernel).__qualname__}", "state": kernel.state()}


def kernel_from(held: Mapping[str, object], *, trust: bool) -> object:
    """Restores a fitted kernel from its `kernel_state`.

    Args:
        held: The state, as read from a file.
        trust: Whether the file may name a custom kernel, or a kernel's custom tagger.
    """
    kind = KERNELS.find(str(held["class"]), trusted=trust)
    if not hasattr(kind, "from_state"):
        raise LimnerError(f"{held['class']} in a saved model is not a kernel: expected a class with from_state")
    told = {"trust": trust} if "trust" in inspect.signature(kind.from_state).parameters else {}
    return kind.from_state(held["state"], **told)


def features_state(features: object) -> dict[str, object]:
    """The state of features: histograms, or a feature matrix."""
    if isinstance(features, WordHistograms):
        return {"ids": list(features.ids), "counts": dict(features.counts)}  # the kernel has the words
    return {"matrix": features}


def features_from(held: Mapping[str, Any]) -> object:
    """The inverse of `features_state`."""
    if "counts" in held:
        return WordHistograms(Ids(held["ids"], what="image"), held["counts"])
    return held["matrix"]
