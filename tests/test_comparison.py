"""Comparing systems: tests, marks, correction, agreement of measures."""

import json

import numpy as np
import pytest

import toys
from limner import LimnerError, compare, evaluate
from limner.stats import holm, mcnemar


@pytest.fixture(scope="module")
def reports():
    toy = toys.collection()
    made = {"good": 0.6, "fair": 1.2, "poor": 2.5}
    return [evaluate(toys.scores(toy, noise=noise), toy, name=name) for name, noise in made.items()]


def test_two_systems(reports):
    comparison = reports[0].compare(reports[2], samples=2000)
    line = comparison.line("R@1", direction="i2t")
    difference = line.differences[0]
    assert difference.value == pytest.approx(line.values[0] - line.values[1])
    assert difference.interval.low <= difference.value <= difference.interval.high
    assert difference.significant() and line.beaten(0) == [1] and line.beaten(1) == []
    a, b = (r.find("R@1", direction="i2t").values for r in (reports[0], reports[2]))
    assert difference.test == mcnemar(a, b)  # hits of independent queries


def test_lower_ranks_win(reports):
    assert reports[0].compare(reports[2], samples=2000).line("MedR", direction="t2i").beaten(0) == [1]


def test_captions_of_an_image_are_swapped_together(reports):
    method = reports[0].compare(reports[1], samples=500).line("R@1", direction="t2i").differences[0].test.method
    assert "randomisation" in method and "cluster" in method


def test_many_systems_are_corrected_together(reports):
    line = compare(reports, samples=2000).line("MRR", direction="i2t")
    raw = [d.test.p_value for d in line.differences]
    assert [d.p_adjusted for d in line.differences] == pytest.approx(list(holm(raw)))
    assert line.beaten(0) == [1, 2] and line.between(0, 2).value > line.between(0, 1).value


@pytest.mark.parametrize("test", ["randomisation", "sign", "wilcoxon"])
def test_a_test_by_name(reports, test):
    assert compare(reports[:2], test=test, samples=500).line("MRR", direction="i2t").differences[0].test.p_value < 0.05


def test_a_system_does_not_differ_from_itself(reports):
    for line in reports[0].compare(reports[0], samples=200).lines:
        assert line.differences[0].value == 0 and line.differences[0].p_adjusted == 1


def test_agreement_of_measures(reports):
    names, tau = compare(reports, samples=200).agreement
    assert len(names) == len(tau) and np.allclose(np.diag(tau), 1) and (tau > 0.9).all()  # all agree on the order here
    with pytest.raises(LimnerError, match="at least 3 systems, got 2"):
        _ = compare(reports[:2], samples=200).agreement


def test_forms(reports, tmp_path):
    comparison = compare(reports, samples=200)
    assert json.loads(comparison.save(tmp_path / "c.json").read_text())["systems"] == ["good", "fair", "poor"]
    assert comparison.save(tmp_path / "c.csv").read_text().count("\n") == 1 + 3 * len(comparison.lines)
    assert "| a good |" in comparison.save(tmp_path / "c.md").read_text()
    assert r"\toprule" in comparison.save(tmp_path / "c.tex").read_text()
    assert "significantly better than" in str(comparison) and "* significant" in str(compare(reports[:2], samples=200))


def test_refused(reports):
    with pytest.raises(LimnerError, match="two or more"):
        compare(reports[:1])
    with pytest.raises(LimnerError, match="unknown test 't-test'"):
        compare(reports, test="t-test")
    other = toys.collection(n=20)
    with pytest.raises(LimnerError, match="evaluate all systems on the same collection"):
        reports[0].compare(evaluate(toys.scores(other), other))
    with pytest.raises(LimnerError, match="share no measure"):
        reports[0].compare(evaluate(toys.scores(other), other, measures="P@7"))
