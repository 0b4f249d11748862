"""Paths: files are read as untrusted data, output folders are checked, folders of the cache are private.

numba caches compiled code next to the source or in the home folder, and fails if it can do neither, as in a read-only
container whose user has no home folder. Then a temporary folder is used. numba unpickles what it finds in its cache, so
the folder is used only if it belongs to this user and nobody else can write to it.
"""

from __future__ import annotations

import atexit
import importlib
import importlib.util
import json
import os
import re
import shutil
import stat
import tempfile
import tomllib
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from limner.core.errors import LimnerError
from limner.core.extras import require

if TYPE_CHECKING:
    from numba.core.dispatcher import Dispatcher

    from limner.core.arrays import Array


JsonObject = Mapping[str, Any]
"""A JSON object: names with values of any JSON type."""
DEEPEST = 100
"""Maximum nesting depth of lists and objects."""
SMALL, MOST_TIMES = 16_000_000, 250
"""Compressed contents are read up to this many bytes, or up to this many times the size of the file."""
_SHELL_PIPES = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89abAB]")


# --- reading ----------------------------------------------------------------------------------------------------


def refuse_irregular(path: str | Path, *, what: str) -> None:
    """Refuses folders, and pipes, sockets and devices that might block forever; a missing file is accepted.

    Process substitution, as in `--run <(zcat run.gz)`, is allowed.
    """
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return
    if stat.S_ISREG(mode) or str(path).startswith(_SHELL_PIPES):
        return
    kinds = {stat.S_IFDIR: "folder", stat.S_IFIFO: "named pipe", stat.S_IFSOCK: "socket"}
    raise LimnerError(f"{what}: {path} is a {kinds.get(stat.S_IFMT(mode), 'device')}, expected a file")


@contextmanager
def damage_told(place: object, *, what: str, mend: str = "put back a good copy") -> Iterator[None]:
    """Turns any exception about a damaged or unexpected file into one clear error.

    Libraries raise anything from KeyError to RecursionError on malformed bytes, and so does code that gets a value of
    an unexpected type. Files are untrusted, so this counts as bad input, not as a bug.

    Args:
        place: The file.
        what: The expected kind of file.
        mend: Advice on how to fix it.
    """
    try:
        yield
    except (LimnerError, ImportError):
        raise
    except MemoryError as error:
        raise LimnerError(f"{place} needs more memory than is available: expected a {what}; {mend}") from error
    except Exception as error:
        raise LimnerError(_damage(error, str(place), what=what, mend=mend)) from error


def _damage(error: Exception, place: str, *, what: str, mend: str) -> str:
    is_place = str(getattr(error, "filename", None)) == place
    if is_place and isinstance(error, IsADirectoryError):
        return f"{place} is a folder, but a {what} is a file: give the path of the file"
    if is_place and isinstance(error, FileNotFoundError):
        return f"no file {place}, expected a {what}: check the path"
    first = (str(error).strip() or "no reason given").splitlines()[0][:200]
    return f"{place} is not a valid {what} ({type(error).__name__}: {first}): {mend}"


def read_bytes(path: str | Path, *, what: str) -> bytes:
    """The contents of a file.

    Args:
        path: The file.
        what: The expected contents, for error messages.
    """
    refuse_irregular(path, what=what)
    try:
        return Path(path).read_bytes()
    except FileNotFoundError:
        raise LimnerError(f"no {what} {path}: check the path") from None
    except (OSError, ValueError) as error:
        raise LimnerError(f"{what} {path} cannot be read: {getattr(error, 'strerror', None) or error}") from error


def read_text(path: str | Path, *, what: str) -> str:
    """The contents of a UTF-8 text file, without a byte order mark."""
    raw = read_bytes(path, what=what)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise LimnerError(
            f"{what} {path} is not UTF-8 (byte 0x{raw[error.start]:02x} at {error.start:,}): save it as UTF-8"
        ) from None


def read_json(path: str | Path, *, what: str) -> Any:
    """The value in a JSON file."""
    return parse_json(read_text(path, what=what), where=f"{what} {path}")


def parse_json(text: str, *, where: str) -> Any:
    """Parses JSON; refuses infinite numbers, lone surrogates and deep nesting.

    >>> parse_json('{"a": [1, 2]}', where="a file")
    {'a': [1, 2]}
    >>> parse_json("[" * 100_000, where="a file")
    Traceback (most recent call last):
    limner.core.errors.LimnerError: a file is nested too deeply to be read: expected plain JSON
    """
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise LimnerError(
            f"{where} is not JSON: {error.msg} at line {error.lineno:,}, column {error.colno:,}"
        ) from None
    except RecursionError:
        raise LimnerError(f"{where} is nested too deeply to be read: expected plain JSON") from None
    except ValueError as error:  # a number of thousands of digits
        raise LimnerError(f"{where} cannot be read as JSON: {error}") from None
    if _ESCAPED_SURROGATE.search(text) and not _is_unicode(value):
        raise LimnerError(f"{where} contains a lone surrogate such as \\ud800: save it as UTF-8 without it")
    if text.count("[") + text.count("{") > DEEPEST and _is_deep(value):
        raise LimnerError(f"{where} is nested more than {DEEPEST} deep: expected plain JSON")
    return value


def parse_toml(text: str, *, where: str) -> dict[str, Any]:
    """Parses TOML; refuses deep nesting, which dotted keys build without a bracket.

    >>> parse_toml("dimensions = 32", where="a file")
    {'dimensions': 32}
    >>> parse_toml(".".join("a" * 200) + " = 1", where="a file")
    Traceback (most recent call last):
    limner.core.errors.LimnerError: a file is nested more than 100 deep: expected plain TOML
    """
    try:
        table = tomllib.loads(text)
    except RecursionError:
        raise LimnerError(f"{where} is nested too deeply to be read: expected plain TOML") from None
    except ValueError as error:
        raise LimnerError(f"{where} is not TOML ({error})") from None
    if _is_deep(table):
        raise LimnerError(f"{where} is nested more than {DEEPEST} deep: expected plain TOML")
    return table


def _is_deep(value: object) -> bool:
    """Whether lists and objects are nested more than `DEEPEST` levels deep."""
    level = [value]
    for _ in range(DEEPEST):
        level = [child for each in level for child in _inside(each) if isinstance(child, (list, dict))]
    return bool(level)


def _inside(value: object) -> Iterable[object]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _is_unicode(value: object) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def read_arrays(path: str | Path, *, what: str) -> dict[str, Array]:
    """The arrays of an npz file by name; refuses a decompression bomb."""
    import numpy as np

    refuse_missing_file(path, what, "an .npz file")
    with damage_told(path, what=f"npz file of {what}", mend="save it again"):
        with zipfile.ZipFile(path) as archive:
            unpacked = sum(entry.file_size for entry in archive.infolist())
        refuse_bomb(unpacked, os.path.getsize(path), where=f"{what} {path}")
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}


def refuse_bomb(unpacked: int, packed: int, *, where: str) -> None:
    """Refuses decompression bombs: a few kilobytes can unpack to gigabytes."""
    if unpacked > max(SMALL, packed * MOST_TIMES):
        raise LimnerError(
            f"{where} unpacks to {unpacked:,} bytes from {packed:,}: more than {MOST_TIMES} times its size is not "
            "read; save it without compression"
        )


def refuse_missing_file(path: str | Path, what: str, expected: str) -> None:
    """Refuses what is no file, with the kind of file that is expected."""
    refuse_irregular(path, what=what)
    if not os.path.isfile(path):
        raise LimnerError(f"no {what} {path}: expected {expected}")


# --- writing ----------------------------------------------------------------------------------------------------


def place_for(path: str | Path) -> Path:
    """The path of an output file or folder; refuses one whose parent folder does not exist.

    A missing parent is usually a typo.
    """
    target = Path(path)
    parent = target.absolute().parent
    if not parent.is_dir():
        raise LimnerError(f"no folder {parent} to write {target.name!r} into: create it first, or correct the path")
    return target


def refuse_unwritable(path: str | Path, *, is_file: bool) -> None:
    """Refuses an output path that cannot be written, before the work whose result goes there.

    Args:
        path: A file, which is replaced; or a folder, whose files are replaced.
        is_file: Whether only a file is written there.
    """
    target = Path(os.path.realpath(place_for(path)))  # of a link, what it points to
    mode = _mode(place_for(target))
    is_folder = mode is not None and stat.S_ISDIR(mode)
    if is_folder and is_file:
        raise LimnerError(f"{path} is a folder: expected the name of a file to write")
    if mode is None or is_folder or stat.S_ISREG(mode):  # otherwise a device, such as /dev/null
        places = [target.parent, *([target] if is_folder else [])]  # a folder can be replaced, or its files
        if not any(os.access(place, os.W_OK | os.X_OK) for place in places):
            raise LimnerError(f"{path}: no permission to write in {places[-1]}; choose another folder")


def _mode(target: Path) -> int | None:
    """The type of a file or folder; None if there is none."""
    try:
        return os.stat(target).st_mode
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:  # its name is too long, or holds a null byte
        raise LimnerError(f"{target} cannot be written: {getattr(error, 'strerror', None) or error}") from error


def folder_for(path: str | Path) -> Path:
    """An output folder, created if missing; its parent must exist."""
    target = place_for(path)
    if target.exists() and not target.is_dir():
        raise LimnerError(f"{target} is a file: expected a folder to write into, or a new name")
    target.mkdir(exist_ok=True)
    return target


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


def is_compiled(module: str) -> bool:
    """Whether compiled code of a module is in the cache, so that it only has to be loaded; does not load numba."""
    named, spec = os.environ.get("NUMBA_CACHE_DIR"), importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        return False
    source, user = Path(spec.origin), os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    shared = [source.parent / "__pycache__", Path(user) / "numba", private_folder()]
    folders = [Path(named)] if named else [folder for folder in shared if folder is not None]
    return any(next(folder.glob(f"**/{source.stem}.*.nbi"), None) for folder in folders)


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
