"""What other tools get wrong, each with limner's answer beside it."""

from __future__ import annotations

import numpy as np
import pytest

import toys
from limner import Embeddings, Hubs, Judgements, LimnerError, Ranking, Scores, evaluate
from limner.datasets.runs import read_run


def one_each(n: int, *, candidates: int | None = None) -> Judgements:
    return Judgements.from_pairs([(q, q) for q in range(n)], queries=range(n), candidates=range(candidates or n))


def value(matrix: np.ndarray, measure: str, truth: Judgements | None = None) -> float:
    truth = one_each(*matrix.shape[:1], candidates=matrix.shape[1]) if truth is None else truth
    return evaluate(
        Scores.from_matrix(matrix, range(matrix.shape[0]), range(matrix.shape[1])), truth, measures=measure
    ).value(measure)


def test_nan_is_refused_wherever_it_comes_in(tmp_path):
    """ranx and pytrec_eval rank it last without a word, torchmetrics mostly first."""
    matrix = np.eye(3)
    matrix[1, 2] = np.nan
    (tmp_path / "run").write_text("q Q0 a 1 nan t\n")
    np.save(tmp_path / "matrix.npy", matrix)
    for make in (
        lambda: Scores.from_matrix(matrix, "abc", "xyz"),
        lambda: Scores.load(tmp_path / "matrix.npy", "abc", "xyz"),
        lambda: Embeddings("abc", matrix),
        lambda: Ranking("q", "ab", np.array([[0, 1]]), np.array([[1.0, np.nan]])),
        lambda: read_run(tmp_path / "run"),
    ):
        with pytest.raises(LimnerError, match="NaN"):
            make()


@pytest.mark.parametrize("measure", ["R@1", "Recall@5", "P@5", "MRR", "MAP", "nDCG@5", "mAP@R", "RP", "MedR"])
def test_scores_may_be_negative(measure):
    """torchmetrics takes scores of 0 or less as not retrieved: recall, precision, MRR and MAP become 0."""
    matrix = np.random.default_rng(0).standard_normal((20, 30)) + 2 * np.eye(20, 30)
    assert value(matrix - 100, measure) == value(matrix, measure)
    assert measure == "MedR" or value(matrix - 100, measure) > 0


@pytest.mark.parametrize("n", [15, 1000])
def test_a_constant_scorer_gets_chance(n):
    """One benchmark once gave it MRR@10 = 1.0. Chance is the mean of 1/rank over n places, 0 beyond the tenth."""
    assert value(np.zeros((3, n)), "MRR@10") == pytest.approx(sum(1 / r for r in range(1, 11)) / n)
    assert value(np.zeros((3, n)), "R@1") == pytest.approx(1 / n)
    assert value(np.zeros((3, n)), "MedR") == (n + 1) / 2


def test_rsum_of_five_folds_is_the_sum_of_five_fold_means():
    """VSE++ and SCAN print another number there."""
    collection = toys.collection(60, folds=5)
    scores = toys.scores(collection, noise=1.5)
    folded = evaluate(scores, collection, protocol="coco-1k")
    parts = [folded.value(f"R@{k}", direction=d) for k in (1, 5, 10) for d in ("i2t", "t2i")]
    assert folded.value("rsum") == pytest.approx(100 * sum(parts))
    matrix, by_hand = scores.matrix(), []
    for fold in range(5):
        images, texts = slice(12 * fold, 12 * fold + 12), slice(60 * fold, 60 * fold + 60)
        block, owner = matrix[images, texts], np.arange(60) // 5
        places = np.argsort(np.argsort(-block, axis=1), axis=1)
        forward = places.reshape(12, 12, 5)[np.arange(12), np.arange(12)].min(axis=1)
        backward = np.argsort(np.argsort(-block.T, axis=1), axis=1)[np.arange(60), owner]
        by_hand += [100 * ((forward < k).mean() + (backward < k).mean()) for k in (1, 5, 10)]
    assert folded.value("rsum") == pytest.approx(sum(by_hand) / 5)


def test_map_at_k_divides_by_all_relevant():
    """torchmetrics divides by what it found: one of four relevant at the top would be perfect."""
    truth = Judgements.from_pairs([("0", c) for c in range(4)], candidates=range(10))
    assert value(-np.array([[0, 6, 7, 8, 1, 2, 3, 4, 5, 9]], dtype=float), "MAP@5", truth) == pytest.approx(1 / 4)


def test_mrr_is_cut_only_where_asked():
    """pytorch-metric-learning cuts it at its k."""
    matrix = -np.abs(np.subtract.outer(np.zeros(1), np.arange(10.0)))
    truth = Judgements.from_pairs([("0", "7")], candidates=range(10))
    assert value(matrix, "MRR", truth) == pytest.approx(1 / 8) and value(matrix, "MRR@5", truth) == 0


def test_scores_keep_their_precision():
    """pytrec_eval compares scores as float32, where these three are one."""
    matrix = 1.0 + np.array([[1e-9, 2e-9, 3e-9]])
    truth = Judgements.from_pairs([("0", "2")], candidates=range(3))
    assert value(matrix, "R@1", truth) == 1.0
    assert value(matrix.astype(np.float32), "R@1", truth) == pytest.approx(1 / 3)


def test_a_tie_is_not_broken_by_id():
    """pytrec_eval puts the id last in the alphabet first: renaming a document would change the result."""
    scores = np.zeros((1, 2))
    for names in (["a", "z"], ["z", "a"]):
        truth = Judgements.from_pairs([("q", "z")], candidates=names)
        assert evaluate(Scores.from_matrix(scores, ["q"], names), truth, measures="R@1").value("R@1") == 0.5


def test_hub_occurrence_counts_queries():
    """scikit-hubness divides by the size of the index, which is wrong where queries are not the index."""
    rng = np.random.default_rng(0)
    top = Scores.from_matrix(rng.standard_normal((500, 40)), range(500), range(40)).top(10)
    hubs = Hubs.of(top, k=10)
    assert hubs.counts.mean() == 500 * 10 / 40
    by_hand = np.array([(top.indices == c).any(axis=1).sum() for c in range(40)])
    assert hubs.counts.tolist() == by_hand.tolist()
    skewness = np.mean((by_hand - by_hand.mean()) ** 3) / by_hand.std() ** 3
    assert hubs.skewness == pytest.approx(skewness)


def test_an_unranked_query_is_not_a_zero():
    """ranx's `make_comparable` scores it 0."""
    ranking = Ranking.from_lists({"q1": ["a"]}, candidates="ab")
    truth = Judgements.from_pairs([("q1", "a"), ("q2", "b")])
    with pytest.raises(LimnerError, match=r"1 queries .* are not ranked \('q2'\)"):
        evaluate(ranking, truth)


def test_grades_may_be_fractions():
    """ranx drops grades below 1, pytrec_eval takes whole numbers only."""
    truth = Judgements.from_pairs([("0", 0, 0.5), ("0", 1, 1.0)], candidates=range(3))
    matrix = np.array([[3.0, 2.0, 1.0]])
    gain = (2**0.5 - 1) + 1 / np.log2(3)
    assert value(matrix, "nDCG", truth) == pytest.approx(gain / (1 + (2**0.5 - 1) / np.log2(3)))
    assert value(matrix, "MAP", truth) == 1.0
