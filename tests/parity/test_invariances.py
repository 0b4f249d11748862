"""One table over every measure: what must not change a value, and what must be the best and the worst of values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from limner import Judgements, Measure, Ranking, Report, Scores, evaluate
from limner.evaluation.measures import MEASURES as KINDS
from limner.evaluation.placements import TIES

MEASURES = [
    "R@1", "R@5", "R@5(graded)", "S@1", "S@5", "Recall@5", "Recall@5(graded)", "P@1", "P@5", "P@5(graded)",
    "MedR", "MedR(floor)", "MeanR", "MRR", "MRR@5", "nDCG", "nDCG@5", "nDCG@5(linear)", "MAP", "MAP@5",
    "mAP@R", "RP", "RP(graded)", "PMRP", "PMRP(cap=2)", "MAP(min_grade=1)",
]  # fmt: skip
QUERIES, CANDIDATES = 25, 40


@dataclass(frozen=True)
class Problem:
    """Whole-number scores, so that every transform below keeps order and ties alike."""

    scores: np.ndarray
    grades: np.ndarray

    @property
    def judgements(self) -> Judgements:
        rows, columns = np.nonzero(self.grades)
        pairs = zip(rows, columns, self.grades[rows, columns], strict=True)
        return Judgements.from_pairs(pairs, queries=range(QUERIES), candidates=range(CANDIDATES))

    def values(self, measure: str, scores: np.ndarray | None = None, **options: str) -> np.ndarray:
        matrix = Scores.from_matrix(self.scores if scores is None else scores, range(QUERIES), range(CANDIDATES))
        return of(evaluate(matrix, self.judgements, measures=measure, keep=0, workers=1, **options))


def of(report: Report) -> np.ndarray:
    """Values in the order of query numbers, with the one number behind them."""
    (result,) = report.results
    return np.array([*result.values[np.argsort([int(q) for q in result.queries])], result.value])


@pytest.fixture(scope="module")
def problem() -> Problem:
    rng = np.random.default_rng(7)
    grades = rng.choice([0.0, 0.5, 1.0], (QUERIES, CANDIDATES), p=[0.9, 0.05, 0.05])
    grades[np.arange(QUERIES), rng.integers(0, CANDIDATES, QUERIES)] = 1.0
    return Problem(rng.integers(-12, 13, grades.shape).astype(np.float64), grades)


def test_every_kind_of_measure_is_here():
    assert {Measure.parse(m).name for m in MEASURES} == set(KINDS) - {"rsum", "Judged"}


@pytest.mark.parametrize("measure", MEASURES)
def test_the_order_of_candidates_does_not_matter(problem, measure):
    order = np.random.default_rng(0).permutation(CANDIDATES)
    shuffled = Scores.from_matrix(problem.scores[:, order], range(QUERIES), order)
    assert of(evaluate(shuffled, problem.judgements, measures=measure)) == pytest.approx(
        problem.values(measure), abs=1e-12
    )


@pytest.mark.parametrize("measure", MEASURES)
def test_the_order_of_queries_does_not_matter(problem, measure):
    order = np.random.default_rng(1).permutation(QUERIES)
    shuffled = Scores.from_matrix(problem.scores[order], order, range(CANDIDATES))
    assert of(evaluate(shuffled, problem.judgements, measures=measure)) == pytest.approx(
        problem.values(measure), abs=1e-12
    )


TRANSFORMS = {
    "times and plus": lambda s: 3 * s + 7,
    "below zero": lambda s: s - 1000,
    "cube": lambda s: s**3,
    "exponential": np.exp,
    "ranks": lambda s: np.searchsorted(np.unique(s), s).astype(np.float64),
    "float32": lambda s: s.astype(np.float32),
    "whole numbers": lambda s: s.astype(np.int64),
    "each query its own": lambda s: s * np.arange(1, QUERIES + 1)[:, None],
}


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_only_the_order_of_scores_matters(problem, measure, transform):
    """Peers zero recall, precision, MRR and MAP where scores are not positive."""
    changed = TRANSFORMS[transform](problem.scores)
    assert problem.values(measure, changed).tolist() == problem.values(measure).tolist()


@pytest.mark.parametrize("measure", MEASURES)
def test_the_perfect_ranking_is_best_and_its_reverse_is_worst(problem, measure):
    better = Measure.parse(measure).kind.better
    best, worst = (better * problem.values(measure, scores) for scores in (problem.grades, -problem.grades))
    rng = np.random.default_rng(2)
    for _ in range(20):
        drawn = better * problem.values(measure, rng.standard_normal(problem.scores.shape))
        assert (drawn <= best + 1e-12).all() and (drawn >= worst - 1e-12).all()
    assert (worst < best)[:-1].any()


def expected_best(measure: str, grades: np.ndarray) -> float:
    """The value of the perfect ranking, where it is not 1."""
    at = Measure.parse(measure)
    graded = "graded" in measure
    worth = np.sort(grades if graded else (grades > 0).astype(float))[::-1]
    if at.name in ("P", "Recall"):
        return worth[: at.k].sum() / (at.k if at.name == "P" else worth.sum())
    return min(at.k / (grades > 0).sum(), 1.0) if at.name == "MAP" and at.k else 1.0


@pytest.mark.parametrize("measure", MEASURES)
def test_the_value_of_the_perfect_ranking(problem, measure):
    """1 for shares that can reach 1, rank 1; what the cut allows for the others. Ties among equals cost nothing."""
    actual = problem.values(measure, problem.grades)[:-1]
    counted = (problem.grades >= 1).any(axis=1) if "min_grade" in measure else np.ones(QUERIES, dtype=bool)
    expected = [expected_best(measure, grades) for grades in problem.grades[counted]]
    assert actual == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("measure", MEASURES)
def test_scores_and_the_ranking_of_them_agree(problem, measure):
    """With every rule of ties; lists without scores are those with ties in candidate order."""
    ranking = Scores.from_matrix(problem.scores, range(QUERIES), range(CANDIDATES)).ranking()
    for ties in TIES:
        by_scores = problem.values(measure, ties=ties)
        assert of(evaluate(ranking, problem.judgements, measures=measure, ties=ties)).tolist() == by_scores.tolist()
    in_order = problem.values(measure, ties="order")
    as_lists = Ranking.from_lists({q: ranking[q] for q in ranking.queries}, candidates=range(CANDIDATES))
    assert of(evaluate(as_lists, problem.judgements, measures=measure)).tolist() == in_order.tolist()


@pytest.fixture(scope="module")
def drawn(problem) -> list[Report]:
    """The same scores with ties broken at random, many times."""
    rng = np.random.default_rng(3)
    broken = (problem.scores + 0.4 * rng.random(problem.scores.shape) for _ in range(300))
    matrices = (Scores.from_matrix(scores, range(QUERIES), range(CANDIDATES)) for scores in broken)
    return [evaluate(scores, problem.judgements, measures=MEASURES, keep=0, workers=1) for scores in matrices]


@pytest.mark.parametrize("measure", MEASURES)
def test_ties_give_the_mean_over_random_orders(problem, drawn, measure):
    values = np.array([report.find(measure).values for report in drawn])
    spread = values.std(axis=0) / np.sqrt(len(values))
    assert (np.abs(values.mean(axis=0) - problem.values(measure)[:-1]) <= 5 * spread + 1e-9).all()
