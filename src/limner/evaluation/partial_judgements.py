"""Partial judgements: extra judgements for a collection, the pool they cover, and the ranks that matter.

An unjudged answer is not a wrong answer. Judgements with grade 0 ("judged and not relevant") show which pairs were
judged. If not all pairs were, measures can only be bounded; see `limner.evaluation.unjudged_ranges`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from limner.core.collection import Collection
from limner.core.errors import LimnerError, shown
from limner.core.ids import Ids
from limner.core.judgements import Judgements
from limner.datasets.trec import read_qrels
from limner.evaluation.measures import Measure, bounds
from limner.evaluation.placements import Placements
from limner.evaluation.protocols import View

JudgementFiles = Judgements | Mapping[str, Judgements] | str | Path

USUAL_CUT = 10
"""The cut-off for the share of judged answers if no measure has one."""


# --- extra judgements for a collection -----------------------------------------------------------------------------


def with_judgements(collection: Collection, further: JudgementFiles) -> tuple[Collection, list[View], list[str]]:
    """Adds judgements to a collection; returns the collection, the new views, and notes.

    Original pairs that were not judged still count as relevant.

    Args:
        collection: The collection.
        further: Judgements (image -> text, or text -> image), several judgements by name, or a qrels file.
    """
    extra, notes = dict(collection.extra), []
    views = []
    for name, judgements in _named(further).items():
        key = name if name not in collection.all_judgements else f"{name} (given)"
        extra[key], lost = _inside(collection, judgements)
        views.append(View(key, key, originals="unjudged"))
        if lost:
            notes.append(f"{key}: {lost:,} judged pairs are not in {collection.name!r} and are left out")
    return replace(collection, extra=extra), views, notes


def read_judgements(files: Iterable[str | Path]) -> dict[str, Judgements]:
    """The judgements of several qrels files, by file name."""
    return {name: judgements for file in files for name, judgements in _named(file).items()}


def _named(judgements: JudgementFiles) -> dict[str, Judgements]:
    if isinstance(judgements, Mapping):
        return dict(judgements)
    if isinstance(judgements, Judgements):
        return {"judged" if judgements.name == "pairs" else judgements.name: judgements}
    name = Path(judgements).name.split(".")[0]
    return {name: read_qrels(judgements, name=name)}


def _inside(collection: Collection, judgements: Judgements) -> tuple[Judgements, int]:
    """The judgements between images and texts of a collection, as image -> text, and the number of others."""
    sides = collection.images.ids, collection.texts.ids
    orientations = [j.restrict(queries=sides[0], candidates=sides[1]) for j in (judgements, judgements.T)]
    straight, turned = (len(j.grades) for j in orientations)
    if bool(straight) == bool(turned):
        why = "match images and texts in both directions" if straight else "cover none of its images and texts"
        raise LimnerError(
            f"the judgements {judgements.name!r} (queries {shown(judgements.queries, most=2)}, candidates "
            f"{shown(judgements.candidates, most=2)}) {why}: expected ids of {collection.name!r} (images "
            f"{shown(sides[0], most=2)}, texts {shown(sides[1], most=2)})"
        )
    chosen = orientations[0] if straight else orientations[1]
    return chosen, len(judgements.grades) - len(chosen.grades)


# --- judgements and candidate pool of a view -------------------------------------------------------------


def combined_judgements(view: View, collection: Collection, direction: str) -> Judgements:
    """The judgements of a view, with the original pairs if the view includes them."""
    judged = collection.judged(view.judgements, direction)
    if view.threshold is not None and view.judgements in collection.ratings:
        rated = collection.ratings[view.judgements].at_least(view.threshold)
        judged = rated if direction == "i2t" else rated.T
    if view.originals == "none":
        return judged
    pairs = collection.judged(collection.judgements.name, direction).relevant
    if view.originals == "unjudged":
        pairs = _unjudged_pairs(pairs, judged)
    return (judged | pairs).with_name(judged.name)


def _unjudged_pairs(pairs: Judgements, judged: Judgements) -> Judgements:
    """The pairs that are not in the judgements."""
    same_pairs = judged.restrict(queries=pairs.queries, candidates=pairs.candidates)
    width = max(len(pairs.candidates), 1)
    fresh = ~np.isin(pairs.rows * width + pairs.columns, same_pairs.rows * width + same_pairs.columns)
    return replace(pairs, rows=pairs.rows[fresh], columns=pairs.columns[fresh], grades=pairs.grades[fresh])


def judged_pool(view: View, collection: Collection, direction: str) -> tuple[set[str], set[str]] | None:
    """Queries and candidates of the judged pool; None if the view uses the whole pool."""
    if view.pool is None:
        return None
    judged = collection.judged(view.pool, direction)
    return set(judged.queries[np.unique(judged.rows)]), set(judged.candidates[np.unique(judged.columns)])


def pool_notes(view: View, collection: Collection, direction: str, candidates: Ids) -> list[str]:
    """Notes on views with a restricted pool, and on which original pairs count."""
    pool = judged_pool(view, collection, direction)
    notes = []
    if pool is not None and len(pool[1]) < len(candidates):
        notes.append(
            f"{view.name} ({direction}): measured among the {len(pool[1]):,} of {len(candidates):,} candidates that "
            "were judged; not comparable with views of the whole pool"
        )
    return notes


def judged_measures(placements: Placements, measures: Sequence[Measure]) -> list[Measure]:
    """Judged@k for every cut-off k of the measures, or for 10 if there is none.

    Cut-offs beyond the end of a list are left out.
    """
    has_judged = any(m.kind.judged for m in measures)
    cuts = sorted({m.k for m in measures if m.k is not None and not m.kind.judged}) or (
        [] if has_judged else [USUAL_CUT]
    )
    return [measure for measure in (Measure("Judged", k) for k in cuts) if _is_certain(placements, measure)]


def _is_certain(placements: Placements, measure: Measure) -> bool:
    low, high = bounds(placements, measure)
    return low is high or bool(np.array_equal(low, high))
