"""Losses: each equal to a slow loop, gradients checked, and what belongs together never pushed apart."""

from __future__ import annotations

import numpy as np
import pytest

from limner.core.errors import LimnerError, UnknownName

torch = pytest.importorskip("torch", reason="training needs torch")
torch.set_num_threads(1)

from limner.systems import LOSSES  # noqa: E402
from limner.systems.towers.losses import loss  # noqa: E402

MARGIN = 0.2
CASES = ["sum", "max", "semi-hard", "knn", "adaptive", "knn-1", "knn-5", "knn-1000"]


def chosen(case):
    name, _, k = case.partition("-") if case.startswith("knn") else (case, "", "")
    return loss(name, margin=MARGIN, **({"k": int(k)} if k else {}))


def slow(case: str, scores: np.ndarray, positives: np.ndarray) -> float:
    """The formulas of the docstrings, one pair and one negative at a time."""
    total = 0.0
    for s, p in ((scores, positives), (scores.T, positives.T)):
        for anchor in range(s.shape[0]):
            for partner in range(s.shape[1]):
                if p[anchor, partner]:
                    negative_scores = [s[anchor, negative] for negative in range(s.shape[1]) if not p[anchor, negative]]
                    total += of_pair(case, s[anchor, partner], negative_scores)
    return total


def of_pair(case: str, positive_score: float, negative_scores: list[float]) -> float:
    ordered = sorted(
        (max(0.0, MARGIN - positive_score + negative_score) for negative_score in negative_scores), reverse=True
    )
    if case == "sum":
        return sum(ordered)
    if case == "semi-hard":
        return sum(
            MARGIN - positive_score + negative
            for negative in negative_scores
            if positive_score - MARGIN < negative < positive_score
        )
    if case == "adaptive":
        squares = sum(h * h for h in ordered)
        k = max(1, round(sum(ordered) ** 2 / squares)) if squares else 1
        return sum(ordered[:k]) / k
    k = {"max": 1, "knn": 3}.get(case) or int(case.partition("-")[2])
    return sum(ordered[:k])


def batch(seed: int, *, kind: str):
    """Scores, and positives: one text each, images that occur twice, five texts per image, or anything."""
    rng = np.random.default_rng(seed)
    shape = {"pairs": (7, 7), "twice": (8, 8), "captions": (3, 15), "any": (6, 9), "all": (3, 4)}[kind]
    positives = {
        "pairs": lambda: np.eye(7, dtype=bool),
        "twice": lambda: np.equal.outer(np.arange(8) // 2, np.arange(8) // 2),
        "captions": lambda: np.equal.outer(np.arange(3), np.arange(15) // 5),
        "any": lambda: rng.random((6, 9)) < 0.3,
        "all": lambda: np.ones((3, 4), dtype=bool),
    }[kind]()
    return rng.uniform(-0.4, 0.6, shape), positives


@pytest.mark.parametrize("kind", ["pairs", "twice", "captions", "any", "all"])
@pytest.mark.parametrize("case", CASES)
def test_a_loss_is_what_a_slow_loop_says(case, kind):
    for seed in range(5):
        scores, positives = batch(seed, kind=kind)
        value = float(chosen(case)(torch.tensor(scores), torch.tensor(positives)))
        assert value == pytest.approx(slow(case, scores, positives), abs=1e-12)
        assert (value > 0) == (kind != "all"), "where everything belongs together there is nothing to push away"


@pytest.mark.parametrize("kind", ["pairs", "twice", "captions"])
@pytest.mark.parametrize("case", CASES)
def test_gradients_are_right(case, kind):
    scores, positives = batch(3, kind=kind)
    score_tensor = torch.tensor(scores, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda s: chosen(case)(s, torch.tensor(positives)), (score_tensor,), eps=1e-7, atol=1e-5
    )


@pytest.mark.parametrize("case", CASES)
def test_what_belongs_together_is_never_pushed_apart(case):
    scores, positives = batch(1, kind="twice")
    score_tensor = torch.tensor(scores, requires_grad=True)
    chosen(case)(score_tensor, torch.tensor(positives)).backward()
    assert (score_tensor.grad[torch.tensor(positives)] <= 0).all(), "a positive's score is only ever raised"
    assert (score_tensor.grad[~torch.tensor(positives)] >= 0).all()


@pytest.mark.parametrize("case", CASES)
def test_good_scores_cost_nothing(case):
    positives = torch.eye(6, dtype=torch.bool)
    assert float(chosen(case)(positives.double(), positives)) == 0


def test_knn_lies_between_max_and_sum():
    scores, positives = (torch.tensor(a) for a in batch(0, kind="pairs"))
    with_max, with_knn, with_sum = (float(chosen(case)(scores, positives)) for case in ("max", "knn", "sum"))
    assert with_max < with_knn < with_sum
    assert with_max == float(chosen("knn-1")(scores, positives))
    assert with_sum == pytest.approx(float(chosen("knn-1000")(scores, positives)))


def test_the_other_direction_costs_the_same():
    scores, positives = (torch.tensor(a) for a in batch(0, kind="captions"))
    for name in LOSSES:
        turned = loss(name)(scores.T, positives.T)
        assert float(turned) == pytest.approx(float(loss(name)(scores, positives)))


def test_a_loss_of_ones_own_needs_no_registration():
    scores, positives = (torch.tensor(a) for a in batch(0, kind="pairs"))
    assert float(loss(f"{__name__}:halved")(scores, positives)) == float(loss("sum")(scores, positives)) / 2
    assert float(loss(halved)(scores, positives)) == float(loss("sum")(scores, positives)) / 2


def halved(scores, positives, *, margin):
    return loss("sum", margin=margin)(scores, positives) / 2


@pytest.mark.parametrize("k", [1, 3, 4, 9])
def test_infinite_scores_of_pairs_that_do_not_belong_together_are_borne(k):
    scores, positives = torch.tensor([[0.9, -torch.inf, 0.8, 0.1], [0.1, 0.5, 0.2, -torch.inf]]), torch.eye(2, 4) > 0
    value = loss("knn", k=k)(scores, positives)
    assert torch.isfinite(value)
    if k >= 3:
        assert float(value) == pytest.approx(float(loss("sum")(scores, positives)))


def test_bad_input_is_refused():
    scores, positives = torch.zeros(2, 3), torch.eye(2, dtype=torch.bool)
    with pytest.raises(LimnerError, match=r"\(2, 3\) with positives of shape \(2, 2\)"):
        loss("max")(scores, positives)
    with pytest.raises(LimnerError, match="booleans"):
        loss("max")(scores, torch.zeros(2, 3))
    with pytest.raises(LimnerError, match="two matrices"):
        loss("knn", k=9)(torch.tensor(0.0), torch.tensor(True))
    with pytest.raises(LimnerError, match="k=0"):
        loss("knn", k=0)(torch.zeros(2, 2), positives)
    with pytest.raises(LimnerError, match="margin=0"):
        loss("knn", margin=0)
    with pytest.raises(UnknownName, match="did you mean 'max'"):
        loss("maxx")
