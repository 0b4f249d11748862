"""Keeps the memory of a model on the CPU for reuse between layers, instead of returning it to the system.

A convolution frees its input as soon as its output is ready. Allocators return such large blocks to the system at once,
and touching each page again costs a page fault: for EfficientNet a third of the time (`benchmarks/encode.py`).
"""

from __future__ import annotations

import ctypes
import os

KEEP_MS = 1000
"""Milliseconds for which the process keeps freed memory."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # parameters of glibc's mallopt
_TRIM_BYTES, _MMAP_BYTES = 1 << 28, 1 << 25


def before_torch() -> None:
    """Makes mimalloc, which torch uses on some CPUs, keep freed memory for a moment; idle threads of torch sleep.

    Otherwise they spin for a while after every operation, and take the cores from the threads that decode images: with
    a small model on two cores, encoding took 2.5 times the CPU time. Both are read from the environment when torch is
    loaded; a value set by the user is kept.
    """
    os.environ.setdefault("MIMALLOC_PURGE_DELAY", str(KEEP_MS))
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def keep_freed() -> None:
    """Does the same for the allocator of the C library, which torch uses on other CPUs."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):  # another C library or operating system
        return
    mallopt(_TRIM_THRESHOLD, _TRIM_BYTES)
    mallopt(_MMAP_THRESHOLD, _MMAP_BYTES)
