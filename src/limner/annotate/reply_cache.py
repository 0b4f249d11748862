"""Answers of endpoints by the content of the question, shared by all stores of a user.

The key is a hash of the endpoint, the model, the prompt, the caption and the bytes of the image, so that a changed
prompt or image is asked again. A file in the cache folder holds hashes and scores alone. An answer is written as soon
as it arrives: a run that is killed before its next commit loses none.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from limner.core.paths import cache_folder

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
