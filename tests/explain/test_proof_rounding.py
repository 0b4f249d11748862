"""`proofs/text_only_rounding.py`: weights rounded and moved, the sample, texts that a limit would cut."""

from __future__ import annotations

import numpy as np
import pytest

import limner


@pytest.fixture
def rounding(proof_script):
    pytest.importorskip("torch", reason="the scripts that train import torch")
    return proof_script("text_only_rounding")


@pytest.fixture
def weights():
    return np.random.default_rng(1).normal(scale=0.05, size=(200, 30)).astype(np.float32)


def test_bfloat16_is_that_of_torch(rounding, weights):
    import torch

    held = np.concatenate([weights.ravel(), np.float32([0, -0.0, 1, 1.00390625, 1.01171875, -3.0])])
    np.testing.assert_array_equal(rounding.brain(held), torch.from_numpy(held).bfloat16().float().numpy())


def test_weights_move_at_random_as_far_as_half_precision_rounds(rounding, weights):
    change = {name: how(weights) - weights for name, how in rounding.changes().items()}
    none, half, brain, moved = (np.abs(each) for each in change.values())
    steps = np.spacing(np.abs(weights.astype(np.float16))).astype(np.float32)
    assert none.max() == 0 and half.max() > 0
    assert (moved <= 0.5001 * steps).all() and moved.mean() == pytest.approx(half.mean(), rel=0.03)
    assert brain.mean() == pytest.approx(8 * half.mean(), rel=0.05)
    np.testing.assert_array_equal(list(rounding.changes().values())[3](weights) - weights, list(change.values())[3])


def test_the_float_weights_of_a_folder_are_changed_and_nothing_else(rounding, weights, tmp_path):
    from safetensors.numpy import load_file, save_file

    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "config.json").write_text("{}")
    save_file({"w": weights, "places": np.arange(5)}, tmp_path / "one" / "model.safetensors")
    made = rounding.changed_folder(tmp_path / "one", rounding.half, tmp_path / "two")
    found = load_file(made / "model.safetensors")
    assert (made / "config.json").read_text() == "{}"
    np.testing.assert_array_equal(found["w"], rounding.half(weights))
    np.testing.assert_array_equal(found["places"], np.arange(5))


def test_every_sample_of_a_size_is_the_same_and_keeps_the_order(rounding):
    world = limner.load("scenes", images=40)
    one, other = (rounding.drawn(world, 15).images.ids for _ in range(2))
    order = list(world.images.ids)
    assert list(one) == list(other) == sorted(one, key=order.index) and len(one) == 15
    assert list(rounding.drawn(world, 100).images.ids) == order


def test_the_saved_row_is_that_of_rounded_weights_by_cosine(rounding):
    row = rounding.saved_row()
    assert list(row) == list(rounding.NAMES) and row["R@1"] == pytest.approx(44.18)
    near = {name: value + 0.1 for name, value in row.items()}
    first, second = rounding.whole(near)
    assert first.met and first.ours == pytest.approx(0.1) and not second.met
    assert not next(rounding.whole({**near, "R@10": near["R@10"] + 0.2})).met
