"""Children that die: at every touch of the file system in turn, or at a random moment of a command."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

# Children are forked from a server that has imported what takes long, and has used nothing of it.
CHILDREN = multiprocessing.get_context("forkserver")
CHILDREN.set_forkserver_preload(["limner.cli", "limner.match.search", "lancedb", "filelock", "pyarrow.compute"])
TOUCHES = ("open", "os.", "shutil.")
"""The audit events of Python that a kill may come before: opening, making, renaming, removing."""


def deaths(
    work: Callable[..., None], *given: Any, within: Path, most: int = 400, imports: Sequence[str] = ()
) -> Iterator[int]:
    """Does the work again and again, killed before its first touch of a folder, its second, ...; yields after each.

    The last round is the one that nothing kills. The work must be a function of a module, since a child imports it;
    `imports` are what it will need and what takes long to import.
    """
    here, there = CHILDREN.Pipe()
    child = CHILDREN.Process(target=_forking, args=(there, str(within), imports, work, given))
    child.start()
    there.close()
    try:
        for step in range(1, most):
            here.send(step)
            assert here.poll(120), f"step {step}: the child hangs"
            status = here.recv()
            assert status in (0, -signal.SIGKILL), f"step {step}: exit status {status}"
            yield step
            if status == 0:
                return
        raise AssertionError(f"not done after {most} touches of {within}")
    finally:
        here.close()
        child.join(30)


def _forking(told: Any, within: str, imports: Sequence[str], work: Callable[..., None], given: tuple[Any, ...]) -> None:
    """One child for all rounds: it imports once, and forks for each."""
    for name in imports:
        importlib.import_module(name)
    while True:
        try:
            step = told.recv()
        except EOFError:
            return
        number = os.fork()
        if number == 0:
            _dying(step, within, work, given)
        told.send(os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]))


def _dying(step: int, within: str, work: Callable[..., None], given: tuple[Any, ...]) -> None:
    seen = 0

    def touched(event: str, details: tuple[Any, ...]) -> None:
        nonlocal seen
        if event.startswith(TOUCHES) and any(str(d).startswith(within) for d in details if isinstance(d, (str, Path))):
            seen += 1
            if seen == step:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(touched)
    status = 1
    try:
        work(*given)
        status = 0
    finally:
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
