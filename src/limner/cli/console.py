"""What the shell shows: answers on stdout, everything else (progress, warnings, errors) on stderr."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from limner.scores import Progress

_WARNINGS = 5  # so many warnings are shown in full; a data set may have thousands


def answer(text: str, data: Mapping[str, Any], *, as_json: bool) -> None:
    """Prints the answer: for people, or as JSON for machines and nothing else."""
    print(json.dumps(_plain(data), indent=2, ensure_ascii=False, allow_nan=False) if as_json else text)


def tell(message: str) -> None:
    """Says something on stderr, in the manner of other commands: `limner: ...`."""
    print(f"limner: {message}", file=sys.stderr)


def warn(warnings: Sequence[str]) -> None:
    """Shows the first few warnings and counts the others."""
    for warning in warnings[:_WARNINGS]:
        tell(f"warning: {warning}")
    if len(warnings) > _WARNINGS:
        tell(f"warning: and {len(warnings) - _WARNINGS:,} more; 'limner data describe' lists them all")


@contextmanager
def progress(what: str) -> Iterator[Progress]:
    """Shows on a terminal what goes on and how far it is; elsewhere it is silent, so that logs stay readable."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Bar(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        yield _Told(bar, bar.add_task(what, total=None), what)


@dataclass(frozen=True)
class _Told:
    """Moves a bar, and says beside it what there is to say."""

    bar: Any
    task: Any
    what: str

    def __call__(self, done: int, total: int) -> None:
        # The last one done is not the end of the stage: until then the bar moves on without a goal.
        self.bar.update(self.task, completed=done, total=total if done < total else None)

    def note(self, text: str) -> None:
        """What else is known so far, such as the loss."""
        self.bar.update(self.task, description=f"{self.what}: {text}")


def table(rows: Iterable[Sequence[object]], *, indent: str = "") -> str:
    """Plain columns, as wide as they need to be whatever the terminal.

    >>> print(table([("name", "images"), ("scenes", 2000)]))
    name    images
    scenes  2000
    """
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in cells)
    return "\n".join(indent + line.rstrip() for line in lines)


def _plain(value: Any) -> Any:
    """The same data with only what JSON knows; a number that is not finite has no form there and becomes null."""
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, (str, int, float, type(None))) else str(value)
