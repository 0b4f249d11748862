"""Writes the numbers of queries and clusters of MTEB's image-text retrieval tasks, from mteb's statistics of its tasks.

    python tools/mteb_sizes.py .venv/mteb

Queries that share a relevant document, such as five captions of one image, are one cluster. The statistics have the
numbers of queries, of relevant documents and of relevant pairs: clusters are at least queries + documents - pairs (the
components of a graph), and at most the smaller of the two sides. The least number is written where both are close.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

TABLE = Path(__file__).resolve().parents[1] / "src/limner/evaluation/boards/mteb_sizes.tsv"
HEAD = ("task", "split", "subset", "queries", "clusters")
MODALITIES = ("audio", "video")
CLOSE = 0.9


def rows(package: Path) -> list[tuple[str, ...]]:
    """The rows of the table, sorted.

    Args:
        package: The folder in which mteb is installed.
    """
    files = (package / "mteb/descriptive_stats/Image").rglob("*.json")
    return sorted(row for file in files for row in _task_rows(file.stem, json.loads(file.read_text())))


def _task_rows(task: str, content: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for split, statistics in content.items():
        subsets = statistics.get("hf_subset_descriptive_stats") or {"default": statistics}
        for subset, each in subsets.items():
            if sizes := _sizes(each):
                yield (task, split, subset, *sizes)


def _sizes(statistics: Mapping[str, Any]) -> tuple[str, str] | None:
    """Queries and clusters; None if it is no retrieval between images and texts."""
    relevant = statistics.get("relevant_docs_statistics")
    has_audio = any(statistics.get(f"{side}_{m}_statistics") for side in ("documents", "queries") for m in MODALITIES)
    images = any(statistics.get(f"{side}_image_statistics") for side in ("documents", "queries"))
    if not relevant or has_audio or not images:
        return None
    pairs, documents = relevant["num_relevant_docs"], relevant["unique_relevant_docs"]
    queries = round(pairs / relevant["average_relevant_docs_per_query"])
    lower_bound, upper_bound = queries + documents - pairs, min(queries, documents)
    return str(queries), str(lower_bound) if lower_bound >= CLOSE * upper_bound else ""


def main() -> None:
    """Writes the table."""
    lines = ["\t".join(row) + "\n" for row in (HEAD, *rows(Path(sys.argv[1])))]
    TABLE.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
