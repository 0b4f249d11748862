"""Memory of a model on the CPU: kept between two layers and used again, instead of being given back and asked for anew.

A convolution frees its input as soon as its output is there. Allocators hand such large pieces back to the system at
once, and every page that is touched again costs a fault: for EfficientNet a third of the time (`benchmarks/encode.py`).
"""

from __future__ import annotations

import ctypes
import os

KEEP_MS = 1000
"""Freed memory stays with the process for so many milliseconds."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of glibc's mallopt
_TRIM_BYTES, _MMAP_BYTES = 1 << 28, 1 << 25


def before_torch() -> None:
    """Has mimalloc, which torch brings on some processors, keep freed memory for a moment.

    It reads its settings from the environment when torch is loaded; one that a person has made stays.
    """
    os.environ.setdefault("MIMALLOC_PURGE_DELAY", str(KEEP_MS))


def keep_freed() -> None:
    """The same for the C library's allocator, which torch takes elsewhere."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):  # another C library, or another system
        return
    mallopt(_TRIM_THRESHOLD, _TRIM_BYTES)
    mallopt(_MMAP_THRESHOLD, _MMAP_BYTES)
