"""Fetches models from the Hugging Face hub, completes what its cache has in part, and says why fetching failed."""

from __future__ import annotations

import errno
import glob
import importlib
import os
import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from limner.core.errors import LimnerError, shown
from limner.core.extras import needed
from limner.core.paths import read_json

WANTED = ("*.json", "*.safetensors", "*.txt", "*.model", "*.spm")
"""Files to download from a repository; where a folder has no weights in .safetensors files, those of torch come too."""
ONNX = ("*.json", "*.txt", "*.onnx", "*.onnx_data", "onnx/*.onnx")
"""Files to download for ONNX Runtime."""
SECONDS = 10.0
"""How long the hub may take to begin an answer."""

_OLD_WEIGHTS = re.compile(r"pytorch_model(-\d+-of-\d+)?\.bin")
_INDEXES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
_WEIGHTS = "model.safetensors"
_LOG_IN = "log in with 'hf auth login', or set HF_TOKEN to a token of your account"


# --- fetching ---------------------------------------------------------------------------------------------------


def snapshot(model: str, patterns: Sequence[str], *, purpose: str) -> Path:
    """The folder of a repository in the cache of the hub; what is missing there is downloaded.

    Args:
        model: The name of the repository.
        patterns: `WANTED` or `ONNX`.
        purpose: The feature that needs it; used in error messages only.
    """
    hub = needed("huggingface_hub", what=purpose)
    cached = _cached(hub, model)
    missing = missing_files(cached, patterns) if cached else []
    if cached and not missing:
        return cached
    if not reachable():
        raise LimnerError(refusal(model, None, purpose=purpose, missing=missing))
    try:
        names = [each.rfilename for each in hub.HfApi().model_info(model, timeout=SECONDS).siblings or ()]
        chosen = [glob.escape(name) for name in _chosen(names, patterns, model)]
        return Path(hub.snapshot_download(model, allow_patterns=chosen))
    except LimnerError:
        raise
    except Exception as error:  # several libraries are involved, without a common base class
        raise LimnerError(refusal(model, error, purpose=purpose, missing=missing)) from error


def _cached(hub: Any, model: str) -> Path | None:
    """The snapshot in the cache, perhaps incomplete; None if there is none."""
    try:
        return Path(hub.snapshot_download(model, local_files_only=True))
    except hub.errors.HFValidationError as error:
        raise LimnerError(f"model {model!r} is neither a folder nor a name on the hub: {error}") from error
    except hub.errors.LocalEntryNotFoundError as error:
        place = getattr(error, "snapshot_path", None)  # versions from 2.0 on know of files that are missing
        return None if place is None else Path(place)


def _chosen(names: Sequence[str], patterns: Sequence[str], model: str) -> list[str]:
    """The files of a repository to download."""
    chosen = [name for name in names if any(fnmatch(name, pattern) for pattern in patterns)]
    if WANTED[1] in patterns:
        safe = {str(PurePosixPath(name).parent) for name in chosen if name.endswith(".safetensors")}
        old = [PurePosixPath(name) for name in names if _OLD_WEIGHTS.fullmatch(PurePosixPath(name).name)]
        chosen += [str(name) for name in old if str(name.parent) not in safe]
    endings = (".onnx",) if ".onnx" in "".join(patterns) else (".safetensors", ".bin")
    if not any(name.endswith(endings) for name in chosen):
        expected = "*.onnx" if ".onnx" in endings else f"{_WEIGHTS} or pytorch_model.bin"
        raise LimnerError(
            f"model {model!r} has no weights that can be read on the hub: expected {expected}, but it has "
            f"{shown(names) if names else 'no files'}"
        )
    return chosen


# --- what a folder lacks ----------------------------------------------------------------------------------------


def missing_files(folder: Path, patterns: Sequence[str]) -> list[str]:
    """Files that a snapshot needs and does not have, such as after an interrupted download.

    Args:
        folder: The snapshot.
        patterns: `WANTED` or `ONNX`.
    """
    if WANTED[1] not in patterns:
        missing = [] if any(file.is_file() for file in folder.rglob("*.onnx")) else ["model.onnx"]
        return missing + _first_unless_any(folder, "tokenizer.json")
    parts = _parts(folder)
    missing = [name for part, weights in parts for name in _missing_of_part(folder, part, weights=weights)]
    file = folder / "config.json"
    config = read_json(file, what="config of a model") if file.is_file() else {}
    if isinstance(config, dict) and "vision_config" in config:
        missing += _first_unless_any(folder, "preprocessor_config.json", "processor_config.json")
    return missing if _has_tokenizer(folder) else [*missing, "tokenizer.json"]


def _parts(folder: Path) -> list[tuple[str, bool]]:
    """Folders with a config.json, and whether they have weights: several of a sentence-transformers model."""
    file = folder / "modules.json"
    modules = read_json(file, what="list of modules") if file.is_file() else None
    if not isinstance(modules, list):
        return [("", True)]
    kinds = [
        (str(module.get("path", "")), str(module.get("type")).rpartition(".")[2])
        for module in modules
        if isinstance(module, dict)
    ]
    weighty = ("Transformer", "Dense")
    return [(path, kind in weighty) for path, kind in kinds if kind in (*weighty, "Pooling")]


def _missing_of_part(folder: Path, part: str, *, weights: bool) -> list[str]:
    place = folder / part
    missing = _first_unless_any(place, "config.json") + (_missing_weights(place) if weights else [])
    return [str(PurePosixPath(part, name)) for name in missing]


def _missing_weights(place: Path) -> list[str]:
    if (place / _WEIGHTS).is_file() or (place / "pytorch_model.bin").is_file():
        return []
    for name in _INDEXES:
        if (place / name).is_file():
            index = read_json(place / name, what="index of weights")
            shards = index.get("weight_map") if isinstance(index, dict) else None
            named = sorted({str(shard) for shard in shards.values()}) if isinstance(shards, dict) else []
            return [shard for shard in named if not (place / shard).is_file()]
    return [] if any(file.is_file() for file in place.glob("*.safetensors")) else [_WEIGHTS]


def _has_tokenizer(folder: Path) -> bool:
    """Whether there is a vocabulary, or a tokenizer that needs none."""
    names = {file.name for file in folder.rglob("*") if file.is_file()}
    if names & {"tokenizer.json", "vocab.json", "vocab.txt"} or any(n.endswith((".model", ".spm")) for n in names):
        return True
    file = folder / "tokenizer_config.json"
    config = read_json(file, what="config of a tokenizer") if file.is_file() else {}
    return isinstance(config, dict) and str(config.get("tokenizer_class")) in _OF_BYTES


_OF_BYTES = ("ByT5Tokenizer", "CanineTokenizer", "PerceiverTokenizer")


def _first_unless_any(place: Path, *names: str) -> list[str]:
    """The first name, unless one of the files is there."""
    return [] if any((place / name).is_file() for name in names) else [names[0]]


# --- what went wrong --------------------------------------------------------------------------------------------


def refusal(model: str, error: BaseException | None, *, purpose: str, missing: Sequence[str] = ()) -> str:
    """The message for a model that cannot be fetched: why, and what to do.

    Args:
        model: The name of the repository.
        error: What its library raised; None if the hub does not answer at all.
        purpose: The feature that needs it.
        missing: Files that are missing in the cache.
    """
    constants: Any = importlib.import_module("huggingface_hub.constants")
    folder = Path(constants.HF_HUB_CACHE) / f"models--{model.replace('/', '--')}"
    state = f"is not complete on this machine (missing: {', '.join(missing)})" if missing else "is not on this machine"
    why, advice = _reason(error, model)
    advice = advice or (
        f"To work offline, give the folder with its files (config.json, model.safetensors, tokenizer.json) as "
        f"model=FOLDER, or copy the hub's cache of it to {folder}, or set HF_HOME to a folder whose hub/{folder.name} "
        "holds it"
    )
    return f"{purpose}: model {model!r} {state} and {why}. {advice}"


def _reason(error: BaseException | None, model: str) -> tuple[str, str]:
    """Why a download failed, and what to do; without advice if there is no network."""
    constants: Any = importlib.import_module("huggingface_hub.constants")
    chain = list(_chain(error))
    kinds = {kind.__name__ for each in chain for kind in type(each).__mro__}
    codes = [getattr(getattr(each, "response", None), "status_code", None) for each in chain]
    status = next((code for code in codes if isinstance(code, int) and code >= 400), 0)
    page = f"{constants.ENDPOINT}/{model}"
    if "GatedRepoError" in kinds:
        return "its hub gives it only to accounts that accepted its terms", f"Accept them at {page}, then {_LOG_IN}"
    if status == 401 and _has_token():
        return "its hub does not accept your access token (401)", f"Renew the token: {_LOG_IN}"
    if "RepositoryNotFoundError" in kinds or status in (401, 404):
        return f"its hub has no such model ({status})", f"Check the name; if the model is private, {_LOG_IN}"
    if status == 403:
        return "its hub refuses access to it (403)", f"Ask its owner for access at {page}, then {_LOG_IN}"
    if status == 429:
        return "its hub refuses further requests for a while (429)", f"Wait some minutes, or {_LOG_IN}"
    if status >= 500:
        return f"its hub has failed ({status})", f"Try again later: {_ELSEWHERE}"
    if status:
        return f"its hub refuses the request ({status})", f"Look at {page}: {_ELSEWHERE}"
    if any("Timeout" in kind for kind in kinds):
        return "its hub takes too long to answer", f"Try again later: {_ELSEWHERE}"
    return _reason_here(chain, kinds, constants)


_ELSEWHERE = "what was downloaded is kept; or give the folder with its files as model=FOLDER"


def _reason_here(chain: Sequence[BaseException], kinds: set[str], constants: Any) -> tuple[str, str]:
    """A failure of this machine: no network, no space, no permission."""
    numbers = {getattr(each, "errno", None) for each in chain}
    cache = constants.HF_HUB_CACHE
    if numbers & {errno.ENOSPC, errno.EDQUOT}:
        return f"the disk of {cache} is full", "Free some space, or set HF_HOME to a folder on another disk"
    if numbers & {errno.EACCES, errno.EPERM, errno.EROFS}:
        return f"{cache} cannot be written", "Set HF_HOME to a folder in which you may write"
    if not chain or kinds & {"ConnectionError", "ConnectError", "NetworkError", "LocalEntryNotFoundError"}:
        return "its hub cannot be reached", ""
    first = (str(chain[0]).strip() or "no reason given").splitlines()[0][:200]
    return f"downloading it failed ({type(chain[0]).__name__}: {first})", f"Try again: {_ELSEWHERE}"


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error and its causes."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _has_token() -> bool:
    return bool(importlib.import_module("huggingface_hub").get_token())


# --- reaching the hub -------------------------------------------------------------------------------------------


def reachable(*, seconds: float = 3.0) -> bool:
    """Whether the hub answers a short request; its own library would retry for half a minute."""
    constants: Any = importlib.import_module("huggingface_hub.constants")
    if constants.HF_HUB_OFFLINE:
        return False
    if any(os.environ.get(name) for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")):
        return True  # behind a proxy a direct connection says nothing
    address = urlsplit(constants.ENDPOINT)
    port = address.port or (80 if address.scheme == "http" else 443)
    try:
        socket.create_connection((address.hostname or "", port), timeout=seconds).close()
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
