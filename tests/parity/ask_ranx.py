"""Reads cases as JSON, writes ranx's answers. Runs in a process of its own, where ranx's loops need no compiling."""

from __future__ import annotations

import json
import sys

import numpy as np


def answers(case: dict) -> dict[str, list[float]]:
    """One value per query; a query's list and judgements are arrays of (candidate, score) and (candidate, grade)."""
    from ranx import evaluate

    values_per_metric: dict[str, list[list[float]]] = {name: [] for name in case["metrics"]}
    for qrels, run in zip(case["qrels"], case["run"], strict=True):
        arrays = np.array([qrels], dtype=np.float64), np.array([run], dtype=np.float64)
        values = evaluate(*arrays, case["metrics"], return_mean=False)
        for name in case["metrics"]:
            values_per_metric[name].append(float(values[name][0]))
    return values_per_metric


if __name__ == "__main__":
    json.dump([answers(case) for case in json.load(sys.stdin)], sys.stdout)
