"""AdamP: Adam whose steps do not increase the norm of scale-invariant weights (Heo et al. 2021)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

DELTA = 0.1
"""Weights count as scale-invariant if the gradient is orthogonal to them up to this threshold."""
DECAY_SHARE = 0.1
"""Factor of the weight decay for such weights."""
_EPS = 1e-8
Shape = tuple[int, int]


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
        held = [(weights, group) for group in self.param_groups for weights in group["params"]
                if weights.grad is not None]  # fmt: skip
        for (weights, group), shape in zip(held, orthogonal([weights for weights, _ in held]), strict=True):
            self._move(weights, group, shape)

    def _move(self, weights: Tensor, group: dict[str, Any], shape: Shape | None) -> None:
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
        step = state["mean"] / (1 - first**number) / spread
        step = step if shape is None else projected(weights, step, shape)
        weights.mul_(1 - group["lr"] * group["weight_decay"] * (1.0 if shape is None else DECAY_SHARE))
        weights.sub_(step, alpha=group["lr"])


def orthogonal(parameters: Sequence[Tensor]) -> list[Shape | None]:
    """For each parameter the shape whose rows are orthogonal to their gradients, or None if they are not.

    All angles are computed before the first is looked at: a GPU is waited for once, not once for each parameter.

    >>> weights = nn.Parameter(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
    >>> weights.grad = torch.tensor([[0.0, 2.0], [1.0, 0.0]])
    >>> orthogonal([weights])
    [(2, -1)]
    """
    largest: list[Tensor] = []
    for weights in (each for each in parameters if each.ndim > 1):
        for shape in _shapes(weights):
            gradient = torch.zeros_like(weights) if weights.grad is None else weights.grad
            angles = cosine_similarity(gradient.reshape(shape), weights.reshape(shape), dim=1, eps=_EPS).abs()
            largest.append(angles.max().double())
    found = iter(torch.stack(largest).tolist() if largest else ())
    chosen: list[Shape | None] = []
    for weights in parameters:
        below = (
            [shape for shape in _shapes(weights) if next(found) < DELTA / math.sqrt(weights.numel() // shape[0])]
            if weights.ndim > 1
            else []
        )
        chosen.append(below[0] if below else None)
    return chosen


def projected(weights: Tensor, step: Tensor, shape: Shape) -> Tensor:
    """The step without its component along the weights, row by row of this shape.

    >>> projected(torch.tensor([[1.0, 0.0]]), torch.tensor([[3.0, 4.0]]), (1, -1))
    tensor([[0., 4.]])
    """
    held, moved = weights.reshape(shape), step.reshape(shape)
    unit = held / (held.norm(dim=1, keepdim=True) + _EPS)
    turned: Tensor = (moved - unit * (unit * moved).sum(1, keepdim=True)).reshape(weights.shape)
    return turned


def _shapes(weights: Tensor) -> tuple[Shape, Shape]:
    """Row by row, and the whole matrix as one row."""
    return (len(weights), -1), (1, -1)
