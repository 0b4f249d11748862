"""Random runs and judgements in the plain form that peers take, and limner's answers on the same."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from limner import Judgements, Ranking, evaluate

Qrels = dict[str, dict[str, float]]
Run = dict[str, dict[str, float]]


@dataclass(frozen=True)
class Case:
    """Judgements and a run: {query id: {candidate id: grade or score}}."""

    qrels: Qrels
    run: Run


def case(
    seed: int, *, grades: tuple[float, ...] = (0, 1), queries: int = 12, pool: int = 60, ties: str = "none"
) -> Case:
    """Lists of different lengths; some positives are not retrieved, some retrieved are not judged.

    Args:
        seed: For the random generator.
        grades: Grades to draw from; every query gets at least one above 0.
        queries: How many queries.
        pool: How many candidates there are.
        ties: "none", "some" (rounded scores), "all" (one score), or "float32" (scores that differ only as float64).
    """
    rng = np.random.default_rng(seed)
    names = [f"d{c}" for c in rng.permutation(pool)]
    qrels, run = {}, {}
    for q in range(queries):
        judged = rng.choice(names, int(rng.integers(2, pool // 2)), replace=False)
        drawn = rng.choice(grades, len(judged))
        drawn[0] = max(grades)
        retrieved = rng.choice(names, int(rng.integers(1, pool)), replace=False)
        scores = rng.standard_normal(len(retrieved)) + 2.0 * np.isin(retrieved, judged[drawn > 0])
        qrels[f"q{q}"] = dict(zip(judged.tolist(), drawn.tolist(), strict=True))
        run[f"q{q}"] = dict(zip(retrieved.tolist(), tied(scores, ties).tolist(), strict=True))
    return Case(qrels, run)


def tied(scores: np.ndarray, kind: str) -> np.ndarray:
    return {
        "none": lambda: scores,
        "some": lambda: np.round(scores),
        "all": lambda: np.zeros(len(scores)),
        "float32": lambda: 1.0 + 1e-9 * np.argsort(np.argsort(scores)),
    }[kind]()


def judgements(of: Case) -> Judgements:
    return Judgements.from_pairs([(q, c, grade) for q, grades in of.qrels.items() for c, grade in grades.items()])


def by_score(of: Case) -> Ranking:
    """Highest score first, equal scores in the order of the run."""
    return Ranking.from_lists({q: sorted(scores, key=lambda c: -scores[c]) for q, scores in of.run.items()})


def as_trec_eval(of: Case) -> Ranking:
    """The order of trec_eval: scores as float32, equal ones by candidate id, the last in the alphabet first."""
    return Ranking.from_lists(
        {q: sorted(sorted(scores, reverse=True), key=lambda c: -np.float32(scores[c])) for q, scores in of.run.items()}
    )


def per_query(ranking: Ranking, truth: Judgements, measures: dict[str, str]) -> dict[str, dict[str, float]]:
    """{peer's name: {query id: value}}; what a list does not hold is never found, as in all run-file tools."""
    report = evaluate(ranking, truth, measures=list(measures.values()), unretrieved="never")
    values = {str(r.measure): dict(zip(r.queries, r.values.tolist(), strict=True)) for r in report.results}
    return {theirs: values[ours] for theirs, ours in measures.items()}
