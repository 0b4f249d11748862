"""Ctrl-C: the process ends soon, with one line, whatever it does."""

from __future__ import annotations

import _thread
import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import NoReturn

LATER = 0.02
"""Seconds after which a KeyboardInterrupt is raised again that was lost in a finaliser."""
PATIENCE = 1.5
"""Seconds after Ctrl-C in which the process may end by itself."""
INTERRUPTED = 130
"""Exit status after Ctrl-C."""
MESSAGE = "interrupted; files are written atomically, so nothing is left half done"
"""What a command says after Ctrl-C."""
SHOW_CURSOR = "\x1b[?25h"
heard = threading.Event()
"""Set after Ctrl-C, from `end_soon` on: libraries turn a KeyboardInterrupt into errors of their own."""
reported = threading.Event()
"""Set once the message was printed."""


def end_soon() -> None:
    """From now on, ends the process soon after Ctrl-C, even if its main thread does not hear it.

    Python raises KeyboardInterrupt in the main thread, between two of its own instructions. Compiled code may run for
    minutes before the next one, and threads that still work hold up the end of the process. The signal also arrives
    at a pipe, where a thread waits for it. A process that was started to ignore Ctrl-C, as in the background of a
    script, goes on to ignore it.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        return
    # When all is done and threads have ended, Python would restore the default: the signal kills the process.
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
    end, begin = os.pipe()
    os.set_blocking(begin, False)
    threading.Thread(target=_wait, args=(end,), name="limner interrupts", daemon=True).start()
    signal.set_wakeup_fd(begin, warn_on_full_buffer=False)
    signal.signal(signal.SIGINT, _raise)
    sys.unraisablehook = partial(_raise_again, sys.unraisablehook)
    threading.excepthook = partial(_tell_thread, threading.excepthook)


def _raise_again(previous_hook: Callable[[sys.UnraisableHookArgs], object], lost: sys.UnraisableHookArgs) -> None:
    """Raises a KeyboardInterrupt again that came in a finaliser or a callback, where Python prints and drops it.

    Not at once, as this function is called from there: another thread does it when the callback has returned. After
    Ctrl-C other errors there are not told: finalisers fail on objects that were only half made.
    """
    if issubclass(lost.exc_type, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
        threading.Timer(LATER, _thread.interrupt_main).start()
    elif not heard.is_set():
        previous_hook(lost)


def _tell_thread(previous_hook: Callable[[threading.ExceptHookArgs], object], failed: threading.ExceptHookArgs) -> None:
    """Tells of an error that ends a thread, but not after Ctrl-C: the main thread has left what it needs."""
    if not heard.is_set():
        previous_hook(failed)


def _raise(number: int, frame: FrameType | None) -> NoReturn:
    heard.set()
    raise KeyboardInterrupt


def raise_no_more() -> None:
    """From now on, Ctrl-C raises nothing: the command is done, and nobody is left who would take the error.

    What Python still does at its end is not cut off, but if it takes long, the process ends as after any Ctrl-C.
    """
    if signal.getsignal(signal.SIGINT) is _raise:
        signal.signal(signal.SIGINT, _note)


def _note(number: int, frame: FrameType | None) -> None:
    heard.set()


def _wait(end: int) -> None:
    while os.read(end, 1) != bytes([signal.SIGINT]):
        pass
    time.sleep(PATIENCE)
    try:
        say_interrupted()
    finally:
        os._exit(INTERRUPTED)


def leave() -> NoReturn:
    """Ends an interrupted process without the end of Python itself.

    That would wait for threads, and then for the threads of a decomposition that still runs (OpenBLAS), when no thread
    of Python can end the process any more.
    """
    try:
        say_interrupted()
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    finally:
        os._exit(INTERRUPTED)


def say_interrupted() -> None:
    """Prints the message on stderr, unless it was printed before; shows the cursor, which a progress bar hides."""
    if reported.is_set() or sys.stderr is None:
        return
    reported.set()
    cursor = SHOW_CURSOR if sys.stderr.isatty() else ""
    print(f"{cursor}limner: {MESSAGE}", file=sys.stderr, flush=True)
