"""evaluate: every number of a system on a collection, in both directions, in one pass over the scores each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from limner.collection import Collection
from limner.errors import LimnerError, shown
from limner.ids import Ids, IntArray
from limner.judgements import Judgements
from limner.measures import DEFAULT, RSUM_PARTS, Measure, parse
from limner.placements import Asked, Placements, place
from limner.protocols import View, views
from limner.ranking import Ranking
from limner.report import Report, Result
from limner.scores import Progress, Scores

Source = Scores | Ranking


def evaluate(
    system: Source | Mapping[str, Source],
    truth: Collection | Judgements,
    *,
    measures: str | Iterable[str | Measure] | None = None,
    protocol: str | Iterable[str] | None = None,
    name: str = "system",
    ties: str = "expected",
    unretrieved: str = "refuse",
    keep: int = 10,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Report:
    """Measures a system against what is known to be relevant.

    Args:
        system: Scores between images and texts (both directions are measured), a ranking (one direction), or a mapping
            from "i2t" and "t2i" to scores or rankings.
        truth: A collection; or judgements, for one ranking of any queries and candidates.
        measures: Such as "R@1 R@5 MedR"; the usual ones by default, or those of the protocol.
        protocol: One or several names of `limner.protocols.PROTOCOLS`, all counted in the same pass.
        name: What the report calls the system.
        ties: "expected", "order" or "pessimistic"; see `limner.placements.place`.
        unretrieved: "refuse" or "never": what becomes of relevant candidates that a truncated ranking does not hold.
        keep: How many of the best candidates of every query the report keeps, for hubs and examples.
        workers: Threads; all cores by default.
        progress: Called with (rows done, rows in all).

    Returns:
        A report with a value per query, measure, direction and view.
    """
    chosen = None if measures is None else parse(measures)
    how: dict[str, Any] = {
        "ties": ties,
        "unretrieved": unretrieved,
        "keep": keep,
        "workers": workers,
        "progress": progress,
    }
    if isinstance(truth, Judgements):
        return _evaluate_run(system, truth, chosen or DEFAULT, name, how)
    asked, notes = views(truth, protocol=protocol, measures=chosen)
    results: list[Result] = []
    top: dict[str, Ranking] = {}
    for direction, source in _directions(system, truth).items():
        here = [v for v in asked if direction in v.directions]
        placed, kept = place(source, [_question(v, truth, source, direction) for v in here], **how)
        for view, placements in zip(here, placed, strict=True):
            results += _results(view, direction, placements, truth)
            notes += _outside_note(view, direction, placements)
        if kept is not None:
            top[direction] = kept
    results = _with_rsum(asked, results, truth)
    return Report(name, truth.name, tuple(results), top, _settings(ties, unretrieved), tuple(notes))


def _settings(ties: str, unretrieved: str) -> dict[str, str]:
    from limner import __version__

    return {"ties": ties, "unretrieved": unretrieved, "version": __version__}


def _evaluate_run(
    system: Any, truth: Judgements, measures: tuple[Measure, ...], name: str, how: dict[str, Any]
) -> Report:
    """One ranking against plain judgements: no images, no texts, one direction."""
    if not isinstance(system, (Scores, Ranking)):
        raise LimnerError(
            f"got {type(system).__name__} with plain judgements: expected one Scores or Ranking; "
            "give a Collection for two directions"
        )
    (placements,), kept = place(system, [Asked(truth)], **how)
    kept_measures = [m for m in measures if m.name != "rsum"]
    results = [_result(truth.name, "run", m, placements) for m in kept_measures]
    notes = _outside_note(View(truth.name), "run", placements)
    return Report(
        name,
        truth.name,
        tuple(results),
        {"run": kept} if kept else {},
        _settings(how["ties"], how["unretrieved"]),
        tuple(notes),
    )


def _directions(system: Source | Mapping[str, Source], collection: Collection) -> dict[str, Source]:
    """Which source answers which direction, by looking at whose ids the queries are."""
    if isinstance(system, Mapping):
        unknown = set(system) - {"i2t", "t2i"}
        if unknown:
            raise LimnerError(f"directions {shown(unknown)}: expected 'i2t' (image queries) and 't2i' (text queries)")
        return dict(system)
    if not isinstance(system, (Scores, Ranking)):
        raise LimnerError(
            f"got {type(system).__name__}: expected Scores, a Ranking, or a mapping from 'i2t' and 't2i' to them"
        )
    forward = _all_in(system.queries, collection.images.ids) and _any_in(system.candidates, collection.texts.ids)
    backward = _all_in(system.queries, collection.texts.ids) and _any_in(system.candidates, collection.images.ids)
    if not forward and not backward:
        raise LimnerError(
            f"the queries ({shown(system.queries, most=2)}) are neither the images "
            f"({shown(collection.images.ids, most=2)}) nor the texts ({shown(collection.texts.ids, most=2)}) of "
            f"{collection.name!r}: give scores and collection the same ids"
        )
    if isinstance(system, Ranking):
        return {"i2t" if forward else "t2i": system}
    return {"i2t": system, "t2i": system.T} if forward else {"i2t": system.T, "t2i": system}


def _all_in(ids: Ids, known: Ids) -> bool:
    return ids == known or all(i in known for i in ids)


def _any_in(ids: Ids, known: Ids) -> bool:
    return ids == known or any(i in known for i in ids)


def _question(view: View, collection: Collection, source: Source, direction: str) -> Asked:
    judgements = collection.judged(view.judgements, direction)
    if view.folds is None:
        return Asked(judgements, outside=view.outside)
    images, texts = (
        _fold_numbers(items.ids, items.field(view.folds)) for items in (collection.images, collection.texts)
    )
    queries, candidates = (images, texts) if direction == "i2t" else (texts, images)
    pools = [
        np.array([known.get(i, -1) for i in ids])
        for known, ids in ((queries, source.queries), (candidates, source.candidates))
    ]
    return Asked(judgements, pools[0], pools[1], view.outside)


def _fold_numbers(ids: Ids, folds: Iterable[Any]) -> dict[str, int]:
    return {i: int(f) for i, f in zip(ids, folds, strict=True)}


def _results(view: View, direction: str, placements: Placements, collection: Collection) -> list[Result]:
    clusters = None if direction == "i2t" else _image_of(placements.queries, collection)
    folds = None
    if view.folds is not None:
        items = collection.images if direction == "i2t" else collection.texts
        numbers = _fold_numbers(items.ids, items.field(view.folds))
        folds = np.array([numbers[q] for q in placements.queries], dtype=np.int64)
    wanted = [m for m in view.measures if m.name != "rsum"]
    if any(m.name == "rsum" for m in view.measures):
        wanted += [m for m in RSUM_PARTS if m not in wanted]
    return [_result(view.name, direction, m, placements, clusters, folds) for m in wanted]


def _result(
    view: str,
    direction: str,
    measure: Measure,
    placements: Placements,
    clusters: IntArray | None = None,
    folds: IntArray | None = None,
) -> Result:
    counted = measure.counted(placements)
    kept = placements.queries.find(counted.queries)
    clusters, folds = (None if codes is None else codes[kept] for codes in (clusters, folds))
    return Result(view, direction, measure, counted.queries, measure(placements), clusters, folds, counted.left_out)


def _image_of(texts: Ids, collection: Collection) -> IntArray:
    """The image each text belongs with, since captions of one image are not independent; its own number where none."""
    pairs = collection.judgements.T.relevant
    first = np.full(len(pairs.queries), -1, dtype=np.int64)
    first[pairs.rows[::-1]] = pairs.columns[::-1]
    found = first[pairs.queries.positions(texts)]
    alone = found < 0
    found[alone] = len(collection.images) + np.flatnonzero(alone)
    return found


def _outside_note(view: View, direction: str, placements: Placements) -> list[str]:
    if not placements.outside:
        return []
    treated = "count as never found" if view.outside == "count" else "are left out"
    return [f"{view.name} ({direction}): {placements.outside:,} relevant candidates are not in the pool and {treated}"]


def _with_rsum(asked: list[View], results: list[Result], collection: Collection) -> list[Result]:
    """Adds rsum after the views that ask for it, where both directions were measured."""
    done = list(results)
    for view in asked:
        parts = [r for r in results if r.view == view.name and r.measure in RSUM_PARTS]
        rsum = next((m for m in view.measures if m.name == "rsum"), None)
        if rsum is not None and len(parts) == 2 * len(RSUM_PARTS):
            done.append(_rsum(view.name, rsum, parts, collection))
    order = {view.name: number for number, view in enumerate(asked)}
    return sorted(done, key=lambda r: order[r.view])


def _rsum(view: str, measure: Measure, parts: list[Result], collection: Collection) -> Result:
    """rsum as a mean over images: each image's share of the six means, so that it has intervals and tests too."""
    n = len(collection.images)
    folds = np.zeros(n, dtype=np.int64)
    shares = np.zeros(n)
    for part in parts:
        image = collection.images.ids.positions(part.queries) if part.clusters is None else part.clusters
        kept = image < n
        fold = np.zeros(len(image), dtype=np.int64) if part.folds is None else part.folds
        folds[image[kept]] = fold[kept]
        np.add.at(shares, image[kept], 100 * part.values[kept] / np.bincount(fold)[fold[kept]])
    shares *= np.bincount(folds)[folds]
    return Result(view, "both", measure, collection.images.ids, shares, None, None if parts[0].folds is None else folds)
