"""All errors that a user can cause. Each message says what it got, what it expected and what to do.

All of them derive from `LimnerError`, so the command line turns them into one clear line and an exit status, and a
program can catch them all at once. They are also `ValueError`, Python's exception for a bad value.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class LimnerError(ValueError):
    """Invalid input; the message says what is wrong, where, and how to fix it."""


class LimnerWarning(UserWarning):
    """A result that should not be used as it is; the message says why and what to do."""


class UnknownId(LimnerError):
    """An id that does not exist."""


class ZeroVectors(LimnerError):
    """Vectors without a direction, such as those of texts with no known word.

    Args:
        message: What is wrong.
        rows: All rows of zeros.
    """

    def __init__(self, message: str, rows: Sequence[int]) -> None:
        super().__init__(message)
        self.rows = rows


class NothingKnown(LimnerError):
    """A query of which a system knows nothing, such as a text with no known word."""


class UnknownName(LimnerError):
    """An unknown name of a data set, measure, protocol, ..."""

    def __init__(self, what: str, name: str, known: Iterable[str], *, of: str = "") -> None:
        """Suggests the nearest known names.

        Args:
            what: The kind of name: "split".
            name: The unknown name.
            known: The known names.
            of: What the name belongs to: "'flickr8k'".

        >>> print(UnknownName("split", "tset", ["train", "test"], of="'flickr8k'"))
        unknown split 'tset' of 'flickr8k': did you mean 'test'?
        """
        known = sorted(known)
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"known: {', '.join(known)}"
        owner = f" of {of}" if of else ""
        super().__init__(f"unknown {what} {name!r}{owner}: {hint if known else 'there are none'}")
        self.name = name


class Untrusted(LimnerError):
    """A file names code outside limner, and the user has not said that the file is trusted."""

    def __init__(self, what: str, name: str, known: Iterable[str]) -> None:
        """Explains how to trust the file, and which names are allowed without trust."""
        listed = ", ".join(sorted(known))
        super().__init__(
            f"{what} {name!r} is named by a file, and is code from outside limner: loading it runs that "
            "code. If you trust its author, use --trust (trust=True in Python)"
            + (f"; without it a file may name: {listed}" if listed else "")
        )
        self.name = name


class TooShort(LimnerError):
    """A truncated ranking is too short for a measure."""


class NotWritten(LimnerError, OSError):
    """A file could not be written: the disk or a quota is full, or the file exceeds a size limit."""

    def __init__(self, path: str | Path, why: object) -> None:
        """Names the file, and says that the previous version is kept."""
        self.path, self.why = path, str(why).strip().partition("\n")[0]
        super().__init__(
            f"{path} is not written ({self.why}): the previous version is kept; free some space and try again"
        )


class MissingExtra(LimnerError, ImportError):
    """A feature needs an optional package."""

    def __init__(self, feature: str, package: str, extra: str) -> None:
        """Gives the pip command that installs the package."""
        super().__init__(
            f"{feature} needs the package {package!r}, which is not installed: pip install 'limner[{extra}]'"
        )
        self.package, self.extra = package, extra


def count(number: int, one: str, many: str = "") -> str:
    """A number with its noun.

    >>> count(1, "label"), count(1200, "label"), count(2, "query", "queries")
    ('1 label', '1,200 labels', '2 queries')
    """
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def shown(values: Iterable[object], *, most: int = 3) -> str:
    """Lists the first few values for a message: `'a', 'b', 'c' and 4 more`.

    >>> shown(["a", "b", "c", "d"], most=2)
    "'a', 'b' and 2 more"
    """
    listed = list(values)
    head = ", ".join(repr(str(v)) for v in listed[:most])
    return head if len(listed) <= most else f"{head} and {len(listed) - most} more"
