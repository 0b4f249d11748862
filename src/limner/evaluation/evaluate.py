"""evaluate: every number of a system on a collection, in both directions, in one pass over the scores each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from limner.core.collection import Collection
from limner.core.errors import LimnerError, UnknownName, shown
from limner.core.ids import Ids, IntArray
from limner.core.judgements import Judgements
from limner.core.ranking import Ranking
from limner.core.version import VERSION
from limner.evaluation.estimated import estimated
from limner.evaluation.measures import DEFAULT, RSUM_PARTS, Measure, parse
from limner.evaluation.placements import Asked, Placements, place
from limner.evaluation.protocols import View, views
from limner.evaluation.report import ALONE, Report, Result
from limner.scores import Progress, Scores

Source = Scores | Ranking

GAIN = (
    "nDCG takes the gain 2^grade - 1, as ranx's ndcg_burges; nDCG(linear) takes the grade itself, as trec_eval and "
    "ranx's ndcg"
)


def evaluate(
    system: Source | Mapping[str, Source],
    truth: Collection | Judgements,
    *,
    measures: str | Iterable[str | Measure] | None = None,
    protocol: str | Iterable[str] | None = None,
    direction: str | None = None,
    groups: Mapping[str, object] | None = None,
    labels: object | None = None,
    mode: str = "fixed",
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
        protocol: One or several names of `limner.evaluation.protocols.PROTOCOLS`, all counted in the same pass.
        direction: What the queries of scores or a ranking are: "i2t" images, "t2i" texts. Needed only where images and
            texts share ids; otherwise the ids tell.
        groups: With plain judgements, what each query belongs with (such as its image), by query id. Intervals and
            tests then take groups, not queries, as independent. With a collection, texts go by image anyhow.
        labels: A store of answers to a designed sample (`limner.annotate.plan`): the report then has the view
            "estimated", numbers under the complete truth of the collection.
        mode: Of its intervals: "fixed", to be looked at once, or "anytime", after every answer.
        name: What the report calls the system.
        ties: "expected", "order" or "pessimistic"; see `limner.evaluation.placements.place`.
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
        _refuse_with_judgements(direction=direction, protocol=protocol, labels=labels)
        return _evaluate_run(system, truth, chosen or DEFAULT, groups, name, how)
    if groups is not None:
        raise LimnerError("groups with a collection: its texts are grouped by image already; leave groups out")
    asked, notes = views(truth, protocol=protocol, measures=chosen)
    results: list[Result] = []
    top: dict[str, Ranking] = {}
    sources = directions(system, truth, direction)
    for towards, source in sources.items():
        here = [v for v in asked if towards in v.directions]
        placed, kept = place(source, [_question(v, truth, source, towards) for v in here], **how)
        for view, placements in zip(here, placed, strict=True):
            results += _results(view, towards, placements, truth)
            notes += _outside_note(view, towards, placements)
        if kept is not None:
            top[towards] = kept
    results = _with_rsum(asked, results, truth)
    judged = {f"{v.name} {d}": truth.judged(v.judgements, d) for v in asked for d in v.directions if d in sources}
    notes += _gain_note(results, judged.values())
    found, more = estimated(labels, sources, truth, chosen, mode) if labels is not None else ((), [])
    settings = _settings(how, judged, sources)
    return Report(name, truth.name, tuple(results), top, settings, (*notes, *more), found)


def _refuse_with_judgements(**given: object) -> None:
    for what, value in given.items():
        if value is not None:
            raise LimnerError(f"{what} with plain judgements: it is for a Collection; leave it out")


def _settings(how: dict[str, Any], judged: Mapping[str, Judgements], sources: Mapping[str, Source]) -> dict[str, Any]:
    """How it was measured, and what makes reports comparable: the same truth, and pools of the same size."""
    pools = {d: s.n_candidates if isinstance(s, Ranking) else s.shape[1] for d, s in sources.items()}
    truth = {name: judgements.digest for name, judgements in judged.items()}
    return {**{k: how[k] for k in ("ties", "unretrieved")}, "version": VERSION, "truth": truth, "pool": pools}


def _gain_note(results: Iterable[Result], judged: Iterable[Judgements]) -> list[str]:
    """Which nDCG it is, where grades make a difference."""
    wanted = any(r.measure.name == "nDCG" and not r.measure.option("linear") for r in results)
    return [GAIN] if wanted and any(len(np.unique(j.relevant.grades)) > 1 for j in judged) else []


def _evaluate_run(
    system: Any,
    truth: Judgements,
    measures: tuple[Measure, ...],
    groups: Mapping[str, object] | None,
    name: str,
    how: dict[str, Any],
) -> Report:
    """One ranking against plain judgements: no images, no texts, one direction."""
    if not isinstance(system, (Scores, Ranking)):
        raise LimnerError(
            f"got {type(system).__name__} with plain judgements: expected one Scores or Ranking; "
            "give a Collection for two directions"
        )
    (placements,), kept = place(system, [Asked(truth)], **how)
    clusters = None if groups is None else _grouped(placements.queries, groups)
    results = [_result(truth.name, "run", m, placements, clusters) for m in measures if m.name != "rsum"]
    notes = [*_outside_note(View(truth.name), "run", placements), *_gain_note(results, [truth])]
    notes += [ALONE] if groups is None else []
    settings = _settings(how, {f"{truth.name} run": truth}, {"run": system})
    return Report(name, truth.name, tuple(results), {"run": kept} if kept else {}, settings, tuple(notes))


def _grouped(queries: Ids, groups: Mapping[str, object]) -> IntArray:
    lacking = [query for query in queries if query not in groups]
    if lacking:
        raise LimnerError(f"groups name no group of {len(lacking)} queries ({shown(lacking)}): give every query one")
    return np.unique([str(groups[query]) for query in queries], return_inverse=True)[1].astype(np.int64)


def directions(
    system: Source | Mapping[str, Source], collection: Collection, direction: str | None = None
) -> dict[str, Source]:
    """Which source answers which direction: as it is said, or by whose ids they are; never by a guess.

    Args:
        system: Scores (which answer both directions), a ranking (which answers one), or a mapping that says it itself.
        collection: Whose images and texts they are about.
        direction: What the queries are: "i2t" images, "t2i" texts; None to look at the ids.

    Returns:
        Sources by direction, image queries first.
    """
    if isinstance(system, Mapping):
        if direction is not None:
            raise LimnerError("direction with a mapping: a mapping says its directions itself; leave one of them out")
        unknown = set(system) - {"i2t", "t2i"}
        if unknown:
            raise LimnerError(f"directions {shown(unknown)}: expected 'i2t' (image queries) and 't2i' (text queries)")
        _refuse_swapped(system, collection)
        return {towards: system[towards] for towards in ("i2t", "t2i") if towards in system}
    if not isinstance(system, (Scores, Ranking)):
        raise LimnerError(
            f"got {type(system).__name__}: expected Scores, a Ranking, or a mapping from 'i2t' and 't2i' to them"
        )
    towards = direction_of(system, collection, direction)
    if isinstance(system, Ranking):
        return {towards: system}
    return {"i2t": system, "t2i": system.T} if towards == "i2t" else {"i2t": system.T, "t2i": system}


def _refuse_swapped(system: Mapping[str, Source], collection: Collection) -> None:
    """Refuses a mapping that calls image queries texts, or the other way round, where the ids show it."""
    sides = {"i2t": (collection.images, collection.texts), "t2i": (collection.texts, collection.images)}
    for towards, source in system.items():
        (own, other), ids = sides[towards], source.queries
        if not _all_in(ids, own.ids) and _all_in(ids, other.ids):
            raise LimnerError(
                f"{towards!r} has queries ({shown(ids, most=2)}) that are {other.kind}s of {collection.name!r}: "
                f"expected its {own.kind}s; the two directions seem to be swapped"
            )


def direction_of(system: Source, collection: Collection, direction: str | None = None) -> str:
    """What the queries of scores or a ranking are: "i2t" images, "t2i" texts; as it is said, or by their ids."""
    if direction is None:
        return _towards(system, collection)
    if direction not in ("i2t", "t2i"):
        raise UnknownName("direction", direction, ("i2t", "t2i"))
    items = collection.images if direction == "i2t" else collection.texts
    strange = [query for query in system.queries if query not in items.ids]
    if strange:
        raise LimnerError(
            f"direction {direction!r} with queries ({shown(strange, most=2)}) that are no {items.kind}s of "
            f"{collection.name!r} ({shown(items.ids, most=2)}): give scores and collection the same ids"
        )
    return direction


def _towards(system: Source, collection: Collection) -> str:
    """The only direction that the ids allow; candidates may be outside the collection only if nothing else fits."""
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
                "share ids: say which they are with direction='i2t' (images) or 't2i' (texts), or give a mapping "
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


def _question(view: View, collection: Collection, source: Source, direction: str) -> Asked:
    judgements = collection.judged(view.judgements, direction)
    if view.folds is None:
        return Asked(judgements, outside=view.outside)
    images, texts = _folds(collection, view.folds)
    queries, candidates = (images, texts) if direction == "i2t" else (texts, images)
    pools = [
        np.array([known.get(i, -1) for i in ids], dtype=np.int64)
        for known, ids in ((queries, source.queries), (candidates, source.candidates))
    ]
    return Asked(judgements, pools[0], pools[1], view.outside)


def _folds(collection: Collection, name: str) -> tuple[dict[str, int], dict[str, int]]:
    """The fold of every image and every text as numbers from 0, whatever folds are called; -1 where there is none."""
    labels = [[_fold_label(f) for f in items.field(name)] for items in (collection.images, collection.texts)]
    number = {label: n for n, label in enumerate(dict.fromkeys(f for side in labels for f in side if f is not None))}
    images, texts = (
        {i: -1 if f is None else number[f] for i, f in zip(items.ids, side, strict=True)}
        for items, side in zip((collection.images, collection.texts), labels, strict=True)
    )
    return images, texts


def _fold_label(fold: Any) -> str | None:
    """A fold's name: 1, 1.0 and "1" are one fold; None and NaN are no fold."""
    if fold is None or fold != fold:
        return None
    return str(int(fold)) if isinstance(fold, (float, np.floating)) and float(fold).is_integer() else str(fold)


def _results(view: View, direction: str, placements: Placements, collection: Collection) -> list[Result]:
    clusters = None if direction == "i2t" else _image_of(placements.queries, collection)
    folds = None
    if view.folds is not None:
        numbers = _folds(collection, view.folds)[0 if direction == "i2t" else 1]
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
    """rsum by image, with the six recalls it is the sum of; a text without an image stands for itself."""
    images = [collection.images.ids.positions(r.queries) if r.clusters is None else r.clusters for r in parts]
    units = np.unique(np.concatenate(images))
    shares = np.zeros(len(units))
    for part, image in zip(parts, images, strict=True):
        np.add.at(shares, np.searchsorted(units, image), 100 * part.contributions / max(len(image), 1))
    by_image = tuple(replace(part, clusters=image) for part, image in zip(parts, images, strict=True))
    owners = zip(np.concatenate(images), (query for part in parts for query in part.queries), strict=True)
    lone = {int(unit): query for unit, query in owners}
    names = Ids(_unit_names(units, lone, collection.images.ids), what="image")
    return Result(view, "both", measure, names, len(units) * shares, parts=by_image)


def _unit_names(units: IntArray, lone: Mapping[int, str], images: Ids) -> list[str]:
    """The ids of images, and of texts that have none: no image is called the same."""
    names = [images[int(u)] if u < len(images) else f"text {lone[int(u)]}" for u in units]
    return [f"{n} without image" if u >= len(images) and n in images else n for u, n in zip(units, names, strict=True)]
