"""Comparison of systems: numbers with intervals, differences with p-values, slices, and the queries that one wins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup
from starlette.responses import Response

from limner.core.collection import Collection
from limner.core.errors import LimnerError, UnknownName
from limner.core.ids import Ids
from limner.evaluation.reports.page.estimates import intervals_drawn
from limner.evaluation.reports.page.system_comparison import slice_tables
from limner.evaluation.reports.page.words import direction_title, plain, range_text, slug, span
from limner.web.failures import DIRECTIONS, Place, class_names, placed, with_classes
from limner.web.jobs import NOTICED, Job
from limner.web.library import Library
from limner.web.site import Ask, page, query

if TYPE_CHECKING:
    from limner.evaluation.comparison import Comparison, Difference
    from limner.evaluation.measures import Measure
    from limner.evaluation.reports.report import Report
    from limner.evaluation.results import Result
    from limner.evaluation.slices import Slices

MEASURES = "R@1 R@5 R@10 mAP@R"
SAMPLES = 10_000
"""Number of random permutations of a randomisation test."""


@dataclass(frozen=True)
class MeasureCell:
    """One system on one measure.

    Args:
        value: The number; if there are unjudged pairs, with the lowest and the highest value that they allow.
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
    charts: Sequence[tuple[str, Markup]] = ()


def report_of(library: Library, collection: str, system: str, correction: str = "") -> Report:
    """The report of a system on a collection, computed once."""
    ready, evaluated = library.system(collection, system), library.loaded(collection).evaluated
    name = f"{system} with {correction}" if correction else system

    def work(job: Job) -> Report:
        from limner.evaluation.evaluate import evaluate

        scores = ready.scores.correct(correction) if correction else ready.scores
        return evaluate(scores, evaluated, direction="i2t", measures=MEASURES, name=name, progress=job)

    return library.jobs.value(
        ("report", collection, system, correction), f"measuring {name} on {collection}", work, patience=NOTICED
    )


def comparison_of(library: Library, collection: str, ways: Sequence[tuple[str, str]]) -> Comparison | None:
    """The comparison of the systems by paired tests, computed once; None for a single system."""
    reports = [report_of(library, collection, *pair) for pair in ways]
    if len(reports) < 2:
        return None

    def work(job: Job) -> Comparison:
        from limner.evaluation.comparison import compare as compared

        return compared(reports, samples=SAMPLES)

    return library.jobs.value(
        ("comparison", collection, tuple(ways)), f"comparing {len(ways)} systems", work, patience=NOTICED
    )


def with_range(result: Result) -> str:
    """A number as text; with unjudged pairs, also the lowest and the highest value that they allow."""
    text, ends = plain(result.measure, result.value), range_text(result)
    return f"{text} ({ends})" if ends else text


def compare(ask: Ask) -> Response:
    """The page that compares systems on collections."""
    library = ask.site.library
    chosen = [library.known_collection(name) for name in ask.all("c")] or [library.known_collection(None)]
    systems = ask.all("s") or library.names
    correction = library.known_correction(ask.get("fix"))
    tables = [_table(library, name, systems, correction) for name in chosen]
    return page(
        ask, "compare.html", tables=tables, chosen=chosen, chosen_systems=systems, correction=correction, query=query,
        collections=library.collections, systems=library.names, corrections=library.corrections,
    )  # fmt: skip


def _table(library: Library, collection: str, systems: Sequence[str], correction: str) -> CollectionTable:
    ways = [(name, fix) for name in systems for fix in (("", correction) if correction else ("",))]
    reports = [report_of(library, collection, name, fix) for name, fix in ways]
    comparison = comparison_of(library, collection, ways)
    loaded = library.loaded(collection)
    divided = f", held out of {len(loaded.whole.images):,} images" if loaded.divided else ""
    counts = f"{len(loaded.evaluated.images):,} images and {len(loaded.evaluated.texts):,} texts{divided}"
    keyed = [{result.key: result for result in report.results} for report in reports]
    shared = [key for key in keyed[0] if all(key in results for results in keyed)]
    words = {"i2t": "image → text", "t2i": "text → image"}
    rows = [
        MeasureRow(key[0], words.get(key[1], key[1]), str(key[2]), _cells([each[key] for each in keyed], comparison))
        for key in shared
    ]
    columns = [report.system for report in reports]
    corrected = comparison.corrected if comparison else ""
    return CollectionTable(collection, counts, columns, rows, corrected, _charts(collection, reports, shared))


def _charts(
    collection: str, reports: Sequence[Report], shared: Sequence[tuple[str, str, str]]
) -> list[tuple[str, Markup]]:
    """One chart per view and direction: the shares of all systems with their intervals."""
    charts = []
    for view, direction in dict.fromkeys((key[0], key[1]) for key in shared):
        keys = [key for key in shared if key[:2] == (view, direction)]
        groups = [(str(key[2]), [(r.system, _result(r, key)) for r in reports]) for key in keys]
        drawn = [group for group in groups if all(r.measure.kind.percent and r.interval for _, r in group[1])]
        title = f"{direction_title(direction)}, {view}"
        if drawn:
            charts.append((title, intervals_drawn(f"{slug(collection)}-{slug(title)}", title, drawn)))
    return charts


def _result(report: Report, key: tuple[str, str, str]) -> Result:
    return next(result for result in report.results if result.key == key)


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
        difference = next((d for d in line.differences if (d.a, d.b) == (0, number)), None) if line else None
        change, significant = ("", False) if difference is None else _change(difference, result.measure)
        cells.append(MeasureCell(with_range(result), span(result), leads, change, significant))
    return cells


def _change(difference: Difference, measure: Measure) -> tuple[str, bool]:
    """The difference between a later system and the first one, with its corrected p-value."""
    gain = -difference.value  # the comparison is the first minus the later one
    p = difference.p_adjusted
    text = f"{'+' if gain >= 0 else '−'}{plain(measure, abs(gain))}"
    return f"{text}, p {'< 0.001' if p < 0.001 else f'= {p:.3f}'}", difference.significant()


# --- slices -----------------------------------------------------------------------------------------------------


def slices_page(ask: Ask) -> Response:
    """Slices of the queries of a system, or of the difference between two systems."""
    from limner.evaluation.query_groups import default_kinds, known_kinds, refuse_unknown

    library = ask.site.library
    collection = library.known_collection(ask.get("c"))
    a = library.known_system(ask.get("a") or library.names[0])
    b = library.known_system(ask.get("b")) if ask.get("b") else ""
    evaluated = library.loaded(collection).evaluated
    by, measure = ask.all("by") or default_kinds(evaluated), ask.get("m") or MEASURES.split()[0]
    refuse_unknown(evaluated, by)
    if measure not in MEASURES.split():
        raise UnknownName("measure", measure[:20], MEASURES.split())
    size = ask.number("n", 30, low=2)
    slices, problem = None, ""
    try:
        slices = slices_of(library, collection, a, b, tuple(by), measure, size)
    except LimnerError as error:  # such as no slice of that size: the page stays, with its form
        problem = str(error)
    parameters = {"c": collection, "a": a, "b": b, "by": by, "m": measure, "n": size}
    return page(
        ask, "slices.html", found=slices, problem=problem, tables=slice_tables(slices), kept=parameters, query=query,
        systems=library.names, collections=library.collections, kinds=known_kinds(evaluated), measures=MEASURES.split(),
    )  # fmt: skip


def slices_of(
    library: Library, collection: str, a: str, b: str, by: tuple[str, ...], measure: str, min_size: int
) -> Slices:
    """Slices of a system, or of two systems, computed once."""
    first = report_of(library, collection, a)
    second = report_of(library, collection, b) if b else None
    evaluated = library.loaded(collection).evaluated

    def work(job: Job) -> Slices:
        from limner.evaluation.slices import slices

        options = {"measure": measure, "min_size": min_size, "progress": job}
        return slices(first, evaluated, by=by, against=second, **options)  # type: ignore[arg-type]

    return library.jobs.value(
        ("slices", collection, a, b, by, measure, min_size), f"testing slices of {a}", work, patience=NOTICED
    )


STEP = 24
"""Queries on a page."""
WINS = {
    "first": "A right at rank 1, B not",
    "better": "A ranks the truth higher",
}
ORDERS = {
    "difference": "largest difference of ranks",
    "close": "smallest difference of ranks",
    "query": "order of the queries",
}


@dataclass(frozen=True)
class WinFilter:
    """Which queries to show.

    Args:
        words: Captions that contain all of these words.
        by: A field, or "length", "words" or "objects".
        value: The group of that field; all groups by default.
        failure: Failure class, by objects or by captions, of the losing system's answer; all classes by default.
    """

    words: str = ""
    by: str = ""
    value: str = ""
    failure: str = ""


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
    """The queries where A wins and B loses, with images."""
    library = ask.site.library
    collection, names = library.known_collection(ask.get("c")), library.names
    if len(names) < 2:
        raise LimnerError("only one system is served: to compare queries, serve two")
    a, b = library.known_system(ask.get("a") or names[0]), library.known_system(ask.get("b") or names[1])
    direction, kind, order = ask.get("d") or "t2i", ask.get("kind") or "first", ask.get("order") or "difference"
    for option, value, choices in (
        ("direction", direction, DIRECTIONS),
        ("kind", kind, WINS),
        ("order", order, ORDERS),
    ):
        if value not in choices:
            raise UnknownName(option, value[:20], choices)
    start = ask.number("start", 0)
    chosen = WinFilter(ask.get("q")[:200], ask.get("by")[:80], ask.get("value")[:80], ask.get("class")[:40])
    win_list = wins(library, collection, a, b, direction, kind=kind, order=order, chosen=chosen)
    parameters = {"c": collection, "a": a, "b": b, "d": direction, "kind": kind, "order": order, "q": chosen.words,
            "by": chosen.by, "value": chosen.value, "class": chosen.failure}  # fmt: skip
    evaluated = library.loaded(collection).evaluated
    annotated = "objects" in evaluated.images.fields
    return page(
        ask, "wins.html", listed=win_list[start : start + STEP], total=len(win_list), start=start, step=STEP,
        kept=parameters,
        link=lambda **more: query(**{**parameters, **more}), collections=library.collections, systems=names, kinds=WINS,
        orders=ORDERS, choices=choices_of(evaluated), classes=class_names(annotated=annotated), annotated=annotated,
        by_text=direction == "t2i", queries=len(evaluated.texts if direction == "t2i" else evaluated.images),
    )  # fmt: skip


def wins(
    library: Library, collection: str, a: str, b: str, direction: str, *, kind: str, order: str, chosen: WinFilter
) -> list[Win]:
    """Queries for which A ranks the relevant item higher than B.

    Args:
        library: Collections and systems.
        collection: Its name.
        a: The system that wins.
        b: The system that loses.
        direction: "t2i" or "i2t".
        kind: "first" (A right at rank 1, B not) or "better".
        order: "difference" (largest first), "close" (smallest first) or "query".
        chosen: Filter of the queries.
    """
    evaluated = library.loaded(collection).evaluated
    sides = [_places(library, collection, name, direction) for name in (a, b)]
    texts = dict(zip(evaluated.texts.ids, map(str, evaluated.texts.values), strict=True))
    allowed = _allowed(library, collection, b, direction, [place.query for place in sides[0]], chosen)
    query_words, listed = chosen.words.lower().split(), []
    for one, loser in zip(*sides, strict=True):
        if one.rank >= loser.rank or (kind == "first" and one.rank > 1) or one.query not in allowed:
            continue
        win = _win(evaluated, texts, direction, one, loser)
        if all(word in win.text.lower() for word in query_words):
            listed.append(win)
    if order == "query":
        return listed
    return sorted(listed, key=lambda win: -win.difference if order == "difference" else win.difference)


def choices_of(evaluated: Collection) -> list[str]:
    """The fields that queries can be grouped by."""
    from limner.evaluation.query_groups import known_kinds

    return known_kinds(evaluated)


def _allowed(
    library: Library, collection: str, loser: str, direction: str, queries: Sequence[str], chosen: WinFilter
) -> set[str]:
    """The queries of a group, restricted to a failure class of the losing system."""
    from limner.evaluation.query_groups import query_groups, refuse_unknown

    allowed, evaluated = set(queries), library.loaded(collection).evaluated
    if chosen.by and chosen.value:
        refuse_unknown(evaluated, [chosen.by])
        groups = query_groups(evaluated, direction, Ids(queries), [chosen.by], min_size=1)
        matching = [group for group in groups if group.value.lower() == chosen.value.lower()]
        if not matching:
            raise UnknownName("value", chosen.value, [group.value for group in groups], of=chosen.by)
        allowed &= {key for key, inside in zip(queries, matching[0].members, strict=True) if inside}
    if chosen.failure:
        failed = with_classes(library, collection, loser, direction)
        allowed &= {failed.found[n].query for n in failed.of_class(chosen.failure)}
    return allowed


def _win(evaluated: Collection, texts: dict[str, str], direction: str, one: Place, loser: Place) -> Win:
    if direction == "t2i":
        truth = evaluated.judged(evaluated.judgements.name, "t2i").relevant_to(one.query)[0]
        return Win(texts[one.query], truth, one, loser, (one.first, loser.first))
    firsts = (texts[one.first], texts[loser.first])
    return Win(" / ".join(firsts), one.query, one, loser, firsts)


def _places(library: Library, collection: str, system: str, direction: str) -> list[Place]:
    """The rank of the relevant item of every query, computed once per system."""
    ready, evaluated = library.system(collection, system), library.loaded(collection).evaluated
    scores = ready.scores.T if direction == "t2i" else ready.scores
    pairs = evaluated.judged(evaluated.judgements.name, direction)
    judged_queries = [key for key, count in zip(pairs.queries, pairs.counts.tolist(), strict=True) if count]
    return library.jobs.value(
        ("places", collection, system, direction),
        f"ranking with {system}",
        lambda job: placed(scores, evaluated, direction, judged_queries, job),
        patience=NOTICED,
    )
