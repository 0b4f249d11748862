"""Two results on the same queries: alignment by id, tests, and effect sizes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from limner import stats
from limner.core.arrays import IntArray
from limner.core.errors import LimnerError, shown
from limner.evaluation.results import Result
from limner.stats import PairedTest


def paired(first: Result, other: Result) -> Result:
    """The result of another system in the order of the first; refuses different queries, groups or folds."""
    lone = set(first.queries) ^ set(other.queries)
    if lone:
        raise LimnerError(
            f"{' '.join(first.key)}: {len(lone)} queries are in only one report ({shown(sorted(lone))}): evaluate all "
            "systems on the same collection"
        )
    found = other.reordered(first.queries)
    for what, one, two in (("grouped", first.clusters, found.clusters), ("in folds", first.folds, found.folds)):
        if (one is None) != (two is None):
            raise LimnerError(f"{' '.join(first.key)}: queries are {what} in one report and not in the other")
        if one is not None and two is not None and not np.array_equal(_numbered(one), _numbered(two)):
            raise LimnerError(
                f"{' '.join(first.key)}: queries are {what} in different ways: evaluate all systems with the "
                f"same settings"
            )
    parts = {part.key: part for part in other.parts}
    return replace(found, parts=tuple(paired(part, parts[part.key]) for part in first.parts if part.key in parts))


def _numbered(codes: IntArray) -> IntArray:
    """Groups as integers, numbered in order of appearance."""
    _, first, group = np.unique(codes, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[group].astype(np.int64)


def comparable(a: Result, b: Result) -> bool:
    """Whether both have a finite value per query."""
    summed_up = a.kept is None and b.kept is None
    return bool(summed_up and len(a.values) and np.isfinite(a.values).all() and np.isfinite(b.values).all())


def paired_test(a: Result, b: Result, *, test: str = "auto", samples: int = 100_000, seed: int = 0) -> PairedTest:
    """Tests two results on the same queries, as `compare` does: clustered by image if captions share one."""
    binary = bool(np.isin([a.values, b.values], (0.0, 1.0)).all())
    if test == "auto":
        test = "mcnemar" if binary and a.clusters is None else "randomisation"
    named = {"mcnemar": stats.mcnemar, "sign": stats.sign_test, "wilcoxon": stats.wilcoxon}
    if test in named and (binary or test != "mcnemar"):
        return named[test](a.values, b.values, clusters=a.clusters)
    how: dict[str, Any] = {"clusters": a.clusters, "seed": seed}
    if a.statistic != "mean":
        return stats.randomisation_of(a.summarise, a.values, b.values, samples=min(samples, 2_000), **how)
    return stats.randomisation(a.contributions, b.contributions, samples=samples, **how)


def effect_size(a: Result, b: Result) -> float:
    """Cohen's d of the paired differences; 0 if nothing differs."""
    difference = a.values - b.values
    spread = float(np.std(difference, ddof=1)) if len(difference) > 1 else 0.0
    return float(difference.mean() / spread) if spread > 0 else 0.0
