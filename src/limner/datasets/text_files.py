"""Strict file reading: UTF-8 only, and every error names the file and the line.

One rule decides between a warning and an error. If something is missing from a row (an empty caption, no image, an
image that cannot be found or opened), only that row is affected: it is skipped, or kept without the missing part, and
listed as a warning. A contradiction (a repeated id, two splits for one image, a wrong count, a missing column, a row
that is too short, a byte that is not UTF-8, a grade that is not a number) is an error, because limner would have to
guess which part is right.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, NoReturn

from limner.core.errors import LimnerError, shown
from limner.core.paths import SMALL, parse_json, refuse_bomb, refuse_irregular

JsonObject = Mapping[str, Any]
"""An object of a JSON file, or a row of a table: its values are of any kind."""

LONGEST_CELL = 1 << 24
"""Maximum length of a csv cell: far above any caption, but below what an unclosed quote causes in a large file."""
_LISTED = 10  # lines named in one warning; the rest is counted
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_BOM = b"\xef\xbb\xbf"


class At(NamedTuple):
    """A position in the input, for messages."""

    path: Path
    line: int | None = None

    def __str__(self) -> str:
        return str(self.path) if self.line is None else f"{self.path}, line {self.line:,}"


def refuse(at: At, message: str) -> NoReturn:
    """Raises an error with the position."""
    raise LimnerError(f"{at}: {message}")


class Notes:
    """Warnings of one loader, grouped by file and kind, so that a thousand empty captions give one line.

    Args:
        strict: Raise an error at the first warning instead of recording it.
    """

    def __init__(self, *, strict: bool = False) -> None:
        """Creates an empty list of warnings."""
        self.strict = strict
        self._lines: dict[tuple[Path, str], list[int | None]] = {}

    def add(self, at: At, message: str) -> None:
        """Records what was skipped or repaired, and where."""
        if self.strict:
            refuse(at, f"{message}; strict=True makes this an error")
        self._lines.setdefault((at.path, message), []).append(at.line)

    def listed(self) -> tuple[str, ...]:
        """The warnings, one sentence per file and kind."""
        return tuple(f"{_place(path, lines)}: {message}" for (path, message), lines in self._lines.items())


def _place(path: Path, lines: list[int | None]) -> str:
    numbers = sorted({line for line in lines if line is not None})
    if not numbers:
        return str(path)
    head = ", ".join(f"{n:,}" for n in numbers[:_LISTED])
    further = f" and {len(numbers) - _LISTED:,} more" if len(numbers) > _LISTED else ""
    return f"{path}, line{'s' if len(numbers) > 1 else ''} {head}{further}"


def existing(path: str | Path, *, what: str) -> Path:
    """The path if it exists; otherwise an error."""
    path = Path(path)
    if not path.exists():
        raise LimnerError(f"no {what} at {path}: check the path")
    return path


def find_file(folder: Path, patterns: Iterable[str], *, what: str) -> Path:
    """The file in `folder` (or `folder` itself, if it is a file) for the first pattern with a match."""
    patterns = list(patterns)
    file = optional_file(folder, patterns)
    if file is None:
        raise LimnerError(f"no {what} in {folder}: expected a file named {' or '.join(patterns)}")
    return file


def optional_file(folder: Path, patterns: Iterable[str]) -> Path | None:
    """Like `find_file`, but None if nothing matches. Two matches of one pattern are refused."""
    if folder.is_file():
        return folder
    for pattern in patterns:
        matches = sorted(folder.glob(pattern))
        if len(matches) > 1:
            names = shown(file.name for file in matches)
            raise LimnerError(f"{folder}: {len(matches)} files match {pattern} ({names}); choose one of them")
        if matches:
            return matches[0]
    return None


def lines(path: Path, *, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    """Numbered lines without line ends; gzip is decompressed. Empty lines are included."""
    for number, line in enumerate(_decoded(path, encoding), start=1):
        yield number, line.rstrip("\r\n")


def filled_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Numbered lines that are not blank."""
    return ((number, line) for number, line in lines(path) if line.strip())


def _decoded(path: Path, encoding: str) -> Iterator[str]:
    refuse_irregular(existing(path, what="file"), what="file")
    _refuse_encoding(encoding)
    try:
        for number, raw in enumerate(_gzipped(path) if path.suffix == ".gz" else _plain(path), start=1):
            yield _decode(raw, At(path, number), encoding)
    except (OSError, EOFError, zlib.error) as error:
        raise LimnerError(f"{path} cannot be read: {error}") from error


def _plain(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from file


def _gzipped(path: Path) -> Iterator[bytes]:
    """Lines of a gzipped file; decompression bombs are refused."""
    packed, unpacked = path.stat().st_size, 0
    with gzip.open(path) as file:
        while raw := file.readline(SMALL):
            unpacked += len(raw)
            refuse_bomb(unpacked, packed, where=str(path))
            if len(raw) == SMALL:
                raise LimnerError(f"{path} has a line of more than {SMALL:,} bytes: expected a table or lines of text")
            yield raw


def _refuse_encoding(encoding: str) -> None:
    try:
        codecs.lookup(encoding)
    except (LookupError, ValueError):
        raise LimnerError(f"encoding {encoding!r} is unknown: expected utf-8, latin-1, cp1252, ...") from None


def _decode(raw: bytes, at: At, encoding: str) -> str:
    if at.line == 1:
        if raw.startswith(_UTF16):
            refuse(at, "the file is UTF-16; save it as UTF-8")
        raw = raw.removeprefix(_BOM)
    if b"\0" in raw:
        refuse(at, "a zero byte: this is not a text file in UTF-8")
    try:
        return raw.decode(encoding)
    except (LookupError, TypeError) as error:  # not a text codec, such as base64
        raise LimnerError(
            f"encoding {encoding!r} is not a text encoding ({error}): expected utf-8, latin-1, ..."
        ) from error
    except UnicodeDecodeError as error:
        preceding = raw[max(error.start - 12, 0) : error.start].decode(encoding, "replace")
        name = "UTF-8" if codecs.lookup(encoding).name == "utf-8" else encoding
        refuse(at, f"byte 0x{raw[error.start]:02x} after {preceding!r} is not {name}; save the file as UTF-8")


def split_lines(path: Path, separator: str | None, columns: int) -> Iterator[tuple[At, list[str]]]:
    """Rows of a plain table without header and quoting; a row with another number of columns is refused.

    Args:
        path: The file.
        separator: The column separator; None for any blanks.
        columns: Required number of columns; the last one takes the rest of the line.
    """
    for number, line in filled_lines(path):
        cells = line.split(separator, columns - 1)
        if len(cells) != columns:
            named = {"\t": "tabs", None: "blanks"}.get(separator, repr(separator))
            refuse(At(path, number), f"{len(cells)} columns, expected {columns} separated by {named}: {line[:60]!r}")
        yield At(path, number), cells


def table(
    path: Path,
    *,
    delimiter: str,
    quoted: bool = True,
    encoding: str = "utf-8",
    notes: Notes | None = None,
    needs: Collection[str] = (),
) -> Iterator[tuple[At, dict[str, str]]]:
    """Rows of a table with a header, as dicts.

    Args:
        path: The file, gzipped or not.
        delimiter: The column separator.
        quoted: Whether double quotes enclose cells (csv) or are ordinary characters.
        encoding: Encoding of the text; never guessed.
        notes: Records rows of the wrong length, which are repaired; without it they are refused.
        needs: Columns that must be in the header.
    """
    rows = _csv_rows(path, delimiter, quoted=quoted, encoding=encoding, strict=notes is None)
    first = next(rows, None)
    if first is None:
        refuse(At(path), "the file is empty; expected a header and rows")
    header = _checked_header(*first)
    if not set(needs) <= set(header):
        refuse(At(path), f"expected the columns {' and '.join(needs)}; it has {shown(header, most=8)}")
    for at, cells in rows:
        if cells:
            yield at, dict(zip(header, _fitted(at, cells, len(header), delimiter, notes), strict=True))


def _checked_header(at: At, cells: list[str]) -> list[str]:
    header = [cell.strip() for cell in cells]
    twice = next((name for name, count in Counter(header).items() if count > 1), None)
    if twice is not None:
        refuse(at, f"column {twice!r} is named twice in the header")
    return header


def _fitted(at: At, cells: list[str], width: int, delimiter: str, notes: Notes | None) -> list[str]:
    if notes is not None and any(delimiter in cell for cell in cells):
        notes.add(at, "a cell holds a column separator: an unclosed quote may have merged rows")
    if len(cells) == width:
        return cells
    message = f"{len(cells)} columns, the header has {width}"
    if notes is None:
        refuse(at, f"{message}; quote cells that hold {delimiter!r}")
    notes.add(at, f"{message}; missing cells count as empty, extra ones are dropped")
    return (cells + [""] * width)[:width]


def _csv_rows(
    path: Path, delimiter: str, *, quoted: bool, encoding: str, strict: bool
) -> Iterator[tuple[At, list[str]]]:
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
    csv.field_size_limit(LONGEST_CELL)
    reader = csv.reader(_decoded(path, encoding), delimiter=delimiter, quoting=quoting, strict=strict)
    while True:
        begins = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            if "field larger than" in str(error):
                refuse(At(path, begins), f"a cell of more than {LONGEST_CELL:,} characters; is a quote unclosed?")
            hint = "close the quote, or pass quoted=False if quotes are plain text"
            refuse(At(path, begins), f"broken quoting ({error}); {hint}")
        yield At(path, begins), cells


def json_lines(path: Path) -> Iterator[tuple[At, dict[str, object]]]:
    """One JSON object per line."""
    for number, line in filled_lines(path):
        at = At(path, number)
        value = parse_json(line, where=str(at))
        if not isinstance(value, dict):
            refuse(at, f"a JSON {type(value).__name__}, expected an object with named values")
        yield at, value


def json_list(path: Path) -> Iterator[tuple[At, dict[str, object]]]:
    """The objects of a JSON list, each with its number from 1."""
    value = parse_json("".join(_decoded(path, "utf-8")), where=str(path))
    if not isinstance(value, list):
        refuse(At(path), f"a JSON {type(value).__name__}, expected a list of objects with an image and a caption")
    for number, entry in enumerate(value, start=1):
        if not isinstance(entry, dict):
            refuse(At(path, number), f"a JSON {type(entry).__name__}, expected an object with named values")
        yield At(path, number), entry


def json_file(path: Path, *, keys: Iterable[str] = ()) -> JsonObject:
    """One JSON object, checked for required keys."""
    value = parse_json("".join(_decoded(path, "utf-8")), where=str(path))
    if not isinstance(value, dict):
        refuse(At(path), f"a JSON {type(value).__name__}, expected an object")
    missing = [key for key in keys if key not in value]
    if missing:
        refuse(At(path), f"no {shown(missing)} in this JSON; it has {shown(value, most=6)}")
    return value


def refuse_missing(entry: object, keys: Collection[str], at: At, name: str) -> None:
    """Refuses an entry of a JSON file that is no object, or lacks one of its keys."""
    if not isinstance(entry, dict):
        refuse(at, f"{name} is a {type(entry).__name__}, expected an object with {shown(keys)}")
    missing = [key for key in keys if key not in entry]
    if missing:
        refuse(at, f"{name} has no {shown(missing)}; it has {shown(entry, most=8)}")


def number(text: object, at: At, *, what: str) -> float:
    """A finite number, or an error that shows the text."""
    try:
        value = float(str(text))
    except ValueError:
        value = float("nan")
    if value != value or value in (float("inf"), float("-inf")):
        refuse(at, f"{what} is {str(text)!r}, expected a number")
    return value
