"""Files saved by torch: tensors and plain values, read without arbitrary unpickling."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, BadZipFile, ZipFile, is_zipfile

from limner.core.arrays import Array, array
from limner.core.errors import LimnerError, shown
from limner.core.extras import require

ENDINGS = (".pt", ".pth")


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
