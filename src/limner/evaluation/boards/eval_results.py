"""Evaluation results of the Hugging Face hub: a number of a report in a file `.eval_results/*.yaml` of a model.

The hub joins them to the leaderboard of a benchmark by the name of its data set and its task, which a report does not
have: they are named when the file is written.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from limner.core.errors import LimnerError, UnknownName
from limner.core.extras import needed
from limner.core.files import write_text
from limner.core.paths import damage_told, place_for, read_text
from limner.core.version import VERSION
from limner.evaluation.reports.report import Report
from limner.evaluation.results import Result

SOURCE = {"url": "https://pypi.org/project/limner", "name": f"limner {VERSION}"}


def write_eval_result(
    report: Report, path: str | Path, *, dataset: str, task: str, measure: str, view: str | None = None
) -> Path:
    """Writes one number into a file of results; an entry of the same data set and task is replaced, others stay.

    Args:
        report: What was measured.
        path: The file, such as `.eval_results/flickr30k.yaml`.
        dataset: Name of the benchmark's data set on the hub, OWNER/NAME.
        task: Name of its task.
        measure: Direction and measure, such as "t2i R@1".
        view: The judgements, such as "pairs"; those of the first result by default.
    """
    yaml = needed("yaml", what="evaluation results of the hub")
    owner, slash, name = dataset.partition("/")
    if not (owner and slash and name) or "/" in name:
        raise LimnerError(f"data set {dataset!r}: expected its name on the hub, OWNER/NAME")
    target = place_for(path)
    entries = _entries(yaml, target) if target.is_file() else []
    key = {"id": dataset, "task_id": task}
    unchanged = [each for each in entries if {name: each["dataset"].get(name) for name in key} != key]
    entry = {"dataset": key, **_value(_chosen(report, measure, view)), "source": SOURCE}
    write_text(target, yaml.safe_dump([*unchanged, entry], sort_keys=False, allow_unicode=True))
    return target


def _chosen(report: Report, measure: str, view: str | None) -> Result:
    results = [result for result in report.results if view in (None, result.view)]
    by_name = {f"{result.direction} {result.measure}": result for result in reversed(results)}
    if measure not in by_name:
        raise UnknownName("measure of the report", measure, by_name)
    return by_name[measure]


def _value(result: Result) -> dict[str, Any]:
    ends = result.interval
    interval = "" if ends is None else f", 95% interval {ends.low:.4g} to {ends.high:.4g}"
    notes = f"{result.view} {result.direction} {result.measure}, {len(result.queries)} queries{interval}"
    return {"value": float(result.value), "notes": notes}


def _entries(yaml: Any, target: Path) -> list[dict[str, Any]]:
    with damage_told(target, what="file of evaluation results"):
        entries = yaml.safe_load(read_text(target, what="evaluation results")) or []
    if not isinstance(entries, list) or not all(
        isinstance(each, dict) and isinstance(each.get("dataset"), dict) for each in entries
    ):
        raise LimnerError(f"{target}: expected a list of results, each with a dataset and a value")
    return entries
