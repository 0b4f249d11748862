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

    one, second = (torch.nn.Parameter(torch.ones(4, 3)) for _ in range(2))
    ours = _stepped(AdamP([one], lr=0.1), one, loss)
    torch.testing.assert_close(ours, _stepped(torch.optim.Adam([second], lr=0.1), second, loss), rtol=1e-4, atol=1e-5)


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


def _oracle(weights, gradients, *, rate, decay, betas=(0.9, 0.999), delta=0.1):
    """AdamP as its paper writes it, for one parameter after the other, in double precision."""
    weights, mean, square = weights.double(), 0.0, 0.0
    for number, gradient in enumerate((each.double() for each in gradients), start=1):
        mean = betas[0] * mean + (1 - betas[0]) * gradient
        square = betas[1] * square + (1 - betas[1]) * gradient**2
        step = mean / (1 - betas[0] ** number) / ((square / (1 - betas[1] ** number)).sqrt() + 1e-8)
        share = 1.0
        for rows in (len(weights), 1) if weights.ndim > 1 else ():
            weight_rows, slope = weights.reshape(rows, -1), gradient.reshape(rows, -1)
            cosines = [abs(torch.dot(w, g)) / (w.norm() * g.norm()) for w, g in zip(weight_rows, slope, strict=True)]
            if max(cosines) < delta / weight_rows.shape[1] ** 0.5:
                unit = weight_rows / weight_rows.norm(dim=1, keepdim=True)
                moved = step.reshape(rows, -1)
                step = (moved - (moved * unit).sum(1, keepdim=True) * unit).reshape(weights.shape)
                share = 0.1
                break
        weights = weights * (1 - rate * decay * share) - rate * step
    return weights


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_all_parameters_at_once_move_as_one_after_the_other(decay):
    torch.manual_seed(0)
    shapes = (4, 30), (1, 7), (16,), (8, 3, 3, 3), (12, 1, 5, 5), ()
    weights = [torch.nn.Parameter(torch.randn(shape)) for shape in shapes]
    weights[3].data = weights[3].data.to(memory_format=torch.channels_last)
    no_gradient = torch.nn.Parameter(torch.ones(2, 2))
    turned = {0, 4}  # made orthogonal to their weights: as before a normalisation
    optimiser, gradients = AdamP([*weights, no_gradient], lr=0.05, weight_decay=decay), []
    start = [each.detach().clone() for each in weights]
    for number in range(4):
        gradients.append([torch.randn(shape) for shape in shapes])
        for place, (each, slope) in enumerate(zip(weights, gradients[-1], strict=True)):
            if place in turned:
                weight_rows, rows = each.detach().reshape(len(each), -1), slope.reshape(len(each), -1)
                rows -= weight_rows * ((rows * weight_rows).sum(1) / weight_rows.square().sum(1))[:, None]
            if number or place != 1:  # the second parameter has its first gradient in the second step
                each.grad = slope.clone()
        optimiser.step()
    for place, (each, began) in enumerate(zip(weights, start, strict=True)):
        steps = [row[place] for row in gradients[place == 1 :]]
        torch.testing.assert_close(each.double(), _oracle(began, steps, rate=0.05, decay=decay), rtol=1e-5, atol=1e-6)
    assert torch.equal(no_gradient, torch.ones(2, 2))


def test_towers_learn_with_adamp_and_a_cosine_and_resume(tmp_path):
    collection, features = world()
    options = {"features": features, "optimizer": "adamp", "schedule": "cosine", "tensorboard": False, **OPTIONS}
    model = limner.train(collection, "towers", epochs=4, **options)
    history = model.trained["history"]
    assert history[-1]["loss"] < history[0]["loss"]
    rates = [row["rate"] / history[0]["rate"] for row in history]
    np.testing.assert_allclose(rates, [1, (1 + 2**-0.5) / 2, 0.5, (1 - 2**-0.5) / 2])
    limner.train(collection, "towers", epochs=4, checkpoint_dir=str(tmp_path), **options)
    with pytest.raises(LimnerError, match="was made with epochs=4, this run has 5"):
        limner.train(collection, "towers", epochs=5, checkpoint_dir=str(tmp_path), **options)


@pytest.mark.parametrize("option", [{"optimizer": "adamq"}, {"schedule": "cosinus"}])
def test_unknown_names_are_refused(option):
    collection, features = world()
    with pytest.raises(UnknownName, match="did you mean"):
        limner.train(collection, "towers", features=features, **option)
