"""Reads complete reports from JSON, with all values per query. A file is data and is never executed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from limner.core.arrays import FloatArray, IntArray
from limner.core.errors import LimnerError
from limner.core.ids import Ids
from limner.core.paths import JsonObject, damage_told, read_json
from limner.core.ranking import Ranking
from limner.evaluation.label_estimates import Estimated
from limner.evaluation.measures import Measure
from limner.evaluation.measures.kinds import UNKNOWN
from limner.evaluation.reports.report import FORMAT, Report
from limner.evaluation.results import DIRECTIONS, Result, StoredValue
from limner.stats import Interval


def read(path: str | Path) -> Report:
    """Reads a report that was saved as JSON."""
    source = Path(path)
    if not source.exists():
        raise LimnerError(f"no report {source}: create one with 'limner evaluate ... -o {source}'")
    content = read_json(source, what="report")
    if not isinstance(content, dict) or content.get("limner") != "report" or content.get("format") != FORMAT:
        raise LimnerError(
            f"{source} is not a limner report of format {FORMAT}: expected a file made by 'limner evaluate -o'"
        )
    with damage_told(source, what="limner report", mend="make it again"):
        return _sound(_from_json(content))


def _numbers(values: Iterable[float | str | None]) -> FloatArray:
    """The inverse of `json_ready` for an array of numbers."""
    return np.array([math.inf if v is None else float(v) for v in values], dtype=np.float64)


def _from_json(content: JsonObject) -> Report:
    ids = {key: Ids(values, what="query") for key, values in content["ids"].items()}
    traits = content.get("measures", {})
    pools = content["settings"].get("pool", {})
    results = [
        _result_from_json(r, ids[r["queries"]], traits.get(r["measure"], {}), pools.get(r["direction"]))
        for r in content["results"]
    ]
    results_with_parts = tuple(
        _with_parts(r, saved.get("images"), results) for r, saved in zip(results, content["results"], strict=True)
    )
    top = {d: _top_from_json(t) for d, t in content["top"].items()}
    named = content["system"], content["collection"]
    saved = content.get("estimates", ())
    estimates = tuple(Estimated.from_json(each, traits.get(each["measure"], {})) for each in saved)
    return Report(*named, results_with_parts, top, content["settings"], tuple(content["notes"]), estimates)


def _result_from_json(saved: JsonObject, queries: Ids, traits: Mapping[str, object], pool: int | None) -> Result:
    measure = Measure.foreign(saved["measure"], traits)
    result = Result(
        saved["view"],
        saved["direction"],
        measure,
        queries,
        _numbers(saved["values"]),
        _codes(saved["clusters"]),
        _codes(saved["folds"]),
        saved["left_out"],
        possible=_pair(saved.get("possible")),
        pool=saved.get("pool", pool),
    )
    return replace(result, stored=_stored_value(saved)) if measure.statistic == UNKNOWN else result


def _pair(saved: Sequence[float | str | None] | None) -> tuple[float, float] | None:
    """Two numbers, the lower one first."""
    if saved is None:
        return None
    low, high = _numbers(saved).tolist()
    return low, high


def _stored_value(saved: JsonObject) -> StoredValue:
    """The value and interval of a measure whose summary is unknown in this process."""
    value = float(_numbers([saved["value"]])[0])
    if saved.get("interval") is None:
        return StoredValue(value)
    low, high = _numbers(saved["interval"]).tolist()
    return StoredValue(value, Interval(value, low, high, 0.95, 0, "as saved", "queries", len(saved["values"])))


def _with_parts(result: Result, images: Sequence[int] | None, every: Sequence[Result]) -> Result:
    """A composite with its parts."""
    if images is None:
        return result
    parts = result.measure.parts
    members = [r for r in every if r.view == result.view and r.measure in parts and r.direction in ("i2t", "t2i")]
    return replace(
        result, parts=tuple(replace(r, clusters=_codes(images)) if r.direction == "i2t" else r for r in members)
    )


def _codes(values: Sequence[int] | None) -> IntArray | None:
    return None if values is None else np.asarray(values, dtype=np.int64)


def _top_from_json(content: JsonObject) -> Ranking:
    indices = np.asarray(content["indices"], dtype=np.int32).reshape(len(content["queries"]), -1)
    listed = content["scores"]
    scores = None if listed is None else np.array([_numbers(row) for row in listed]).reshape(indices.shape)
    return Ranking(Ids(content["queries"]), Ids(content["candidates"]), indices, scores, content["n_candidates"])


def _sound(report: Report) -> Report:
    """Checks all types and lengths of a report, because files are untrusted, and returns it."""
    words = [
        report.system,
        report.collection,
        *report.notes,
        *(w for r in report.results for w in (r.view, r.direction)),
    ]
    if not all(isinstance(word, str) for word in words) or not isinstance(report.settings, Mapping):
        raise TypeError("a name, a note or the settings have the wrong type")
    for r in report.results:
        columns = [r.values, *(each for each in (r.clusters, r.folds) if each is not None)]
        if r.direction not in DIRECTIONS or not isinstance(r.left_out, int):
            raise ValueError(f"a result of direction {r.direction!r}, {r.left_out!r} queries left out")
        if r.pool is not None and (not isinstance(r.pool, int) or r.pool < 1):
            raise ValueError(f"a result over {r.pool!r} candidates")
        if any(np.shape(column) != (len(r.queries),) for column in columns):
            shapes = ", ".join(str(np.shape(column)) for column in columns)
            raise ValueError(f"{len(r.queries)} queries with columns of {shapes}: expected one value for each query")
    return report
