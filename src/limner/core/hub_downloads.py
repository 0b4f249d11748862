"""Downloads from the hub into the cache of its library: the size is said before, and a broken download is continued.

The hub's library starts a file again from the beginning in every process. Here, what has arrived of a file stays beside
the finished ones (`blobs/HASH.incomplete`), and the next run continues it. A finished file is compared with its hash.
Then the hub's library arranges the files as it does its own.
"""

from __future__ import annotations

import errno
import glob
import hashlib
import os
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO, TextIO

from limner.core.errors import LimnerError
from limner.core.hub import HubFile, NoSpace, Repository, cache_of, hub_library

TRIES, PAUSE = 5, 1.0
"""How often a connection may break off without any further byte, and the seconds before it is made again."""
EVERY = 5.0
"""Seconds between two lines of progress where standard error is no terminal."""
_PART = 1 << 16
_BROKEN = ("TransportError", "ConnectionError", "ChunkedEncodingError", "Timeout", "Interrupted")


class Interrupted(LimnerError):
    """A connection ended before the whole file had arrived."""


def downloaded(repository: Repository, paths: Sequence[str], *, is_announced: bool = True) -> Path:
    """The folder of a repository in the cache, with these files; those that are not there are downloaded.

    Args:
        repository: What the hub has.
        paths: Paths of the files.
        is_announced: Whether standard error says what is downloaded; not for a small file.
    """
    library = hub_library()
    folder = cache_of(repository.name, kind=repository.kind)
    chosen = [file for file in repository.files if file.path in set(paths)]
    absent = {file.blob: file for file in chosen if file.blob and not (folder / "blobs" / file.blob).exists()}
    files = list(absent.values())
    if files:
        (folder / "blobs").mkdir(parents=True, exist_ok=True)
        present = sum(_size(folder, file) for file in files)
        total = sum(file.size for file in files)
        _refuse_full_disk(folder, total - present)
        stream = sys.stderr if is_announced else None
        with DownloadMeter(repository, len(files), total, present, stream) as meter:
            for file in sorted(files, key=lambda each: each.size):
                _fetch(library, repository, folder, file, meter)
    names = [glob.escape(file.path) for file in chosen]
    return Path(
        library.snapshot_download(
            repository.name,
            repo_type=repository.kind,
            revision=repository.revision,
            allow_patterns=names,
            tqdm_class=_silent_bar(library),
        )
    )


def _size(folder: Path, file: HubFile) -> int:
    """How much of a file has arrived."""
    part = _part(folder, file)
    return min(part.stat().st_size, file.size) if part.is_file() else 0


def _part(folder: Path, file: HubFile) -> Path:
    return folder / "blobs" / f"{file.blob}.incomplete"


def _refuse_full_disk(folder: Path, size: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < size:
        raise NoSpace(errno.ENOSPC, f"{megabytes(size)} are needed, {megabytes(free)} are free", str(folder))


def _fetch(library: ModuleType, repository: Repository, folder: Path, file: HubFile, meter: DownloadMeter) -> None:
    """Downloads one file, from where an earlier run ended."""
    finished, part = folder / "blobs" / file.blob, _part(folder, file)
    with _lock(folder, file):
        if finished.exists():  # another process was faster
            meter.add(file.size - _size(folder, file))
            return
        _complete(library, repository, file, part, meter)
        if not _is_intact(part, file):
            part.unlink()
            raise LimnerError(f"{file.path} of {repository.name} arrived damaged, and was deleted: try again")
        os.replace(part, finished)


def _complete(library: ModuleType, repository: Repository, file: HubFile, part: Path, meter: DownloadMeter) -> None:
    """Appends to a file what it lacks; a connection that breaks off is made again."""
    url = library.hf_hub_url(repository.name, file.path, repo_type=repository.kind, revision=repository.commit)
    tries = TRIES
    while (start := part.stat().st_size if part.is_file() else 0) < file.size or not part.is_file():
        try:
            with part.open("ab") as target:
                _append(library, url, target, start, meter)
        except Exception as error:  # the classes of the library below are those of requests or of httpx
            if not _is_broken(error) or tries <= 1:
                raise
            tries = TRIES if part.stat().st_size > start else tries - 1
            time.sleep(PAUSE)


def _append(library: ModuleType, url: str, target: BinaryIO, start: int, meter: DownloadMeter) -> None:
    """Appends the rest of an address to a file, from a start on; all of it if the server has no ranges."""
    headers = dict(library.utils.build_hf_headers()) | {"Accept-Encoding": "identity"}
    with _opened(library, url, headers | ({"Range": f"bytes={start}-"} if start else {})) as (response, chunks):
        if start and response.status_code == 200:
            target.truncate(0)
            meter.add(-start)
        elif start and response.status_code == 416:  # it is longer than the file
            target.truncate(0)
            meter.add(-start)
            raise Interrupted(f"{url} has fewer bytes than before")
        expected = response.headers.get("Content-Length")
        arrived = 0
        for chunk in chunks:
            target.write(chunk)
            arrived += len(chunk)
            meter.add(len(chunk))
    if expected is not None and arrived < int(expected):
        raise Interrupted(f"{url} ended after {arrived:,} of {int(expected):,} bytes")


@contextmanager
def _opened(library: ModuleType, url: str, headers: Mapping[str, str]) -> Iterator[tuple[Any, Iterable[bytes]]]:
    """The answer to a request and its content in parts, with the session of the hub's library: httpx or requests."""
    session = library.utils.get_session()
    seconds = library.constants.HF_HUB_DOWNLOAD_TIMEOUT
    if hasattr(session, "stream"):
        with session.stream("GET", url, headers=headers, timeout=seconds) as response:
            if response.status_code >= 400 and response.status_code != 416:
                response.read()
                library.utils.hf_raise_for_status(response)
            yield response, response.iter_raw()
        return
    with session.get(url, headers=headers, timeout=seconds, stream=True) as response:
        if response.status_code != 416:
            library.utils.hf_raise_for_status(response)
        yield response, response.iter_content(_PART)


def _is_broken(error: BaseException) -> bool:
    """Whether a connection broke off or was not made, so that a further try may help."""
    return any(base.__name__ in _BROKEN for base in type(error).__mro__) and getattr(error, "errno", None) is None


def _is_intact(part: Path, file: HubFile) -> bool:
    """Whether the content of a file is that of its hash."""
    if part.stat().st_size != file.size:
        return False
    digest = hashlib.sha256() if len(file.blob) == 64 else hashlib.sha1(b"blob %d\0" % file.size)
    with part.open("rb") as stream:
        while chunk := stream.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest() == file.blob


@contextmanager
def _lock(folder: Path, file: HubFile) -> Iterator[None]:
    """The lock of the hub's library on a file, so that two processes do not write it at the same time."""
    place = folder.parent / ".locks" / folder.name / f"{file.blob}.lock"
    place.parent.mkdir(parents=True, exist_ok=True)
    with hub_library().utils.WeakFileLock(place):
        yield


def _silent_bar(library: ModuleType) -> type:
    """A progress bar of the hub's library that shows nothing."""
    base: Any = library.utils.tqdm

    class SilentBar(base):  # type: ignore[misc]  # its class is known only when the library is imported
        def __init__(self, *values: Any, **options: Any) -> None:
            options.pop("name", None)
            super().__init__(*values, **{**options, "disable": True})

    return SilentBar


# --- progress ---------------------------------------------------------------------------------------------------


class DownloadMeter:
    """Says what is downloaded, and how far it is.

    Args:
        repository: What it is downloaded from.
        files: The number of files.
        total: Their size in bytes.
        present: What of it an earlier run has downloaded.
        stream: Where it is written; None for nowhere.
    """

    def __init__(self, repository: Repository, files: int, total: int, present: int, stream: TextIO | None) -> None:
        self.stream = stream
        self.total, self.done, self.start = total, present, present
        self.began = self.written = time.monotonic()
        arrived = f", of which {megabytes(present)} are here" if present else ""
        number = f"{files} file{'s' if files > 1 else ''}"
        source = f"{repository.name} ({number}, commit {repository.commit[:12]})"
        self._write(f"downloading {megabytes(total)}{arrived} from {source}\n")

    def add(self, size: int) -> None:
        """Counts further bytes."""
        self.done += size
        moment = time.monotonic()
        is_terminal = self.stream is not None and self.stream.isatty()
        if moment - self.written >= (0.2 if is_terminal else EVERY):
            self.written = moment
            self._write(f"\r\x1b[K  {self.state}" if is_terminal else f"  {self.state}\n")

    @property
    def state(self) -> str:
        """How far it is, how fast, and how long it still takes."""
        seconds = time.monotonic() - self.began
        rate = (self.done - self.start) / seconds if seconds > 0 else 0.0
        left = f", {(self.total - self.done) / rate:,.0f} s left" if rate > 0 else ""
        return f"{megabytes(self.done)} of {megabytes(self.total)}, {megabytes(rate)}/s{left}"

    def _write(self, text: str) -> None:
        if self.stream is not None:
            self.stream.write(text)
            self.stream.flush()

    def __enter__(self) -> DownloadMeter:
        return self

    def __exit__(self, *_: object) -> None:
        if self.stream is not None and self.stream.isatty():
            self._write("\r\x1b[K")


def megabytes(size: float) -> str:
    """A size in words, in units of 1,000 bytes.

    >>> [megabytes(size) for size in (12, 34_567, 605_247_071, 2_100_000_000)]
    ['12 bytes', '35 kB', '605 MB', '2.1 GB']
    """
    if size < 1e3:
        return f"{size:.0f} bytes"
    for unit, scale in (("kB", 1e3), ("MB", 1e6)):
        if size < 999.5 * scale:
            return f"{size / scale:.1f} {unit}" if size < 9.95 * scale else f"{size / scale:.0f} {unit}"
    return f"{size / 1e9:.1f} GB"
