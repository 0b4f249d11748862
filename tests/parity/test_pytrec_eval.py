"""`pytrec_eval` query by query: its kept answers everywhere, and its live ones where it can be installed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cases import Case, as_trec_eval, by_score, case, judgements, per_query
from freeze_pytrec_eval import CASES, MEASURES

from limner import Ranking, evaluate
from limner.datasets.runs import read_run

OURS = {
    "map": "MAP",
    "recip_rank": "MRR",
    "Rprec": "RP",
    "ndcg": "nDCG(linear)",
    **{f"map_cut_{k}": f"MAP@{k}" for k in (5, 10, 100)},
    **{f"P_{k}": f"P@{k}" for k in (1, 5, 10, 100)},
    **{f"recall_{k}": f"Recall@{k}" for k in (5, 10, 100)},
    **{f"success_{k}": f"R@{k}" for k in (1, 5, 10)},
    **{f"ndcg_cut_{k}": f"nDCG@{k}(linear)" for k in (5, 10, 100)},
}
KEPT = json.loads((Path(__file__).parent / "data" / "pytrec_eval.json").read_text(encoding="utf-8"))


def frozen(name: str) -> tuple[Case, dict[str, dict[str, float]]]:
    answers = KEPT[name]["answers"]
    return Case(KEPT[name]["qrels"], KEPT[name]["run"]), turned(answers)


def turned(answers: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    """{measure: {query: value}} from {query: {measure: value}}."""
    return {theirs: {q: measured[theirs] for q, measured in answers.items()} for theirs in OURS}


def agree(ranking: Ranking, of: Case, expected: dict[str, dict[str, float]]) -> None:
    actual = per_query(ranking, judgements(of), OURS)
    for theirs, values in expected.items():
        assert actual[theirs] == pytest.approx(values, abs=1e-15, rel=1e-14), theirs


def test_the_kept_cases_are_the_ones_that_would_be_drawn():
    assert set(KEPT) == set(CASES)
    assert all(len(KEPT[name]["answers"]) == len(KEPT[name]["run"]) for name in CASES)


@pytest.mark.parametrize("name", [name for name in CASES if "tie" not in name])
def test_kept_answers(name):
    of, expected = frozen(name)
    agree(by_score(of), of, expected)
    agree(as_trec_eval(of), of, expected)


@pytest.mark.parametrize("name", [name for name in CASES if "tie" in name])
def test_kept_answers_on_ties_need_trec_evals_order(name):
    """It breaks ties by id, last in the alphabet first, after rounding to float32: a documented difference."""
    of, expected = frozen(name)
    agree(as_trec_eval(of), of, expected)
    with pytest.raises(AssertionError):
        agree(by_score(of), of, expected)


def test_a_run_file_keeps_scores_apart_that_float32_cannot(tmp_path):
    of, expected = frozen("tied as float32")
    lines = [f"{q} Q0 {c} 0 {score!r} t\n" for q, scores in of.run.items() for c, score in scores.items()]
    (tmp_path / "run").write_text("".join(lines))
    loaded, exact = read_run(tmp_path / "run"), by_score(of)
    assert all(loaded[q] == exact[q] for q in of.run)
    truth = judgements(of)
    actual = evaluate(loaded, truth, measures="MAP", unretrieved="never").value("MAP")
    assert actual == evaluate(exact, truth, measures="MAP", unretrieved="never").value("MAP")
    assert actual > sum(expected["map"].values()) / len(of.run)  # its good scores were all rounded to one


@pytest.mark.parametrize("ties", ["none", "some", "float32"])
@pytest.mark.parametrize("grades", [(0, 1), (0, 1, 2, 3)])
@pytest.mark.parametrize("seed", range(20, 25))
def test_live_answers(seed, grades, ties):
    pytrec_eval = pytest.importorskip(
        "pytrec_eval", reason="pytrec_eval is not installed: pytrec-eval-terrier has wheels for x86-64 only"
    )
    of = case(seed, grades=grades, ties=ties)
    integer_qrels = {q: {c: int(grade) for c, grade in grades.items()} for q, grades in of.qrels.items()}
    answers = pytrec_eval.RelevanceEvaluator(integer_qrels, MEASURES).evaluate(of.run)
    agree(as_trec_eval(of), of, turned(answers))
