"""The range of a number whose pairs are judged in part, beside all ways to judge the others."""

import itertools

import numpy as np
import pytest

from limner import Judgements, Ranking, Scores, evaluate

BINARY = (
    "R@1 R@3 S@2 P@2 P@4 Recall@2 MRR MRR@2 MedR MedR(floor) MeanR MAP MAP@2 MAP@3(capped) mAP@R RP PMRP PMRP(cap=2)"
)
GRADED = "nDCG@3 nDCG nDCG@2(linear) RP(graded) Recall@2(graded) P@2(graded) R@2(graded) R@2(min_grade=2) PMRP(graded)"


def case(seed, *, levels=(1.0,), ties=False):
    """Scores of a few queries, the grades of some pairs, and the pairs that nobody judged."""
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(1, 4)), int(rng.integers(2, 6))
    matrix = rng.integers(0, 3, (n, m)).astype(float) if ties else rng.permutation(n * m).reshape(n, m) * 1.0
    grades = rng.choice([0.0, *levels], (n, m))
    if rng.random() < 0.5:
        grades[int(rng.integers(n))] = 0.0
    cells = [divmod(int(cell), m) for cell in rng.permutation(n * m)]
    n_unjudged = int(rng.integers(1, min(6, n * m)))
    grades[cells[-1]] = 0.0  # one pair is judged wrong, which says that the others are unjudged
    return matrix, {cell: grades[cell] for cell in cells[n_unjudged:]}, cells[:n_unjudged]


def judgements(pairs, shape):
    ids = [[f"{side}{i}" for i in range(size)] for side, size in zip("qc", shape, strict=True)]
    return Judgements.from_pairs(
        [(ids[0][q], ids[1][c], grade) for (q, c), grade in pairs.items()], queries=ids[0], candidates=ids[1]
    )


def enumerated(source, pairs, unjudged, measures, shape, grades, **options):
    """The values of every measure under all ways to judge the others; those of no query are left out."""
    values = {}
    for judged in itertools.product((0.0, *grades), repeat=len(unjudged)):
        completed = judgements({**pairs, **dict(zip(unjudged, judged, strict=True))}, shape)
        for result in evaluate(source, completed, measures=measures, **options).results:
            if len(result.queries):
                values.setdefault(str(result.measure), []).append(result.value)
    return values


def check(source, pairs, unjudged, measures, shape, grades=(1.0,), *, tight=(), **options):
    """The number of ranges that were checked; a pair judged wrong says that the others are unjudged."""
    report = evaluate(source, judgements(pairs, shape), measures=measures, **options)
    every = enumerated(source, pairs, unjudged, measures, shape, grades, **options)
    checked = 0
    for result in report.results:
        if result.measure.kind.judged or str(result.measure) not in every:
            continue
        values, (low, high) = every[str(result.measure)], result.possible
        assert low <= min(values) + 1e-9 and max(values) <= high + 1e-9, str(result.measure)
        if str(result.measure) in tight:
            assert (low, high) == pytest.approx((min(values), max(values))), str(result.measure)
        checked += 1
    return checked


def scores_of(matrix):
    return Scores.from_matrix(matrix, *([f"{s}{i}" for i in range(k)] for s, k in zip("qc", matrix.shape, strict=True)))


CASES = range(16)


@pytest.mark.parametrize("seed", CASES)
def test_no_judgement_of_the_others_leaves_the_range_and_its_ends_are_reached(seed):
    matrix, pairs, unjudged = case(seed)
    measures = BINARY + " nDCG@3 nDCG"
    assert check(scores_of(matrix), pairs, unjudged, measures, matrix.shape, tight=measures.split())


@pytest.mark.parametrize("seed", CASES)
@pytest.mark.parametrize("ties", ["expected", "order", "pessimistic"])
def test_nor_with_ties(ties, seed):
    matrix, pairs, unjudged = case(seed, ties=True)
    assert check(scores_of(matrix), pairs, unjudged, BINARY, matrix.shape, ties=ties)


@pytest.mark.parametrize("seed", CASES)
def test_nor_with_grades(seed):
    matrix, pairs, unjudged = case(seed, levels=(1.0, 3.0))
    levels = sorted({grade for grade in pairs.values() if grade > 0}) or [1.0]
    still_unjudged = unjudged[:4]
    pairs |= dict.fromkeys(unjudged[4:], 0.0)
    assert check(scores_of(matrix), pairs, still_unjudged, GRADED, matrix.shape, levels, tight=["R@2(graded)"])


@pytest.mark.parametrize("seed", CASES)
@pytest.mark.parametrize("pool", [True, False])
def test_nor_in_lists_that_leave_out_candidates(pool, seed):
    """Lists of two, complete or with the rest never found."""
    matrix, pairs, unjudged = case(seed)
    order = np.argsort(-matrix, axis=1)[:, :2]
    lists = {f"q{q}": [f"c{c}" for c in row] for q, row in enumerate(order)}
    candidates = [f"c{c}" for c in range(matrix.shape[1])]
    run = Ranking.from_lists(lists, candidates=candidates if pool else None)
    measures = "R@1 R@2 P@2 MRR@2 MRR MeanR MedR" + (" RP MAP Recall@2" if pool else "")
    assert check(run, pairs, unjudged, "R@1 R@2 P@2 MRR@2", matrix.shape)
    assert check(run, pairs, unjudged, measures, matrix.shape, unretrieved="never")


def orders(row):
    """All rankings of candidates with these scores."""
    blocks = [np.flatnonzero(row == score) for score in sorted(set(row), reverse=True)]
    for parts in itertools.product(*(itertools.permutations(block) for block in blocks)):
        yield [int(c) for part in parts for c in part]


def of_one_query(matrix, grades, measures, **options):
    """The report of one query with these grades, once for every row of scores."""
    pairs = {(q, c): grade for q in range(len(matrix)) for c, grade in grades.items()}
    return evaluate(scores_of(matrix), judgements(pairs, matrix.shape), measures=measures, **options).results


@pytest.mark.parametrize("seed", range(30))
def test_pessimistic_is_the_worst_order_of_ties_for_every_number_and_for_the_upper_end(seed):
    rng = np.random.default_rng(seed)
    row = rng.integers(0, 3, 5).astype(float)
    grades = dict(enumerate(rng.choice([0.0, 1.0, 3.0], 5)))
    grades |= {0: 0.0, 1: 1.0}
    for c in rng.permutation(np.arange(2, 5))[:2]:
        del grades[int(c)]
    strict = np.array([-1.0 * np.argsort(order) for order in orders(row)])
    best = max(grades.values())
    right = dict.fromkeys(range(5), best) | grades
    measures = f"{BINARY} {GRADED} Judged@1 Judged@2 Judged@3"
    pessimistic = of_one_query(row[None], grades, measures, ties="pessimistic")
    every = of_one_query(strict, grades, measures)
    every_right = {str(r.measure): r for r in of_one_query(strict, right, measures)}
    for result, strict_result in zip(pessimistic, every, strict=True):
        assert str(result.measure) == str(strict_result.measure)
        sign = result.measure.kind.better
        if len(result.values):
            assert result.values == pytest.approx(sign * (sign * strict_result.values).min()), str(result.measure)
        all_right = every_right.get(str(result.measure))
        if result.measure.name in ("R", "S", "P", "MRR", "MedR", "MeanR") and len(all_right.values):
            end = sign * (sign * all_right.values).min()
            assert result.possible[0 if sign < 0 else 1] == pytest.approx(end), str(result.measure)
