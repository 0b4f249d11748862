"""What proofs compute themselves: rankings by distance, and intervals of what an attack or several turns change."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

import limner
from limner.explain.blind_baselines import Attack


@pytest.fixture
def proof(request, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(Path(__file__).parents[2] / "proofs"), *sys.path])
    return importlib.import_module(request.param)


def vectors(texts):
    """Vectors whose lengths differ, different for every text."""
    rows = [np.random.default_rng(list(text.encode())).normal(size=5) * len(text) for text in texts]
    return np.array(rows, dtype=np.float32)


@pytest.mark.parametrize("proof", ["text_only_encoders"], indirect=True)
def test_candidates_by_distance_rank_as_counted_one_by_one(proof):
    world = limner.load("scenes", images=40)
    query_texts, remaining = proof.parted(world, 0)
    captions = dict(zip(world.texts.ids, world.texts.values, strict=True))
    queries = vectors([captions[text] for text in query_texts]).astype(float)
    images = vectors([" ".join(captions[text] for text in each) for each in remaining]).astype(float)
    far = np.linalg.norm(queries[:, None] - images[None], axis=2)
    ranks = (far < np.diagonal(far)[:, None] - 1e-9).sum(axis=1) + 1
    assert len(set(captions.values())) > 40 and len(np.unique(np.round(far, 6))) == far.size
    figures = proof.by_distance(world, vectors)
    assert figures["MRR"] == pytest.approx(100 * (1 / ranks).mean(), abs=1e-3)
    assert figures["R@10"] == pytest.approx(100 * (ranks <= 10).mean())
    assert figures["MRR"] != pytest.approx(proof.measured(world, vectors, "joined")["MRR"], abs=0.1)


@pytest.mark.parametrize("proof", ["adversarial"], indirect=True)
def test_the_interval_of_what_falls_is_above_zero_only_if_enough_falls(proof):
    def fallen(lower, higher, unchanged):
        after = np.array([2.0] * lower + [0.5] * higher + [1.0] * unchanged)
        none = np.zeros(0)
        return proof.fallen(Attack("size", (), len(after), np.ones(len(after)), after, none, none))

    assert fallen(40, 10, 50).estimate == pytest.approx(30)
    assert fallen(40, 10, 50).low > 0 > fallen(11, 9, 80).low
    assert fallen(10, 40, 50).high < 0


@pytest.mark.parametrize("proof", ["turns"], indirect=True)
def test_answers_of_an_image_stay_together_in_the_interval(proof):
    images = [f"image {at // 10}" for at in range(200)]
    difference = proof.Answers(images, np.arange(200) % 2 == 0).more_than(
        proof.Answers(images, np.arange(200) % 4 == 0)
    )
    assert difference.estimate == pytest.approx(25) and difference.unit == "clusters" and difference.n == 20
    first_half = np.repeat(np.arange(20) < 10, 10)
    wide = proof.Answers(images, first_half).more_than(proof.Answers(images, np.zeros(200, bool)))
    assert wide.high - wide.low > difference.high - difference.low


@pytest.mark.parametrize("proof", ["text_only"], indirect=True)
def test_vectors_are_kept_in_parts_so_that_a_stopped_run_goes_on(proof, tmp_path, monkeypatch):
    monkeypatch.setattr(proof, "PART", 2)
    calls = []

    def stopped(texts):
        calls.append(list(texts))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return vectors(texts)

    texts, cache = ["one", "two", "three", "one", "four", "five"], tmp_path / "kept.npz"
    with pytest.raises(KeyboardInterrupt):
        proof.Remembered(stopped, cache)(texts)
    assert calls == [["one", "two"], ["three", "four"]]
    np.testing.assert_array_equal(proof.Remembered(stopped, cache)(texts), vectors(texts))
    assert calls[2:] == [["three", "four"], ["five"]]
