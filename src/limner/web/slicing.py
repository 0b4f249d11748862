"""Slices on the page: queries on which a system is weak, or worse than another, with control of false discoveries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import Response

from limner.core.errors import LimnerError, UnknownName
from limner.evaluation.reports.page.slices import slice_tables
from limner.web.jobs import NOTICED, Job
from limner.web.library import Library
from limner.web.side_by_side import MEASURES, report_of
from limner.web.site import Ask, page, query

if TYPE_CHECKING:
    from limner.evaluation.slices import Slices


def slices_page(ask: Ask) -> Response:
    """Slices of the queries of a system, or of the difference between two systems."""
    from limner.evaluation.query_groups import default_kinds, known_kinds, refuse_unknown

    library = ask.site.library
    collection = library.known(ask.get("c"))
    a = library.known_system(ask.get("a") or library.names[0])
    b = library.known_system(ask.get("b")) if ask.get("b") else ""
    held = library.loaded(collection).held
    by, measure = ask.all("by") or default_kinds(held), ask.get("m") or MEASURES.split()[0]
    refuse_unknown(held, by)
    if measure not in MEASURES.split():
        raise UnknownName("measure", measure[:20], MEASURES.split())
    size = ask.number("n", 30, low=2)
    found, problem = None, ""
    try:
        found = slices_of(library, collection, a, b, tuple(by), measure, size)
    except LimnerError as error:  # such as no slice of that size: the page stays, with its form
        problem = str(error)
    kept = {"c": collection, "a": a, "b": b, "by": by, "m": measure, "n": size}
    return page(
        ask, "slices.html", found=found, problem=problem, tables=slice_tables(found), kept=kept, query=query,
        systems=library.names, collections=library.collections, kinds=known_kinds(held), measures=MEASURES.split(),
    )  # fmt: skip


def slices_of(
    library: Library, collection: str, a: str, b: str, by: tuple[str, ...], measure: str, min_size: int
) -> Slices:
    """Slices of a system, or of two systems, computed once."""
    first = report_of(library, collection, a)
    second = report_of(library, collection, b) if b else None
    held = library.loaded(collection).held

    def work(job: Job) -> Slices:
        from limner.evaluation.slices import slices

        how = {"measure": measure, "min_size": min_size, "progress": job.told}
        return slices(first, held, by=by, against=second, **how)  # type: ignore[arg-type]

    found: Slices = library.jobs.value(
        ("slices", collection, a, b, by, measure, min_size), f"testing slices of {a}", work, patience=NOTICED
    )
    return found
