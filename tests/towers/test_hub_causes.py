"""`proofs/hub_causes.py`: its ranks, corrections and shares beside limner's own, and what it changes one at a time."""

from __future__ import annotations

import numpy as np
import pytest

import limner
from limner import Embeddings, Judgements, Scores


@pytest.fixture
def causes(proof_script):
    pytest.importorskip("torch", reason="the scripts that train import torch")
    return proof_script("hub_causes")


def side(causes, images=30, seed=0, noise=0.9):
    rng = np.random.default_rng(seed)
    rows = causes.unit(rng.normal(size=(images, 8)))
    texts = causes.unit(np.repeat(rows, 5, axis=0) + noise * rng.normal(size=(5 * images, 8)))
    return causes.Side(rows, texts)


def scored(one):
    """The same as limner's scores, and what belongs together."""
    images, texts = [f"i{at}" for at in range(len(one.images))], [f"t{at}" for at in range(len(one.texts))]
    scores = Scores.from_embeddings(Embeddings(images, one.images), Embeddings(texts, one.texts))
    pairs = [(images[at // 5], text) for at, text in enumerate(texts)]
    return scores, Judgements.from_pairs(pairs, queries=images, candidates=texts, name="own")


def shown(scores, right, **how):
    """Each direction by itself."""
    found = {}
    for direction, own, true in (("i2t", scores, right), ("t2i", scores.T, right.T)):
        report = limner.evaluate(own.correct(**how) if how else own, true, measures="R@1 R@5 R@10")
        found |= {(direction, str(each.measure)): 100 * each.value for each in report.results}
    return found


def test_hits_are_those_of_limner(causes):
    one = side(causes)
    found = {key: float(each.mean()) for key, each in causes.hits(one.scores).items()}
    assert found == pytest.approx(shown(*scored(one))) and len(found) == 6


@pytest.mark.parametrize(("at", "how"), [(1, {"how": "csls", "k": 10}), (0, {"how": "inverted_softmax", "beta": 30})])
def test_gains_are_those_of_limners_own_corrections(causes, at, how):
    one = side(causes)
    plain, after = shown(*scored(one)), shown(*scored(one), **how)
    found = {key: float(each.mean()) for key, each in causes.gained(one, causes.WAYS[at]).items()}
    assert found == pytest.approx({key: after[key] - plain[key] for key in plain}, abs=1e-3)
    assert any(found.values())


def test_hubs_are_those_of_limner_and_copies_tell_an_image_apart(causes):
    from hub_counts import apart, counts, shares, turned

    one = side(causes)
    held = limner.Hubs.of(scored(one)[0].T.top(1), k=1).counts
    np.testing.assert_array_equal(counts(one), held)
    np.testing.assert_array_equal(apart(one).reshape(-1, 5).sum(axis=1), held)
    assert turned(one).sum() == 5 * 30 and set(turned(one) % 5) == {0}
    found = shares(np.array([0, 0, 1, 1, 3, 5, 12]))
    assert found == pytest.approx({"1": 40.0, ">=2": 60.0, ">=5": 40.0, ">=10": 20.0})


def test_copies_among_the_neighbours_are_fewer_images(causes):
    from hub_counts import csls

    one = side(causes, images=12)
    copied = np.repeat(one.images, 5, axis=0) @ one.texts.T
    np.testing.assert_allclose(np.repeat(csls(one.scores, copies=5), 5, axis=0), csls(copied), atol=1e-6)


def test_pools_have_every_image_at_most_once_with_its_own_captions(causes):
    one = side(causes, images=31)
    pools = one.pools(10)
    assert [len(each.images) for each in pools] == [10, 10, 10]
    rows = np.concatenate([each.images for each in pools])
    assert len(np.unique(rows, axis=0)) == 30
    for each in pools:
        place = int(np.flatnonzero((one.images == each.images[3]).all(axis=1))[0])
        np.testing.assert_array_equal(each.texts[15:20], one.texts[5 * place : 5 * place + 5])
    assert len(one.pools(31)) == len(one.pools(40)) == 1


def test_images_moved_to_their_captions_and_towers_together_are_stronger(causes):
    one = side(causes, images=60)
    recalls = [float(causes.hits(one.moved(share).scores)["t2i", "R@1"].mean()) for share in (0.0, 0.4, 2.0)]
    assert recalls == sorted(recalls) and recalls[0] < recalls[2]
    np.testing.assert_allclose(one.moved(0.0).scores, one.scores, atol=1e-6)
    other = side(causes, images=60, seed=5)
    both = causes.Side.together([one, other])
    np.testing.assert_allclose(both.scores, (one.scores + other.scores) / 2, atol=1e-6)


def test_shares_at_a_strength_lie_between_those_of_the_rows_around_it(causes):
    shares = [dict.fromkeys(causes.NEAREST, value) for value in (10.0, 30.0, 99.0)]
    rows = [causes.Row(thing, "", recall, each) for thing, recall, each in zip(
        ("nothing", "towers together", "pool"), (20.0, 40.0, 30.0), shares, strict=True)]  # fmt: skip
    assert causes.at_strength(rows, 30.0) == pytest.approx(dict.fromkeys(causes.NEAREST, 20.0))
    assert causes.at_strength(rows, 50.0)[">=5"] == pytest.approx(30.0)


def test_the_chance_of_both_makes_intervals_wider(causes):
    models = [{"test": side(causes, 60, seed), "dev": side(causes, 60, seed + 9)} for seed in (1, 2)]
    way = causes.WAYS[1]
    own, wide = causes.gains([each["test"] for each in models], way), causes.with_chance_of_both(models, way)
    for key, each in own.items():
        assert wide[key].value == each.value and wide[key].error > 1.2 * each.error > 0
    claims = list(causes.gain_claims({causes.FULL: models}, {("nothing", causes.FULL): own}))
    assert [claim.reference for claim in claims] == [6, None, 12]
    rows = [causes.row("nothing", "", [each["test"] for each in models])]
    assert [claim.goal for claim in causes.hub_claims(rows)] == ["<= 5", *["within 5"] * 4]
    assert "of 6" in causes.tables(rows, {("nothing", causes.FULL): own})
