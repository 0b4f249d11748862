"""MTEB results files (Muennighoff et al. 2023; Enevoldsen et al. 2025): read for leaderboards, written from reports.

A file has the means of one model on one task, but not the number of queries, which is known for MTEB's own tasks.
`hit_rate_at_k`, in older files `cv_recall_at_k`, is R@k (any relevant candidate among the first k), `recall_at_k` is
Recall@k (the share of the relevant ones), and `ndcg_at_k` has linear gain.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from limner.core.display_names import display_name
from limner.core.errors import LimnerError
from limner.core.files import write_text
from limner.core.options import OptionValues
from limner.core.paths import JsonObject, damage_told, read_json
from limner.core.version import VERSION
from limner.datasets.text_files import table
from limner.evaluation.boards.board import BoardEntry
from limner.evaluation.measures import Measure
from limner.evaluation.reports.report import Report

NAMES = {
    "cv_recall_at_{k}": "R@{k}",
    "hit_rate_at_{k}": "R@{k}",
    "recall_at_{k}": "Recall@{k}",
    "precision_at_{k}": "P@{k}",
    "map_at_{k}": "MAP@{k}",
    "mrr_at_{k}": "MRR@{k}",
    "ndcg_at_{k}": "nDCG@{k}(linear)",
}
"""MTEB's names of measures, by limner's names."""
MAIN = "main_score"
META = "model_meta.json"
_CUT = re.compile(r"(?P<name>[a-z_]+_at_)(?P<k>\d{1,9})")


def is_mteb(content: object) -> bool:
    """Whether the content of a JSON file looks like MTEB results of a task."""
    return isinstance(content, Mapping) and {"task_name", "scores"} <= set(content)


def read_mteb(path: str | Path) -> list[BoardEntry]:
    """The numbers of one results file.

    The name of the model comes from `model_meta.json` next to the file, or from the folder (`org__model`, with or
    without a subfolder for the revision).

    Args:
        path: A file such as `results/org__model/revision/MSCOCOT2IRetrieval.json`.

    Returns:
        A number for every measure; with the number of queries for tasks of MTEB's own, see `mteb_sizes`.
    """
    source = Path(path)
    content = read_json(source, what="MTEB results")
    if not is_mteb(content):
        raise LimnerError(f"{source} is not an MTEB results file: expected an object with 'task_name' and 'scores'")
    with damage_told(source, what="MTEB results file"):
        return list(_entries(content, _model(source)))


def _model(source: Path) -> str:
    meta = source.parent / META
    if meta.is_file():
        model = read_json(meta, what="MTEB model")
        if isinstance(model, Mapping) and isinstance(model.get("name"), str):
            return str(model["name"])
    folders = source.resolve().parents
    named = next((f.name for f in folders[:2] if "__" in f.name), folders[0].name)
    return named.replace("__", "/")


def _entries(content: JsonObject, model: str) -> Iterator[BoardEntry]:
    task = _text(content["task_name"])
    for split, subsets in content["scores"].items():
        for scores in subsets:
            view = _text(scores.get("hf_subset", "default"))
            numbers = {n: v for n, v in scores.items() if isinstance(v, (int, float)) and not isinstance(v, bool)}
            size = task_size(task, _text(split), view)
            view_name = task if split == "test" else f"{task} {_text(split)}"
            for name, value in _measured(numbers).items():
                shown_view = "" if view == "default" else view
                yield BoardEntry(model, view_name, shown_view, "", _measure(name), value, size.queries, size.clusters)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"got {type(value).__name__} for a name")
    return value


def _measured(scores: Mapping[str, float]) -> dict[str, float]:
    """The finite scores, with limner's names; only `main_score` if there are no others."""
    named = {
        measure: float(value)
        for name, value in scores.items()
        if (measure := _limner_name(name)) and math.isfinite(value)
    }
    main = scores.get(MAIN)
    return named or ({MAIN: float(main)} if main is not None and math.isfinite(main) else {})


def _limner_name(name: str) -> str:
    match = _CUT.fullmatch(name)
    return NAMES.get(f"{match['name']}{{k}}", "").format(k=int(match["k"])) if match and int(match["k"]) else ""


def _measure(name: str) -> Measure:
    return Measure.foreign(name, {"summary": "mean", "percent": True})


# --- writing ----------------------------------------------------------------------------------------------------


def task_results(report: Report) -> dict[str, OptionValues]:
    """Converts a report to MTEB results: the content of a file for every view and direction, by task name.

    Measures without a name in MTEB are left out. MTEB's main score for retrieval is nDCG@10 with linear gain; if the
    report does not have it, the first measure is used.

    Args:
        report: What was measured.
    """
    tasks = {}
    for view, direction, results in report.groups():
        scores = {name: r.value for r in results if (name := _mteb_name(r.measure)) and math.isfinite(r.value)}
        if not scores:
            continue
        mteb_direction = {"i2t": "I2T", "t2i": "T2I"}.get(direction, "")
        task = re.sub(
            r"[^\w.-]+", "-", f"{report.collection}{'' if view == 'pairs' else f'-{view}'}{mteb_direction}Retrieval"
        )
        main = scores.get("ndcg_at_10", next(iter(scores.values())))
        subset = {**scores, MAIN: main, "hf_subset": "default", "languages": ["eng-Latn"]}
        tasks[task] = {
            "dataset_revision": "unknown", "task_name": task, "mteb_version": f"limner {VERSION}",
            "scores": {"test": [subset]}, "evaluation_time": None, "kg_co2_emissions": None,
        }  # fmt: skip
    if not tasks:
        raise LimnerError(
            f"{report.system!r} has no measure with a name in MTEB: evaluate it with --measures "
            "'R@1 R@10 nDCG@10(linear)'"
        )
    return tasks


def _mteb_name(measure: Measure) -> str:
    """MTEB's name for a measure; "" if it has none."""
    for name, limner_name in NAMES.items():
        if measure.k is not None and limner_name.format(k=measure.k) == str(measure):
            return name.format(k=measure.k)
    return ""


def write_mteb(report: Report, folder: str | Path) -> list[Path]:
    """Writes a report as MTEB results files, `FOLDER/system/limner/TASK.json`, with `model_meta.json` next to them.

    Args:
        report: What was measured.
        folder: The target folder; created if it does not exist.

    Returns:
        The files.
    """
    results = task_results(report)
    target = Path(folder) / re.sub(r"[^\w.-]+", "__", display_name(report.system)).lstrip(".") / "limner"
    target.mkdir(parents=True, exist_ok=True)
    write_text(target / META, json.dumps({"name": display_name(report.system), "revision": "limner"}))
    for task, content in results.items():
        write_text(target / f"{task}.json", json.dumps(content, indent=2, allow_nan=False))
    return [target / f"{task}.json" for task in results]


class TaskSize(NamedTuple):
    """The number of queries, and of clusters where it is known within a tenth; None if unknown."""

    queries: int | None = None
    clusters: int | None = None


UNKNOWN_SIZE = TaskSize()


def task_size(task: str, split: str = "test", subset: str = "default") -> TaskSize:
    """The size of a subset of a task.

    >>> task_size("Flickr30kT2IRetrieval"), task_size("MyRetrieval")
    (TaskSize(queries=5000, clusters=1000), TaskSize(queries=None, clusters=None))
    """
    return _sizes().get((task, split, subset), UNKNOWN_SIZE)


@cache
def _sizes() -> dict[tuple[str, str, str], TaskSize]:
    rows = table(Path(__file__).with_name("mteb_sizes.tsv"), delimiter="\t", quoted=False)
    return {
        (row["task"], row["split"], row["subset"]): TaskSize(int(row["queries"]), int(row["clusters"] or 0) or None)
        for _, row in rows
    }
