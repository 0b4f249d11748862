"""Asks `pytrec_eval` for its values on the cases below and writes them to `data/pytrec_eval.json`.

Its wheels exist for x86-64 only, so its answers are kept, and the tests compare limner with them everywhere:

    python freeze_pytrec_eval.py --cases      # writes the cases; needs limner, not pytrec_eval
    python freeze_pytrec_eval.py              # adds the answers; needs pytrec-eval-terrier, not limner
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

TARGET = Path(__file__).parent / "data" / "pytrec_eval.json"
CASES = {
    "binary": {"seed": 0},
    "graded": {"seed": 1, "grades": (0, 1, 2, 3)},
    "deep": {"seed": 2, "grades": (0, 0, 0, 1, 4), "queries": 3, "pool": 400},
    "some ties": {"seed": 3, "grades": (0, 1, 2), "ties": "some"},
    "all tied": {"seed": 4, "grades": (0, 1), "ties": "all"},
    "tied as float32": {"seed": 5, "grades": (0, 1, 2), "ties": "float32"},
}
MEASURES = {
    "map", "map_cut.5,10,100", "recip_rank", "Rprec", "P.1,5,10,100", "recall.5,10,100", "success.1,5,10",
    "ndcg", "ndcg_cut.5,10,100", "num_rel", "num_rel_ret",
}  # fmt: skip


def write_cases() -> None:
    from cases import case

    drawn = {name: case(**options) for name, options in CASES.items()}
    content = {name: {"qrels": integer_grades(of.qrels), "run": of.run} for name, of in drawn.items()}
    TARGET.write_text(json.dumps(content, separators=(",", ":")) + "\n", encoding="utf-8")


def integer_grades(qrels: dict[str, dict[str, float]]) -> dict[str, dict[str, int]]:
    return {q: {c: int(grade) for c, grade in grades.items()} for q, grades in qrels.items()}


def add_answers() -> None:
    import pytrec_eval

    content = json.loads(TARGET.read_text(encoding="utf-8"))
    for of in content.values():
        of["answers"] = pytrec_eval.RelevanceEvaluator(of["qrels"], MEASURES).evaluate(of["run"])
    TARGET.write_text(json.dumps(content, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write_cases() if "--cases" in sys.argv else add_answers()
