"""What `proofs/captions.py` counts as a verb, and how OpenNLP's tags become limner's."""

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


@pytest.mark.parametrize("proof", ["captions"], indirect=True)
def test_a_verb_of_either_tagger_counts(proof):
    noun, verb = [("dogs", "n"), ("race", "n")], [("dogs", "n"), ("race", "v")]
    found = [
        proof.verbs(proof.either(*pair), {"race": "race"}.get, "every verb") for pair in ((noun, verb), (verb, noun))
    ]
    assert found == [{"race"}, {"race"}] and not proof.verbs(proof.either(noun, noun), LEMMAS.get, "every verb")
    helped = proof.either([("a", "x"), ("has", "v")], [("sitting", "v")])
    assert proof.verbs(helped, LEMMAS.get, "helping verbs left out") == {"have", "sit"}, "the two do not touch"


@pytest.mark.parametrize("proof", ["opennlp"], indirect=True)
def test_published_lemmas_correct_a_tag_where_only_a_verb_has_them(proof):
    found = [("Dog", "NN"), ("jumping", "NN"), ("with", "IN"), ("arms", "NNS"), ("striped", "JJ")]
    assert proof.corrected(found, "dog jump with arm striped")[1] == ("jumping", "VBG")
    assert [kind for _, kind in proof.corrected(found, "dog jump with arm striped")] == ["NN", "VBG", "IN", "NNS", "JJ"]
    assert proof.corrected(found, "dog jump") == proof.corrected(found, None) == found, "lines of another length"


@pytest.mark.parametrize("proof", ["opennlp"], indirect=True)
def test_tags_of_opennlp_stand_at_the_words_of_limner(proof):
    pairs = [("Dogs", "NNS"), ("dogs", "VBZ"), ("a", "DT"), ("snow-board", "JJ"), (".", ".")]
    assert proof.aligned(["dogs", "dogs", "a", "snowboard"], pairs) == ["n", "v", "x", "n"]
    proof.learn(["Dogs dogs a snow-board ."], [pairs])
    assert proof.tag(["dogs", "dogs", "a", "snowboard"]) == ["n", "v", "x", "n"]
