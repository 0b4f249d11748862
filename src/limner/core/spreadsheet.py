"""CSV cells that are safe in a spreadsheet, which evaluates text that begins like a formula.

Names of annotators, ids and texts are untrusted. A cell like that gets a leading apostrophe, the spreadsheet
convention for plain text; limner's reader removes it again.
"""

from __future__ import annotations

from collections.abc import Mapping

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "|", "%")


def guarded(cell: object) -> object:
    """The cell as text that a spreadsheet does not evaluate; numbers are unchanged.

    >>> guarded("=1+1"), guarded("a dog"), guarded(-1.5), guarded("-1.5")
    ("'=1+1", 'a dog', -1.5, '-1.5')
    """
    return f"'{cell}" if isinstance(cell, str) and _is_formula(cell) else cell


def unguarded(cell: str) -> str:
    """The inverse of `guarded`.

    >>> [unguarded(guarded(text)) for text in ("=1", "'=1", "''@x", "'a'", "-", "")]
    ['=1', "'=1", "''@x", "'a'", '-', '']
    """
    return cell[1:] if cell.startswith("'") and _is_formula(cell[1:]) else cell


def guarded_row(row: Mapping[str, object]) -> dict[str, object]:
    """A row with every cell guarded."""
    return {name: guarded(cell) for name, cell in row.items()}


def _is_formula(cell: str) -> bool:
    return cell.lstrip("'").startswith(_FORMULA) and not is_number(cell)


def is_number(cell: str) -> bool:
    """Whether a cell holds a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return True
