"""torch, imported on first use: its devices, its precision and its tensors."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from limner.core.arrays import Array
from limner.core.errors import LimnerError
from limner.core.extras import needed

if TYPE_CHECKING:
    import torch

    Device = torch.device
    Tensor = torch.Tensor


def torch_module() -> ModuleType:
    """Imports torch, or raises an error with the pip command."""
    return needed("torch", what="scores on a GPU")


def device_named(name: str | Device) -> Device:
    """The torch device with this name: "auto" (a GPU if there is one), "cpu", "cuda", "cuda:1"; or a device itself.

    With several processes on one machine, each uses the GPU of its local rank by default.
    """
    torch, local = torch_module(), int(os.environ.get("LOCAL_RANK", "0"))
    if name == "auto":
        name = f"cuda:{local}" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError) as error:
        raise LimnerError(f"unknown device {name!r}: expected auto, cpu, cuda or cuda:1 ({error})") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise LimnerError(f"device {name!r}: torch sees no GPU; use device='cpu' or 'auto'")
    place: Device = torch.device("cuda", local) if device.type == "cuda" and device.index is None else device
    return place


@contextmanager
def full_precision() -> Iterator[None]:
    """Computes products in full single precision, not TF32, whatever the global setting of torch."""
    torch = torch_module()
    before = torch.get_float32_matmul_precision()
    if before == "highest":
        yield
        return
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def on_host(tensor: Tensor) -> Array:
    """A tensor as a numpy array."""
    return np.asarray(tensor.detach().cpu().numpy())
