"""The numbers of queries of MTEB's image-text retrieval tasks, and of clusters of queries that share a document.

Results of MTEB contain means alone. The table is written by `tools/mteb_sizes.py` from the statistics that the package
mteb has of its tasks.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

from limner.datasets.text_files import table


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
    rows = table(Path(__file__).with_suffix(".tsv"), delimiter="\t", quoted=False)
    return {
        (row["task"], row["split"], row["subset"]): TaskSize(int(row["queries"]), int(row["clusters"] or 0) or None)
        for _, row in rows
    }
