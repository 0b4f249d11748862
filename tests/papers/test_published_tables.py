"""The published tables agree with themselves and with each other, and a model finds its place."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from limner import stats
from limner.core.errors import LimnerError
from limner.papers import published_tables as published

SHARED = ("eccv mAP@R", "eccv RP", "eccv R@1", "cxc R@1", "coco-1k R@1", "coco-5k R@1")
TIED = ("PCME (CutMix pre-trained)", "VSE∞ (WSL grid)")


def recomputed(scores: np.ndarray | None = None) -> np.ndarray:
    """Table 5 from Table 4, D.2 and D.3."""
    columns = published.table("eccv-5").columns
    table = published.scores()
    values = table.values if scores is None else scores
    return stats.correlation_matrix(values[:, [table.columns.index(name) for name in columns]])


@pytest.mark.parametrize("name", published.NAMES)
def test_every_table_loads_whole(name: str) -> None:
    table = published.table(name)
    rows = {"eccv-4": 25, "eccv-d2": 25, "eccv-d3": 25, "eccv-5": 12}.get(name, 5)
    assert table.values.shape == (rows, len(table.columns)) == table.doubtful.shape
    assert len(set(table.labels)) == rows
    assert np.isfinite(table.values).all()
    assert "Chun et al. 2022" in table.notes


def test_a_table_cannot_be_written_to() -> None:
    for table in (published.table("eccv-4"), published.scores()):
        with pytest.raises(ValueError, match="read-only"):
            table.values[0, 0] = 1


def test_the_same_models_in_the_same_order() -> None:
    assert published.table("eccv-4").labels == published.table("eccv-d2").labels == published.table("eccv-d3").labels
    assert published.table("eccv-4").fields == published.table("eccv-d3").fields


@pytest.mark.parametrize("measure", SHARED)
def test_the_mean_of_both_directions_is_table_4(measure: str) -> None:
    means = (published.table("eccv-d2").column(measure) + published.table("eccv-d3").column(measure)) / 2
    np.testing.assert_allclose(means, published.table("eccv-4").column(measure), atol=0.005 + 1e-9, rtol=0)


def test_rsum_is_the_sum_of_the_six_recalls() -> None:
    names = [f"coco-1k R@{k}" for k in (1, 5, 10)]
    sums = sum(published.table(t).column(name) for t, name in itertools.product(("eccv-d2", "eccv-d3"), names))
    np.testing.assert_allclose(sums, published.table("eccv-4").column("coco-1k rsum"), atol=0.05 + 1e-9, rtol=0)


def test_doubtful_are_exactly_the_values_that_do_not_average_to_table_4() -> None:
    image_to_text, text_to_image, mean = (published.table(name) for name in ("eccv-d2", "eccv-d3", "eccv-4"))
    off = np.abs((image_to_text.column("PMRP") + text_to_image.column("PMRP")) / 2 - mean.column("PMRP"))
    np.testing.assert_array_equal(off > 0.005 + 1e-9, image_to_text.doubtful[:, image_to_text.columns.index("PMRP")])
    assert image_to_text.doubtful.sum() == 11
    assert not text_to_image.doubtful.any()
    assert not mean.doubtful.any()
    assert np.abs(image_to_text.column("PMRP") - image_to_text.column("cxc R@1"))[14:].max() < 2.8  # as the note says
    assert f"{off[14:].min():.2f}, {off[14:].max():.1f}" == "0.25, 11.8"


def test_table_5_is_symmetric() -> None:
    table = published.table("eccv-5")
    assert table.labels == table.columns
    np.testing.assert_array_equal(table.values, table.values.T)


def test_table_5_comes_out_of_table_4_within_rounding() -> None:
    """62 of 66 directly; the four others, all of PMRP, are within 0.0062 because two models print the same PMRP."""
    off = np.abs(recomputed() - published.table("eccv-5").values)
    cells = [(i, j) for i, j in zip(*np.triu_indices(12, 1), strict=True) if off[i, j] > 0.005]
    names = published.table("eccv-5").columns
    assert {names[i] for i, _ in cells} == {"coco-1k R@1", "coco-1k R@10", "coco-1k rsum", "eccv R@1"}
    assert {names[j] for _, j in cells} == {"PMRP"}
    assert off.max() < 0.0062


def test_table_5_comes_out_whole_when_the_one_tie_is_resolved() -> None:
    """With VSE∞ (WSL grid) before PCME (CutMix), which print the same PMRP, all 66 cells are within rounding."""
    table = published.scores()
    pmrp = table.columns.index("PMRP")
    first, second = (table.labels.index(name) for name in TIED)
    assert table.values[first, pmrp] == table.values[second, pmrp]
    assert len(np.unique(table.values[:, pmrp])) == 24  # the only tie of the column
    worst = {}
    for order, shift in (("PCME first", +0.001), ("VSE first", -0.001)):
        values = table.values.copy()
        values[first, pmrp] += shift
        worst[order] = np.abs(recomputed(values) - published.table("eccv-5").values).max()
    assert worst["VSE first"] <= 0.005 < worst["PCME first"]


def test_preferences_give_the_scores_of_the_text_under_other_labels() -> None:
    """Bradley-Terry by plain iteration (Zermelo), the diagonal left out."""
    wins = published.table("eccv-d1").values.copy()
    np.fill_diagonal(wins, 0)
    strength = np.ones(5)
    for _ in range(20_000):
        strength = wins.sum(1) / ((wins + wins.T) / (strength[:, None] + strength[None, :])).sum(1)
        strength /= strength.sum()
    np.testing.assert_allclose(100 * strength, [10.66, 4.89, 70.85, 13.15, 0.44], atol=0.01)


def test_preference_totals_are_as_the_note_says() -> None:
    counts = published.table("eccv-d1").values
    totals = (counts + counts.T)[np.triu_indices(5, 1)]
    np.testing.assert_array_equal(totals, [320, 320, 296, 344, 320, 296, 344, 296, 344, 296])
    assert counts.sum() == 3200


def test_bias_of_one_proposer_is_that_of_the_text() -> None:
    table = published.table("eccv-e1a")
    off = np.abs(table.column("PVSE") - table.column("All"))
    assert (round(off.mean(), 1), round(off[0], 1), round(off[1:].mean(), 1)) == (9.5, 0.1, 11.8)


def test_each_proposer_favours_itself_most() -> None:
    for name in ("eccv-e1a", "eccv-e1b"):
        values = published.table(name).values[:, :5]
        np.testing.assert_array_equal(values.argmax(axis=0)[:4], range(4))
        assert values[4, 4] == values[:, 4].max()  # CLIP ties with ViLT in recall


@pytest.mark.parametrize("direction", published.DIRECTIONS)
def test_every_published_model_is_placed_where_it_stands(direction: published.Direction) -> None:
    table = published.scores(direction)
    for position, measure in enumerate(table.columns):
        trusted = table.values[~table.doubtful[:, position], position]
        for label, value in zip(table.labels, table.column(measure), strict=True):
            [placement] = published.place({measure: value}, direction=direction)
            assert placement.rank == 1 + (trusted > value).sum()
            assert (
                placement.models == len(trusted) == len(placement.better) + len(placement.equal) + len(placement.worse)
            )
            assert (label in dict(placement.equal)) != table.doubtful[table.labels.index(label), position]


def test_neighbours_are_nearest_first() -> None:
    [placement] = published.place({("eccv", "mAP@R"): 0.4228}, unit="fraction")
    assert placement.equal == (("VSRN", 42.28),)
    assert placement.better == (("VSE∞ (WSL grid)", 42.41),)
    assert placement.worse[:2] == (("PCME (CutMix pre-trained)", 41.74), ("VSRN + AOQ", 40.94))
    assert str(placement).endswith(
        "rank 2 of 26, below VSE∞ (WSL grid) (42.41), level with VSRN (42.28), above PCME (CutMix pre-trained) (41.74)"
    )


def test_best_and_worst_have_one_neighbour() -> None:
    best, worst = published.place({"rsum": 600.0, "PMRP": 2.0})
    assert (best.measure, best.rank, best.better) == ("coco-1k rsum", 1, ())
    assert (worst.rank, worst.worse, worst.better[0]) == (26, (), ("VSE0", 46.95))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: published.table("eccv-44"), "did you mean 'eccv-4'"),
        (lambda: published.scores("both"), "unknown direction 'both'"),
        (lambda: published.table("eccv-4").column("eccv mAP"), "did you mean 'eccv mAP@R'"),
        (lambda: published.table("eccv-4").row("Blip"), "BLIP"),
        (lambda: published.place({"eccv MAP@R": 40}), "did you mean 'eccv mAP@R'"),
        (lambda: published.place({"coco-1k rsum": 40}, direction="i2t"), "unknown column '.*' of eccv-d2"),
        (lambda: published.place({"eccv mAP@R": 0.4, "rsum": 5.1}), "unit='fraction'"),
        (lambda: published.place({"eccv mAP@R": float("nan")}), "got nan for 'eccv mAP@R'"),
        (lambda: published.place({"eccv mAP@R": 40}, unit="points"), "expected 'percent' or 'fraction'"),
    ],
)
def test_mistakes_are_named(call, message: str) -> None:
    with pytest.raises(LimnerError, match=message.replace("(", r"\(")):
        call()
