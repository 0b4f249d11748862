"""Few queries over many candidates: rows are cut into pieces, and every list, count and score is that of whole rows."""

import numpy as np
import pytest

from limner import Judgements, Scores
from limner.evaluation.placements import RankRequest, place
from limner.scores import set_scores, vectors
from limner.scores.base import Best


@pytest.fixture
def pieces(monkeypatch):
    """How many pieces were read; small enough that every pass has many."""
    reads = []
    for kind in (vectors.VectorScores, set_scores.SetScores):
        monkeypatch.setattr(kind, "piece_columns", 64)
        read = kind.piece
        monkeypatch.setattr(kind, "piece", lambda self, *at, read=read: (reads.append(at), read(self, *at))[1])
    return reads


def drawn(rng, n, *, ties):
    rows = rng.standard_normal((n, 12)).astype(np.float32)
    return np.round(rows) + (np.round(rows) == 0).all(axis=1, keepdims=True) if ties else rows


def from_whole_rows(monkeypatch, ask):
    """The answer from whole rows."""
    with monkeypatch.context() as patch:
        patch.setattr(vectors, "ENOUGH", 0)
        return ask()


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("n", [1, 3, 300])
def test_lists_of_vectors(n, ties, pieces, monkeypatch):
    rng = np.random.default_rng(n)
    scores = Scores.from_embeddings(drawn(rng, n, ties=ties), drawn(rng, 1000, ties=ties), similarity="dot")
    ranking = scores.top(20)
    assert len({low for _, _, low, _ in pieces}) > 1
    plain = from_whole_rows(monkeypatch, lambda: scores.top(20))
    assert np.array_equal(ranking.indices, plain.indices)
    assert np.array_equal(ranking.scores, plain.scores)
    order = np.argsort(-scores.matrix(), axis=1, kind="stable")[:, :20]
    assert np.array_equal(ranking.indices, order)


def test_ranks_of_vectors(pieces, monkeypatch):
    rng = np.random.default_rng(1)
    scores = Scores.from_embeddings(drawn(rng, 5, ties=True), drawn(rng, 700, ties=True))
    pairs = Judgements.from_pairs([(str(q), str(7 * q + n)) for q in range(5) for n in range(3)])
    counts, plain = (
        f() for f in (lambda: count(scores, pairs), lambda: from_whole_rows(monkeypatch, lambda: count(scores, pairs)))
    )
    assert pieces
    for one, counterpart in zip(counts, plain, strict=True):
        assert np.array_equal(one, counterpart)


def count(scores, pairs):
    placed = place(scores, [RankRequest(pairs)])[0][0]
    return placed.above, placed.tied


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("pooling", ["max", "maxsim", "smooth"])
def test_lists_of_sets(pooling, turned, pieces, monkeypatch):
    rng = np.random.default_rng(2)
    small, large = (
        {f"{side}{n}": drawn(rng, 1 + n % 5, ties=False) for n in range(size)}
        for side, size in zip("qc", (3, 400), strict=True)
    )
    scores = (
        Scores.from_sets(large, small, pooling=pooling).T if turned else Scores.from_sets(small, large, pooling=pooling)
    )
    ranking = scores.top(10)
    assert len({low for _, _, low, _ in pieces}) > 1 or pooling == "smooth"
    plain = from_whole_rows(monkeypatch, lambda: scores.top(10))
    assert np.array_equal(ranking.indices, plain.indices)
    assert np.array_equal(ranking.scores, plain.scores)


def test_progress_counts_rows(pieces):
    rng, calls = np.random.default_rng(3), []
    scores = Scores.from_embeddings(drawn(rng, 300, ties=False), drawn(rng, 500, ties=False))
    scores.map(Best(3), progress=lambda *at: calls.append(at))
    assert calls == [(256, 300), (300, 300)]


def test_whole_rows_where_there_are_blocks_enough(pieces):
    rng = np.random.default_rng(4)
    scores = Scores.from_embeddings(drawn(rng, 1200, ties=False), drawn(rng, 300, ties=False))
    scores.top(3, workers=1)
    assert not pieces


def test_products_that_may_overflow_are_read_whole(pieces):
    rows, columns = np.eye(4, dtype=np.float32)[:2] * 3e19, np.tile(np.eye(4, dtype=np.float32)[2:] * 3e19, (300, 1))
    scores = Scores.from_embeddings(rows, columns, similarity="dot")
    assert scores.may_overflow
    assert scores.top(2).indices.tolist() == [[0, 1], [0, 1]]
    assert not pieces
