"""Evaluates all measures of a system on a collection, in both directions, with one pass over the scores for each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np

from limner.core.arrays import IntArray
from limner.core.collection import Collection
from limner.core.cut_texts import collected, cut_ids
from limner.core.errors import LimnerError
from limner.core.ids import Ids
from limner.core.judgements import Judgements
from limner.core.progress import ProgressLike, as_progress
from limner.core.ranking import Ranking
from limner.core.version import VERSION
from limner.encoders import encoder
from limner.encoders.named_models import commit_name
from limner.evaluation.evaluated_queries import clusters_of, unjudged_queries, with_cut_queries, without_missing
from limner.evaluation.inputs import Source, directions, evaluation_inputs
from limner.evaluation.label_estimates import described, estimated
from limner.evaluation.measures import DEFAULT, Measure, MeasureKind, parse
from limner.evaluation.partial_judgements import (
    MOST_CELLS,
    USUAL_CUT,
    JudgementFiles,
    combined_judgements,
    judged_measures,
    judged_pool,
    pool_notes,
    possible,
    with_judgements,
)
from limner.evaluation.placements import NEVER, Placements, RankOptions, RankRequest, place
from limner.evaluation.protocols import Folds, View, protocol_views, undefined_notes, with_defined_measures
from limner.evaluation.reports.report import Report
from limner.evaluation.results import Result, composite_results, without_interval
from limner.scores import Scores
from limner.scores.corrected import CorrectedScores, gather_first
from limner.scores.vectors import VectorScores


def evaluate(
    system: Any,
    truth: object = None,
    *,
    measures: str | Iterable[str | Measure | MeasureKind] | None = None,
    per_image: int | None = None,
    protocol: str | Iterable[str] | None = None,
    direction: str | None = None,
    groups: Mapping[str, object] | None = None,
    judgements: JudgementFiles | None = None,
    labels: object | None = None,
    mode: str = "fixed",
    name: str = "system",
    ties: str = "expected",
    unretrieved: str = "refuse",
    missing: str = "refuse",
    keep: int = 10,
    workers: int | None = None,
    progress: ProgressLike = None,
) -> Report:
    """Evaluates a system against relevance judgements.

    Args:
        system: Scores between images and texts (both directions are measured), a ranking (one direction), a mapping
            from "i2t" and "t2i" to scores or rankings, a trained model, or an encoder of images and texts. With
            judgements also a run, {query: {candidate: score}}. Or image vectors, in the order of the texts; or, without
            `truth`, a matrix of similarities, images by texts, both in order.
            Or the name of an encoder or model, such as "openai/clip-vit-base-patch32".
        truth: A collection; or judgements, for one ranking of any queries and candidates, also as
            {query: {candidate: grade}}; or, with image vectors as the system, text vectors.
        measures: Such as "R@1 R@5 MedR"; the usual ones by default, or those of the protocol. Your own measure is
            "module:kind", or a `MeasureKind` in a list.
        per_image: Texts per image, for two sets of vectors or a matrix in order; 1 by default.
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
        ties: "expected", "order" or "pessimistic"; see `limner.evaluation.placements.RankOptions`.
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
    parsed = None if measures is None else parse(measures)
    options = RankOptions(ties, unretrieved, missing, keep, workers, as_progress(progress))
    with nullcontext() if isinstance(system, VectorScores) else collected() as cut:
        further: dict[str, object] = {}
        if per_image is not None or not (isinstance(system, Scores) and isinstance(truth, (Collection, Judgements))):
            system, truth, further = _converted(system, truth, per_image)
        if isinstance(truth, Judgements):
            _refuse_with_judgements(direction=direction, protocol=protocol, judgements=judgements, labels=labels)
            report = _evaluate_run(system, truth, parsed or DEFAULT, groups, name, options)
        elif groups is not None or not isinstance(truth, Collection):
            raise LimnerError("groups with a collection: its texts are already grouped by image; leave groups out")
        else:
            evaluated = _by_direction(system, truth, direction), truth, parsed, name, options, protocol
            report = _evaluate_collection(*evaluated, judgements=judgements, labels=labels, mode=mode)
            further |= {"data": truth.origin} if truth.origin else {}
            report = replace(report, settings={**report.settings, **further}) if further else report
            report = report if cut is None else with_cut_queries(report, truth, cut_ids(truth.texts))
    return replace(report, notes=(*report.notes, *cut.notes)) if cut is not None and cut.notes else report


def _converted(system: object, truth: object, per_image: int | None) -> tuple[Any, Any, dict[str, object]]:
    """System and truth as `evaluate` works on them, and the setting that names the version of a model."""
    system = encoder(system) if isinstance(system, str) and truth is not None else system
    commit = commit_name(system)
    return *evaluation_inputs(system, truth, per_image=per_image), {} if commit is None else {"model": commit}


def _by_direction(
    system: Source | Mapping[str, Source], collection: Collection, direction: str | None
) -> dict[str, Source]:
    """The scores of each direction; scores of all images and all texts are recognised at once."""
    sides = collection.images.ids, collection.texts.ids
    if direction is None and isinstance(system, Scores) and (system.queries, system.candidates) == sides:
        images, texts = sides
        if len(images) and images[0] not in texts:
            return {"i2t": system, "t2i": system.T}
    return directions(system, collection, direction)


def _evaluate_collection(
    sources: Mapping[str, Source],
    truth: Collection,
    measures: tuple[Measure, ...] | None,
    name: str,
    options: RankOptions,
    protocol: str | Iterable[str] | None,
    *,
    judgements: JudgementFiles | None,
    labels: object | None,
    mode: str,
) -> Report:
    """Evaluates scores or rankings by direction on a collection."""
    notes: list[str] = []
    if protocol is None:
        requested = [_usual_view(judged, truth, measures or DEFAULT) for judged in truth.all_judgements]
    else:
        requested, notes = protocol_views(truth, protocol, measures)
    if judgements is not None:
        truth, further, judgement_notes = with_judgements(truth, judgements)
        requested += [replace(view, measures=measures or DEFAULT) for view in further]
        notes += judgement_notes
    if any(m.kind.judgements for view in requested for m in view.measures):
        requested = with_defined_measures(requested, truth)
    judged = {(v.name, d): _judged(v, truth, d) for v in requested for d in v.directions if d in sources}
    results, top, pass_notes = _measured(sources, requested, judged, truth, options)
    notes += [*pass_notes, *_lacking_direction(measures, sources), *_grade_notes(results, judged.values())]
    notes += without_interval(results)
    settings = _settings(options, {f"{view} {d}": j for (view, d), j in judged.items()}, sources)
    settings |= _judged_pools(requested, truth, sources)
    if labels is None:
        options.progress.step("describing the results")
        return Report(name, truth.name, tuple(results), top, settings, tuple(notes))
    options.progress.step("estimating from the labels")
    estimates, estimate_notes = estimated(labels, sources, truth, measures, mode)
    settings |= described(labels, sources, truth) if estimates else {}
    return Report(name, truth.name, tuple(results), top, settings, (*notes, *estimate_notes), estimates)


def _usual_view(name: str, collection: Collection, measures: tuple[Measure, ...]) -> View:
    """The default view of these judgements; if they are partial, it combines them with the original pairs."""
    judged = collection.all_judgements[name]
    if name == collection.judgements.name or (judged.grades > 0).all():
        return View(name, name, measures)
    return View(name, name, measures, pool=name, originals="unjudged")


def _judged(view: View, collection: Collection, direction: str) -> Judgements:
    """The judgements of a view."""
    if view.threshold is None and view.originals == "none":
        return collection.judged(view.judgements, direction)
    return combined_judgements(view, collection, direction)


def _measured(
    sources: Mapping[str, Source],
    requested: Sequence[View],
    judged: Mapping[tuple[str, str], Judgements],
    truth: Collection,
    options: RankOptions,
) -> tuple[list[Result], dict[str, Ranking], list[str]]:
    """Runs one pass per direction: the results of every view, the top candidates, and notes."""
    results: list[Result] = []
    top: dict[str, Ranking] = {}
    notes: list[str] = []
    folds = {view.folds: Folds(truth, view.folds) if view.folds else None for view in requested}
    for direction, source in sources.items():
        in_direction = [v for v in requested if direction in v.directions]
        named = [(f"{v.name} ({direction})", judged[v.name, direction]) for v in in_direction]
        ranked, relevance, query_notes = _with_same_queries(source, named, options.missing)
        requests = [
            _request(v, j, truth, ranked, direction, folds[v.folds])
            for v, j in zip(in_direction, relevance, strict=True)
        ]
        placed, best = _placed(ranked, requests, options)
        notes += [*_source_notes(source), *query_notes]
        for view, placements in zip(in_direction, placed, strict=True):
            results += _results(view, direction, placements, truth, folds[view.folds])
            notes += _outside_note(view, direction, placements)
            notes += pool_notes(view, truth, direction, ranked.candidates) if view.pool else []
        if best is not None:
            top[direction] = best
    if any(m.kind.composite for v in requested for m in v.measures):
        results += composite_results(requested, results, truth.images.ids)
    order = {view.name: number for number, view in enumerate(requested)}
    return sorted(results, key=lambda r: order[r.view]), top, notes


def _with_same_queries(
    source: Source, judged: Sequence[tuple[str, Judgements]], missing: str
) -> tuple[Source, list[Judgements], list[str]]:
    """The system and the judgements of each view on the same queries, and notes; `place` refuses missing ones."""
    if missing == "refuse":
        return source, [judgements for _, judgements in judged], []
    return without_missing(source, judged, missing)


def _placed(
    source: Source, requests: Sequence[RankRequest], options: RankOptions
) -> tuple[list[Placements], Ranking | None]:
    """One pass over the scores, whose progress tells what is ranked."""
    if isinstance(source, CorrectedScores):
        gather_first(source, options.progress)
    step_name = f"ranking {len(source.candidates):,} candidates for {len(source.queries):,} queries"
    step = options.progress.step(step_name, "queries", total=len(source.queries), main=True)
    return place(source, requests, replace(options, progress=step))


def _judged_pools(requested: Iterable[View], truth: Collection, sources: Mapping[str, Source]) -> dict[str, object]:
    """The pool size of each view that is restricted to judged candidates."""
    sizes = {
        f"{v.name} {d}": len(pool[1])
        for v in requested
        if v.pool is not None
        for d in v.directions
        if d in sources and (pool := judged_pool(v, truth, d)) and len(pool[1]) < len(sources[d].candidates)
    }
    return {"judged_pool": sizes} if sizes else {}


def _source_notes(source: Source) -> tuple[str, ...]:
    return (*source.notes, *_notes_on_cut_ties(source)) if isinstance(source, Ranking) else ()


def _notes_on_cut_ties(ranking: Ranking) -> list[str]:
    """A note on lists that end among equal scores: candidates that were cut off may be tied too."""
    if ranking.scores is None or not ranking.truncated:
        return []
    rows = np.flatnonzero(ranking.lengths > 1)
    last = ranking.lengths[rows] - 1
    tied = int((ranking.scores[rows, last] == ranking.scores[rows, last - 1]).sum())
    return [f"{tied:,} lists end among equal scores: ties count within the list alone"] if tied else []


def _refuse_with_judgements(**arguments: object) -> None:
    for name, value in arguments.items():
        if value is not None:
            raise LimnerError(f"{name} needs a Collection, but got judgements: leave it out")


def _settings(
    options: RankOptions, judged: Mapping[str, Judgements], sources: Mapping[str, Source]
) -> dict[str, object]:
    """The settings, including those that must agree to make reports comparable: judgements and pool sizes."""
    pools = {d: s.n_candidates if isinstance(s, Ranking) else s.shape[1] for d, s in sources.items()}
    truth = {name: judgements.digest for name, judgements in judged.items()}
    missing = {} if options.missing == "refuse" else {"missing": options.missing}
    ranked = {"ties": options.ties, "unretrieved": options.unretrieved, **missing}
    return {**ranked, "version": VERSION, "truth": truth, "pool": pools}


def _grade_notes(results: Iterable[Result], judged: Iterable[Judgements]) -> list[str]:
    """Notes on measures that depend on grades."""
    if not any(len(np.unique(j.relevant.grades)) > 1 for j in judged):
        return []
    notes = (r.measure.kind.on_grades(r.measure) for r in results if r.measure.kind.on_grades)
    return [note for note in dict.fromkeys(notes) if note]


def _evaluate_run(
    system: Any,
    truth: Judgements,
    measures: tuple[Measure, ...],
    groups: Mapping[str, object] | None,
    name: str,
    options: RankOptions,
) -> Report:
    """Evaluates one ranking against plain judgements, without a collection, in one direction."""
    if not isinstance(system, (Scores, Ranking)):
        raise LimnerError(
            f"got {type(system).__name__} with plain judgements: expected one Scores or Ranking; "
            "give a Collection for two directions"
        )
    ranked, (judged,), query_notes = _with_same_queries(system, [(f"{truth.name} (run)", truth)], options.missing)
    (placements,), best = _placed(ranked, [RankRequest(judged)], options)
    clusters, cluster_notes = clusters_of(placements.queries, truth, groups)
    plain = [m for m in measures if not m.kind.composite]
    plain += judged_measures(placements, plain) if placements.partly_judged else []
    results = [_result(truth.name, "run", m, placements, clusters) for m in dict.fromkeys(plain)]
    notes = [*_outside_note(View(truth.name), "run", placements), *_grade_notes(results, [truth])]
    notes += [*_source_notes(system), *query_notes, *unjudged_queries(system, truth), *cluster_notes]
    notes += undefined_notes(plain, truth.name) if any(m.kind.judgements for m in plain) else []
    notes += without_interval(results)
    settings = _settings(options, {f"{truth.name} run": truth}, {"run": system})
    return Report(name, truth.name, tuple(results), {"run": best} if best else {}, settings, tuple(notes))


def _request(
    view: View, judgements: Judgements, collection: Collection, source: Source, direction: str, folds: Folds | None
) -> RankRequest:
    """What a pass over the scores counts for a view."""
    if view.pool is None and folds is None:
        depth = depth_seen(judgements, view.measures, len(source.candidates))
        return RankRequest(judgements, outside=view.outside, depth=depth)
    sides, kinds = (source.queries, source.candidates), ("image", "text")
    kinds = kinds if direction == "i2t" else kinds[::-1]
    pool = judged_pool(view, collection, direction)
    numbers = [
        np.zeros(len(ids), np.int64) if folds is None else folds.of(ids, kind)
        for ids, kind in zip(sides, kinds, strict=True)
    ]
    if pool is not None:
        inside = [np.array([i in members for i in ids], bool) for ids, members in zip(sides, pool, strict=True)]
        if folds is None and all(each.all() for each in inside):
            depth = depth_seen(judgements, view.measures, len(source.candidates))
            return RankRequest(judgements, outside=view.outside, depth=depth)
        numbers = [np.where(is_inside, number, -1) for is_inside, number in zip(inside, numbers, strict=True)]
    return RankRequest(judgements, numbers[0], numbers[1], view.outside, depth_seen(judgements, view.measures, 0))


def depth_seen(judgements: Judgements, measures: Iterable[Measure], pool: int) -> IntArray | None:
    """The rank of every query from which on no measure depends on a candidate, but for the best relevant one.

    None if some measure depends on all ranks. A measure sees the first k, the first R, or the rank of the best relevant
    candidate; the others see all ranks. If unjudged candidates may be relevant, see `possible`, a value is decided by
    the first k, or by the first unjudged candidate, unless it depends on the number of relevant candidates; then it is
    not computed for large pools.

    Args:
        judgements: Of all queries.
        measures: The measures of a view.
        pool: Number of candidates.

    >>> from limner.evaluation.measures import parse
    >>> pairs = Judgements.from_pairs([("q", "a"), ("q", "b")])
    >>> depth_seen(pairs, parse("R@1 R@20 MedR"), 1000), depth_seen(pairs, parse("R@1 MAP"), 1000)
    (array([20]), None)
    """
    partly = bool((judgements.grades <= 0).any())
    is_large = np.count_nonzero(judgements.counts) * pool**2 > MOST_CELLS
    cut = USUAL_CUT
    for measure in (part for m in measures for part in (m.parts or (m,))):
        kind, graded = measure.kind, "min_grade" in measure.kind.options and bool(measure.option("min_grade"))
        sees_few = kind.sees == "R" or (kind.sees == "k" and measure.k is not None) or kind.rank
        counts_all = partly and kind.needs_total and not kind.judged and (graded or not is_large)
        if not sees_few or counts_all or (kind.rank and graded):
            return None
        cut = max(cut, measure.k or 0)
    return np.asarray(np.maximum(np.diff(judgements.indptr) + partly, cut))


def _results(
    view: View, direction: str, placements: Placements, collection: Collection, folds: Folds | None
) -> list[Result]:
    clusters = None if direction == "i2t" else _images_of(placements.queries, collection)
    kind = "image" if direction == "i2t" else "text"
    plain = [m for m in view.measures if not m.kind.composite]
    plain += [part for m in view.measures for part in m.parts]
    plain += judged_measures(placements, plain) if placements.partly_judged else []
    return [_result(view.name, direction, m, placements, clusters, folds, kind) for m in dict.fromkeys(plain)]


def _images_of(texts: Ids, collection: Collection) -> IntArray:
    """The image of each text; texts without one get a new number."""
    pairs = collection.judgements.T.relevant
    first = np.full(len(pairs.queries), -1, dtype=np.int64)
    first[pairs.rows[::-1]] = pairs.columns[::-1]
    images = first[pairs.queries.positions(texts)]
    alone = images < 0
    images[alone] = len(collection.images) + np.flatnonzero(alone)
    return images


def _result(
    view: str,
    direction: str,
    measure: Measure,
    placements: Placements,
    clusters: IntArray | None = None,
    folds: Folds | None = None,
    kind: str = "",
) -> Result:
    counted = measure.counted(placements)
    own_clusters = None if clusters is None else clusters[placements.queries.find(counted.queries)]
    values, pool = measure(placements), int(counted.pool.max(initial=0))
    in_folds = None if folds is None else folds.of(counted.queries, kind)
    reach = None
    if placements.partly_judged:
        reach = possible(placements, measure, values, None if folds is None else lambda ids: folds.of(ids, kind))
    return Result(
        view, direction, measure, counted.queries, values, own_clusters, in_folds, counted.left_out,
        possible=reach, pool=pool if 0 < pool < NEVER else None,
    )  # fmt: skip


def _outside_note(view: View, direction: str, placements: Placements) -> list[str]:
    if not placements.outside:
        return []
    treated = "count as never found" if view.outside == "count" else "are left out"
    return [f"{view.name} ({direction}): {placements.outside:,} relevant candidates are not in the pool and {treated}"]


def _lacking_direction(measures: Iterable[Measure] | None, sources: Mapping[str, Source]) -> list[str]:
    """A note for every requested composite measure that cannot be computed."""
    lost = [str(m) for m in measures or () if m.kind.composite and len(sources) < 2]
    return [f"{name} sums both directions, and only {' '.join(sources)} was measured: left out" for name in lost]
