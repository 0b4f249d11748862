"""Comparison of systems: numbers with intervals, differences with p-values, and queries where one beats another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.responses import Response

from limner.core.errors import LimnerError, UnknownName
from limner.evaluation.page.words import plain, span
from limner.web.failures import DIRECTIONS, Place, placed
from limner.web.jobs import Job
from limner.web.library import Library
from limner.web.site import Ask, page, query

if TYPE_CHECKING:
    from limner.core.collection import Collection
    from limner.evaluation.comparison import Comparison, Difference
    from limner.evaluation.measures import Measure
    from limner.evaluation.report import Report
    from limner.evaluation.results import Result

MEASURES = "R@1 R@5 R@10 mAP@R"
SAMPLES = 10_000
"""Number of random permutations of a randomisation test."""
STEP = 24
"""Number of queries per page."""
WINS = {
    "first": "A right at rank 1, B not",
    "better": "A ranks the truth higher",
}
ORDERS = {"difference": "largest difference of ranks", "query": "order of the queries"}


@dataclass(frozen=True)
class MeasureCell:
    """One system on one measure.

    Args:
        value: The number; if there are unjudged answers, with the value it would have if all of them were relevant.
        span: Its 95% interval, or "".
        best: Whether no other system has a better number.
        change: The difference to the first system with its p-value, or "".
        significant: Whether the corrected p-value is below 5%.
    """

    value: str
    span: str
    best: bool
    change: str = ""
    significant: bool = False


@dataclass(frozen=True)
class MeasureRow:
    """One measure of all systems."""

    view: str
    direction: str
    measure: str
    cells: Sequence[MeasureCell]


@dataclass(frozen=True)
class CollectionTable:
    """One collection."""

    collection: str
    counts: str
    columns: Sequence[str]
    rows: Sequence[MeasureRow]
    corrected: str


def report_of(library: Library, collection: str, system: str, correction: str = "") -> Report:
    """The report of a system on a collection, computed once."""
    ready, held = library.system(collection, system), library.loaded(collection).held
    name = f"{system} with {correction}" if correction else system

    def work(job: Job) -> Report:
        from limner.evaluation.evaluate import evaluate

        scores = ready.scores.correct(correction) if correction else ready.scores
        return evaluate(scores, held, direction="i2t", measures=MEASURES, name=name, progress=job.told)

    found: Report = library.jobs.value(
        ("report", collection, system, correction), f"measuring {name} on {collection}", work, patience=5.0
    )
    return found


def comparison_of(library: Library, collection: str, ways: Sequence[tuple[str, str]]) -> Comparison | None:
    """The comparison of the systems by paired tests, computed once; None for a single system."""
    reports = [report_of(library, collection, *way) for way in ways]
    if len(reports) < 2:
        return None

    def work(job: Job) -> Comparison:
        from limner.evaluation.comparison import compare as compared

        return compared(reports, samples=SAMPLES)

    found: Comparison = library.jobs.value(
        ("comparison", collection, tuple(ways)), f"comparing {len(ways)} systems", work, patience=5.0
    )
    return found


def with_bound(result: Result) -> str:
    """A number as text; with unjudged answers, also the value if all of them were relevant."""
    shown = plain(result.measure, result.value)
    return shown if result.bound is None else f"{shown} to {plain(result.measure, result.bound)}"


def compare(ask: Ask) -> Response:
    """The page that compares systems on collections."""
    library = ask.site.library
    chosen = [library.known(name) for name in ask.all("c")] or [library.known(None)]
    asked = ask.all("s") or library.names
    correction = library.known_correction(ask.get("fix"))
    tables = [_table(library, name, asked, correction) for name in chosen]
    return page(
        ask, "compare.html", tables=tables, chosen=chosen, asked=asked, correction=correction, query=query,
        collections=library.collections, systems=library.names, corrections=library.corrections,
    )  # fmt: skip


def _table(library: Library, collection: str, systems: Sequence[str], correction: str) -> CollectionTable:
    ways = [(name, way) for name in systems for way in (("", correction) if correction else ("",))]
    reports = [report_of(library, collection, name, way) for name, way in ways]
    comparison = comparison_of(library, collection, ways)
    held, whole = library.loaded(collection).held, library.loaded(collection).whole
    counts = f"{len(held.images):,} images and {len(held.texts):,} texts, held out of {len(whole.images):,} images"
    keyed = [{result.key: result for result in report.results} for report in reports]
    shared = [key for key in keyed[0] if all(key in other for other in keyed)]
    words = {"i2t": "image → text", "t2i": "text → image"}
    rows = [
        MeasureRow(key[0], words.get(key[1], key[1]), str(key[2]), _cells([each[key] for each in keyed], comparison))
        for key in shared
    ]
    columns = [report.system for report in reports]
    return CollectionTable(collection, counts, columns, rows, comparison.corrected if comparison else "")


def _cells(results: Sequence[Result], comparison: Comparison | None) -> list[MeasureCell]:
    """One measure: numbers, intervals, the best system, and differences to the first system."""
    sign = results[0].measure.kind.better
    best = max(result.value * sign for result in results)
    key = results[0].key
    lines = comparison.lines if comparison is not None else ()
    line = next((each for each in lines if (each.view, each.direction, str(each.measure)) == key), None)
    cells = []
    for number, result in enumerate(results):
        leads = len(results) > 1 and result.value * sign == best
        apart = next((d for d in line.differences if (d.a, d.b) == (0, number)), None) if line else None
        change, sure = ("", False) if apart is None else _change(apart, result.measure)
        cells.append(MeasureCell(with_bound(result), span(result), leads, change, sure))
    return cells


def _change(difference: Difference, measure: Measure) -> tuple[str, bool]:
    """The difference between a later system and the first one, with its corrected p-value."""
    more = -difference.value  # the comparison is the first minus the later one
    p = difference.p_adjusted
    shown = f"{'+' if more >= 0 else '−'}{plain(measure, abs(more))}"
    return f"{shown}, p {'< 0.001' if p < 0.001 else f'= {p:.3f}'}", difference.significant()


# --- wins and losses --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Win:
    """A query that A answers better than B: the rank of the relevant item for both, and the first results."""

    text: str
    image: str
    a: Place
    b: Place
    firsts: tuple[str, str]

    @property
    def difference(self) -> int:
        """How many ranks lower B places the relevant item."""
        return self.b.rank - self.a.rank


def wins_page(ask: Ask) -> Response:
    """The queries where A beats B, with images."""
    library = ask.site.library
    collection, names = library.known(ask.get("c")), library.names
    if len(names) < 2:
        raise LimnerError("only one system is served: to compare queries, serve two")
    a, b = library.known_system(ask.get("a") or names[0]), library.known_system(ask.get("b") or names[1])
    direction, kind, order = ask.get("d") or "t2i", ask.get("kind") or "first", ask.get("order") or "difference"
    for what, value, known in (("direction", direction, DIRECTIONS), ("kind", kind, WINS), ("order", order, ORDERS)):
        if value not in known:
            raise UnknownName(what, value[:20], known)
    words, start = ask.get("q")[:200], ask.number("start", 0)
    found = wins(library, collection, a, b, direction, kind=kind, words=words, order=order)
    kept = {"c": collection, "a": a, "b": b, "d": direction, "kind": kind, "order": order, "q": words}
    held = library.loaded(collection).held
    return page(
        ask, "wins.html", listed=found[start : start + STEP], total=len(found), start=start, step=STEP, kept=kept,
        link=lambda **more: query(**{**kept, **more}), collections=library.collections, systems=names, kinds=WINS,
        orders=ORDERS, queries=len(held.texts if direction == "t2i" else held.images), by_text=direction == "t2i",
    )  # fmt: skip


def wins(
    library: Library, collection: str, a: str, b: str, direction: str, *, kind: str, words: str = "", order: str
) -> list[Win]:
    """Queries for which A ranks the relevant item higher than B.

    Args:
        library: Collections and systems.
        collection: Its name.
        a: The system that wins.
        b: The system that loses.
        direction: "t2i" or "i2t".
        kind: "first" (A right at rank 1, B not) or "better".
        words: Only captions that contain all of these words.
        order: "difference" (largest first) or "query".
    """
    held = library.loaded(collection).held
    sides = [_places(library, collection, name, direction) for name in (a, b)]
    texts = dict(zip(held.texts.ids, map(str, held.texts.values), strict=True))
    wanted, found = words.lower().split(), []
    for one, other in zip(*sides, strict=True):
        if one.rank >= other.rank or (kind == "first" and one.rank > 1):
            continue
        win = _win(held, texts, direction, one, other)
        if all(word in win.text.lower() for word in wanted):
            found.append(win)
    return found if order == "query" else sorted(found, key=lambda win: -win.difference)


def _win(held: Collection, texts: dict[str, str], direction: str, one: Place, other: Place) -> Win:
    if direction == "t2i":
        pairs = held.judged(held.judgements.name, "t2i").relevant
        truth = pairs.candidates[int(pairs.columns[pairs.indptr[pairs.queries.index(one.query)]])]
        return Win(texts[one.query], truth, one, other, (one.first, other.first))
    firsts = (texts[one.first], texts[other.first])
    return Win(" / ".join(firsts), one.query, one, other, firsts)


def _places(library: Library, collection: str, system: str, direction: str) -> list[Place]:
    """The rank of the relevant item of every query, computed once per system."""
    ready, held = library.system(collection, system), library.loaded(collection).held
    scores = ready.scores.T if direction == "t2i" else ready.scores
    pairs = held.judged(held.judgements.name, direction).relevant
    asked = [key for row, key in enumerate(pairs.queries) if pairs.indptr[row + 1] > pairs.indptr[row]]
    found: list[Place] = library.jobs.value(
        ("places", collection, system, direction),
        f"ranking with {system}",
        lambda job: placed(scores, held, direction, asked, job),
        patience=5.0,
    )
    return found
