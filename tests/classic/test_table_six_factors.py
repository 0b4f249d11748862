"""`proofs/table_six_factors.py`: effects and counts over cells made for the test, and one search for all settings."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from limner.systems.classic.selection import Setting

SHIFTS = {"kernels": 0.5, "corpus": 0.0, "settings": 4.0}


@pytest.fixture
def factors(proof_script):
    return proof_script("table_six_factors")


@pytest.fixture
def found(factors):
    """Tri5 loses by the fewest settings, the two variants do not; kernels add half a point to the variants."""
    rng = np.random.default_rng(0)
    base = rng.choice([0.0, 50.0], 400)
    cells = list(product(factors.KERNELS, factors.CORPORA, factors.SETTINGS))
    held = {}
    for task in factors.TASKS:
        noise = {name: rng.normal(scale=4, size=400) for name in ("Tri5-ic", "Tri5-BNC+ic")}
        held["Tri5", task] = {c: base - 4.0 * (c[2] == factors.SETTINGS[-1]) for c in cells}
        for name, each in noise.items():
            held[name, task] = {c: base + each - each.mean() + 0.5 * (c[0] == "cut") for c in cells}
    return held


def test_an_effect_is_the_mean_over_the_other_factors(factors, found):
    for factor, shift in SHIFTS.items():
        effect = factors.effect(factors.mean_gain(found, "i2t"), factor)
        assert effect.shape == (400,) and effect.mean() == pytest.approx(shift)
    assert factors.effect(found["Tri5", "t2i"], "settings").mean() == pytest.approx(-4.0)


def test_variants_are_counted_where_their_gain_is_beyond_chance(factors, found):
    counted = factors.number(found, "i2t")
    assert len(counted) == 12
    assert {number for cell, number in counted.items() if cell[2] == factors.SETTINGS[-1]} == {2}
    assert {number for cell, number in counted.items() if cell[0] == "exact" and cell[2] == "all"} == {0}


def test_claims_name_the_factor_that_does_it(factors, found):
    claims = [claim for claim in factors.claims(found) if "annotation" in claim.claim]
    assert [claim.claim.partition(",")[0] for claim in claims[:3]] == list(factors.FACTORS)
    assert claims[2].met and claims[2].ours == pytest.approx(4.0, abs=0.1) and not claims[1].met
    assert (claims[3].ours, claims[3].reference) == (2, 2)
    text = factors.table(found)
    assert text.count("of 2 |") == 24 and "| settings: d = 1, p = 2, kappa up to 1 instead of all | search |" in text


def test_the_corpus_is_told_of_variants_that_use_one_only(factors, found):
    for cell, values in found["Tri5-BNC+ic", "i2t"].items():
        found["Tri5-BNC+ic", "i2t"][cell] = values + 3.0 * (cell[1] == factors.CORPORA[1])
    assert factors.effect(factors.mean_gain(found, "i2t", "corpus"), "corpus").mean() == pytest.approx(3.0)
    without = {key: each for key, each in found.items() if "BNC" not in key[0]}
    assert list(factors.factors(without)) == ["kernels", "settings"] and "corpus:" not in factors.table(without)
    assert not any(claim.claim.startswith("corpus") for claim in factors.claims(without))


def test_kinds_of_settings_are_parts_of_each_other(factors):
    every = [Setting(kappa, 10, d, p) for kappa in (0.1, 1.0, 5.0) for d in (1.0, 5.0) for p in (2.0, 3.0)]
    sizes = [sum(wanted(each) for each in every) for wanted in factors.FEWER.values()]
    assert sizes == [12, 6, 2]


def test_only_variants_with_bnc_in_their_name_need_the_corpus(factors):
    from table_seven import SIMILARITIES

    needing = {name for name in SIMILARITIES if factors.needs_corpus(name)}
    assert needing == {name for name in SIMILARITIES if "BNC" in name} and not factors.needs_corpus("Tri5")
    assert {*factors.VARIANTS} <= {*SIMILARITIES}
