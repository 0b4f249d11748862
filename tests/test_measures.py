"""Every measure against the slow oracle, with ties; parsing and printing; the published checks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracles
from limner import Judgements, LimnerError, Measure, Ranking, Scores
from limner.errors import TooShort
from limner.measures import DEFAULT, KINDS, parse
from limner.placements import Asked, place

ALL = parse(
    "R@1 R@2 R@5 S@3 Recall@2 Recall@4 P@1 P@3 MedR MeanR MRR MRR@2 nDCG nDCG@1 nDCG@3 MAP MAP@2 mAP@R RP PMRP "
    "PMRP(cap=2) R@2(graded) S@1(graded) Recall@3(graded) P@2(graded) RP(graded) PMRP(cap=2, graded) R@2(min_grade=1) "
    "MRR(min_grade=0.5)"
)
graded_query = st.integers(2, 6).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(0, 3), min_size=n, max_size=n),
        st.lists(st.sampled_from([0.0, 0.0, 0.5, 1.0]), min_size=n, max_size=n).filter(lambda g: max(g) == 1.0),
    )
)


def placed_by_scores(scores, grades, **options):
    judgements = Judgements.from_pairs([("q", c, g) for c, g in enumerate(grades)], candidates=range(len(grades)))
    source = Scores.from_matrix(np.array([scores], dtype=np.float64), ["q"], range(len(scores)))
    (placed,), _ = place(source, [Asked(judgements)], workers=1, **options)
    return placed


def value(measure, scores, grades, **options):
    return float(measure(placed_by_scores(scores, grades, **options))[0])


def agree(measures, placed, oracle):
    got = {str(m): float(m(placed)[0]) for m in measures}
    assert got == pytest.approx({str(m): oracle(m) for m in measures}, abs=1e-12)


@given(graded_query)
def test_expectation_over_ties(query):
    agree(ALL, placed_by_scores(*query), lambda m: oracles.expected(m, *query))


@given(graded_query)
def test_candidate_order(query):
    agree(ALL, placed_by_scores(*query, ties="order"), lambda m: oracles.in_order(m, *query))


BINARY = [m for m in ALL if not m.options and m.name != "nDCG"]


@given(graded_query)
def test_relevant_last(query):
    agree(BINARY, placed_by_scores(*query, ties="pessimistic"), lambda m: oracles.pessimistic(m, *query))


@given(graded_query)
def test_a_list_without_ties(query):
    grades = query[1]
    judgements = Judgements.from_pairs([("q", c, g) for c, g in enumerate(grades)])
    ranking = Ranking.from_lists({"q": range(len(grades))}, candidates=range(len(grades)))
    (placed,), _ = place(ranking, [Asked(judgements)])
    agree(ALL, placed, lambda m: oracles.of_order(m, grades))


def test_every_kind_is_tested():
    assert {m.name for m in ALL} == set(KINDS) - {"rsum"}


@pytest.mark.parametrize(
    ("wrong", "percent"),
    [((0,), 66.0), (range(1, 8), 12.5), (range(5), 10.3), ((0, 1, 2, 3, 5, 6, 7), 2.5)],
    ids=["only top-1 wrong", "only top-1 right", "top 1-5 wrong", "only the 5th right"],
)
def test_map_at_r_of_the_papers_example(wrong, percent):
    """R = 8; the four cases of Chun et al. 2022."""
    grades = [0.0 if i in set(wrong) else 1.0 for i in range(8)]
    grades += [1.0] * (8 - int(sum(grades)))
    assert 100 * value(Measure.parse("mAP@R"), -np.arange(len(grades)), grades) == pytest.approx(percent, abs=0.05)


@given(st.integers(2, 400), st.integers(1, 5), st.integers(1, 12))
def test_a_constant_scorer_gets_chance(n, relevant, k):
    relevant = min(relevant, n)
    grades = [1.0] * relevant + [0.0] * (n - relevant)
    assert value(Measure("P", k), [0.0] * n, grades) == pytest.approx(relevant / n * min(k, n) / k)
    assert value(Measure("MeanR"), [0.0] * n, grades) == pytest.approx((n + 1) / (relevant + 1))
    assert value(Measure("R", k), [0.0] * n, grades) < 1.0 or k > n - relevant


@pytest.mark.parametrize("text", [*map(str, ALL), *map(str, DEFAULT), "MedR(floor)"])
def test_prints_as_it_parses(text):
    assert str(Measure.parse(text)) == text and Measure.parse(text) == Measure.parse(str(Measure.parse(text)))


def test_parse_several():
    assert parse("r@1, NDCG@5 MedR(floor)\n R@1") == (
        Measure("R", 1),
        Measure("nDCG", 5),
        Measure("MedR", None, (("floor", True),)),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("R@", "unknown measure"),
        ("nDGC@5", "did you mean 'nDCG'"),
        ("R", "needs a cut: write for example 'R@10'"),
        ("MedR@5", "takes no cut"),
        ("R@0", "1 or more"),
        ("R@1(soft)", "unknown option of R 'soft'"),
        ("R@1(min_grade=high)", "expected a number"),
        ("nDCG(graded)", "unknown option"),
    ],
)
def test_refused(text, message):
    with pytest.raises(LimnerError, match=message):
        Measure.parse(text)


# --- truncated lists --------------------------------------------------------------------------------------------


def truncated(grades_of, lists, **options):
    judgements = Judgements.from_pairs([(q, c, 1.0) for q, cs in grades_of.items() for c in cs])
    (placed,), _ = place(Ranking.from_lists(lists), [Asked(judgements)], **options)
    return placed


@pytest.mark.parametrize(
    "text", ["R@3", "P@3", "Recall@3", "nDCG@3", "MRR@3", "MAP", "MeanR", "MRR", "nDCG", "mAP@R", "RP"]
)
def test_what_a_short_list_cannot_tell_is_refused(text):
    placed = truncated({"q": ["z"] if text not in ("mAP@R", "RP") else ["x", "y", "z"]}, {"q": ["a", "b"]})
    with pytest.raises(TooShort, match=r"query 'q', whose list ends at 2"):
        Measure.parse(text)(placed)


@pytest.mark.parametrize(
    ("text", "expected"), [("R@2", 0), ("P@2", 0), ("MRR@2", 0), ("nDCG@1", 0), ("RP", 0), ("mAP@R", 0)]
)
def test_what_a_short_list_can_tell_is_told(text, expected):
    assert Measure.parse(text)(truncated({"q": ["z"]}, {"q": ["a", "b"]}))[0] == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("MRR", 0.5), ("MeanR", 2), ("MAP", 0.5), ("R@10", 1), ("nDCG@10", 1 / np.log2(3))]
)
def test_a_short_list_that_holds_all_positives_is_enough(text, expected):
    assert Measure.parse(text)(truncated({"q": ["b"]}, {"q": ["a", "b"]}))[0] == pytest.approx(expected)


def test_unretrieved_never_is_the_convention_of_trec():
    placed = truncated({"q": ["b", "z"]}, {"q": ["a", "b"]}, unretrieved="never")
    assert Measure.parse("MAP")(placed)[0] == pytest.approx(0.25)
    assert Measure.parse("MeanR")(truncated({"q": ["z"]}, {"q": ["a"]}, unretrieved="never"))[0] == np.inf


def test_medr_variants():
    values = np.array([1.0, 2.0, 5.0, 9.0])
    assert Measure.parse("MedR").summarise(values) == 3.5
    assert Measure.parse("MedR(floor)").summarise(values) == 3.0  # floor(median([0, 1, 4, 8])) + 1
