"""Agreement, aggregation, preference and bias beside slow oracles, peers and the published values."""

from __future__ import annotations

import json
import math
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limner.annotate.bias import (
    bias_of,
    biases,
    by_size,
    diversity,
    graded_r_precision,
    graded_recall,
    grades_at,
    lists_from,
    mean_rank,
    pooled_by,
    tau,
)
from limner.annotate.estimate_notes import agreement_words
from limner.annotate.merge import by_dawid_skene, by_majority, majority
from limner.annotate.pool import proposed
from limner.annotate.preference import Vote, counted, study
from limner.annotate.quality import agreement, annotator_table, ratings, right
from limner.annotate.store.answers import Answer
from limner.core.errors import LimnerError, TooShort
from limner.core.judgements import Judgements
from limner.core.ranking import Ranking
from limner.papers.published_tables import table
from limner.scores import Scores
from limner.stats import bradley_terry, cohen_kappa, dawid_skene, krippendorff_alpha
from limner.stats.agreement import alpha_interval
from limner.stats.bradley_terry import disconnected


def answer(annotator, pair, grade, role="real", milliseconds=1000):
    return Answer(
        0, 1, 1, pair, pair, annotator, f"i{pair}", f"t{pair}", role, grade, (), 1, milliseconds, "1", 0
    )  # fmt: skip


def crowd(raters, pairs, *, seed=0, right=0.8, missing=0.3):
    """Answers of people who are right with some probability and skip some pairs; the truth comes with them."""
    draw = np.random.default_rng(seed)
    truth = draw.integers(1, 5, pairs)
    answers = []
    for rater, pair in product(range(raters), range(pairs)):
        if draw.random() >= missing:
            grade = truth[pair] if draw.random() < right else draw.integers(1, 5)
            answers.append(answer(f"r{rater}", pair, int(grade)))
    return answers, truth


# --- agreement --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["nominal", "ordinal", "interval"])
def test_alpha_is_that_of_two_other_programs(level):
    krippendorff = pytest.importorskip("krippendorff")
    answers, _ = crowd(4, 40, seed=3)
    result = agreement(answers, level=level, samples=50)
    table = ratings(answers)
    assert result.alpha == krippendorff_alpha(table, level=level, raters=4)
    theirs = krippendorff.alpha(reliability_data=table, level_of_measurement=level)
    assert result.alpha == pytest.approx(theirs, abs=1e-9)
    evalica, pandas = pytest.importorskip("evalica"), pytest.importorskip("pandas")
    assert result.alpha == pytest.approx(evalica.alpha(pandas.DataFrame(table), level).alpha, abs=1e-9)
    assert result.low <= result.alpha <= result.high


def test_the_interval_of_alpha_is_that_of_a_slow_bootstrap():
    answers, _ = crowd(4, 60, seed=4)
    table = ratings(answers)
    draw = np.random.default_rng(1)
    rows = [draw.integers(0, table.shape[1], table.shape[1]) for _ in range(600)]
    slow = [krippendorff_alpha(table[:, row], level="ordinal", raters=4) for row in rows]
    interval = alpha_interval(table, level="ordinal", raters=4, samples=2000)
    assert (interval.low, interval.high) == pytest.approx(tuple(np.percentile(slow, [2.5, 97.5])), abs=0.03)


def test_alpha_cannot_be_asked_the_wrong_way_round():
    """Many people, few pairs: a table whose longer side is taken for the pairs would say nearly 0."""
    answers, _ = crowd(30, 6, seed=1, right=0.95)
    result = agreement(answers, samples=20)
    assert (result.annotators, result.pairs) == (30, 6)
    assert result.alpha > 0.8
    assert krippendorff_alpha(ratings(answers).T, level="ordinal", raters=6) < 0.2  # the trap is real


def test_undefined_agreement_is_said():
    all_fours = [answer(name, pair, 4) for name in "ab" for pair in range(3)]
    result = agreement(all_fours)
    assert math.isnan(result.alpha) and "every rating is 4" in result.note
    assert "kappa of a and b is undefined" in result.note
    assert agreement_words(result) == "people's agreement is undefined on 3 pairs: all grades are the same"
    assert math.isnan(
        agreement([*all_fours[:-1], answer("c", 0, 4), answer("c", 9, 1)]).alpha
    )  # 9 is one person's alone
    alone = agreement([answer("a", pair, 1 + pair) for pair in range(3)])
    assert math.isnan(alone.alpha) and "no pair was judged by two" in alone.note
    assert alone.kappas == {}


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=1, max_size=40))
def test_kappa_is_that_of_scikit_learn(pairs):
    """In the store and in `limner.stats`; undefined in the one where it is in the other."""
    from sklearn.metrics import cohen_kappa_score

    first, second = zip(*pairs, strict=True)
    answers = [
        answer(name, n, grade) for name, grades in (("a", first), ("b", second)) for n, grade in enumerate(grades)
    ]
    kappa, _ = agreement(answers, samples=1).kappas["a", "b"]
    if len({*first, *second}) < 2:
        assert math.isnan(kappa)
        with pytest.raises(LimnerError, match="kappa is undefined"):
            cohen_kappa(first, second, weights="linear")
    else:
        assert kappa == pytest.approx(
            cohen_kappa_score(first, second, weights="linear", labels=[1, 2, 3, 4]), abs=1e-12
        )


def test_distances_to_others_are_those_that_a_search_finds():
    answers, _ = crowd(6, 30, seed=5)
    answers += [answer("r0", 3, 1, "gold_pos"), answer("r1", 3, 2)]  # somebody answers a pair twice
    for record in annotator_table(answers):
        gaps = []
        for graded in [a for a in answers if a.annotator == record.annotator and a.role == "real"]:
            other_grades = [a.grade for a in answers if a.pair == graded.pair and a.annotator != graded.annotator]
            gaps += [abs(graded.grade - sum(other_grades) / len(other_grades))] if other_grades else []
        assert record.agreement == pytest.approx(sum(gaps) / len(gaps), abs=1e-12)


def test_kappa_is_counted_on_common_pairs_without_controls():
    answers = [answer("a", 1, 4), answer("a", 2, 1), answer("b", 1, 4), answer("b", 2, 2), answer("b", 3, 4)]
    answers += [answer(name, 9, 4, "gold_pos") for name in "ab"]
    value, pair_count = agreement(answers, samples=20).kappas["a", "b"]
    assert pair_count == 2
    assert value == cohen_kappa([4, 1], [4, 2], weights="linear")


def test_the_record_of_a_careless_annotator_says_why():
    answers = [answer("good", pair, 1 + pair % 4) for pair in range(24)]
    answers += [answer("bad", pair, 4, milliseconds=100) for pair in range(24)]
    for number in range(4):
        role = "gold_pos" if number % 2 else "gold_neg"
        answers.append(answer("good", 100 + number, 4 if number % 2 else 1, role))
        answers.append(answer("bad", 100 + number, 4, role, milliseconds=100))
    worst, best = annotator_table(answers)
    assert (worst.annotator, worst.share, best.share, best.suspicious) == ("bad", 0.5, 1.0, ())
    suspicions = "; ".join(worst.suspicious)
    assert all(words in suspicions for words in ("2 of 4 controls right", "answers in 0.1 s", "same grade 100%"))
    assert worst.agreement == best.agreement == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("role", "grade", "expected"),
    [("gold_pos", 3, True), ("gold_pos", 2, False), ("gold_neg", 2, True), ("gold_neg", 3, False)],
)
def test_what_is_right_for_a_control(role, grade, expected):
    assert right(answer("a", 1, grade, role)) is expected
    with pytest.raises(LimnerError):
        right(answer("a", 1, grade))


# --- aggregation ------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(1, 4), min_size=1, max_size=9))
def test_the_majority_is_the_commonest_and_the_lowest_of_equals(grades):
    grade, share = majority(grades)
    assert share == max(grades.count(g) for g in grades) / len(grades)
    assert grade == min(g for g in set(grades) if grades.count(g) == share * len(grades))


def slow_dawid_skene(raters, items, labels, classes, rounds):
    """The formulas of 1979, one loop each."""
    n, m = max(items) + 1, max(raters) + 1
    t = np.zeros((n, classes))
    for i, j in zip(items, labels, strict=True):
        t[i, j] += 1
    t /= t.sum(axis=1, keepdims=True)
    for _ in range(rounds):
        p = t.mean(axis=0)
        pi = np.zeros((m, classes, classes))
        for r, i, label in zip(raters, items, labels, strict=True):
            for j in range(classes):
                pi[r, j, label] += t[i, j]
        for r in range(m):
            for j in range(classes):
                pi[r, j] /= max(pi[r, j].sum(), 1e-300)
        new = np.tile(p, (n, 1))
        for r, i, label in zip(raters, items, labels, strict=True):
            new[i] *= pi[r, :, label]
        t = new / new.sum(axis=1, keepdims=True)
    return t


def test_dawid_skene_is_the_slow_one():
    answers, _ = crowd(5, 30, seed=2, right=0.7)
    rows = np.array([(int(a.annotator[1:]), a.pair, a.grade - 1) for a in answers])
    _, rows[:, 1] = np.unique(rows[:, 1], return_inverse=True)
    for rounds in (1, 5):
        fit = dawid_skene(*rows.T, n_classes=4, rounds=rounds, tolerance=-1)
        np.testing.assert_allclose(fit.classes, slow_dawid_skene(*rows.T.tolist(), 4, rounds), atol=1e-10)
        assert fit.iterations == rounds


def test_dawid_skene_is_that_of_crowd_kit():
    """Their values are kept in a file: the package needs half a gigabyte. After as many rounds they are the same."""
    reference = json.loads(Path(__file__).with_name("crowd_kit.json").read_text())
    raters, items, labels = zip(*reference["answers"], strict=True)
    fit = dawid_skene(raters, items, labels, n_classes=4, rounds=reference["rounds"], tolerance=-1)
    np.testing.assert_allclose(fit.classes, reference["probabilities"], atol=1e-6)


def test_dawid_skene_knows_whom_to_trust():
    """Two careful people against three who answer at random: the majority is fooled more often."""
    draw = np.random.default_rng(0)
    truth = draw.integers(1, 5, 300)
    answers = []
    for pair in range(300):
        answers += [answer(name, pair, int(truth[pair])) for name in "ab" if draw.random() < 0.95]
        answers += [answer(name, pair, int(draw.integers(1, 5))) for name in "cde"]
    wrong = [
        sum(x.grade != truth[int(x.image[1:])] for x in labels)
        for labels in (by_majority(answers), by_dawid_skene(answers))
    ]
    assert wrong[1] < wrong[0] / 2


def test_controls_teach_but_get_no_label():
    answers = [answer("a", 1, 4), answer("a", 2, 4, "gold_pos")]
    assert [x.image for x in by_dawid_skene(answers)] == [x.image for x in by_majority(answers)] == ["i1"]
    assert by_dawid_skene([]) == by_majority([]) == []


@pytest.mark.parametrize("bad", [([], [], []), ([0], [1], [0]), ([0], [0], [-1]), ([0, 1], [0], [0])])
def test_bad_input_of_dawid_skene_is_refused(bad):
    with pytest.raises(LimnerError):
        dawid_skene(*bad)


# --- preference -------------------------------------------------------------------------------------------------


def test_the_published_counts_give_the_published_scores_under_other_names():
    d1 = table("eccv-d1")
    fit = bradley_terry(d1.values, d1.labels, samples=200)
    np.testing.assert_allclose(fit.scores, [10.66, 4.89, 70.85, 13.15, 0.44], atol=0.005)
    assert sorted(fit.scores.round(2)) == [0.44, 4.89, 10.66, 13.15, 70.85]  # the text's, in another order
    assert (fit.low < fit.scores).all() and (fit.scores < fit.high).all()


def test_scores_fit_their_own_likelihood():
    """At the maximum each ranking's expected wins are its wins."""
    counts = np.array([[0, 8, 5], [2, 0, 6], [5, 4, 0.5]])
    p = bradley_terry(counts, "abc", samples=0).scores
    np.fill_diagonal(counts, 0)
    expected = (counts + counts.T) * p[:, None] / (p[:, None] + p[None, :])
    np.testing.assert_allclose(expected.sum(axis=1), counts.sum(axis=1), rtol=1e-5)


@pytest.mark.parametrize(
    "counts", [[[0, 3, 0], [1, 0, 0], [0, 0, 0]], [[0, 1, 1], [1, 0, 1], [0, 0, 0]], [[0, 2], [0, 0]]]
)
def test_votes_that_link_nothing_are_refused(counts):
    with pytest.raises(LimnerError, match="never won against, or never lost to"):
        bradley_terry(counts, "abc"[: len(counts)])
    assert disconnected(np.array(counts, dtype=float))


def test_ties_count_half():
    votes = [Vote("s", "q", "A", "B", choice, "ada", 0) for choice in ("left", "tie", "right", "left")]
    names, counts = counted(votes)
    assert names == ("A", "B")
    assert counts.tolist() == [[0, 2.5], [1.5, 0]]


def test_the_rankings_of_the_study_have_their_faults():
    rivals = study([f"p{n}" for n in range(8)], [f"n{n}" for n in range(8)], "q")
    lists = {name: items for r in rivals for name, items in ((r.left, r.left_items), (r.right, r.right_items))}
    marks = {name: "".join(item[0] for item in items) for name, items in lists.items()}
    assert marks == {"A": "nppppppp", "B": "pnnnnnnn", "C": "nnnnnppp", "D": "nnnnpnnn", "E": "nnnnnnnn"}
    assert (len(rivals), len(study(list("abcde"), list("vwxyz"), "q"))) == (10, 10)
    with pytest.raises(LimnerError):
        study(["a"], ["b"], "q")


# --- bias -------------------------------------------------------------------------------------------------------


def test_the_bias_of_the_papers_example():
    e1 = table("eccv-e1a")
    full = dict(zip(e1.labels, e1.column("All"), strict=True))
    bias = bias_of(dict(zip(e1.labels, e1.column("PVSE"), strict=True)), full, ["PVSE"])
    assert (round(bias.overall, 1), round(bias.own, 1), round(bias.others, 1)) == (9.5, 0.1, 11.8)


def toy(seed=0, images=12, texts=20, systems=4):
    draw = np.random.default_rng(seed)
    truth = draw.random((images, texts)) < 0.2
    keys = [f"i{n}" for n in range(images)], [f"t{n}" for n in range(texts)]
    systems_by_name = {
        f"s{n}": Scores.from_matrix(truth + draw.normal(0, 0.7, truth.shape), *keys) for n in range(systems)
    }
    grades = truth * draw.choice([0.5, 1.0], truth.shape)
    rows, columns = np.indices(truth.shape)
    full = Judgements.from_pairs(
        [(keys[0][i], keys[1][t], float(grades[i, t])) for i, t in zip(rows.ravel(), columns.ravel(), strict=True)],
        queries=keys[0], candidates=keys[1],
    )  # fmt: skip
    return systems_by_name, full


def test_graded_measures_are_the_slow_ones():
    systems, full = toy()
    ranking = systems["s0"].ranking()
    first, share = [], []
    for query in ranking.queries:
        grades = [full.grade(query, candidate) for candidate in ranking[query]]
        matches = sum(g > 0 for g in (full.grade(query, c) for c in full.candidates))
        first.append(grades[0])
        if matches:
            share.append(sum(grades[:matches]) / matches)
    assert graded_recall(ranking, full) == pytest.approx(np.mean(first))
    assert graded_r_precision(ranking, full) == pytest.approx(np.mean(share))
    with pytest.raises(TooShort):
        graded_r_precision(ranking.top(1), full)
    empty = Judgements.from_pairs([], queries=full.queries, candidates=full.candidates)
    assert grades_at(ranking, empty, depth=2).sum() == 0


def test_a_match_outside_the_pool_is_never_found():
    """It counts in R, as in ECCV Caption, and no list can hold it: all of a pool of two is ranked, three match."""
    ranking = Ranking.from_lists({"q": ["b", "a"], "p": ["a", "b"]}, candidates="ab")
    outside = Judgements.from_pairs([("q", "a"), ("q", "b", 0.5), ("q", "elsewhere"), ("p", "b")])
    assert graded_r_precision(ranking, outside) == pytest.approx(np.mean([(0.5 + 1) / 3, 0]))
    assert graded_recall(ranking, outside) == pytest.approx(np.mean([0.5, 0]))


def test_a_list_that_is_shorter_than_others_is_told():
    ranking = Ranking.from_lists({"q": ["a"], "p": ["a", "b", "c"]}, candidates="abc")
    matches = Judgements.from_pairs([("q", "a"), ("q", "b"), ("p", "b")])
    with pytest.raises(TooShort, match="query 'q' has 2 matches but its list has 1 candidates"):
        graded_r_precision(ranking, matches)


def test_bias_by_subsets_is_the_definition_and_falls():
    systems, full = toy(seed=5)
    proposals = proposed(systems, depth=3)
    pooled = pooled_by(full, proposals, systems)
    lists = {name: s.T.ranking() for name, s in systems.items()}
    all_biases = biases(lists, pooled, proposals, measure="R@1", direction="t2i")
    assert len(all_biases) == 2**4 - 2
    one = next(b for b in all_biases if b.systems == ("s1", "s2"))
    keys = {(p.image, p.caption) for p in proposals if p.system in ("s1", "s2")}
    gaps = {}
    for name, ranking in lists.items():
        tops = {query: ranking[query][0] for query in ranking.queries}
        pooled_grades = {q: (pooled.grade(c, q) or 0.0) for q, c in tops.items()}
        own_grades = {q: pooled_grades[q] if (tops[q], q) in keys else 0.0 for q in tops}
        gaps[name] = 100 * abs(np.mean(list(own_grades.values())) - np.mean(list(pooled_grades.values())))
    assert one.overall == pytest.approx(np.mean(list(gaps.values())))
    assert one.own == pytest.approx(np.mean([gaps["s1"], gaps["s2"]]))
    sizes = by_size(all_biases)
    assert sizes[1].overall > sizes[2].overall > sizes[3].overall
    assert all(sizes[n].own < sizes[n].others for n in sizes)


def test_diversity_of_lists():
    systems, _ = toy()
    proposals = proposed(systems, depth=5)
    lists = lists_from(proposals, "t2i")
    assert lists["s0"]["t0"] == systems["s0"].T.top(5)["t0"]
    overlaps = diversity(lists, depth=5)
    assert overlaps["s0", "s1"][0] == overlaps["s1", "s0"][0] == tau(lists["s0"], lists["s1"], depth=5)
    assert tau(lists["s0"], lists["s0"], depth=5) == pytest.approx(1)
    assert mean_rank(lists["s0"], lists["s0"], depth=5) == 1
    apart_lists = [Ranking.from_lists({"q": row}, candidates="abcd") for row in (["a", "b"], ["c", "d"])]
    assert mean_rank(*apart_lists, depth=2) == 3
    assert tau(*apart_lists, depth=2) < 0
