"""What `proofs/captions.py` counts as a verb."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

SMILING = [("a", "x"), ("smiling", "v"), ("girl", "n"), ("is", "v"), ("sitting", "v")]
LEMMAS = {"smiling": "smile", "is": "be", "sitting": "sit", "has": "have"}


@pytest.fixture
def proof(request, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(Path(__file__).parents[2] / "proofs"), *sys.path])
    return importlib.import_module(request.param)


@pytest.mark.parametrize("proof", ["captions"], indirect=True)
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (SMILING, [{"smile", "be", "sit"}, {"smile", "sit"}, {"smile", "sit"}, {"sit"}]),
        ([("there", "x"), ("is", "v"), ("a", "x"), ("dog", "n")], [{"be"}, {"be"}, set(), set()]),
        ([("a", "x"), ("dog", "n")], [set()] * 4),
    ],
)
def test_four_ways_of_counting_verbs(proof, words, expected):
    assert [proof.verbs(words, LEMMAS.get, counted) for counted in proof.COUNTED] == expected


@pytest.mark.parametrize("proof", ["captions"], indirect=True)
def test_shares_without_a_verb_and_with_static_ones_only(proof):
    captions = [SMILING, SMILING[2:], [("a", "x"), ("dog", "n")], [("there", "x"), ("is", "v")]]
    assert proof.shares(captions, LEMMAS.get, "every verb") == (25.0, 0.0)
    assert proof.shares(captions, LEMMAS.get, "helping verbs left out") == (25.0, 25.0)
