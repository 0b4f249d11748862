"""Cache folders for compiled code and library settings when neither limner's folder nor the home folder is writable.

numba caches compiled code next to the source or in the home folder, and fails if it can do neither, as in a read-only
container whose user has no home folder. Then a temporary folder is used. numba unpickles what it finds in its cache, so
the folder is used only if it belongs to this user and nobody else can write to it.
"""

from __future__ import annotations

import atexit
import importlib
import os
import shutil
import stat
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from limner.core.extras import require

if TYPE_CHECKING:
    from numba.core.dispatcher import Dispatcher


@cache
def private_folder() -> Path | None:
    """A private temporary folder, the same in every run where possible.

    If another user owns a folder of that name, a new one is created and removed at exit. None if there is no temporary
    directory.
    """
    try:
        folder = Path(tempfile.gettempdir()) / f"limner-{_user()}"
        if _is_private(folder):
            return folder
        fresh = Path(tempfile.mkdtemp(prefix="limner-"))
    except OSError:
        return None
    atexit.register(shutil.rmtree, fresh, ignore_errors=True)
    return fresh


def vectors_folder() -> Path | None:
    """The cache folder for encoder vectors; see `cache_folder`."""
    return cache_folder("vectors")


def cache_folder(name: str) -> Path | None:
    """A folder of the cache shared by all commands: below `LIMNER_CACHE`, else in the user's cache folder.

    None if `LIMNER_CACHE` is set but empty, which turns the cache off, or if no folder can be created.
    """
    named = os.environ.get("LIMNER_CACHE")
    if named == "":
        return None
    try:
        base = Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "limner"
        folder = base / name
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # it is read-only, or there is no home folder
        return None
    return folder if os.access(folder, os.W_OK) else None


def _user() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0


def _is_private(folder: Path) -> bool:
    """Creates the folder; returns whether it is a real, writable folder that only this user can access."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        about = folder.lstat()
    except OSError:
        return False
    closed = not stat.S_IMODE(about.st_mode) & 0o077 or os.name != "posix"
    return stat.S_ISDIR(about.st_mode) and about.st_uid == _user() and closed and os.access(folder, os.W_OK)


def compiled(**options: object) -> Callable[[Callable[..., object]], Dispatcher]:
    """`numba.njit`, with an on-disk cache if there is a writable folder for it.

    Args:
        options: Options of `numba.njit`.
    """
    compiler: Callable[[Callable[..., object]], Dispatcher] = _numba().njit(cache=_has_cache(), **options)
    return compiler


def _numba() -> ModuleType:
    return importlib.import_module("numba")  # here: not every caller that needs a private folder compiles code


@cache
def _has_cache() -> bool:
    if _can_cache():
        return True
    folder = private_folder()
    if folder is None or _numba().config.CACHE_DIR:
        return False
    _numba().config.CACHE_DIR = str(folder / "numba")
    return _can_cache()


def _can_cache() -> bool:
    """Whether numba finds a folder for its cache; it looks for one when a function is decorated."""

    def probe() -> int:
        return 0

    try:
        _numba().njit(cache=True)(probe)
    except RuntimeError:
        return False
    return True


@cache
def settle_matplotlib() -> None:
    """Gives matplotlib a settings folder if it would otherwise create one, with a warning, in every run.

    Without matplotlib, which is an extra, the error says how to install it.
    """
    require("matplotlib", what="a figure")
    if "MPLCONFIGDIR" in os.environ or _is_writable_home():
        return
    folder = private_folder()
    if folder is not None:
        os.environ["MPLCONFIGDIR"] = str(folder)


def _is_writable_home() -> bool:
    """Whether matplotlib's settings folder exists, or the nearest existing folder above it is writable."""
    try:
        place = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "matplotlib"
    except RuntimeError:  # no home folder
        return False
    existing = next((folder for folder in (place, *place.parents) if folder.exists()), place)
    return os.access(existing, os.W_OK)
