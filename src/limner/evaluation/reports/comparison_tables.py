"""The tables of a comparison."""

from __future__ import annotations

from limner.evaluation.comparison import Comparison, Difference, Line
from limner.evaluation.estimated import VIEW
from limner.evaluation.measures import Measure
from limner.evaluation.results import heading
from limner.evaluation.tables import Document, Grid, shown_p


def comparison_document(comparison: Comparison) -> Document:
    """What a comparison shows."""
    title, foot = " and ".join(comparison.systems), (comparison_foot(comparison),)
    return Document(title, comparison_grids(comparison), comparison.notes, foot, is_titled=False)


def comparison_grids(comparison: Comparison) -> list[Grid]:
    """One grid per view and direction: two systems with their difference, more systems with letters."""
    keys = dict.fromkeys((n.view, n.direction) for n in comparison.lines)
    make = _two if len(comparison.systems) == 2 else _many
    grids = [
        Grid(
            heading(*key),
            make(comparison, heading(*key), [n for n in comparison.lines if (n.view, n.direction) == key]),
        )
        for key in keys
    ]
    return [*grids, *(_estimated_grid(comparison, d) for d in dict.fromkeys(e.direction for e in comparison.estimated))]


def _estimated_grid(comparison: Comparison, direction: str) -> Grid:
    """Every pair of systems under complete judgements: both estimates, and the difference with its interval."""
    names = comparison.systems
    rows = [(heading(VIEW, direction), "one", "other", "difference", "by the given pairs")]
    for each in (e for e in comparison.estimated if e.direction == direction):
        one, other = (f"{names[n]} {value}" for n, value in zip((each.a, each.b), each.values, strict=True))
        mark = " *" if each.significant else ""
        rows.append((str(each.measure), one, other, f"{each}{mark}", each.measure.show_change(each.given)))
    return Grid(heading(VIEW, direction), tuple(rows))


def _two(comparison: Comparison, title: str, lines: list[Line]) -> tuple[tuple[str, ...], ...]:
    rows = [(title, *comparison.systems, "difference", f"p (Holm, {comparison.family})", "test")]
    for line in lines:
        values = [line.measure.show(v) for v in line.values]
        if not line.differences:
            rows.append((str(line.measure), *values, "", "", "not comparable"))
            continue
        d = line.differences[0]
        mark = " *" if d.significant(comparison.level) else ""
        rows.append((str(line.measure), *values, _signed(line.measure, d) + mark, shown_p(d.p_adjusted), d.test.method))
    return tuple(rows)


def _signed(measure: Measure, d: Difference) -> str:
    span = "" if d.interval is None else f" [{measure.show(d.interval.low)}, {measure.show(d.interval.high)}]"
    return measure.show_change(d.value) + span


def _many(comparison: Comparison, title: str, lines: list[Line]) -> tuple[tuple[str, ...], ...]:
    letters = "abcdefghijklmnopqrstuvwxyz"
    head = (title, *(f"{letters[i % 26]} {name}" for i, name in enumerate(comparison.systems)))
    body = [
        (
            str(n.measure),
            *(
                f"{n.measure.show(v)} {''.join(letters[b % 26] for b in n.beaten(i, comparison.level))}".rstrip()
                for i, v in enumerate(n.values)
            ),
        )
        for n in lines
    ]
    return (head, *body)


def comparison_foot(comparison: Comparison) -> str:
    """An explanation of the marks in the table."""
    mark = "*: significant" if len(comparison.systems) == 2 else "letters: significantly better than these systems"
    return f"{mark} at {comparison.level:g}, p-values {comparison.corrected}"
