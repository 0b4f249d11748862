"""A rate-limited log: repeated messages are written a few times, and then only counted."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable

from limner.web.throttle import Throttle

LOGGERS = ("uvicorn.error", "asyncio", "limner.web")


class Bounded(logging.Filter):
    """Allows each line of code `burst` messages at once, and then one every `every` seconds.

    Args:
        burst: Number of messages at once.
        every: Seconds until one more is written, with the number of omitted ones.
        clock: A monotonic clock, in seconds.
    """

    def __init__(self, burst: int = 10, every: float = 30.0, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Starts empty."""
        super().__init__()
        self._turns = Throttle(burst, every, clock=clock)
        self._skipped: Counter[str] = Counter()  # one entry per line of code that logs

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is written; the first one after omitted ones includes their number."""
        line = f"{record.name} {record.pathname} {record.lineno}"
        if self._turns.take(line):
            self._skipped[line] += 1
            return False
        skipped = self._skipped.pop(line, 0)
        if skipped:
            record.msg, record.args = f"{record.getMessage()} (and {skipped:,} times more before this)", ()
        return True


def is_news(record: logging.LogRecord) -> bool:
    """Whether a record is about more than what the end of the server cuts off: it counts such requests itself.

    The app's own task, cut off by a second Ctrl-C, is reported as text.
    """
    if record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError):
        return False
    return not record.getMessage().rstrip().endswith("\nasyncio.exceptions.CancelledError")


_bounded = Bounded()


def bound_logs() -> None:
    """Rate-limits the server's logs, without requests that its end cuts off."""
    for name in LOGGERS:
        logging.getLogger(name).addFilter(is_news)
        logging.getLogger(name).addFilter(_bounded)
