"""AdamP: Adam whose steps do not increase the norm of scale-invariant weights (Heo et al. 2021)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

DELTA = 0.1
"""Weights count as scale-invariant if the gradient is orthogonal to them up to this threshold."""
DECAY_SHARE = 0.1
"""Factor of the weight decay for such weights."""
_EPS = 1e-8


class AdamP(torch.optim.Optimizer):
    """Adam with decoupled weight decay; if a gradient is orthogonal to its weights, so is the step.

    The norm of weights before a normalisation layer has no effect: their gradients are orthogonal to them, and a plain
    step increases the norm, which makes later steps smaller. With u the step of Adam and w the weights of a row, or of
    the whole matrix, such that |cos(g, w)| < delta / sqrt(dim):

        u' = u - (w/|w| . u) w/|w|

    Args:
        parameters: The parameters to train.
        lr: Learning rate.
        betas: Decay rates of the two moments.
        weight_decay: Decoupled weight decay.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        lr: float = 1e-3,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(parameters, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: object = None) -> None:  # type: ignore[override]
        """Updates all parameters that have a gradient."""
        for group in self.param_groups:
            for weights in group["params"]:
                if weights.grad is not None:
                    self._moved(weights, group)

    def _moved(self, weights: Tensor, group: dict[str, Any]) -> None:
        gradient, state = weights.grad, self.state[weights]
        if gradient is None:
            return
        if not state:
            state |= {"step": torch.zeros(()), "mean": torch.zeros_like(weights), "square": torch.zeros_like(weights)}
        first, second = group["betas"]
        state["step"] += 1
        number = float(state["step"])
        state["mean"].lerp_(gradient, 1 - first)
        state["square"].mul_(second).addcmul_(gradient, gradient, value=1 - second)
        spread = (state["square"] / (1 - second**number)).sqrt() + _EPS
        step, share = projected(weights, gradient, state["mean"] / (1 - first**number) / spread)
        weights.mul_(1 - group["lr"] * group["weight_decay"] * share)
        weights.sub_(step, alpha=group["lr"])


def projected(weights: Tensor, gradient: Tensor, step: Tensor) -> tuple[Tensor, float]:
    """The step without its component along scale-invariant weights, and their factor of the weight decay.

    >>> weights, gradient = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 2.0]])
    >>> projected(weights, gradient, torch.tensor([[3.0, 4.0]]))
    (tensor([[0., 4.]]), 0.1)
    """
    if weights.ndim < 2:
        return step, 1.0
    for shape in ((len(weights), -1), (1, -1)):
        held = weights.reshape(shape)
        angles = cosine_similarity(gradient.reshape(shape), held, dim=1, eps=_EPS).abs()
        if float(angles.max()) < DELTA / math.sqrt(held.shape[1]):
            unit = held / (held.norm(dim=1, keepdim=True) + _EPS)
            moved = step.reshape(shape)
            return (moved - unit * (unit * moved).sum(1, keepdim=True)).reshape(weights.shape), DECAY_SHARE
    return step, 1.0
