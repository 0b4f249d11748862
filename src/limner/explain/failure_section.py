"""Failures for the report page: selected by class, with boxes and explanations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from limner.evaluation.reports.page.gallery import Case, Failures, Marked
from limner.explain.concept_agreement import HIGHER, ConceptAgreement
from limner.explain.concepts import Concepts
from limner.explain.failure_classes import NONE, rates, rules
from limner.explain.failures import Explanations, Failure, describe_failure


def shown_failures(done: Explanations, labels: Mapping[str, frozenset[str]], *, each: int = 4) -> Failures:
    """The failures section of the page: `report.save("report.html", collection=..., failures=shown_failures(...))`.

    Args:
        done: The explained failures.
        labels: The classes of each query, automatic or from people.
        each: How many failures of each class to show.
    """
    about = f"{len(done):,} queries whose first answer is not relevant, with the content of both images compared."
    return Failures(
        about,
        [(name, f"{count:,}", f"{share:.1%}") for name, (count, share) in rates(labels).items()],
        [_score(name, row) for name, row in done.summary.items()],
        [str(rule) for rule in rules(labels.values())[:8]],
        [_case(failure, agreement, done.concepts, labels) for failure, agreement in _chosen(done, labels, each)],
    )


def _score(name: str, row: Mapping[str, float]) -> tuple[str, ...]:
    if math.isnan(row["mean"]):
        return name, "–", "–", "higher" if name in HIGHER else "lower", f"{int(row['undefined']):,}"
    span = "–" if math.isnan(row["low"]) else f"{row['low']:.3f} to {row['high']:.3f}"
    better = "higher" if name in HIGHER else "lower"
    return name, f"{row['mean']:.3f}", span, better, f"{int(row['undefined']):,}"


def _chosen(
    done: Explanations, labels: Mapping[str, frozenset[str]], each: int
) -> list[tuple[Failure, ConceptAgreement]]:
    """The first failures of each class."""
    counts: dict[str, int] = {}
    chosen = []
    for failure, agreement in zip(done.failures, done.agreements, strict=True):
        names = labels.get(failure.query) or frozenset({NONE})
        if any(counts.get(name, 0) < each for name in names):
            chosen.append((failure, agreement))
            counts.update({name: counts.get(name, 0) + 1 for name in names})
    return chosen


def _case(
    failure: Failure,
    agreement: ConceptAgreement,
    concepts: Mapping[str, Concepts],
    labels: Mapping[str, frozenset[str]],
) -> Case:
    common = frozenset(agreement.common)
    boxes = [_boxes(concepts[image], common) for image in (failure.truth, failure.returned)]
    names = tuple(sorted(labels.get(failure.query) or {NONE}))
    words = describe_failure(failure, agreement).split("\n")[2:]
    return Case(failure.query, failure.text, names, failure.truth, failure.returned, (boxes[0], boxes[1]), words)


def _boxes(image: Concepts, common: frozenset[str]) -> Sequence[Marked]:
    return [
        Marked(item.concept.partition(".")[0].replace("_", " "), item.box, item.concept in common)
        for item in image.things
        if item.box is not None and item.area
    ]
