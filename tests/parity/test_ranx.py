"""`ranx` query by query, on random judgements and runs: binary, graded and fractional grades, cuts and levels."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from cases import Case, by_score, case, judgements, per_query

if find_spec("ranx") is None:  # not imported here, which takes two seconds in every process that collects this file
    pytest.skip("the package ranx is not installed", allow_module_level=True)

OURS = {
    "mrr": "MRR",
    "mrr@5": "MRR@5",
    "map": "MAP",
    "map@5": "MAP@5",
    "map@200": "MAP@200",
    "r-precision": "RP",
    "ndcg_burges": "nDCG",
    "ndcg_burges@5": "nDCG@5",
    "ndcg": "nDCG(linear)",
    "ndcg@10": "nDCG@10(linear)",
    **{f"hit_rate@{k}": f"R@{k}" for k in (1, 5, 10)},
    **{f"precision@{k}": f"P@{k}" for k in (1, 5, 100)},
    **{f"recall@{k}": f"Recall@{k}" for k in (1, 5, 100)},
}
LEVEL_2 = {
    "map-l2": "MAP(min_grade=2)",
    "map@5-l2": "MAP@5(min_grade=2)",
    "mrr-l2": "MRR(min_grade=2)",
    "hit_rate@5-l2": "R@5(min_grade=2)",
    "recall@5-l2": "Recall@5(min_grade=2)",
}
CASES = {
    "binary": (case(0), OURS),
    "graded": (case(1, grades=(0, 1, 2, 3)), OURS),
    "fractions": (case(2, grades=(0, 1, 1.25, 2.5)), OURS),  # ranx drops grades below 1
    "deep": (case(3, grades=(0, 0, 0, 1, 4), queries=3, pool=400), OURS),
    "from grade 2": (case(4, grades=(0, 1, 2, 3)), LEVEL_2),
}


@pytest.fixture(scope="module")
def answers() -> dict[str, dict[str, dict[str, float]]]:
    """{case: {metric: {query: value}}}, from one process in which numba compiles nothing."""
    script = Path(__file__).with_name("ask_ranx.py")
    request = json.dumps([as_arrays(of, list(metrics)) for of, metrics in CASES.values()])
    settings = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run([sys.executable, str(script)], input=request, capture_output=True, text=True, env=settings)
    assert done.returncode == 0, done.stderr
    return {
        name: {metric: dict(zip(of.run, values, strict=True)) for metric, values in measured.items()}
        for (name, (of, _)), measured in zip(CASES.items(), json.loads(done.stdout), strict=True)
    }


def as_arrays(of: Case, metrics: list[str]) -> dict:
    """What ranx takes from arrays: numbers for ids, best first; judgements without zeros, highest grade first."""
    documents = {c for scores in (*of.qrels.values(), *of.run.values()) for c in scores}
    number = {name: n for n, name in enumerate(documents)}
    ordered = [
        [sorted(((number[c], x) for c, x in values.items()), key=lambda pair: -pair[1]) for values in by_query.values()]
        for by_query in (of.qrels, of.run)
    ]
    return {"metrics": metrics, "qrels": [[p for p in row if p[1] > 0] for row in ordered[0]], "run": ordered[1]}


@pytest.mark.parametrize("name", CASES)
def test_every_metric(answers, name):
    of, metrics = CASES[name]
    actual = per_query(by_score(of), judgements(of), metrics)
    for theirs in metrics:
        assert actual[theirs] == pytest.approx(answers[name][theirs], abs=1e-15, rel=1e-14), theirs
