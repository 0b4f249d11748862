"""Writes a value in the format given by the file extension."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from limner.core.errors import LimnerError
from limner.core.files import write_file
from limner.core.paths import place_for
from limner.core.registry import Registry, checked

Content = TypeVar("Content", bound=str | bytes)


def save_as(
    value: object,
    path: str | Path,
    formats: Registry[Callable[..., Content]],
    options: Mapping[str, object],
    *,
    what: str,
) -> Path:
    """Writes a value atomically, in the format given by the file extension.

    Args:
        value: The value to write.
        path: The file; its folder must exist.
        formats: Functions `(value, **options) -> str or bytes` by file extension.
        options: Options of the format; unknown options are refused.
        what: Name of the value in error messages.

    Returns:
        The path.
    """
    target = place_for(path)
    ending = target.suffix.lower()
    if ending not in formats:
        raise LimnerError(
            f"unknown {what} file ending {target.suffix or target.name!r}: expected one of {', '.join(formats)}"
        )
    write = formats[ending]
    write_file(target, write(value, **checked(write, options, what=f"a {ending} {what}", filled=1)))
    return target
