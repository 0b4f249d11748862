"""Background jobs: long tasks that run once, with progress for the page."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from starlette.exceptions import HTTPException

from limner.core.errors import LimnerError
from limner.core.progress import Progress

Result = TypeVar("Result")

PATIENCE = 0.6
"""Seconds that a page waits for a job before it shows its progress instead."""
NOTICED = 2.0
"""Likewise for work that is usually done sooner."""


class Pending(Exception):
    """The result is not ready yet: try again later."""

    def __init__(self, job: Job) -> None:
        """Describes the current step."""
        super().__init__(job.what)
        self.job = job


@dataclass(eq=False)
class Job(Progress):
    """One piece of work.

    Args:
        what: Description for users.
        done: Amount of work done.
        total: Total amount; 0 if unknown.
    """

    what: str
    done: int = 0
    total: int = 0
    value: Any = None
    error: Exception | None = None
    finished: threading.Event = field(default_factory=threading.Event)

    def __call__(self, done: int, total: int) -> None:
        """Counts what is done."""
        self.done, self.total = done, total

    def step(self, what: str, unit: str = "", *, total: int | None = None, main: bool = False) -> Progress:
        """Starts the next step of the work, which is counted from 0."""
        self.what, self.done, self.total = what, 0, total or 0
        return self

    @contextmanager
    def stage(self, description: str) -> Iterator[Progress]:
        """Description of the next step of the work, and its progress callback."""
        yield self.step(description)

    def run(self, work: Callable[[Job], object]) -> None:
        """Runs the work and stores its result or error."""
        try:
            self.value = work(self)
        except Exception as error:  # re-raised when the value is read
            self.error = error
        finally:
            self.finished.set()


class Jobs:
    """All jobs of a server, by key: the first request starts a job, and all requests get the same value."""

    def __init__(self) -> None:
        """Starts empty."""
        self._jobs: dict[Hashable, Job] = {}
        self._latest: dict[Hashable, tuple[Hashable, Any]] = {}
        self._lock = threading.Lock()

    def value(
        self, key: Hashable, description: str, work: Callable[[Job], Result], *, patience: float | None = PATIENCE
    ) -> Result:
        """The result of a job.

        Args:
            key: Identifies the job; equal keys are the same job.
            description: Description of the work.
            work: Called with its job, once, in its own thread.
            patience: Seconds to wait; None to wait until it is done.

        Raises:
            Pending: If it is not done in that time.
        """
        job = self._begun(key, description, work)
        if not job.finished.wait(patience):
            raise Pending(job)
        if job.error is not None:
            self._forget(key, job)
            if isinstance(job.error, (LimnerError, OSError, Pending)):
                raise job.error
            raise RuntimeError(f"{description} failed: {type(job.error).__name__}: {job.error}") from job.error
        result: Result = job.value
        return result

    def _begun(self, key: Hashable, description: str, work: Callable[[Job], object]) -> Job:
        with self._lock:
            if key not in self._jobs:
                job = self._jobs[key] = Job(description)
                threading.Thread(target=job.run, args=(work,), daemon=True).start()
            return self._jobs[key]

    def _forget(self, key: Hashable, job: Job) -> None:
        """Removes a failed job so that it can be retried: a missing file may exist by now."""
        with self._lock:
            if self._jobs.get(key) is job:
                del self._jobs[key]

    def forget(self, key: Hashable) -> None:
        """Removes a finished job, so that it runs again on the next request."""
        with self._lock:
            if key in self._jobs and self._jobs[key].finished.is_set():
                del self._jobs[key]

    def latest(
        self,
        key: Hashable,
        description: str,
        state: Callable[[], Hashable],
        make: Callable[[], Result],
        *,
        patience: float,
    ) -> tuple[Result | None, Job | None]:
        """The latest result of a job that runs again when its data has changed, and the running job if it is outdated.

        Args:
            key: Identifies the job.
            description: Description of the work.
            state: The state of the data now.
            make: Computes the result.
            patience: Seconds to wait for the first result; there is no wait for newer ones.
        """

        def work(job: Job) -> tuple[Hashable, Result]:
            return state(), make()  # in this order: what changes in between is noticed next time

        for seconds in (patience, 0.0):  # the result may be outdated: then the next job is started
            if key in self._latest and self._latest[key][0] == state():
                break
            try:
                self._latest[key] = self.value(key, description, work, patience=seconds)
            except Pending as pending:
                return self._latest.get(key, (None, None))[1], pending.job
            self.forget(key)
        return self._latest.get(key, (None, None))[1], None

    def ready(self, key: Hashable) -> bool:
        """Whether the value is available."""
        job = self._jobs.get(key)
        return job is not None and job.finished.is_set() and job.error is None


# --- slow work of requests --------------------------------------------------------------------------------------

PLACES = min(4, max(1, (os.cpu_count() or 2) // 2))
"""Number of passwords hashed at once: half of the cores stay free, and each hash needs memory."""
QUEUE = 500
"""Maximum queue length."""

Argument = TypeVar("Argument")


class WorkerPool:
    """Runs deliberately slow work in a few separate threads, in order of arrival, so that other requests do not wait.

    Work is refused if the queue is full.
    """

    def __init__(self, places: int = PLACES, queue: int = QUEUE) -> None:
        """Starts without work."""
        self._pool = ThreadPoolExecutor(places, "limner-passwords")
        self._most, self._waiting = places + queue, 0

    async def run(self, work: Callable[[Argument], Result], argument: Argument) -> Result:
        """Runs a function and returns its result."""
        if self._waiting >= self._most:
            raise HTTPException(503, "too many logins at once: try again in a moment", headers={"Retry-After": "5"})
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work, argument)
        finally:
            self._waiting -= 1
