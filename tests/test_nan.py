"""A score that is no number never counts as found: it is refused wherever it turns up."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from limner import Embeddings, Ids, Judgements, LimnerError, Measure, Scores, evaluate
from limner.evaluation.placements import RankOptions, RankRequest, _align, place
from limner.evaluation.rank_counting import _Count, _counters
from limner.match import CORRECTIONS

N = 40


@dataclass(frozen=True, eq=False)
class UncheckedScores(Scores):
    """Scores of a class of your own, which nobody checked."""

    values: Any
    queries: Any = None
    candidates: Any = None
    torch: bool = False

    @property
    def T(self):
        return UncheckedScores(self.values.T, self.candidates, self.queries, self.torch)

    @property
    def dtype(self):
        return self.values.dtype

    def block(self, start, stop, out=None):
        block = self.values[start:stop].copy()
        if not self.torch:
            return block
        return pytest.importorskip("torch", reason="torch is not installed").as_tensor(block)


def unchecked_scores(values, **options):
    return UncheckedScores(values, Ids(range(len(values))), Ids(range(values.shape[1])), **options)


TRUTH = Judgements.from_pairs([(str(n), str(n)) for n in range(N)])
FOLDS = (np.arange(N) % 2, np.arange(N) % 2)


@pytest.mark.parametrize("torch", [False, True], ids=["numpy", "torch"])
@pytest.mark.parametrize("ties", ["expected", "order", "pessimistic"])
@pytest.mark.parametrize("pools", [(), FOLDS], ids=["whole", "folds"])
def test_a_positive_whose_score_is_nan_is_refused(torch, ties, pools):
    values = np.random.default_rng(0).standard_normal((N, N)).astype(np.float32)
    values[7, 7] = np.nan
    with pytest.raises(LimnerError, match=r"query '7' and candidate '7' is NaN"):
        place(unchecked_scores(values, torch=torch), [RankRequest(TRUTH, *pools)], RankOptions(ties=ties))


def test_a_positive_whose_score_is_nan_is_refused_in_pieces():
    values = np.random.default_rng(0).standard_normal((N, N)).astype(np.float32)
    values[7, 7] = np.nan
    source = unchecked_scores(values)
    positives = [_align(source, RankRequest(TRUTH))]
    counters = _counters(source, [RankRequest(TRUTH)], positives)
    pieces = _Count(counters, None).divided(lambda rows, columns: values[rows, columns])
    parts = [pieces.piece(0, low, values[:, low : low + 16]) for low in range(0, N, 16)]
    (counted,), _ = pieces.join(parts)
    with pytest.raises(LimnerError, match=r"query '7' and candidate '7' is NaN"):
        counters[0].answers(source, counted)


@pytest.mark.parametrize("k", [1, 3, N])
@pytest.mark.parametrize("torch", [False, True], ids=["numpy", "torch"])
def test_lists_hold_no_nan(torch, k):
    values = np.random.default_rng(0).standard_normal((3, N))
    values[1, 0] = np.nan
    with pytest.raises(LimnerError, match="NaN"):
        unchecked_scores(values, torch=torch).top(k)


def test_no_measure_divides_by_an_empty_tie():
    scores = Scores.from_matrix(np.eye(N), range(N), range(N))
    (placed,), _ = place(scores, [RankRequest(TRUTH)])
    tied = placed.tied.copy()
    tied[3] = 0
    with pytest.raises(LimnerError, match="query '3'.*no candidates.*NaN"):
        replace(placed, tied=tied)


@pytest.mark.parametrize("device", [None, "cpu"], ids=["numpy", "torch"])
def test_an_overflowing_product_gives_no_number(device):
    if device:
        pytest.importorskip("torch", reason="torch is not installed")
    rows = np.random.default_rng(0).standard_normal((N, 4))
    rows[:, 0] = 1e20
    rows[0, 1] = -1e20
    sides = Embeddings(range(N), rows), Embeddings(range(N), rows * [1, 1e20 / 1e19, 1, 1])
    with pytest.raises(LimnerError, match="overflows single precision"):
        evaluate(Scores.from_embeddings(*sides, similarity="dot", device=device), TRUTH)


@pytest.mark.parametrize("name", CORRECTIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_column_of_forbidden_pairs_is_last_under_every_correction(name, dtype):
    """The positive is in a column that nobody may have: it stands last of 40, not first."""
    values = np.random.default_rng(0).standard_normal((N, N)).astype(dtype)
    values[:, 5] = -np.inf
    corrected = Scores.from_matrix(values, range(N), range(N)).correct(name)
    assert not np.isnan(corrected.matrix()).any()
    assert np.isneginf(corrected.matrix()[:, 5]).all() and np.isfinite(np.delete(corrected.matrix(), 5, axis=1)).all()
    truth = Judgements.from_pairs([("3", "5")])
    (placed,), _ = place(corrected, [RankRequest(truth)])
    assert placed.above.tolist() == [N - 1] and placed.tied.tolist() == [1]
    for measure in ("MRR", "MAP", "nDCG", "MeanR"):
        assert Measure.parse(measure)(placed)[0] == pytest.approx(
            {"MRR": 1 / N, "MAP": 1 / N, "nDCG": 1 / np.log2(N + 1), "MeanR": N}[measure]
        )
