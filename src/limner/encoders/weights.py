"""Weights saved by torch: tensors by name, without arbitrary unpickling."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from limner.core.errors import LimnerError, MissingExtra, shown

if find_spec("torch") is None:
    raise MissingExtra("weights of a network", "torch", "gpu")

from torch import Tensor, nn

from limner.core.paths import damage_told
from limner.core.tensor_files import unpickled

_WRAPPERS = ("state_dict_ema", "model_ema", "state_dict", "model")
"""Keys under which training scripts store the weights; averaged (EMA) ones first, as in timm."""

_EXPECTED = "weights saved with torch.save(model.state_dict(), FILE), or a .safetensors file"


def read_weights(file: Path) -> dict[str, Tensor]:
    """Tensors by name from a .safetensors file, or from a .pth or .pt file that contains only data."""
    if not file.is_file():
        raise LimnerError(f"no weights {file}: expected a .safetensors, .pth or .pt file")
    with damage_told(file, what="file of weights"):
        if file.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(file)
        held = unpickled(file, expected=_EXPECTED)
        found = next((held[key] for key in _WRAPPERS if isinstance(held.get(key), Mapping)), held)
        return {_plain(name): tensor for name, tensor in found.items() if isinstance(tensor, Tensor)}


def _plain(name: object) -> str:
    """A parameter name without the prefix that multi-GPU training adds."""
    return str(name).removeprefix("module.")


def fill(module: nn.Module, file: Path) -> None:
    """Loads weights into a module; refuses a file with missing weights, and ignores extra ones."""
    with damage_told(file, what="file of weights"):
        lacking = module.load_state_dict(read_weights(file), strict=False).missing_keys
    if lacking:
        raise LimnerError(f"{file} does not have {len(lacking)} weights of this model: {shown(lacking)}")
