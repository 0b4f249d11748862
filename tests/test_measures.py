"""Every measure against the slow oracle, with ties; parsing and printing; the published checks."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
from limner import Ids, Judgements, LimnerError, Measure, Ranking, Scores, evaluate
from limner.core.errors import TooShort
from limner.evaluation.measures import DEFAULT, MEASURES, bounds, parse
from limner.evaluation.placements import NEVER, Placements, RankOptions, RankRequest, place

ALL = parse(
    "R@1 R@2 R@5 S@3 Recall@2 Recall@4 P@1 P@3 MedR MeanR MRR MRR@2 nDCG nDCG@1 nDCG@3 MAP MAP@2 mAP@R RP PMRP "
    "PMRP(cap=2) R@2(graded) S@1(graded) Recall@3(graded) P@2(graded) RP(graded) PMRP(cap=2, graded) R@2(min_grade=1) "
    "MRR(min_grade=0.5) nDCG(linear) nDCG@2(linear) R@2(graded, min_grade=1) P@3(graded, min_grade=0.75) "
    "MAP(min_grade=1) mAP@R(min_grade=1) RP(graded, min_grade=0.75) MeanR(min_grade=1) Recall@2(min_grade=1) "
    "PMRP(cap=1, graded, min_grade=0.5) RP(min_grade=1)"
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
    (placed,), _ = place(source, [RankRequest(judgements)], RankOptions(workers=1, **options))
    return placed


def value(measure, scores, grades, **options):
    return float(measure(placed_by_scores(scores, grades, **options))[0])


def agree(measures, placed, oracle):
    values = {str(m): float(m(placed)[0]) for m in measures}
    assert values == pytest.approx({str(m): oracle(m) for m in measures}, abs=1e-12)


@given(graded_query)
def test_expectation_over_ties(query):
    agree(ALL, placed_by_scores(*query), lambda m: oracles.expected(m, *query))


@settings(max_examples=100)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.sampled_from([0.0, 1.0, 1.0, 2.0])), min_size=2, max_size=60).filter(
        lambda items: any(grade > 0 for _, grade in items)
    ),
    st.integers(1, 12),
)
def test_no_share_is_above_1_or_below_0(items, k):
    """Under ties, where sums of probabilities round: a bounded value is inside its bounds, to the last bit."""
    scores, grades = zip(*items, strict=True)
    placed = placed_by_scores(scores, grades)
    cuts = {"required": f"@{k}", "optional": f"@{k}", "none": ""}
    for kind in (kind for kind in MEASURES.values() if kind.bounds and kind.compute):
        for text in {f"{kind.name}{cuts[kind.cut]}", *([kind.name] if kind.cut == "optional" else [])}:
            for name in ("", *(f"({option})" for option, default in kind.options.items() if default is False)):
                measure = Measure.parse(text + name)
                if name == "(graded)" and kind.name in ("R", "S", "P"):
                    continue  # means of grades, which may be above 1
                value = measure(placed)[0]
                assert kind.bounds[0] <= value <= kind.bounds[1], (measure, value)


@pytest.mark.parametrize(
    ("measure", "tied", "k"), [("P", 49, 1), ("MAP", 6, 3), ("PMRP", 60, 0), ("nDCG", 30, 7), ("MAP(capped)", 49, 7)]
)
def test_a_perfect_value_under_ties_is_1(measure, tied, k):
    """All candidates are relevant and tied; the interval of such values is the one for shares."""
    name, _, option = measure.partition("(")
    text = f"{name}@{k}" if k else name
    result = evaluate(
        Scores.from_matrix(np.zeros((3, tied)), "abc", range(tied)),
        Judgements.from_pairs([(q, c) for q in "abc" for c in range(tied)]),
        measures=text + (f"({option}" if option else ""),
    ).results[0]
    assert result.values.max() <= 1 and result.interval is not None and "Wilson" in result.interval.method


def test_contributions_far_down_a_list_are_not_negative():
    """The share of a tie at rank 10^12 is lost to rounding; it is not below 0."""
    one, far = np.array([0, 2]), np.array([10**12, 10**12])
    placed = Placements(Ids(["q"]), one, far, np.array([2, 2]), np.ones(2), np.array([10**13]), np.array([NEVER]))
    assert 0 <= Measure.parse("MAP")(placed)[0] < 1e-10


@given(graded_query)
def test_candidate_order(query):
    agree(ALL, placed_by_scores(*query, ties="order"), lambda m: oracles.in_order(m, *query))


@given(graded_query)
def test_pessimistic_is_the_worst_of_all_orders(query):
    """So it bounds what is expected and what candidate order gives, whatever the grades and the least grade."""
    agree(ALL, placed_by_scores(*query, ties="pessimistic"), lambda m: oracles.pessimistic(m, *query))


@given(graded_query)
def test_a_list_without_ties(query):
    grades = query[1]
    judgements = Judgements.from_pairs([("q", c, g) for c, g in enumerate(grades)])
    ranking = Ranking.from_lists({"q": range(len(grades))}, candidates=range(len(grades)))
    (placed,), _ = place(ranking, [RankRequest(judgements)])
    agree(ALL, placed, lambda m: oracles.of_order(m, grades))


def test_every_kind_is_tested():
    assert {m.name for m in ALL} == set(MEASURES) - {"rsum", "Judged"}  # Judged@k: tests/test_judged.py


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


@pytest.mark.parametrize(
    "text",
    ["R@1(min_grade=0.1234567)", "PMRP(cap=1234567)", "R@1(min_grade=1e-07)", "R@5(min_grade=2.0000000000000004)"],
)
def test_no_digit_is_lost(text):
    assert str(Measure.parse(text)) == text and Measure.parse(str(Measure.parse(text))) == Measure.parse(text)


def test_one_measure_has_one_text():
    assert Measure.parse("R@1(min_grade=0)") == Measure.parse("R@1") == Measure("R", 1)
    assert Measure.parse("nDCG@5(exponential)") == Measure.parse("nDCG@5")
    assert str(Measure.parse("R@1(min_grade=2.0, graded)")) == "R@1(graded, min_grade=2)"


@pytest.mark.parametrize("text", ["R@2(graded, min_grade=9)", "R@2(graded)", "nDCG", "MedR(min_grade=9)", "RP(graded)"])
def test_no_positive_at_all(text):
    judgements = Judgements.from_pairs([("q", "a", 0.0)] if "min" not in text else [("q", "a", 1.0)])
    (placed,), _ = place(Ranking.from_lists({"q": "ab"}, candidates="ab"), [RankRequest(judgements)])
    assert Measure.parse(text)(placed).shape == (0,)
    assert Measure.parse(text).counted(placed).left_out == 1


@pytest.mark.parametrize("grade", [2000.0, 1e200, 1.7e308])
def test_huge_grades_are_borne(grade):
    """2^2000 is no number of the machine; the ratio of gains is."""
    placed = placed_by_scores([2.0, 1.0, 0.0, -1.0], [grade, grade, 0.5, 0.0])
    for text in ("nDCG", "nDCG(linear)", "Recall@2(graded)", "RP(graded)", "PMRP(graded)", "MAP", "R@1"):
        assert float(Measure.parse(text)(placed)[0]) == pytest.approx(1.0, rel=1e-3), text
    for text in ("P@2(graded)", "R@1(graded)", "S@3(graded)"):
        assert float(Measure.parse(text)(placed)[0]) == pytest.approx(grade), text


def test_a_perfect_ranking_scores_one_whatever_the_grades():
    """P@k and R@k (graded) tell grades instead: a perfect ranking gets the grades it could find."""
    placed = placed_by_scores([3.0, 2.0, 1.0, 0.0], [1.0, 0.5, 0.5, 0.0])
    for text in ("nDCG", "nDCG(linear)", "RP", "RP(graded)", "PMRP(graded)", "PMRP(cap=2, graded)", "Recall@3(graded)"):
        assert float(Measure.parse(text)(placed)[0]) == pytest.approx(1.0), text


def test_medr_under_ties_is_the_median_of_expected_ranks():
    """Not the expectation of the median: that has no value per query, which tests and intervals need."""
    source = Scores.from_matrix(np.array([[1.0, 1, 1, 1], [4, 3, 2, 1], [1, 1, 0, 0]]), "abc", range(4))
    truth = Judgements.from_pairs([("a", 0), ("b", 3), ("c", 1)], candidates=range(4))
    (placed,), _ = place(source, [RankRequest(truth)])
    ranks = Measure.parse("MedR")(placed)
    assert ranks.tolist() == [2.5, 4.0, 1.5]
    assert Measure.parse("MedR").summarise(ranks) == 2.5 and Measure.parse("MedR(floor)").summarise(ranks) == 2.0


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
        ("R", "needs a cut-off: write for example 'R@10'"),
        ("MedR@5", "takes no cut-off"),
        ("R@0", "the cut-off must be 1 to"),
        ("R@1(soft)", "unknown option 'soft' of R"),
        ("R@1(min_grade=high)", "expected a number"),
        ("nDCG(graded)", "unknown option"),
        ("R@1(min_grade=nan)", "expected a finite number"),
        ("R@1(min_grade=-1)", "expected a finite number, 0 or above"),
        ("R@1(min_grade)", "write for example min_grade=1"),
        ("R@1(graded=3)", "graded takes no value"),
        ("R@1(graded, graded)", "graded is given twice"),
        ("PMRP(cap=2.5)", "expected a whole number, 1 or above"),
        ("PMRP(cap=0)", "expected a whole number, 1 or above"),
        ("nDCG(linear, exponential)", "one of linear and exponential"),
        ("R@99999999999999999999", "the cut-off must be 1 to 1,000,000,000"),
        (f"R@{'9' * 5000}", "the cut-off must be 1 to 1,000,000,000"),
    ],
)
def test_refused(text, message):
    with pytest.raises(LimnerError, match=message):
        Measure.parse(text)


# --- truncated lists --------------------------------------------------------------------------------------------


def truncated(grades_of, lists, **options):
    judgements = Judgements.from_pairs([(q, c, 1.0) for q, cs in grades_of.items() for c in cs])
    (placed,), _ = place(Ranking.from_lists(lists), [RankRequest(judgements)], RankOptions(**options))
    return placed


@pytest.mark.parametrize(
    ("text", "between"),
    [
        ("R@3", "0.0 and 100.0"),
        ("P@3", "0.0 and 33.3"),
        ("Recall@3", "0.0 and 100.0"),
        ("nDCG@3", "0.0 and 50.0"),
        ("MRR@3", "0.0 and 33.3"),
        ("MAP", "0.0 and 33.3"),
        ("MeanR", "3.0 and inf"),
        ("MRR", "0.0 and 33.3"),
        ("nDCG", "0.0 and 50.0"),
        ("mAP@R", "0.0 and 11.1"),
        ("RP", "0.0 and 33.3"),
    ],
)
def test_what_a_short_list_cannot_tell_is_refused(text, between):
    placed = truncated({"q": ["z"] if text not in ("mAP@R", "RP") else ["x", "y", "z"]}, {"q": ["a", "b"]})
    with pytest.raises(
        TooShort, match=rf"query 'q' ends at 2, so the value may be anything between {between} \(1 such"
    ):
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


@pytest.mark.parametrize(
    ("text", "expected"), [("R@10", 1), ("S@10", 1), ("MRR", 1), ("MRR@10", 1), ("MeanR", 1), ("R@10(graded)", 1)]
)
def test_what_no_continuation_can_change_is_told(text, expected):
    """A list of two whose first is relevant: another positive may stand anywhere below."""
    assert Measure.parse(text)(truncated({"q": ["a", "z"]}, {"q": ["a", "b"]}))[0] == expected


cut_query = st.integers(1, 5).flatmap(
    lambda n: st.tuples(
        st.lists(st.sampled_from([0.0, 0.0, 0.5, 1.0]), min_size=n, max_size=n).filter(lambda g: max(g) == 1.0),
        st.integers(0, n),
    )
)


def cut_list(grades, depth, **pool):
    judgements = Judgements.from_pairs([("q", c, g) for c, g in enumerate(grades)], candidates=range(len(grades)))
    ranking = Ranking.from_lists({"q": range(depth)}, **pool)
    (placed,), _ = place(ranking, [RankRequest(judgements)])
    return placed


@given(cut_query)
def test_bounds_are_those_of_every_continuation(query):
    """And a value is given if and only if all continuations agree on it."""
    grades, depth = query
    placed = cut_list(grades, depth, candidates=range(len(grades)))
    for measure in ALL:
        low, high = (float(end[0]) for end in bounds(placed, measure))
        assert (low, high) == pytest.approx(oracles.continued(measure, grades[:depth], grades[depth:])), measure
        if high - low < 1e-9:
            assert float(measure(placed)[0]) == pytest.approx(low)
        else:
            with pytest.raises(TooShort):
                measure(placed)


@given(cut_query, st.integers(0, 3))
def test_bounds_of_an_unknown_pool_hold_those_of_every_pool(query, n_unlisted):
    grades, depth = query
    placed = cut_list(grades, depth)
    for measure in ALL:
        low, high = (float(end[0]) for end in bounds(placed, measure))
        lowest, highest = oracles.continued(measure, grades[:depth], [*grades[depth:], *[0.0] * n_unlisted])
        assert low - 1e-12 <= lowest and highest <= high + 1e-12, measure


def test_bounds_of_whole_rankings_are_the_values():
    placed = placed_by_scores([2, 2, 1, 0], [0.0, 1.0, 0.5, 1.0])
    for measure in ALL:
        low, high = bounds(placed, measure)
        assert low is high and low.tolist() == measure(placed).tolist()


def test_a_positive_outside_the_pool_is_certainly_not_found():
    """It counts in R under "count", and no continuation of the list can hold it."""
    ranking = Ranking.from_lists({"q": ["a", "b"]}, candidates="abc")
    judgements = Judgements.from_pairs([("q", "a"), ("q", "elsewhere")])
    (placed,), _ = place(ranking, [RankRequest(judgements, outside="count")])
    assert Measure.parse("RP")(placed).tolist() == [0.5] and Measure.parse("MAP")(placed).tolist() == [0.5]


def test_unretrieved_never_is_the_convention_of_trec():
    placed = truncated({"q": ["b", "z"]}, {"q": ["a", "b"]}, unretrieved="never")
    assert Measure.parse("MAP")(placed)[0] == pytest.approx(0.25)
    assert Measure.parse("MeanR")(truncated({"q": ["z"]}, {"q": ["a"]}, unretrieved="never"))[0] == np.inf


def test_medr_variants():
    values = np.array([1.0, 2.0, 5.0, 9.0])
    assert Measure.parse("MedR").summarise(values) == 3.5
    assert Measure.parse("MedR(floor)").summarise(values) == 3.0  # floor(median([0, 1, 4, 8])) + 1


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("ndcg_at_10", "nDCG@10(linear)"), ("ndcg_cut_5", "nDCG@5(linear)"), ("recall_at_10", "Recall@10"),
        ("cv_recall_at_1", "R@1"), ("hit_rate_at_1", "R@1"), ("map_at_100", "MAP@100"), ("mrr_at_10", "MRR@10"),
        ("precision_at_5", "P@5"), ("P_20", "P@20"), ("recip_rank", "MRR"), ("Rprec", "RP"), ("RR@10", "MRR@10"),
    ],
)  # fmt: skip
def test_names_of_other_programs_name_the_measure_they_mean(name, meant):
    with pytest.raises(LimnerError, match=re.escape(f"write {meant!r}")):
        Measure.parse(name)
    assert str(Measure.parse(meant)) == meant


def test_other_programs_names_in_any_case_that_limner_has_too():
    assert [str(Measure.parse(name)) for name in ("map", "mrr@10", "recall@10")] == ["MAP", "MRR@10", "Recall@10"]
