"""Locates the files of a model: a folder, an installed package, the cache of the hub, or the hub itself.

If a model is not on this machine and the hub cannot be reached, the error names the folder and the environment variable
that would make it work offline.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from limner.core.errors import LimnerError
from limner.core.extras import needed
from limner.core.paths import damage_told
from limner.encoders.model_folders import refuse_code

WANTED = ("*.json", "*.safetensors", "*.txt", "*.model", "*.spm")
"""Files to download from a repository: no copies of the weights in other formats."""


def folder_of(model: str | Path, *, what: str, patterns: Sequence[str] = WANTED) -> Path:
    """The folder of a model, downloaded if it is only on the hub.

    Args:
        model: A folder, or the name of a repository on the Hugging Face hub, such as "xlm-roberta-base".
        what: The feature that needs it; used in error messages only.
        patterns: Files to download.
    """
    path = Path(model)
    if path.is_dir():
        return refuse_code(path)
    if path.is_absolute() or str(model).startswith(("./", "../", "~")) or path.exists():
        raise LimnerError(f"{what}: no folder {path}; expected one with config.json, weights and tokenizer")
    hub = needed("huggingface_hub", what=what, extra="onnx")
    held = _fetched(hub, str(model), patterns, local=True)
    if held is None and reachable():
        held = _fetched(hub, str(model), patterns, local=False)
    if held is None:
        raise LimnerError(unreachable(str(model), what=what))
    return refuse_code(held)


def pretrained(make: Callable[..., object], folder: Path, **options: object) -> Any:
    """Loads a folder with transformers or sentence-transformers; code in it is never run.

    Args:
        make: A `from_pretrained` of the library, or a class that takes the folder.
        folder: The folder of the model, as returned by `folder_of`.
        options: Further arguments.
    """
    with damage_told(folder, what="model that its library can load"), hub_switched(off=True):
        # An absolute path: the library takes a relative one for the name of a repository, and fetches what is missing.
        return make(str(folder.absolute()), trust_remote_code=False, local_files_only=True, **options)


def _fetched(hub: ModuleType, model: str, patterns: Sequence[str], *, local: bool) -> Path | None:
    """The snapshot of a repository; None if it is not in the cache or the hub does not answer."""
    try:
        return Path(hub.snapshot_download(model, local_files_only=local, allow_patterns=list(patterns)))
    except hub.errors.HFValidationError as error:
        raise LimnerError(f"model {model!r} is neither a folder nor a name on the hub: {error}") from error
    except Exception:  # any network error: several libraries are involved, without a common base class
        return None


def reachable(*, seconds: float = 3.0) -> bool:
    """Whether the hub answers a short request; its own library would retry for half a minute."""
    constants: Any = importlib.import_module("huggingface_hub.constants")
    if constants.HF_HUB_OFFLINE:
        return False
    if any(os.environ.get(name) for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")):
        return True  # behind a proxy a direct connection says nothing
    address = urlsplit(constants.ENDPOINT)
    try:
        socket.create_connection((address.hostname or "", address.port or 443), timeout=seconds).close()
    except OSError:
        return False
    return True


@contextmanager
def hub_or_cache() -> Iterator[None]:
    """Lets a library that downloads by itself use the hub if it answers, and otherwise only the local cache."""
    with hub_switched(off=not reachable()):
        yield


@contextmanager
def hub_switched(*, off: bool) -> Iterator[None]:
    """Switches the hub on or off for a block, for all libraries that use it."""
    constants: Any = importlib.import_module("huggingface_hub.constants")
    utils: Any = importlib.import_module("huggingface_hub.utils")
    renew = getattr(utils, "reset_sessions", lambda: None)  # up to 0.36 a session stays what it was when it was opened
    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = off
    renew()
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before
        renew()


def unreachable(model: str, *, what: str) -> str:
    """The error for a model that is not on this machine, with the path where it is expected."""
    constants: Any = importlib.import_module("huggingface_hub.constants")
    folder = Path(constants.HF_HUB_CACHE) / f"models--{model.replace('/', '--')}"
    return (
        f"{what}: model {model!r} is not on this machine and its hub cannot be reached. To work offline, give the "
        f"folder with its files (config.json, model.safetensors, tokenizer.json) as model=FOLDER, or copy the hub's "
        f"cache of it to {folder}, or set HF_HOME to a folder whose hub/{folder.name} holds it"
    )


def package_file(package: str, *parts: str, what: str) -> Path:
    """A file inside an installed package, without importing the package."""
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        name = package.replace("_", "-")
        raise LimnerError(f"{what} needs the package {name!r}, which is not installed: pip install {name}")
    return Path(found.origin).parent.joinpath(*parts)


def fingerprint_of(folder: str | Path) -> str:
    """A hash of all files that determine a model's output, independent of the folder name.

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
    digest = hashlib.blake2b(digest_size=8)
    for file in files:
        digest.update(_hash(file, file.stat().st_mtime_ns))
    return digest.hexdigest()


_DECIDING = (".json", ".safetensors", ".bin", ".txt", ".model", ".pth", ".pt", ".npz", ".npy", ".onnx")


@cache
def _hash(file: Path, _: int) -> bytes:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16)).digest()
