"""A pool of its own for what is slow on purpose, so that nobody else waits for it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from starlette.exceptions import HTTPException

PLACES = min(4, max(1, (os.cpu_count() or 2) // 2))
"""So many passwords are hashed at once: half of the machine is for everybody else, and each takes memory on purpose."""
QUEUE = 500
"""So many may wait for that."""

Value = TypeVar("Value")
Given = TypeVar("Given")


class Apart:
    """Runs work in a few threads of its own, the others in the order they came; refuses what would wait too long."""

    def __init__(self, places: int = PLACES, queue: int = QUEUE) -> None:
        """Runs nothing."""
        self._pool = ThreadPoolExecutor(places, "limner-apart")
        self._most, self._held = places + queue, 0

    async def run(self, work: Callable[[Given], Value], given: Given) -> Value:
        """What the work gives."""
        if self._held >= self._most:
            raise HTTPException(503, "too many people log in at once: try again soon", headers={"Retry-After": "5"})
        self._held += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work, given)
        finally:
            self._held -= 1
