"""Locates the files of a model: a folder, an installed package, the cache of the hub, or the hub itself."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import logging
import re
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from limner.core.errors import LimnerError, shown
from limner.core.hub import commit_of, hub_switched
from limner.core.paths import damage_told
from limner.encoders.hub import HubModel
from limner.encoders.model_files import TORCH, needed_files
from limner.encoders.model_folders import refuse_code


def folder_of(model: str | Path, *, purpose: str, layout: str = TORCH, variant: str | None = None) -> Path:
    """The folder of a model, downloaded if it is only on the hub.

    Args:
        model: A folder, or the name of a repository on the Hugging Face hub, such as "xlm-roberta-base"; with
            "@REVISION" a branch, a tag or a commit of it.
        purpose: The feature that needs it; used in error messages only.
        layout: The library that reads it: one of `limner.encoders.model_files.LAYOUTS`.
        variant: Of an ONNX export; see `limner.encoders.model_files.onnx_networks`.
    """
    path = Path(model)
    if path.is_dir():
        return refuse_code(path)
    if path.is_absolute() or str(model).startswith(("./", "../", "~")) or path.exists():
        raise LimnerError(f"{purpose}: no folder {path}; expected one with config.json, weights and tokenizer")
    return refuse_code(HubModel.named(str(model), purpose=purpose).folder(layout, variant=variant))


def pretrained(make: Callable[..., object], folder: Path, **options: object) -> Any:
    """Loads a folder with transformers or sentence-transformers; code in it is never run.

    Args:
        make: A `from_pretrained` of the library, or a class that takes the folder.
        folder: The folder of the model, as returned by `folder_of`.
        options: Further arguments.
    """
    with damage_told(folder, what="model that its library can load"), hub_switched(off=True), _quiet_library():
        # An absolute path: the library takes a relative one for the name of a repository, and fetches what is missing.
        return make(str(folder.absolute()), trust_remote_code=False, local_files_only=True, **options)


@contextmanager
def _quiet_library() -> Iterator[None]:
    """Hides progress bars and advice to developers of transformers; its errors are raised as before."""
    library: Any = importlib.import_module("transformers.utils.logging")
    level, has_bars = library.get_verbosity(), library.is_progress_bar_enabled()
    library.set_verbosity_error()
    library.disable_progress_bar()
    try:
        yield
    finally:
        library.set_verbosity(level)
        if has_bars:
            library.enable_progress_bar()


def trained(make: Callable[..., object], folder: Path, *, unused: str = "", **options: object) -> Any:
    """Loads a model as `pretrained`; refuses one without all its weights, which its library would make up.

    Args:
        make: A `from_pretrained` of the library, or a class that takes the folder.
        folder: The folder of the model, as returned by `folder_of`.
        unused: A part of the model that limner does not use: "pooler".
        options: Further arguments.
    """
    with _weights_made_up() as names:
        model = pretrained(make, folder, **options)
    missing = sorted(name for name in names if unused not in name.split("."))
    if missing:
        raise LimnerError(
            f"{folder} lacks {len(missing):,} of its model's weights ({shown(missing)}), and random numbers would take "
            "their place: download the model again, or use one that was trained for this"
        )
    return model


@contextmanager
def _weights_made_up() -> Iterator[list[str]]:
    """Collects the names of weights that transformers initialises because a folder lacks them, in place of its log."""
    names: list[str] = []

    def collect(record: logging.LogRecord) -> bool:
        message = record.getMessage()
        if "newly initialized" not in message:
            return True
        names.extend(first or second for first, second in _NAMES.findall(message))
        return False

    logger = logging.getLogger("transformers.modeling_utils")
    level = logger.level
    logger.setLevel(logging.WARNING)
    logger.addFilter(collect)
    try:
        yield names
    finally:
        logger.removeFilter(collect)
        logger.setLevel(level)


# Versions before 5 list the names in quotes, later ones in a table.
_NAMES = re.compile(r"'([\w.]+)'|^(\S.*?)\s*\|\s*(?:\x1b\[[\d;]*m)*MISSING", re.MULTILINE)


def package_file(package: str, *parts: str, purpose: str) -> Path:
    """A file inside an installed package, without importing the package."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        name = package.replace("_", "-")
        raise LimnerError(f"{purpose} needs the package {name!r}, which is not installed: pip install {name}")
    return Path(spec.origin).parent.joinpath(*parts)


def fingerprint_of(folder: str | Path) -> str:
    """A hash of all files that determine a model's output, independent of the folder name.

    In the cache of the hub, what other libraries need of the same model does not count: another program may add it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "config.json").write_text("{}")
    ...     before = fingerprint_of(folder)
    ...     _ = Path(folder, "vocab.txt").write_text("dog")
    ...     before == fingerprint_of(folder)
    False
    """
    source = Path(folder)
    files = [source] if source.is_file() else sorted(f for f in source.rglob("*") if f.suffix in _DECIDING)
    if commit_of(source) is not None:
        names = {file.relative_to(source).as_posix(): file for file in files}
        files = [names[name] for name in sorted(_for_torch(names))]
    digest = hashlib.blake2b(digest_size=8)
    for file in files:
        digest.update(_hash(file, file.stat().st_mtime_ns))
    return digest.hexdigest()


def _for_torch(names: Collection[str]) -> Collection[str]:
    try:
        return needed_files(names, TORCH)
    except LimnerError:  # no weights for torch: those of ONNX Runtime or open_clip
        return names


_DECIDING = (".json", ".safetensors", ".bin", ".txt", ".model", ".pth", ".pt", ".npz", ".npy", ".onnx")


@cache
def _hash(file: Path, _: int) -> bytes:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16)).digest()
