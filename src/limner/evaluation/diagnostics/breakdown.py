"""A report broken down by a field of the queries, such as language or category."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from limner.core.collection import Collection
from limner.core.errors import UnknownName
from limner.evaluation.reports.report import Report
from limner.evaluation.reports.report_tables import with_interval
from limner.evaluation.results import DIRECTIONS, Result
from limner.evaluation.tables import Block, Grid, blocks_text

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST = 50
"""Number of field values shown; the rest is summarised together."""


@dataclass(frozen=True, eq=False)
class Breakdown:
    """Results of parts of the queries.

    Args:
        field: Field of the query items.
        parts: Results by value of the field, each restricted to the queries of that part. The candidate pool is not
            restricted.
    """

    field: str
    parts: Mapping[str, tuple[Result, ...]]

    def rows(self) -> list[dict[str, object]]:
        """One flat record per value of the field, view, direction and measure."""
        return [
            {
                self.field: value,
                "view": r.view,
                "direction": r.direction,
                "measure": str(r.measure),
                "value": r.value,
                "low": r.interval.low if r.interval else None,
                "high": r.interval.high if r.interval else None,
                "queries": len(r.queries),
            }
            for value, results in self.parts.items()
            for r in results
        ]

    def blocks(self) -> list[Block]:
        """Rows are parts of the queries, columns are measures; one table per view and direction."""
        keys = dict.fromkeys((r.view, r.direction) for results in self.parts.values() for r in results)
        return [self._grid(*key) for key in keys]

    def __str__(self) -> str:
        return blocks_text(self.blocks())

    def _grid(self, view: str, direction: str) -> Grid:
        cells = {
            value: [r for r in results if (r.view, r.direction) == (view, direction)]
            for value, results in self.parts.items()
        }
        named = next(results for results in cells.values() if results)
        head = (f"{view}, {DIRECTIONS[direction]}, by {self.field}", "queries", *(str(r.measure) for r in named))
        rows = [(v, f"{len(rs[0].queries):,}", *map(with_interval, rs)) for v, rs in cells.items() if rs]
        return Grid(head[0], (head, *rows))


def breakdown(report: Report, collection: Collection, field: str) -> Breakdown:
    """Breaks a report down by a field of the queries; the candidate pool is not restricted.

    Args:
        report: A report from `limner.evaluate`.
        collection: The evaluated collection.
        field: A field of the texts (for text queries) or of the images (for image queries), such as "language".

    >>> import limner
    >>> world = limner.load("scenes", images=20)
    >>> texts = world.texts.with_fields(half=["first"] * 50 + ["second"] * 50)
    >>> from dataclasses import replace
    >>> world = replace(world, texts=texts)
    >>> report = limner.evaluate(limner.train(world).scores(world), world, measures="R@1")
    >>> list(breakdown(report, world, "half").parts)
    ['first', 'second']
    """
    labels = {
        direction: dict(zip(items.ids, map(_label_text, items.field(field)), strict=True))
        for direction, items in (("i2t", collection.images), ("t2i", collection.texts))
        if field in items.fields
    }
    if not labels:
        fields = sorted({*collection.images.fields, *collection.texts.fields})
        raise UnknownName("field", field, fields, of=f"the images or texts of {collection.name!r}")
    parts: dict[str, list[Result]] = {}
    for result in report.results:
        if result.direction in labels and result.direction in DIRECTIONS:
            values = np.array([labels[result.direction].get(query, "") for query in result.queries], dtype=object)
            for value in dict.fromkeys(values):
                parts.setdefault(str(value), []).append(result.restricted(np.flatnonzero(values == value)))
    largest = dict(sorted(parts.items(), key=lambda part: -len(part[1][0].queries))[:MOST])
    return Breakdown(field, {value: tuple(results) for value, results in sorted(largest.items())})


def _label_text(value: object) -> str:
    return "(none)" if value is None or value != value or value == "" else str(value)
