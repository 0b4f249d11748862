"""Requests to an endpoint: when the next may start, and the answers that are there already.

There are at most so many requests a minute, and fewer while the endpoint is busy.

Answers are stored by the content of the question, and shared by all stores of a user. The key is a hash of the
endpoint, the model, the prompt, the caption and the bytes of the image, so that a changed prompt or image is asked
again. A file in the cache folder holds hashes and scores alone. An answer is written as soon as it arrives: a run that
is killed before its next commit loses none.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path

from limner.core.paths import cache_folder

LONGEST = 60.0
"""The longest pause that an endpoint may ask for, in seconds."""
TOLERATED = 0.1
"""The share of refused requests above which there are fewer of them."""
_WINDOW, _FEWEST = 1.0, 10  # seconds and replies between two adjustments
_WIDEST_SPACING = 10.0
_FASTER = 0.9  # factor of the spacing where few requests are refused


class RequestPace:
    """Starts of requests, shared by all threads.

    After a refusal (status 429) a thread that calls `wait` next waits as long as it asks for. Where more than a tenth
    of the requests is refused, there are only as many as the endpoint has answered in the same time; then slowly more.

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
        self._next = float("-inf")
        self._answered = self._refused = 0
        self._window_start = clock()

    def wait(self) -> None:
        """Returns when the next request may start."""
        with self._lock:
            start = max(self._next, self._clock())
            self._next = start + self._spacing
        delay = start - self._clock()
        if delay > 0:
            self._sleep(delay)

    def count_answer(self) -> None:
        """Counts an answer."""
        with self._lock:
            self._answered += 1
            self._adjust(self._clock())

    def count_refusal(self, pause: float) -> None:
        """Counts a refusal, and pauses all requests."""
        with self._lock:
            time_now = self._clock()
            later = max(self._next, time_now + pause)
            self._window_start += min(later - max(self._next, time_now), pause)  # a pause says nothing of the pace
            self._next = later
            self._refused += 1
            self._adjust(time_now)

    def _adjust(self, time_now: float) -> None:
        """Sets the time between two requests from the replies of the last second or more."""
        seconds, replies = time_now - self._window_start, self._answered + self._refused
        if seconds < _WINDOW or replies < _FEWEST:
            return
        if self._refused > TOLERATED * replies:
            self._spacing = max(min(seconds / max(self._answered, 1), _WIDEST_SPACING), self._smallest)
        else:
            self._spacing = max(self._spacing * _FASTER, self._smallest) if self._spacing > 1e-3 else self._smallest
        self._answered = self._refused = 0
        self._window_start = time_now


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


_FILE = "answers.db"
_WAIT = 10.0  # seconds until another process has written


def content_key(*parts: object) -> str:
    """The hash of a question.

    >>> content_key("model", "prompt") == content_key("model", "prompt")
    True
    >>> content_key("ab", "c") == content_key("a", "bc")
    False
    """
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


class ReplyCache:
    """Scores by the hash of the question. A cache that cannot be read or written is empty.

    Args:
        folder: Its folder; None for the shared cache folder, if there is one.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._lock = threading.Lock()
        self._folder = folder or cache_folder("judges")
        self._connection: sqlite3.Connection | None = None

    def get(self, key: str) -> float | None:
        """The score of a question; None if it is not in the cache."""
        with self._lock, suppress(sqlite3.Error):
            row = self._open().execute("SELECT score FROM answer WHERE key = ?", (key,)).fetchone()
            return None if row is None or not 0 <= float(row[0]) <= 1 else float(row[0])
        return None

    def put(self, scores: Mapping[str, float]) -> None:
        """Adds scores; they are in the file when this returns."""
        with self._lock, suppress(sqlite3.Error):
            connection = self._open()
            with connection:
                connection.executemany("INSERT OR REPLACE INTO answer VALUES (?, ?)", scores.items())

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            target = ":memory:" if self._folder is None else str(self._folder / _FILE)
            connection = sqlite3.connect(target, timeout=_WAIT, check_same_thread=False)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("CREATE TABLE IF NOT EXISTS answer (key TEXT PRIMARY KEY, score REAL NOT NULL)")
            self._connection = connection
        return self._connection
