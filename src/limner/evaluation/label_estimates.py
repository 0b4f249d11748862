"""Measures under complete judgements, estimated from a designed sample of labels: the view "estimated" of a report.

The labels are a store of people's answers (`limner.annotate`), which this module does not import. So they provide their
own estimator: any object with an attribute `estimator`, a function or "module:function". It is called with the object,
the sources by direction, the collection, the requested measures (None: all measures of the design) and the mode, and
returns (estimates, notes). Likewise, the attribute `comparer` computes differences of systems from their lists by
direction, and `describer` describes the labels as plain values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from limner.core.collection import Collection
from limner.core.errors import LimnerError, UnknownName
from limner.core.paths import JsonObject
from limner.core.registry import Registry
from limner.evaluation.measures import Measure
from limner.stats import Estimate

VIEW = "estimated"
_PLAIN = ("direction", "queries", "labels", "given", "outside", "left_out")
MODES = ("fixed", "anytime")
"""Intervals are valid once, when the labelling is over; or after every label, so that it may stop early."""
LabelFunction = Callable[..., Any]
"""What labels provide: an estimator, a comparer or a describer."""
ESTIMATORS: Registry[LabelFunction] = Registry("estimator", {})
"""Estimators by name; others are given as "module:function"."""


@dataclass(frozen=True)
class Estimated:
    """One measure in one direction, estimated for complete judgements.

    Args:
        direction: "i2t" or "t2i".
        measure: The estimated measure.
        estimate: The number with its interval, the mode and the design effect.
        queries: Number of queries behind the mean.
        labels: Number of human judgements used.
        given: The value with the given positives only.
        outside: Share of the measure that the design does not cover; the interval is widened by it, and the estimate is
            not a number.
        left_out: Number of queries without a given match, which do not count.
    """

    direction: str
    measure: Measure
    estimate: Estimate
    queries: int
    labels: int
    given: float
    outside: float = 0.0
    left_out: int = 0

    def __str__(self) -> str:
        show, e = self.measure.show, self.estimate
        return f"{_number(show, e)}[{show(e.low)}, {show(e.high)}]"

    def row(self) -> dict[str, object]:
        """A flat record with the columns of a report."""
        e = self.estimate
        return {"view": VIEW, "direction": self.direction, "measure": str(self.measure), "value": _or_none(e.value),
                "low": e.low, "high": e.high, "queries": self.queries, "left_out": self.left_out}  # fmt: skip

    def to_json(self) -> dict[str, object]:
        """Plain values."""
        fields = {name: getattr(self, name) for name in _PLAIN}
        return {**fields, "measure": str(self.measure), "estimate": asdict(self.estimate)}

    @classmethod
    def from_json(cls, content: JsonObject, traits: Mapping[str, object]) -> Estimated:
        """The inverse of `to_json`; the traits describe a measure that is not built in."""
        values = {**content, "measure": Measure.foreign(content["measure"], traits)}
        estimate = content["estimate"]  # JSON has no NaN: exact numbers have no design effect
        unsure = {name: float(estimate[name]) for name in ("value", "variance", "effect")}
        return cls(**{**values, "estimate": Estimate(**{**estimate, **unsure})})


@dataclass(frozen=True)
class EstimatedDifference:
    """One system minus another on one measure, estimated for complete judgements from the same labels.

    Args:
        direction: "i2t" or "t2i".
        measure: The estimated measure.
        a: Index of the first system.
        b: Index of the second.
        values: The estimates of both.
        estimate: Their difference with its interval.
        significant: Whether 0 is outside the interval, with Bonferroni's correction over all comparisons.
    """

    direction: str
    measure: Measure
    a: int
    b: int
    values: tuple[Estimated, Estimated]
    estimate: Estimate
    significant: bool

    @property
    def change_by_pairs(self) -> float:
        """The difference with the given positives only."""
        return self.values[0].given - self.values[1].given

    def __str__(self) -> str:
        show, e = self.measure.show, self.estimate
        return f"{_number(self.measure.show_change, e)}[{show(e.low)}, {show(e.high)}]"

    def row(self, systems: Sequence[str]) -> dict[str, object]:
        """A flat record with the columns of a comparison: an interval, but no test."""
        e, (one, second) = self.estimate, self.values
        return {
            "view": VIEW, "direction": self.direction, "measure": str(self.measure),
            "a": systems[self.a], "b": systems[self.b], "value_a": _or_none(one.estimate.value),
            "value_b": _or_none(second.estimate.value), "difference": _or_none(e.value), "low": e.low, "high": e.high,
            "p": None, "p_holm": None, "p_holm_table": None,
            "significant": self.significant, "test": f"{e.mode} interval from {max(one.labels, second.labels)} labels",
            "effect": None,
        }  # fmt: skip


def _number(show: Callable[[float], str], estimate: Estimate) -> str:
    """The estimate before its interval; nothing if pairs outside the design decide a part of it."""
    return "" if math.isnan(estimate.value) else f"{show(estimate.value)} "


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value


def _label_function(labels: object, role: str) -> LabelFunction:
    """A function that the labels provide."""
    provider = getattr(labels, role, None)
    if provider is None:
        raise LimnerError(
            f"labels: got {type(labels).__name__}, expected a store of answers (limner.annotate.open_store)"
        )
    function: LabelFunction = ESTIMATORS.find(provider) if isinstance(provider, str) else provider
    return function


def _known_mode(mode: str) -> str:
    if mode not in MODES:
        raise UnknownName("mode", mode, MODES)
    return mode


def estimated(
    labels: object,
    sources: Mapping[str, object],
    truth: Collection,
    measures: Sequence[Measure] | None,
    mode: str,
) -> tuple[tuple[Estimated, ...], list[str]]:
    """Estimates from the labels, with notes.

    Args:
        labels: The store of answers.
        sources: Scores or a ranking by direction.
        truth: The collection; its pairs are the given positives.
        measures: The measures; None for all measures of the design.
        mode: One of `MODES`.
    """
    estimates, notes = _label_function(labels, "estimator")(labels, sources, truth, measures, mode=_known_mode(mode))
    return tuple(estimates), list(notes)


def estimated_differences(
    labels: object, lists: Sequence[Mapping[str, object]], collection: Collection | None, mode: str
) -> tuple[EstimatedDifference, ...]:
    """The difference of every pair of systems, estimated from the labels; lists are given by direction."""
    return tuple(_label_function(labels, "comparer")(labels, lists, collection, mode=_known_mode(mode)))


def described(labels: object, directions: Iterable[str], collection: Collection) -> dict[str, object]:
    """The description of the labels for the settings of a report; empty if they have none."""
    if getattr(labels, "describer", None) is None:
        return {}
    return {"labels": _label_function(labels, "describer")(labels, directions, collection)}


def estimate_rows(estimates: Sequence[Estimated], directions: Mapping[str, str]) -> tuple[tuple[str, ...], ...]:
    """A table with measures as rows and directions as columns; each value has its interval and the given value."""
    measured = [d for d in directions if any(e.direction == d for e in estimates)]
    labels = {d: max(e.labels for e in estimates if e.direction == d) for d in measured}
    rows = [(VIEW, *(f"{directions[d]} ({labels[d]:,} labels)" for d in measured))]
    for measure in dict.fromkeys(e.measure for e in estimates):
        by = {e.direction: e for e in estimates if e.measure == measure}
        cells = (f"{by[d]} (given: {measure.show(by[d].given)})" if d in by else "" for d in measured)
        rows.append((str(measure), *cells))
    return tuple(rows)
