"""Tensors: files of numpy or torch, read without arbitrary unpickling; torch, imported on first use; its devices."""

from __future__ import annotations

import os
import pickle
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any, BinaryIO
from zipfile import ZIP_STORED, BadZipFile, ZipFile, is_zipfile

import numpy as np

from limner.core.arrays import Array, array
from limner.core.errors import LimnerError, shown
from limner.core.extras import needed, require
from limner.core.paths import damage_told, refuse_missing_file

ENDINGS = (".pt", ".pth")
_LEGACY = 0x1950A86A20F9469CFC6C
"""The number at the start of a file that torch wrote before 1.6."""
_STORAGES = MappingProxyType({"FloatStorage": np.dtype("<f4"), "LongStorage": np.dtype("<i8")})


def unpickled(file: str | Path, *, expected: str, mapped: bool = False) -> Any:
    """Loads a torch file with the restricted unpickler, which accepts tensors and plain values only.

    Args:
        file: The file.
        expected: The expected contents, for error messages.
        mapped: Maps the tensors into memory where the format allows it, so that they are not read.
    """
    require("torch", what=f"reading {file}")
    import torch

    is_archive = is_zipfile(file)
    if is_archive:
        _refuse_compressed(file)
    try:
        return torch.load(file, map_location="cpu", weights_only=True, mmap=mapped and is_archive)
    except pickle.UnpicklingError as error:  # torch's own message recommends lifting the restriction
        raise LimnerError(f"{file} holds more than tensors, or is damaged: expected {expected}") from error


def _refuse_compressed(file: str | Path) -> None:
    """Refuses what torch does not write: a compressed pickle may be far larger than its file."""
    try:
        with ZipFile(file) as archive:
            packed = [each.filename for each in archive.infolist() if each.compress_type != ZIP_STORED]
    except (BadZipFile, ValueError, NotImplementedError) as error:
        raise LimnerError(f"{file} is a damaged file of torch ({error}): put back a good copy") from error
    if packed:
        raise LimnerError(
            f"{file} is compressed ({shown(packed)}), as torch does not write it: save it with torch.save"
        )


def read_array(path: str | Path, *, what: str) -> Array:
    """The memory-mapped array of an npy file, or the tensor of a pt file, without arbitrary unpickling."""
    refuse_missing_file(path, what, "an .npy file")
    if Path(path).suffix.lower() in ENDINGS:
        with damage_told(path, what="file of a tensor", mend="save it again with torch.save"):
            return read_tensors(path)[0]
    with damage_told(path, what="npy file of numbers", mend="save it again with np.save"):
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    if not isinstance(array, np.ndarray):
        raise LimnerError(f"{what} {path} is an archive: expected one array, as np.save writes it")
    return array


def read_tensors(file: str | Path) -> tuple[Array, list[str] | None]:
    """The tensor in a file, and its ids; the file has a tensor, or {"embeddings": tensor, "ids": [...]}."""
    content = unpickled(file, expected="a tensor that was saved with torch.save(tensor, FILE)")
    if hasattr(content, "detach"):
        return array(content, str(file)), None
    tensors = {k: v for k, v in content.items() if hasattr(v, "detach")} if isinstance(content, Mapping) else {}
    usual = [k for k in ("embeddings", "matrix", "vectors", "features") if k in tensors] or list(tensors)
    if not tensors or (len(tensors) > 1 and len(usual) == len(tensors)):
        raise LimnerError(
            f"{file} holds {shown(map(str, tensors)) if tensors else type(content).__name__}: expected one tensor, or "
            "a mapping with one tensor, or with one named 'embeddings'"
        )
    ids = content.get("ids")
    return array(tensors[usual[0]], str(file)), [str(i) for i in ids] if isinstance(ids, (list, tuple)) else None


def write_tensors(file: str | Path, matrix: Array, ids: list[str]) -> None:
    """Writes a file for `read_tensors`."""
    require("torch", what=f"writing {file}")
    import torch

    torch.save({"embeddings": torch.tensor(matrix), "ids": ids}, file)


# --- without torch ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _StoredTensor:
    """A tensor of a legacy file, before its numbers are read.

    Args:
        storage: The key of its numbers, and their type.
        offset: The place of the first number.
        shape: Its shape.
        steps: Numbers from one entry to the next, along each axis.
    """

    storage: tuple[str, np.dtype[Any]]
    offset: int
    shape: tuple[int, ...]
    steps: tuple[int, ...]

    @classmethod
    def rebuilt(cls, storage: Any, offset: int, shape: Sequence[int], steps: Sequence[int], *_: object) -> Any:
        """Stands in for torch's function of the same arguments."""
        return cls(storage, offset, tuple(shape), tuple(steps))

    def read(self, numbers: Array) -> Array:
        """The tensor as an array of its own."""
        last = self.offset + sum((length - 1) * step for length, step in zip(self.shape, self.steps, strict=True))
        if min((self.offset, *self.shape, *self.steps)) < 0 or last >= len(numbers):
            raise ValueError(f"a tensor ends at number {last:,} of {len(numbers):,}")
        bytes_apart = tuple(step * numbers.itemsize for step in self.steps)
        return np.lib.stride_tricks.as_strided(numbers[self.offset :], self.shape, bytes_apart).copy(order="C")


class _TensorsOnly(pickle.Unpickler):
    """Reads the description of tensors, without torch; anything else that a file names is refused."""

    def find_class(self, module: str, name: str) -> object:
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _StoredTensor.rebuilt
        if module == "torch" and name in _STORAGES:
            return _STORAGES[name]
        raise pickle.UnpicklingError(f"{module}.{name}")

    def persistent_load(self, pid: tuple[object, ...]) -> object:
        return str(pid[2]), pid[1]


def read_legacy_weights(file: str | Path) -> dict[str, Array]:
    """The weights in a file that torch wrote before version 1.6, without torch.

    Args:
        file: The file: names with tensors of 32-bit floats or 64-bit integers, and nothing else.
    """
    expected = "weights of a model that torch before 1.6 saved"
    with Path(file).open("rb") as stream, damage_told(Path(file), what=expected):
        if _plain(stream) != _LEGACY:
            raise LimnerError(f"{file} has another format: expected {expected}")
        _plain(stream), _plain(stream)  # the version of the format, the sizes of C types
        tensors, keys = _plain(stream), _plain(stream)
        types = dict(tensor.storage for tensor in tensors.values())
        numbers = {}
        for key in keys:
            size = int.from_bytes(stream.read(8), "little")
            content = stream.read(size * types[key].itemsize)
            numbers[key] = np.frombuffer(content, types[key], size)
        return {str(name): tensor.read(numbers[tensor.storage[0]]) for name, tensor in tensors.items()}


def _plain(stream: BinaryIO) -> Any:
    return _TensorsOnly(stream).load()


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
