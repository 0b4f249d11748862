"""Tunes the options of a correction on a dev split, and corrects a test split with them.

    options = tune("csls", dev_scores, pairs.dev)                   # {"k": 5}
    corrected = corrected(scores, pairs, "csls", split="test", tune="dev")

Every point of a grid is evaluated on the dev split, in both directions. Ties go to the point that comes first in the
grid, which begins with the default.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from limner.core.collection import Collection
from limner.core.errors import LimnerError, shown
from limner.core.options import OptionValues
from limner.core.paths import JsonObject
from limner.core.progress import ProgressLike, counting
from limner.evaluation.evaluate import evaluate
from limner.evaluation.measures import Measure
from limner.scores import Scores
from limner.scores.corrected import CorrectedScores, correct
from limner.scores.correction import CORRECTIONS, Correction, Grid, correction


def tune(
    method: str | type[Correction] | Correction,
    dev_scores: Scores,
    dev_collection: Collection,
    *,
    measure: str = "rsum",
    grid: Grid | None = None,
    fixed: JsonObject | None = None,
    progress: ProgressLike = None,
) -> OptionValues:
    """Finds the options of a correction that are best on a dev split.

    Args:
        method: A correction: a name or "module:class", either with fixed options in parentheses; a class, or an
            object of the class.
        dev_scores: Scores of the dev split, images by texts or reversed.
        dev_collection: The dev split.
        measure: The objective: rsum, the sum of R@1, R@5 and R@10 in both directions, or the mean of any other measure
            over both directions.
        grid: Values to try for each option; the grid of the correction by default.
        fixed: Options that are not tuned.
        progress: Called with (points of the grid done, points in total).

    Returns:
        The options, ready for `scores.correct(name, **options)`.

    >>> import limner
    >>> pairs = limner.load("scenes", images=60)
    >>> scores = limner.train(pairs, "histograms").scores(pairs.dev)
    >>> sorted(tune("nnn", scores, pairs.dev, grid={"k": [2, 4]}, measure="R@1"))
    ['k']
    """
    if isinstance(method, str):
        method, fixed = CORRECTIONS.parsed(method, fixed)
    chosen = correction(method, **(fixed or {})) if not isinstance(method, Correction) else method  # fail early
    kind, name = type(chosen), chosen.name
    tried = {option: values for option, values in (grid or kind.grid).items() if option not in (fixed or {})}
    if not tried and not fixed:
        raise LimnerError(f"{name} has no tuning grid: pass grid={{option: values}}, or add a grid to its class")
    points = list(_points(kind, tried, fixed or {}, len(dev_scores.queries)))
    results = [
        (options, _value(correct(dev_scores, kind, **options), dev_collection, measure))
        for options in counting(points, progress)
    ]
    if not results:
        raise LimnerError(f"nothing to try for {name}: expected values for each option, got the grid {tried}")
    return max(results, key=lambda result: result[1])[0]


def _points(kind: type[Correction], grid: Grid, fixed: JsonObject, queries: int) -> Iterator[OptionValues]:
    """All combinations, the defaults first; those that do not suit the number of queries are left out."""
    for values in itertools.product(*grid.values()):
        options = dict(fixed) | dict(zip(grid, values, strict=True))
        if correction(kind, **options).fits(queries):
            yield options


def _value(scores: Scores, collection: Collection, measure: str) -> float:
    """The mean over both directions, with the sign set so that higher is better."""
    parsed = Measure.parse(measure)
    report = evaluate(scores, collection, measures=[parsed], keep=0)
    every = [result for result in report.results if result.measure == parsed]
    if not every:
        raise LimnerError(f"the dev split gives no {measure}: expected a measure that both directions have")
    of_view = [result for result in every if result.view == every[0].view]  # the original pairs come first
    return sum(result.value * result.measure.kind.better for result in of_view) / len(of_view)


def corrected(
    scores: Scores,
    collection: Collection,
    method: str | type[Correction],
    *,
    split: str = "test",
    tune: str | None = "dev",
    measure: str = "rsum",
    **options: Any,
) -> CorrectedScores:
    """Corrected scores of one split, with options chosen on another.

    Args:
        scores: Scores of the whole collection (or at least of both splits), images by texts or reversed.
        collection: The collection with its splits.
        method: A correction: a name, "module:class", or a class.
        split: The split to correct; its own queries are the bank.
        tune: The split on which options are chosen; None to use the defaults.
        measure: The objective on that split.
        options: Options that are not tuned.
    """
    if tune is not None:
        if tune == split:
            raise LimnerError(f"tune and split are both {split!r}: results would be too optimistic; use a dev split")
        options = _tuned(method, *_part(scores, collection.split(tune)), measure, options)
    return correct(_part(scores, collection.split(split))[0], method, **options)


def _tuned(
    method: str | type[Correction], scores: Scores, part: Collection, measure: str, fixed: Mapping[str, object]
) -> dict[str, object]:
    return tune(method, scores, part, measure=measure, fixed=fixed)


def _part(scores: Scores, part: Collection) -> tuple[Scores, Collection]:
    """The scores of a split."""
    images, texts = part.images.ids, part.texts.ids
    if all(i in scores.queries for i in images[:1]):
        return scores.restrict(queries=images, candidates=texts), part
    if all(i in scores.queries for i in texts[:1]):
        return scores.restrict(queries=texts, candidates=images), part
    raise LimnerError(
        f"the scores contain no image and no text of {part.name}, their queries are {shown(scores.queries)}: expected "
        "scores of the whole collection"
    )
