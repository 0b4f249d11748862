"""Measures under complete judgements, estimated from labels sampled by design; the view "estimated" of a report.

The labels bring their estimator: any object with an attribute `estimator`, a function or "module:function". It is
called with the object, the sources by direction, the collection, the requested measures (None: all measures of the
design) and the mode, and returns (estimates, notes).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from limner.core.collection import Collection
from limner.core.errors import LimnerError, UnknownName
from limner.core.registry import Registry
from limner.evaluation.measures import Measure
from limner.stats import Estimate

VIEW = "estimated"
MODES = ("fixed", "anytime")
ESTIMATORS: Registry[Callable[..., Any]] = Registry("estimator", {})
"""Estimators by name; others are found as "module:function"."""


@dataclass(frozen=True)
class Estimated:
    """One measure in one direction, estimated for complete judgements.

    Args:
        direction: "i2t" or "t2i".
        measure: What is estimated.
        estimate: The number with its interval, the mode and the design effect.
        queries: Queries it is a mean over.
        labels: Number of human judgements used.
        given: The value with the given positives only.
        outside: Share of the measure that the design does not cover; the interval is widened by it.
    """

    direction: str
    measure: Measure
    estimate: Estimate
    queries: int
    labels: int
    given: float
    outside: float = 0.0

    def __str__(self) -> str:
        show, e = self.measure.show, self.estimate
        return f"{show(e.value)} [{show(e.low)}, {show(e.high)}]"

    def row(self) -> dict[str, Any]:
        """As in the flat form of a report."""
        e = self.estimate
        return {"view": VIEW, "direction": self.direction, "measure": str(self.measure), "value": e.value,
                "low": e.low, "high": e.high, "queries": self.queries, "left_out": 0}  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        kept = {name: getattr(self, name) for name in ("direction", "queries", "labels", "given", "outside")}
        return {**kept, "measure": str(self.measure), "estimate": asdict(self.estimate)}

    @classmethod
    def from_json(cls, content: Mapping[str, Any], traits: Mapping[str, Any]) -> Estimated:
        """What `to_json` wrote; the traits are of a measure that is not limner's own."""
        values = {**content, "measure": Measure.foreign(content["measure"], traits)}
        return cls(**{**values, "estimate": Estimate(**content["estimate"])})


def estimated(
    labels: Any,
    sources: Mapping[str, Any],
    truth: Collection,
    measures: Sequence[Measure] | None,
    mode: str,
) -> tuple[tuple[Estimated, ...], list[str]]:
    """Estimates from the labels, with notes."""
    if mode not in MODES:
        raise UnknownName("mode", mode, MODES)
    how = getattr(labels, "estimator", None)
    if how is None:
        raise LimnerError(
            f"labels: got {type(labels).__name__}, expected a store of answers (limner.annotate.open_store)"
        )
    estimate = ESTIMATORS.find(how) if isinstance(how, str) else how
    found, notes = estimate(labels, sources, truth, measures, mode=mode)
    return tuple(found), list(notes)


def estimate_rows(found: Sequence[Estimated], directions: Mapping[str, str]) -> tuple[tuple[str, ...], ...]:
    """A table: measures down, directions across, each value with its interval and the given value."""
    there = [d for d in directions if any(e.direction == d for e in found)]
    labels = {d: max(e.labels for e in found if e.direction == d) for d in there}
    rows = [(VIEW, *(f"{directions[d]} ({labels[d]:,} labels)" for d in there))]
    for measure in dict.fromkeys(e.measure for e in found):
        by = {e.direction: e for e in found if e.measure == measure}
        cells = (f"{by[d]} (given: {measure.show(by[d].given)})" if d in by else "" for d in there)
        rows.append((str(measure), *cells))
    return tuple(rows)
