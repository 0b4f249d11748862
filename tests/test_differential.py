"""Standing differential tests: everything that evaluates and compares, against slow oracles, on odd small worlds.

Scores are tied and minus infinite; images and texts share ids; texts have no image, images no text; grades vary; folds
are of any size, name and emptiness; lists are cut off; queries go in clusters. The long form is the same with many more
examples: `pytest -m long tests/test_differential.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

import oracles
from limner import Collection, Items, Judgements, LimnerError, Ranking, Scores, compare, evaluate
from limner.core.errors import TooShort
from limner.evaluation.measures import MEASURES as KINDS
from limner.evaluation.measures import parse
from limner.evaluation.protocols import PROTOCOLS

MEASURES = parse(
    "R@1 R@5 R@10 S@2 Recall@2 P@3 MedR MedR(floor) MeanR MRR MRR@2 nDCG nDCG@2 nDCG@3(linear) MAP MAP@2 mAP@R RP PMRP "
    "R@2(graded) P@2(graded) Recall@2(graded) RP(graded) PMRP(cap=2, graded) R@1(min_grade=1) R@2(graded, min_grade=1) "
    "MAP(min_grade=1) MeanR(min_grade=1) RP(graded, min_grade=0.75) S@1(min_grade=0.75) rsum"
)
LOW = [-math.inf, -1.0, 0.0, 1.0]
JUDGED = ("cxc", "eccv", "expert", "crowd")
standing, thorough = settings(max_examples=20), settings(max_examples=1000)


@dataclass(frozen=True)
class World:
    """Plain lists: what an evaluation is about, before limner sees any of it."""

    images: list[str]
    texts: list[str]
    judged: dict[str, list[tuple[str, str, float]]]
    folds: dict[str, list[object]]
    scores: np.ndarray

    @property
    def collection(self) -> Collection:
        fields = {side: {"fold": self.folds[side]} for side in ("image", "text")}
        judged = {name: Judgements.from_pairs(pairs, name=name) for name, pairs in self.judged.items()}
        return Collection(
            "odd",
            Items(self.images, [None] * len(self.images), fields["image"]),
            Items(self.texts, [""] * len(self.texts), fields["text"], "text"),
            judged["pairs"],
            extra={name: judged[name] for name in JUDGED},
            reverse={"eccv": Judgements.from_pairs(self.back("eccv"))},
        )

    def back(self, name: str) -> list[tuple[str, str, float]]:
        """Judgements from texts to images; those of ECCV Caption were made apart, so they need not be the same."""
        turned = [(text, image, grade) for image, text, grade in self.judged[name] if text != "elsewhere"]
        if name != "eccv":
            return turned
        grades = {(t, i): g for t, i, g in [*turned[1:], (self.texts[-1], self.images[0], 1.0)]}
        return [(t, i, g) for (t, i), g in grades.items()]

    @property
    def system(self) -> Scores:
        return Scores.from_matrix(self.scores, self.images, self.texts)


@st.composite
def worlds(draw, *, candidates: int = 4) -> World:
    n, m = draw(st.integers(1, 3)), draw(st.integers(1, candidates))
    shared = draw(st.booleans())
    images, texts = ([f"{'' if shared else kind}{k}" for k in range(size)] for kind, size in (("i", n), ("t", m)))
    grade = st.sampled_from([0.0, 0.5, 1.0, 1.0])
    judged = {}
    for name in ("pairs", *JUDGED):
        pair = st.tuples(st.sampled_from(images), st.sampled_from([*texts, "elsewhere"] if name == "eccv" else texts))
        some = draw(st.dictionaries(pair, grade, min_size=1, max_size=6))
        judged[name] = [(image, text, g) for (image, text), g in some.items()]
    label = st.sampled_from([7, 8, "8", "last", None, math.nan])
    folds = {side: draw(st.lists(label, min_size=k, max_size=k)) for side, k in (("image", n), ("text", m))}
    cells = draw(st.lists(st.sampled_from(LOW), min_size=n * m, max_size=n * m))
    return World(images, texts, judged, folds, np.array(cells).reshape(n, m))


# --- what limner should say -------------------------------------------------------------------------------------


def named(fold: object) -> str | None:
    return None if fold is None or fold != fold else str(fold)


@dataclass(frozen=True)
class Query:
    """One query with its pool: scores and grades of the candidates, and grades of positives that are not there."""

    id: str
    fold: str | None
    scores: list[float]
    grades: list[float]
    lost: list[float]

    @property
    def best(self) -> float:
        return max([*self.grades, *self.lost], default=0.0)


def queries(world: World, view, direction: str) -> list[Query]:
    """Every query of a view in one direction, by looking at every candidate."""
    sides = (world.images, world.texts, world.scores), (world.texts, world.images, world.scores.T)
    ids, pool, matrix = sides[0] if direction == "i2t" else sides[1]
    of = ("image", "text") if direction == "i2t" else ("text", "image")
    folds, pool_folds = ([named(f) for f in world.folds[side]] for side in of)
    grades = judged_pairs(world, view.judgements, direction)
    if view.originals == "all":
        originals = {pair: g for pair, g in judged_pairs(world, "pairs", direction).items() if g > 0}
        grades = {pair: max(grades.get(pair, 0.0), originals.get(pair, 0.0)) for pair in grades | originals}
    looked_at = judged_pairs(world, view.pool, direction) if view.pool else None
    parsed = []
    for row, query in enumerate(ids):
        inside = range(len(pool))
        if looked_at is not None:
            judged_queries, answers = {q for q, _ in looked_at}, {c for _, c in looked_at}
            inside = [c for c in inside if query in judged_queries and pool[c] in answers]
        if view.folds is not None:
            inside = [c for c in inside if folds[row] is not None and pool_folds[c] == folds[row]]
        pool_names = {pool[c] for c in inside}
        lost = (
            [g for (q, c), g in grades.items() if q == query and c not in pool_names] if view.outside == "count" else []
        )
        fold = folds[row] if view.folds is not None else None
        values = [float(matrix[row, c]) for c in inside], [grades.get((query, pool[c]), 0.0) for c in inside]
        parsed.append(Query(query, fold, *values, lost))
    return parsed


def judged_pairs(world: World, name: str, direction: str) -> dict[tuple[str, str], float]:
    """The grade of every judged pair, query first."""
    judged = world.back(name) if direction == "t2i" else world.judged[name]
    return {(a, b): g for a, b, g in judged}


def summary(measure, per_query: dict[str, float], all_queries: list[Query]) -> float:
    folds = {q.id: q.fold for q in all_queries}
    groups = [
        [v for q, v in per_query.items() if folds[q] == fold] for fold in dict.fromkeys(map(folds.get, per_query))
    ]
    if not groups:
        return math.nan
    if measure.name != "MedR":
        return float(np.mean([np.mean(g) for g in groups]))
    floor = "floor" in dict(measure.options)
    return float(np.mean([np.floor(np.median(g) - 1) + 1 if floor else np.median(g) for g in groups]))


def expected_values(world: World, view, direction: str, ties: str) -> dict[str, tuple[float, dict[str, float]]]:
    all_queries = queries(world, view, direction)
    expected = {}
    for measure in MEASURES[:-1]:
        min_grade = dict(measure.options).get("min_grade", 0)
        counted = [q for q in all_queries if q.best > 0 and q.best >= min_grade]
        values = {q.id: oracles.TIES[ties](measure, q.scores, q.grades, q.lost) for q in counted}
        expected[str(measure)] = summary(measure, values, all_queries), values
    return expected


def check_evaluation(world: World, ties: str) -> None:
    """Every view of every protocol, both directions, every measure, query by query."""
    report = evaluate(
        world.system,
        world.collection,
        protocol=list(PROTOCOLS),
        measures=[m for m in MEASURES if m.name != "PMRP"],
        ties=ties,
        direction="i2t",
        workers=1,
    )
    results = {r.key: r for r in report.results}
    for view in (view for protocol in PROTOCOLS.values() for view in protocol.views):
        sums = []
        for direction in view.directions:
            for name, (value, values) in expected_values(world, view, direction, ties).items():
                if name.startswith("PMRP"):
                    continue  # no protocol has plausible matches; plain judgements are below
                result = results[view.name, direction, name]
                assert dict(zip(result.queries, result.values, strict=True)) == pytest.approx(values, abs=1e-9), result
                assert result.value == pytest.approx(value, abs=1e-9, nan_ok=True), result
                sums += [value] if name in ("R@1", "R@5", "R@10") else []
                assert_interval(result)
        if len(view.directions) == 2:
            rsum = results[view.name, "both", "rsum"]
            assert rsum.value == pytest.approx(100 * sum(sums), abs=1e-7, nan_ok=True)
            if not math.isnan(rsum.value):
                assert rsum.values.mean() == pytest.approx(rsum.value)
                assert_interval(rsum)


def assert_interval(result) -> None:
    """It holds its value, and is no point unless it is of a median."""
    interval = result.interval
    if interval is not None:
        assert interval.low - 1e-9 <= result.value <= interval.high + 1e-9, result
        assert interval.low < interval.high or result.measure.name == "MedR", result


def test_every_kind_and_every_protocol_is_tested():
    assert {m.name for m in MEASURES} == set(KINDS) - {"Judged"}  # tests/test_judged.py
    assert {v.judgements for p in PROTOCOLS.values() for v in p.views} <= {"pairs", *JUDGED}


ties_and_worlds = st.tuples(worlds(), st.sampled_from(list(oracles.TIES)))


@given(ties_and_worlds)
@standing
def test_evaluation(case):
    check_evaluation(*case)


@pytest.mark.long
@given(ties_and_worlds)
@thorough
def test_evaluation_long(case):
    check_evaluation(*case)


# --- lists that are cut off -------------------------------------------------------------------------------------


@st.composite
def cut_lists(draw) -> tuple[list[float], int, int | None, str]:
    """Grades of a pool in the order of a ranking, where the list ends, the pool's size if known, and the rule."""
    grades = draw(st.lists(st.sampled_from([0.0, 0.0, 0.5, 1.0]), min_size=1, max_size=5).filter(any))
    depth = draw(st.integers(0, len(grades)))
    pool_size = draw(st.sampled_from([None, len(grades)]))
    return grades, depth, pool_size, draw(st.sampled_from(["refuse", "never"]))


def possible(measure, grades: list[float], depth: int, pool_size: int | None) -> tuple[float, float]:
    """The ends over every continuation; an unknown pool may be much larger, and may lack what is not listed."""
    low, high = oracles.continued(measure, grades[:depth], grades[depth:])
    if pool_size is None:
        gains = [g for g in grades[depth:] if g > 0]
        unlisted = oracles.of_order(measure, grades[:depth] + [0.0] * 20, gains)
        low, high = min(low, unlisted), max(high, unlisted)
        at_once = oracles.of_order(measure, [*grades[:depth], *sorted(gains, reverse=True), *[0.0] * 20])
        low, high = min(low, at_once), max(high, at_once)
    return low, high


def check_cut_list(case: tuple[list[float], int, int | None, str]) -> None:
    """A value is told if and only if no continuation can change it."""
    grades, depth, pool_size, unretrieved = case
    names = [f"c{k}" for k in range(len(grades))]
    ranking = Ranking.from_lists({"q": names[:depth]}, candidates=names if pool_size else None)
    truth = Judgements.from_pairs([("q", c, g) for c, g in zip(names, grades, strict=True)])
    for measure in MEASURES[:-1]:
        if max(grades) < dict(measure.options).get("min_grade", 0):
            continue
        if unretrieved == "never":
            low = high = oracles.of_order(measure, grades[:depth], grades[depth:])
        else:
            low, high = possible(measure, grades, depth, pool_size)
        if high == low or abs(high - low) < 1e-12:
            report = evaluate(ranking, truth, measures=[measure], unretrieved=unretrieved)
            assert report.results[0].values[0] == pytest.approx(low, abs=1e-9), measure
        else:
            with pytest.raises(TooShort):
                evaluate(ranking, truth, measures=[measure], unretrieved=unretrieved)


@given(cut_lists())
@standing
def test_cut_lists(case):
    check_cut_list(case)


@pytest.mark.long
@given(cut_lists())
@thorough
def test_cut_lists_long(case):
    check_cut_list(case)


# --- comparisons ------------------------------------------------------------------------------------------------

COMPARED = "R@1 R@2 MRR nDCG MedR MeanR rsum"
SWAPS = 2000


@dataclass(frozen=True)
class Duel:
    """Two systems on one collection; captions go by image."""

    collection: Collection
    systems: list[Scores]


@st.composite
def duels(draw) -> Duel:
    n, shared = draw(st.integers(2, 5)), draw(st.booleans())
    owner = sorted(draw(st.lists(st.integers(0, n - 1), min_size=n, max_size=9)))
    images, texts = (
        [f"{'' if shared else kind}{k}" for k in range(size)] for kind, size in (("i", n), ("t", len(owner)))
    )
    pairs = Judgements.from_pairs([(images[i], texts[t]) for t, i in enumerate(owner)])
    world = Collection(
        "duel", Items(images, [None] * n), Items(texts, [""] * len(texts), kind="text"), pairs.with_name("pairs")
    )
    cells = st.lists(st.sampled_from([*LOW, 2.0]), min_size=n * len(texts), max_size=n * len(texts))
    matrices = [np.array(draw(cells)).reshape(n, len(texts)) for _ in range(2)]
    return Duel(world, [Scores.from_matrix(m, images, texts) for m in matrices])


def terms(test: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """What a test adds up over queries."""
    difference = a - b
    if test == "randomisation":
        return difference
    if test in ("mcnemar", "sign"):
        return np.sign(difference)
    ranks = np.zeros(len(difference))
    differing = difference != 0
    ranks[differing] = scipy_stats.rankdata(np.abs(difference[differing]))
    return ranks * np.sign(difference)


def check_comparison(duel: Duel, test: str) -> None:
    """Values, p-values by listing every swap of whole images, both corrections, intervals around the difference."""
    options = {"measures": COMPARED, "direction": "i2t", "workers": 1}
    ours, theirs = (evaluate(system, duel.collection, name="x", **options) for system in duel.systems)
    compared = compare([ours, theirs], test=test, samples=SWAPS)
    results = {r.key: (r, their_result) for r, their_result in zip(ours.results, theirs.results, strict=True)}
    for line in compared.lines:
        a, b = results[line.view, line.direction, str(line.measure)]
        (difference,) = line.differences
        assert difference.value == pytest.approx(a.value - b.value)
        check_p_value(difference.test, test, a, b)
        if difference.interval is not None:
            assert difference.interval.low - 1e-9 <= difference.value <= difference.interval.high + 1e-9
    every = [d for line in compared.lines for d in line.differences]
    raw = [d.test.p_value for d in every]
    assert [d.p_table for d in every] == pytest.approx(oracles.holm(raw)) and [d.p_line for d in every] == raw


def check_p_value(result, test: str, a, b) -> None:
    binary = set(np.concatenate([a.values, b.values])) <= {0.0, 1.0}
    clusters = list(range(len(a.values))) if a.clusters is None else a.clusters.tolist()
    used = {"auto": "mcnemar" if binary and a.clusters is None else "randomisation"}.get(test, test)
    used = used if used != "mcnemar" or binary else "randomisation"
    if used == "randomisation" and a.measure.name == "MedR":
        assert 0 < result.p_value <= 1
        return
    exact = oracles.share_of_swaps(terms(used, a.values, b.values), clusters)
    if used == "randomisation":
        spread = math.sqrt(exact * (1 - exact) / SWAPS)
        assert abs(result.p_value - (exact * SWAPS + 1) / (SWAPS + 1)) <= 5.5 * spread + 1e-9
    else:
        assert result.p_value == pytest.approx(exact)


tests_and_duels = st.tuples(duels(), st.sampled_from(["auto", "mcnemar", "randomisation", "sign", "wilcoxon"]))


@given(tests_and_duels)
@standing
def test_comparison(case):
    check_comparison(*case)


@pytest.mark.long
@given(tests_and_duels)
@thorough
def test_comparison_long(case):
    check_comparison(*case)


@given(duels())
@standing
def test_shared_ids_are_never_guessed(duel):
    """Without a word, either the ids allow one reading only, and it is that one, or nothing is computed."""
    system, world = duel.systems[0], duel.collection
    explicit = evaluate(system, world, measures="MeanR", direction="i2t", workers=1)
    ambiguous = set(world.images.ids) == set(world.texts.ids)
    for turned in (system, system.T):
        if ambiguous:
            with pytest.raises(LimnerError, match="could be images or texts"):
                evaluate(turned, world, measures="MeanR", workers=1)
        else:
            report = evaluate(turned, world, measures="MeanR", workers=1)
            assert [r.values.tolist() for r in report.results] == [r.values.tolist() for r in explicit.results]
