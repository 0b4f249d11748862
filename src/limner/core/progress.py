"""Progress callbacks, which are called with (done, total)."""

from __future__ import annotations

import inspect
from collections.abc import Callable


def progress_for(function: Callable[..., object], progress: Callable[[int, int], object] | None) -> dict[str, object]:
    """The progress callback as a keyword argument, if the function accepts one.

    >>> def fit(rows, *, progress=None): ...
    >>> progress_for(fit, max), progress_for(len, max), progress_for(fit, None)
    ({'progress': <built-in function max>}, {}, {})
    """
    if progress is None:
        return {}
    try:
        return {"progress": progress} if "progress" in inspect.signature(function).parameters else {}
    except ValueError:  # a C function has no signature
        return {}
