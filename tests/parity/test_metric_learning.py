"""`pytorch-metric-learning` on mAP@R and its other rank measures, for random embeddings with labels."""

from __future__ import annotations

import numpy as np
import pytest

from limner import Embeddings, Judgements, Ranking, Scores, evaluate

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("pytorch_metric_learning", reason="the package pytorch-metric-learning is not installed")

OURS = {
    "mean_average_precision_at_r": "mAP@R",
    "r_precision": "RP",
    "mean_average_precision": "MAP",
    "mean_reciprocal_rank": "MRR",
    "precision_at_1": "P@1",
}


def theirs(*arrays: np.ndarray) -> dict[str, float]:
    """Its measures over all neighbours, these by exact cosine: queries, their labels, and references with theirs."""
    from pytorch_metric_learning.distances import CosineSimilarity
    from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
    from pytorch_metric_learning.utils.inference import CustomKNN

    knn = CustomKNN(CosineSimilarity())
    calculator = AccuracyCalculator(include=tuple(OURS), knn_func=knn, kmeans_func=print, device=torch.device("cpu"))
    return calculator.get_accuracy(*map(torch.from_numpy, arrays))


def judged(query_labels: np.ndarray, labels: np.ndarray) -> Judgements:
    same_label = query_labels[:, None] == labels[None, :]
    return Judgements.from_pairs(
        zip(*np.nonzero(same_label), strict=True), queries=range(len(same_label)), candidates=range(len(labels))
    )


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("classes", [2, 7, 60])
def test_queries_and_references(seed, classes):
    rng = np.random.default_rng([seed, classes])
    centres = rng.standard_normal((classes, 16))
    query_labels, labels = rng.integers(0, classes, 40), rng.integers(0, classes, 150)
    queries, candidates = (
        (centres[n] + 1.5 * rng.standard_normal((len(n), 16))).astype(np.float32) for n in (query_labels, labels)
    )
    scores = Scores.from_embeddings(Embeddings(range(40), queries), Embeddings(range(150), candidates))
    report = evaluate(scores, judged(query_labels, labels), measures=list(OURS.values()))
    expected = theirs(queries, query_labels, candidates, labels)
    actual = {name: report.value(measure) for name, measure in OURS.items()}
    assert actual == pytest.approx(expected, abs=1e-7, rel=0)  # its reciprocal ranks are float32
    assert actual["mean_average_precision_at_r"] == pytest.approx(
        expected["mean_average_precision_at_r"], abs=1e-14, rel=0
    )
    assert report.results[0].left_out == int((~np.isin(query_labels, labels)).sum())


def test_queries_among_the_references():
    """Each query is its own nearest neighbour and is left out, as `ref_includes_query` does."""
    rng = np.random.default_rng(5)
    labels = rng.integers(0, 6, 80)
    vectors = (rng.standard_normal((6, 8))[labels] + rng.standard_normal((80, 8))).astype(np.float32)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    ranked_lists = [[c for c in np.argsort(-row, kind="stable") if c != q] for q, row in enumerate(unit @ unit.T)]
    pairs = [(q, c) for q in range(80) for c in range(80) if q != c and labels[q] == labels[c]]
    ranking = Ranking.from_lists(dict(enumerate(ranked_lists)), candidates=range(80))
    report = evaluate(ranking, Judgements.from_pairs(pairs), measures=list(OURS.values()))
    expected = theirs(vectors, labels)
    assert {n: report.value(m) for n, m in OURS.items()} == pytest.approx(expected, abs=1e-7, rel=0)
