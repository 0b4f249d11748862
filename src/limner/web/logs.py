"""A log that a stranger cannot fill: what repeats is written a few times, and then only counted."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

LOGGERS = ("uvicorn.error", "asyncio", "limner.web")


@dataclass
class _Line:
    left: float
    at: float
    skipped: int = 0


class Bounded(logging.Filter):
    """Lets each line of the code write `burst` times at once, and then once in every `every` seconds.

    Args:
        burst: How many at once.
        every: Seconds until one more is written; it says how many were left out.
        clock: Seconds that only grow.
    """

    def __init__(self, burst: int = 10, every: float = 30.0, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Has seen nothing."""
        super().__init__()
        self.burst, self.every, self.clock = burst, every, clock
        self._lines: dict[tuple[str, str, int], _Line] = {}  # as many as there are lines that write
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is written; the first one after some that were not says so."""
        with self._lock:
            now = self.clock()
            line = self._lines.setdefault((record.name, record.pathname, record.lineno), _Line(self.burst, now))
            line.left = min(float(self.burst), line.left + (now - line.at) / self.every)
            line.at = now
            if line.left < 1:
                line.skipped += 1
                return False
            line.left -= 1
            skipped, line.skipped = line.skipped, 0
        if skipped:
            record.msg, record.args = f"{record.getMessage()} (and {skipped:,} times more before this)", ()
        return True


_bounded = Bounded()


def bound_logs() -> None:
    """Bounds what the server writes, whoever asks it what."""
    for name in LOGGERS:
        logging.getLogger(name).addFilter(_bounded)
