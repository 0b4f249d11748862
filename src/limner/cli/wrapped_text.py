"""Texts and tables within the width of a terminal: lines break between words, columns stay columns."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

NARROWEST = 20
"""Columns of a terminal below which nothing is wrapped."""
_GAP = "  "
# What stays on one line: a number with its interval and mark; where that is too wide, an interval; then a word.
_UNBROKEN = (r"\S+ \[[^\]]*\](?: \*)?|\[[^\]]*\](?: \*)?|\S+", r"\[[^\]]*\](?: \*)?|\S+", r"\S+")

Cells = list[list[str]]
"""A table: rows of cells, the head first."""
Lines = tuple[list[str], str, list[str]]
"""The lines of a table: of the head, the rule under it, and the rows."""


def wrapped_text(text: str, width: int) -> str:
    r"""Wraps long lines between words, aligned with their column.

    >>> print(wrapped_text("csls  similarity corrected by the mean of the nearest neighbours", 40))
    csls  similarity corrected by the mean
          of the nearest neighbours
    """
    return "\n".join(part for line in text.split("\n") for part in _broken(line, max(width, NARROWEST)))


def _broken(line: str, width: int) -> list[str]:
    """Wraps one line; continuation lines are indented to the last column that starts in the left half."""
    if len(line) <= width:
        return [line]
    if not line.strip("-─= "):
        return [line[:width]]
    starts = [match.end() for match in re.finditer(r"^ *|(?<=\S) {2,}(?=\S)", line)]
    indent = max(start for start in starts if start <= width // 2)
    remainder = re.sub(" {2,}", "  ", line[indent:])
    broken = textwrap.wrap(remainder, width - indent, break_long_words=False, break_on_hyphens=False) or [""]
    return [line[:indent] + broken[0], *(" " * indent + each for each in broken[1:])]


# --- tables -----------------------------------------------------------------------------------------------------


def wrapped_table(cells: Cells, width: int) -> list[Lines]:
    """A table whose cells are wrapped; if the columns do not fit next to each other even so, it is cut into parts."""
    width = max(width, NARROWEST)
    natural = [max(map(len, column)) for column in zip(*cells, strict=True)]
    if sum(natural) + len(_GAP) * (len(natural) - 1) <= width:
        return [_laid_out(cells, natural, _UNBROKEN[0])]
    for unbroken in _UNBROKEN:
        narrowest = [max(_longest(row[n], unbroken) for row in cells) for n in range(len(cells[0]))]
        if sum(narrowest) + len(_GAP) * (len(narrowest) - 1) <= width:
            return [_laid_out(cells, _widths(cells, narrowest, width, unbroken), unbroken)]
    names = _names(cells)
    parts = []
    for low, high in _parts(narrowest, names, width):
        chosen = [*range(names), *range(low, high)]
        part = [[row[n] for n in chosen] for row in cells]
        parts.append(_laid_out(part, [narrowest[n] for n in chosen], _UNBROKEN[-1]))
    return parts


def _names(cells: Cells) -> int:
    """How many columns at the left name a row, and are repeated in every part: one, or two where it is ambiguous."""
    first = [row[0] for row in cells]
    return 1 if len({*first}) == len(first) or len(cells[0]) < 3 else 2


def _longest(cell: str, unbroken: str) -> int:
    return max(map(len, re.findall(unbroken, cell)), default=0)


def _wrapped(cell: str, width: int, unbroken: str) -> list[str]:
    """The lines of a cell.

    >>> _wrapped("Fisher randomisation, by cluster", 14, _UNBROKEN[0])
    ['Fisher', 'randomisation,', 'by cluster']
    """
    lines = [""]
    for word in re.findall(unbroken, cell):
        if not lines[-1] or len(lines[-1]) + 1 + len(word) <= width:
            lines[-1] = f"{lines[-1]} {word}".strip()
        else:
            lines.append(word)
    return lines


def _widths(cells: Cells, narrowest: Sequence[int], width: int, unbroken: str) -> list[int]:
    """The widths of the columns: narrowed step by step where it costs the fewest lines."""
    columns = list(zip(*cells, strict=True))
    widths = [max(map(len, column)) for column in columns]
    heights = [[1] * len(cells) for _ in columns]

    def narrowed(n: int) -> list[int]:
        return [len(_wrapped(cell, widths[n] - 1, unbroken)) for cell in columns[n]]

    while sum(widths) + len(_GAP) * (len(widths) - 1) > width:
        costs = {}
        for n in range(len(widths)):
            if widths[n] > narrowest[n]:
                tried = [*heights[:n], narrowed(n), *heights[n + 1 :]]
                costs[n] = (sum(map(max, zip(*tried, strict=True))), narrowest[n] - widths[n])
        best = min(costs, key=lambda n: costs[n])
        heights[best] = narrowed(best)
        widths[best] -= 1
    return widths


def _laid_out(cells: Cells, widths: Sequence[int], unbroken: str) -> Lines:
    """The lines of a table with columns of these widths: of the head, the rule under it, and the rows."""
    drawn = []
    for row in cells:
        wrapped = [_wrapped(cell, width, unbroken) for cell, width in zip(row, widths, strict=True)]
        height = max(map(len, wrapped))
        drawn.append([_joined([w[at] if at < len(w) else "" for w in wrapped], widths) for at in range(height)])
    rule = "-" * max(len(line) for each in drawn for line in each)
    return drawn[0], rule, [line for each in drawn[1:] for line in each]


def _joined(cells: Sequence[str], widths: Sequence[int]) -> str:
    return _GAP.join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def _parts(widths: Sequence[int], names: int, width: int) -> list[tuple[int, int]]:
    """Where a table is cut: every part has the columns that name its rows, and one more at least.

    >>> _parts([10, 20, 20, 20], 1, 60)
    [(1, 3), (3, 4)]
    """
    edge = sum(widths[:names]) + len(_GAP) * (names - 1)
    cuts, used = [names], edge
    for at in range(names, len(widths)):
        if used + len(_GAP) + widths[at] > width and at > cuts[-1]:
            cuts.append(at)
            used = edge
        used += len(_GAP) + widths[at]
    return list(zip(cuts, [*cuts[1:], len(widths)], strict=True))
