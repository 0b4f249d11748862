"""Terminal output: results on stdout, everything else (progress, warnings, errors) on stderr.

Names, ids and texts come from untrusted files, so every control character is escaped.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TextIO

from limner.cli.wrapped_text import wrapped_table, wrapped_text
from limner.core.cut_texts import cut_notes, is_cut_note, pass_on
from limner.core.errors import LimnerError
from limner.core.progress import Progress

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import ProgressColumn, Task, TaskID
    from rich.text import Text

    from limner.evaluation.tables import Block

_WARNINGS = 5  # warnings shown in full; a data set may have thousands
EVERY = 5.0
"""Seconds between two progress lines without a terminal."""
SURE = 2.0
"""Seconds after which a rate is shown."""
STILL, STEADY = 5.0, 5.0
"""Where a count stands still for so many seconds, and so many times the usual time of one, no time left is shown."""
# Control characters other than tab and newline, bidirectional controls, and lone surrogates.
_UNSHOWN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


_BOLD, _DIM, _RED, _GREEN, _YELLOW, _PLAIN = (f"\x1b[{code}m" for code in (1, 2, 31, 32, 33, 0))
# A difference with its interval and the mark that it is significant.
_SIGNIFICANT = re.compile(r"([+\u2212-])\d[\d.]*(?: \[[^\]]*\])? \*(?= |$)")


def escaped(text: str) -> str:
    r"""A text that is safe for a terminal: control characters are escaped.

    >>> print(escaped("a\x1b[31mred\x07 dog"))
    a\x1b[31mred\x07 dog
    """
    return _UNSHOWN.sub(lambda match: f"\\x{ord(match[0]):02x}" if ord(match[0]) < 256 else ascii(match[0])[1:-1], text)


class Blocks(Protocol):
    """A result of paragraphs and tables."""

    def blocks(self) -> Sequence[Block]:
        """The paragraphs and tables."""
        ...


def answer(result: str | Blocks | Sequence[str | Blocks], data: Mapping[str, object], *, as_json: bool) -> None:
    """Prints the result as JSON, or as text; in a terminal, wrapped to its width and coloured.

    Args:
        result: A text, paragraphs and tables, or several of them.
        data: The same as plain values.
        as_json: Whether to print the values.
    """
    warned = {"warnings": list(cut_notes())} if cut_notes() else {}
    parts = [result] if isinstance(result, str) or not isinstance(result, Sequence) else result
    if as_json:
        put(as_text({**data, **warned}))
    elif sys.stdout is None or not sys.stdout.isatty():
        put("\n\n".join(escaped(str(part)) for part in parts))
    else:
        put("\n\n".join(_in_terminal(part) for part in parts))


def _in_terminal(part: str | Blocks) -> str:
    """A text or paragraphs and tables, wrapped to the width of the terminal."""
    width, colour = shutil.get_terminal_size().columns, _wants_colour(sys.stdout)
    blocks: Sequence[Block] = [part] if isinstance(part, str) else part.blocks()
    return "\n\n".join(in_columns(block, width, colour) for block in blocks)


def in_columns(block: Block, width: int, colour: bool = False) -> str:
    """A paragraph or a table within so many columns."""
    if isinstance(block, str):
        lines = wrapped_text(escaped(block), width).split("\n")
        return "\n".join(map(_coloured, lines) if colour else lines)
    caption = [wrapped_text(escaped(block.caption), width)] if block.caption else []
    tables = []
    for head, rule, rows in wrapped_table([[escaped(cell) for cell in row] for row in block.rows], width):
        if colour:
            head, rows = [f"{_BOLD}{line}{_PLAIN}" for line in head], [_coloured(line) for line in rows]
            rule = f"{_DIM}{rule}{_PLAIN}"
        tables.append("\n".join([*head, rule, *rows]))
    return "\n".join([*caption, "\n\n".join(tables)])


def _wants_colour(stream: TextIO) -> bool:
    """Whether a stream is a terminal with colours, and NO_COLOR (no-color.org) is not set."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _coloured(line: str) -> str:
    r"""A line with notes dim and significant differences green or red.

    >>> _coloured("12.0  +2.1 [1.0, 3.2] *")
    '12.0  \x1b[32m+2.1 [1.0, 3.2] *\x1b[0m'
    """
    if line.startswith(("note: ", "*: ", "letters: ")):
        return f"{_DIM}{line}{_PLAIN}"
    return _SIGNIFICANT.sub(lambda match: f"{_GREEN if match[1] == '+' else _RED}{match[0]}{_PLAIN}", line)


class Unprinted(LimnerError):
    """Output failed: standard output is closed, or the disk is full."""


def put(text: str) -> None:
    """Prints an escaped text and flushes, so that a full disk or a closed pipe is detected."""
    if sys.stdout is None:
        raise Unprinted("standard output is closed: redirect it, at least to /dev/null")
    try:
        print(text, flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Unprinted(f"standard output: {error.strerror or error}; the result was not printed") from error


def as_text(data: Mapping[str, object]) -> str:
    """Data as JSON, with control characters escaped."""
    text = json.dumps(_plain(data), indent=2, ensure_ascii=False, allow_nan=False)
    return _UNSHOWN.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def tell(message: str) -> None:
    """Prints a message on stderr: `limner: ...`; errors red and warnings yellow on a terminal."""
    if sys.stderr is None:
        return
    kind = message.partition(" ")[0]
    style = {"error:": _RED, "warning:": _YELLOW}.get(kind, "") if _wants_colour(sys.stderr) else ""
    line = escaped(message)
    print(f"limner: {style}{kind}{_PLAIN}{line[len(kind) :]}" if style else f"limner: {line}", file=sys.stderr)


def tell_notes(notes: Iterable[str]) -> None:
    """Shows the notes of an open system; which texts were cut is told with the answer, also in its JSON."""
    for note in notes:
        if is_cut_note(note):
            pass_on(note)
        else:
            tell(f"note: {note}")


def warn(warnings: Sequence[str]) -> None:
    """Shows the first few warnings and counts the others."""
    for warning in warnings[:_WARNINGS]:
        tell(f"warning: {warning}")
    if len(warnings) > _WARNINGS:
        tell(f"warning: and {len(warnings) - _WARNINGS:,} more; 'limner data describe' lists them all")


@contextmanager
def progress(description: str, unit: str = "") -> Iterator[Progress]:
    """Shows progress on a terminal, with rate and time left; otherwise prints a line every few seconds, for logs.

    Args:
        description: Description of the work.
        unit: The unit that is counted, for the rate.
    """
    from rich.console import Console
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    if not console.is_terminal:
        with Lines(description, unit) as lines:
            yield lines
        return
    with Bar(*_columns(console.width), console=console, transient=True) as bar:
        yield _TerminalBar.begun(bar, description, unit)


def _columns(width: int) -> tuple[ProgressColumn, ...]:
    """The columns of a progress bar. On a narrow terminal the bar and the description are shorter, never the counts."""
    from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, SpinnerColumn, TimeElapsedColumn
    from rich.table import Column
    from rich.text import Text

    class Description(ProgressColumn):
        """Cut where there is no room: the only column that the table may narrow."""

        def render(self, task: Task) -> Text:
            return Text(task.fields["now"].described(), no_wrap=True, overflow="ellipsis")

    class Pace(ProgressColumn):
        """Computed when it is drawn: where nobody counts for minutes, no old promise stays."""

        def render(self, task: Task) -> Text:
            return Text(", ".join(task.fields["now"].pace()), no_wrap=True)

    class Counted(MofNCompleteColumn):
        """Empty where nothing can be counted: the bar and the clock move."""

        def render(self, task: Task) -> Text:
            return Text("") if task.total is None else super().render(task)

    return (
        SpinnerColumn(table_column=Column(no_wrap=True)),
        Description(table_column=Column(min_width=8)),
        BarColumn(bar_width=24 if width > 120 else 8, table_column=Column(no_wrap=True)),
        Counted(table_column=Column(no_wrap=True)),
        TimeElapsedColumn(table_column=Column(no_wrap=True)),
        Pace(table_column=Column(no_wrap=True)),
    )


def pace(done: int, total: int, seconds: float, unit: str = "") -> list[str]:
    """The rate so far, and the time left at that rate; nothing in the first two seconds, when the rate is not reliable.

    >>> pace(30, 90, 15.0, "images"), pace(2, 20, 120.0), pace(1, 9, 0.5), pace(9, 9, 30.0)
    (['2.0 images/s', 'about 30 s left'], ['60 s each', 'about 18 min left'], [], ['3.3 s each'])
    """
    if done < 1 or seconds < SURE:
        return []
    each = seconds / done
    rate = (
        f"{1 / each:,.{0 if each < 0.1 else 1}f} {unit}/s".replace(" /s", "/s")
        if each <= 1
        else f"{each:,.{0 if each >= 10 else 1}f} s each"
    )
    return [rate, f"about {_time_left(each * (total - done))} left"] if done < total else [rate]


def _time_left(seconds: float) -> str:
    """An approximate time, rounded to what an average rate can predict.

    >>> _time_left(3), _time_left(42), _time_left(600), _time_left(9000)
    ('5 s', '40 s', '10 min', '2.5 h')
    """
    if seconds < 90:
        return f"{max(5, 5 * round(seconds / 5)):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


@dataclass
class Step:
    """One step of a task: its name and its count.

    Args:
        description: Description of the work.
        unit: The unit that is counted, to show a rate.
        note: Further information, such as the loss.
        done: Amount of work done; None before the first count.
        total: Total amount.
        began: When the counting began.
        moved: When the count last moved.
    """

    description: str
    unit: str = ""
    note: str = ""
    done: int | None = None
    total: int = 0
    began: float = field(default_factory=time.monotonic)
    moved: float = field(default_factory=time.monotonic)

    def count(self, done: int, total: int) -> None:
        """Updates the count; a count that begins again is another pass, with a rate of its own."""
        current = time.monotonic()
        if self.done is not None and done < self.done:
            self.began = current
        if done != self.done:
            self.moved = current
        self.done, self.total = done, total

    def pace(self) -> list[str]:
        """The rate, and the time left; if the count stands still, for how long: the rate says nothing then."""
        if self.done is None:
            return []
        still, each = time.monotonic() - self.moved, (self.moved - self.began) / max(self.done, 1)
        if 0 < self.done < self.total and still > max(STILL, STEADY * each):
            return [f"at this one for {still:,.0f} s"]
        ended = self.moved if self.done >= self.total else time.monotonic()
        return pace(self.done, self.total, ended - self.began, self.unit)

    def notes(self) -> list[str]:
        """The note; after the last count, that the work still goes on."""
        ended = ["finishing"] if self.done is not None and self.done >= self.total else []
        return [*([self.note] if self.note else []), *ended]

    def described(self) -> str:
        """The description with its notes."""
        return ": ".join([self.description, *([", ".join(self.notes())] if self.notes() else [])])


class Lines(Progress):
    """Progress without a terminal: a line on stderr every few seconds, and nothing for short tasks.

    Args:
        description: Description of the work.
        unit: The unit that is counted, to show a rate.
        every: Seconds between two lines.
    """

    def __init__(self, description: str, unit: str = "", *, every: float = EVERY) -> None:
        self.every = every
        self._now, self._ended = Step(description, unit), threading.Event()
        self._began = time.monotonic()

    def __enter__(self) -> Lines:
        self._thread = threading.Thread(target=self._run, name="limner progress", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._ended.set()
        self._thread.join()

    def __call__(self, done: int, total: int) -> None:
        """Updates the progress."""
        self._now.count(done, total)

    def note(self, text: str) -> None:
        """Further information, such as the loss."""
        self._now.note = text

    def step(self, description: str, unit: str = "", *, total: int | None = None, main: bool = False) -> Lines:
        """Starts the next step of the task, which is counted from 0."""
        self._now = Step(description, unit, done=None if total is None else 0, total=total or 0)
        return self

    def line(self) -> str:
        """The current line."""
        current = self._now
        parts = [f"{current.description}: {time.monotonic() - self._began:,.0f} s"]
        if current.done is not None:
            parts += [f"{current.done:,} of {current.total:,}", *current.pace()]
        return ", ".join([*parts, *current.notes()])

    def _run(self) -> None:
        while not self._ended.wait(self.every):
            tell(self.line())


@dataclass
class _TerminalBar(Progress):
    """A progress bar with a note."""

    bar: Bar
    task: TaskID
    now: Step

    @classmethod
    def begun(cls, bar: Bar, description: str, unit: str) -> _TerminalBar:
        """A bar that counts nothing yet."""
        first_step = Step(escaped(description), unit)
        return cls(bar, bar.add_task(first_step.description, total=None, now=first_step), first_step)

    def __call__(self, done: int, total: int) -> None:
        self.now.count(done, total)
        self.bar.update(self.task, completed=done, total=total)

    def note(self, text: str) -> None:
        """Further information, such as the loss."""
        self.now.note = escaped(text)

    def step(self, description: str, unit: str = "", *, total: int | None = None, main: bool = False) -> _TerminalBar:
        """Starts the next step of the task; it is a new bar, since a bar keeps its total."""
        self.now = Step(escaped(description), unit)
        self.bar.remove_task(self.task)
        self.task = self.bar.add_task(self.now.description, total=total, now=self.now)
        return self


def table(rows: Iterable[Sequence[object]], *, indent: str = "") -> str:
    """Formats rows as plain columns, as wide as needed.

    >>> print(table([("name", "images"), ("scenes", 2000)]))
    name    images
    scenes  2000
    """
    cells = [[escaped(str(cell)) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in cells)
    return "\n".join(indent + line.rstrip() for line in lines)


def _plain(value: object) -> object:
    """The same data with JSON types only; numbers that are not finite become null."""
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, (str, int, float, type(None))) else str(value)
