"""Atomic writes of files and folders: each appears complete or not at all, even if the process is killed.

Data is written to a hidden folder next to the target, synced to disk, and moved into place in one step. A killed
process leaves the hidden folder behind; the next one that writes there removes it.
"""

from __future__ import annotations

import errno
import itertools
import os
import platform
import re
import shutil
import stat
import time
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import cache
from pathlib import Path

from limner.core.errors import LimnerError, NotWritten
from limner.core.paths import place_for, read_json

MODEL = frozenset({"config.json", "model.safetensors", "README.md", "vocabulary.txt", "weights.svg", "backbone"})
"""Everything that saved models keep in their folders."""
DRAFT = re.compile(r"\..*\.(?P<machine>[0-9a-f]{8})-(?P<process>\d+)-\d+\.draft")
_MACHINE = f"{zlib.crc32(platform.node().encode()):08x}"
_NUMBERS = itertools.count()
_DAY = 86_400.0
_ASIDE = "before"
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FULL_WORDS = ("no space left", "file too large", "quota exceeded", "requested and")  # the last one is numpy's


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A temporary path to write to; it replaces `path` on success and is removed on failure.

    If the write is interrupted or fails, the previous file is kept. The file keeps its permissions, and a link stays
    a link. If the disk is full, `NotWritten` names the file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     target = Path(folder, "numbers.txt")
    ...     with replacing(target) as file:
    ...         _ = file.write_text("1 2 3")
    ...     target.read_text(), len(list(Path(folder).iterdir()))
    ('1 2 3', 1)
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():  # a device such as /dev/stdout cannot be replaced
        yield target
        return
    with _workshop(target, target.parent) as workshop:
        draft = workshop / target.name
        yield draft
        _sync(draft, rights=_rights(target, workshop))
        os.replace(draft, target)
        _sync(target.parent)


@contextmanager
def replacing_folder(path: str | Path, *, head: str, own: Collection[str]) -> Iterator[Path]:
    """A temporary folder to write to; it replaces `path` on success and is removed on failure.

    The old folder stays until the new one is complete, and then the two are swapped in one step. On a file system that
    cannot swap, this takes two steps; if the process is killed in between, the next write restores the old folder. If a
    folder cannot be replaced (it contains other files, is the working directory, or is a mount point), the new files
    are moved one by one, `head` last: a killed process then leaves a folder that is refused, never a mixture.

    Args:
        path: The folder; files that are not in `own` are kept.
        head: The file without which the folder is invalid.
        own: Names of the files that may be replaced.
    """
    target = Path(os.path.realpath(place_for(path)))
    if target.exists() and not target.is_dir():
        raise LimnerError(f"{path} is a file: expected a folder to save in, or a new name")
    moves = target.exists() and not _exchangeable(target, own)
    with _workshop(target, target if moves else target.parent) as workshop:
        draft = workshop / target.name
        draft.mkdir()
        yield draft
        _sync_all(draft, rights=_rights(target / head, workshop))
        if not target.exists():
            os.rename(draft, target)
        elif moves or not (_exchanged(draft, target) or _set_aside(draft, target)):
            _move_in(draft, target, head, own)
        _sync(target.parent)


@contextmanager
def replacing_model(path: str | Path) -> Iterator[Path]:
    """`replacing_folder` for the folder of a saved model, whose config.json names its kind under "limner"."""
    with replacing_folder(path, head="config.json", own=MODEL if _is_model(Path(path)) else ()) as folder:
        yield folder


def write_text(path: str | Path, text: str) -> None:
    """Writes a text file atomically, in UTF-8 with Unix line ends."""
    with replacing(path) as file:
        file.write_text(text, encoding="utf-8", newline="\n")


def write_file(path: str | Path, content: str | bytes) -> None:
    """Writes text as `write_text` does, or raw bytes, atomically."""
    if isinstance(content, str):
        write_text(path, content)
        return
    with replacing(path) as file:
        file.write_bytes(content)


# --- drafts -----------------------------------------------------------------------------------------------------


@contextmanager
def _workshop(target: Path, parent: Path) -> Iterator[Path]:
    """A hidden temporary folder in `parent`; removed afterwards."""
    workshop = parent / f".{target.name[:50]}.{_MACHINE}-{os.getpid()}-{next(_NUMBERS)}.draft"
    _sweep(parent)
    with _naming(target, workshop):
        workshop.mkdir()
        try:
            yield workshop
        finally:
            _put_back(workshop)
            shutil.rmtree(workshop, ignore_errors=True)


@contextmanager
def _naming(target: Path, workshop: Path) -> Iterator[None]:
    """Makes errors name the requested file, not the temporary one; explains a full disk."""
    try:
        yield
    except NotWritten as error:
        raise NotWritten(_final_path(error.path, target, workshop), error.why) from error
    except Exception as error:
        if is_full(error):
            raise NotWritten(target, getattr(error, "strerror", None) or error) from error
        if isinstance(error, OSError) and Path(str(error.filename or "")).is_relative_to(workshop):
            raise OSError(error.errno, error.strerror, str(_final_path(error.filename, target, workshop))) from error
        raise


def _final_path(path: str | Path, target: Path, workshop: Path) -> Path:
    """The target of a temporary path, or its missing folder. Other paths are returned unchanged."""
    if not Path(path).is_relative_to(workshop):
        return Path(path)
    if not target.parent.is_dir():
        return target.parent
    inside = Path(path).is_relative_to(workshop / target.name)
    return target / Path(path).relative_to(workshop / target.name) if inside else target


def is_full(error: Exception) -> bool:
    """Whether a write failed because of missing space: a full disk, a quota, or a file size limit.

    >>> is_full(OSError(28, "No space left on device")), is_full(OSError(2, "No such file"))
    (True, False)
    """
    if isinstance(error, LimnerError):
        return False
    number = getattr(error, "errno", None)
    return number in _FULL or (number is None and any(words in str(error).lower() for words in _FULL_WORDS))


@cache
def _sweep(folder: Path) -> None:
    """Removes the drafts of killed processes from a folder, once per process and folder.

    The folder may be shared with other machines; their drafts count as abandoned after a day without a change.
    """
    with suppress(OSError):
        for entry in folder.iterdir():
            match = DRAFT.fullmatch(entry.name)
            if match is not None:
                died = match["machine"] == _MACHINE and not _runs(int(match["process"]))
                if died or time.time() - _changed(entry) > _DAY:
                    _put_back(entry)
                    shutil.rmtree(entry, ignore_errors=True)


def _put_back(workshop: Path) -> None:
    """Restores a folder that a killed or failed process moved aside."""
    for aside in workshop.glob(f"{_ASIDE}/*"):
        if not (workshop.parent / aside.name).exists():
            os.rename(aside, workshop.parent / aside.name)


def _changed(folder: Path) -> float:
    """The time of the last write in a draft."""
    return max(entry.stat().st_mtime for entry in (folder, *folder.rglob("*")))


def _runs(process: int) -> bool:
    if os.name != "posix":
        return True  # on Windows os.kill would end the process
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


# --- onto the disk ----------------------------------------------------------------------------------------------


def _rights(target: Path, workshop: Path) -> int:
    """The permissions of the existing file, or else the default ones."""
    source = target if target.is_file() else workshop
    return stat.S_IMODE(source.stat().st_mode) & (0o777 if source is target else 0o666)


def _sync(path: Path, *, rights: int | None = None) -> None:
    """Flushes a file or a folder to disk; some systems cannot do that for a folder."""
    if rights is not None:
        with suppress(OSError):
            path.chmod(rights)
    with suppress(OSError) if path.is_dir() else nullcontext():
        number = os.open(path, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def _sync_all(folder: Path, *, rights: int) -> None:
    for entry in folder.rglob("*"):
        _sync(entry, rights=None if entry.is_dir() else rights)
    _sync(folder)


# --- folders ----------------------------------------------------------------------------------------------------


def _exchangeable(target: Path, own: Collection[str]) -> bool:
    """Whether a folder can be replaced: it has no other files, is not the working directory, and can be renamed."""
    if any(entry.name not in own and not DRAFT.fullmatch(entry.name) for entry in target.iterdir()):
        return False
    try:
        working = Path(os.getcwd())
    except FileNotFoundError:  # it was removed
        working = Path("/")
    return not target.is_mount() and target not in (working, *working.parents) and os.access(target.parent, os.W_OK)


def _exchanged(draft: Path, target: Path) -> bool:
    """Swaps two folders in one step, if the system supports it."""
    import ctypes

    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError, TypeError):
        return False
    at_cwd, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return bool(rename(at_cwd, os.fsencode(draft), at_cwd, os.fsencode(target), exchange) == 0)


def _set_aside(draft: Path, target: Path) -> bool:
    """Replaces a folder in two steps, if it can be renamed."""
    aside = draft.parent / _ASIDE / target.name
    aside.parent.mkdir()
    try:
        os.rename(target, aside)
    except OSError:
        return False
    os.rename(draft, target)
    return True


def _move_in(draft: Path, target: Path, head: str, own: Collection[str]) -> None:
    """Moves new files into a folder; the old head file is removed first and the new one comes last."""
    new = sorted((entry.name for entry in draft.iterdir()), key=lambda name: name == head)
    for name in new:
        if (target / name).is_dir() and name not in own:
            raise LimnerError(f"{target / name} is a folder with other content: choose a new folder")
    for name in (head, *sorted({*own, *new} - {head})):
        if name == head or name not in new or (target / name).is_dir():
            _remove(target / name)
    _sync(target)
    for name in new:
        os.replace(draft / name, target / name)
    _sync(target)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _is_model(folder: Path) -> bool:
    try:
        return "limner" in read_json(folder / "config.json", what="description of a model")
    except (LimnerError, TypeError):
        return False
