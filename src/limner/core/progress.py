"""Progress callbacks, which are called with (done, total)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

Progress = Callable[[int, int], None]
"""Called with (done, total)."""
Item = TypeVar("Item")
_CALLS = 500


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


def next_step(progress: Progress | None, what: str, unit: str = "", *, total: int | None = None) -> Progress | None:
    """Names the next step of a long task, if its progress is displayed; its own count begins at 0.

    Args:
        progress: A display with a method `step`; a plain callback counts only the main step.
        what: Description of the step.
        unit: The unit that is counted.
        total: The total, if it is known now: the display starts at 0 of it.

    Returns:
        The callback of the step.

    >>> next_step(print, "computing intervals"), next_step(None, "computing intervals")
    (None, None)
    """
    start = getattr(progress, "step", None)
    return None if start is None else start(what, unit, total)


def counting(items: Sequence[Item], progress: Progress | None) -> Iterator[Item]:
    """Yields the items and counts those that are done; a long list is not counted one by one.

    >>> for letter in counting("ab", print):
    ...     print(letter)
    a
    1 2
    b
    2 2
    """
    total = len(items)
    for number, item in enumerate(items, start=1):
        yield item
        if progress is not None and number * _CALLS // total > (number - 1) * _CALLS // total:
            progress(number, total)


class Stages:
    """Progress over several stages as a single count: each stage continues where the previous one ended.

    >>> stages = Stages(print, images=2, solutions=1)
    >>> stages["images"](2, 2); stages["solutions"](1, 1)
    2 3
    3 3
    """

    def __init__(self, progress: Progress | None, **sizes: int) -> None:
        self._progress, self._sizes = progress, sizes

    def __getitem__(self, name: str) -> Progress | None:
        progress, total = self._progress, sum(self._sizes.values())
        if progress is None:
            return None
        before = sum(list(self._sizes.values())[: list(self._sizes).index(name)])
        return lambda done, of: progress(before + round(done / of * self._sizes[name]), total)
