"""Writing files so that nothing is lost: a file appears whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A path beside `path` to write to; it takes the place of `path` when all went well, and is removed otherwise.

    An interrupted or failing write leaves what was there before. The name keeps its ending, and a link stays a link.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     target = Path(folder, "numbers.txt")
    ...     with replacing(target) as file:
    ...         _ = file.write_text("1 2 3")
    ...     target.read_text(), len(list(Path(folder).iterdir()))
    ('1 2 3', 1)
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():  # a device such as /dev/stdout cannot be replaced
        yield target
        return
    draft = target.with_name(f".{target.stem}.{os.getpid()}{target.suffix}")
    try:
        yield draft
        os.replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    """Writes a text as UTF-8, whole or not at all; lines end in a newline alone on every machine."""
    with replacing(path) as file:
        file.write_text(text, encoding="utf-8", newline="\n")
