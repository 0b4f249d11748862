"""Intervals of ranks and of uneven clusters: what they cover by simulation, and where there are none."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtri

import limner
from limner import stats
from limner.core.ids import Ids
from limner.evaluation.measures import Measure
from limner.evaluation.results import LEAST, Result

POOL = 5000
HARD, EASIER = (1.29, 2.47), (-0.5, 1.5)
"""Logarithms of ranks: their mean and spread. The first is that of a CLIP model on the 5,000 images of COCO."""


def ranks(normal: np.ndarray, middle: float, spread: float) -> np.ndarray:
    return np.ceil(np.exp(middle + spread * normal)).clip(1, POOL)


def expected_rank(middle: float, spread: float) -> float:
    return float(ranks(ndtri((np.arange(2_000_000) + 0.5) / 2_000_000), middle, spread).mean())


def result(values: np.ndarray, measure: str = "MeanR", **traits: object) -> Result:
    queries = Ids((f"q{n}" for n in range(len(values))), what="query")
    return Result("pairs", "t2i", Measure.parse(measure), queries, values, **{"pool": POOL, **traits})


@pytest.mark.parametrize(("queries", "highest"), [(20, 1.0), (200, 0.985), (1000, 0.975)])
def test_mean_ranks_are_covered(queries, highest):
    rng, truth = np.random.default_rng(1), expected_rank(*HARD)
    covered = [truth in result(ranks(rng.standard_normal(queries), *HARD)).interval for _ in range(400)]
    assert 0.925 <= np.mean(covered) <= highest


@pytest.mark.parametrize("queries", [50, 200])
def test_differences_of_mean_ranks_are_covered(queries):
    rng, truth = np.random.default_rng(2), expected_rank(*HARD) - expected_rank(*EASIER)
    covered = []
    for _ in range(400):
        ours = rng.standard_normal(queries)
        theirs = 0.95 * ours + np.sqrt(1 - 0.95**2) * rng.standard_normal(queries)
        covered.append(truth in result(ranks(ours, *HARD)).difference(result(ranks(theirs, *EASIER))))
    assert np.mean(covered) >= 0.92


def test_shares_with_uneven_clusters_are_covered():
    """Few clusters hold most queries, and the queries of a cluster mostly hit or miss together."""
    rng, covered = np.random.default_rng(3), []
    for _ in range(400):
        clusters = np.repeat(np.arange(50), np.minimum(rng.zipf(1.8, 50), 200))
        luck = np.sqrt(0.95) * rng.standard_normal(50)[clusters] + np.sqrt(0.05) * rng.standard_normal(len(clusters))
        covered.append(0.3 in stats.mean_interval(luck > ndtri(0.7), clusters=clusters))
    assert np.mean(covered) >= 0.935


def test_even_clusters_count_in_full():
    """The effective number of equal clusters is their number: 2.093 is Student's t for 19 degrees of freedom."""
    interval = stats.mean_interval(np.full(100, 1.0), clusters=np.repeat(np.arange(20), 5))
    assert 1 - interval.low == pytest.approx(2.093**2 / (20 + 2.093**2), rel=1e-3)


@pytest.mark.parametrize("measure", ["MeanR", "MedR"])
@pytest.mark.parametrize("clusters", [None, 3])
def test_few_queries_or_clusters_have_no_interval_of_ranks(measure, clusters):
    rng = np.random.default_rng(4)
    for units, some in ((LEAST - 1, False), (LEAST, True)):
        owner = None if clusters is None else np.repeat(np.arange(units), clusters)
        summary = result(rng.integers(1, 90, units * (clusters or 1)) * 1.0, measure, clusters=owner)
        assert (summary.interval is not None) == (summary.difference(replace(summary)) is not None) == some
        assert bool(summary.why_none) != some
    assert result(np.ones(3), "R@1").interval is not None


def test_a_median_of_few_or_uneven_clusters_has_a_wider_interval():
    rng = np.random.default_rng(6)
    for clusters, narrowest, widest in (
        (np.repeat(np.arange(24), [40, *[1] * 23]), 1.2, 9.0),
        (np.arange(2000), 1.0, 1.01),
    ):
        values = ranks(rng.standard_normal(len(clusters)), 5, 1)
        ours = result(values, "MedR", clusters=clusters).interval
        plain = stats.bootstrap(values, statistic="median", clusters=clusters)
        assert narrowest <= (ours.high - ours.low) / (plain.high - plain.low) <= widest and ours.level == 0.95


def test_a_mean_rank_without_a_number_of_candidates_has_no_interval():
    unknown = result(np.arange(1.0, 41.0), pool=None)
    assert unknown.interval is None and "candidates" in unknown.why_none
    assert result(np.arange(1.0, 41.0), "MedR", pool=None).interval is not None
    assert result(np.ones(40), pool=1).interval.low == 1


def scores(queries: int) -> tuple[limner.Scores, limner.Judgements]:
    names = [f"{n}" for n in range(queries)]
    matrix = np.random.default_rng(5).standard_normal((queries, queries)) + np.eye(queries)
    return limner.Scores.from_matrix(matrix, names, names), limner.Judgements.from_pairs((n, n) for n in names)


def test_the_report_says_why():
    report = limner.evaluate(*scores(12), measures="R@1 MedR MeanR")
    assert "no interval of MedR, MeanR: fewer than 20 queries or clusters" in str(report)
    assert str(report).count("no interval") == 1
    enough = limner.evaluate(*scores(25), measures="R@1 MedR MeanR")
    assert "no interval" not in str(enough) and enough.find("MeanR").interval.high < 25
    assert any("no interval of MedR" in note for note in report.compare(report).notes)


def test_a_saved_mean_rank_keeps_its_interval(tmp_path):
    report = limner.evaluate(*scores(25), measures="MeanR")
    saved = report.save(tmp_path / "report.json")
    interval = limner.Report.load(saved).find("MeanR").interval
    assert interval == report.find("MeanR").interval
    content = json.loads(saved.read_text())
    del content["results"][0]["pool"]
    (tmp_path / "old.json").write_text(json.dumps(content))
    assert limner.Report.load(tmp_path / "old.json").find("MeanR").interval == interval
    content["results"][0]["pool"] = 0
    saved.write_text(json.dumps(content))
    with pytest.raises(limner.LimnerError, match="damaged|not a"):
        limner.Report.load(saved)
