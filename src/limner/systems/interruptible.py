"""Long calls of compiled code that Ctrl-C can interrupt."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
LOOK = 0.2
"""Seconds between two checks for Ctrl-C."""


def interruptible(work: Callable[[], T]) -> T:
    """Runs a long call of compiled code, such as a decomposition, in a way that Ctrl-C can interrupt.

    Python handles signals only in the main thread, between two of its own instructions. So the call runs in a separate
    thread while the main thread waits. The call must release the GIL, as calls of numpy do and those of `scipy.linalg`
    do not. After an interrupt the call is abandoned and ends with the process.

    Args:
        work: The call. Outside the main thread it is simply called.

    >>> interruptible(lambda: 1 + 1)
    2
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    results: list[T] = []
    errors: list[BaseException] = []
    ended = threading.Event()

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # raised again below, where it belongs
            errors.append(error)
        finally:
            ended.set()

    threading.Thread(target=run, name="limner work", daemon=True).start()
    while not ended.wait(LOOK):
        pass
    if errors:
        raise errors[0]
    return results[0]
