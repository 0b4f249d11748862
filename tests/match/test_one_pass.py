"""Lists of corrected scores from the pass that gathers the statistics equal those of two passes to the bit."""

import numpy as np
import pytest

from limner import Scores
from limner.match.corrections import Csls, InvertedSoftmax
from limner.scores import VectorScores, filtering, one_pass

KINDS = ["random", "clustered", "duplicated", "tied", "one low shift", "spread"]


def sides(kind, n=600, m=900, d=16):
    rng = np.random.default_rng(len(kind))
    rows, columns = rng.standard_normal((n, d)), rng.standard_normal((m, d))
    if kind == "clustered":
        centres = rng.standard_normal((5, d))
        rows, columns = rows + 5 * centres[np.arange(n) % 5], columns + 5 * centres[np.arange(m) % 5]
    if kind == "duplicated":
        rows, columns = rows[rng.integers(0, 50, n)], columns[rng.integers(0, 50, m)]
    if kind == "tied":
        rows, columns = rng.integers(-1, 2, (n, d)) + 0.0, rng.integers(-1, 2, (m, d)) + 0.0
        rows[:, 0] = columns[:, 0] = 1
    if kind == "one low shift":
        columns[7] = -5 * rows.mean(axis=0)
    if kind == "spread":
        rows, columns = rows * 10.0 ** rng.integers(-3, 3, (n, 1)), columns * 10.0 ** rng.integers(-3, 3, (m, 1))
    return rows, columns


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setenv(filtering.SETTING, "never")
    monkeypatch.setattr(one_pass, "LEAST_DIMENSIONS", 1)
    monkeypatch.setattr(one_pass, "LEAST_WIDTH", 1)


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("few", [0, 16, 1000])
@pytest.mark.parametrize("how", [Csls(k=10), Csls(k=3), Csls(k=200), InvertedSoftmax()])
def test_lists_and_scores_are_those_of_two_passes(kind, similarity, few, how, monkeypatch):
    scores = Scores.from_embeddings(*sides(kind), similarity=similarity)
    monkeypatch.setattr(one_pass, "FEW", few)
    monkeypatch.setattr(type(how), "from_best", False)
    plain = scores.correct(how).top(5)
    monkeypatch.setattr(type(how), "from_best", True)
    corrected = scores.correct(how)
    found = corrected.top(5)
    assert np.array_equal(plain.indices, found.indices)
    assert np.array_equal(plain.scores, found.scores)
    assert np.array_equal(corrected.top(5).indices, found.indices)  # with the statistics that were gathered


def test_no_block_is_read_twice():
    blocks, scores = [], Scores.from_embeddings(*sides("random"))
    with pytest.MonkeyPatch.context() as patch:
        block = VectorScores.block
        patch.setattr(VectorScores, "block", lambda self, *given: blocks.append(given[0]) or block(self, *given))
        scores.correct("csls").top(5)
    assert sorted(blocks) == [0, 256, 512]


def test_the_bound_holds_for_every_candidate_that_is_not_kept():
    scores = Scores.from_embeddings(*sides("random"))
    matrix, shift = scores.matrix().astype(np.float64), np.random.default_rng(0).random(900)
    others = one_pass._Others.of(matrix.max(axis=0), one_pass.Shifted(2.0, shift, 0, lambda *given: given[0]))
    for m in (-1.0, -0.3, 0.0, 0.2, 0.5, 1.0):
        possible = np.where(matrix <= m, 2 * matrix - shift, -np.inf).max()
        assert possible <= others.most(np.array([m]))[0] <= 2 * m - shift.min()


@pytest.mark.parametrize(("k", "bytes_", "used"), [(5, 1 << 28, True), (100, 1 << 28, False), (5, 1000, False)])
def test_it_is_used_if_lists_are_short_and_memory_suffices(k, bytes_, used, monkeypatch):
    monkeypatch.setattr(one_pass, "MOST_BYTES", bytes_)
    assert (one_pass.RecordedScores.of(Scores.from_embeddings(*sides("random")), k) is not None) == used
