"""Evaluates all measures of a system on a collection, in both directions, with one pass over the scores for each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from limner.core.arrays import IntArray
from limner.core.collection import Collection, Items
from limner.core.cut_texts import noted
from limner.core.errors import LimnerError, UnknownName, shown
from limner.core.ids import Ids
from limner.core.judgements import Judgements
from limner.core.progress import next_step
from limner.core.ranking import Ranking
from limner.core.version import VERSION
from limner.evaluation.coverage import covered, unjudged_queries
from limner.evaluation.estimated import described, estimated
from limner.evaluation.folds import fold_of
from limner.evaluation.inputs import EXPECTED, understood
from limner.evaluation.judging import (
    Given,
    depth_seen,
    judged_for,
    judged_measures,
    judged_pool,
    pool_notes,
    with_judgements,
)
from limner.evaluation.measures import DEFAULT, Measure, MeasureKind, parse
from limner.evaluation.placements import NEVER, Asked, Placements, place
from limner.evaluation.protocols import View, fitting, undefined_notes, views
from limner.evaluation.query_clusters import clusters_of, images_of
from limner.evaluation.reports.report import Report
from limner.evaluation.results import Result, without_interval
from limner.evaluation.unjudged import possible
from limner.scores import Progress, Scores
from limner.scores.corrected import gather_first

Source = Scores | Ranking


@noted
def evaluate(
    system: Any,
    truth: object,
    *,
    measures: str | Iterable[str | Measure | MeasureKind] | None = None,
    per_image: int | None = None,
    protocol: str | Iterable[str] | None = None,
    direction: str | None = None,
    groups: Mapping[str, object] | None = None,
    judgements: Given | None = None,
    labels: object | None = None,
    mode: str = "fixed",
    name: str = "system",
    ties: str = "expected",
    unretrieved: str = "refuse",
    missing: str = "refuse",
    keep: int = 10,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Report:
    """Evaluates a system against relevance judgements.

    Args:
        system: Scores between images and texts (both directions are measured), a ranking (one direction), a mapping
            from "i2t" and "t2i" to scores or rankings, a trained model, or an encoder of images and texts. With
            judgements also a run, {query: {candidate: score}}. Or image vectors, in the order of the texts.
        truth: A collection; or judgements, for one ranking of any queries and candidates, also as
            {query: {candidate: grade}}; or, with image vectors as the system, text vectors.
        measures: Such as "R@1 R@5 MedR"; the usual ones by default, or those of the protocol. Your own measure is
            "module:kind", or a `MeasureKind` in a list.
        per_image: Texts per image, for two sets of vectors in order; 1 by default.
        protocol: One or several names of `limner.evaluation.protocols.PROTOCOLS`, all evaluated in the same pass.
        direction: Whether the queries of scores or a ranking are images ("i2t") or texts ("t2i"). Needed only if images
            and texts share ids; otherwise it follows from the ids.
        groups: With plain judgements, the group of each query (such as its image), by query id. Intervals and tests
            treat groups, not queries, as independent. Without it, queries with ids such as `dog.jpg#0`, or with the
            same relevant candidates, form a group. With a collection, texts are already grouped by image.
        judgements: Further judgements for a collection (by name, or a qrels file), each a separate view. An
            original pair that they do not judge counts as relevant.
        labels: A store of answers to a designed sample (`limner.annotate.plan`): the report then has the view
            "estimated", values estimated for complete judgements.
        mode: Mode of its intervals: "fixed", for one look, or "anytime", valid after every answer.
        name: Name of the system in the report.
        ties: "expected", "order" or "pessimistic"; see `limner.evaluation.placements.place`.
        unretrieved: How relevant candidates missing from a truncated ranking count: "refuse" measures that depend on
            them, or "never" found.
        missing: How judged queries missing from a ranking count: "refuse" them, as an "empty" list, or "skip" them; the
            report says so.
        keep: Number of top candidates per query that the report stores, for hubs and examples.
        workers: Threads; all cores by default.
        progress: Called with (rows done, rows in total).

    Returns:
        A report with a value per query, measure, direction and view.
    """
    chosen = None if measures is None else parse(measures)
    system, truth = understood(system, truth, per_image=per_image)
    how: dict[str, object] = {
        "ties": ties,
        "unretrieved": unretrieved,
        "missing": missing,
        "keep": keep,
        "workers": workers,
        "progress": progress,
    }
    if isinstance(truth, Judgements):
        _refuse_with_judgements(direction=direction, protocol=protocol, judgements=judgements, labels=labels)
        return _evaluate_run(system, truth, chosen or DEFAULT, groups, name, how)
    if groups is not None:
        raise LimnerError("groups with a collection: its texts are already grouped by image; leave groups out")
    asked, notes = views(truth, protocol=protocol, measures=chosen)
    if judgements is not None:
        truth, further, told = with_judgements(truth, judgements)
        asked += [replace(view, measures=chosen or DEFAULT) for view in further]
        notes += told
    asked, sources = fitting(asked, truth), directions(system, truth, direction)
    judged = {(v.name, d): judged_for(v, truth, d) for v in asked for d in v.directions if d in sources}
    results, top, told = _measured(sources, asked, judged, truth, how)
    results = _with_composites(asked, results, truth)
    notes += [*told, *_lacking_direction(chosen, sources), *_grade_notes(results, judged.values())]
    notes += without_interval(results)
    settings = _settings(how, {f"{view} {d}": j for (view, d), j in judged.items()}, sources)
    settings |= _judged_pools(asked, truth, sources)
    next_step(progress, "estimating from the labels" if labels is not None else "describing the results")
    found, more = estimated(labels, sources, truth, chosen, mode) if labels is not None else ((), [])
    settings |= described(labels, sources, truth) if found else {}
    return Report(name, truth.name, tuple(results), top, settings, (*notes, *more), found)


def _measured(
    sources: Mapping[str, Source],
    asked: Sequence[View],
    judged: Mapping[tuple[str, str], Judgements],
    truth: Collection,
    how: Mapping[str, Any],
) -> tuple[list[Result], dict[str, Ranking], list[str]]:
    """Runs one pass per direction: the results of every view, the top candidates, and notes."""
    results: list[Result] = []
    top: dict[str, Ranking] = {}
    notes: list[str] = []
    for towards, source in sources.items():
        here = [v for v in asked if towards in v.directions]
        judged_here = [(f"{v.name} ({towards})", judged[v.name, towards]) for v in here]
        whole, kept_judgements, told = covered(source, judged_here, how["missing"])
        questions = [_question(v, j, truth, whole, towards) for v, j in zip(here, kept_judgements, strict=True)]
        gather_first(source, how["progress"])
        placed, kept = place(whole, questions, empty=how["missing"] == "empty", **_passing(how, whole))
        notes += [*_source_notes(source), *told]
        for view, placements in zip(here, placed, strict=True):
            results += _results(view, towards, placements, truth)
            notes += _outside_note(view, towards, placements)
            notes += pool_notes(view, truth, towards, whole.candidates)
        if kept is not None:
            top[towards] = kept
    return results, top, notes


def _judged_pools(asked: Iterable[View], truth: Collection, sources: Mapping[str, Source]) -> dict[str, object]:
    """The pool size of each view that is restricted to judged candidates."""
    found = {
        f"{v.name} {d}": len(pool[1])
        for v in asked
        for d in v.directions
        if d in sources and (pool := judged_pool(v, truth, d)) and len(pool[1]) < len(sources[d].candidates)
    }
    return {"judged_pool": found} if found else {}


def _passing(how: Mapping[str, Any], source: Source) -> dict[str, Any]:
    """Options of a pass over the scores, whose progress tells what is ranked."""
    what = f"ranking {len(source.candidates):,} candidates for {len(source.queries):,} queries"
    told = next_step(how["progress"], what, "queries", total=len(source.queries)) or how["progress"]
    return {name: value for name, value in {**how, "progress": told}.items() if name != "missing"}


def _source_notes(source: Source) -> tuple[str, ...]:
    return source.notes if isinstance(source, Ranking) else ()


def _refuse_with_judgements(**given: object) -> None:
    for what, value in given.items():
        if value is not None:
            raise LimnerError(f"{what} needs a Collection, but got judgements: leave it out")


def _settings(
    how: dict[str, object], judged: Mapping[str, Judgements], sources: Mapping[str, Source]
) -> dict[str, object]:
    """The settings, including those that must agree to make reports comparable: judgements and pool sizes."""
    pools = {d: s.n_candidates if isinstance(s, Ranking) else s.shape[1] for d, s in sources.items()}
    truth = {name: judgements.digest for name, judgements in judged.items()}
    told = {name: how[name] for name in ("ties", "unretrieved")}
    if how["missing"] != "refuse":
        told["missing"] = how["missing"]
    return {**told, "version": VERSION, "truth": truth, "pool": pools}


def _grade_notes(results: Iterable[Result], judged: Iterable[Judgements]) -> list[str]:
    """Notes on measures that depend on grades."""
    if not any(len(np.unique(j.relevant.grades)) > 1 for j in judged):
        return []
    told = (r.measure.kind.on_grades(r.measure) for r in results if r.measure.kind.on_grades)
    return [note for note in dict.fromkeys(told) if note]


def _evaluate_run(
    system: Any,
    truth: Judgements,
    measures: tuple[Measure, ...],
    groups: Mapping[str, object] | None,
    name: str,
    how: dict[str, Any],
) -> Report:
    """Evaluates one ranking against plain judgements, without a collection, in one direction."""
    if not isinstance(system, (Scores, Ranking)):
        raise LimnerError(
            f"got {type(system).__name__} with plain judgements: expected one Scores or Ranking; "
            "give a Collection for two directions"
        )
    whole, (judged,), told = covered(system, [(f"{truth.name} (run)", truth)], how["missing"])
    (placements,), kept = place(whole, [Asked(judged)], empty=how["missing"] == "empty", **_passing(how, whole))
    clusters, belonging = clusters_of(placements.queries, truth, groups)
    wanted = [m for m in measures if not m.kind.composite]
    wanted += judged_measures(placements, wanted)
    results = [_result(truth.name, "run", m, placements, clusters) for m in dict.fromkeys(wanted)]
    notes = [*_outside_note(View(truth.name), "run", placements), *_grade_notes(results, [truth])]
    notes += [*_source_notes(system), *told, *unjudged_queries(system, truth), *belonging]
    notes += [*undefined_notes(wanted, truth.name), *without_interval(results)]
    settings = _settings(how, {f"{truth.name} run": truth}, {"run": system})
    return Report(name, truth.name, tuple(results), {"run": kept} if kept else {}, settings, tuple(notes))


def directions(
    system: Source | Mapping[str, Source], collection: Collection, direction: str | None = None
) -> dict[str, Source]:
    """Assigns sources to directions: as given, or by their ids, but never by guessing.

    Args:
        system: Scores (which cover both directions), a ranking (which covers one), or a mapping by direction.
        collection: The images and texts.
        direction: "i2t" if the queries are images, "t2i" if they are texts; None to infer it from the ids.

    Returns:
        Sources by direction, image queries first.
    """
    if isinstance(system, Mapping):
        if direction is not None:
            raise LimnerError("direction with a mapping: a mapping already has directions; leave one of them out")
        unknown = set(system) - {"i2t", "t2i"}
        if unknown:
            raise LimnerError(f"directions {shown(unknown)}: expected 'i2t' (image queries) and 't2i' (text queries)")
        _refuse_swapped(system, collection)
        return {towards: system[towards] for towards in ("i2t", "t2i") if towards in system}
    if not isinstance(system, (Scores, Ranking)):
        raise LimnerError(f"got {type(system).__name__}: {EXPECTED}")
    towards = direction_of(system, collection, direction)
    if isinstance(system, Ranking):
        return {towards: system}
    return {"i2t": system, "t2i": system.T} if towards == "i2t" else {"i2t": system.T, "t2i": system}


def _refuse_swapped(system: Mapping[str, Source], collection: Collection) -> None:
    """Refuses a mapping whose ids show that its two directions are swapped."""
    sides = {"i2t": (collection.images, collection.texts), "t2i": (collection.texts, collection.images)}
    for towards, source in system.items():
        (own, other), ids = sides[towards], source.queries
        if not _all_in(ids, own.ids) and _all_in(ids, other.ids):
            raise LimnerError(
                f"{towards!r} has queries ({shown(ids, most=2)}) that are {other.kind}s of {collection.name!r}: "
                f"expected its {own.kind}s; the two directions seem to be swapped"
            )


def direction_of(system: Source, collection: Collection, direction: str | None = None) -> str:
    """The direction of scores or a ranking, "i2t" or "t2i": as given, or by their ids."""
    if direction is None:
        return _towards(system, collection)
    if direction not in ("i2t", "t2i"):
        raise UnknownName("direction", direction, ("i2t", "t2i"))
    items = collection.images if direction == "i2t" else collection.texts
    strange = [query for query in system.queries if query not in items.ids]
    if strange:
        raise LimnerError(
            f"direction {direction!r} with queries ({shown(strange, most=2)}) that are not {items.kind}s of "
            f"{collection.name!r} ({shown(items.ids, most=2)}): give scores and collection the same ids"
        )
    return direction


def _towards(system: Source, collection: Collection) -> str:
    """The only direction that the ids allow; candidates may be outside the collection only if nothing else matches."""
    sides = {"i2t": (collection.images, collection.texts), "t2i": (collection.texts, collection.images)}
    for fits in (_all_in, _any_in):
        found = [
            d for d, (queries, pool) in sides.items()
            if _all_in(system.queries, queries.ids) and fits(system.candidates, pool.ids)
        ]  # fmt: skip
        if len(found) == 1:
            return found[0]
        if found:
            raise LimnerError(
                f"the queries ({shown(system.queries, most=2)}) could be images or texts of {collection.name!r}, which "
                "share ids: choose direction='i2t' (images) or 't2i' (texts), or give a mapping "
                "{'i2t': ..., 't2i': ...}"
            )
    raise LimnerError(
        f"the queries ({shown(system.queries, most=2)}) are neither the images "
        f"({shown(collection.images.ids, most=2)}) nor the texts ({shown(collection.texts.ids, most=2)}) of "
        f"{collection.name!r}: give scores and collection the same ids"
    )


def _all_in(ids: Ids, known: Ids) -> bool:
    return ids == known or all(i in known for i in ids)


def _any_in(ids: Ids, known: Ids) -> bool:
    return ids == known or any(i in known for i in ids)


def _question(view: View, judgements: Judgements, collection: Collection, source: Source, direction: str) -> Asked:
    pool = judged_pool(view, collection, direction)
    whole = view.folds is None and (pool is None or _covers(pool, source))
    depth = depth_seen(judgements, view.measures, len(source.candidates) if whole else 0)
    if whole:
        return Asked(judgements, outside=view.outside, depth=depth)
    folds = [
        fold_of(ids, items, view.folds, collection)
        for ids, items in zip((source.queries, source.candidates), _sides(collection, direction), strict=True)
    ]
    if pool is not None:
        folds = [
            np.where([i in within for i in ids], fold, -1)
            for ids, within, fold in zip((source.queries, source.candidates), pool, folds, strict=True)
        ]
    return Asked(judgements, folds[0], folds[1], view.outside, depth)


def _sides(collection: Collection, direction: str) -> tuple[Items, Items]:
    """Queries and candidates."""
    sides = (collection.images, collection.texts)
    return sides if direction == "i2t" else sides[::-1]


def _covers(pool: tuple[set[str], set[str]], source: Source) -> bool:
    """Whether every query and candidate is in the pool, so that nothing is removed."""
    return all(q in pool[0] for q in source.queries) and all(c in pool[1] for c in source.candidates)


def _results(view: View, direction: str, placements: Placements, collection: Collection) -> list[Result]:
    clusters = None if direction == "i2t" else images_of(placements.queries, collection)
    folding = None
    if view.folds is not None:
        folding = partial(fold_of, items=_sides(collection, direction)[0], name=view.folds, collection=collection)
    wanted = [m for m in view.measures if not m.kind.composite]
    wanted += [part for m in view.measures for part in m.parts]
    wanted += judged_measures(placements, wanted)
    return [_result(view.name, direction, m, placements, clusters, folding) for m in dict.fromkeys(wanted)]


def _result(
    view: str,
    direction: str,
    measure: Measure,
    placements: Placements,
    clusters: IntArray | None = None,
    folding: Callable[[Ids], IntArray] | None = None,
) -> Result:
    counted = measure.counted(placements)
    own = None if clusters is None else clusters[placements.queries.find(counted.queries)]
    folds = folding(counted.queries) if folding else None
    values, pool = measure(placements), int(counted.pool.max(initial=0))
    return Result(
        view, direction, measure, counted.queries, values, own, folds, counted.left_out,
        possible=possible(placements, measure, values, folding), pool=pool if 0 < pool < NEVER else None,
    )  # fmt: skip


def _outside_note(view: View, direction: str, placements: Placements) -> list[str]:
    if not placements.outside:
        return []
    treated = "count as never found" if view.outside == "count" else "are left out"
    return [f"{view.name} ({direction}): {placements.outside:,} relevant candidates are not in the pool and {treated}"]


def _lacking_direction(chosen: Iterable[Measure] | None, sources: Mapping[str, Source]) -> list[str]:
    """A note for every requested composite measure that cannot be computed."""
    lost = [str(m) for m in chosen or () if m.kind.composite and len(sources) < 2]
    return [f"{name} sums both directions, and only {' '.join(sources)} was measured: left out" for name in lost]


def _with_composites(asked: list[View], results: list[Result], collection: Collection) -> list[Result]:
    """Adds the requested composite measures after each view, if both directions were measured."""
    done = list(results)
    for view in asked:
        for measure in (m for m in view.measures if m.kind.composite):
            parts = [r for r in results if r.view == view.name and r.measure in measure.parts]
            if len(parts) == 2 * len(measure.parts):
                done.append(_composed(view.name, measure, parts, collection))
    order = {view.name: number for number, view in enumerate(asked)}
    return sorted(done, key=lambda r: order[r.view])


def _composed(view: str, measure: Measure, parts: list[Result], collection: Collection) -> Result:
    """Computes a composite measure and its parts, clustered by image; a text without an image is its own cluster."""
    weight = measure.kind.composite.weight if measure.kind.composite else 1.0
    images = [collection.images.ids.positions(r.queries) if r.clusters is None else r.clusters for r in parts]
    units = np.flatnonzero(np.bincount(np.concatenate(images)))
    place = np.zeros(int(units.max(initial=-1)) + 1, np.int64)
    place[units] = np.arange(len(units))
    added = [weight * part.contributions / max(len(part.queries), 1) for part in parts]
    shares = np.asarray(np.bincount(place[np.concatenate(images)], np.concatenate(added), len(units)), np.float64)
    by_image = tuple(replace(part, clusters=image) for part, image in zip(parts, images, strict=True))
    names = _unit_names(units, parts, images, collection.images.ids)
    ends = [part.possible for part in parts if part.possible]
    low, high = (weight * sum(end[side] for end in ends) for side in (0, 1))
    reach = (low, high) if len(ends) == len(parts) else None
    return Result(view, "both", measure, names, len(units) * shares, parts=by_image, possible=reach)


def _unit_names(units: IntArray, parts: Sequence[Result], image: Sequence[IntArray], images: Ids) -> Ids:
    """The ids of images, and names for texts without an image that do not collide with them."""
    names = images[units[units < len(images)]]
    if len(names) == len(units):
        return names
    lone = {
        int(unit): part.queries[int(at)]
        for part, own in zip(parts, image, strict=True)
        for at, unit in zip(np.flatnonzero(own >= len(images)), own[own >= len(images)], strict=True)
    }
    new = [f"text {lone[int(unit)]}" for unit in units[units >= len(images)]]
    return Ids([*names, *(f"{name} without image" if name in images else name for name in new)], what="image")
