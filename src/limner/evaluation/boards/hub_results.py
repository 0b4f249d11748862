"""Results of a report in the files of a model on the hub: its model card, and `.eval_results/*.yaml`.

The hub joins a file of results to the leaderboard of a benchmark by the name of its data set and its task, which a
report does not have: they are named when the file is written.
"""

from __future__ import annotations

import math
from pathlib import Path
from types import ModuleType
from typing import Any

from limner.core.display_names import display_name
from limner.core.errors import LimnerError, UnknownName
from limner.core.extras import needed
from limner.core.files import write_text
from limner.core.options import OptionValues
from limner.core.paths import damage_told, place_for, read_text
from limner.core.version import VERSION
from limner.evaluation.boards.board import BoardEntry
from limner.evaluation.measures import Measure
from limner.evaluation.reports.report import Report
from limner.evaluation.results import DIRECTIONS, Result

TASKS = {"i2t": "image-to-text-retrieval", "t2i": "text-to-image-retrieval", "both": "image-text-retrieval"}
"""Task types by direction; the hub joins results of the same task type and data set."""


def write_model_card(report: Report, path: str | Path, *, model: str | None = None) -> Path:
    """Adds the results of a report to the metadata of a model card; creates the card if there is none.

    Shares are written as numbers from 0 to 1, with the interval and the number of queries as arguments of the metric.
    Results of the same collection that limner wrote before are replaced; all others stay.

    Args:
        report: What was measured.
        path: The card, usually README.md.
        model: Name of the model in the metadata; by default the one that the card has, or the name of the system.
    """
    hub, target, name = _hub(), place_for(path), model or display_name(report.system)
    card = _card(hub, target) if target.is_file() else hub.ModelCard(f"---\n{{}}\n---\n\n# {name}\n")
    unreplaced = [each for each in card.data.eval_results or [] if not _replaced(each, report)]
    card.data.eval_results = [*unreplaced, *(_result(hub, report, result) for result in report.results)]
    card.data.model_name = model or card.data.get("model_name") or name
    write_text(target, str(card))
    return target


def read_model_card(path: str | Path) -> list[BoardEntry]:
    """The evaluation results in the metadata of a model card.

    Args:
        path: The card: a Markdown file with metadata at its head.

    Returns:
        An entry for every number; those above 1 are percent.
    """
    source = Path(path)
    if not source.is_file():
        raise LimnerError(f"no model card {source}: expected a Markdown file with metadata at its head")
    hub = _hub()
    card = _card(hub, source)
    with damage_told(source, what="model card with evaluation results"):
        entries = list(card.data.eval_results or [])
        name = str(card.data.get("model_name") or source.resolve().parent.name)
        return [_entry(each, name) for each in entries if _is_number(each.metric_value)]


def _hub() -> ModuleType:
    return needed("huggingface_hub", what="a model card")


def _card(hub: ModuleType, source: Path) -> Any:
    with damage_told(source, what="model card with valid metadata"):
        return hub.ModelCard(read_text(source, what="model card"))


def _replaced(result: Any, report: Report) -> bool:
    return bool(result.source_name == "limner" and result.dataset_name == report.collection)


def _result(hub: ModuleType, report: Report, result: Result) -> Any:
    ends = result.interval
    arguments = {"queries": len(result.queries)} | (
        {} if ends is None else {"low": float(ends.low), "high": float(ends.high)}
    )
    return hub.EvalResult(
        task_type=TASKS.get(result.direction, "retrieval"),
        task_name=DIRECTIONS.get(result.direction, result.direction),
        dataset_type=report.collection,
        dataset_name=report.collection,
        dataset_config=result.view,
        metric_type=str(result.measure),
        metric_name=f"{result.direction} {result.measure}",
        metric_value=float(result.value),
        metric_args=arguments,
        source_name="limner",
        source_url="https://pypi.org/project/limner",
    )


def _entry(result: Any, model: str) -> BoardEntry:
    value = float(result.metric_value)
    measure = Measure.foreign(str(result.metric_type), {"summary": "mean", "percent": True})
    share = value / 100 if value > 1 and measure.kind.percent else value
    args = result.metric_args if isinstance(result.metric_args, dict) else {}
    queries = args.get("queries")
    direction = next((name for name, task in TASKS.items() if task == result.task_type), "")
    n_queries = queries if isinstance(queries, int) and not isinstance(queries, bool) and queries > 0 else None
    return BoardEntry(
        model, str(result.dataset_name), str(result.dataset_config or ""), direction, measure, share, queries=n_queries
    )


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


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


def _value(result: Result) -> OptionValues:
    ends = result.interval
    interval = "" if ends is None else f", 95% interval {ends.low:.4g} to {ends.high:.4g}"
    notes = f"{result.view} {result.direction} {result.measure}, {len(result.queries)} queries{interval}"
    return {"value": float(result.value), "notes": notes}


def _entries(yaml: ModuleType, target: Path) -> list[OptionValues]:
    with damage_told(target, what="file of evaluation results"):
        entries = yaml.safe_load(read_text(target, what="evaluation results")) or []
    if not isinstance(entries, list) or not all(
        isinstance(each, dict) and isinstance(each.get("dataset"), dict) for each in entries
    ):
        raise LimnerError(f"{target}: expected a list of results, each with a dataset and a value")
    return entries
