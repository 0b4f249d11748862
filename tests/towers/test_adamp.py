"""AdamP: Adam where weights have a length, and steps at right angles where they have not; the cosine schedule."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="training needs torch")

from tower_toys import OPTIONS, world  # noqa: E402

import limner  # noqa: E402
from limner.core.errors import LimnerError, UnknownName  # noqa: E402
from limner.systems.towers.adamp import AdamP  # noqa: E402


def _stepped(optimiser, weights, loss, steps=5):
    for _ in range(steps):
        optimiser.zero_grad()
        loss(weights).backward()
        optimiser.step()
    return weights.detach()


def test_weights_with_a_length_of_their_own_move_as_with_adam():
    def loss(weights):
        return (weights - 3).square().sum()

    one, other = (torch.nn.Parameter(torch.ones(4, 3)) for _ in range(2))
    ours = _stepped(AdamP([one], lr=0.1), one, loss)
    torch.testing.assert_close(ours, _stepped(torch.optim.Adam([other], lr=0.1), other, loss), rtol=1e-4, atol=1e-5)


def test_directions_are_turned_and_hardly_lengthened():
    torch.manual_seed(0)
    start, target = torch.randn(6, 40), torch.randn(6, 40)

    def loss(weights):
        return -torch.nn.functional.cosine_similarity(weights, target).sum()

    lengths = {}
    for kind in (AdamP, torch.optim.Adam):
        weights = torch.nn.Parameter(start.clone())
        moved = _stepped(kind([weights], lr=0.05), weights, loss, steps=1)
        step = moved - start
        cosines = torch.nn.functional.cosine_similarity(step, start).abs().max()
        lengths[kind] = float(cosines)
    assert lengths[AdamP] < 1e-5 < lengths[torch.optim.Adam]


def test_towers_learn_with_adamp_and_a_cosine_and_resume(tmp_path):
    whole, features = world()
    how = {"features": features, "optimizer": "adamp", "schedule": "cosine", "tensorboard": False, **OPTIONS}
    model = limner.train(whole, "towers", epochs=4, **how)
    history = model.trained["history"]
    assert history[-1]["loss"] < history[0]["loss"]
    rates = [row["rate"] / history[0]["rate"] for row in history]
    np.testing.assert_allclose(rates, [1, (1 + 2**-0.5) / 2, 0.5, (1 - 2**-0.5) / 2])
    limner.train(whole, "towers", epochs=4, checkpoint_dir=str(tmp_path), **how)
    with pytest.raises(LimnerError, match="was made with epochs=4, this run has 5"):
        limner.train(whole, "towers", epochs=5, checkpoint_dir=str(tmp_path), **how)


@pytest.mark.parametrize("option", [{"optimizer": "adamq"}, {"schedule": "cosinus"}])
def test_unknown_names_are_refused(option):
    whole, features = world()
    with pytest.raises(UnknownName, match="did you mean"):
        limner.train(whole, "towers", features=features, **option)
