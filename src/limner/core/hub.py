"""The Hugging Face hub: whether it answers, what a repository has, and why fetching from it failed."""

from __future__ import annotations

import difflib
import errno
import os
import socket
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from limner.core.extras import needed

SECONDS = 10.0
"""How long the hub may take to begin an answer."""
_LOG_IN = "log in with 'hf auth login', or set HF_TOKEN to a token of your account"
_ELSEWHERE = "what was downloaded is kept, and the next run continues there"
_OTHER_DISK = "Free some space, or set HF_HOME to a folder on another disk"
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_CLOSED = {errno.EACCES, errno.EPERM, errno.EROFS}
_UNREACHED = {"ConnectionError", "ConnectError", "NetworkError", "LocalEntryNotFoundError", "OfflineModeIsEnabled"}


class NoSpace(OSError):
    """A disk has less space than a download needs."""


@dataclass(frozen=True)
class HubFile:
    """A file of a repository.

    Args:
        path: Its path in the repository.
        size: Its size in bytes.
        blob: Its name in the cache of the hub's library: a SHA-256 of a large file, a hash of git of another one.
    """

    path: str
    size: int
    blob: str


@dataclass(frozen=True)
class Repository:
    """A repository at one commit.

    Args:
        name: Such as "openai/clip-vit-base-patch32".
        revision: The branch, tag or commit that was asked for.
        commit: The commit: 40 hexadecimal digits.
        files: All its files.
        kind: "model" or "dataset".
    """

    name: str
    revision: str
    commit: str
    files: tuple[HubFile, ...]
    kind: str = "model"

    @property
    def paths(self) -> list[str]:
        """The paths of its files."""
        return [file.path for file in self.files]


def hub_library() -> ModuleType:
    """The hub's library with the submodules that limner uses, which it does not import by itself."""
    for part in ("constants", "errors", "utils"):
        needed(f"huggingface_hub.{part}", what="the hub")
    return needed("huggingface_hub", what="the hub")


def repository(name: str, *, revision: str | None = None, kind: str = "model") -> Repository:
    """Asks the hub for the commit of a repository and for its files; errors are those of the hub's library.

    Args:
        name: Such as "openai/clip-vit-base-patch32".
        revision: A branch, a tag or a commit; "main" by default.
        kind: "model" or "dataset".
    """
    library = hub_library()
    ask = getattr(library.HfApi(), f"{kind}_info")
    about = ask(name, revision=revision, files_metadata=True, timeout=SECONDS)
    files = tuple(_file(each) for each in about.siblings or ())
    return Repository(name, revision or "main", str(about.sha), files, kind)


def _file(sibling: Any) -> HubFile:
    blob = sibling.lfs.sha256 if sibling.lfs is not None else sibling.blob_id
    return HubFile(str(sibling.rfilename), int(sibling.size or 0), str(blob or ""))


def cache_of(name: str, *, kind: str = "model") -> Path:
    """The folder of a repository in the cache of the hub's library.

    >>> cache_of("openai/clip-vit-base-patch32").name
    'models--openai--clip-vit-base-patch32'
    """
    constants = needed("huggingface_hub.constants", what="the hub")
    return Path(constants.HF_HUB_CACHE) / f"{kind}s--{name.replace('/', '--')}"


def commit_of(folder: Path) -> str | None:
    """The commit of a folder in the cache of the hub's library; None for another folder.

    >>> commit_of(Path("models--a--b/snapshots/3d74acf9a28c67741b2f4f2ea7635f0aaf6f0268"))
    '3d74acf9a28c67741b2f4f2ea7635f0aaf6f0268'
    >>> commit_of(Path("my/model"))
    """
    return folder.name if folder.parent.name == "snapshots" and len(folder.name) == 40 else None


# --- what went wrong --------------------------------------------------------------------------------------------


def failure(error: BaseException | None, name: str, *, kind: str = "model", revision: str | None = None,
            similar: Iterable[str] = ()) -> tuple[str, str]:  # fmt: skip
    """Why a repository could not be fetched, and what to do; no advice if the hub cannot be reached.

    Args:
        error: What the hub's library raised; None if the hub does not answer at all.
        name: The name of the repository.
        kind: "model" or "dataset".
        revision: The revision that was asked for.
        similar: Names that the user may have meant.
    """
    constants = needed("huggingface_hub.constants", what="the hub")
    chain = list(_chain(error))
    kinds = {base.__name__ for each in chain for base in type(each).__mro__}
    noun = "data set" if kind == "dataset" else kind
    page = f"{constants.ENDPOINT}/{'datasets/' if kind == 'dataset' else ''}{name}"
    status = _status(chain)
    if "GatedRepoError" in kinds:
        return "its hub gives it only to accounts that accepted its terms", f"Accept them at {page}, then {_LOG_IN}"
    if "RevisionNotFoundError" in kinds:
        return f"its hub has no revision {revision!r} of it (404)", f"Choose one of those at {page}/tree/main"
    if status == 401 and _has_token():
        return "its hub does not accept your access token (401)", f"Renew the token: {_LOG_IN}"
    if "RepositoryNotFoundError" in kinds or status in (401, 404):
        suggestions = " or ".join(map(repr, similar))
        check = f"Check the name{f' (did you mean {suggestions}?)' if suggestions else ''}"
        return f"its hub has no such {noun} ({status})", f"{check}; if the {noun} is private, {_LOG_IN}"
    if status == 403:
        return "its hub refuses access to it (403)", f"Ask its owner for access at {page}, then {_LOG_IN}"
    if status == 429:
        return "its hub refuses further requests for a while (429)", f"Wait some minutes, or {_LOG_IN}"
    if status >= 500:
        return f"its hub has failed ({status})", f"Try again later: {_ELSEWHERE}"
    if status:
        return f"its hub refuses the request ({status})", f"Look at {page}: {_ELSEWHERE}"
    return _failure_here(chain, kinds, constants)


def _status(chain: Sequence[BaseException]) -> int:
    codes = [getattr(getattr(each, "response", None), "status_code", None) for each in chain]
    return next((code for code in codes if isinstance(code, int) and code >= 400), 0)


def _failure_here(chain: Sequence[BaseException], kinds: set[str], constants: ModuleType) -> tuple[str, str]:
    """A failure of this machine: no network, no space, no permission."""
    numbers = {getattr(each, "errno", None) for each in chain}
    cache = constants.HF_HUB_CACHE
    if numbers & _FULL:
        sizes = next((str(each.strerror) for each in chain if isinstance(each, NoSpace)), "")
        return f"the disk of {cache} is full{f' ({sizes})' if sizes else ''}", _OTHER_DISK
    if numbers & _CLOSED:
        return f"{cache} cannot be written", "Set HF_HOME to a folder in which you may write"
    if any("Timeout" in kind for kind in kinds):
        return "its hub takes too long to answer", f"Try again later: {_ELSEWHERE}"
    if "RemoteProtocolError" in kinds or "ChunkedEncodingError" in kinds or "Interrupted" in kinds:
        return "the connection to its hub broke off", f"Try again: {_ELSEWHERE}"
    if not chain or kinds & _UNREACHED:
        return "its hub cannot be reached", ""
    first = (str(chain[0]).strip() or "no reason given").splitlines()[0][:200]
    return f"downloading it failed ({type(chain[0]).__name__}: {first})", f"Try again: {_ELSEWHERE}"


def is_missing(error: BaseException) -> bool:
    """Whether an error of the hub's library says that there is no such repository."""
    kinds = {base.__name__ for each in _chain(error) for base in type(each).__mro__}
    return "RepositoryNotFoundError" in kinds and "GatedRepoError" not in kinds


def similar_names(name: str, well_known: Iterable[str] = (), *, kind: str = "model") -> list[str]:
    """Names that the user may have meant: those on the hub with the same last part, and known ones alike.

    Args:
        name: The name that is on no hub.
        well_known: Further names, for a hub without a search.
        kind: "model" or "dataset".
    """
    library = hub_library()
    last = name.rpartition("/")[2]
    try:
        listed = getattr(library.HfApi(), f"list_{kind}s")(search=last, limit=20)
        hub_names = [str(each.id) for each in listed]
    except Exception:  # the hub of a company may have no search; any library may be below
        hub_names = []
    namesakes = [each for each in hub_names if each.rpartition("/")[2].lower() == last.lower()]
    close_names = difflib.get_close_matches(name, [*hub_names, *well_known], n=3, cutoff=0.7)
    return list(dict.fromkeys(each for each in (*namesakes, *close_names) if each != name))[:3]


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error and its causes."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _has_token() -> bool:
    return bool(needed("huggingface_hub", what="the hub").get_token())


# --- reaching the hub -------------------------------------------------------------------------------------------


def reachable(*, seconds: float = 3.0) -> bool:
    """Whether the hub answers a short request; its own library would retry for half a minute."""
    constants: Any = needed("huggingface_hub.constants", what="the hub")
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
    constants: Any = needed("huggingface_hub.constants", what="the hub")
    utils = needed("huggingface_hub.utils", what="the hub")
    renew = getattr(utils, "reset_sessions", lambda: None)  # up to 0.36 a session stays what it was when it was opened
    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = off
    renew()
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before
        renew()
