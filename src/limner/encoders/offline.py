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
from limner.core.paths import damage_told, read_json

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
        return _data_only(path)
    if path.is_absolute() or str(model).startswith(("./", "../", "~")) or path.exists():
        raise LimnerError(f"{what}: no folder {path}; expected one with config.json, weights and tokenizer")
    hub = needed("huggingface_hub", what=what, extra="onnx")
    held = _fetched(hub, str(model), patterns, local=True)
    if held is None and reachable():
        held = _fetched(hub, str(model), patterns, local=False)
    if held is None:
        raise LimnerError(unreachable(str(model), what=what))
    return _data_only(held)


def _data_only(folder: Path) -> Path:
    """Refuses a folder whose files would make the libraries import or download code: a model must be pure data."""
    for module in _json(folder / "modules.json", list):
        kind = module.get("type") if isinstance(module, dict) else module
        if not str(kind).startswith("sentence_transformers."):
            raise LimnerError(f"{folder / 'modules.json'} asks for the class {kind!r}: {_NO_CODE}")
    for file in sorted(folder.glob("*/config.json")):
        activation = _json(file, dict).get("activation_function", "torch.")
        if not str(activation).startswith("torch."):
            raise LimnerError(f"{file} asks for the function {activation!r}: {_NO_CODE}")
    config = _json(folder / "config.json", dict)
    _refuse_larger(folder, config)
    for name in ("attn_implementation", "_attn_implementation", "_attn_implementation_internal"):
        if "/" in str(config.get(name)):
            raise LimnerError(f"{folder / 'config.json'} asks for the compiled kernel {config[name]!r}: {_NO_CODE}")
    return folder


def _refuse_larger(folder: Path, config: dict[str, object]) -> None:
    """Refuses sizes larger than any safetensors weight, before the library builds a network of that size."""
    shapes = [shape for file in sorted(folder.glob("*.safetensors")) for shape in _shapes(file)]
    parts = [config, *({**part, "projection_dim": 0} for part in config.values() if isinstance(part, dict))]
    most = max((len(shapes), *(size for shape in shapes for size in shape))) if shapes else None
    for name, value in ((name, value) for part in parts for name, value in part.items() if name in _SIZES):
        if most is not None and isinstance(value, int) and value > most:
            raise LimnerError(f"{folder}: {name}={value:,} is larger than any of its weights ({most:,})")


_SIZES = (
    "num_hidden_layers", "num_layers", "n_layer", "hidden_size", "d_model", "intermediate_size", "vocab_size",
    "type_vocab_size", "projection_dim", "num_attention_heads",
)  # fmt: skip


def _shapes(file: Path) -> list[list[int]]:
    from safetensors import safe_open

    with damage_told(file, what="safetensors file"), safe_open(file, framework="numpy") as archive:
        return [archive.get_slice(name).get_shape() for name in archive.keys()]  # noqa: SIM118  # it is no mapping


_NO_CODE = "limner does not run code from a model; use a model that its library supports without custom code"


def _json(file: Path, kind: type[object]) -> Any:
    """The contents of a JSON file if it exists and is an object; the library itself reports other errors."""
    try:
        held = read_json(file, what="model")
    except LimnerError:
        return kind()
    return held if isinstance(held, kind) else kind()


def pretrained(make: Callable[..., object], folder: Path, **options: object) -> Any:
    """Loads a folder with transformers or sentence-transformers; code in it is never run.

    Args:
        make: A `from_pretrained` of the library, or a class that takes the folder.
        folder: The folder of the model, as returned by `folder_of`.
        options: Further arguments.
    """
    with damage_told(folder, what="model that its library can load"):
        return make(str(folder), trust_remote_code=False, **options)


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
    constants: Any = importlib.import_module("huggingface_hub.constants")
    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = not reachable()
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


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
