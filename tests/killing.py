"""Children that die: at every touch of the file system in turn, or at a random moment of a command."""

from __future__ import annotations

import importlib
import importlib.util
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

# Children are forked from a server that has imported what takes long, and has used nothing of it.
CHILDREN = multiprocessing.get_context("forkserver")
CHILDREN.set_forkserver_preload(
    [
        "limner.cli",
        "limner.evaluation.evaluate",
        "limner.search",
        "limner.systems.histograms",
        "limner.annotate.export",
        "limner.explain.failures",
        "limner.evaluation.reports.page",
        "limner.systems.towers.training",
        "lancedb",
        "filelock",
        "pyarrow.compute",
        "pyarrow.parquet",
        "alembic.command",
        "scipy.sparse",
        "scipy.linalg",
        "sklearn",
        "pytest",
    ]
)
TOUCHES = ("open", "os.", "shutil.")
"""The audit events of Python that a kill may come before: opening, making, renaming, removing."""


def deaths(
    work: Callable[..., None], *arguments: Any, folder: Path, limit: int = 400, imports: Sequence[str] = ()
) -> Iterator[int]:
    """Does the work again and again, killed before its first touch of a folder, its second, ...; yields after each.

    The last round is the one that nothing kills. The work must be a function of a module, since a child imports it;
    `imports` are what it will need and what takes long to import.
    """
    parent_end, child_end = CHILDREN.Pipe()
    child = CHILDREN.Process(target=_forking, args=(child_end, str(folder), imports, work, arguments))
    child.start()
    child_end.close()
    try:
        for step in range(1, limit):
            parent_end.send(step)
            assert parent_end.poll(120), f"step {step}: the child hangs"
            status = parent_end.recv()
            assert status in (0, -signal.SIGKILL), f"step {step}: exit status {status}"
            yield step
            if status == 0:
                return
        raise AssertionError(f"not done after {limit} touches of {folder}")
    finally:
        parent_end.close()
        child.join(30)


def _forking(
    pipe: Any, folder: str, imports: Sequence[str], work: Callable[..., None], arguments: tuple[Any, ...]
) -> None:
    """One child for all rounds: it imports once, and forks for each."""
    for name in imports:
        importlib.import_module(name)
    while True:
        try:
            step = pipe.recv()
        except EOFError:
            return
        number = os.fork()
        if number == 0:
            _dying(step, folder, work, arguments)
        pipe.send(os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]))


def _dying(step: int, folder: str, work: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    _Touches(folder, step)
    status = 1
    try:
        work(*arguments)
        status = 0
    finally:
        os._exit(status)


class _Touches:
    """Counts how often this process opens, makes, renames or removes something in a folder; dies before one of them.

    What it asks a database, and every commit there, counts as well.
    """

    def __init__(self, folder: str, dies_at: int | None = None) -> None:
        self.folder, self.dies_at, self.count = folder, dies_at, 0
        sys.addaudithook(self._heard)
        if importlib.util.find_spec("sqlalchemy"):
            from sqlalchemy import Engine, event

            event.listen(Engine, "before_cursor_execute", self._touched)
            event.listen(Engine, "commit", self._touched)

    def _heard(self, event: str, details: tuple[Any, ...]) -> None:
        paths = (str(each) for each in details if isinstance(each, (str, Path)))
        if event.startswith(TOUCHES) and any(path.startswith(self.folder) for path in paths):
            self._touched()

    def _touched(self, *_: object) -> None:
        self.count += 1
        if self.count == self.dies_at:
            os.kill(os.getpid(), signal.SIGKILL)


# --- what takes its time ------------------------------------------------------------------------------------------


class Slow:
    """An encoder of texts that a kill can meet in the middle."""

    dim, fingerprint = 3, "slow 1"

    def encode(self, items: Any) -> Any:
        """Lengths and letters."""
        time.sleep(0.002 * len(items))
        return np.array([[len(text), text.count("a") + 1, text.count("e") + 1] for text in items.values], dtype=float)


class Judge:
    """A scorer of pairs, likewise."""

    fingerprint = "judge 1"

    def score_pairs(self, queries: Sequence[str], candidates: Sequence[str]) -> list[int]:
        """Something of both lengths."""
        time.sleep(0.0005 * len(queries))
        return [len(query) * 7 % 5 + len(text) * 3 % 11 for query, text in zip(queries, candidates, strict=True)]


# --- commands -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Done:
    """What became of a command: its exit status (-9 for a kill), what it said, how long it took, what it touched."""

    status: int
    said: str
    seconds: float
    touches: int


def command(
    words: Sequence[object], *, folder: Path, after: float | None = None, at: int | None = None, seconds: float = 600
) -> Done:
    """Runs a command of limner in a process of its own, and kills it.

    Args:
        words: Of the command line.
        folder: The folder that it writes in, which is also where it runs.
        after: Kills it after so many seconds.
        at: Kills it before this touch of the folder.
        seconds: How long it may take.
    """
    parent_end, child_end = CHILDREN.Pipe(duplex=False)
    log = folder.parent / f"{folder.name}.log"
    child = CHILDREN.Process(target=_commanded, args=([str(w) for w in words], str(folder), str(log), at, child_end))
    child.start()
    child_end.close()
    began, touches = time.monotonic(), 0
    with suppress(EOFError):
        parent_end.recv()  # it begins
        began = time.monotonic()
        if parent_end.poll(seconds if after is None else after):
            touches = parent_end.recv()
        elif child.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGKILL)
    child.join(60)
    assert child.exitcode is not None, f"{words} hangs"
    return Done(child.exitcode, log.read_text() if log.exists() else "", time.monotonic() - began, touches)


def _commanded(words: list[str], folder: str, log: str, at: int | None, pipe: Any) -> None:
    os.chdir(folder)
    with open(log, "w") as file:
        os.dup2(file.fileno(), 1), os.dup2(file.fileno(), 2)
    from limner.cli import app

    pipe.send("begins")
    touched = _Touches(folder, at)
    status = 70
    try:
        app(words)
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else 0
    finally:
        sys.stdout.flush(), sys.stderr.flush()
        pipe.send(touched.count)
        os._exit(status)


@contextmanager
def no_larger(size: int) -> Iterator[None]:
    """No file may grow beyond so many bytes meanwhile: what a full disk does, on any machine."""
    resource = pytest.importorskip("resource", reason="limits on files are of Unix")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
