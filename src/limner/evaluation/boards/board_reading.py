"""Reads results from many sources and ranks them in one leaderboard.

The sources are reports of limner (with values of every query), runs with judgements, MTEB results files and folders,
tables of published numbers (csv), and the published tables that are included in limner.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from limner.core.arrays import BoolArray
from limner.core.collection import Collection
from limner.core.errors import LimnerError
from limner.core.judgements import Judgements
from limner.core.markup import is_number
from limner.core.options import OptionValues
from limner.core.paths import JsonObject, read_json
from limner.core.progress import Progress, ProgressLike, as_progress
from limner.core.registry import Registry
from limner.datasets.runs import read_run, run_name
from limner.datasets.text_files import At, number, refuse, table
from limner.datasets.trec import is_table
from limner.evaluation.boards.board import Board, BoardEntry, entries_of, ranked
from limner.evaluation.boards.hub_results import read_model_card
from limner.evaluation.boards.mteb import META, is_mteb, read_mteb
from limner.evaluation.evaluate import evaluate
from limner.evaluation.measures import Measure
from limner.evaluation.measures.measure import limner_name
from limner.evaluation.query_groups import QueryGroup, default_kinds, query_groups, refuse_unknown
from limner.evaluation.reports.report import Report
from limner.evaluation.reports.storage import read as read_report
from limner.evaluation.results import Result

USUAL = ("R@1", "R@5", "R@10", "nDCG@10(linear)", "main_score")
"""The measures of MTEB results that are shown if no measures are given."""
TABLES: Registry[Callable[[str], list[BoardEntry]]] = Registry(
    "source of results", {"published": "limner.papers.published_tables:board_entries"}
)
"""Results that are named, not read from a file, by the word before the colon: "published:eccv-d2"."""
_SYSTEM, _LONG = ("system", "model"), ("measure", "value")
BoardSource = Report | BoardEntry | str | Path
Counts = Mapping[str, int]


def leaderboard(
    results: Iterable[BoardSource],
    *,
    judgements: Judgements | None = None,
    groups: Mapping[str, str] | None = None,
    measures: str | Sequence[str] | None = None,
    view: str | None = None,
    direction: str | None = None,
    queries: Counts | int | None = None,
    clusters: Counts | int | None = None,
    unit: str | None = None,
    unretrieved: str = "refuse",
    level: float = 0.95,
    samples: int = 10_000,
    seed: int = 0,
    collection: Collection | None = None,
    by: str | Sequence[str] = (),
    min_size: int = 30,
    progress: ProgressLike = None,
) -> Board:
    """Reads results and ranks the systems, with confidence sets for their ranks.

    Args:
        results: Reports; files: reports (.json), results of MTEB (.json, or a folder of them), tables of numbers
            (.csv, .tsv), model cards (.md), runs (with `judgements`); and "published:NAME", a table of
            `limner.papers.published_tables`.
        judgements: Relevance judgements, for runs.
        groups: The group of each query of a run, such as the image of each caption.
        measures: Only these measures, such as "R@1 nDCG@10"; for runs, the measures to compute.
        view: Only this view, such as "pairs" or "eccv".
        direction: Only this direction, "i2t" or "t2i".
        queries: Number of queries, for results that have only means; one number for all, or by the name of a collection
            or view.
        clusters: Number of independent units among them, such as images with several captions; in the same form.
        unit: For tables of numbers: "percent" or "fraction". By default, percent if a number is above 1.
        unretrieved: For runs, how relevant candidates missing from a list count: "refuse" measures that depend on
            them, or count them as "never" found.
        level: The probability that all rank sets of a table contain the true ranks.
        samples: Draws for the critical value.
        seed: The same seed gives the same board.
        collection: The evaluated collection: adds a table for every slice of its queries.
        by: How queries are sliced: "length", "words", "objects" or a field of the collection, such as "language".
        min_size: The minimum number of queries in a slice, and in the rest.
        progress: Called with (results read, results in total); a display also shows the tables that are ranked.

    Returns:
        The board.
    """
    progress = as_progress(progress)
    if by and collection is None:
        raise LimnerError(f"slices by {by!r} need the collection that was evaluated: give collection=")
    options = {"judgements": judgements, "groups": groups, "measures": measures, "unretrieved": unretrieved}
    entries = _entries(list(results), unit, options, progress)
    chosen = _chosen(entries, _measure_names(measures), view, direction)
    sized = [_sized(entry, queries, clusters) for entry in chosen]
    drawn: OptionValues = {"samples": samples, "seed": seed}
    board = ranked(sized, level=level, **drawn, progress=progress.step("ranking the systems", "tables"))
    if collection is None:
        return board
    kinds = [by] if isinstance(by, str) and by else list(by)
    step = progress.step("ranking the systems on slices", "tables")
    return with_slices(board, sized, collection, by=kinds, min_size=min_size, **drawn, progress=step)


def _entries(
    results: Sequence[BoardSource], unit: str | None, options: JsonObject, progress: Progress
) -> list[BoardEntry]:
    """The entries of all results; a report with the values of every query takes a while to read."""
    entries: list[BoardEntry] = []
    for place, result in enumerate(results):
        progress(place, len(results))
        entries += _read(result, unit, options)
    return entries


def _chosen(
    entries: Sequence[BoardEntry], measures: set[str] | None, view: str | None, direction: str | None
) -> list[BoardEntry]:
    """The entries of the given measures, view and direction; raises an error if none is left."""
    matches = [e for e in entries if measures is None or str(e.measure) in measures]
    matches = [e for e in matches if view in (None, e.view) and direction in (None, e.direction)]
    if entries and not matches:
        request = " ".join(filter(None, [view, direction, *sorted(measures or ())]))
        available = ", ".join(dict.fromkeys(" ".join(filter(None, e.key[1:])) for e in entries))
        raise LimnerError(f"no result has {request}: {_suggestion(entries, measures or ())}there are {available}")
    return matches


def _suggestion(entries: Sequence[BoardEntry], measures: Iterable[str]) -> str:
    """The measures of the results that were probably meant: with other options, or another program's name."""
    available = dict.fromkeys(str(entry.measure) for entry in entries)
    meant = {limner_name(name) for name in measures} | set(measures)
    near = [name for name in available if name in meant or name.partition("(")[0] in meant]
    return f"did you mean {' or '.join(map(repr, near))}? " if near else ""


def _measure_names(measures: str | Sequence[str] | None) -> set[str] | None:
    if measures is None:
        return None
    words = measures.replace(",", " ").split() if isinstance(measures, str) else measures
    return {str(Measure.foreign(word, {})) for word in words}


def _sized(entry: BoardEntry, queries: Counts | int | None, clusters: Counts | int | None) -> BoardEntry:
    """The entry with the number of queries given by the user."""
    if entry.result is not None:
        return entry
    return replace(
        entry,
        queries=_count(entry, queries, "queries") or entry.queries,
        units=_count(entry, clusters, "clusters") or entry.units,
    )


def _count(entry: BoardEntry, counts: Counts | int | None, noun: str) -> int | None:
    number_of = counts.get(entry.collection, counts.get(entry.view)) if isinstance(counts, Mapping) else counts
    if number_of is not None and number_of < 1:
        raise LimnerError(f"{noun}: got {number_of}, expected 1 or more")
    return number_of


# --- files ------------------------------------------------------------------------------------------------------


def _read(result: BoardSource, unit: str | None, options: Mapping[str, object]) -> list[BoardEntry]:
    if isinstance(result, BoardEntry):
        return [result]
    if isinstance(result, Report):
        return entries_of(result)
    source, colon, name = str(result).partition(":")
    if colon and source in TABLES:
        return TABLES.find(source)(name)
    path = Path(result)
    if path.is_dir():
        return _usual(_folder(path), options)
    if path.suffix.lower() in (".csv", ".tsv") and not (options["judgements"] is not None and is_table(path)):
        return read_table(path, unit=unit)
    if path.suffix.lower() == ".md":
        return read_model_card(path)
    if path.suffix.lower() != ".json" or options["judgements"] is not None:
        return _run(path, options)
    content = read_json(path, what="result")
    return _usual(read_mteb(path), options) if is_mteb(content) else entries_of(read_report(path))


def _usual(entries: list[BoardEntry], options: Mapping[str, object]) -> list[BoardEntry]:
    """Keeps only the usual measures of MTEB, which reports dozens, unless measures are given."""
    return entries if options["measures"] is not None else [e for e in entries if str(e.measure) in USUAL]


def _folder(folder: Path) -> list[BoardEntry]:
    files = sorted(file for file in folder.rglob("*.json") if file.name != META and file.is_file())
    mteb_files = [file for file in files if is_mteb(read_json(file, what="result"))]
    if not mteb_files:
        raise LimnerError(f"{folder} has no MTEB results: expected files such as org__model/revision/TASK.json")
    return [entry for file in mteb_files for entry in read_mteb(file)]


def _run(path: Path, options: JsonObject) -> list[BoardEntry]:
    if options["judgements"] is None:
        raise LimnerError(
            f"{path}: expected a report or MTEB results (.json), a table (.csv, .tsv) or a folder; a run needs "
            "judgements (judgements=..., or --qrels FILE)"
        )
    report = evaluate(
        read_run(path),
        options["judgements"],
        name=run_name(path),
        measures=options["measures"],
        groups=options["groups"],
        unretrieved=options["unretrieved"],
    )
    return entries_of(report)


def read_table(path: str | Path, *, unit: str | None = None) -> list[BoardEntry]:
    """Reads a table of published numbers: a row per system, or a row per number.

    A row per system: the first column is its name, other columns of numbers are measures ("R@1", or "coco-5k R@1" with
    a view before it). A row per number: columns system (or model), measure and value, and optionally collection, view,
    direction, queries and clusters, as written by `limner evaluate -o FILE.csv`.

    Args:
        path: A csv or tsv file.
        unit: "percent" or "fraction", for measures that are shares. By default, percent if one of them is above 1.
    """
    if unit not in (None, "percent", "fraction"):
        raise LimnerError(f"unit: got {unit!r}, expected 'percent' or 'fraction'")
    file = Path(path)
    rows = list(table(file, delimiter="\t" if file.suffix.lower() == ".tsv" else ","))
    if not rows:
        refuse(At(file), "no rows; expected a header and a row per system")
    head = list(rows[0][1])
    named = next((name for name in _SYSTEM if name in head), head[0])
    read: Callable[..., list[BoardEntry]] = _long if set(_LONG) <= set(head) else _wide
    entries = read(rows, named, file.stem)
    if not entries:
        refuse(At(file), f"no column of numbers among {', '.join(map(repr, head))}; expected one for each measure")
    shares = [entry for entry in entries if entry.measure.kind.percent and entry.measure.kind.composite is None]
    chosen = unit or ("percent" if any(abs(entry.value) > 1 for entry in shares) else "fraction")
    return [replace(entry, value=as_share(entry.measure, entry.value, chosen, At(file))) for entry in entries]


def as_share(measure: Measure, value: float, unit: str, at: At | None = None) -> float:
    """Converts a number to limner's units: percentages become fractions; a sum of measures (rsum) stays as it is."""
    if not measure.kind.percent or measure.kind.composite is not None:
        return value
    share, bounds = value / 100 if unit == "percent" else value, measure.kind.bounds
    if at is not None and bounds is not None and not bounds[0] <= share <= bounds[1]:
        refuse(at, f"{measure} is {value:g}, expected a {unit} between its bounds; give the unit of the table")
    return share


def view_and_measure(column: str) -> tuple[str, Measure]:
    """Splits `coco-5k R@1` into view and measure; a name that limner does not know is kept unchanged."""
    view, _, last = column.strip().rpartition(" ")
    measure = Measure.foreign(last, {})
    if measure.given is None:
        return view, measure
    return "", Measure.foreign(column.strip(), {"summary": "mean"})


def _wide(rows: Sequence[tuple[At, Mapping[str, str]]], named: str, collection: str) -> list[BoardEntry]:
    entries = []
    for column in (name for name in rows[0][1] if name != named):
        view, measure = view_and_measure(column)
        if not any(is_number(cells[column]) for _, cells in rows):
            continue
        for at, cells in rows:
            if cells[column].strip() not in ("", "-", "–"):
                value = number(cells[column], at, what=column)
                entries.append(BoardEntry(_system(at, cells, named), collection, view, "", measure, value))
    return entries


def _system(at: At, cells: Mapping[str, str], named: str) -> str:
    name = cells[named].strip()
    if not name:
        refuse(at, f"no name of a system in column {named!r}")
    return name


def _long(rows: Sequence[tuple[At, Mapping[str, str]]], named: str, collection: str) -> list[BoardEntry]:
    return [
        BoardEntry(
            _system(at, cells, named),
            cells.get("collection", "") or collection,
            cells.get("view", ""),
            cells.get("direction", ""),
            Measure.foreign(cells["measure"].strip(), {"summary": "mean"}),
            number(cells["value"], at, what="value"),
            _integer_cell(at, cells, "queries"),
            _integer_cell(at, cells, "clusters"),
        )
        for at, cells in rows
        if cells["value"].strip()
    ]


def _integer_cell(at: At, cells: Mapping[str, str], name: str) -> int | None:
    cell = cells.get(name, "").strip()
    if not cell:
        return None
    value = number(cell, at, what=name)
    if value < 1 or value != int(value):
        refuse(at, f"{name}: {cell} is not a number of queries; expected a whole number of 1 or more")
    return int(value)


def with_slices(
    board: Board,
    entries: Iterable[BoardEntry],
    collection: Collection,
    *,
    by: Sequence[str] = (),
    min_size: int = 30,
    samples: int = 10_000,
    seed: int = 0,
    progress: ProgressLike = None,
) -> Board:
    """A board with a further table for every slice of the queries.

    The rank sets of all slices of a measure and direction hold together with the confidence of the board: with S
    slices, each has 1 - (1 - level) / S by itself (Bonferroni).

    Args:
        board: The board of all queries.
        entries: Its entries; those without values of every query cannot be divided.
        collection: The collection that all systems were evaluated on.
        by: "length", "words", "objects" or fields, as in `limner.evaluation.slices`; what there is by default.
        min_size: The minimum number of queries in a slice, and in the rest.
        samples: Draws for the critical values.
        seed: The same seed gives the same board.
        progress: Called with (tables done, tables in total).
    """
    if min_size < 2:
        raise LimnerError(f"min_size={min_size}: expected 2 or more queries")
    kinds = list(by) or default_kinds(collection)
    refuse_unknown(collection, kinds)
    parts = [(entry, part) for entry in entries for part in _parts(entry, collection, kinds, min_size)]
    if not parts:
        raise LimnerError(
            f"no slice by {', '.join(kinds)} has {min_size} queries inside and outside, in a result with the values of "
            "every query: lower min_size, or give reports that 'limner evaluate -o FILE.json' wrote"
        )
    n_slices = max(Counter((entry.system, entry.key) for entry, _ in parts).values())
    level = 1 - (1 - board.level) / n_slices
    sliced = ranked([part for _, part in parts], level=level, samples=samples, seed=seed, progress=progress)
    level_note = (
        f"{n_slices} slices: each has rank sets of {100 * level:.6g}% confidence, so that all hold together with "
        f"{100 * board.level:g}%"
    )
    return replace(board, tables=(*board.tables, *sliced.tables), notes=(*board.notes, level_note, *sliced.notes))


def _parts(entry: BoardEntry, collection: Collection, kinds: Sequence[str], min_size: int) -> Iterator[BoardEntry]:
    result = entry.result
    if result is None or result.parts or result.stored is not None or result.direction not in ("i2t", "t2i"):
        return  # only a plain measure with a value per query of a direction can be divided by query
    for group in _groups(entry, result, collection, kinds, min_size):
        part = _part(result, group.members)
        view = f"{entry.view}; {group.name}" if entry.view else group.name
        yield replace(entry, view=view, value=part.value, queries=len(part.queries), result=replace(part, view=view))


def _groups(
    entry: BoardEntry, result: Result, collection: Collection, kinds: Sequence[str], min_size: int
) -> list[QueryGroup]:
    items = collection.images if result.direction == "i2t" else collection.texts
    lost = next((query for query in result.queries if query not in items.ids), None)
    if lost is not None:
        raise LimnerError(
            f"{entry.system} has the query {lost!r}, which {collection.name!r} lacks: give the collection and split "
            "that it was evaluated on"
        )
    return query_groups(collection, result.direction, result.queries, kinds, min_size=min_size)


def _part(result: Result, members: BoolArray) -> Result:
    """The result of some queries."""
    return result.restricted(np.flatnonzero(members))
