"""When the next request to an endpoint may start: at most so many a minute, and fewer while the endpoint is busy."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

LONGEST = 60.0
"""The longest pause that an endpoint may ask for, in seconds."""
_FIRST_SPACING = 0.01  # seconds between two requests after the first refusal
_WIDEST_SPACING = 10.0
_REFUSED, _REFUSED_PER_SECOND, _ANSWERED = 1.3, 2.0, 0.97  # factors of the spacing


class Pace:
    """Starts of requests, shared by all threads.

    After a refusal (status 429) all threads pause as long as it asks for. The time between two requests grows with each
    refusal, and shrinks with each answer, so that about one request in ten is refused where the endpoint is the limit.

    Args:
        per_minute: Requests per minute at most; None for no limit.
        clock: The clock, in seconds.
        sleep: Waits for some seconds.
    """

    def __init__(
        self,
        per_minute: float | None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._lock = threading.Lock()
        self._clock, self._sleep = clock, sleep
        self._smallest = 60 / per_minute if per_minute else 0.0
        self._spacing = self._smallest
        self._next = self._second = float("-inf")
        self._at_second = 0.0  # the spacing when this second began

    def wait(self) -> None:
        """Returns when the next request may start."""
        with self._lock:
            start = max(self._next, self._clock())
            self._next = start + self._spacing
        delay = start - self._clock()
        if delay > 0:
            self._sleep(delay)

    def slow_down(self, pause: float) -> None:
        """Pauses all requests, and makes the time between two of them longer: at most twice as long in a second."""
        with self._lock:
            time_now = self._clock()
            self._next = max(self._next, time_now + pause)
            if time_now >= self._second + 1:
                self._second, self._at_second = time_now, max(self._spacing, _FIRST_SPACING)
            highest = min(_REFUSED_PER_SECOND * self._at_second, max(_WIDEST_SPACING, self._smallest))
            self._spacing = min(max(_REFUSED * self._spacing, _FIRST_SPACING), highest)

    def speed_up(self) -> None:
        """Shortens the time between two requests after an answer."""
        with self._lock:
            self._spacing = max(self._spacing * _ANSWERED, self._smallest) if self._spacing > 1e-3 else self._smallest


def retry_after(text: str | None) -> float:
    """The pause that Retry-After asks for in seconds or as a date, at most a minute.

    >>> retry_after("3"), retry_after("3600"), retry_after(None), retry_after("soon")
    (3.0, 60.0, 0.0, 1.0)
    """
    if not text:
        return 0.0
    try:
        seconds = float(text)
    except ValueError:
        seconds = _seconds_until(text)
    return min(max(seconds, 0.0), LONGEST) if seconds == seconds else 1.0


def _seconds_until(date: str) -> float:
    try:
        return (parsedate_to_datetime(date) - datetime.now(UTC)).total_seconds()
    except (TypeError, ValueError):  # no date, or one without a zone
        return 1.0
