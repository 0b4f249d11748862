"""Progress of long tasks: counts of what is done, in named steps."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

Item = TypeVar("Item")
_CALLS = 500


class Progress:
    """Progress that shows nothing. A display overrides the methods.

    >>> SILENT.step("computing intervals")(1, 2)
    """

    def __call__(self, done: int, total: int) -> None:
        """Counts what is done of the current step."""

    def step(self, what: str, unit: str = "", *, total: int | None = None, main: bool = False) -> Progress:
        """Begins the next step of the task; its own count begins at 0.

        Args:
            what: Description of the step.
            unit: The unit that is counted.
            total: The total, if it is known: the display starts at 0 of it.
            main: Whether this is the step that a plain callback counts; it hears nothing of the others.
        """
        return self

    def note(self, text: str) -> None:
        """Shows further information, such as the loss."""

    def part(self, start: int, total: int) -> Progress:
        """The progress of a part of the current step, whose count continues at `start`.

        >>> as_progress(print).part(2, 8)(1, 3)
        3 8
        """
        return self if self is SILENT else Callback(lambda done, _: self(start + done, total))


SILENT = Progress()


class Callback(Progress):
    """A plain function of (done, total): it counts the main step only.

    >>> as_progress(print).step("reading")(1, 2)
    >>> as_progress(print).step("comparing", main=True)(1, 2)
    1 2
    """

    def __init__(self, function: Callable[[int, int], object]) -> None:
        self._function = function

    def __call__(self, done: int, total: int) -> None:
        """Calls the function."""
        self._function(done, total)

    def step(self, what: str, unit: str = "", *, total: int | None = None, main: bool = False) -> Progress:
        """Itself for the main step, else silence."""
        return self if main else SILENT


ProgressLike = Progress | Callable[[int, int], object] | None
"""What a user may pass: a display, a function of (done, total), or nothing."""


def as_progress(progress: ProgressLike) -> Progress:
    """The progress that a user passed; silent for None."""
    if progress is None:
        return SILENT
    return progress if isinstance(progress, Progress) else Callback(progress)


def progress_for(function: Callable[..., object], progress: ProgressLike) -> dict[str, object]:
    """The progress as a keyword argument, if it is shown and the function accepts one.

    >>> def fit(rows, *, progress=None): ...
    >>> progress_for(fit, max), progress_for(len, max), progress_for(fit, None)
    ({'progress': <built-in function max>}, {}, {})
    """
    if progress is None or progress is SILENT:
        return {}
    try:
        return {"progress": progress} if "progress" in inspect.signature(function).parameters else {}
    except ValueError:  # a C function has no signature
        return {}


def counting(items: Sequence[Item], progress: ProgressLike) -> Iterator[Item]:
    """Yields the items and counts those that are done; a long list is not counted one by one.

    >>> for letter in counting("ab", print):
    ...     print(letter)
    a
    1 2
    b
    2 2
    """
    display, total = as_progress(progress), len(items)
    for number, item in enumerate(items, start=1):
        yield item
        if number * _CALLS // total > (number - 1) * _CALLS // total:
            display(number, total)


class Stages:
    """Progress over several stages as a single count: each stage continues where the previous one ended.

    >>> stages = Stages(print, images=2, solutions=1)
    >>> stages["images"](2, 2); stages["solutions"](1, 1)
    2 3
    3 3
    """

    def __init__(self, progress: ProgressLike, **sizes: int) -> None:
        self._progress, self._sizes = as_progress(progress), sizes

    def __getitem__(self, name: str) -> Progress:
        total, size = sum(self._sizes.values()), self._sizes[name]
        start = sum(list(self._sizes.values())[: list(self._sizes).index(name)])
        progress = self._progress
        return Callback(lambda done, of: progress(start + round(done / of * size), total))
