"""A separate thread pool for deliberately slow work, so that other requests do not wait."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from starlette.exceptions import HTTPException

PLACES = min(4, max(1, (os.cpu_count() or 2) // 2))
"""Number of passwords hashed at once: half of the cores stay free, and each hash needs memory."""
QUEUE = 500
"""Maximum queue length."""

Value = TypeVar("Value")
Given = TypeVar("Given")


class WorkerPool:
    """Runs work in a few separate threads, in order of arrival; refuses work if the queue is full."""

    def __init__(self, places: int = PLACES, queue: int = QUEUE) -> None:
        """Starts without work."""
        self._pool = ThreadPoolExecutor(places, "limner-passwords")
        self._most, self._held = places + queue, 0

    async def run(self, work: Callable[[Given], Value], given: Given) -> Value:
        """Runs a function and returns its result."""
        if self._held >= self._most:
            raise HTTPException(503, "too many logins at once: try again in a moment", headers={"Retry-After": "5"})
        self._held += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work, given)
        finally:
            self._held -= 1
