"""Notes on estimates: what they rest on, what they leave out, and how well a judge agrees with people."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from limner.annotate.reliability import JudgeQuality, judge_quality
from limner.annotate.sample import Sample
from limner.annotate.store.designs import LEVEL
from limner.core.errors import count
from limner.evaluation.label_estimates import Estimated
from limner.stats import Estimate


def over_all(counted: Estimate, left: Estimate, sizes: tuple[int, int]) -> tuple[float, float]:
    """The range of a measure over all queries that have a match, from two means that hold together.

    With the sum H of the values of the queries without a given match, at least H of these and at most all of them have
    a match, because no value is above 1.

    Args:
        counted: The mean over the queries with a given match.
        left: The mean over the others.
        sizes: The number of both.
    """
    n_counted, n_left = sizes
    low = (n_counted * counted.low + n_left * left.low) / (n_counted + n_left)
    return low, (n_counted * counted.high + n_left * left.high) / (n_counted + n_left * left.high)


def left_out_note(
    sample: Sample,
    sizes: tuple[int, int],
    with_match: int | None = None,
    k: int = 1,
    ranges: Sequence[str] = (),
    level: float = 0.95,
) -> list[str]:
    """What is known of the queries without a given match.

    Args:
        sample: The sample.
        sizes: The number of queries with a given match, and of those without.
        with_match: How many of the latter have a match at least; None if nothing is known.
        k: The ranks down to which their pairs are drawn.
        ranges: Each measure with its range over all queries that have a match.
        level: The probability that all of this holds, for one measure.
    """
    number, direction = sizes[1], sample.design.direction
    if not number:
        return []
    if with_match is None and sample.design.unit == LEVEL:
        words = "none of their pairs is drawn, so how many of them have a match is unknown"
    elif with_match is None:
        words = "none of their pairs is judged yet, so how many of them have a match is unknown"
    else:
        place = "as the first result" if k == 1 else f"in the first {k} results"
        words = (
            f"at least {with_match:,} of them have a match {place}, so at most {number - with_match:,} have no match "
            f"at all; over all queries that have one, {', '.join(ranges)} ({100 * level:g}% confidence)"
        )
    return [
        f"estimated ({direction}): {number:,} of {sum(sizes):,} queries have no given match and are left out, as in "
        f"the view pairs; {words}"
    ]


def notes_of(sample: Sample, estimated: Sequence[Estimated], mode: str) -> list[str]:
    """What the estimates of a direction rest on."""
    design, head = sample.design, f"estimated ({sample.design.direction})"
    validity = "valid for one look" if mode == "fixed" else "valid after every answer"
    effects = [e.estimate.effect for e in estimated if np.isfinite(e.estimate.effect)]
    effect = f", design effect {np.mean(effects):.2f}" if effects else ""
    notes = [
        f"{head}: complete truth of this collection for the {_queries(estimated)} with a given match, from "
        f"{count(sample.labels, 'label')}, {mode} intervals ({validity}){effect}; given pairs count as true"
    ]
    if design.unit == LEVEL and any(e.estimate.low < e.estimate.high for e in estimated):
        notes.append(
            f"{head}: intervals of measures that need all matches are approximate: 95% ones held the truth in "
            "90 to 100% of simulated studies, least where the last level has few matches"
        )
    if sample.open:
        waiting = count(sample.open, f"drawn {design.unit} waits", f"drawn {design.unit}s wait")
        notes.append(f"{head}: {waiting} for answers; only units drawn before them count")
    notes += [
        f"{head}: {e.outside:.1%} of {e.measure} is decided by pairs outside the design (a system that was not planned "
        "for): what they are is unknown, so there is an interval that is wider by that, and no point"
        for e in estimated
        if e.outside
    ]
    quality = judged(sample)
    return notes + ([] if quality is None else [str(quality)])


def _queries(estimated: Sequence[Estimated]) -> str:
    return count(max((e.queries for e in estimated), default=0), "query", "queries")


def judged(sample: Sample) -> JudgeQuality | None:
    """How well the judge agrees with people on the labelled units; None without a judge or labels."""
    design = sample.design
    name, units = design.settings.get("judge"), [design.units[n] for n in sample.units]
    scores = [unit.score for unit in units if unit.score is not None]
    if name is None or not units or len(scores) < len(units):
        return None
    people = [any(sample.said.get(p) for p in unit.pairs(design.direction)) for unit in units]
    return judge_quality(str(name), design.direction, scores, people)
